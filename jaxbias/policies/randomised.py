"""Policies that choose by a stated probability: Exp3, and one that looks at nothing."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from jaxbias._core.layout import materialize
from jaxbias._core.settings import OPEN_PROBABILITY, setting, settings
from jaxbias.policies.base import ArmStatistics, BasePolicy, StatisticsPolicy
from jaxbias.policies.noise import choose


@settings
class Uniform(StatisticsPolicy):
    """Every arm equally likely at every step: data that are not adaptive."""

    is_adaptive = False
    shift_invariant = True

    def log_probs(self, state: ArmStatistics) -> Float[Array, " arms"]:
        """-log K."""
        return jnp.full(state.total.shape, -jnp.log(state.total.shape[0]), state.total.dtype)

    def sample(self, key: PRNGKeyArray, state: ArmStatistics) -> Int[Array, ""]:
        """An arm at random."""
        return jax.random.randint(key, (), 0, state.pulls.shape[0])


class Exp3State(NamedTuple):
    """The rewards of each arm, each divided by the probability with which it was chosen, and summed."""

    weighted_total: Float[Array, " arms"]


@settings
class Exp3(BasePolicy):
    """Exp3 of Auer et al. (2002).

        probability = (1 - gamma) softmax(gamma weighted_total / K) + gamma / K

    A reward counts with one over the probability the policy gave its arm, in the forced first pulls too, where that is near
    1 / K. It is a softmax already: Gumbel noise of scale 1 on gamma weighted_total / K; a larger gamma is less noise.

    Arguments:
        gamma: share of uniform exploration, and the rate of learning.
    """

    gamma: Any = setting(default=0.1, allowed=OPEN_PROBABILITY)

    def init(self, num_arms: int) -> Exp3State:
        """All arms alike."""
        return Exp3State(weighted_total=jnp.zeros(num_arms))

    def log_probs(self, state: Exp3State) -> Float[Array, " arms"]:
        """The log of the mixture above."""
        num_arms = state.weighted_total.shape[0]
        gamma = jnp.asarray(self.gamma, state.weighted_total.dtype)
        index = gamma * state.weighted_total / num_arms
        weight = jnp.exp(index - jax.lax.stop_gradient(jnp.max(index)))
        return jnp.log((1 - gamma) * weight / jnp.sum(weight) + gamma / num_arms)

    def sample(self, key: PRNGKeyArray, state: Exp3State) -> Int[Array, ""]:
        """The Gumbel-max trick on the log-probabilities."""
        return choose(key, materialize(self.log_probs(state)), 1.0, "first")

    def update(self, state: Exp3State, arm: Int[Array, ""], reward: Float[Array, ""]) -> Exp3State:
        """Adds reward / probability to the arm's sum."""
        chosen = jnp.arange(state.weighted_total.shape[0], dtype=arm.dtype) == arm
        reward = jnp.asarray(reward, state.weighted_total.dtype)
        weighted = reward * jnp.exp(-self.log_probs(state))
        return Exp3State(weighted_total=state.weighted_total + jnp.where(chosen, weighted, 0))
