"""The bias of sample means under a policy, by simulation: bias, mean squared error and joint bias, with their errors.

Logs are never kept. Each block of trials gives a count, a mean and a sum of squares about that mean; blocks are merged in order
in float64 (Chan, Golub and LeVeque 1979), which loses no digits and does not depend on how the trials were chunked and spread.
"""

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt

from jaxbias._core.chunks import Firsts, split_trials, trials_at_once
from jaxbias._core.devices import collect, device_count, on_each_device, one_ahead, trial_mesh
from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import compiled
from jaxbias._core.randomness import trial_words
from jaxbias._core.settings import is_concrete
from jaxbias.bias.sources import BiasSources, Chooser, check_choose, find_sources, source_features
from jaxbias.policies import ArmStatistics, Policy
from jaxbias.rewards import Family
from jaxbias.simulation.steps import Batching, Outcome, Problem, Progress, part_of, run_trials, start_trials, statistics_of
from jaxbias.simulation.trials import make_batching, opened_steps, prepare
from jaxbias.stopping import StoppingRule

BLOCK = 256  # trials summed together: a power of two, as the sum is a tree


class Trajectory(NamedTuple):
    """The bias after each step; NaN for an arm that was not pulled yet."""

    bias: Float[np.ndarray, "steps arms"]
    bias_stderr: Float[np.ndarray, "steps arms"]


class After(NamedTuple):
    """Each trial at a given step, and what came after it."""

    error: Float[Array | np.ndarray, "trials arms"]
    future_pulls: Int[Array | np.ndarray, "trials arms"]


class BiasSummary(NamedTuple):
    """What `measure_bias` found; every figure has its Monte Carlo standard error.

    Fields:
        bias, mse: of each arm's sample mean.
        joint: joint[m] is the share of trials in which exactly m arms came out below their mean.
        average_bias, average_mse: over the arms, as the paper's tables have them.
        pulls: of each arm, on average.
        trajectory, after: where they were asked for.
        sources: where the bias comes from, with a rule that stops or chooses.
    """

    bias: Float[np.ndarray, " arms"]
    bias_stderr: Float[np.ndarray, " arms"]
    mse: Float[np.ndarray, " arms"]
    mse_stderr: Float[np.ndarray, " arms"]
    joint: Float[np.ndarray, " arms_and_one"]
    joint_stderr: Float[np.ndarray, " arms_and_one"]
    average_bias: float
    average_bias_stderr: float
    average_mse: float
    average_mse_stderr: float
    pulls: Float[np.ndarray, " arms"]
    num_trials: int
    trajectory: Trajectory | None = None
    after: After | None = None
    sources: BiasSources | None = None


class Moments(NamedTuple):
    """Count, mean and sum of squares about the mean, of a block of trials or of all so far."""

    count: Any
    mean: Any
    squares: Any


def measure_bias(
    key: PRNGKeyArray,
    policy: Policy,
    family: Family,
    mean: ArrayLike | Sequence[float],
    num_steps: int,
    num_trials: int,
    *,
    trajectory: bool = False,
    after: int | None = None,
    batch_size: int | Sequence[int] | None = None,
    allocation: Literal["independent", "shares"] = "independent",
    stop: StoppingRule | None = None,
    choose: Chooser | Literal["largest"] | None = None,
    chunk_size: int | None = None,
    progress: bool = True,
) -> BiasSummary:
    """Simulates and measures how wrong the sample means are on average.

    Arguments:
        key, policy, family, mean, num_steps: as in `simulate`.
        num_trials: how many independent trials; memory does not grow with it.
        trajectory: also the bias after every step.
        after: also, for every trial, the errors after this many steps and the pulls from then on.
        batch_size, allocation, stop: as in `simulate`. With `stop` all figures are of the sample means at the end of each trial.
        choose: also the bias of the one sample mean that is reported: the "largest", or that of the arm which a function of the
            pulls and sums returns.
        chunk_size: trials simulated at once on each device; it does not change the result.
        progress: show a progress bar when it takes more than a few seconds.

    >>> import jax, jaxbias as jb
    >>> found = jb.measure_bias(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.75], num_steps=16, num_trials=10_000)
    >>> bool((found.bias < -10 * found.bias_stderr).all())
    True
    """
    root, problem = prepare(key, policy, family, mean, num_steps, num_trials, stop)
    batching, choose = make_batching(batch_size, allocation, num_steps), check_choose(choose, problem.mean.shape[0])
    if not is_concrete((root, problem)):
        raise TypeError("measure_bias runs its own loop and cannot be traced; inside jit or vmap, call simulate instead")
    num_arms = problem.mean.shape[0]
    if after is not None and not num_arms <= after <= num_steps:
        raise ArgumentError("after", after, f"from {num_arms} (every arm is pulled once first) to {num_steps}")
    mesh = trial_mesh(math.ceil(num_trials / BLOCK), (root, problem))
    chunks = split_trials(num_trials, chunk_size, BLOCK, trials_at_once(num_arms), device_count(mesh))
    asked = Asked(trajectory=trajectory, after=after, choose=choose)
    run = partial(_measure_chunk, num_steps=num_steps, size=chunks.size, batching=batching, asked=asked, mesh=mesh)
    merged, snapshots = None, []
    count = jnp.uint32(num_trials)
    for found in one_ahead(run(problem, root, firsts, count) for firsts in chunks.starts(progress)):
        moments, snapshot = jax.device_get(collect(found, mesh))
        merged = _merge_blocks(merged, moments)
        snapshots.append(snapshot)
    kept = jax.tree.map(lambda *parts: np.concatenate(parts)[:num_trials], *snapshots)
    return _summarise(merged, kept, num_trials)


