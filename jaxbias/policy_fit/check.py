"""Does the policy fit the log? Its choices replayed, and set against what the policy would have chosen there.

At every step that was not forced the policy gives each arm a probability, read off the log so far. If the log comes from the
policy, its choices are draws from these probabilities, whatever the rewards are: no mean needs to be known. So the choices are
drawn again, thousands of times, on the same path, and the total log-probability of the real ones must look like one of them
(Dawid's prequential principle, 1984). Too low: the log goes against the policy. Too high: it follows the policy more closely than
the policy's own randomness allows.
"""

import enum
import math
from statistics import NormalDist
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from jaxbias._core.door import public
from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import compiled
from jaxbias._core.lengths import pad_axis, padded_length
from jaxbias.history import History, check_history
from jaxbias.likelihood import forgive_rounding, replayed_log_probs
from jaxbias.policies import BasePolicy, Policy, check_policy

REDRAWS = 4000  # a p-value of a thousandth is then four of them
FEWEST_REDRAWS = 200  # enough for a picture
DRAWS_IN_ALL = 2**26  # steps x redraws: a second or two; a log so long that fewer redraws are left has Normal sums
EDGES = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)  # of the calibration table
ROUNDING = 1e-6  # of a probability that went through a logarithm in float32: a tenth is to be on its own edge
ENOUGH = 5.0  # variance of a bin's count from which it is taken as Normal
EXACT = 1e-9  # of the expected total: a deviation below it is rounding
TINY = 1e-300  # in place of a probability of 0, which has no logarithm
UNLIKELY = 1e-3  # a p-value below this is called a misfit: a log that fits is accused once in five hundred times (two tests)
DOUBTFUL = 1e-2  # below this the log is called unusual for the policy: a right one is in one of fifty logs (two tests)
MOST_SURPRISING = 5  # steps that are shown


class CalibrationRow(NamedTuple):
    """Steps and arms to which the policy gave a probability from `low` to `high`, and how often these were chosen."""

    low: float
    high: float
    count: int
    predicted: float  # the average probability
    chosen: float  # the share that was chosen
    stderr: float  # of that share, if the policy is right


class Surprise(NamedTuple):
    """A choice that the policy makes rarely or never."""

    step: int
    arm: int
    probability: float
    likeliest_arm: int
    likeliest_probability: float


class Verdict(enum.StrEnum):
    """What the replay says about the declared policy."""

    FITS = "fits"
    UNLIKELY = "unlikely"  # it could be chance, once in a thousand times
    IMPOSSIBLE = "impossible"  # there is a choice that the policy never makes
    NOTHING_TO_CHECK = "nothing to check"  # every pull was forced


class PolicyFit(NamedTuple):
    """How well a policy explains the choices of a log.

    Fields:
        verdict: whether the policy explains the choices.
        log_prob: total log-probability of the choices that were not forced.
        expected, deviation: mean and standard deviation of that total, if the policy is right.
        simulated: the totals of redrawn choices.
        p_value: how often the total is at least as far out, on either side.
        calibration, calibration_p_value: predicted and actual choices; the p-value is of its worst row, times the rows.
        choices: how many were not forced.
        impossible: how many of them have probability zero.
        surprises: the least likely choices, the least likely first.
    """

    verdict: Verdict
    log_prob: float
    expected: float
    deviation: float
    simulated: Float[np.ndarray, " redraws"]
    p_value: float
    calibration: tuple[CalibrationRow, ...]
    calibration_p_value: float
    choices: int
    impossible: int
    surprises: tuple[Surprise, ...]

    @property
    def fits(self) -> bool:
        """Whether nothing speaks against the policy."""
        return self.verdict in (Verdict.FITS, Verdict.NOTHING_TO_CHECK)

    @property
    def doubtful(self) -> bool:
        """Whether the log is unusual for the policy, though not so much that it is called a misfit."""
        return self.verdict == Verdict.FITS and min(self.p_value, self.calibration_p_value) < DOUBTFUL


