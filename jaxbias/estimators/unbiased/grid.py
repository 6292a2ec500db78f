"""The draws of Thompson sampling on a grid: a probability that one is the largest is a sum over its nodes.

The trapezoidal rule is exact to about exp(-2 pi^2 (scale / width)^2) for a Normal density, so nodes as far apart as the scale of
a posterior suffice: to 1e-8. Scales are small only near to where most pulls were; elsewhere the nodes are further apart.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxbias.estimators.unbiased.orders import Question
from jaxbias.policies import ArmStatistics

NODES_PER_ROOT = 4  # times the root of the number of steps, with which the smallest scale goes down: 4e-6 at T = 1,000, K = 10
FEWEST_NODES = 64
REACH = 4.5  # posterior scales beyond the largest and smallest means that the rewards allow
LOWEST = -12.5  # of a standard score: below it the distribution function is 0 in float32
LOG_ROOT = math.log(2 * math.pi) / 2


class Grid(NamedTuple):
    """Nodes, and how much of a line each stands for."""

    nodes: Float[Array, " nodes"]
    weights: Float[Array, " nodes"]

    def log_below(self, location: Float[Array, " rows"], scale: Float[Array, " rows"]) -> Float[Array, "rows nodes"]:
        """log-probability that a draw is below each node."""
        return log_below((self.nodes[None] - location[:, None]) / scale[:, None])

    def log_density(self, location: Float[Array, " rows"], scale: Float[Array, " rows"]) -> Float[Array, "rows nodes"]:
        """log-density of a draw at each node."""
        return log_density((self.nodes[None] - location[:, None]) / scale[:, None]) - jnp.log(scale)[:, None]


def log_below(score: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log of the Normal distribution function, fast, and no lower than float32 has it without its logarithm."""
    return jnp.log(0.5 * jax.lax.erfc(-jnp.maximum(score, LOWEST) * math.sqrt(0.5)))


def log_density(score: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log of the standard Normal density."""
    return -jnp.square(score) / 2 - LOG_ROOT


def num_nodes(num_steps: int) -> int:
    """Of a log of so many steps."""
    return max(FEWEST_NODES, math.ceil(NODES_PER_ROOT * math.sqrt(num_steps)))


def make_grid(policy: Any, question: Question) -> Grid:
    """For one log, from where the largest draw may be with any order of the rewards.

    The nodes are evenly spaced in u, at middle + spread * sinh(u), with the arms that were pulled often in the middle.
    """
    num_steps, dtype = len(question.rewards), question.rewards.dtype
    low, high, scale = _ends(policy, question)
    pulls = question.pulls.astype(dtype)
    share = pulls / jnp.sum(pulls)
    means = question.total.astype(dtype) / jnp.maximum(pulls, 1)
    middle = jnp.sum(share * means)
    spread = jnp.maximum(jnp.min(scale), jnp.sqrt(jnp.sum(share * jnp.square(means - middle))))
    first, last = (jnp.arcsinh((end - middle) / spread) for end in (low, high))
    number = num_nodes(num_steps)
    step = (last - first) / (number - 1)
    even = first + step * jnp.asarray(np.arange(number), dtype)
    return Grid(nodes=middle + spread * jnp.sinh(even), weights=step * spread * jnp.cosh(even))


def _ends(policy: Any, question: Question) -> tuple[Array, Array, Array]:
    """The lowest and the highest value of the largest draw; and the scale of each arm after one pull, or without one."""
    num_arms, dtype = len(question.pulls), question.rewards.dtype
    own = question.arms[:, None] == jnp.arange(num_arms, dtype=question.arms.dtype)[None]
    rewards = question.rewards[:, None]
    once = jnp.minimum(question.pulls, 1).astype(jnp.int32)
    nothing = jnp.zeros(num_arms, dtype)
    prior, _ = policy.posterior(ArmStatistics(pulls=jnp.zeros_like(once), total=nothing))
    scale = jnp.broadcast_to(policy.posterior(ArmStatistics(pulls=once, total=nothing))[1], (num_arms,))
    smallest = jnp.minimum(prior, jnp.min(jnp.where(own, rewards, jnp.inf), axis=0))
    largest = jnp.maximum(prior, jnp.max(jnp.where(own, rewards, -jnp.inf), axis=0))
    if question.sigma is not None:  # other rewards with the same sums go further
        smallest, largest = smallest - question.sigma, largest + question.sigma
    return jnp.max(smallest - REACH * scale), jnp.max(largest + REACH * scale), scale


def posterior_of(
    policy: Any, num_arms: int, arm: Array, pulls: Int[Array, " rows"], total: Float[Array, " rows"]
) -> tuple[Float[Array, " rows"], Float[Array, " rows"]]:
    """Location and scale of one arm after so many pulls with these sums."""
    every = lambda values: jnp.broadcast_to(values[:, None], (len(total), num_arms))
    found = jax.vmap(policy.posterior)(ArmStatistics(pulls=every(pulls), total=every(total)))
    location, scale = (jnp.broadcast_to(values, (len(total), num_arms))[:, arm] for values in found)
    return location, scale
