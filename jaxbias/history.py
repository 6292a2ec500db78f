"""A history: which arms were pulled, what they gave, and which pulls were forced; simulated, or a log of one's own."""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxbias.policies import ArmStatistics


@partial(
    jax.tree_util.register_dataclass,
    data_fields=("arms", "rewards", "forced", "held_out", "draws"),
    meta_fields=("num_arms",),
)
@dataclasses.dataclass(frozen=True, kw_only=True)
class History:
    """What happened, step by step, in one trial or in a batch of them (a leading axis of trials).

    Arguments:
        arms: the arm pulled at each step, 0 to num_arms - 1.
        rewards: the reward it gave.
        num_arms: how many arms there were, pulled or not.
        forced: True where the arm was not chosen by the policy; without it, the first pull of each arm.
        held_out: a second reward of the same arm that the policy did not see, where one was drawn.
        draws: (steps, arms), what Thompson sampling drew for every arm before it chose, where that was recorded.

    >>> import jax.numpy as jnp
    >>> history = History(arms=jnp.array([0, 1, 1]), rewards=jnp.array([0.0, 1.0, 2.0]), num_arms=2)
    >>> history.statistics.mean.tolist(), history.forced_steps.tolist()
    ([0.0, 1.5], [True, True, False])
    """

    arms: Any  # (*trials, steps), as are the others; not checked, as JAX puts other things than arrays into its trees
    rewards: Any
    num_arms: int
    forced: Any = None
    held_out: Any = None
    draws: Any = None

    @property
    def num_steps(self) -> int:
        """How many pulls each trial has."""
        return jnp.shape(self.arms)[-1]

    @property
    def statistics(self) -> ArmStatistics:
        """Pulls and summed rewards of each arm at the end: (arms,) or (trials, arms)."""
        return count(self.arms, self.rewards, self.num_arms)

    @property
    def forced_steps(self) -> Bool[Array, "*trials steps"]:
        """`forced`, or where it was not given, whether a step is the first pull of its arm."""
        return first_pulls(self.arms, self.num_arms) if self.forced is None else jnp.asarray(self.forced)


@partial(jax.jit, static_argnames="num_arms")
@partial(jnp.vectorize, signature="(s),(s)->(k),(k)", excluded=(2,))
def _count(arms: jax.Array, rewards: jax.Array, num_arms: int) -> tuple[jax.Array, jax.Array]:
    pulls = jnp.zeros(num_arms, jnp.int32).at[arms].add(1)
    return pulls, jnp.zeros(num_arms, rewards.dtype).at[arms].add(rewards)


def count(
    arms: Int[Array | np.ndarray, "*trials steps"], rewards: Float[Array | np.ndarray, "*trials steps"], num_arms: int
) -> ArmStatistics:
    """Pulls and summed rewards of each arm."""
    pulls, total = _count(jnp.asarray(arms), jnp.asarray(rewards), num_arms)
    return ArmStatistics(pulls=pulls, total=total)


@partial(jax.jit, static_argnames="num_arms")
@partial(jnp.vectorize, signature="(s)->(s)", excluded=(1,))
def first_pulls(arms: Int[Array | np.ndarray, "*trials steps"], num_arms: int) -> Bool[Array, "*trials steps"]:
    """Whether each step is the first pull of its arm."""
    steps = jnp.arange(arms.shape[0])
    first = jnp.full(num_arms, arms.shape[0]).at[arms].min(steps)
    return first[arms] == steps
