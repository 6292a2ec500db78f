"""Index policies with hundreds of arms and more: of all indices a step changes one, that of the arm it pulled.

The indices are kept in blocks of about sqrt(K) arms, with the largest of each block. A step compares the blocks' largest, then
the arms of one block: 2 sqrt(K) numbers in place of K. The arms that are chosen are the same to the last one, ties included.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxbias._core.layout import set_at
from jaxbias._core.settings import settings
from jaxbias.policies.base import ArmStatistics, BasePolicy
from jaxbias.policies.noise import break_ties

MANY_ARMS = 128  # from here on blocks are faster: lil' UCB with 256 arms and 256 trials twice, with 4,000 and 16 five times


class BlockedState(NamedTuple):
    """Pulls and sums, with the index of every arm in blocks, -inf where a block is not full, and the largest of each block."""

    pulls: Int[Array, " arms"]
    total: Float[Array, " arms"]
    index: Float[Array, "blocks size"]
    largest: Float[Array, " blocks"]


@settings
class BlockedPolicy(BasePolicy):
    """A policy whose choice follows from the arm with the largest index, where the index of an arm depends on that arm alone.

    Fields:
        policy: with `index`, `choose_by` and the setting `ties`, and without noise.
    """

    policy: Any

    def init(self, num_arms: int) -> BlockedState:
        """No pulls, no rewards."""
        start = self.policy.init(num_arms)
        size = math.isqrt(num_arms - 1) + 1
        blocks = -(-num_arms // size)
        index = jnp.pad(self.policy.index(start), (0, blocks * size - num_arms), constant_values=-jnp.inf).reshape(blocks, size)
        return BlockedState(start.pulls, start.total, index, jnp.max(index, axis=1))

    @property
    def keeps_statistics(self) -> bool:
        """Pulls and sums are part of the state."""
        return True

    def log_probs(self, state: BlockedState) -> Float[Array, " arms"]:
        """The policy's own."""
        return self.policy.log_probs(ArmStatistics(state.pulls, state.total))

    def sample(self, key: PRNGKeyArray, state: BlockedState) -> Int[Array, ""]:
        """As the policy does, with the best arm found by blocks."""

        def best(key: PRNGKeyArray) -> Int[Array, ""]:
            if self.policy.ties == "first":
                return _first_best(state.index, state.largest)[0]
            return _random_best(key, state.index, state.largest)

        return self.policy.choose_by(key, state.pulls.shape[0], best)

    def update(self, state: BlockedState, arm: Int[Array, ""], reward: Float[Array, ""]) -> BlockedState:
        """One more pull of this arm: its index, and the largest of its block, anew."""
        pulls, total = state.pulls[arm] + 1, state.total[arm] + reward.astype(state.total.dtype)
        index = self.policy.index(ArmStatistics(pulls[None], total[None]))[0]
        block, place = jnp.divmod(arm, state.index.shape[1])
        row = jax.lax.dynamic_index_in_dim(state.index, block, keepdims=False)
        row = jnp.where(jnp.arange(row.shape[0], dtype=place.dtype) == place, index, row)
        return BlockedState(
            pulls=set_at(state.pulls, arm, pulls),
            total=set_at(state.total, arm, total),
            index=jax.lax.dynamic_update_index_in_dim(state.index, row, block, 0),
            largest=set_at(state.largest, block, jnp.max(row)),
        )


def _first_best(index: Float[Array, "blocks size"], largest: Float[Array, " blocks"]) -> tuple[Int[Array, ""], Bool[Array, ""]]:
    """The first arm with the largest index, and whether another has the same."""
    block = jnp.argmax(largest)
    row = jax.lax.dynamic_index_in_dim(index, block, keepdims=False)
    top = largest[block]
    tied = (jnp.sum(largest == top) > 1) | (jnp.sum(row == top) > 1)
    return (block * row.shape[0] + jnp.argmax(row)).astype(jnp.int32), tied


@custom_vmap
def _random_best(key: PRNGKeyArray, index: Float[Array, "blocks size"], largest: Float[Array, " blocks"]) -> Int[Array, ""]:
    """The arm with the largest index, a random one of those that are tied. Only a tie in some trial needs all arms."""
    arm, tied = _first_best(index, largest)
    return jax.lax.cond(tied, lambda: break_ties(key, index.ravel()).astype(jnp.int32), lambda: arm)


@_random_best.def_vmap
def _random_best_of_trials(axis_size: int, in_batched: Any, key: Array, index: Array, largest: Array) -> tuple[Array, bool]:
    key, index, largest = (
        leaf if batched else jnp.broadcast_to(leaf[None], (axis_size, *leaf.shape))
        for leaf, batched in zip((key, index, largest), in_batched, strict=True)
    )
    arm, tied = jax.vmap(_first_best)(index, largest)
    broken = lambda: jax.vmap(break_ties)(key, index.reshape(axis_size, -1)).astype(jnp.int32)
    return jax.lax.cond(jnp.any(tied), broken, lambda: arm), True
