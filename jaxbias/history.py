"""A history: which arms were pulled, what they gave, and which pulls were forced; simulated, or a log of one's own."""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxbias.policies import ArmStatistics

ALLOCATIONS = ("independent", "shares")


@partial(
    jax.tree_util.register_dataclass,
    data_fields=("arms", "rewards", "forced", "held_out", "draws", "lengths"),
    meta_fields=("num_arms", "batch_sizes", "allocation"),
)
@dataclasses.dataclass(frozen=True, kw_only=True)
class History:
    """What happened, step by step, in one trial or in a batch of them (a leading axis of trials).

    Arguments:
        arms: the arm pulled at each step, 0 to num_arms - 1.
        rewards: the reward it gave.
        num_arms: how many arms there were, pulled or not.
        forced: True where the arm was not chosen by the policy; without it, the first pull of each arm, or with batches the first
            batch, whose choices had seen nothing.
        held_out: a second reward of the same arm that the policy did not see, where one was drawn.
        draws: (steps, arms), what Thompson sampling drew for every arm before it chose, where that was recorded.
        lengths: (), how many of the steps were taken before a stopping rule ended the trial; what follows them is empty.
        batch_sizes: where several arms were chosen at once, how many: the choices of a batch have seen the rewards of the
            batches before it, and not its own. The same in every trial, and known before compilation.
        allocation: how a batch was shared out: "independent", each choice on its own, or "shares", as many pulls of each arm as
            its share of the batch, rounded up or down.

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
    lengths: Any = None
    batch_sizes: tuple[int, ...] | None = None
    allocation: str = "independent"

    @property
    def num_steps(self) -> int:
        """How many pulls each trial has."""
        return jnp.shape(self.arms)[-1]

    @property
    def statistics(self) -> ArmStatistics:
        """Pulls and summed rewards of each arm at the end: (arms,) or (trials, arms)."""
        return count(self.arms, self.rewards, self.num_arms, self.lengths)

    @property
    def forced_steps(self) -> Bool[Array, "*trials steps"]:
        """`forced`, or where it was not given, whether a step is the first pull of its arm, or one of the first batch."""
        if self.forced is not None:
            return jnp.asarray(self.forced)
        if self.batch_sizes is None:
            return first_pulls(self.arms, self.num_arms)
        return jnp.broadcast_to(jnp.arange(self.num_steps) < self.batch_sizes[0], jnp.shape(self.arms))

    @property
    def seen_steps(self) -> Int[np.ndarray, " steps"] | None:
        """How many rewards each choice had seen: those of the batches before its own. None where it had seen all before it."""
        return None if self.batch_sizes is None else seen_by_batch(self.batch_sizes)

    def trial(self, number: int) -> "History":
        """One trial of a batch of them, without what follows its end."""
        one: History = jax.tree.map(lambda leaf: leaf[number], self)
        return one if one.lengths is None else cut(one, int(one.lengths))


def cut(history: History, length: int) -> History:
    """The first steps of one trial."""
    sizes = history.batch_sizes
    if sizes is not None:
        ends = np.minimum(np.cumsum(sizes), length)
        sizes = tuple(int(size) for size in np.diff(ends, prepend=0) if size > 0)
    whole = dataclasses.replace(history, lengths=None, batch_sizes=None)
    return dataclasses.replace(jax.tree.map(lambda leaf: leaf[:length], whole), batch_sizes=sizes)


def seen_by_batch(batch_sizes: tuple[int, ...]) -> Int[np.ndarray, " steps"]:
    """The first step of the batch of each step.

    >>> seen_by_batch((2, 1, 3)).tolist()
    [0, 0, 2, 3, 3, 3]
    """
    sizes = np.asarray(batch_sizes)
    return np.repeat(np.cumsum(sizes) - sizes, sizes)


@partial(jax.jit, static_argnames="num_arms")
@partial(jnp.vectorize, signature="(s),(s),()->(k),(k)", excluded=(3,))
def _count(arms: jax.Array, rewards: jax.Array, length: jax.Array, num_arms: int) -> tuple[jax.Array, jax.Array]:
    taken = jnp.arange(arms.shape[0]) < length
    pulls = jnp.zeros(num_arms, jnp.int32).at[arms].add(taken.astype(jnp.int32))
    return pulls, jnp.zeros(num_arms, rewards.dtype).at[arms].add(jnp.where(taken, rewards, 0))


def count(
    arms: Int[Array | np.ndarray, "*trials steps"],
    rewards: Float[Array | np.ndarray, "*trials steps"],
    num_arms: int,
    lengths: Int[Array | np.ndarray, "*trials"] | None = None,
) -> ArmStatistics:
    """Pulls and summed rewards of each arm, over all steps or the first `lengths`."""
    taken = jnp.asarray(jnp.shape(arms)[-1] if lengths is None else lengths)
    pulls, total = _count(jnp.asarray(arms), jnp.asarray(rewards), taken, num_arms)
    return ArmStatistics(pulls=pulls, total=total)


@partial(jax.jit, static_argnames="num_arms")
@partial(jnp.vectorize, signature="(s)->(s)", excluded=(1,))
def first_pulls(arms: Int[Array | np.ndarray, "*trials steps"], num_arms: int) -> Bool[Array, "*trials steps"]:
    """Whether each step is the first pull of its arm."""
    steps = jnp.arange(arms.shape[0])
    first = jnp.full(num_arms, arms.shape[0]).at[arms].min(steps)
    return first[arms] == steps
