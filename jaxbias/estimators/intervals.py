"""Intervals: plus and minus a quantile, Normal or Student's; for bounded means; and one-sided at the edge of the range.

An arm without a success, or without a failure, has its estimate at the edge of the family's range. If its mean is m or more, n
pulls without a success have a chance of at most (1 - m)^n, whatever chose how often the arm was pulled. So the mean at which this
chance is what the level leaves is a bound that holds under any policy and stopping rule.
"""

import dataclasses
import math
from functools import lru_cache, partial
from statistics import NormalDist
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logit
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int

from jaxbias._core.jit import compiled
from jaxbias.estimators.estimate import Estimate, Status
from jaxbias.rewards import BaseFamily

LARGEST_IN_TABLE = 64  # beyond it four terms of the expansion in 1 / freedom are right to seven digits, up to 99.9%


def normal_quantile(level: float) -> float:
    """The z with which |Z| <= z has probability `level`."""
    return NormalDist().inv_cdf((1 + level) / 2)


def student_quantile(level: float, freedom: Int[Array, "*shape"], dtype: DTypeLike) -> Float[Array, "*shape"]:
    """The t with which |T| <= t has probability `level`; NaN where the degrees of freedom are below 1.

    The degrees of freedom may be traced, which scipy's own function does not allow: hence a table, and an expansion beyond it.

    >>> import jax.numpy as jnp
    >>> [round(float(t), 3) for t in student_quantile(0.95, jnp.array([1, 10, 1000]), jnp.float32)]
    [12.706, 2.228, 1.962]
    """
    few = jnp.asarray(_table(level), dtype)[jnp.clip(freedom, 0, LARGEST_IN_TABLE)]
    inverse = 1 / jnp.maximum(freedom, 1).astype(dtype)
    many = jnp.zeros_like(inverse)
    for term in reversed(_expansion(normal_quantile(level))):
        many = term + inverse * many
    return jnp.where(freedom <= LARGEST_IN_TABLE, few, many)


@lru_cache
def _table(level: float) -> tuple[float, ...]:
    from scipy.special import stdtrit  # here, because it takes a third of a second

    return (math.nan, *stdtrit(np.arange(1, LARGEST_IN_TABLE + 1), (1 + level) / 2).tolist())


def _expansion(z: float) -> tuple[float, ...]:
    """Cornish and Fisher's expansion of the quantile in powers of 1 / freedom (Abramowitz and Stegun 26.7.5)."""
    return (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )


@partial(compiled, static=("method", "level"))
def wald(
    method: str,
    mean: Float[Array, "*trials arms"],
    stderr: Float[Array, "*trials arms"],
    level: float,
    status: Int[Array, "*trials arms"],
    diagnostics: dict[str, Any],
    freedom: Int[Array, "*#trials #arms"] | None = None,
) -> Estimate:
    """An estimate with the interval mean -/+ z stderr, or with t in place of z where it has degrees of freedom."""
    quantile = normal_quantile(level) if freedom is None else student_quantile(level, freedom, stderr.dtype)
    half = quantile * stderr
    ends = {"lower": mean - half, "upper": mean + half}
    return Estimate(method=method, mean=mean, stderr=stderr, status=status, diagnostics=diagnostics, **ends)


@compiled
def clip_to_family(estimate: Estimate, family: BaseFamily) -> Estimate:
    """The estimate cut to what the family allows; a mean that was outside of it is not to be believed."""
    low, high = family.mean_range
    mean, lower, upper = (jnp.clip(part, low, high) for part in (estimate.mean, estimate.lower, estimate.upper))
    outside = (mean != estimate.mean) & ~jnp.isnan(estimate.mean) & (estimate.status == Status.CONVERGED)
    status = jnp.where(outside, jnp.int32(Status.OUT_OF_RANGE), estimate.status)
    return dataclasses.replace(estimate, mean=mean, lower=lower, upper=upper, status=status)


def bounded_interval(
    family: BaseFamily, mean: Float[Array, "*shape"], stderr: Float[Array, "*shape"], level: float | Float[Array, ""]
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """Plus and minus on the scale of the log-odds, of the logarithm where there is no upper end, or of the means themselves."""
    z = jax.scipy.special.ndtri((1 + jnp.asarray(level, mean.dtype)) / 2)
    low, high = family.mean_range
    if low == 0 and high == 1:
        half = z * stderr / (mean * (1 - mean))
        return jax.nn.sigmoid(logit(mean) - half), jax.nn.sigmoid(logit(mean) + half)
    if low == 0:
        return mean * jnp.exp(-z * stderr / mean), mean * jnp.exp(z * stderr / mean)
    return mean - z * stderr, mean + z * stderr


class EdgeInterval(NamedTuple):
    """Of the arms whose rewards were all at one end."""

    at_edge: Bool[Array, "*trials arms"]
    lower: Float[Array, "*trials arms"]
    upper: Float[Array, "*trials arms"]


def edge_interval(
    family: BaseFamily, observed: Float[Array, "*trials arms"], pulls: Int[Array, "*trials arms"], level: float
) -> EdgeInterval | None:
    """For sample means at an end of the family's range; None for a family that cannot have them there."""
    if not family.has_edges:
        return None
    low, high = family.mean_range
    at_low, at_high = (pulls > 0) & (observed <= low), (pulls > 0) & (observed >= high)
    away = family.edge_mean(jnp.maximum(pulls, 1).astype(observed.dtype), 1 - level)
    upper = jnp.where(at_low, away, high)
    lower = jnp.where(at_high, low + high - away, low) if high < jnp.inf else jnp.full_like(observed, low)
    return EdgeInterval(at_edge=at_low | at_high, lower=lower, upper=upper)
