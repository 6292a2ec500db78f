"""What platforms put around a policy: a floor under every probability, top-two sampling, a warm-up of equal allocation."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxbias._core.errors import ArgumentError
from jaxbias._core.settings import COUNT, PROBABILITY, is_concrete, setting, settings
from jaxbias.policies.base import BasePolicy, Policy, complete_policy
from jaxbias.policies.wrappers import Wrapped

ROUNDING = 1e-6  # a floor of 1 / K in float32


class _Around(Wrapped):
    """A policy that changes the probabilities of another one, which sees every reward as it is."""

    @property
    def unit_rewards(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As the policy says."""
        return complete_policy(self.policy).unit_rewards

    @property
    def keeps_statistics(self) -> bool:
        """As the policy does."""
        return complete_policy(self.policy).keeps_statistics

    @property
    def scores_draws(self) -> bool:
        """What the policy draws is not all that decides."""
        return False

    def shifted(self, offset: float) -> BasePolicy | None:
        """Around the policy shifted, where there is one."""
        inner: Any = self
        policy = complete_policy(self.policy).shifted(offset)
        return None if policy is None else dataclasses.replace(inner, policy=policy)


@settings
class Floored(_Around):
    """A policy that gives every arm at least some probability: floor + (1 - K floor) probability.

    Arguments:
        policy: what chooses otherwise.
        floor: the least probability of an arm, at most 1 / K.

    >>> import jax.numpy as jnp, jaxbias as jb
    >>> state = jb.policies.ArmStatistics(pulls=jnp.array([4, 4]), total=jnp.array([4.0, 0.0]))
    >>> [round(float(one), 2) for one in jnp.exp(Floored(jb.Greedy(), floor=0.05).log_probs(state))]
    [0.95, 0.05]
    """

    policy: Policy
    floor: Any = setting(default=0.01, allowed=PROBABILITY)

    noise_settings = ("floor",)

    def init(self, num_arms: int) -> Any:
        """The policy's own."""
        if is_concrete(self.floor) and float(self.floor) * num_arms > 1 + ROUNDING:
            raise ArgumentError("policy.floor", self.floor, f"at most 1 / {num_arms}, as there are {num_arms} arms")
        return self.policy.init(num_arms)

    def log_probs(self, state: Any) -> Float[Array, " arms"]:
        """The log of the mixture above."""
        log_probs = self.policy.log_probs(state)
        floor = jnp.asarray(self.floor, log_probs.dtype)
        rest = jnp.maximum(1 - log_probs.shape[0] * floor, 0)
        return jnp.logaddexp(jnp.log(floor), jnp.log(rest) + log_probs)

    def sample(self, key: PRNGKeyArray, state: Any) -> Int[Array, ""]:
        """With probability K floor an arm at random, otherwise as the policy does."""
        num_arms = jax.eval_shape(self.policy.log_probs, state).shape[0]
        whether, where = jax.random.uniform(jax.random.fold_in(key, 1), (2,))
        any_arm = jnp.minimum((where * num_arms).astype(jnp.int32), num_arms - 1)
        own = super().sample(key, state).astype(jnp.int32)
        return jnp.where(whether < num_arms * jnp.asarray(self.floor, whether.dtype), any_arm, own)


@settings
class TopTwo(_Around):
    """Top-two sampling of Russo (2020): the arm that the policy draws or, with probability 1 - beta, the next other one.

        probability of arm k = p_k (beta + (1 - beta) sum_{j != k} p_j / (1 - p_j))

    With `Thompson` or `BetaThompson` this is top-two Thompson sampling.

    Arguments:
        policy: what draws the arms, with probabilities p.
        beta: how often its first draw is kept.

    >>> import jax.numpy as jnp, jaxbias as jb
    >>> state = jb.policies.ArmStatistics(pulls=jnp.array([9, 9, 9]), total=jnp.array([9.0, 0.0, 0.0]))
    >>> [round(float(one), 2) for one in jnp.exp(TopTwo(jb.Thompson()).log_probs(state))]
    [0.5, 0.25, 0.25]
    """

    policy: Policy
    beta: Any = setting(default=0.5, allowed=PROBABILITY)

    def log_probs(self, state: Any) -> Float[Array, " arms"]:
        """The log of the formula above; with one arm there is no other."""
        first = self.policy.log_probs(state)
        num_arms = first.shape[0]
        if num_arms == 1:
            return first
        others = ~jnp.eye(num_arms, dtype=bool)
        log_rest = jax.nn.logsumexp(jnp.where(others, first[None], -jnp.inf), axis=1)  # log(1 - p_j), also where p_j is near 1
        # p_j p_k / (1 - p_j) is at most 1; an arm j that no other can follow passes its turn to none.
        second = jnp.where(others & jnp.isfinite(log_rest)[:, None], first[:, None] + first[None] - log_rest[:, None], -jnp.inf)
        beta = jnp.asarray(self.beta, first.dtype)
        log_probs = jnp.logaddexp(jnp.log(beta) + first, jnp.log1p(-beta) + jax.nn.logsumexp(second, axis=0))
        return log_probs - jax.nn.logsumexp(log_probs)

    sample = BasePolicy.sample

    @property
    def has_sampler(self) -> bool:
        """It draws from its log-probabilities."""
        return False


@settings
class WarmUp(_Around):
    """Every arm equally likely for the first steps, then the policy, which has seen their rewards.

    Arguments:
        policy: what chooses after the warm-up.
        num_steps: of the warm-up, forced first pulls included.

    >>> import jax, jaxbias as jb
    >>> policy = WarmUp(jb.Greedy(), num_steps=50)
    >>> history = jb.simulate(jax.random.key(0), policy, jb.Normal(), [1.0, 0.0], num_steps=60)
    """

    policy: Policy
    num_steps: Any = setting(default=100, allowed=COUNT)

    def init(self, num_arms: int) -> Any:
        """The policy's state, before the first step; with a number of steps where that state does not count the pulls."""
        own = self.policy.init(num_arms)
        return own if self.keeps_statistics else (own, jnp.zeros((), jnp.int32))

    def log_probs(self, state: Any) -> Float[Array, " arms"]:
        """-log K in the warm-up, then the policy's own."""
        own_state, warm = self._divide(state)
        own = self.policy.log_probs(own_state)
        return jnp.where(warm, -jnp.log(jnp.asarray(own.shape[0], own.dtype)), own)

    def sample(self, key: PRNGKeyArray, state: Any) -> Int[Array, ""]:
        """An arm at random, or as the policy does."""
        own_state, warm = self._divide(state)
        num_arms = jax.eval_shape(self.policy.log_probs, own_state).shape[0]
        any_arm = jax.random.randint(jax.random.fold_in(key, 1), (), 0, num_arms, jnp.int32)
        return jnp.where(warm, any_arm, super().sample(key, own_state).astype(jnp.int32))

    def update(self, state: Any, arm: Int[Array, ""], reward: Float[Array, ""]) -> Any:
        """The policy sees every reward."""
        own = self.policy.update(self._divide(state)[0], arm, reward)
        return own if self.keeps_statistics else (own, state[1] + 1)

    def _divide(self, state: Any) -> tuple[Any, Bool[Array, ""]]:
        """The policy's state, and whether the warm-up still goes on."""
        if self.keeps_statistics:
            return state, jnp.sum(state.pulls) < self.num_steps
        return state[0], state[1] < self.num_steps
