"""Policies that pull the arm with the largest index, which is a function of its mean and pulls."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from jaxbias._core.layout import materialize
from jaxbias._core.settings import PROBABILITY, always, setting, settings
from jaxbias.policies.base import ArmStatistics, StatisticsPolicy
from jaxbias.policies.noise import TAU, TIES, choice_log_probs, choose, is_static_tau, tau_at


class IndexPolicy(StatisticsPolicy):
    """Pulls the arm with the largest `index(state)` after Gumbel noise of scale `tau`.

    A subclass writes `index` and has the settings `tau` and `ties`.
    """

    tau: Any
    ties: str

    noise_settings = ("tau",)

    def index(self, state: ArmStatistics) -> Float[Array, " arms"]:
        """The value by which the arms are compared."""
        raise TypeError(f"{type(self).__name__} has no index of a state with {len(state)} parts")

    def log_probs(self, state: ArmStatistics) -> Float[Array, " arms"]:
        """log softmax(index / tau)."""
        return choice_log_probs(self.index(state), tau_at(self.tau, state.pulls), self.ties)

    def sample(self, key: PRNGKeyArray, state: ArmStatistics) -> Int[Array, ""]:
        """argmax(index + tau * Gumbel)."""
        return choose(key, self.index(state), tau_at(self.tau, state.pulls), self.ties)


@settings
class Greedy(IndexPolicy):
    """Pulls the arm with the largest sample mean.

    Arguments:
        tau: scale of the Gumbel noise; a number or a function of the step.
        ties: "random", or "first" for the lowest arm.

    >>> import jax.numpy as jnp
    >>> state = ArmStatistics(pulls=jnp.array([1, 1]), total=jnp.array([0.0, 2.0]))
    >>> Greedy(tau=1.0).log_probs(state).round(4)
    Array([-2.1269, -0.1269], dtype=float32)
    """

    tau: Any = setting(default=0.0, allowed=TAU, static=is_static_tau)
    ties: str = setting(default="random", allowed=TIES, static=always)

    shift_invariant = True

    def index(self, state: ArmStatistics) -> Float[Array, " arms"]:
        """The sample means."""
        return state.mean


@settings
class EpsilonGreedy(StatisticsPolicy):
    """With probability epsilon an arm at random, otherwise as `Greedy`.

    Arguments:
        epsilon: probability of exploring; every arm is then equally likely.
        tau: scale of the Gumbel noise on the sample means when not exploring.
        ties: "random", or "first" for the lowest arm.
    """

    epsilon: Any = setting(default=0.1, allowed=PROBABILITY)
    tau: Any = setting(default=0.0, allowed=TAU, static=is_static_tau)
    ties: str = setting(default="random", allowed=TIES, static=always)

    noise_settings = ("tau", "epsilon")
    shift_invariant = True

    def log_probs(self, state: ArmStatistics) -> Float[Array, " arms"]:
        """log(epsilon / K + (1 - epsilon) softmax(mean / tau))."""
        greedy = choice_log_probs(state.mean, tau_at(self.tau, state.pulls), self.ties)
        epsilon = jnp.asarray(self.epsilon, greedy.dtype)
        return jnp.logaddexp(jnp.log(epsilon / greedy.shape[0]), jnp.log1p(-epsilon) + greedy)

    def sample(self, key: PRNGKeyArray, state: ArmStatistics) -> Int[Array, ""]:
        """Whether to explore, and where, do not depend on what was seen."""
        num_arms = state.pulls.shape[0]
        whether, where = materialize(jax.random.uniform(key, (2,)))
        explored = jnp.minimum((where * num_arms).astype(jnp.int32), num_arms - 1)
        greedy = choose(jax.random.fold_in(key, 1), state.mean, tau_at(self.tau, state.pulls), self.ties)
        return jnp.where(whether < self.epsilon, explored, greedy.astype(jnp.int32))
