"""A Markov chain over the orders of one log's rewards and arms, which starts at the log itself.

The state is an order of each arm's rewards and a sequence of arms with the log's pulls; its probability is proportional to the
product of the policy's probabilities. The log is a draw from this distribution, so the chain is stationary from its first state
on, and its averages are unbiased however short it is. Proposals:

- Two rewards of an arm change places (or, for Normal rewards given the sums, an arm's rewards are rotated around their mean);
  then either the arms stay, which is accepted with the ratio of the probabilities;
- or the arms are read again from the policy, with the noise that the state's arms had: the choice of an arm is the argmax of its
  log-probability plus a Gumbel variable, and the Gumbel variables are drawn given the arms of the state. That is accepted where
  the pulls of each arm come out the same. A policy without noise has no other way to another sequence of arms.
- At times the noise of a few steps is drawn anew, and the rewards stay.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxbias.policies import ArmStatistics, BasePolicy, StatisticsPolicy

KEEP_ARMS = 0.5  # of the proposals
NEW_NOISE = 0.15  # of the proposals; it changes nothing for a policy without noise
FIRST = 0.5  # of the swaps are with an arm's first reward, which is what is averaged
SMALLEST_ANGLE = 0.05  # of a rotation: as much of the new rewards


class Question(NamedTuple):
    """One log.

    Fields:
        pulls, offset: of each arm, and where its rewards begin in an array of all, arm after arm.
        forced, first: of each step: whether it was forced, and whether the policy looked before it (in a batch, at its first).
        looks: whether the stopping rule looked before the step.
        opening: (arms, steps), the weight of each reward in the average of the arm's opening.
    """

    pulls: Int[Array, " arms"]
    offset: Int[Array, " arms"]
    arms: Int[Array, " steps"]
    forced: Bool[Array, " steps"]
    first: Bool[Array, " steps"]
    looks: Bool[Array, " steps"]
    opening: Float[Array, "arms steps"]


class Order(NamedTuple):
    """The state of a chain: rewards arm after arm, in the order of the pulls; arms and log-probabilities of all steps."""

    rewards: Float[Array, " steps"]
    arms: Int[Array, " steps"]
    log_probs: Float[Array, "steps arms"]


class Chain(NamedTuple):
    """What a half of a chain gave: averages and variances of the arms' openings, and the share of accepted proposals."""

    mean: Float[Array, "*halves arms"]
    variance: Float[Array, "*halves arms"]
    accepted: Float[Array, "*halves"]


def follow(policy: BasePolicy, stop: Any, question: Question, rewards: Array, choose: Any, per_step: Any) -> tuple[Order, Array]:
    """A trial with these rewards: `choose` picks each arm from the log-probabilities and what it has for the step.

    Also whether every arm was pulled as often as in the log, and no rule ended the trial early.
    """
    num_arms = question.pulls.shape[0]

    def step(carry: Any, now: Any) -> Any:
        state, statistics, held, valid = carry
        own, forced, first, looks, arm = now
        log_probs = jnp.where(first, policy.log_probs(state), held)
        arm = jnp.where(forced, arm, choose(log_probs, own)).astype(jnp.int32)
        valid = valid & (statistics.pulls[arm] < question.pulls[arm])
        if stop is not None:
            valid = valid & ~(looks & stop(statistics))
        place = question.offset[arm] + jnp.minimum(statistics.pulls[arm], question.pulls[arm] - 1)
        reward = rewards[place]
        after = jax.tree.map(lambda new, old: jnp.asarray(new).astype(old.dtype), policy.update(state, arm, reward), state)
        return (after, StatisticsPolicy().update(statistics, arm, reward), log_probs, valid), (arm, log_probs)

    state = jax.tree.map(jnp.asarray, policy.init(num_arms))
    statistics = ArmStatistics(pulls=jnp.zeros(num_arms, jnp.int32), total=jnp.zeros(num_arms, rewards.dtype))
    held = jnp.zeros_like(policy.log_probs(state))
    by_step = (per_step, question.forced, question.first, question.looks, question.arms)
    (*_, valid), (arms, log_probs) = jax.lax.scan(step, (state, statistics, held, jnp.ones((), bool)), by_step)
    return Order(rewards=rewards, arms=arms, log_probs=log_probs), valid


