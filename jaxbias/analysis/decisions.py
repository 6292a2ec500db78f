"""From estimates to decisions: every arm against the control, the arms that may be the best, and what the policy earned."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from jaxbias._core.chunks import only_one
from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import compiled
from jaxbias.estimators.confidence_sequence import confidence_sequence
from jaxbias.estimators.contrasts import Contrasts, contrasts
from jaxbias.estimators.inversion.estimator import estimate_of
from jaxbias.estimators.inversion.question import ask, invert, weigh
from jaxbias.estimators.shrinkage import shrinkage
from jaxbias.history import History
from jaxbias.logs import Log
from jaxbias.policies.winning import beta_win_log_probs, normal_win_log_probs
from jaxbias.rewards import Bernoulli, UnknownSigma, complete_family

MAX_ROUNDS = 3  # of paths, as in `test_inversion`
FEW_ARMS = 8  # up to which the regret has an interval, from one test for each arm that may be the best


class Value(NamedTuple):
    """What the policy earned for each step, beside uniform allocation and the best arm.

    Fields:
        earned: the average reward.
        over_uniform, over_uniform_lower, over_uniform_upper: how much more the arms that it pulled earn on average than all arms
            alike, with the interval of test inversion.
        under_best, under_best_lower, under_best_upper: how much less than the best arm, 0 at least; not a number with many arms.
    """

    earned: float
    over_uniform: float
    over_uniform_lower: float
    over_uniform_upper: float
    under_best: float
    under_best_lower: float
    under_best_upper: float


class Ahead(NamedTuple):
    """How far the arm with the largest sample mean is ahead of every other, by simulated tests.

    Fields:
        leader: that arm.
        lower, upper: (arms,), the interval of its mean less the other arm's, each by itself; not a number at the leader.
        may_be_best: the arms that are not rejected by two-sided tests that share the error, and the leader.
    """

    leader: int
    lower: np.ndarray
    upper: np.ndarray
    may_be_best: tuple[int, ...]


class Decisions(NamedTuple):
    """What a log says for a decision.

    Fields:
        control: the arm that the others are compared with; None where none was named.
        contrasts: every arm against it; None without a control.
        differs: (arms,), whether an arm is shown to differ from it, by adjusted p-values or by intervals that share the error.
        simulated: whether they are tests by simulation; otherwise they are confidence sequences, which need no policy.
        best_probability: of each arm, that it has the largest mean, given the log, under the prior of `shrinkage`; not a number
            for an arm that was never pulled.
        ahead: the tests of the leading arm against every other; None where the policy cannot be simulated.
        value: what the policy earned; None likewise.
    """

    control: int | None
    contrasts: Contrasts | None
    differs: np.ndarray | None
    simulated: bool
    best_probability: np.ndarray | None
    ahead: Ahead | None
    value: Value | None


def find_control(control: Any, log: Log) -> int | None:
    """The arm of a label; refused where there is none, or nothing to compare."""
    if control is None:
        return None
    if len(log.labels) < 2:
        raise ArgumentError(
            "control", control, problem=f"is {control!r}, and the log has one arm", remedy="there is nothing to compare"
        )
    if str(control) not in log.labels:
        some = ", ".join(log.labels[:10]) + (", ..." if len(log.labels) > 10 else "")
        raise ArgumentError("control", control, f"an arm of the log: {some}")
    arm = log.labels.index(str(control))
    if not np.any(np.asarray(log.history.arms) == arm):
        raise ArgumentError(
            "control", control, problem=f"is {control!r}, which was never pulled", remedy="choose an arm with pulls"
        )
    return arm


def shrinks(family: Any) -> bool:
    """Whether there is a posterior for this family."""
    completed = complete_family(family)
    return isinstance(completed, UnknownSigma) or completed.has_variance


def decide(
    key: PRNGKeyArray,
    history: History,
    policy: Any,
    family: Any,
    control: int | None,
    level: float,
    simulated: bool,
    num_paths: int,
    **ending: Any,
) -> Decisions:
    """All of it; `simulated` says whether the policy fits and the log is short enough for its tests, of so many paths."""
    keys, found, differs = [jax.random.fold_in(key, purpose) for purpose in range(2)], None, None
    options: Any = dict(level=level, num_paths=num_paths, **ending)
    if control is not None and simulated:
        found = contrasts(keys[0], history, policy, family, control, **options)
        differs = np.asarray(found.p_adjusted) < 1 - level
    elif control is not None:
        found = _sequence(history, family, control, level)
        together = _sequence(history, family, control, 1 - (1 - level) / max(history.num_arms - 1, 1))
        differs = (np.asarray(together.lower) > 0) | (np.asarray(together.upper) < 0)
    ahead, value = _simulated_tests(keys[1], history, policy, family, **options) if simulated else (None, None)
    return Decisions(control, found, differs, simulated, _best_probability(history, family), ahead, value)


def _sequence(history: History, family: Any, control: int, level: float) -> Contrasts:
    """Differences that hold whatever chose the arms, without p-values."""
    found = confidence_sequence(history, family, level=level, control=control)
    nothing = jnp.full_like(found.mean, jnp.nan)
    names = ("p_value", "p_less", "p_greater", "p_adjusted", "lift", "lift_lower", "lift_upper")
    return Contrasts(
        arm=jnp.arange(found.mean.shape[0]),
        control=jnp.full(found.mean.shape, control),
        difference=found.mean,
        stderr=found.stderr,
        lower=found.lower,
        upper=found.upper,
        status=found.status,
        level=level,
        adjust="none",
        alternative="two-sided",
        **dict.fromkeys(names, nothing),
    )


_wins: tuple[Callable[..., Any], Callable[..., Any]] = compiled(normal_win_log_probs), compiled(beta_win_log_probs)
_normal_wins, _beta_wins = _wins  # of NumPy arrays too


def _best_probability(history: History, family: Any) -> np.ndarray | None:
    """From the posterior of every arm: Beta distributions with its mean and spread, or Normal ones. Not a number for an arm of
    which nothing is known, beside which the others are compared."""
    if history.num_arms < 2:
        return None
    posterior = shrinkage(history, family)
    mean, spread = np.asarray(posterior.mean, np.float64), np.asarray(posterior.stderr, np.float64)
    known = np.isfinite(mean) & np.isfinite(spread) & (spread > 0)
    if known.sum() < 2:
        return None
    mean, spread = mean[known], spread[known]
    if isinstance(family, Bernoulli):
        worth = np.maximum(mean * (1 - mean) / spread**2 - 1, 1e-3)
        log_probs = _beta_wins(mean * worth, (1 - mean) * worth)
    else:
        log_probs = _normal_wins(mean, spread)
    found = np.full(history.num_arms, np.nan)
    found[known] = np.exp(np.asarray(log_probs))
    return found


def _simulated_tests(
    key: PRNGKeyArray, history: History, policy: Any, family: Any, level: float, num_paths: int, **ending: Any
) -> tuple[Ahead | None, Value | None]:
    """How far the leading arm is ahead, and what the policy earned, from one set of paths."""
    pulls, means, num_arms = np.asarray(history.statistics.pulls), np.asarray(history.statistics.mean), history.num_arms
    if num_arms < 2:
        return None, None
    leader = int(np.argmax(np.where(pulls > 0, means, -np.inf)))
    others = [arm for arm in range(num_arms) if arm != leader]
    weights, share = np.eye(num_arms)[others] - np.eye(num_arms)[leader], pulls / pulls.sum()
    valued = num_arms <= FEW_ARMS and bool(np.all(pulls > 0)) and not np.allclose(share, 1 / num_arms)
    if valued:
        weights = np.vstack([weights, share - 1 / num_arms, share[None] - np.eye(num_arms)])
    chance = np.full((len(weights), 2), (1 - level) / 2)
    chance[len(others) + 1 :, 1] /= num_arms  # the least of these upper ends holds only if all do
    question = ask(history, policy, family, num_paths, ending.get("stop"), ending.get("num_steps"))
    weighted = weigh(weights, question.history)
    found = only_one(estimate_of(invert(key, question, weighted, chance, 0.0, MAX_ROUNDS), weighted, question, level))
    middle, lower, upper = (np.asarray(part, np.float64) for part in (found.mean, found.lower, found.upper))
    rest = [part[len(others) :] for part in (middle, lower, upper)]
    tests = np.asarray(found.diagnostics["p_less"])[: len(others)], lower[: len(others)], upper[: len(others)]
    return _ahead(pulls, leader, others, *tests, level), _value(history, *rest) if valued else None


def _ahead(
    pulls: np.ndarray, leader: int, others: list[int], p_less: np.ndarray, lower: np.ndarray, upper: np.ndarray, level: float
) -> Ahead:
    """From the tests of every other arm's mean less the leader's.

    Each has its share of the error, so that the best arm is kept with probability `level` at least. They are two-sided like the
    intervals: an arm that is ruled out is one whose interval does not include 0.
    """
    ruled_out = (2 * p_less * len(others) < 1 - level) & (upper < 0)
    kept = {leader, *(arm for arm, out in zip(others, ruled_out, strict=True) if not out and pulls[arm] > 0)}
    ends = np.full((2, len(pulls)), np.nan)
    ends[:, others] = -upper, -lower
    return Ahead(leader, *ends, may_be_best=tuple(sorted(kept)))


def _value(history: History, middle: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> Value:
    """From the contrast of the shares as they were with equal ones, and those with each arm alone.

    To the best arm it is the least of the differences to all arms, as in `contrasts` against the best, with upper ends that share
    the error; its sign is turned.
    """
    return Value(
        float(np.mean(np.asarray(history.rewards))),
        *(float(part[0]) for part in (middle, lower, upper)),
        *(max(-float(part[1:].min()), 0.0) for part in (middle, upper, lower)),
    )
