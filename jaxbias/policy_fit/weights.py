"""Are the logged weights right? Against the arms that were pulled, and against the probabilities of a declared policy."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from jaxbias._core.errors import ArgumentError
from jaxbias.history import History, check_history
from jaxbias.likelihood import replayed_log_probs
from jaxbias.policies import Policy, check_policy
from jaxbias.policy_fit.check import TINY
from jaxbias.policy_fit.sample_ratio import SampleRatio, sample_ratio

TOLERANCE = 0.01  # between a logged weight and the exact one: what a thousand draws of Thompson sampling leave typically
MOST_SHOWN = 10  # rows with weights that are wrong


class WrongWeight(NamedTuple):
    """A logged weight that is not the policy's probability.

    Fields:
        row: a step, or a batch where there is one row for each batch; from 0.
        arm: the one that is furthest off in this row.
        logged, exact: its weight, and its probability under the policy.
    """

    row: int
    arm: int
    logged: float
    exact: float


class AgainstPolicy(NamedTuple):
    """The logged weights against the probabilities of a declared policy.

    Fields:
        largest: difference between a weight and its exact probability.
        typical: root mean squared difference, over all rows and arms.
        rows: how many were compared, steps or batches.
        wrong: how many of them have a difference above the tolerance.
        tolerance: that difference.
        worst: the rows that are furthest off, the furthest first.
        log_prob, policy_log_prob: of the choices, by the weights and by the policy: the larger one explains them better.
    """

    largest: float
    typical: float
    rows: int
    wrong: int
    tolerance: float
    worst: tuple[WrongWeight, ...]
    log_prob: float
    policy_log_prob: float

    @property
    def agrees(self) -> bool:
        """Whether no row is off by more than the tolerance."""
        return self.wrong == 0


class WeightsCheck(NamedTuple):
    """What is known about logged weights.

    Fields:
        ratio: against the arms that were pulled; None where only the probability of the pulled arm was logged.
        policy: against a declared policy; None where none was declared.
    """

    ratio: SampleRatio | None
    policy: AgainstPolicy | None

    @property
    def fits_pulls(self) -> bool:
        """Whether nothing in the pulls speaks against the weights."""
        return self.ratio is None or self.ratio.agrees


def check_weights(
    history: History, weights: Float[np.ndarray, "rows arms"], policy: Policy | None = None, *, tolerance: float = TOLERANCE
) -> WeightsCheck:
    """Checks the logged probabilities of every arm against the pulls, and against a policy where one is declared.

        z_k = sum over steps of (1{k pulled} - p_k) / sqrt(sum p_k (1 - p_k))        chi-square = r' C^+ r
        r_k = sum over steps of (1{k pulled} - p_k)         C = diag(sum p) - sum p p'

    Arms with a variance below 5 are pooled; if that is still below 5 they are tested by Chernoff's bound for their number.

    Arguments:
        history: one log.
        weights: (steps, arms), or with batches (batches, arms). Those of forced pulls are not read.
        policy: how the arms are said to have been chosen.
        tolerance: how far a weight may be from the policy's probability.

    >>> import jax, numpy as np, jaxbias as jb
    >>> history = jb.simulate(jax.random.key(0), jb.Uniform(), jb.Normal(), [0.0, 0.0], num_steps=400)
    >>> check_weights(history, np.full((400, 2), 0.5), jb.Uniform()).ratio.agrees
    True
    >>> wrong = check_weights(history, np.tile([0.7, 0.3], (400, 1)), jb.Uniform())
    >>> wrong.ratio.agrees, wrong.policy.agrees, round(wrong.policy.largest, 3)
    (False, False, 0.2)
    """
    history = check_history(history)
    given, which = _rows(history, np.asarray(weights, np.float64))
    free = np.flatnonzero(~np.asarray(history.forced_steps))
    against = None if policy is None else _against_policy(history, given, which, free, policy, tolerance)
    return WeightsCheck(sample_ratio(given[which[free]], np.asarray(history.arms)[free]), against)


def check_propensities(
    history: History, propensity: Float[np.ndarray, " steps"], policy: Policy, *, tolerance: float = TOLERANCE
) -> AgainstPolicy:
    """The recorded probabilities of the pulled arms alone against those of a policy.

    Arguments:
        history: one log.
        propensity: (steps,), of the arm that was pulled. Those of forced pulls are not read.
        policy: how the arms are said to have been chosen.
        tolerance: how far a propensity may be from the policy's probability.

    >>> import jax, numpy as np, jaxbias as jb
    >>> history = jb.simulate(jax.random.key(0), jb.Uniform(), jb.Normal(), [0.0, 0.0], num_steps=40)
    >>> check_propensities(history, np.full(40, 0.4), jb.Uniform()).wrong
    38
    """
    history = check_history(history)
    given = np.full((history.num_steps, history.num_arms), np.nan)
    steps = np.arange(history.num_steps)
    given[steps, np.asarray(history.arms)] = propensity
    free = np.flatnonzero(~np.asarray(history.forced_steps))
    return _against_policy(history, given, steps, free, policy, tolerance)


def policy_weights(history: History, policy: Policy) -> Float[np.ndarray, "rows arms"]:
    """The exact probability of every arm before every step, (steps, arms), or before every batch, (batches, arms).

    NaN where every pull of the row was forced.

    >>> import jax, jaxbias as jb
    >>> policy = jb.EpsilonGreedy(epsilon=0.2)
    >>> history = jb.simulate(jax.random.key(0), policy, jb.Normal(), [1.0, 0.0], num_steps=4)
    >>> policy_weights(history, policy).round(2).tolist()
    [[nan, nan], [nan, nan], [0.9, 0.1], [0.9, 0.1]]
    """
    history = check_history(history)
    exact = np.exp(np.asarray(replayed_log_probs(check_policy(policy, history.num_arms), history), np.float64))
    forced = np.asarray(history.forced_steps)
    if history.batch_sizes is None:
        return np.where(forced[:, None], np.nan, exact)
    starts = np.cumsum(history.batch_sizes) - np.asarray(history.batch_sizes)
    all_forced = np.logical_and.reduceat(forced, starts)
    return np.where(all_forced[:, None], np.nan, exact[starts])


def _rows(history: History, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The weights, and which of their rows each step has."""
    sizes, steps = history.batch_sizes, history.num_steps
    if history.arms.ndim != 1:
        raise ArgumentError("history", history, "one log", problem=f"has arms of shape {history.arms.shape}")
    if sizes is not None and weights.shape == (len(sizes), history.num_arms):
        return weights, np.repeat(np.arange(len(sizes)), sizes)
    if weights.shape != (steps, history.num_arms):
        by_batch = "" if sizes is None else f" or {(len(sizes), history.num_arms)}"
        allowed = f"of shape {(steps, history.num_arms)}{by_batch}, one for each arm"
        raise ArgumentError("weights", weights, allowed, problem=f"has shape {weights.shape}")
    return weights, np.arange(steps)


