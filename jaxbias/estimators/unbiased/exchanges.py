"""Two steps of each window change places, and the other steps keep their arms: one evaluation of the policy at all steps.

Windows are accepted each on its own, as the pulls and sums after a window stay as they are. A policy with a state of its own may
remember the order: what changes in one window then changes the probabilities in all later ones. It has one exchange at a time,
accepted by the probabilities of the whole log.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from jaxbias.estimators.unbiased.orders import (
    Order,
    Question,
    Setup,
    chosen_log_probs,
    pick,
    read_order,
    statistics_around,
    steps_of_arms,
    take,
    uniforms,
)

FROM_START = 0.6  # of the cuts have a window that begins with the log, and in it an opening reward is exchanged,
OPENING = 0.9  # as often as this: it is what is averaged
FIRST_WINDOW = 0.5  # of the exchanges of a policy with a state of its own: the opening rewards are there
SAME_ARM = 0.5  # of the other exchanges; else of any two steps, with their arms


def exchange(key: PRNGKeyArray, setup: Setup, question: Question, order: Order) -> tuple[Order, Array]:
    """One exchange in each window, each accepted with the ratio of the probabilities; also the share of steps that moved."""
    cut, draw, accept, which = jax.random.split(key, 4)
    num_steps, dtype = order.arms.shape[0], order.rewards.dtype
    window, start, end = windows_of(cut, question)
    partner = partners_of(draw, question, order.arms, order.rewards, (window, start, end))
    if not setup.policy.keeps_statistics:
        partner, window = _in_one_window(which, window, partner), jnp.zeros_like(window)
    proposed = read_order(setup, question, order.arms[partner], order.rewards[partner])
    gain = chosen_log_probs(question, proposed) - chosen_log_probs(question, order)
    ratio = jax.ops.segment_sum(gain, window, num_segments=num_steps + 1)
    likely = jnp.log(jax.random.uniform(accept, ratio.shape, dtype)) < ratio
    moved = likely[window] & (partner != jnp.arange(num_steps))
    return take(likely[window], proposed, order), jnp.mean(moved.astype(dtype))


def _in_one_window(key: PRNGKeyArray, window: Int[Array, " steps"], partner: Int[Array, " steps"]) -> Int[Array, " steps"]:
    """The exchange of one window alone: of the first, or of that of a random step."""
    kind, place = jax.random.uniform(key, (2,))
    only = window[jnp.where(kind < FIRST_WINDOW, 0, pick(place, jnp.int32(len(window))))]
    return jnp.where(window == only, partner, jnp.arange(len(window), dtype=partner.dtype))


Window = tuple[Int[Array, " steps"], Int[Array, " steps"], Int[Array, " steps"]]


def windows_of(key: PRNGKeyArray, question: Question) -> Window:
    """The window of each step, where it begins and where it ends: of one size, from two steps to all, and of whole batches."""
    size, shift, kind = jax.random.uniform(key, (3,))
    num_steps, num_arms = question.opening.shape
    least = jnp.where(kind < FROM_START, min(4 * num_arms, num_steps), 2)  # the arms' openings and a few choices
    width = (least * jnp.exp(size * jnp.log(2 * num_steps / least))).astype(jnp.int32)
    shift = jnp.where(kind < FROM_START, 0, pick(shift, width))
    window = (question.begins + shift) // width
    sizes = jax.ops.segment_sum(jnp.ones_like(window), window, num_segments=num_steps + 1)
    ends = jnp.cumsum(sizes)
    return window, (ends - sizes)[window], ends[window]


def partners_of(
    key: PRNGKeyArray, question: Question, arms: Int[Array, " steps"], rewards: Float[Array, " steps"], windows: Window
) -> Int[Array, " steps"]:
    """The step that each step changes places with, itself for most; which ones depends on nothing that the exchange changes."""
    num_steps, (window, start, end) = arms.shape[0], windows
    drawn = [values[window] for values in uniforms(key, 3, num_steps, rewards.dtype)]
    steps = jnp.arange(num_steps, dtype=jnp.int32)
    openings = jnp.clip(jnp.sum(question.opening > 0).astype(jnp.int32) - start, 0, end - start)
    of_opening = (openings > 0) & (drawn[0] < OPENING)
    one = start + pick(drawn[1], jnp.where(of_opening, openings, end - start))
    pulls = statistics_around(question, arms, rewards).pulls
    arm = arms[one]
    earlier = pulls[start, arm]
    inside = pulls[end, arm] - earlier
    same = steps_of_arms(question, arms, pulls[:-1])[question.offset[arm] + earlier + pick(drawn[2], inside)]
    keeps_arm = of_opening | (drawn[0] < SAME_ARM)
    other = jnp.where(keeps_arm, same, start + pick(drawn[2], end - start))
    allowed = (arms[other] == arm) | ~(question.forced[one] | question.forced[other])
    return jnp.where(allowed & (steps == one), other, jnp.where(allowed & (steps == other), one, steps))
