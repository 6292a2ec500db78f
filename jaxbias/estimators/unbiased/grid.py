"""The draws of Thompson sampling on a grid: a probability that one is the largest is a sum over its nodes.

The trapezoidal rule is exact to about exp(-2 pi^2 (scale / width)^2) for a Normal density, so nodes as far apart as the smallest
scale of a posterior suffice: to 1e-8 there, and better for all wider ones.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxbias.estimators.unbiased.orders import Question
from jaxbias.policies import ArmStatistics

NODES_PER_ROOT = 8  # times the root of the number of steps: the smallest posterior scale goes down with that root
FEWEST_NODES = 96
REACH = 4.5  # posterior scales beyond the largest and smallest means that the rewards allow
LOWEST = -12.5  # of a standard score: below it the distribution function is 0 in float32
LOG_ROOT = math.log(2 * math.pi) / 2


class Grid(NamedTuple):
    """Nodes that are `width` apart."""

    nodes: Float[Array, " nodes"]
    width: Float[Array, ""]

    def log_below(self, location: Float[Array, "*rows"], scale: Float[Array, "*rows"]) -> Float[Array, "*rows nodes"]:
        """log-probability that a draw is below each node."""
        score = jnp.maximum((self.nodes - location[..., None]) / scale[..., None], LOWEST)
        return jnp.log(0.5 * jax.lax.erfc(-score * math.sqrt(0.5)))

    def log_density(self, location: Float[Array, "*rows"], scale: Float[Array, "*rows"]) -> Float[Array, "*rows nodes"]:
        """log-density of a draw at each node."""
        score = (self.nodes - location[..., None]) / scale[..., None]
        return -jnp.square(score) / 2 - jnp.log(scale[..., None]) - LOG_ROOT


def make_grid(policy: Any, question: Question) -> Grid:
    """For one log, from where the largest draw may be with any order of the rewards."""
    num_steps, num_arms = question.opening.shape
    own = question.arms[:, None] == jnp.arange(num_arms, dtype=question.arms.dtype)[None]
    ends = [jnp.where(own, question.rewards[:, None], limit) for limit in (jnp.inf, -jnp.inf)]
    one = ArmStatistics(pulls=jnp.ones(num_arms, jnp.int32), total=jnp.zeros(num_arms, question.rewards.dtype))
    prior, wide = policy.posterior(one._replace(pulls=jnp.zeros(num_arms, jnp.int32)))
    _, scale = policy.posterior(one)
    never = question.pulls == 0
    smallest = jnp.where(never, prior, jnp.min(ends[0], axis=0))
    largest = jnp.where(never, prior, jnp.max(ends[1], axis=0))
    if question.sigma is not None:  # other rewards with the same sums go further
        smallest, largest = smallest - question.sigma, largest + question.sigma
    scale = jnp.where(never, wide, scale)
    low, high = jnp.max(jnp.minimum(smallest, prior) - REACH * scale), jnp.max(jnp.maximum(largest, prior) + REACH * scale)
    number = max(FEWEST_NODES, math.ceil(NODES_PER_ROOT * math.sqrt(num_steps)))
    width = (high - low) / (number - 1)
    return Grid(nodes=low + width * np.arange(number), width=width)


def posterior_of(policy: Any, num_arms: int, arm: Array, pulls: Array, total: Array) -> tuple[Array, Array]:
    """Location and scale of one arm after so many pulls with these sums, of the same shape or to be broadcast."""
    pulls = jnp.broadcast_to(pulls, total.shape)
    every = lambda values: jnp.broadcast_to(values[..., None], (*values.shape, num_arms))
    flat = ArmStatistics(pulls=every(pulls).reshape(-1, num_arms), total=every(total).reshape(-1, num_arms))
    location, scale = jax.vmap(policy.posterior)(flat)
    of_arm = lambda values: jnp.broadcast_to(values, flat.total.shape)[:, arm].reshape(total.shape)
    return of_arm(location), of_arm(scale)
