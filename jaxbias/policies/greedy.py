"""Policies that pull the arm with the largest index, which is a function of its mean and pulls."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from jaxbias._core.layout import materialize
from jaxbias._core.settings import PROBABILITY, always, is_zero, setting, settings
from jaxbias.policies.base import ArmStatistics, BasePolicy, StatisticsPolicy
from jaxbias.policies.many_arms import MANY_ARMS, BlockedPolicy
from jaxbias.policies.noise import TAU, TIES, choice_log_probs, choose, is_static_tau, tau_at

Best = Callable[[PRNGKeyArray], Int[Array, ""]]


class IndexPolicy(StatisticsPolicy):
    """Pulls the arm with the largest `index(state)` after Gumbel noise of scale `tau`.

    A subclass writes `index` and has the settings `tau` and `ties`.

    Attributes:
        own_index: whether the index of an arm depends on that arm's pulls and rewards alone; each class declares it
            for itself; it is not inherited.
    """

    tau: Any
    ties: str

    noise_settings = ("tau",)
    own_index: bool = False

    def index(self, state: ArmStatistics) -> Float[Array, " arms"]:
        """The value by which the arms are compared."""
        raise TypeError(f"{type(self).__name__} has no index of a state with {len(state)} parts")

    def choose_by(self, key: PRNGKeyArray, num_arms: int, best: Best) -> Int[Array, ""]:
        """The choice, given a function from a key to the arm with the largest index."""
        del num_arms
        return best(key)

    def for_arms(self, num_arms: int) -> BasePolicy:
        """Many arms in blocks."""
        blocked = num_arms >= MANY_ARMS and is_zero(self.tau) and "own_index" in type(self).__dict__ and self.own_index
        return BlockedPolicy(policy=self) if blocked else self

    def log_probs(self, state: ArmStatistics) -> Float[Array, " arms"]:
        """log softmax(index / tau)."""
        return choice_log_probs(self.index(state), tau_at(self.tau, state.pulls), self.ties)

    def sample(self, key: PRNGKeyArray, state: ArmStatistics) -> Int[Array, ""]:
        """argmax(index + tau * Gumbel)."""
        best = lambda key: choose(key, self.index(state), tau_at(self.tau, state.pulls), self.ties)
        return self.choose_by(key, state.pulls.shape[0], best)


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
    own_index = True

    def index(self, state: ArmStatistics) -> Float[Array, " arms"]:
        """The sample means."""
        return state.mean


@settings
class EpsilonGreedy(IndexPolicy):
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
    own_index = True

    def index(self, state: ArmStatistics) -> Float[Array, " arms"]:
        """The sample means."""
        return state.mean

    def log_probs(self, state: ArmStatistics) -> Float[Array, " arms"]:
        """log(epsilon / K + (1 - epsilon) softmax(mean / tau))."""
        greedy = choice_log_probs(self.index(state), tau_at(self.tau, state.pulls), self.ties)
        epsilon = jnp.asarray(self.epsilon, greedy.dtype)
        return jnp.logaddexp(jnp.log(epsilon / greedy.shape[0]), jnp.log1p(-epsilon) + greedy)

    def choose_by(self, key: PRNGKeyArray, num_arms: int, best: Best) -> Int[Array, ""]:
        """Whether to explore, and where, do not depend on what was seen."""
        whether, where = materialize(jax.random.uniform(key, (2,)))
        explored = jnp.minimum((where * num_arms).astype(jnp.int32), num_arms - 1)
        return jnp.where(whether < self.epsilon, explored, best(jax.random.fold_in(key, 1)).astype(jnp.int32))