def _against_policy(
    history: History, weights: np.ndarray, which: np.ndarray, free: np.ndarray, policy: Policy, tolerance: float
) -> AgainstPolicy:
    exact = np.exp(np.asarray(replayed_log_probs(check_policy(policy, history.num_arms), history), np.float64))
    rows, first = np.unique(which[free], return_index=True)
    logged, right = weights[rows], exact[free[first]]
    off = np.nan_to_num(np.abs(logged - right))  # of some logs the weights of other arms are not known
    by_row = off.max(axis=1, initial=0)
    order = [place for place in np.argsort(-by_row, kind="stable")[:MOST_SHOWN] if by_row[place] > tolerance]
    arms = np.asarray(history.arms)[free]
    log_of = lambda values: float(np.sum(np.log(np.maximum(values[np.arange(len(free)), arms], TINY))))
    return AgainstPolicy(
        largest=float(by_row.max(initial=0)),
        typical=float(np.sqrt(np.mean(np.square(off)[~np.isnan(logged)]))) if off.size else 0.0,
        rows=len(rows),
        wrong=int(np.sum(by_row > tolerance)),
        tolerance=tolerance,
        worst=tuple(
            WrongWeight(int(rows[place]), int(arm := off[place].argmax()), float(logged[place, arm]), float(right[place, arm]))
            for place in order
        ),
        log_prob=log_of(weights[which[free]]),
        policy_log_prob=log_of(exact[free]),
    )
