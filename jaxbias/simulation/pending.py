"""Rewards on their way: kept in the slots of a schedule from the pull of their arm until the policy sees them."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxbias._core.arrivals import Schedule
from jaxbias.policies import BasePolicy


class Pending(NamedTuple):
    """Rewards that have not arrived, by slot of the schedule."""

    arm: Int[Array, "*trials slots"]
    reward: Float[Array, "*trials slots"]


def nothing_pending(family: Any, mean: Float[Array, " arms"], schedule: Schedule) -> Pending:
    """Before the first step."""
    shape = (schedule.num_slots,)
    reward = jax.eval_shape(lambda: family.sample(jax.random.key(0), mean))
    return Pending(arm=jnp.zeros(shape, jnp.int32), reward=jnp.zeros(shape, reward.dtype))


def wait(pending: Pending, slot: Int[Array, ""], arm: Int[Array, ""], reward: Float[Array, ""]) -> Pending:
    """With one more reward."""
    return Pending(arm=pending.arm.at[slot].set(arm), reward=pending.reward.at[slot].set(reward))


def arrive(
    policy: BasePolicy,
    state: Any,
    pending: Pending,
    schedule: Schedule,
    arrived: Int[Array, ""],
    until: Int[Array, ""],
) -> Any:
    """The policy state after the rewards that arrive now, from number `arrived` to `until` in order of arrival."""
    if schedule.most == 0:
        return state
    slots = jnp.asarray(schedule.arriving, jnp.int32)

    def update(number: Int[Array, ""], state: Any) -> Any:
        slot = slots[number]
        after = policy.update(state, pending.arm[slot], pending.reward[slot])
        return jax.tree.map(lambda new, old: jnp.asarray(new).astype(old.dtype), after, state)

    if schedule.most > 1:
        return jax.lax.fori_loop(arrived, until, update, state)
    # At most one: without a loop, which takes longer than an update that may be thrown away.
    after = update(jnp.minimum(arrived, slots.shape[0] - 1), state)
    return jax.tree.map(lambda new, old: jnp.where(until > arrived, new, old), after, state)
