"""A confidence sequence for each arm's mean: an interval that holds at every step at once (Howard et al., 2021)."""

import math
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int
from scipy.special import lambertw

from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import compiled
from jaxbias._core.settings import POSITIVE, is_concrete
from jaxbias.estimators.checks import check_log
from jaxbias.estimators.estimate import Estimate, Status, first_status
from jaxbias.estimators.sample_mean import naive_stderr, summarise
from jaxbias.history import History, by_trial, check_whole
from jaxbias.likelihood import statistics_before
from jaxbias.policies import ArmStatistics
from jaxbias.rewards import BaseFamily, Bernoulli, Family, Normal

HALF_RANGE = 0.5  # rewards from 0 to 1 vary no more than a Normal variable with this standard deviation (Hoeffding's lemma)


def confidence_sequence(
    history: History,
    family: Family | None,
    *,
    level: float = 0.95,
    scale: ArrayLike | None = None,
    tightest_at: int | float = 50,
    trajectory: bool = False,
) -> Estimate:
    """The sample mean, with an interval that covers at all steps together with probability `level`, for each arm.

    It holds at any stopping time and under any policy, as it is uniform over the arm's own pulls (the normal mixture of Howard,
    Ramdas, McAuliffe and Sekhon 2021). With n pulls, v = n scale^2 and alpha = 1 - level,

        mean -/+ sqrt((v + rho) log((v + rho) / (rho alpha^2))) / n

    Arguments:
        history: one trial or many.
        family: what the rewards are; its range clips the interval. None: whatever has the given scale.
        level: of each arm's sequence; for all arms together, divide 1 - level by their number.
        scale: rewards are sub-Gaussian with this standard deviation, one number or one per arm: without it sigma for Normal,
            1/2 for Bernoulli. Rewards within a range of length r have scale r / 2.
        tightest_at: the number of pulls at which the interval is to be the tightest it can be; it sets rho, and holds for any.
        trajectory: keep the interval after every step too.

    Returns:
        An `Estimate`; `stderr` is that of `sample_mean`, the interval is wider. An arm without a pull has no mean (NaN) and an
        interval that says nothing. Diagnostics: `pulls`, `rho` by arm; with `trajectory` also `lower_by_step` and
        `upper_by_step`, (steps, arms).

    >>> import jax, jaxbias as jb
    >>> history = jb.simulate(jax.random.key(0), jb.UCB1(), jb.Normal(), [1.0, 0.75], num_steps=100)
    >>> estimate = jb.confidence_sequence(history, jb.Normal(), trajectory=True)
    >>> estimate.diagnostics["lower_by_step"].shape
    (100, 2)
    """
    if not (tightest_at > 0 and math.isfinite(tightest_at)):
        raise ArgumentError("tightest_at", tightest_at, "positive and finite")
    checked, completed = check_log(history, family, level)
    check_whole(checked, "confidence_sequence")
    variance = jnp.square(_scale(checked, completed, scale))
    rho, alpha, (low, high) = variance * (tightest_at / _best_ratio(1 - level)), 1 - level, completed.mean_range
    summary = summarise(checked)
    known, half = jnp.where(summary.pulls > 0, summary.mean, 0), _half_width(summary.pulls, variance, rho, alpha)
    diagnostics: dict[str, Any] = {"pulls": summary.pulls, "rho": jnp.broadcast_to(rho, summary.mean.shape)}
    if trajectory:
        lower, upper = _by_step(checked, variance, rho, alpha)
        diagnostics |= {"lower_by_step": jnp.clip(lower, low, high), "upper_by_step": jnp.clip(upper, low, high)}
    return Estimate(
        method="confidence_sequence",
        mean=summary.mean,
        stderr=naive_stderr(summary, completed),
        lower=jnp.clip(known - half, low, high),
        upper=jnp.clip(known + half, low, high),
        status=first_status({Status.NEVER_PULLED: summary.pulls == 0}),
        diagnostics=diagnostics,
    )


def _scale(history: History, family: BaseFamily, scale: ArrayLike | None) -> Float[Array, " arms"]:
    """The sub-Gaussian scale of each arm's rewards."""
    if scale is None and isinstance(family, Normal):
        scale = family.sigma
    if scale is None and isinstance(family, Bernoulli):
        scale = HALF_RANGE
    if scale is None:
        raise ArgumentError("scale", None, "given, unless the family is Normal with its sigma, or Bernoulli")
    values = jnp.asarray(scale, history.rewards.dtype)
    if values.shape not in ((), (history.num_arms,)):
        allowed = f"one number, or one for each of {history.num_arms} arms"
        raise ArgumentError("scale", values, allowed, problem=f"has shape {values.shape}")
    if is_concrete(values) and not np.all(POSITIVE.test(np.asarray(values))):
        raise ArgumentError("scale", values.tolist(), POSITIVE.description)
    return jnp.broadcast_to(values, (history.num_arms,))


def _best_ratio(alpha: float) -> float:
    """The v / rho that makes the interval at v the tightest.

    Setting the derivative of (v + rho) log((v + rho) / (rho alpha^2)) in rho to zero, y = 1 + v / rho solves
    y - log y = 1 - log alpha^2: minus the lower branch of Lambert's W at -alpha^2 / e.
    """
    return float(-lambertw(-(alpha**2) / math.e, -1).real) - 1


def _half_width(
    pulls: Int[Array, "*shape arms"], variance: Float[Array, " arms"], rho: Float[Array, " arms"], alpha: float
) -> Float[Array, "*shape arms"]:
    """Half of the interval; infinite without a pull."""
    variance, rho = jnp.broadcast_to(variance, pulls.shape), jnp.broadcast_to(rho, pulls.shape)
    count = jnp.maximum(pulls, 1).astype(variance.dtype)
    total = count * variance + rho
    half = jnp.sqrt(total * (jnp.log(total / rho) - 2 * math.log(alpha))) / count
    return jnp.where(pulls > 0, half, jnp.inf)


@partial(compiled, static=("alpha",))
def _by_step(
    history: History, variance: Float[Array, " arms"], rho: Float[Array, " arms"], alpha: float
) -> tuple[Float[Array, "*trials steps arms"], Float[Array, "*trials steps arms"]]:
    """Both ends of the interval after every step."""

    def one(trial: History) -> tuple[Array, Array]:
        before = statistics_before(trial.arms, trial.rewards, trial.num_arms)
        chosen = trial.arms[:, None] == jnp.arange(trial.num_arms, dtype=trial.arms.dtype)[None]
        pulls = before.pulls + chosen.astype(before.pulls.dtype)
        after = ArmStatistics(pulls=pulls, total=before.total + jnp.where(chosen, trial.rewards[:, None], 0))
        half = _half_width(pulls, variance, rho, alpha)
        return after.mean - half, after.mean + half

    return by_trial(one, history)
