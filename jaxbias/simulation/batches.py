"""Whole batches at once: how many pulls each arm gets, and what their rewards sum to, in place of a step for every pull.

The choices of a batch are made from one state. Each on its own, they are multinomial; the sum of the rewards of an arm is drawn
from its own distribution: binomial, Normal, Poisson or Gamma. The time is that of the batches, not of the pulls. It is for
policies that look at pulls and sums only, and everything that needs no more of a path than these at its end.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxbias._core.binomial import multinomial
from jaxbias._core.layout import in_groups, trials_minor
from jaxbias._core.randomness import step_key
from jaxbias.policies import ArmStatistics
from jaxbias.rewards import Normal
from jaxbias.simulation.steps import PURPOSES, Batching, Problem, share_out

AT_ONCE = 128  # paths: what a batch of them needs stays in the cache, and XLA makes one loop of it


class Batch(NamedTuple):
    """A batch, the same for every path: its number, how many pulls the policy chooses, and how often each arm is forced."""

    number: Int[Array, "*batches"]
    free: Float[Array, "*batches"]
    forced: Float[Array, "*batches arms"]


class BatchSums(NamedTuple):
    """What each arm gave in each batch of each path."""

    pulls: Float[Array, "paths batches arms"]
    total: Float[Array, "paths batches arms"]


class Sums(NamedTuple):
    """What each arm of a path has: pulls, sum, squares where they are asked for; and whether a rule has stopped the path."""

    pulls: Float[Array, "*paths arms"]
    total: Float[Array, "*paths arms"]
    squares: Float[Array, "*paths arms"] | None
    stopped: Bool[Array, "*paths"] | None


def can_batch(problem: Problem, batching: Batching, num_arms: int, squares: bool = False) -> bool:
    """Whether whole batches can be drawn at once, in less time than their pulls."""
    policy, family, sizes = problem.policy, problem.family, batching.batch_sizes
    if sizes is None or not policy.keeps_statistics or not family.has_sums or (squares and not isinstance(family, Normal)):
        return False
    return sum(sizes) / len(sizes) >= max(policy.choice_cost(num_arms), 2)


def run_batches(
    problem: Problem,
    words: Array,
    batching: Batching,
    arms: Int[Array | np.ndarray, " steps"],
    forced: Bool[Array | np.ndarray, " steps"],
    means: Float[Array, "paths arms"] | None = None,
    squares_around: Float[Array, " arms"] | None = None,
) -> tuple[ArmStatistics, Float[Array, "paths arms"] | None]:
    """Paths at their end: pulls and sums, and where asked for the summed ((reward - around) / sigma)^2 of Normal rewards."""
    batches = _make_batches(batching, arms, forced, problem.mean.shape[0], problem.mean.dtype)

    def group(places: Int[Array, " size"]) -> Sums:
        own = None if means is None else means[places]
        return _run_group(problem, words[:, places], batching, batches, own, squares_around)[0]

    found = in_groups(group, words.shape[-1], AT_ONCE)
    return ArmStatistics(pulls=found.pulls.astype(jnp.int32), total=found.total), found.squares


def run_each_batch(
    problem: Problem,
    words: Array,
    batching: Batching,
    arms: Int[Array | np.ndarray, " steps"],
    forced: Bool[Array | np.ndarray, " steps"],
) -> BatchSums:
    """The same paths batch by batch; a batch after a rule has stopped the path is empty."""
    batches = _make_batches(batching, arms, forced, problem.mean.shape[0], problem.mean.dtype)

    def group(places: Int[Array, " size"]) -> BatchSums:
        after = _run_group(problem, words[:, places], batching, batches, None, None, each=True)[1]
        return BatchSums(*(jnp.diff(jnp.moveaxis(part, 0, 1), axis=1, prepend=0) for part in (after.pulls, after.total)))

    return in_groups(group, words.shape[-1], AT_ONCE)


def _make_batches(batching: Batching, arms: Any, forced: Any, num_arms: int, dtype: Any) -> Batch:
    sizes = np.asarray(batching.batch_sizes)
    batch = np.repeat(np.arange(len(sizes)), sizes)
    given = jnp.zeros((len(sizes), num_arms), dtype).at[batch, arms].add(forced.astype(dtype))
    return Batch(number=jnp.arange(len(sizes)), free=jnp.asarray(sizes, dtype) - jnp.sum(given, axis=1), forced=given)


def _run_group(
    problem: Problem,
    words: Array,
    batching: Batching,
    batches: Batch,
    means: Float[Array, "paths arms"] | None,
    around: Float[Array, " arms"] | None,
    each: bool = False,
) -> tuple[Sums, Any]:
    """The sums at the end, and after each batch where asked for, as `Sums` too."""
    dtype, shape = problem.mean.dtype, (words.shape[-1], problem.mean.shape[0])
    nothing = trials_minor(jnp.zeros(shape, dtype))
    stopped = None if problem.stop is None else jnp.zeros(shape[0], bool)
    start = Sums(pulls=nothing, total=nothing, squares=None if around is None else nothing, stopped=stopped)

    def one(mean: Array, words: Array, sums: Sums, batch: Batch) -> Sums:
        return _one_batch(problem._replace(mean=mean), batching.allocation, around, words, sums, batch)

    all_paths = jax.vmap(one, in_axes=(None if means is None else 0, -1, 0, None))
    mean = problem.mean if means is None else trials_minor(means)

    def body(sums: Sums, batch: Batch) -> tuple[Sums, Sums | None]:
        after = jax.tree.map(trials_minor, all_paths(mean, words, sums, batch))
        return after, after if each else None

    return jax.lax.scan(body, start, batches)


def _one_batch(problem: Problem, allocation: str, around: Array | None, words: Array, sums: Sums, batch: Batch) -> Sums:
    policy, family, mean, stop = problem[:4]
    choice, reward_key, square_key = (step_key(words, batch.number * PURPOSES + purpose) for purpose in range(PURPOSES))
    state = ArmStatistics(pulls=sums.pulls.astype(jnp.int32), total=sums.total)
    chosen = jnp.zeros_like(mean)
    if allocation == "shares":
        chosen = share_out(choice, policy.log_probs(state), batch.free.astype(jnp.int32)).astype(mean.dtype)
    else:
        chosen = multinomial(choice, batch.free, policy.choice_probs(state).astype(mean.dtype))
    pulls = batch.forced + chosen
    total = family.sample_sum(reward_key, mean, pulls)
    squares = (
        None
        if around is None or sums.squares is None
        else sums.squares + _squares(square_key, family, mean, around, pulls, total)
    )
    after = Sums(pulls=sums.pulls + pulls, total=sums.total + total, squares=squares, stopped=sums.stopped)
    if stop is None or sums.stopped is None:
        return after
    stopped = sums.stopped
    kept: Sums = jax.tree.map(lambda new, old: jnp.where(stopped, old, new), after, sums)
    stops = stop(ArmStatistics(pulls=kept.pulls.astype(jnp.int32), total=kept.total))
    return kept._replace(stopped=stopped | jnp.asarray(stops))


def _squares(
    key: Any,
    family: Any,
    mean: Float[Array, " arms"],
    around: Float[Array, " arms"],
    pulls: Float[Array, " arms"],
    total: Float[Array, " arms"],
) -> Float[Array, " arms"]:
    """Summed squares in units of sigma: those around the mean of the batch are chi-squared, whatever that mean is."""
    variance = family.variance(mean)
    freedom = jnp.maximum(pulls - 1, 0)
    within = 2 * jax.random.gamma(key, jnp.maximum(freedom, 1) / 2, mean.shape, mean.dtype)
    off = jnp.square(total - pulls * around) / (jnp.maximum(pulls, 1) * variance)
    return jnp.where(freedom > 0, within, 0) + jnp.where(pulls > 0, off, 0)
