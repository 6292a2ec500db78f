"""Upper confidence bounds: the sample mean plus a width that shrinks with the pulls."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxbias.policies.base import ArmStatistics
from jaxbias.policies.greedy import IndexPolicy
from jaxbias.policies.noise import TAU, TIES
from jaxbias.settings import BELOW_ONE, NON_NEGATIVE, POSITIVE, setting, settings


@settings
class LilUCB(IndexPolicy):
    """The lil' UCB index of Jamieson et al. (2014), as the paper writes it in its first appendix.

        mean + (1 + beta)(1 + sqrt(epsilon)) sqrt(2 (1 + epsilon) log(log((1 + epsilon) pulls) / delta) / pulls)

    Arguments:
        beta, epsilon, delta: the index's own parameters.
        tau: scale of the Gumbel noise; a number or a function of the step.
        ties: "random", or "first" for the lowest arm.
    """

    beta: Any = setting(1.0, NON_NEGATIVE)
    epsilon: Any = setting(0.01, POSITIVE)
    delta: Any = setting(0.005, BELOW_ONE)
    tau: Any = setting(0.0, TAU)
    ties: str = setting("random", TIES)

    def index(self, state: ArmStatistics) -> Float[Array, " arms"]:
        """The upper confidence bound."""
        mean = state.mean
        beta, epsilon, delta = (jnp.asarray(value, mean.dtype) for value in (self.beta, self.epsilon, self.delta))
        pulls = jnp.maximum(state.pulls, 1).astype(mean.dtype)
        iterated = jnp.log(jnp.log((1 + epsilon) * pulls) / delta)
        # A delta above log(1 + epsilon) makes the logarithm negative at one pull: the width is then zero.
        width = jnp.sqrt(2 * (1 + epsilon) * jnp.maximum(iterated, 0) / pulls)
        return mean + (1 + beta) * (1 + jnp.sqrt(epsilon)) * width


@settings
class UCB1(IndexPolicy):
    """UCB1 of Auer et al. (2002): mean + sqrt(2 log(steps so far) / pulls).

    Arguments:
        tau: scale of the Gumbel noise; a number or a function of the step.
        ties: "random", or "first" for the lowest arm.
    """

    tau: Any = setting(0.0, TAU)
    ties: str = setting("random", TIES)

    def index(self, state: ArmStatistics) -> Float[Array, " arms"]:
        """The upper confidence bound."""
        mean = state.mean
        steps = jnp.maximum(jnp.sum(state.pulls), 1).astype(mean.dtype)
        return mean + jnp.sqrt(2 * jnp.log(steps) / jnp.maximum(state.pulls, 1).astype(mean.dtype))