class Asked(NamedTuple):
    """What is wanted beside the bias."""

    trajectory: bool
    after: int | None
    choose: Chooser | None


@partial(compiled, static=("num_steps", "size", "batching", "asked", "mesh"))
def _measure_chunk(
    problem: Problem,
    root: UInt[Array, "2"],
    firsts: Firsts,
    num_trials: UInt[Array, ""],
    num_steps: int,
    size: int,
    batching: Batching,
    asked: Asked,
    mesh: Mesh | None,
) -> tuple[dict[str, Moments], After | None]:
    problem = problem.for_steps(num_steps)

    def measure_from(first: Array) -> tuple[dict[str, Moments], After | None]:
        counted = jnp.arange(size, dtype=jnp.uint32) < num_trials - first[0]
        return _measure(problem, trial_words(root, first[0], size), counted, num_steps, batching, asked)

    return on_each_device(measure_from, mesh)(firsts)


def _measure(
    problem: Problem, words: Array, counted: Array, num_steps: int, batching: Batching, asked: Asked
) -> tuple[dict[str, Moments], After | None]:
    def emit(progress: Progress, _: Outcome) -> Moments | None:
        return _block_moments(_errors(problem, statistics_of(progress)), counted) if asked.trajectory else None

    final, snapshot, parts = _run(problem, words, num_steps, batching, asked.after, emit)
    features = _features(problem, final)
    if problem.stop is not None or asked.choose is not None:
        to_the_end = _run(problem._replace(stop=None), words, num_steps, batching) if problem.stop is not None else (final,)
        features |= source_features(_errors(problem, to_the_end[0]), _errors(problem, final), final, asked.choose)
    moments = {name: _block_moments(value, counted) for name, value in features.items()}
    if asked.trajectory:
        moments["trajectory"] = jax.tree.map(lambda *steps: jnp.concatenate(steps).swapaxes(0, 1), *parts)
    later = After(error=_errors(problem, snapshot), future_pulls=final.pulls - snapshot.pulls) if asked.after else None
    return moments, later


def _run(
    problem: Problem, words: Array, num_steps: int, batching: Batching, after: int | None = None, emit: Any = lambda *_: None
) -> tuple[ArmStatistics, ArmStatistics, list[Any]]:
    """What each arm has at the end, and after some steps; and what was kept of each part."""
    num_arms = problem.mean.shape[0]
    steps, progress = opened_steps(num_steps, num_arms, batching), start_trials(problem, batching, words.shape[-1])
    stops = sorted({0, num_arms, num_steps} | ({after} if after else set()))
    parts, snapshot = [], statistics_of(progress)
    for start, stop in pairwise(stops):
        some = part_of(steps, start, stop)
        progress, part = run_trials(problem, words, progress, some, emit, opening=start == 0)
        parts.append(part)
        snapshot = statistics_of(progress) if stop == after else snapshot
    return statistics_of(progress), snapshot, parts


