"""Upper confidence bounds: the sample mean plus a width that shrinks with the pulls."""

from typing import Any

import jax.numpy as jnp
from jax.scipy.special import kl_div
from jaxtyping import Array, Float, Int

from jaxbias._core.search import bracket
from jaxbias._core.settings import BELOW_ONE, NON_NEGATIVE, POSITIVE, always, setting, settings
from jaxbias.policies.base import ArmStatistics
from jaxbias.policies.greedy import IndexPolicy
from jaxbias.policies.noise import TAU, TIES, is_static_tau


@settings
class LilUCB(IndexPolicy):
    """The lil' UCB index of Jamieson et al. (2014), as the paper writes it in its first appendix.

        mean + (1 + beta)(1 + sqrt(epsilon)) sqrt(2 (1 + epsilon) log(log((1 + epsilon) pulls) / delta) / pulls)

    Arguments:
        beta, epsilon, delta: the index's own parameters.
        tau: scale of the Gumbel noise; a number or a function of the step.
        ties: "random", or "first" for the lowest arm.
    """

    beta: Any = setting(default=1.0, allowed=NON_NEGATIVE)
    epsilon: Any = setting(default=0.01, allowed=POSITIVE)
    delta: Any = setting(default=0.005, allowed=BELOW_ONE)
    tau: Any = setting(default=0.0, allowed=TAU, static=is_static_tau)
    ties: str = setting(default="random", allowed=TIES, static=always)

    shift_invariant = True
    own_index = True

    def index(self, state: ArmStatistics) -> Float[Array, " arms"]:
        """The upper confidence bound."""
        return state.mean + self.width(state.pulls, state.total.dtype)

    def width(self, pulls: Int[Array, " arms"], dtype: Any) -> Float[Array, " arms"]:
        """How far the bound is above the mean after this many pulls."""
        beta, epsilon, delta = (jnp.asarray(value, dtype) for value in (self.beta, self.epsilon, self.delta))
        pulls = jnp.maximum(pulls, 1).astype(dtype)
        iterated = jnp.log(jnp.log((1 + epsilon) * pulls) / delta)
        # A delta above log(1 + epsilon) makes the logarithm negative at one pull: the width is then zero.
        width = jnp.sqrt(2 * (1 + epsilon) * jnp.maximum(iterated, 0) / pulls)
        return (1 + beta) * (1 + jnp.sqrt(epsilon)) * width

    def for_steps(self, num_steps: int) -> "TabulatedUCB":
        """The same policy for at most this many steps, with its widths in a table: two logarithms fewer a step."""
        pulls = jnp.arange(num_steps + 1, dtype=jnp.int32)
        return TabulatedUCB(width=self.width(pulls, jnp.result_type(float)), tau=self.tau, ties=self.ties)


@settings
class TabulatedUCB(IndexPolicy):
    """The sample mean plus a width from a table by pulls."""

    width: Any
    tau: Any = setting(static=is_static_tau)
    ties: str = setting(static=always)

    own_index = True

    def index(self, state: ArmStatistics) -> Float[Array, " arms"]:
        """The upper confidence bound."""
        return state.mean + self.width.at[state.pulls].get(mode="promise_in_bounds", wrap_negative_indices=False)


@settings
class UCB1(IndexPolicy):
    """UCB1 of Auer et al. (2002): mean + sqrt(2 log(steps so far) / pulls).

    Arguments:
        tau: scale of the Gumbel noise; a number or a function of the step.
        ties: "random", or "first" for the lowest arm.
    """

    tau: Any = setting(default=0.0, allowed=TAU, static=is_static_tau)
    ties: str = setting(default="random", allowed=TIES, static=always)

    shift_invariant = True

    def index(self, state: ArmStatistics) -> Float[Array, " arms"]:
        """The upper confidence bound."""
        mean = state.mean
        steps = jnp.maximum(jnp.sum(state.pulls), 1).astype(mean.dtype)
        return mean + jnp.sqrt(2 * jnp.log(steps) / jnp.maximum(state.pulls, 1).astype(mean.dtype))


@settings
class KLUCB(IndexPolicy):
    """KL-UCB of Garivier and Cappe (2011), for rewards from 0 to 1: the largest mean that the rewards do not exclude.

        max { q : pulls * kl(mean, q) <= log(steps) + c log(log(steps)) }
        kl(p, q) = p log(p / q) + (1 - p) log((1 - p) / (1 - q))

    Arguments:
        c: its authors prove their bound for 3 and advise 0.
        tau: scale of the Gumbel noise; a number or a function of the step.
        ties: "random", or "first" for the lowest arm.
    """

    c: Any = setting(default=0.0, allowed=NON_NEGATIVE)
    tau: Any = setting(default=0.0, allowed=TAU, static=is_static_tau)
    ties: str = setting(default="random", allowed=TIES, static=always)

    unit_rewards = True

    def index(self, state: ArmStatistics) -> Float[Array, " arms"]:
        """The upper end of the interval, by bisection."""
        dtype = state.total.dtype
        mean, pulls = state.mean, jnp.maximum(state.pulls, 1).astype(dtype)
        log_steps = jnp.log(jnp.maximum(jnp.sum(state.pulls), 1).astype(dtype))
        limit = (log_steps + jnp.asarray(self.c, dtype) * jnp.log(jnp.maximum(log_steps, 1))) / pulls

        def divergence(at: Float[Array, " arms"]) -> Float[Array, " arms"]:
            return kl_div(mean, at) + kl_div(1 - mean, 1 - at)

        return bracket(divergence, limit, mean, jnp.ones_like(mean))
