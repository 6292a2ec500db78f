"""Sample means with the intervals that would be right had the arms been fixed in advance."""

import dataclasses
import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxbias.compiling import compiled
from jaxbias.estimators.estimate import Estimate
from jaxbias.estimators.student import student_quantile
from jaxbias.history import History, count
from jaxbias.rewards import Family, lacks_sigma


class ArmSummary(NamedTuple):
    """Each arm's pulls, mean (NaN without a pull) and standard deviation of its rewards (NaN below two pulls)."""

    pulls: Int[Array, "*trials arms"]
    mean: Float[Array, "*trials arms"]
    deviation: Float[Array, "*trials arms"]


def naive(method: str, history: History, family: Family | None, level: float) -> Estimate:
    """The sample means of a checked history, believed where they have a standard error above zero.

    The interval is z where the family says its variance, t otherwise; clipped to the range of the family.
    """
    summary = summarise(history)
    stderr = naive_stderr(summary, family)
    if knows_variance(family):
        half = NormalDist().inv_cdf((1 + level) / 2) * stderr
    else:
        half = student_quantile(level, summary.pulls - 1, stderr.dtype) * stderr
    estimate = Estimate(
        method=method,
        mean=summary.mean,
        stderr=stderr,
        lower=summary.mean - half,
        upper=summary.mean + half,
        converged=stderr > 0,
        diagnostics={"pulls": summary.pulls},
    )
    return clip_to_family(estimate, family)


@compiled
def summarise(history: History) -> ArmSummary:
    """Pulls, means and standard deviations of each arm."""
    pulls, mean, squares = history.statistics.pulls, history.statistics.mean, squares_within(history)
    spread = jnp.sqrt(squares / jnp.maximum(pulls - 1, 1).astype(squares.dtype))
    return ArmSummary(pulls=pulls, mean=jnp.where(pulls > 0, mean, jnp.nan), deviation=jnp.where(pulls > 1, spread, jnp.nan))


def squares_within(history: History) -> Float[Array, "*trials arms"]:
    """The summed squares of each arm's rewards around its mean; in a second pass, so that they do not cancel."""
    deviation = history.rewards - jnp.take_along_axis(history.statistics.mean, history.arms, axis=-1)
    return count(history.arms, jnp.square(deviation), history.num_arms, history.lengths).total


def naive_stderr(summary: ArmSummary, family: Family | None) -> Float[Array, "*trials arms"]:
    """The standard deviation of one reward, by the family or estimated, over the root of the pulls; NaN without a pull."""
    if knows_variance(family):
        deviation = jnp.vectorize(_deviation_of(family), signature="(k)->(k)")(summary.mean)
    else:
        deviation = summary.deviation
    root = jnp.sqrt(jnp.maximum(summary.pulls, 1).astype(deviation.dtype))
    return jnp.where(summary.pulls > 0, deviation / root, jnp.nan)


def _deviation_of(family: Any) -> Callable[[Array], Array]:
    return lambda mean: jnp.sqrt(family.variance(mean))


def knows_variance(family: Family | None) -> bool:
    """Whether the family says how much one reward varies, given its mean."""
    return hasattr(family, "variance") and not lacks_sigma(family)


def mean_range(family: Family | None) -> tuple[float, float]:
    """The least and the largest mean that the family can have."""
    return getattr(family, "mean_range", (-math.inf, math.inf))


def clip_to_family(estimate: Estimate, family: Family | None) -> Estimate:
    """The estimate with its interval, not its mean, cut to what the family allows."""
    low, high = mean_range(family)
    lower, upper = jnp.clip(estimate.lower, low, high), jnp.clip(estimate.upper, low, high)
    return dataclasses.replace(estimate, lower=lower, upper=upper)
