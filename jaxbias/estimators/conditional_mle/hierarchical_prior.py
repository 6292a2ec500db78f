"""The prior of `shrinkage`, in natural parameters: the means of the arms are draws from one distribution.

Given its settings, the prior is worth some pulls of each arm: with M pulls that average m, and theta the natural parameters,

    log prior(theta) = sum_k M (m theta_k - b(theta_k)) + constant,   b'(theta) = mean

For Normal rewards M = sigma^2 / A, and m, with its flat prior, is integrated out: -sum_k (mean_k - average mean)^2 / (2 A). So
where choices do not depend on rewards, the mode in theta given the settings is the posterior mean of `shrinkage`. The settings
are on a grid, with the weights of the hyperprior: uniform shrinkage for A or M, Jeffreys' for m.
"""

import math
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr
from jaxtyping import Array, Float

from jaxbias._core.search import bracket
from jaxbias.estimators.conditional_mle.newton import KnownSigma
from jaxbias.estimators.conditional_mle.record import Record
from jaxbias.estimators.conditional_mle.weighted_samples import SampleMoments
from jaxbias.estimators.conjugate import from_line, log_likelihood
from jaxbias.estimators.shrinkage.one_parameter import centre_grid, conjugate_quantile, log_marginal
from jaxbias.estimators.shrinkage.posterior import log_grid, uniform_shrinkage
from jaxbias.likelihood import reward_log_prob

BELOW, ABOVE = 8.0, 6.0  # of the grid of log A, beyond the scales of the problem: what is left out has a weight of e^-8
SPACING, ROOT_SPACING = 1.0, 1.6  # of the grids, at most: in log A or log M, and that times the root of the number of arms
REACH = 6.0  # of the grid of log M on both sides: what is left out has a weight of e^-6, and hardly another estimate
TAIL = 10  # standard deviations of a node from its middle to the ends of the bracket of a quantile
CENTRE_NODES, CENTRE_REACH = 5, 3.0  # of m for each M: 1.5 standard deviations apart, where the trapezoidal rule has three digits

Arms = Float[Array, " arms"]


class Node(NamedTuple):
    """Settings of the prior; all of them are in rows, from the prior with equal means to one that leaves them alone.

    Fields:
        setting: A; or M and m.
        log_weight: of the hyperprior, and what else of the evidence does not depend on the choices.
        start: natural parameters near the mode: the mode with the rough likelihood of `Prior.rough`.
    """

    setting: Any
    log_weight: Float[Array, "*nodes"]
    start: Float[Array, "*nodes arms"]


@runtime_checkable
class Prior(Protocol):
    """What a family's prior is asked."""

    def natural(self, mean: Array) -> Array:
        """The natural parameters at some means."""
        ...

    def mean(self, natural: Array) -> Array:
        """And back."""
        ...

    def variance(self, mean: Array) -> Array:
        """Of a reward, which is also the derivative of the mean in the natural parameter."""
        ...

    def nodes(self, record: Record, at: Array, found: SampleMoments) -> Node:
        """All of them, from the moments of the sums given the arms at some means."""
        ...

    def rough(self, record: Record, at: Array, found: SampleMoments, natural: Array) -> tuple[Array, Array]:
        """The log-likelihood from the moments `at` some means alone, and its information, for where samples say little."""
        ...

    def log_density(self, setting: Any, natural: Arms) -> Float[Array, ""]:
        """Of natural parameters, without a constant."""
        ...

    def slope(self, setting: Any, natural: Arms) -> Arms:
        """Its derivative."""
        ...

    def curvature(self, setting: Any, natural: Arms) -> Float[Array, "arms arms"]:
        """Minus its second derivative."""
        ...

    def quantile(self, weight: Array, mean: Array, worth: Array, share: Array) -> Arms:
        """Of each arm's mean, in a mixture of distributions with these means that are worth so many pulls."""
        ...

    def log_normaliser(self, record: Record, at: Arms, mean: Arms) -> Float[Array, ""]:
        """What to add to that of the samples made `at` some means for the log-probability of the arms at others."""
        ...


