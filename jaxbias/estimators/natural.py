"""The maximum of the conditional likelihood in natural parameters, by weighted draws of the summed rewards.

Given the arms, the rewards of a one-parameter exponential family are one again, with the summed rewards S of each arm as its
statistic: with natural parameters eta (log-odds, log mean, -1 / mean) the log-likelihood is eta . S - log sum_s C(s) exp(eta . s)
where C(s) does not depend on eta. It is concave, with score S - E[S | arms] and information Cov[S | arms]. Draws, or all the
possible sums with their probabilities, made at one eta serve another by the weights exp(tilt . s).

An arm whose sum is at the end of what it can be (no success, or no failure) has its maximum there, at an infinite eta. What is
left of the others' likelihood is that of the sums where this arm's is the observed one.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxbias.estimators.draws import Draws, Moments, moments
from jaxbias.likelihood import reward_log_prob, statistics_before

LONGEST_STEP = 1.0  # of Newton's steps, in standard errors where it is taken
STEPS = 50  # on one set of draws, at most; six are usual
HALVINGS = {jnp.dtype("float32"): 40, jnp.dtype("float64"): 70}  # of an interval that holds an end: to the last digit


class Record(NamedTuple):
    """One trial, and what stays fixed while its rewards vary.

    Fields:
        arms, rewards: what happened.
        choices: how many choices of each arm the policy made from the state before each step.
        pulls: of each arm before each step.
        count, total: pulls and summed rewards at the end.
    """

    arms: Int[Array, " steps"]
    rewards: Float[Array, " steps"]
    choices: Float[Array, "steps arms"]
    pulls: Int[Array, "steps arms"]
    count: Float[Array, " arms"]
    total: Float[Array, " arms"]


class Edges(NamedTuple):
    """Which arms' sums are at an end of what they can be, and the mean that is there."""

    low: Bool[Array, " arms"]
    high: Bool[Array, " arms"]

    @property
    def either(self) -> Bool[Array, " arms"]:
        """At one end or the other."""
        return self.low | self.high


class Maximum(NamedTuple):
    """Where a search on one set of draws ended.

    Fields:
        tilt: how far, from the natural parameters of the draws; 0 for an arm at an end.
        found: the moments there.
        covariance: the inverse of the information there, of the natural parameters; that of an arm at an end is 1.
    """

    tilt: Float[Array, " arms"]
    found: Moments
    covariance: Float[Array, "arms arms"]


def make_record(
    arms: Int[Array, " steps"], rewards: Float[Array, " steps"], choices: Float[Array, "steps arms"], num_arms: int
) -> Record:
    """A trial with its pulls before each step, and its counts at the end."""
    pulls = statistics_before(arms, rewards, num_arms).pulls
    count = jnp.zeros(num_arms, rewards.dtype).at[arms].add(1)
    return Record(arms, rewards, choices, pulls, count, jnp.zeros(num_arms, rewards.dtype).at[arms].add(rewards))


def edges_of(family: Any, record: Record) -> Edges:
    """Where the sample means are those at the ends of the family's range."""
    low, high = family.mean_range
    return Edges(low=record.total <= low * record.count, high=record.total >= high * record.count)


def mean_at(family: Any, natural: Float[Array, " arms"], edges: Edges) -> Float[Array, " arms"]:
    """The means at natural parameters; at the ends of the range for the arms that are there."""
    low, high = (jnp.asarray(end, natural.dtype) for end in family.mean_range)
    inside = family.from_natural(natural)
    return jnp.where(edges.low, low, jnp.where(edges.high, high, inside))


def limited(draws: Draws, edges: Edges) -> Draws:
    """The draws in which the arms at an end are there."""
    away = jnp.any(edges.either[:, None, None] & (draws.total != 0), axis=0)
    return draws._replace(log_weight=jnp.where(away, -jnp.inf, draws.log_weight))


def maximise(draws: Draws, edges: Edges, longest: float) -> Maximum:
    """Newton's method on one set of draws, no further away from where they were made than `longest`, in standard errors."""
    free = ~edges.either
    tolerance = math.sqrt(jnp.finfo(draws.log_weight.dtype).eps)
    first = _information(moments(draws, jnp.zeros(free.shape, draws.total.dtype)), free)

    def going(search: tuple[Array, Array, Array]) -> Array:
        steps, _, length = search
        return (steps < STEPS) & (length > tolerance)

    def climb(search: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        steps, tilt, _ = search
        found = moments(draws, tilt)
        information = _information(found, free)
        step = -jnp.linalg.solve(information, jnp.where(free, found.total, 0))
        length = jnp.sqrt(step @ information @ step)
        after = tilt + step * (LONGEST_STEP / jnp.maximum(length, LONGEST_STEP))
        after = after * jnp.minimum(1, longest / jnp.sqrt(after @ first @ after))
        return steps + 1, after, jnp.sqrt((after - tilt) @ information @ (after - tilt))

    begin = (jnp.zeros((), jnp.int32), jnp.zeros(free.shape, draws.total.dtype), jnp.full((), jnp.inf, draws.total.dtype))
    tilt = jax.lax.while_loop(going, climb, begin)[1]
    found = moments(draws, tilt)
    return Maximum(tilt=tilt, found=found, covariance=jnp.linalg.inv(_information(found, free)))


def _information(found: Moments, free: Bool[Array, " arms"]) -> Float[Array, "arms arms"]:
    both = free[:, None] & free[None]
    return jnp.where(both, found.covariance, jnp.eye(free.shape[0], dtype=found.covariance.dtype))


def log_probability(family: Any, record: Record, best: Maximum, mean: Array, drawn_at: Array) -> Float[Array, ""]:
    """The log-probability of the arms at these means, from draws made at others: their likelihoods differ by the rewards'."""
    there, here = (reward_log_prob(family, means, record.arms, record.rewards) for means in (drawn_at, mean))
    return best.found.log_normaliser + here - there


def bisect(
    function: Callable[[Array], Array], goal: float | Array, low: Float[Array, "*arms"], high: Float[Array, "*arms"]
) -> Float[Array, "*arms"]:
    """Where an increasing function is `goal`, for each arm on its own, between two ends."""

    def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = (low + high) / 2
        below = function(middle) < goal
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    low, high = jax.lax.fori_loop(0, HALVINGS[jnp.dtype(low.dtype)], halve, (low, high))
    return (low + high) / 2
