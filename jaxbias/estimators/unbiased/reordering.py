"""Windows of one width that a log is cut into, and the rewards of some arms reordered within them."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxbias.estimators.unbiased.orders import Question, pick, steps_of_arms
from jaxbias.policies import ArmStatistics

FIRST = 0.6  # of the reorderings are of an arm's first reward in the window
SMALLEST_ANGLE = 0.05  # of a rotation: as much of the new rewards


class Windows(NamedTuple):
    """Windows of one width, as rows; the first and the last may run over the ends of the log.

    Fields:
        step, inside: (rows, width), the step of each place, clipped, and whether there is one.
        row, column: (steps,), the place of each step.
        start, end: (rows,), the first step of each row, and the one after its last.
        before, after: pulls and sums at the start and the end of each row.
    """

    step: Int[Array, "rows width"]
    inside: Bool[Array, "rows width"]
    row: Int[Array, " steps"]
    column: Int[Array, " steps"]
    start: Int[Array, " rows"]
    end: Int[Array, " rows"]
    before: ArmStatistics
    after: ArmStatistics


def cut(key: PRNGKeyArray, num_steps: int, width: int, around: ArmStatistics) -> Windows:
    """The log in rows, from a random shift; as one row where the width is all of it."""
    whole = width >= num_steps
    rows = 1 if whole else math.ceil(num_steps / width) + 1
    shift = jnp.int32(0) if whole else jax.random.randint(key, (), 0, width, jnp.int32) - width
    place = shift + jnp.arange(rows * width, dtype=jnp.int32).reshape(rows, width)
    start = jnp.clip(place[:, 0], 0, num_steps)
    end = jnp.clip(place[:, 0] + width, 0, num_steps)
    steps = jnp.arange(num_steps, dtype=jnp.int32) - shift
    at = lambda step: jax.tree.map(lambda leaf: leaf[step], around)
    return Windows(
        step=jnp.clip(place, 0, num_steps - 1),
        inside=(place >= 0) & (place < num_steps),
        row=steps // width,
        column=steps % width,
        start=start,
        end=end,
        before=at(start),
        after=at(end),
    )


def reorder(
    key: PRNGKeyArray,
    question: Question,
    state: Any,
    windows: Windows,
    around: ArmStatistics,
    which: Bool[Array, "rows arms"],
) -> Float[Array, " steps"]:
    """All rewards arm after arm, with those of some arms in some rows reordered; the state has `arms` and `rewards`."""
    steps = steps_of_arms(question, state.arms, around.pulls[:-1])
    rewards = state.rewards[steps]
    if question.sigma is None:
        return _swap(key, question, rewards, windows, which)
    return _rotate(key, question, rewards, windows.row[steps], which)


def _swap(key: PRNGKeyArray, question: Question, rewards: Array, windows: Windows, which: Array) -> Float[Array, " steps"]:
    """Two rewards of each such arm change places; which ones does not depend on the state."""
    kind, one, other = jax.random.uniform(key, (3, *which.shape), rewards.dtype)
    earlier = windows.before.pulls
    size = windows.after.pulls - earlier
    begin = question.offset[None] + earlier
    one, other = begin + jnp.where(kind < FIRST, 0, pick(one, size)), begin + pick(other, size)
    one, other = (jnp.where(which & (size > 1), place, len(rewards)).ravel() for place in (one, other))  # else nowhere
    values = rewards.at[one].get(mode="clip"), rewards.at[other].get(mode="clip")
    return rewards.at[one].set(values[1], mode="drop").at[other].set(values[0], mode="drop")


def _rotate(key: PRNGKeyArray, question: Question, rewards: Array, row: Array, which: Array) -> Float[Array, " steps"]:
    """The rewards of each such arm turned towards others with the same sum: their distribution given the sum stays as it is."""
    draw, turn = jax.random.split(key)
    num_arms = len(question.pulls)
    arm = jnp.repeat(jnp.arange(num_arms), question.pulls, total_repeat_length=len(rewards))
    group = row * num_arms + arm
    sums = lambda values: jax.ops.segment_sum(values, group, num_segments=which.size)
    size = jnp.maximum(sums(jnp.ones_like(rewards)), 1)
    average = (sums(rewards) / size)[group]
    drawn = jnp.asarray(question.sigma)[arm] * jax.random.normal(draw, rewards.shape, rewards.dtype)
    drawn = drawn - (sums(drawn) / size)[group]
    scale = jax.random.uniform(turn, (which.size,), rewards.dtype)[group]
    angle = np.pi / 2 * jnp.exp(scale * math.log(SMALLEST_ANGLE))
    turned = average + jnp.cos(angle) * (rewards - average) + jnp.sin(angle) * drawn
    return jnp.where(which.ravel()[group], turned, rewards)
