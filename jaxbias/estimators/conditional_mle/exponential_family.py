"""The maximum of the conditional likelihood in natural parameters, by weighted samples of the summed rewards.

Given the arms, the rewards of a one-parameter exponential family are one again, with the summed rewards S of each arm as its
statistic: with natural parameters eta (log-odds, log mean, -1 / mean) the log-likelihood is eta . S - log sum_s C(s) exp(eta . s)
where C(s) does not depend on eta. It is concave, with score S - E[S | arms] and information Cov[S | arms]. Samples, or all the
possible sums with their probabilities, made at one eta serve another by the weights exp(tilt . s).

An arm whose sum is at the end of what it can be (no success, or no failure) has its maximum there, at an infinite eta. What is
left of the others' likelihood is that of the sums where this arm's is the observed one.
"""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxbias._core.search import damp, search
from jaxbias.estimators.conditional_mle.record import Record
from jaxbias.estimators.conditional_mle.weighted_samples import SampleMoments, Samples, moments_at
from jaxbias.likelihood import reward_log_prob

LONGEST_MOVE = 1.0  # of a round, in standard errors where it is made
ROUNDS = 50  # on one set of samples, at most; six are usual


class Edges(NamedTuple):
    """Which arms' sums are at an end of what they can be, and the mean that is there."""

    low: Bool[Array, " arms"]
    high: Bool[Array, " arms"]

    @property
    def either(self) -> Bool[Array, " arms"]:
        """At one end or the other."""
        return self.low | self.high


class Maximum(NamedTuple):
    """Where a search on one set of samples ended.

    Fields:
        tilt: how far, from the natural parameters of the samples; 0 for an arm at an end.
        found: the moments there.
        covariance: the inverse of the information there, of the natural parameters; that of an arm at an end is 1.
    """

    tilt: Float[Array, " arms"]
    found: SampleMoments
    covariance: Float[Array, "arms arms"]


def edges_of(family: Any, record: Record) -> Edges:
    """Where the sample means are those at the ends of the family's range."""
    low, high = family.mean_range
    return Edges(low=record.total <= low * record.count, high=record.total >= high * record.count)


def mean_at(family: Any, natural: Float[Array, " arms"], edges: Edges) -> Float[Array, " arms"]:
    """The means at natural parameters; at the ends of the range for the arms that are there."""
    low, high = (jnp.asarray(end, natural.dtype) for end in family.mean_range)
    inside = family.from_natural(natural)
    return jnp.where(edges.low, low, jnp.where(edges.high, high, inside))


def limited(samples: Samples, edges: Edges) -> Samples:
    """The samples in which the arms at an end are there."""
    away = jnp.any(edges.either[:, None, None] & (samples.total != 0), axis=0)
    return samples._replace(log_weight=jnp.where(away, -jnp.inf, samples.log_weight))


def maximise_likelihood(samples: Samples, edges: Edges, longest: float) -> Maximum:
    """Newton's method on one set of samples, no further away from where they were made than `longest`, in standard errors."""
    free = ~edges.either
    tolerance = math.sqrt(jnp.finfo(samples.log_weight.dtype).eps)
    start = jnp.zeros(free.shape, samples.total.dtype)
    first = _information(moments_at(samples, start), free)

    def improve(tilt: Array) -> tuple[Array, Array]:
        found = moments_at(samples, tilt)
        information = _information(found, free)
        move = -jnp.linalg.solve(information, jnp.where(free, found.total, 0))
        after = tilt + damp(move, jnp.sqrt(move @ information @ move), LONGEST_MOVE)
        after = after * jnp.minimum(1, longest / jnp.sqrt(after @ first @ after))
        return after, jnp.sqrt((after - tilt) @ information @ (after - tilt))

    tilt = search(improve, start, max_rounds=ROUNDS, tolerance=tolerance, dtype=start.dtype).state
    found = moments_at(samples, tilt)
    return Maximum(tilt=tilt, found=found, covariance=jnp.linalg.inv(_information(found, free)))


def _information(found: SampleMoments, free: Bool[Array, " arms"]) -> Float[Array, "arms arms"]:
    both = free[:, None] & free[None]
    return jnp.where(both, found.covariance, jnp.eye(free.shape[0], dtype=found.covariance.dtype))


def log_probability(family: Any, record: Record, best: Maximum, mean: Array, sampled_at: Array) -> Float[Array, ""]:
    """The log-probability of the arms at these means, from samples made at others: their likelihoods differ by the rewards'."""
    steps = (record.arms, record.rewards, record.beyond_end)
    there, here = (reward_log_prob(family, means, *steps) for means in (sampled_at, mean))
    return best.found.log_normaliser + here - there
