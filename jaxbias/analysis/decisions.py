"""From estimates to decisions: every arm against the control, the arms that may be the best, and what the policy earned."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import compiled
from jaxbias.estimators.confidence_sequence import confidence_sequence
from jaxbias.estimators.contrasts import Contrasts, contrasts
from jaxbias.estimators.inversion import test_inversion
from jaxbias.estimators.shrinkage import shrinkage
from jaxbias.history import History
from jaxbias.logs import Log
from jaxbias.policies.winning import beta_win_log_probs, normal_win_log_probs
from jaxbias.rewards import Bernoulli, UnknownSigma, complete_family

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


class Decisions(NamedTuple):
    """What a log says for a decision.

    Fields:
        control: the arm that the others are compared with; None where none was named.
        contrasts: every arm against it; None without a control.
        simulated: whether they are tests by simulation; otherwise they are confidence sequences, which need no policy.
        best_probability: of each arm, that it has the largest mean, given the log, under the prior of `shrinkage`.
        may_be_best: the arms that a test against the leading one does not reject; None where the policy cannot be simulated.
        value: what the policy earned; None likewise.
    """

    control: int | None
    contrasts: Contrasts | None
    simulated: bool
    best_probability: np.ndarray | None
    may_be_best: tuple[int, ...] | None
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
    keys, found = [jax.random.fold_in(key, purpose) for purpose in range(2)], None
    options: Any = dict(level=level, num_paths=num_paths, **ending)
    if control is not None and simulated:
        found = contrasts(keys[0], history, policy, family, control, **options)
    elif control is not None:
        found = _sequence(history, family, control, level)
    best, value = _simulated_tests(keys[1], history, policy, family, **options) if simulated else (None, None)
    return Decisions(control, found, simulated, _best_probability(history, family), best, value)


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


_normal_wins, _beta_wins = compiled(normal_win_log_probs), compiled(beta_win_log_probs)


def _best_probability(history: History, family: Any) -> np.ndarray | None:
    """From the posterior of every arm: Beta distributions with its mean and spread, or Normal ones."""
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
    found = np.zeros(history.num_arms)
    found[known] = np.exp(np.asarray(log_probs))
    return found


def _simulated_tests(
    key: PRNGKeyArray, history: History, policy: Any, family: Any, level: float, num_paths: int, **ending: Any
) -> tuple[tuple[int, ...] | None, Value | None]:
    """The arms that may be the best, and what the policy earned, from one set of paths."""
    pulls, means, num_arms = np.asarray(history.statistics.pulls), np.asarray(history.statistics.mean), history.num_arms
    if num_arms < 2:
        return None, None
    leader = int(np.argmax(np.where(pulls > 0, means, -np.inf)))
    others = [arm for arm in range(num_arms) if arm != leader]
    weights, share = np.eye(num_arms)[others] - np.eye(num_arms)[leader], pulls / pulls.sum()
    valued = num_arms <= FEW_ARMS and bool(np.all(pulls > 0)) and not np.allclose(share, 1 / num_arms)
    if valued:
        weights = np.vstack([weights, share - 1 / num_arms, share[None] - np.eye(num_arms)])
    found = test_inversion(key, history, policy, family, contrast=weights, num_paths=num_paths, level=level, **ending)
    # Each test against the leader has its share of the error, so that the best arm is kept with probability `level` at least.
    rejected = np.asarray(found.diagnostics["p_less"])[: len(others)] * len(others) < 1 - level
    kept = {leader, *(arm for arm, out in zip(others, rejected, strict=True) if not out and pulls[arm] > 0)}
    rest = [np.asarray(part, np.float64)[len(others) :] for part in (found.mean, found.lower, found.upper)]
    return tuple(sorted(kept)), _value(history, *rest) if valued else None


def _value(history: History, middle: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> Value:
    """From the contrast of the shares as they were with equal ones, and those with each arm alone.

    To the best arm it is the least of the differences to all arms, as in `contrasts` against the best; its sign is turned.
    """
    return Value(
        float(np.mean(np.asarray(history.rewards))),
        *(float(part[0]) for part in (middle, lower, upper)),
        *(max(-float(part[1:].min()), 0.0) for part in (middle, upper, lower)),
    )
