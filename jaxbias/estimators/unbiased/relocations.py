"""An arm's second, third or fourth pull at another time, together with another first reward.

An arm with a low first reward waits long for its second pull; with a higher one it would not have. So a new first reward alone is
seldom accepted, and a new time alone is not either. Here both change at once: the pull is put between the arm's pull before it
and the one after it, at a distance that is uniform on the scale of the logarithm. All other arms keep their order.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxbias.estimators.unbiased.orders import Question, Setup, pick
from jaxbias.likelihood import statistics_before

PULLS = 3  # the second, third or fourth pull, each as often
NEW_FIRST = 0.8  # of the relocations change the first reward
EXCHANGED = 0.3  # of those, given the sums, exchange the two rewards; otherwise they are turned
KEEPS_DRAWS = 0.5  # of the relocations keep the arm's draws as values, the others in units of its posterior


class Places(NamedTuple):
    """Where a pull is and where it goes: after the step `base`, at most `reach` steps later, at these distances."""

    source: Int[Array, " steps"]  # the step whose arm each step takes
    first: Int[Array, ""]
    new: Int[Array, ""]
    log_ratio: Float[Array, ""]  # of the probability to propose the way back over that of the way there
    possible: Bool[Array, ""]


def relocation(
    key: PRNGKeyArray, setup: Setup, question: Question, state: Any
) -> tuple[Array, Array, Array, Float[Array, ""], Bool[Array, ""]]:
    """Arms, rewards and draws that are proposed; what the proposal adds to their log-ratio; and whether there is one."""
    kinds, turn = jax.random.split(key)
    which, number, place, changes, exchanges, keeps = jax.random.uniform(kinds, (6,), state.rewards.dtype)
    arm = pick(which, jnp.int32(len(question.pulls)))
    pull = 1 + pick(number, jnp.int32(PULLS))
    own = state.arms == arm
    nth = jnp.cumsum(own) - 1
    places = _places(question, own, nth, pull, place)
    arms, rewards, draws = (values[places.source] for values in (state.arms, state.rewards, state.draws))
    pair = (rewards[places.first], rewards[places.new])
    pair = tuple(
        jnp.where(changes < NEW_FIRST, new, old)
        for new, old in zip(_other_rewards(turn, question, arm, exchanges, *pair), pair, strict=True)
    )
    rewards = rewards.at[places.first].set(pair[0]).at[places.new].set(pair[1])
    kept = _values_kept(setup, question, state, arms, rewards, places.source)
    moves = (arms == arm) & (jnp.cumsum(arms == arm) - 1 <= pull) & (keeps < KEEPS_DRAWS)
    new_draws = jnp.where(moves, draws + kept, draws)
    gain = jnp.sum(jnp.square(draws) - jnp.square(new_draws)) / 2
    return arms, rewards, new_draws, gain + places.log_ratio, places.possible


def _places(question: Question, own: Array, nth: Array, pull: Int[Array, ""], place: Float[Array, ""]) -> Places:
    """The distance d from the base has probability log((d + 1) / d), over log(reach + 1)."""
    num_steps = own.shape[0]
    steps = jnp.arange(num_steps, dtype=jnp.int32)
    at = lambda number: jnp.min(jnp.where(own & (nth == number), steps, num_steps))
    old, first = at(pull), at(0)
    forced = jnp.max(jnp.where(question.forced, steps, -1))
    base = jnp.maximum(at(pull - 1), forced)
    reach = jnp.maximum(at(pull + 1) - base - 1, 1)
    possible = (old < num_steps) & (old > base)
    log_reach = jnp.log1p(reach.astype(place.dtype))
    far = jnp.clip(jnp.exp(place * log_reach).astype(jnp.int32), 1, reach)
    new = jnp.where(possible, base + far, old)
    chance = lambda distance: jnp.log(jnp.log1p(1 / jnp.maximum(distance, 1).astype(place.dtype)))
    source = jnp.where(steps == new, old, jnp.where((steps > new) & (steps <= old), steps - 1, steps))
    source = jnp.where((steps >= old) & (steps < new), steps + 1, source)
    inside = jnp.minimum(jnp.stack([first, new]), num_steps - 1)
    source = jnp.where(possible, source, steps)
    return Places(source, inside[0], inside[1], chance(old - base) - chance(far), possible)


def _other_rewards(
    key: PRNGKeyArray, question: Question, arm: Array, exchanges: Array, first: Array, other: Array
) -> tuple[Array, Array]:
    """The two rewards exchanged or, given the sums, turned: their sum stays, and their difference is drawn around the old one."""
    if question.sigma is None:
        return other, first
    draw, turn = jax.random.split(key)
    spread = math.sqrt(2) * jnp.asarray(question.sigma)[arm] * jax.random.normal(draw, (), first.dtype)
    angle = jnp.pi * jax.random.uniform(turn, (), first.dtype)
    turned = jnp.cos(angle) * (first - other) + jnp.sin(angle) * spread
    difference = jnp.where(exchanges < EXCHANGED, other - first, turned)
    return (first + other + difference) / 2, (first + other - difference) / 2


def _values_kept(
    setup: Setup, question: Question, state: Any, arms: Array, rewards: Array, source: Int[Array, " steps"]
) -> Float[Array, " steps"]:
    """What is added to a draw in units of the posterior, so that its value stays: its arm had as many pulls, and so its scale."""
    before, _ = _own_posterior(setup, question, state.arms, state.rewards)
    after, scale = _own_posterior(setup, question, arms, rewards)
    return (before[source] - after) / scale


def _own_posterior(setup: Setup, question: Question, arms: Array, rewards: Array) -> tuple[Array, Array]:
    """Location and scale of the posterior of the arm of each step, as the policy saw it there."""
    seen = statistics_before(arms, rewards, len(question.pulls))
    if setup.seen is not None:
        seen = jax.tree.map(lambda leaf: leaf[setup.seen.number], seen)
    policy: Any = setup.policy
    location, scale = jax.vmap(policy.posterior)(seen)
    own = lambda values: jnp.take_along_axis(values, arms[:, None], axis=1)[:, 0]
    return own(location), own(jnp.broadcast_to(scale, location.shape))
