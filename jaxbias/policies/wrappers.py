"""A policy that looks at a function of the reward: its logarithm, its rank among few values, or the reward cut at a limit.

The estimate is of the mean of the rewards themselves. Only the choices use the transformed reward.
"""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from jaxbias._core.settings import always, setting, settings
from jaxbias.policies.base import BasePolicy, Policy, complete_policy


class Wrapped(BasePolicy):
    """A policy around another one, which may see something else than the reward."""

    policy: Any

    def seen(self, reward: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """What the policy sees of a reward: all of it, unless a subclass says otherwise."""
        return reward

    def init(self, num_arms: int) -> Any:
        """The policy's own."""
        return self.policy.init(num_arms)

    def log_probs(self, state: Any) -> Float[Array, " arms"]:
        """The policy's own."""
        return self.policy.log_probs(state)

    def sample(self, key: PRNGKeyArray, state: Any) -> Int[Array, ""]:
        """The policy's own."""
        return complete_policy(self.policy).sample(key, state)

    def sample_by_quantile(self, key: PRNGKeyArray, state: Any) -> Int[Array, ""]:
        """The policy's own."""
        return complete_policy(self.policy).sample_by_quantile(key, state)

    def draw(self, key: PRNGKeyArray, state: Any) -> Float[Array, " arms"]:
        """The policy's own."""
        return complete_policy(self.policy).draw(key, state)

    def choose(self, key: PRNGKeyArray, state: Any, draws: Float[Array, " arms"]) -> Int[Array, ""]:
        """The policy's own."""
        return complete_policy(self.policy).choose(key, state, draws)

    def drawn_log_prob(self, state: Any, arm: Int[Array, ""], draws: Float[Array, " arms"]) -> Float[Array, ""]:
        """The policy's own."""
        return complete_policy(self.policy).drawn_log_prob(state, arm, draws)

    @property
    def scores_draws(self) -> bool:
        """As the policy does."""
        return complete_policy(self.policy).scores_draws

    @property
    def has_sampler(self) -> bool:
        """Whether the policy has one."""
        return complete_policy(self.policy).has_sampler

    @property
    def is_adaptive(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As the policy is."""
        return complete_policy(self.policy).is_adaptive

    def log_prob_cost(self, num_arms: int) -> float:
        """The policy's own."""
        return complete_policy(self.policy).log_prob_cost(num_arms)

    def update(self, state: Any, arm: Int[Array, ""], reward: Float[Array, ""]) -> Any:
        """After what it sees of the reward."""
        return self.policy.update(state, arm, self.seen(reward))


@settings
class Transformed(Wrapped):
    """A policy on a function of the reward.

    Arguments:
        policy: what chooses the arms.
        transform: from a reward to what the policy sees of it, such as `jnp.log1p`; made of JAX operations.

    >>> import jax, jax.numpy as jnp, jaxbias as jb
    >>> policy = jb.Transformed(jb.Greedy(), jnp.tanh)
    >>> history = jb.simulate(jax.random.key(0), policy, jb.Normal(), [1.0, 0.75], num_steps=16)
    >>> estimate = jb.mean_matching(jax.random.key(1), history, policy, jb.Normal())
    """

    policy: Policy
    transform: Any = setting(static=always)

    def seen(self, reward: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The transform of the reward."""
        return self.transform(reward)


@settings
class Clipped(Wrapped):
    """A policy on rewards that are cut at two limits.

    Arguments:
        policy: what chooses the arms.
        low, high: the limits.

    >>> import jax.numpy as jnp, jaxbias as jb
    >>> Clipped(jb.BetaThompson(), low=0.0, high=1.0).seen(jnp.array([-2.0, 0.25, 3.0])).tolist()
    [0.0, 0.25, 1.0]
    """

    policy: Policy
    low: Any
    high: Any

    def seen(self, reward: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The reward, or the limit that it passes."""
        return jnp.clip(reward, jnp.asarray(self.low, reward.dtype), jnp.asarray(self.high, reward.dtype))
