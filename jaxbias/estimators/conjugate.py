"""Conjugate priors of one-parameter families: a prior with mean m that is worth M pulls.

For Bernoulli, Poisson and Exponential rewards the conjugate prior of an arm's mean has two settings, its mean m and its weight M:
after `pulls` rewards that sum to `total`, the posterior has the mean (M m + total) / (M + pulls). It is

    Bernoulli     Beta(M m, M (1 - m))
    Poisson       Gamma with shape M m and rate M
    Exponential   inverse Gamma with shape M + 1 and scale M m

The probability of the rewards under the prior, over that at the mean m itself, is what both the marginal likelihood (for
empirical Bayes) and the mixture martingale (for confidence sequences) are made of.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import betainc, gammainc, gammaincc, logit, xlog1py, xlogy
from jaxtyping import Array, Float

from jaxbias.rewards import BaseFamily, Bernoulli, Exponential, Poisson

FAMILIES = (Bernoulli, Poisson, Exponential)
SHIFT = 4  # Stirling's series with three terms is right to 4e-8 from here on

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


def posterior_cdf(family: BaseFamily, at: Any, mean: Numbers, weight: Numbers) -> Numbers:
    """The distribution function of an arm's mean where its distribution has this mean and weight."""
    at, mean, weight = jnp.broadcast_arrays(at, mean, weight)
    if isinstance(family, Bernoulli):
        return betainc(weight * mean, weight * (1 - mean), at)
    if isinstance(family, Poisson):
        return gammainc(weight * mean, weight * at)
    return gammaincc(weight + 1, weight * mean / at)


def to_line(family: BaseFamily, mean: Numbers) -> Numbers:
    """The log-odds, or the logarithm where the family has no upper end."""
    return logit(mean) if isinstance(family, Bernoulli) else jnp.log(mean)


def from_line(family: BaseFamily, place: Numbers) -> Numbers:
    """The mean at a place on that line."""
    return jax.nn.sigmoid(place) if isinstance(family, Bernoulli) else jnp.exp(place)
