"""One log as the conditional likelihood sees it: what stays fixed while the rewards vary.

Which arm each step pulled, what it gave, and what was chosen before it. In a batch nothing is chosen between its pulls, so that
for a policy of pulls and sums all pulls of one arm are one step.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxbias.history import History, seen_by_batch
from jaxbias.likelihood import Choices, by_arrival, choices_made, statistics_before

NO_PULL = 1e-8  # pulls, where there is none: what it adds to a variance is lost in the rounding of float32


class Record(NamedTuple):
    """One trial. A step is one pull, or in a condensed record all pulls of one arm in a batch.

    Fields:
        arms, rewards: which arm each step pulled, and the sum of what it gave.
        sizes: how many pulls each step is.
        choices: what was chosen from the state before each step.
        pulls: of each arm before the step.
        length: how many steps there are, where the record is padded with steps of no pull; not known before compilation.
    """

    arms: Int[Array, " steps"]
    rewards: Float[Array, " steps"]
    sizes: Int[Array, " steps"]
    choices: Choices
    pulls: Int[Array, "steps arms"]
    length: Any = None

    @property
    def num_arms(self) -> int:
        """How many arms there are."""
        return self.pulls.shape[1]

    @property
    def beyond_end(self) -> Bool[Array, " steps"] | None:
        """Which steps are only padding; None where none is."""
        return None if self.length is None else self.sizes == 0

    @property
    def count(self) -> Float[Array, " arms"]:
        """Pulls of each arm at the end."""
        return self.by_arm(self.sizes.astype(self.rewards.dtype))

    @property
    def total(self) -> Float[Array, " arms"]:
        """Summed rewards of each arm at the end."""
        return self.by_arm(self.rewards)

    @property
    def choice_counts(self) -> Float[Array, "steps arms"]:
        """How many choices of each arm were made from the state before each step."""
        number = self.choices.number.astype(self.rewards.dtype)
        if self.choices.arm is None:
            return number
        return jax.nn.one_hot(self.choices.arm, self.num_arms, dtype=number.dtype) * number[:, None]

    def by_arm(self, values: Float[Array, " steps"]) -> Float[Array, " arms"]:
        """Values of the steps, summed for each arm."""
        return jnp.zeros(self.num_arms, values.dtype).at[self.arms].add(values)

    def running(self, path: Float[Array, " steps"]) -> Float[Array, "steps arms"]:
        """The sums of a path before each step."""
        return statistics_before(self.arms, path, self.num_arms).total

    def variance(self, sigma: Float[Array, " arms"]) -> Float[Array, " steps"]:
        """Of what each step gave, had the arms been fixed in advance; next to none where a batch has no pull of the arm."""
        return jnp.square(sigma)[self.arms] * jnp.maximum(self.sizes.astype(sigma.dtype), NO_PULL)

    def drift(self, mean: Float[Array, " arms"], path: Float[Array, " steps"]) -> Float[Array, " steps"]:
        """How far the expected sums are above those of the path."""
        return mean[self.arms] * self.sizes.astype(mean.dtype) - path


def record_of(history: History) -> Record:
    """One trial, with one step for each pull, in the order in which the rewards arrived."""
    arms, forced, seen = history.arms, history.forced_steps, history.seen_steps
    if seen is None:
        choices = Choices(arm=arms, number=1 - forced.astype(jnp.int32))
    else:
        choices = Choices(arm=None, number=choices_made(arms, forced, history.num_arms, seen))
    arms, rewards = by_arrival(seen, arms, history.rewards)
    beyond = history.beyond_end
    if beyond is None:
        return _with_pulls(arms, rewards, jnp.ones_like(arms), choices, history.num_arms)
    sizes = 1 - beyond.astype(arms.dtype)
    return _with_pulls(arms, rewards, sizes, choices, history.num_arms)._replace(length=history.lengths)


def condensed_record_of(history: History) -> Record:
    """One trial, by batches if it has any, which is all that a policy of pulls and sums can tell apart.

    A batch with more pulls than arms has one step for each arm: nothing is chosen between them.
    """
    batch_sizes = history.batch_sizes
    if batch_sizes is None:
        return record_of(history)
    arms, num_arms, chosen = history.arms, history.num_arms, 1 - history.forced_steps.astype(jnp.int32)
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
    rewards = jnp.zeros(num_steps, history.rewards.dtype).at[place].add(history.rewards)
    sizes = jnp.zeros(num_steps, arms.dtype).at[place].add(1)
    choices = jnp.zeros((num_steps, num_arms), jnp.int32).at[first_step[batch], arms].add(chosen)
    return _with_pulls(new_arms, rewards, sizes, Choices(None, choices), num_arms)


def _with_pulls(arms: Array, rewards: Array, sizes: Array, choices: Choices, num_arms: int) -> Record:
    pulls = statistics_before(arms, rewards, num_arms, sizes).pulls
    return Record(arms=arms, rewards=rewards, sizes=sizes, choices=choices, pulls=pulls)
