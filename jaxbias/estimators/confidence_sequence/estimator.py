"""A confidence sequence for each arm's mean: an interval that holds at every step at once (Howard et al., 2021)."""

import dataclasses
import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxbias._core.door import public
from jaxbias._core.errors import ArgumentError, refuse_first
from jaxbias._core.jit import compiled
from jaxbias._core.settings import POSITIVE, is_concrete
from jaxbias.estimators.checks import check_log
from jaxbias.estimators.confidence_sequence.bounded import bernstein_ends
from jaxbias.estimators.confidence_sequence.differences import difference_ends, of_control, separate_ends
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


@public
def confidence_sequence(
    history: History,
    family: Family | None,
    *,
    level: float = 0.95,
    scale: ArrayLike | None = None,
    bounds: tuple[float, float] | None = None,
    tightest_at: int | float | None = None,
    control: int | None = None,
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
        control: an arm: the result is then the difference of every arm to this one, not a number at the arm itself. The two arms
            share alpha in the way that is best for both (`differences.py`); with `bounds`, and where sigma is not known, each has
            half of it.
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
    if control is not None and not 0 <= control < checked.num_arms:
        raise ArgumentError("control", control, f"an arm from 0 to {checked.num_arms - 1}")
    worth, limits = tightest_at / best_ratio(1 - level), completed.mean_range if bounds is None else bounds
    variance = None if known is None else jnp.square(known)
    diagnostics: dict[str, Any] = {"pulls": checked.statistics.pulls}
    by_step = None
    if bounds is not None:
        by_step = _bernstein(checked, *bounds, alpha=1 - level, control=control)
        lower, upper = (end[..., -1, :] for end in by_step)
    else:
        ends = lambda seen: _ends(seen, completed, variance, worth=worth, alpha=1 - level, control=control)
        by_step = ends(_seen_by_step(checked)) if trajectory else None
        lower, upper = ends(_seen(checked))
    if control is not None:
        limits = limits[0] - limits[1], limits[1] - limits[0]
    if trajectory and by_step is not None:
        diagnostics |= {"lower_by_step": jnp.clip(by_step[0], *limits), "upper_by_step": jnp.clip(by_step[1], *limits)}
    rho = None if variance is None or bounds is not None else (variance, worth)
    return _result(checked, completed, (lower, upper), limits, rho, diagnostics, control)


@partial(compiled, static=("control",), pads=("history",))
def _result(
    history: History, family: BaseFamily, ends: Any, limits: Any, rho: Any, diagnostics: dict[str, Any], control: int | None
) -> Estimate:
    lower, upper = (jnp.clip(end, *limits) for end in ends)
    if rho is not None:
        diagnostics = {**diagnostics, "rho": jnp.broadcast_to(rho[0] * rho[1], lower.shape)}
    summary = summarise(history)
    mean, stderr, pulled = summary.mean, naive_stderr(summary, family), summary.pulls > 0
    if control is not None:
        mean, pulled = mean - mean[..., control : control + 1], pulled & pulled[..., control : control + 1]
        stderr = jnp.hypot(stderr, stderr[..., control : control + 1])
    no_spread = pulled & jnp.isinf(lower) & jnp.isinf(upper)
    found = Estimate(
        method="confidence_sequence",
        mean=mean,
        stderr=stderr,
        lower=jnp.where(pulled, jnp.minimum(lower, mean), lower),
        upper=jnp.where(pulled, jnp.maximum(upper, mean), upper),
        status=first_status({Status.NEVER_PULLED: ~pulled, Status.TOO_FEW_PULLS: no_spread}),
        diagnostics=diagnostics,
    )
    return found if control is None else _without_control(found, control)


def _without_control(found: Estimate, control: int) -> Estimate:
    """A difference to itself is not a number."""
    there = jnp.arange(found.mean.shape[-1]) == control
    numbers = {name: jnp.where(there, jnp.nan, getattr(found, name)) for name in ("mean", "stderr", "lower", "upper")}
    return dataclasses.replace(found, **numbers)


@partial(compiled, static=("worth", "alpha", "control"))
def _ends(
    seen: Seen, family: BaseFamily, variance: Float[Array, " arms"] | None, worth: float, alpha: float, control: int | None
) -> Ends:
    """Of every arm, or of its difference to the control."""
    if control is None:
        return _ends_at(seen, family, variance, worth, math.log(alpha))
    other = of_control(seen, control)
    other_variance = None if variance is None else jnp.broadcast_to(variance[control], variance.shape)
    own = partial(_ends_at, seen, family, variance, worth)
    if variance is None and isinstance(family, UnknownSigma):
        return separate_ends(own, partial(_ends_at, other, family, None, worth), alpha)
    return difference_ends(own, partial(_ends_at, other, family, other_variance, worth), seen, other, worth, alpha)


def _ends_at(seen: Seen, family: BaseFamily, variance: Float[Array, " arms"] | None, worth: float, log_alpha: Any) -> Ends:
    """By what is known of the rewards."""
    if variance is not None:
        shape = (1,) * (seen.pulls.ndim - 1) + variance.shape
        return normal_ends(seen, variance.reshape(shape), (variance * worth).reshape(shape), log_alpha)
    if isinstance(family, UnknownSigma):
        return student_ends(seen, worth, log_alpha)
    if has_conjugate(family):
        return conjugate_ends(family, seen, worth, log_alpha)
    return asymptotic_ends(seen, worth, log_alpha)


@partial(compiled, pads=("history",))
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


@partial(compiled, static=("low", "high", "alpha", "control"))
def _bernstein(history: History, low: float, high: float, alpha: float, control: int | None) -> Ends:
    """After every step, of every arm; or of its difference to the control, of which each has half of alpha."""

    def one(trial: History) -> tuple[Array, Array]:
        rewards = (trial.rewards - low) / (high - low)
        ends = bernstein_ends(rewards, _chosen(trial), alpha if control is None else alpha / 2)
        lower, upper = (end * (high - low) + low for end in ends)
        if control is None:
            return lower, upper
        return lower - upper[:, control : control + 1], upper - lower[:, control : control + 1]

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
