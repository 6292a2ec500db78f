"""Conjugate priors of one-parameter families: a prior with mean m that is worth M pulls.

For Bernoulli, Poisson and Exponential rewards the conjugate prior of an arm's mean has two settings, its mean m and its weight M:
after `pulls` rewards that sum to `total`, the posterior has the mean (M m + total) / (M + pulls). It is

    Bernoulli     Beta(M m, M (1 - m))
    Poisson       Gamma with shape M m and rate M
    Exponential   inverse Gamma with shape M + 1 and scale M m

The probability of the rewards under the prior, over that at the mean m itself, is what both the marginal likelihood (for
empirical Bayes) and the mixture martingale (for confidence sequences) are made of.
"""

import jax
import jax.numpy as jnp
from jax.scipy.special import logit, xlog1py, xlogy
from jaxtyping import Array, Float

from jaxbias.rewards import BaseFamily, Bernoulli, Exponential, Poisson

FAMILIES = (Bernoulli, Poisson, Exponential)
SHIFT = 4  # Stirling's series with three terms is right to 4e-8 from here on
LEAST_SHAPE = 0.25  # of a Beta or Gamma whose logarithm has moments worth the name
HALF_LOG_TWO_PI = 0.9189385332046727

Numbers = Float[Array, "..."]  # of shapes that fit each other


def has_conjugate(family: BaseFamily) -> bool:
    """Whether the family is one of those above."""
    return isinstance(family, FAMILIES)


def log_rising(start: Numbers, count: Numbers) -> Numbers:
    """log Gamma(start + count) - log Gamma(start) - count log(start), without the cancellation of large terms.

    By Stirling's series at start + SHIFT; for a whole count the product of (1 + i / start) for i below it.

    >>> import jax.numpy as jnp
    >>> round(float(jnp.exp(log_rising(jnp.float32(2.0), jnp.float32(3.0)))), 5)  # 2 * 3 * 4 / 2^3
    3.0
    """
    moved = start + SHIFT
    product = jnp.ones_like(start + count)
    for step in range(SHIFT):
        product = product * (1 + count / (start + step))
    series = (moved + count - 0.5) * jnp.log1p(count / moved) - count + _stirling(moved + count) - _stirling(moved)
    return series + count * jnp.log1p(SHIFT / start) - jnp.log(product)


def _stirling(value: Numbers) -> Numbers:
    square = jnp.square(value)
    return (1 / 12 - (1 / 360 - 1 / (1260 * square)) / square) / value


def log_evidence(family: BaseFamily, mean: Numbers, weight: Numbers, pulls: Numbers, total: Numbers) -> Numbers:
    """The log of the probability of an arm's rewards under the prior, less that at the mean `mean`; 0 without a pull."""
    if isinstance(family, Bernoulli):
        successes = log_rising(weight * mean, total)
        return successes + log_rising(weight * (1 - mean), pulls - total) - log_rising(weight, pulls)
    if isinstance(family, Poisson):
        shape = weight * mean
        return log_rising(shape, total) - (shape + total) * jnp.log1p(pulls / weight) + pulls * mean
    shape, scale = weight + 1, weight * mean
    gained = pulls * jnp.log1p(1 / weight) + total / mean
    return log_rising(shape, pulls) - (shape + pulls) * jnp.log1p(total / scale) + gained


def log_likelihood(family: BaseFamily, mean: Numbers, pulls: Numbers, total: Numbers) -> Numbers:
    """Of an arm's rewards at a mean, without what does not depend on it."""
    if isinstance(family, Bernoulli):
        return xlogy(total, mean) + xlog1py(pulls - total, -mean)
    if isinstance(family, Poisson):
        return xlogy(total, mean) - pulls * mean
    return -total / mean - pulls * jnp.log(mean)


