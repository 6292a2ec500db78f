"""A Normal variable plus Gumbel noise, as a function of a standard Normal variable: its score.

    Phi(score(x)) = P(s Z + tau G <= x)

The distribution function of the sum is an integral, but its score is smooth, and but for location and spread depends on the ratio
s / tau alone. It is a polynomial here, whose coefficients are polynomials in the ratio: a table that is computed once.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

EULER = 0.5772156649015329  # the mean of a standard Gumbel variable
VARIANCE = np.pi**2 / 6  # of a standard Gumbel variable
DEPTH = 32.0  # the score is fitted to where the log-probability of a tail is this far down: a score of 8
DEGREE, RATIOS = 40, 64  # together a score to 1e-5 (tests/policies/test_winning.py), also where s is near tau
LARGEST_RATIO = 1e4  # beyond, the sum is Normal to 1e-12, and beyond the table
MIDDLE_RATIO = 2.0  # the ratio in the middle of the table: near where the two parts are equally wide
SKEW = 0.6  # the variable of the polynomial is bent so much towards the short tail, which takes fewer terms


class NoisyScore(NamedTuple):
    """The scores of some arms as functions of how far a value is from the arm's location.

    Fields:
        lower, center, upper: where the score is about -8, in the middle, and about 8.
        mean, spread: of the sum of Normal variable and noise.
        low, high: `lower` and `upper` in spreads from the mean.
        values, slopes: coefficients of Chebyshev's polynomials for the score and its derivative.
    """

    lower: Float[Array, " arms"]
    center: Float[Array, " arms"]
    upper: Float[Array, " arms"]
    mean: Float[Array, ""]
    spread: Float[Array, " arms"]
    low: Float[Array, " arms"]
    high: Float[Array, " arms"]
    values: Float[Array, "terms arms"]
    slopes: Float[Array, "fewer arms"]

    def __call__(self, distance: Float[Array, "arms nodes"]) -> tuple[Float[Array, "arms nodes"], Float[Array, "arms nodes"]]:
        """The score, and the logarithm of its derivative; beyond `upper` the logarithm of the tail goes on as a line."""
        spread, low, high = self.spread[:, None], self.low[:, None], self.high[:, None]
        place = (distance - self.mean) / spread
        inside = jnp.minimum(place, high)
        bent, bend = _bend(inside, low, high)
        score, slope = _chebyshev(self.values, bent), _chebyshev(self.slopes, bent) * bend
        is_beyond = place > high
        beyond = jnp.sqrt(jnp.where(is_beyond, jnp.square(score) + 2 * score * slope * (place - high), 1))
        slope = jnp.where(is_beyond, score * slope / beyond, slope)
        return jnp.where(is_beyond, beyond, score), jnp.log(slope / spread)


def noisy_score(scale: Float[Array, " arms"], tau: Float[Array, ""]) -> NoisyScore:
    """The score of scale * Normal + tau * Gumbel."""
    ratio = jnp.minimum(scale / tau, LARGEST_RATIO)
    low, high = _reach(ratio)
    spread, mean = jnp.sqrt(jnp.square(scale) + jnp.square(tau) * VARIANCE), EULER * tau
    values, slopes = (jnp.asarray(part, scale.dtype) for part in _table())
    place = (4 / np.pi) * jnp.arctan(ratio / MIDDLE_RATIO) - 1
    terms = jnp.cos(jnp.arange(RATIOS, dtype=scale.dtype)[:, None] * jnp.arccos(place)[None])
    lower, upper = mean + low * spread, mean + high * spread
    center = jnp.broadcast_to(mean, scale.shape)
    matmul = lambda table: jnp.matmul(table, terms, precision="highest")
    return NoisyScore(lower, center, upper, mean, spread, low, high, matmul(values), matmul(slopes))


def _reach(ratio: Any, numpy: Any = jnp) -> tuple[Any, Any]:
    """Where the tails of ratio * Normal + Gumbel are about exp(-DEPTH), in spreads from the mean.

    On the left by the largest term of the integral of exp(-exp(ratio z - x)) over a Normal z, which Lambert's function gives.
    """
    root = numpy.sqrt(1 + 2 * DEPTH * ratio**2)
    left = -numpy.log(2 * DEPTH / (1 + root)) - (root - 1)
    right = numpy.sqrt(DEPTH**2 + 2 * DEPTH * ratio**2)
    spread = numpy.sqrt(ratio**2 + VARIANCE)
    return (left - EULER) / spread, (right - EULER) / spread


def _bend(place: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """From [low, high] to [-1, 1] by a quotient of lines, and the derivative."""
    skew = SKEW * (high + low) / (high - low)
    left, right = low * (1 + skew) / 2, high * (1 - skew) / 2
    middle, half = right + left, right - left
    below = half + skew * place
    return (place - middle) / below, (half + skew * middle) / jnp.square(below)


def _unbend(bent: np.ndarray, low: float, high: float) -> np.ndarray:
    skew = SKEW * (high + low) / (high - low)
    left, right = low * (1 + skew) / 2, high * (1 - skew) / 2
    return (right + left + (right - left) * bent) / (1 - skew * bent)


def _chebyshev(coefficients: Float[Array, "terms arms"], bent: Float[Array, "arms nodes"]) -> Float[Array, "arms nodes"]:
    """Clenshaw's recurrence."""
    now = before = jnp.zeros_like(bent)
    for coefficient in coefficients[:0:-1]:
        now, before = 2 * bent * now - before + coefficient[:, None], now
    return bent * now - before + coefficients[0][:, None]


@lru_cache(maxsize=1)
def _table() -> tuple[np.ndarray, np.ndarray]:
    """Of the score and its derivative: a row for each power of the place, a column for each of the ratio."""
    from numpy.polynomial import chebyshev

    places, powers = chebyshev.chebpts1(RATIOS), chebyshev.chebpts1(DEGREE + 1)
    rows = []
    for place in places:
        ratio = min(MIDDLE_RATIO * np.tan((place + 1) * np.pi / 4), LARGEST_RATIO)
        low, high = _reach(ratio, np)
        at = EULER + np.sqrt(ratio**2 + VARIANCE) * _unbend(powers, low, high)
        rows.append(chebyshev.chebfit(powers, exact_score(at, ratio), DEGREE))
    values = chebyshev.chebfit(places, np.array(rows), RATIOS - 1).T
    return values, chebyshev.chebder(values)


def exact_score(at: np.ndarray, ratio: float) -> np.ndarray:
    """The score of ratio * Normal + Gumbel by the trapezoid rule over the narrower of the two, from the smaller tail."""
    from scipy.special import ndtr, ndtri

    if ratio < 1:
        normal = np.linspace(-14, 14, 281)
        weights = np.exp(-np.square(normal) / 2)
        rate = np.exp(ratio * normal - at[:, None])
        below, above = np.exp(-rate), -np.expm1(-rate)
    else:
        gumbel = np.linspace(-4, 44, 481)
        weights = np.exp(-gumbel - np.exp(-gumbel))
        rest = (at[:, None] - gumbel) / ratio
        below, above = ndtr(rest), ndtr(-rest)
    below, above = (np.sum(part * weights, axis=1) / weights.sum() for part in (below, above))
    return np.where(below < above, ndtri(below), -ndtri(above))
