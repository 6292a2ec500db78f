"""One log as a walk of summed rewards: which arm each step pulled, what it gave, and what was chosen before it.

In a batch nothing is chosen between its pulls, so that all pulls of one arm are one step.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxbias.history import seen_by_batch
from jaxbias.likelihood import Choices, choices_made, statistics_before

NO_PULL = 1e-8  # pulls, where there is none: what it adds to a variance is lost in the rounding of float32


class Log(NamedTuple):
    """One trial: what was pulled, and what stays fixed while the rewards vary. A step is one pull, or in a batch all of one arm.

    Fields:
        arms, rewards: which arm each step pulled, and the sum of what it gave.
        sizes: how many pulls each step is.
        choices: what was chosen from the state before each step.
        pulls: of each arm before the step.
    """

    arms: Int[Array, " steps"]
    rewards: Float[Array, " steps"]
    sizes: Int[Array, " steps"]
    choices: Choices
    pulls: Int[Array, "steps arms"]


def make_log(
    arms: Int[Array, " steps"],
    rewards: Float[Array, " steps"],
    forced: Bool[Array, " steps"],
    num_arms: int,
    batch_sizes: tuple[int, ...] | None = None,
) -> Log:
    """A trial, with one step for each pull."""
    if batch_sizes is None:
        choices = Choices(arm=arms, number=1 - forced.astype(jnp.int32))
    else:
        choices = Choices(arm=None, number=choices_made(arms, forced, num_arms, seen_by_batch(batch_sizes)))
    return _with_pulls(arms, rewards, jnp.ones_like(arms), choices, num_arms)


def condense(
    arms: Int[Array, " steps"],
    rewards: Float[Array, " steps"],
    forced: Bool[Array, " steps"],
    num_arms: int,
    batch_sizes: tuple[int, ...],
) -> Log:
    """The same trial with as many steps for each batch as arms, where it has more pulls: nothing is chosen between them."""
    large = np.asarray(batch_sizes) > num_arms
    steps_of_batch = np.where(large, num_arms, batch_sizes)
    first_step = np.cumsum(steps_of_batch) - steps_of_batch
    batch, within = np.repeat(np.arange(len(batch_sizes)), batch_sizes), np.arange(sum(batch_sizes)) - seen_by_batch(batch_sizes)
    within_batch = jnp.where(jnp.asarray(large[batch]), arms, jnp.asarray(within, arms.dtype))
    place = jnp.asarray(first_step[batch], arms.dtype) + within_batch
    num_steps = int(steps_of_batch.sum())
    by_arm = jnp.asarray(np.repeat(large, steps_of_batch))
    which = np.arange(num_steps) - np.repeat(first_step, steps_of_batch)
    new_arms = jnp.where(by_arm, jnp.asarray(which, arms.dtype), jnp.zeros(num_steps, arms.dtype).at[place].max(arms))
    choices = jnp.zeros((num_steps, num_arms), jnp.int32).at[first_step[batch], arms].add(1 - forced.astype(jnp.int32))
    sizes = jnp.zeros(num_steps, arms.dtype).at[place].add(1)
    return _with_pulls(
        new_arms, jnp.zeros(num_steps, rewards.dtype).at[place].add(rewards), sizes, Choices(None, choices), num_arms
    )


def _with_pulls(arms: Array, rewards: Array, sizes: Array, choices: Choices, num_arms: int) -> Log:
    pulls = statistics_before(arms, rewards, num_arms, sizes).pulls
    return Log(arms=arms, rewards=rewards, sizes=sizes, choices=choices, pulls=pulls)


def running(arms: Int[Array, " steps"], path: Float[Array, " steps"], num_arms: int) -> Float[Array, "steps arms"]:
    """The sums of a path before each step."""
    return statistics_before(arms, path, num_arms).total


def variance_of(log: Log, sigma: Float[Array, " arms"]) -> Float[Array, " steps"]:
    """Of what each step gave, had the arms been fixed in advance; next to none where a batch has no pull of the arm."""
    return jnp.square(sigma)[log.arms] * jnp.maximum(log.sizes.astype(sigma.dtype), NO_PULL)


def drift_of(log: Log, mean: Float[Array, " arms"], path: Float[Array, " steps"]) -> Float[Array, " steps"]:
    """How far the expected sums are above those of the path."""
    return mean[log.arms] * log.sizes.astype(mean.dtype) - path
