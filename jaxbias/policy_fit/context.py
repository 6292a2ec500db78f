"""Whether a policy looked at a column that it is not said to use.

Two alternatives for each column. The log-odds of the arms given the policy's own probabilities p depend on the column,

    probability of arm k  ~  p_k exp(beta_k x)

which is tested at beta = 0 by the score test and fitted by Newton's method; or, for a column with few values, a policy of its own
ran for each value, which saw the rewards of the rows with that value only.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from jaxbias.likelihood import replayed_log_probs
from jaxbias.policy_fit.alternatives import Alternative, Cause, Replay, with_noise

MOST_LEVELS = 12  # values of a column that are told apart
FEW_LEVELS = 6  # values of a column for which a policy of its own is replayed
MOST_PARAMETERS = 60  # log-odds that are fitted at once
ROUNDS = 25  # of Newton's method, which needs fewer than ten
RIDGE = 1e-3  # where a value was always followed by the same arm, the log-odds have no maximum without it


def context_alternatives(replay: Replay, columns: Mapping[str, np.ndarray]) -> Iterator[Alternative]:
    """What each column explains."""
    for name, values in columns.items():
        levels = _levels(values)
        features = _features(values, levels)[replay.steps]
        features = features[:, np.ptp(features, axis=0) > 0]
        if 0 < features.shape[1] * (replay.num_arms - 1) <= MOST_PARAMETERS:
            yield _tilted(replay, name, features)
        if levels is not None and 1 < levels.max() + 1 <= FEW_LEVELS and _can_be_divided(replay):
            yield _separate(replay, name, levels)


def _levels(values: np.ndarray) -> Int[np.ndarray, " rows"] | None:
    """Which of its few values each row has; None for a column with many."""
    found, levels = np.unique([str(value) for value in values.tolist()], return_inverse=True)
    return levels if len(found) <= MOST_LEVELS else None


def _features(values: np.ndarray, levels: Int[np.ndarray, " rows"] | None) -> Float[np.ndarray, "rows features"]:
    """One for each value but the first; or the number in standard deviations. Labels with many values have none.

    A column that only grows is a time or a number of rows, and no context.
    """
    if levels is not None:
        return (levels[:, None] == np.arange(1, levels.max(initial=0) + 1)).astype(float)
    if not np.issubdtype(values.dtype, np.number) or not np.isfinite(values).all() or (np.diff(values) >= 0).all():
        return np.zeros((len(values), 0))
    return ((values - values.mean()) / (values.std() or 1.0))[:, None]


def _tilted(replay: Replay, name: str, features: Float[np.ndarray, "choices features"]) -> Alternative:
    """The log-odds of the arms with a term in the features."""
    from scipy.special import chdtrc  # here, because it takes a third of a second

    features = features - features.mean(axis=0)
    start = with_noise(replay.log_probs, replay.num_arms)
    chosen = (replay.arms[:, None] == np.arange(replay.num_arms)).astype(float)
    weights = np.zeros((features.shape[1], replay.num_arms - 1))
    slope, curvature = _derivatives(start, features, chosen, weights)
    statistic = float(slope @ np.linalg.lstsq(curvature, slope, rcond=None)[0])
    for _ in range(ROUNDS):
        slope, curvature = _derivatives(start, features, chosen, weights)
        curvature = curvature + RIDGE * len(features) * np.eye(len(slope))
        move = np.linalg.solve(curvature, slope - RIDGE * len(features) * weights.ravel())
        weights = weights + (move / max(1.0, float(np.abs(move).max()))).reshape(weights.shape)
    p_value = float(chdtrc(weights.size, statistic))
    log_probs = _tilt(start, features, weights)
    return Alternative(Cause.CONTEXT, {}, log_probs, weights.size, column=name, p_value=p_value)


def _tilt(start: np.ndarray, features: np.ndarray, weights: np.ndarray) -> Float[np.ndarray, "choices arms"]:
    tilted = start + np.pad(features @ weights, ((0, 0), (1, 0)))
    return tilted - np.logaddexp.reduce(tilted, axis=1, keepdims=True)


def _derivatives(start: np.ndarray, features: np.ndarray, chosen: np.ndarray, weights: np.ndarray) -> tuple[Any, Any]:
    """The slope of the log-likelihood in the weights, and its curvature without the sign."""
    probs = np.exp(_tilt(start, features, weights))[:, 1:]
    slope = features.T @ (chosen[:, 1:] - probs)
    within = probs[:, :, None] * (np.eye(probs.shape[1]) - probs[:, None, :])
    curvature = np.einsum("np,nq,nkl->pkql", features, features, within, optimize=True)
    return slope.ravel(), curvature.reshape(slope.size, slope.size)


def _can_be_divided(replay: Replay) -> bool:
    """Whether every row is looked at, one after the other."""
    return replay.history.batch_sizes is None and getattr(replay.history, "seen_at", None) is None


def _separate(replay: Replay, name: str, levels: Int[np.ndarray, " rows"]) -> Alternative:
    """A policy of its own for each value; the first pull of each arm there is taken for forced."""
    arms, rewards = np.asarray(replay.history.arms), np.asarray(replay.history.rewards)
    log_probs = np.empty_like(replay.at_rows)
    for level in range(levels.max() + 1):
        rows = np.flatnonzero(levels == level)
        order = np.concatenate([rows, np.flatnonzero(levels != level)])  # all rows, so that nothing is compiled again
        divided = dataclasses.replace(replay.history, arms=arms[order], rewards=rewards[order], draws=None, held_out=None)
        found = np.array(replayed_log_probs(replay.policy, divided), np.float64)[: len(rows)]
        found[np.unique(arms[rows], return_index=True)[1]] = replay.uniform
        log_probs[rows] = found
    p_value = _tilted(replay, name, _features(levels, levels)[replay.steps]).p_value
    return Alternative(Cause.CONTEXT, {}, log_probs[replay.steps], levels.max() + 1, column=name, p_value=p_value)
