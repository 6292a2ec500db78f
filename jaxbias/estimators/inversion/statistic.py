"""The studentised statistic of a contrast of means, on a scale on which it would be standard normal had the arms been fixed.

    t(c) = (sum_k w_k sample mean_k - c) / sqrt(sum_k w_k^2 v_k / N_k)

For one arm of a family with a known variance this is the score test, v = v(c): for Normal rewards the signed root of the
likelihood ratio. For a contrast the variances are those at the means nearest to the sample means on which the contrast is c.
Where sigma is estimated, v is the variance within arms, and t goes through Student's distribution to the normal scale (Wallace,
1959, right to 0.02), so that paths with few and with many pulls of the arm can be compared.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxbias.estimators.inversion.anchors import move_inside
from jaxbias.rewards import BaseFamily, Normal

TINY = 1e-6  # of the range of a mean: how near to its ends a variance is still computed


class Sums(NamedTuple):
    """What some arms gave on paths, or in the log.

    Fields:
        count: pulls, 1 at least.
        mean: sample means.
        variance: within the arm, or within all arms that share it; None where the family says it.
        freedom: degrees of freedom of each variance.
    """

    count: Float[Array, "paths arms"]
    mean: Float[Array, "paths arms"]
    variance: Float[Array, "paths arms"] | None = None
    freedom: Float[Array, "paths arms"] | None = None


def statistic(family: BaseFamily, sums: Sums, weights: Float[Array, " arms"], at: Float[Array, ""]) -> Float[Array, " paths"]:
    """t at a candidate value of the contrast, on the normal scale."""
    difference = sums.mean @ weights - at
    parts = jnp.square(weights)[None] * _variances(family, sums, weights, at) / sums.count
    t = difference / jnp.sqrt(jnp.sum(parts, axis=1))
    if sums.freedom is None:
        return t
    # Satterthwaite's degrees of freedom; those of the arm itself where there is one arm or one variance for all.
    shared = jnp.square(jnp.sum(parts, axis=1)) / jnp.sum(jnp.square(parts) / sums.freedom, axis=1)
    freedom = jnp.where(jnp.all(sums.freedom == sums.freedom[:, :1], axis=1), _least(sums, weights), shared)
    return _normal_scale(t, freedom)


def _least(sums: Sums, weights: Float[Array, " arms"]) -> Float[Array, " paths"]:
    assert sums.freedom is not None
    return jnp.min(jnp.where((weights != 0)[None], sums.freedom, jnp.inf), axis=1)


def _normal_scale(t: Float[Array, " paths"], freedom: Float[Array, " paths"]) -> Float[Array, " paths"]:
    """Student's t as the normal value with about the same probability below it (Wallace, 1959)."""
    larger = (8 * freedom + 1) / (8 * freedom + 3)
    return jnp.sign(t) * larger * jnp.sqrt(freedom * jnp.log1p(jnp.square(t) / freedom))


def _variances(
    family: BaseFamily, sums: Sums, weights: Float[Array, " arms"], at: Float[Array, ""]
) -> Float[Array, "paths arms"]:
    if sums.variance is not None:
        return sums.variance
    if isinstance(family, Normal):
        return family.variance(sums.mean)
    inside = move_inside(family, sums.mean, sums.count)
    return family.variance(constrained(family, inside, family.variance(inside) / sums.count, weights, at))


def constrained(
    family: BaseFamily,
    mean: Float[Array, "rows arms"],
    variance: Float[Array, "rows arms"],
    weights: Float[Array, " arms"],
    at: Float[Array, ""],
) -> Float[Array, "rows arms"]:
    """The means nearest to those given, in units of their standard errors, on which the contrast has the value `at`."""
    direction = variance * weights[None]
    share = direction / jnp.sum(direction * weights[None], axis=1, keepdims=True)
    moved = mean + share * (at - mean @ weights)[:, None]
    low, high = family.mean_range
    width = high - low if high - low < jnp.inf else 1.0
    return jnp.clip(moved, low + TINY * width, high - TINY * width)