def posterior_variance(family: BaseFamily, mean: Numbers, weight: Numbers) -> Numbers:
    """The variance of an arm's mean where its distribution has this mean and weight: variance(mean) / (weight - v).

    v is the coefficient of the square in the variance of a reward, -1, 0 and 1. For an Exponential with a weight of at most 1 the
    variance is infinite.
    """
    quadratic = {Bernoulli: -1, Poisson: 0, Exponential: 1}[type(family)]
    left = weight - quadratic
    return jnp.where(left > 0, family.variance(mean) / jnp.where(left > 0, left, 1), jnp.inf)


def line_moments(family: BaseFamily, mean: Numbers, weight: Numbers) -> tuple[Numbers, Numbers]:
    """Mean and variance, about, of the log-odds or logarithm of an arm's mean, whose distribution has this mean and weight."""
    first, second = (jnp.maximum(shape, LEAST_SHAPE) for shape in _shapes(family, mean, weight))
    both = isinstance(family, Bernoulli)
    shift = 1 / (2 * first) - (1 / (2 * second) if both else 0)
    variance = 1 / first + 1 / jnp.square(first) + (1 / second + 1 / jnp.square(second) if both else 0)
    return _mode(family, mean, weight) + jnp.where(isinstance(family, Exponential), shift, -shift), variance


def line_log_density(family: BaseFamily, place: Numbers, mean: Numbers, weight: Numbers) -> Numbers:
    """The log-density of the log-odds or the logarithm of an arm's mean, from its mode, so that large terms do not cancel."""
    first, second = _shapes(family, mean, weight)
    mode = _mode(family, mean, weight)
    if isinstance(family, Bernoulli):
        below = first * (jax.nn.log_sigmoid(place) - jax.nn.log_sigmoid(mode))
        below = below + second * (jax.nn.log_sigmoid(-place) - jax.nn.log_sigmoid(-mode))
        return (
            below
            + _binet(first + second)
            - _binet(first)
            - _binet(second)
            + jnp.log(first / (first + second) * second) / 2
            - HALF_LOG_TWO_PI
        )
    off = mode - place if isinstance(family, Exponential) else place - mode
    return first * (off - jnp.expm1(off)) + jnp.log(first) / 2 - HALF_LOG_TWO_PI - _binet(first)


def _shapes(family: BaseFamily, mean: Numbers, weight: Numbers) -> tuple[Numbers, Numbers]:
    """The two shapes of a Beta; the shape of a Gamma or an inverse Gamma, twice."""
    if isinstance(family, Bernoulli):
        inside = _inside(mean)
        return weight * inside, weight * (1 - inside)
    shape = weight * mean if isinstance(family, Poisson) else weight + 1
    return shape, shape


def _mode(family: BaseFamily, mean: Numbers, weight: Numbers) -> Numbers:
    """Of the density on the line."""
    if isinstance(family, Bernoulli):
        return logit(_inside(mean))
    return jnp.log(mean * weight / (weight + 1) if isinstance(family, Exponential) else mean)


def _inside(mean: Numbers) -> Numbers:
    """A probability that is not rounded to 1, and whose complement is not."""
    least = jnp.finfo(mean.dtype).eps
    return jnp.clip(mean, least, 1 - least)


def _binet(value: Numbers) -> Numbers:
    """log Gamma less Stirling's formula: log Gamma(x) - (x - 1/2) log x + x - log(2 pi) / 2."""
    small = jnp.where(value < SHIFT, value, SHIFT)
    exact = jax.lax.lgamma(small) - (small - 0.5) * jnp.log(small) + small - HALF_LOG_TWO_PI
    return jnp.where(value < SHIFT, exact, _stirling(jnp.maximum(value, SHIFT)))


def to_line(family: BaseFamily, mean: Numbers) -> Numbers:
    """The log-odds, or the logarithm where the family has no upper end."""
    return logit(mean) if isinstance(family, Bernoulli) else jnp.log(mean)


def from_line(family: BaseFamily, place: Numbers) -> Numbers:
    """The mean at a place on that line."""
    return jax.nn.sigmoid(place) if isinstance(family, Bernoulli) else jnp.exp(place)