class NormalPrior(NamedTuple):
    """Arms' means that are N(m, A), and Normal rewards with a known sigma."""

    sigma: Arms

    def natural(self, mean: Array) -> Array:
        """mean / sigma^2."""
        return mean / self.variance(mean)

    def mean(self, natural: Array) -> Array:
        """natural x sigma^2."""
        return natural * self.variance(natural)

    def variance(self, mean: Array) -> Array:
        """sigma^2."""
        return jnp.broadcast_to(jnp.square(self.sigma), mean.shape)

    def nodes(self, record: Record, at: Array, found: SampleMoments) -> Node:
        """On a grid of log A; v is the average of sigma^2 / pulls."""
        variance = jnp.square(self.sigma) / record.count
        seen, typical = record.total / record.count, jnp.mean(variance)
        top = ABOVE + jnp.log1p(jnp.max(jnp.square(seen - jnp.mean(seen))) / typical)
        place = log_grid(jnp.full_like(top, -BELOW), top, _number(BELOW + ABOVE + 4, seen.shape[0]))
        between = typical * jnp.exp(place)
        log_weight = uniform_shrinkage(place) - (seen.shape[0] - 1) / 2 * place
        origin = self.natural(at)

        def start(between: Array) -> Array:
            information = found.covariance + self.curvature(between, origin)
            return origin + jnp.linalg.solve(information, self.slope(between, origin) - found.total)

        return jax.tree.map(lambda leaf: leaf[:, None], Node(between, log_weight, jax.vmap(start)(between)))

    def rough(self, record: Record, at: Array, found: SampleMoments, natural: Array) -> tuple[Array, Array]:
        """The quadratic."""
        del record
        move = natural - self.natural(at)
        return -move @ found.total - move @ found.covariance @ move / 2, found.covariance

    def log_density(self, setting: Any, natural: Arms) -> Float[Array, ""]:
        """Of the means around their average."""
        mean = self.mean(natural)
        return -jnp.sum(jnp.square(mean - jnp.mean(mean))) / (2 * setting)

    def slope(self, setting: Any, natural: Arms) -> Arms:
        """Towards the average."""
        mean = self.mean(natural)
        return -self.variance(mean) * (mean - jnp.mean(mean)) / setting

    def curvature(self, setting: Any, natural: Arms) -> Float[Array, "arms arms"]:
        """None along the average."""
        size, variance = natural.shape[0], self.variance(natural)
        around = jnp.eye(size, dtype=natural.dtype) - 1 / size
        return variance[:, None] * around * variance[None] / setting

    def quantile(self, weight: Array, mean: Array, worth: Array, share: Array) -> Arms:
        """Of a mixture of Normal distributions."""
        scale = jnp.sqrt(self.variance(mean) / worth)
        matters = (weight > jnp.finfo(weight.dtype).eps)[:, None]
        low = jnp.min(jnp.where(matters, mean - TAIL * scale, jnp.inf), axis=0)
        high = jnp.max(jnp.where(matters, mean + TAIL * scale, -jnp.inf), axis=0)
        cdf = lambda place: weight @ ndtr((place[None] - mean) / scale)
        return bracket(cdf, share, low, high)

    def log_normaliser(self, record: Record, at: Arms, mean: Arms) -> Float[Array, ""]:
        """Of the rewards of the log."""
        return KnownSigma(self.sigma).log_normaliser(record, at, mean - at)


