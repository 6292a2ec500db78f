"""Intervals for means that have ends: on a scale where they have none, and on one side for an arm that is at an end.

An arm without a success, or without a failure, has its estimate at the end of the range. If its mean is m or more, n pulls without
a success have a chance of (1 - m)^n at most, whatever chose how often the arm was pulled: the mean at which that chance is what the
level leaves is a bound that holds under any policy and stopping rule.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import logit
from jaxtyping import Array, Bool, Float, Int


class EdgeInterval(NamedTuple):
    """Of the arms whose rewards were all at one end."""

    at_edge: Bool[Array, "*trials arms"]
    mean: Float[Array, "*trials arms"]
    lower: Float[Array, "*trials arms"]
    upper: Float[Array, "*trials arms"]


def bounded_interval(
    family: Any, mean: Float[Array, "*shape"], stderr: Float[Array, "*shape"], level: float | Float[Array, ""]
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """Plus and minus on the scale of the log-odds, of the logarithm where there is no upper end, or of the means themselves."""
    z = jax.scipy.special.ndtri((1 + jnp.asarray(level, mean.dtype)) / 2)
    low, high = getattr(family, "mean_range", (-jnp.inf, jnp.inf))
    if low == 0 and high == 1:
        half = z * stderr / (mean * (1 - mean))
        return jax.nn.sigmoid(logit(mean) - half), jax.nn.sigmoid(logit(mean) + half)
    if low == 0:
        return mean * jnp.exp(-z * stderr / mean), mean * jnp.exp(z * stderr / mean)
    return mean - z * stderr, mean + z * stderr


def edge_interval(
    family: Any, observed: Float[Array, "*trials arms"], pulls: Int[Array, "*trials arms"], level: float
) -> EdgeInterval | None:
    """For sample means at an end of the family's range; None for a family that cannot have them there."""
    bound = getattr(family, "edge_mean", None)
    if bound is None:
        return None
    low, high = family.mean_range
    at_low, at_high = (pulls > 0) & (observed <= low), (pulls > 0) & (observed >= high)
    away = bound(jnp.maximum(pulls, 1).astype(observed.dtype), 1 - level)
    upper = jnp.where(at_low, away, high)
    lower = jnp.where(at_high, low + high - away, low) if high < jnp.inf else jnp.full_like(observed, low)
    return EdgeInterval(at_low | at_high, jnp.where(at_low, low, high), lower, upper)