@public
def check_fit(key: PRNGKeyArray, history: History, policy: Policy) -> PolicyFit:
    """Replays the policy over one log and says whether its choices can be the policy's.

    Arguments:
        key: a `jax.random.key`.
        history: one log.
        policy: how the arms are said to have been chosen.

    >>> import jax, jaxbias as jb
    >>> history = jb.simulate(jax.random.key(0), jb.Greedy(tau=1.0), jb.Normal(), [1.0, 0.0], num_steps=200)
    >>> jb.check_fit(jax.random.key(1), history, jb.Greedy(tau=1.0)).verdict
    <Verdict.FITS: 'fits'>
    >>> jb.check_fit(jax.random.key(1), history, jb.Greedy()).verdict
    <Verdict.IMPOSSIBLE: 'impossible'>
    """
    policy = check_policy(policy, history.num_arms)
    history = check_history(history, two_rewards=True)
    if history.arms.ndim != 1:
        raise ArgumentError("history", history, "one log", problem=f"has arms of shape {history.arms.shape}")
    steps = np.flatnonzero(~np.asarray(history.forced_steps))
    arms = np.asarray(history.arms)[steps]
    log_probs = _replay(policy, history, steps, arms)
    probs = np.exp(log_probs)
    if history.allocation == "shares":
        return _check_shares(history, steps, arms, probs)
    safe = np.where(probs > 0, log_probs, 0)
    chosen = np.take_along_axis(log_probs, arms[:, None], axis=1)[:, 0]
    by_step = np.sum(probs * safe, axis=1)
    expected, variance = float(by_step.sum()), float(np.sum(probs * np.square(safe - by_step[:, None])))
    variance = 0.0 if variance <= (EXACT * expected) ** 2 else variance  # such as of equal probabilities: all totals are the same
    simulated = _redraw(key, probs, safe, expected, variance) if variance > 0 else np.full(FEWEST_REDRAWS, expected)
    rows = _calibrate(probs, arms)
    total, impossible = float(chosen.sum()), int(np.sum(~(chosen > -np.inf)))
    p_value = _two_sided(total, simulated, expected, variance**0.5)
    calibration_p_value = _worst(rows)
    return PolicyFit(
        verdict=_verdict(len(steps), impossible, p_value, calibration_p_value),
        log_prob=total,
        expected=expected,
        deviation=variance**0.5,
        simulated=simulated,
        p_value=p_value,
        calibration=rows,
        calibration_p_value=calibration_p_value,
        choices=len(steps),
        impossible=impossible,
        surprises=_surprises(steps, arms, probs, chosen),
    )


def _replay(policy: BasePolicy, history: History, steps: np.ndarray, arms: np.ndarray) -> np.ndarray:
    """The log-probabilities of the steps that were chosen. A choice between indices that rounding makes equal is no misfit."""
    log_probs = np.asarray(replayed_log_probs(policy, history), np.float64)
    if np.any(np.isneginf(log_probs[steps, arms])):
        log_probs = np.asarray(forgive_rounding(policy, history, log_probs.astype(history.rewards.dtype)), np.float64)
    return log_probs[steps]


def explains(arms: np.ndarray, log_probs: np.ndarray, least: float = UNLIKELY) -> bool:
    """Whether choices can be draws from these log-probabilities, (choices, arms): as `check_fit`, with a Normal total.

    `least` is the p-value below which they are not.
    """
    probs = np.exp(log_probs)
    safe = np.where(probs > 0, log_probs, 0)
    chosen = np.take_along_axis(log_probs, arms[:, None], axis=1)[:, 0]
    by_step = np.sum(probs * safe, axis=1)
    deviation = float(np.sum(probs * np.square(safe - by_step[:, None]))) ** 0.5
    total, expected = float(chosen.sum()), float(by_step.sum())
    equal = abs(total - expected) <= 1e-5 * max(1.0, abs(total))  # as where every choice is certain, or all are equally likely
    p_value = 1.0 if equal else _two_sided(total, np.zeros(0), expected, deviation)
    impossible = int(np.sum(~(chosen > -np.inf)))
    return _verdict(len(arms), impossible, p_value, _worst(_calibrate(probs, arms)), least) == Verdict.FITS


def _check_shares(history: History, steps: np.ndarray, arms: np.ndarray, probs: np.ndarray) -> PolicyFit:
    """A batch that was shared out has as many pulls of each arm as its share, rounded up or down in whatever way."""
    seen = history.seen_steps
    batch = np.zeros(len(steps), int) if seen is None else np.unique(seen.number[steps], return_inverse=True)[1]
    chosen = (arms[:, None] == np.arange(probs.shape[1])).astype(float)
    counts, shares = (_by_batch(batch, part) for part in (chosen, probs))
    off = np.abs(counts - shares) >= 1 + ROUNDING * shares.sum(axis=1, keepdims=True)
    wrong = off[batch].any(axis=1)
    rows = _calibrate(probs, arms)
    return PolicyFit(
        verdict=_verdict(len(steps), int(wrong.sum()), 1.0, 1.0),
        log_prob=-np.inf if wrong.any() else 0.0,
        expected=0.0,
        deviation=0.0,
        simulated=np.zeros(FEWEST_REDRAWS),
        p_value=0.0 if wrong.any() else 1.0,
        calibration=rows,
        calibration_p_value=1.0,
        choices=len(steps),
        impossible=int(wrong.sum()),
        surprises=_surprises(steps, arms, probs, np.where(wrong, -np.inf, 0.0)),
    )


def _by_batch(batch: np.ndarray, values: np.ndarray) -> np.ndarray:
    summed = np.zeros((batch.max(initial=-1) + 1, values.shape[1]))
    np.add.at(summed, batch, values)
    return summed