def _errors(problem: Problem, statistics: ArmStatistics) -> Float[Array, "trials arms"]:
    error = statistics.mean - problem.mean[None].astype(statistics.total.dtype)
    return jnp.where(statistics.pulls > 0, error, jnp.nan)


def _features(problem: Problem, statistics: ArmStatistics) -> dict[str, Float[Array, "trials features"]]:
    """What is averaged over trials."""
    error = _errors(problem, statistics)
    squared = _rounded(jnp.square(error))
    negative = jnp.sum(error < 0, axis=1, keepdims=True)
    return {
        "error": jnp.concatenate([error, _tree_sum(error)[:, None] / error.shape[1]], axis=1),
        "squared": jnp.concatenate([squared, _tree_sum(squared)[:, None] / error.shape[1]], axis=1),
        "joint": (negative == jnp.arange(error.shape[1] + 1)[None]).astype(error.dtype),
        "pulls": statistics.pulls.astype(error.dtype),
    }


def _block_moments(values: Float[Array, "trials features"], counted: Array) -> Moments:
    """Moments of each block of trials, with the sum in place of the mean: counts stay whole numbers."""
    values = values.reshape(-1, BLOCK, values.shape[1])
    counted = counted.reshape(-1, BLOCK, 1)
    count = jnp.sum(counted, axis=1, dtype=jnp.int32)
    total = _tree_sum(jnp.where(counted, values, 0))
    divisor = _rounded(jnp.broadcast_to(jnp.maximum(count, 1).astype(values.dtype), total.shape))
    deviation = jnp.where(counted, values - _rounded(total / divisor)[:, None], 0)
    return Moments(count=count, mean=total, squares=_tree_sum(_rounded(jnp.square(deviation))))


def _rounded(values: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """A barrier, so that the compiler rounds the same way in every program: in some it would merge a product with a sum, or take
    the reciprocal of what many are divided by."""
    return jax.lax.optimization_barrier(values)


def _tree_sum(values: Float[Array, "rows summed *features"]) -> Float[Array, "rows *features"]:
    """The sum over the second axis as a tree of additions: an order that no compiler changes, and little rounding."""
    while (length := values.shape[1]) > 1:
        half = length // 2
        pairs = values[:, :half] + values[:, half : 2 * half]
        values = jnp.concatenate([pairs, values[:, 2 * half :]], axis=1)
    return values[:, 0]


def _merge_blocks(merged: dict[str, Moments] | None, blocks: dict[str, Moments]) -> dict[str, Moments]:
    """All blocks of a chunk, one after the other, merged into what there was before."""
    result = {}
    for name, moments in blocks.items():
        so_far = merged[name] if merged else Moments(0, 0.0, 0.0)
        for count, summed, squares in zip(*(np.asarray(part, np.float64) for part in moments), strict=True):
            total = so_far.count + count
            share = count / np.maximum(total, 1)
            difference = summed / np.maximum(count, 1) - so_far.mean
            so_far = Moments(
                count=total,
                mean=so_far.mean + share * difference,
                squares=so_far.squares + squares + np.square(difference) * so_far.count * share,
            )
        result[name] = so_far
    return result


def _stderr(moments: Moments) -> Any:
    """The standard error of the mean; not a number where there is one trial."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.sqrt(moments.squares / (moments.count - 1) / moments.count)


def _summarise(merged: dict[str, Moments] | None, after: After | None, num_trials: int) -> BiasSummary:
    assert merged is not None
    error, squared, joint = merged["error"], merged["squared"], merged["joint"]
    path = merged.get("trajectory")
    return BiasSummary(
        bias=error.mean[:-1],
        bias_stderr=_stderr(error)[:-1],
        mse=squared.mean[:-1],
        mse_stderr=_stderr(squared)[:-1],
        joint=joint.mean,
        joint_stderr=_stderr(joint),
        average_bias=float(error.mean[-1]),
        average_bias_stderr=float(_stderr(error)[-1]),
        average_mse=float(squared.mean[-1]),
        average_mse_stderr=float(_stderr(squared)[-1]),
        pulls=merged["pulls"].mean,
        num_trials=num_trials,
        trajectory=path and Trajectory(bias=path.mean, bias_stderr=_stderr(path)),
        after=after,
        sources=find_sources(merged, len(error.mean) - 1) if "sources" in merged else None,
    )