class ConjugatePrior(NamedTuple):
    """Arms' means with the conjugate prior that is worth M pulls with the average m; Bernoulli, Poisson, Exponential rewards."""

    family: Any

    def natural(self, mean: Array) -> Array:
        """The family's own."""
        return self.family.natural(self._inside(mean))

    def mean(self, natural: Array) -> Array:
        """Not rounded to an end of the range."""
        return self._inside(self.family.from_natural(natural))

    def variance(self, mean: Array) -> Array:
        """The family's own."""
        return self.family.variance(mean)

    def _inside(self, mean: Array) -> Array:
        low, high = self.family.mean_range
        least = jnp.finfo(mean.dtype).eps
        return jnp.clip(mean, low + least, high - least)

    def nodes(self, record: Record, at: Array, found: SampleMoments) -> Node:
        """On a grid of log M, and for each M one of m around what the likelihood given the arms says of it.

        The evidence of `shrinkage` is exact. What the choices change is added by Laplace's method, so what this method gives
        for choices that do not depend on rewards is taken off here.
        """
        count, total = record.count, record.total
        typical = count.shape[0] / jnp.sum(1 / count)
        place = log_grid(jnp.full_like(typical, REACH), jnp.full_like(typical, -REACH), _number(2 * REACH, count.shape[0]))
        known, seen = self._pulls(record, at, found)

        def given(place: Array) -> Node:
            worth = typical * jnp.exp(place)
            line, spacing = centre_grid(self.family, known, seen, worth, CENTRE_NODES, CENTRE_REACH)
            centre = from_line(self.family, line)
            after, sums = worth + count, (worth * centre)[:, None] + total[None]
            mean = self._inside(sums / after[None])
            exact = log_marginal(self.family, count, total, centre, worth) + jnp.log(spacing) + uniform_shrinkage(place)
            height = log_likelihood(self.family, mean, after[None], sums)
            laplace = jnp.sum(height - jnp.log(after[None] * self.variance(mean)) / 2, axis=1)
            start = ((worth * centre)[:, None] + seen[None]) / (worth + known)[None]
            return Node((jnp.broadcast_to(worth, centre.shape), centre), exact - laplace, self.natural(start))

        return jax.vmap(given)(place)

    def _pulls(self, record: Record, at: Array, found: SampleMoments) -> tuple[Array, Array]:
        """The information given the arms, in pulls, and the rewards that so many pulls would have summed to."""
        known = jnp.clip(jnp.diag(found.covariance) / self.variance(at), 0, record.count)
        return known, jnp.clip(known * at - found.total, 0, known * self.family.mean_range[1])

    def rough(self, record: Record, at: Array, found: SampleMoments, natural: Array) -> tuple[Array, Array]:
        """Of so many pulls as the information is worth, had they been chosen in advance."""
        pulls, mean = self._pulls(record, at, found), self.mean(natural)
        here, there = (jnp.sum(log_likelihood(self.family, means, *pulls)) for means in (mean, at))
        return here - there, jnp.diag(pulls[0] * self.variance(mean))

    def log_density(self, setting: Any, natural: Arms) -> Float[Array, ""]:
        """Of M pulls with the average m."""
        worth, centre = setting
        return jnp.sum(log_likelihood(self.family, self.mean(natural), worth, worth * centre))

    def slope(self, setting: Any, natural: Arms) -> Arms:
        """M (m - mean)."""
        worth, centre = setting
        return worth * (centre - self.mean(natural))

    def curvature(self, setting: Any, natural: Arms) -> Float[Array, "arms arms"]:
        """M pulls' information."""
        return jnp.diag(setting[0] * self.variance(self.mean(natural)))

    def quantile(self, weight: Array, mean: Array, worth: Array, share: Array) -> Arms:
        """Of a mixture of conjugate distributions."""
        return conjugate_quantile(self.family, weight, mean, worth, share)

    def log_normaliser(self, record: Record, at: Arms, mean: Arms) -> Float[Array, ""]:
        """By the likelihoods of the rewards, with which those of the arms differ."""
        steps = (record.arms, record.rewards, record.beyond_end)
        here, there = (reward_log_prob(self.family, means, *steps) for means in (mean, at))
        return here - there


def _number(length: float, num_arms: int) -> int:
    return 1 + math.ceil(length / min(SPACING, ROOT_SPACING / math.sqrt(num_arms)))