def _verdict(choices: int, impossible: int, p_value: float, calibration_p_value: float, least: float = UNLIKELY) -> Verdict:
    if impossible:
        return Verdict.IMPOSSIBLE
    if choices == 0:
        return Verdict.NOTHING_TO_CHECK
    return Verdict.UNLIKELY if min(p_value, calibration_p_value) < least else Verdict.FITS


def _redraw(key: PRNGKeyArray, probs: np.ndarray, log_probs: np.ndarray, expected: float, variance: float) -> np.ndarray:
    length = padded_length(len(probs))
    count = min(DRAWS_IN_ALL // length, REDRAWS)
    if count < FEWEST_REDRAWS:  # a sum of so many terms is Normal, and only a picture is made of it
        return expected + variance**0.5 * np.asarray(jax.random.normal(key, (FEWEST_REDRAWS,), jnp.result_type(float)))
    probs, log_probs = pad_axis(probs, length, 1.0, axis=0), pad_axis(log_probs, length, 0.0, axis=0)  # which adds nothing
    return np.asarray(_redrawn_totals(key, probs, log_probs, np.zeros(count, jnp.result_type(float))))


@compiled
def _redrawn_totals(key: PRNGKeyArray, probs: Any, log_probs: Any, totals: Any) -> Float[Array, " redraws"]:
    """Total log-probability of choices drawn anew at every step, added to `totals`."""

    def body(totals: Array, step: tuple[Array, Array, Array]) -> tuple[Array, None]:
        number, probs, log_probs = step
        uniform = jax.random.uniform(jax.random.fold_in(key, number), totals.shape, totals.dtype)
        ends = jnp.cumsum(probs)
        arm = jnp.sum(uniform[:, None] * ends[-1] > ends[None, :-1], axis=1)
        return totals + log_probs[arm], None

    return jax.lax.scan(body, totals, (jnp.arange(probs.shape[0]), probs, log_probs))[0]


def _two_sided(total: float, simulated: np.ndarray, expected: float, deviation: float) -> float:
    """The chance of a total at least as far out on its side, doubled."""
    if total == -np.inf:
        return 0.0
    if deviation == 0:
        return 1.0
    if len(simulated) < REDRAWS:
        return 2 * NormalDist().cdf(-abs(total - expected) / deviation)
    rounding = 1e-5 * max(1.0, abs(total))  # the same choices, summed in another order, in float32
    low, high = np.sum(simulated <= total + rounding), np.sum(simulated >= total - rounding)
    return min(1.0, 2 * (1 + float(min(low, high))) / (1 + len(simulated)))


def _calibrate(probs: np.ndarray, arms: np.ndarray) -> tuple[CalibrationRow, ...]:
    """Every arm of every step, sorted by its probability into the rows of a table."""
    if not len(arms):
        return ()
    flat = probs.ravel()
    chosen = (arms[:, None] == np.arange(probs.shape[1])).ravel()
    which = np.clip(np.searchsorted(EDGES, flat + ROUNDING, side="right") - 1, 0, len(EDGES) - 2)
    size = len(EDGES) - 1
    count, hits, predicted, variance = (
        np.bincount(which, weights=weights, minlength=size) for weights in (None, chosen, flat, flat * (1 - flat))
    )
    return tuple(
        CalibrationRow(
            low=EDGES[row],
            high=EDGES[row + 1],
            count=int(count[row]),
            predicted=float(predicted[row] / count[row]),
            chosen=float(hits[row] / count[row]),
            stderr=float(np.sqrt(max(variance[row], 0.0)) / count[row]),
        )
        for row in np.flatnonzero(count)
    )


def _worst(rows: tuple[CalibrationRow, ...]) -> float:
    """The p-value of the row that is furthest off, for as many rows as could have been it."""
    return min([1.0, *(len(rows) * _row_p_value(row) for row in rows)])


def _row_p_value(row: CalibrationRow) -> float:
    """How likely a share so far off is at most: as of a Normal where the count's variance is large, else Chernoff's bound

    P(share at least as far off) <= 2 exp(-count KL(share, predicted))
    """
    if (row.stderr * row.count) ** 2 >= ENOUGH:
        return 2 * NormalDist().cdf(-abs(row.chosen - row.predicted) / row.stderr)
    shares = ((row.chosen, row.predicted), (1 - row.chosen, 1 - row.predicted))
    divergence = sum(share * math.log(share / max(predicted, TINY)) for share, predicted in shares if share > 0)
    return min(1.0, 2 * math.exp(-row.count * max(divergence, 0.0)))


def _surprises(steps: np.ndarray, arms: np.ndarray, probs: np.ndarray, chosen: np.ndarray) -> tuple[Surprise, ...]:
    order = np.argsort(chosen, kind="stable")[:MOST_SURPRISING]
    return tuple(
        Surprise(
            step=int(steps[place]),
            arm=int(arms[place]),
            probability=float(probs[place, arms[place]]),
            likeliest_arm=int(probs[place].argmax()),
            likeliest_probability=float(probs[place].max()),
        )
        for place in order
        if chosen[place] < 0
    )
