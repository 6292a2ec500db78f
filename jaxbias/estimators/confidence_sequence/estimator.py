"""A confidence sequence for each arm's mean: an interval that holds at every step at once (Howard et al., 2021)."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxbias._core.errors import ArgumentError, refuse_first
from jaxbias._core.jit import compiled
from jaxbias._core.settings import POSITIVE, is_concrete
from jaxbias.estimators.checks import check_log
from jaxbias.estimators.confidence_sequence.bounded import bernstein_ends
from jaxbias.estimators.confidence_sequence.mixtures import (
    Ends,
    Seen,
    asymptotic_ends,
    best_ratio,
    conjugate_ends,
    normal_ends,
    student_ends,
)
from jaxbias.estimators.conjugate import has_conjugate
from jaxbias.estimators.estimate import Estimate, Status, first_status
from jaxbias.estimators.sample_mean import naive_stderr, squares_within, summarise
from jaxbias.history import History, by_trial, check_order, check_whole
from jaxbias.likelihood import statistics_before
from jaxbias.rewards import BaseFamily, Family, Normal, UnknownSigma

TIGHTEST_AT = 50  # pulls, by default: where an experiment with Normal rewards is about to say something
TIGHTEST_AT_COUNTS = 200  # likewise for rates and counts, which need more of them


def confidence_sequence(
    history: History,
    family: Family | None,
    *,
    level: float = 0.95,
    scale: ArrayLike | None = None,
    bounds: tuple[float, float] | None = None,
    tightest_at: int | float | None = None,
    trajectory: bool = False,
) -> Estimate:
    """The sample mean, with an interval that covers at all steps together with probability `level`, for each arm.

    It holds at any stopping time and under any policy, as it is uniform over the arm's own pulls: all means that a mixture of
    other means does not outdo by 1 / alpha, alpha = 1 - level (Ville's inequality). What is mixed depends on the family:

        Normal, sigma known     with n pulls and v = n sigma^2,   mean -/+ sqrt((v + rho) log((v + rho) / (rho alpha^2))) / n
        Normal, sigma unknown   the same with sigma integrated out, for each arm on its own
        Bernoulli               a Beta mixture; the interval is as narrow as the rate allows, also for small rates
        Poisson, Exponential    a Gamma, and an inverse Gamma mixture
        None                    the first, with the sample variance: asymptotic, so that it may miss more often at the first pulls

    Rewards in a known range, of any distribution: `bounds`, the empirical Bernstein sequence of Waudby-Smith and Ramdas (2024),
    which adapts to their variance.

    Arguments:
        history: one trial or many.
        family: what the rewards are; its range clips the interval.
        level: of each arm's sequence; for all arms together, divide 1 - level by their number.
        scale: rewards are sub-Gaussian with this standard deviation, one number or one per arm, in place of what the family says.
            Rewards within a range of length r have scale r / 2.
        bounds: the least and the largest possible reward, in place of what the family says.
        tightest_at: the number of pulls at which the interval is to be the tightest it can be, and which must not depend on the
            rewards; by default 50, or 200 for Bernoulli, Poisson and Exponential rewards. It holds for any. Not with `bounds`.
        trajectory: keep the interval after every step too.

    Returns:
        An `Estimate`; `stderr` is that of `sample_mean`, the interval is wider. An arm without a pull has no mean (NaN) and an
        interval that says nothing; so has, where the variance is estimated, one whose rewards are all the same. Diagnostics:
        `pulls`, and with `trajectory` `lower_by_step` and `upper_by_step`, (steps, arms); `rho` by arm where the formula has it.

    >>> import jax, jaxbias as jb
    >>> history = jb.simulate(jax.random.key(0), jb.UCB1(), jb.Normal(), [1.0, 0.75], num_steps=100)
    >>> estimate = jb.confidence_sequence(history, jb.Normal(), trajectory=True)
    >>> estimate.diagnostics["lower_by_step"].shape
    (100, 2)
    """
    checked, completed = check_log(history, family, level, two_rewards=True)
    check_whole(checked, "confidence_sequence")
    if trajectory or bounds is not None:
        check_order(checked, "confidence_sequence with a trajectory or bounds")
    known = _scale(checked, completed, scale)
    if bounds is not None:
        _check_bounds(checked, bounds, scale)
    counts = known is None and has_conjugate(completed)
    tightest_at = (TIGHTEST_AT_COUNTS if counts else TIGHTEST_AT) if tightest_at is None else tightest_at
    if not (tightest_at > 0 and math.isfinite(tightest_at)):
        raise ArgumentError("tightest_at", tightest_at, "positive and finite")
    worth, limits = tightest_at / best_ratio(1 - level), completed.mean_range if bounds is None else bounds
    variance = None if known is None else jnp.square(known)
    ends = lambda seen: _ends(seen, completed, variance, worth, 1 - level)
    diagnostics: dict[str, Any] = {"pulls": checked.statistics.pulls}
    if bounds is not None:
        by_step = _bernstein(checked, *bounds, alpha=1 - level)
        lower, upper = (end[..., -1, :] for end in by_step)
    else:
        by_step = ends(_seen_by_step(checked)) if trajectory else None
        lower, upper = ends(_seen(checked))
    if trajectory and by_step is not None:
        diagnostics |= {"lower_by_step": jnp.clip(by_step[0], *limits), "upper_by_step": jnp.clip(by_step[1], *limits)}
    if variance is not None and bounds is None:
        diagnostics["rho"] = jnp.broadcast_to(variance * worth, lower.shape)
    return _result(checked, completed, jnp.clip(lower, *limits), jnp.clip(upper, *limits), diagnostics)


def _result(history: History, family: BaseFamily, lower: Array, upper: Array, diagnostics: dict[str, Any]) -> Estimate:
    summary = summarise(history)
    no_spread = (summary.pulls > 0) & jnp.isinf(lower) & jnp.isinf(upper)
    return Estimate(
        method="confidence_sequence",
        mean=summary.mean,
        stderr=naive_stderr(summary, family),
        lower=jnp.where(summary.pulls > 0, jnp.minimum(lower, summary.mean), lower),
        upper=jnp.where(summary.pulls > 0, jnp.maximum(upper, summary.mean), upper),
        status=first_status({Status.NEVER_PULLED: summary.pulls == 0, Status.TOO_FEW_PULLS: no_spread}),
        diagnostics=diagnostics,
    )


@partial(compiled, static=("worth", "alpha"))
def _ends(seen: Seen, family: BaseFamily, variance: Float[Array, " arms"] | None, worth: float, alpha: float) -> Ends:
    """By what is known of the rewards."""
    if variance is not None:
        shape = (1,) * (seen.pulls.ndim - 1) + variance.shape
        return normal_ends(seen, variance.reshape(shape), (variance * worth).reshape(shape), alpha)
    if isinstance(family, UnknownSigma):
        return student_ends(seen, worth, alpha)
    if has_conjugate(family):
        return conjugate_ends(family, seen, worth, alpha)
    return asymptotic_ends(seen, worth, alpha)


@compiled
def _seen(history: History) -> Seen:
    """At the end."""
    statistics = history.statistics
    return Seen(pulls=statistics.pulls.astype(statistics.total.dtype), mean=statistics.mean, squares=squares_within(history))


@compiled
def _seen_by_step(history: History) -> Seen:
    """After every step. Rewards are taken off their arm's last mean, so that their squares do not cancel."""

    def one(trial: History) -> Seen:
        origin = trial.statistics.mean
        off = trial.rewards - origin[trial.arms]
        chosen = _chosen(trial)
        before, squared = (statistics_before(trial.arms, values, trial.num_arms) for values in (off, jnp.square(off)))
        pulls = (before.pulls + chosen.astype(before.pulls.dtype)).astype(off.dtype)
        total = before.total + jnp.where(chosen, off[:, None], 0)
        squares = squared.total + jnp.where(chosen, jnp.square(off)[:, None], 0)
        count = jnp.maximum(pulls, 1)
        mean = jnp.where(pulls > 0, total / count + origin[None], 0)
        return Seen(pulls=pulls, mean=mean, squares=jnp.maximum(squares - jnp.square(total) / count, 0))

    return by_trial(one, history)


@partial(compiled, static=("low", "high", "alpha"))
def _bernstein(history: History, low: float, high: float, alpha: float) -> Ends:
    def one(trial: History) -> tuple[Array, Array]:
        ends = bernstein_ends((trial.rewards - low) / (high - low), _chosen(trial), alpha)
        return ends[0] * (high - low) + low, ends[1] * (high - low) + low

    return by_trial(one, history)


def _chosen(trial: History) -> Array:
    """Which arm each step pulled, (steps, arms)."""
    return jax.nn.one_hot(trial.arms, trial.num_arms, dtype=bool)


def _scale(history: History, family: BaseFamily, scale: ArrayLike | None) -> Float[Array, " arms"] | None:
    """The sub-Gaussian scale of each arm's rewards, where it is given or the family says it."""
    if scale is None and isinstance(family, Normal):
        scale = family.sigma
    if scale is None:
        return None
    values = jnp.asarray(scale, history.rewards.dtype)
    if values.shape not in ((), (history.num_arms,)):
        allowed = f"one number, or one for each of {history.num_arms} arms"
        raise ArgumentError("scale", values, allowed, problem=f"has shape {values.shape}")
    if is_concrete(values) and not np.all(POSITIVE.test(np.asarray(values))):
        raise ArgumentError("scale", values.tolist(), POSITIVE.description)
    return jnp.broadcast_to(values, (history.num_arms,))


def _check_bounds(history: History, bounds: tuple[float, float], scale: ArrayLike | None) -> None:
    low, high = bounds
    if scale is not None:
        raise ArgumentError("bounds", bounds, lambda name: f"None where {name('scale')} is given")
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ArgumentError("bounds", bounds, "two finite numbers, the smaller one first")
    if is_concrete(history.rewards):
        outside = (np.asarray(history.rewards) < low) | (np.asarray(history.rewards) > high)
        refuse_first("history.rewards", outside, history.rewards, lambda name: f"inside {name('bounds')}, {bounds}")
