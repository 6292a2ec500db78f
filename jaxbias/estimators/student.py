"""The quantiles of Student's t, for whole degrees of freedom."""

import math
from functools import lru_cache
from statistics import NormalDist

import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int

LARGEST_IN_TABLE = 64  # beyond it four terms of the expansion in 1 / freedom are right to seven digits, up to 99.9%
HALVINGS = 60  # of an angle: past the digits of float64


def student_quantile(level: float, freedom: Int[Array, "*shape"], dtype: DTypeLike) -> Float[Array, "*shape"]:
    """The t with which |T| <= t has probability `level`; NaN where the degrees of freedom are below 1.

    >>> import jax.numpy as jnp
    >>> [round(float(t), 3) for t in student_quantile(0.95, jnp.array([1, 10, 1000]), jnp.float32)]
    [12.706, 2.228, 1.962]
    """
    table = jnp.asarray((math.nan, *_table(level)), dtype)
    few = table[jnp.clip(freedom, 0, LARGEST_IN_TABLE)]
    inverse = 1 / jnp.maximum(freedom, 1).astype(dtype)
    many = jnp.zeros_like(inverse)
    for term in reversed(_expansion(NormalDist().inv_cdf((1 + level) / 2))):
        many = term + inverse * many
    return jnp.where(freedom <= LARGEST_IN_TABLE, few, many)


def _expansion(z: float) -> tuple[float, ...]:
    """Cornish and Fisher's expansion of the quantile in powers of 1 / freedom (Abramowitz and Stegun 26.7.5)."""
    return (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )


@lru_cache
def _table(level: float) -> tuple[float, ...]:
    return tuple(math.sqrt(freedom) * math.tan(_angle(level, freedom)) for freedom in range(1, LARGEST_IN_TABLE + 1))


def _angle(level: float, freedom: int) -> float:
    """atan(t / sqrt(freedom)) of the quantile, by halving."""
    low, high = 0.0, math.pi / 2
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < level else (low, middle)
    return (low + high) / 2


def _within(angle: float, freedom: int) -> float:
    """The probability of |T| <= sqrt(freedom) tan(angle), a finite sum (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    cosine, odd = math.cos(angle), freedom % 2
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for power in range(odd, freedom - 1, 2):
        total += term
        term *= cosine**2 * (power + 1) / (power + 2)
    return 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total