def run_chain(
    key: PRNGKeyArray, policy: BasePolicy, stop: Any, question: Question, rewards: Array, num_rounds: int, sums_only: Any
) -> Chain:
    """One chain from the log, as two halves, and its averages. `sums_only`: sigma of each arm, or None."""
    start, _ = follow(policy, stop, question, rewards, lambda _, arm: arm, question.arms)

    def one_round(carry: Any, key: PRNGKeyArray) -> Any:
        order, total, squares, accepted = carry
        order, taken = _move(key, policy, stop, question, order, sums_only)
        value = question.opening @ order.rewards - origin
        return (order, total + value, squares + jnp.square(value), accepted + taken.astype(total.dtype)), None

    origin = question.opening @ rewards
    nothing = jnp.zeros_like(origin)

    def half(order: Order, keys: Any) -> tuple[Order, Chain]:
        (order, total, squares, accepted), _ = jax.lax.scan(one_round, (order, nothing, nothing, jnp.zeros_like(origin[0])), keys)
        mean = total / len(keys)
        possible = jnp.isfinite(_log_prob(question, order))  # of the log too, as a chain never leaves what is possible
        return order, Chain(
            jnp.where(possible, mean + origin, jnp.nan), squares / len(keys) - jnp.square(mean), accepted / len(keys)
        )

    keys = jax.random.split(key, (2, num_rounds // 2))
    return jax.lax.scan(half, start, keys)[1]


def _move(key: PRNGKeyArray, policy: Any, stop: Any, question: Question, order: Order, sums_only: Any) -> tuple[Order, Array]:
    """One proposal, accepted or not."""
    keys = jax.random.split(key, 5)
    kind = jax.random.uniform(keys[0])
    keeps, renews = kind < KEEP_ARMS, kind > 1 - NEW_NOISE
    given = (keys[1], question, order.rewards)
    rewards = jnp.where(renews, order.rewards, _swap(*given) if sums_only is None else _rotate(*given, sums_only))
    noise = _noise(keys[2], order)
    fresh = jax.random.gumbel(jax.random.fold_in(keys[2], 1), order.log_probs.shape, order.log_probs.dtype)
    noise = jnp.where((renews & _window(keys[3], order.arms.shape[0]))[:, None], fresh, noise)

    def choose(log_probs: Float[Array, " arms"], own: tuple[Array, Array]) -> Int[Array, ""]:
        arm, noise = own
        return jnp.where(keeps, arm, jnp.argmax(log_probs + noise).astype(arm.dtype))

    proposed, valid = follow(policy, stop, question, rewards, choose, (order.arms, noise))
    ratio = _log_prob(question, proposed) - _log_prob(question, order)
    likely = jnp.log(jax.random.uniform(keys[4], dtype=ratio.dtype)) < ratio
    accepted = valid & (~keeps | likely)
    return jax.tree.map(lambda new, old: jnp.where(accepted, new, old), proposed, order), accepted


def _log_prob(question: Question, order: Order) -> Float[Array, ""]:
    chosen = jnp.take_along_axis(order.log_probs, order.arms[:, None], axis=1)[:, 0]
    return jnp.sum(jnp.where(question.forced, 0, chosen))


def _noise(key: PRNGKeyArray, order: Order) -> Float[Array, "steps arms"]:
    """Gumbel variables, given that each step's arm is the argmax of its log-probabilities plus them (Maddison et al. 2014).

    The maximum is a Gumbel variable of its own, and the others are cut off there.
    """
    top, rest = jax.random.split(key)
    shape, dtype = order.log_probs.shape, order.log_probs.dtype
    free = jax.random.gumbel(rest, shape, dtype)
    largest = jax.random.gumbel(top, shape[:1], dtype)[:, None]
    possible = jnp.isfinite(order.log_probs)
    log_probs = jnp.where(possible, order.log_probs, 0)
    below = -jnp.logaddexp(-largest, -(log_probs + free)) - log_probs
    is_chosen = order.arms[:, None] == jnp.arange(shape[1], dtype=order.arms.dtype)[None]
    return jnp.where(is_chosen, largest - log_probs, jnp.where(possible, below, free))


def _window(key: PRNGKeyArray, num_steps: int) -> Bool[Array, " steps"]:
    """Some steps in a row, anywhere; few more often than many."""
    place, length = jax.random.uniform(key, (2,))
    begin = (place * num_steps).astype(jnp.int32)
    size = jnp.exp(length * math.log(num_steps)).astype(jnp.int32)
    steps = jnp.arange(num_steps)
    return (steps >= begin) & (steps <= begin + size)


def _swap(key: PRNGKeyArray, question: Question, rewards: Float[Array, " steps"]) -> Float[Array, " steps"]:
    """Two rewards of an arm change places; which ones does not depend on the state."""
    which, kind, place, distance = jax.random.uniform(key, (4,))
    arm = _pick_arm(which, question)
    pulls, offset = question.pulls[arm], question.offset[arm]
    size = pulls.astype(place.dtype)
    one = jnp.where(kind < FIRST, 0, jnp.minimum((jnp.square(place) * size).astype(jnp.int32), pulls - 1))
    other = (one + jnp.exp(distance * jnp.log(size)).astype(jnp.int32)) % pulls
    one, other = offset + one, offset + other
    return rewards.at[one].set(rewards[other]).at[other].set(rewards[one])


def _rotate(key: PRNGKeyArray, question: Question, rewards: Float[Array, " steps"], sigma: Array) -> Float[Array, " steps"]:
    """The rewards of an arm turned towards others with the same sum: their distribution given the sum stays as it is."""
    which, draw, turn = jax.random.split(key, 3)
    arm = _pick_arm(jax.random.uniform(which), question)
    of_arm = jnp.arange(rewards.shape[0])
    inside = (of_arm >= question.offset[arm]) & (of_arm < question.offset[arm] + question.pulls[arm])
    size = question.pulls[arm].astype(rewards.dtype)
    average = jnp.sum(jnp.where(inside, rewards, 0)) / size
    drawn = sigma[arm] * jax.random.normal(draw, rewards.shape, rewards.dtype)
    drawn = drawn - jnp.sum(jnp.where(inside, drawn, 0)) / size
    scale = jax.random.uniform(turn, dtype=rewards.dtype)
    angle = np.pi / 2 * jnp.exp(scale * math.log(SMALLEST_ANGLE))
    return jnp.where(inside, average + jnp.cos(angle) * (rewards - average) + jnp.sin(angle) * drawn, rewards)


def _pick_arm(number: Float[Array, ""], question: Question) -> Int[Array, ""]:
    """One of the arms with two pulls or more, each as likely; the first arm where there is none."""
    movable = (question.pulls > 1).astype(jnp.int32)
    rank = (number * jnp.sum(movable).astype(number.dtype)).astype(jnp.int32)
    return jnp.argmax(jnp.cumsum(movable) > rank).astype(jnp.int32)
