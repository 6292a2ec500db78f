"""Rewards of any family given the arms, by sequential Monte Carlo: for any policy, and logs of any length.

Particles are rewards drawn step by step for the arms of the log, each with the state that the policy would be in. Their weights
are the policy's probabilities of the choices that were made. Where the weights have become uneven, particles are drawn anew by
weight (systematic resampling), within groups that have nothing to do with each other: how the groups differ is the Monte Carlo
error. The cost is steps x arms for each particle.

The particles are held: only their weights have a derivative in the policy and the family, the score of each particle's path.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from jaxbias._core.derivatives import held, moving_with
from jaxbias._core.lengths import scan_up_to
from jaxbias.estimators.conditional_mle.record import Record
from jaxbias.estimators.conditional_mle.weighted_samples import Samples, make_samples
from jaxbias.policies import ArmStatistics, BasePolicy
from jaxbias.rewards import at_arm

GROUPS = 16  # of particles: the error of their differences is itself known to a sixth
UNEVEN = 0.5  # the effective share of a group below which it is resampled


class Particles(NamedTuple):
    """Particles at one step; the last axis is theirs.

    Fields:
        states: of the policy; nothing where it keeps pulls and sums.
        total: the summed rewards of each arm.
        log_weight: of each, less `constant`.
        constant: taken off, so that long logs lose no digits.
        tables: of the policy, where it has them.
    """

    states: Any
    total: Float[Array, "arms particles"]
    log_weight: Float[Array, " particles"]
    constant: Float[Array, ""]
    tables: Any


def sample_particles(
    key: PRNGKeyArray,
    policy: BasePolicy,
    family: Any,
    record: Record,
    mean: Float[Array, " arms"],
    number: int,
    tables: tuple[int, int] | None = None,
) -> Samples:
    """Weighted sums of rewards given the arms, at some means; with tables of so many rows and nodes where they are given."""
    num_arms = mean.shape[0]
    size = GROUPS * max(number // GROUPS, 2)
    shared = policy.keeps_statistics

    def body(particles: Particles, step: Any) -> tuple[Particles, None]:
        index, arm, choices, pulls = step
        reward_key, order_key = jax.random.split(jax.random.fold_in(key, index))

        def choose() -> Particles:
            log_probs = _log_probs(policy, particles, pulls, choices, shared)
            gain = jnp.sum(jnp.where(choices[:, None] > 0, choices[:, None] * log_probs, 0), axis=0)
            return _resample(order_key, _weigh(particles, gain))

        chosen = jax.lax.cond(jnp.any(choices > 0), choose, lambda: particles)
        arm_family, arm_mean = at_arm((family, mean), arm, num_arms)
        means = jnp.broadcast_to(held(arm_mean), (size,))
        rewards = held(arm_family).sample(reward_key, means)
        weight = moving_with(chosen.log_weight, chosen.log_weight + arm_family.log_prob(rewards, means))
        return _pull(policy, chosen._replace(log_weight=weight), arm, pulls[arm], rewards, shared), None

    start = Particles(
        states=None if shared else _copies(policy.init(num_arms), size),
        total=jnp.zeros((num_arms, size), mean.dtype),
        log_weight=jnp.zeros(size, mean.dtype),
        constant=jnp.zeros((), mean.dtype),
        tables=None if tables is None else policy.tables(num_arms, *tables, mean.dtype),
    )
    steps = (jnp.arange(record.arms.shape[0], dtype=jnp.int32), record.arms, record.choice_counts, record.pulls)
    last = scan_up_to(body, start, steps, record.length)[0]
    away = last.total - record.total[:, None]
    members = lambda leaf: jnp.swapaxes(leaf.reshape(*leaf.shape[:-1], GROUPS, -1), -1, -2)
    return make_samples(members(away), members(last.log_weight), last.constant)


def _copies(state: Any, size: int) -> Any:
    return jax.tree.map(lambda leaf: jnp.broadcast_to(jnp.asarray(leaf)[..., None], (*jnp.shape(leaf), size)), state)


def _log_probs(
    policy: BasePolicy, particles: Particles, pulls: Array, choices: Array, shared: bool
) -> Float[Array, "arms particles"]:
    if particles.tables is not None:
        nothing, rows = jnp.zeros_like(particles.log_weight), particles.tables.below.shape[1]
        successes = jnp.minimum(particles.total.astype(jnp.int32), rows - 1)
        of_arm = lambda arm: lambda: particles.tables.log_prob_at(arm, successes)
        return jnp.stack([jax.lax.cond(choices[arm] > 0, of_arm(arm), lambda: nothing) for arm in range(pulls.shape[0])])
    if shared:
        of_total = lambda total: policy.log_probs(ArmStatistics(pulls, total))
        return jax.vmap(of_total, in_axes=1, out_axes=1)(particles.total)
    return jax.vmap(policy.log_probs, in_axes=-1, out_axes=-1)(particles.states)


def _weigh(particles: Particles, gain: Float[Array, " particles"]) -> Particles:
    log_weight = particles.log_weight + gain
    largest = jnp.max(held(log_weight))
    return particles._replace(log_weight=log_weight - largest, constant=particles.constant + largest)


def _resample(key: PRNGKeyArray, particles: Particles) -> Particles:
    """In each group that has become uneven, particles by their weight; the group keeps its weight as a whole."""
    log_weight = particles.log_weight.reshape(GROUPS, -1)
    members = log_weight.shape[1]
    share = jax.nn.softmax(held(log_weight), axis=1)
    uneven = 1 / (members * jnp.sum(jnp.square(share), axis=1)) < UNEVEN
    places = (jnp.arange(members, dtype=share.dtype)[None] + jax.random.uniform(key, (GROUPS, 1), share.dtype)) / members
    chosen = jax.vmap(jnp.searchsorted)(jnp.cumsum(share, axis=1), places)
    chosen = jnp.where(uneven[:, None], jnp.minimum(chosen, members - 1), jnp.arange(members, dtype=chosen.dtype)[None])
    average = jax.nn.logsumexp(log_weight, axis=1, keepdims=True) - jnp.log(jnp.asarray(members, share.dtype))
    source = (chosen + members * jnp.arange(GROUPS, dtype=chosen.dtype)[:, None]).ravel()
    states, total = jax.tree.map(lambda leaf: leaf[..., source], (particles.states, particles.total))
    even = jnp.where(uneven[:, None], average, log_weight).ravel()
    # A particle drawn anew keeps the score of the one it was drawn from (Scibior and Wood 2021).
    return particles._replace(states=states, total=total, log_weight=moving_with(even, particles.log_weight[source]))


def _pull(
    policy: BasePolicy,
    particles: Particles,
    arm: Int[Array, ""],
    pulls: Int[Array, ""],
    rewards: Float[Array, " particles"],
    shared: bool,
) -> Particles:
    """After each particle's reward."""
    states = particles.states
    if not shared:
        after = jax.vmap(lambda state, reward: policy.update(state, arm, reward), in_axes=-1, out_axes=-1)(states, rewards)
        states = jax.tree.map(lambda new, old: new.astype(old.dtype), after, states)
    tables = None if particles.tables is None else particles.tables.after(arm, pulls)
    return particles._replace(states=states, total=particles.total.at[arm].add(rewards), tables=tables)
