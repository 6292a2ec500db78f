"""The bias of sample means under a policy, by simulation: bias, mean squared error and joint bias, with their errors.

Logs are never kept: `moments.py` sums up blocks of trials.
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
from jaxbias._core.door import public
from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import compiled
from jaxbias._core.layout import in_groups, stays_in_cache
from jaxbias._core.randomness import trial_words
from jaxbias._core.settings import is_concrete
from jaxbias._core.showing import as_html, as_text
from jaxbias.bias.moments import BLOCK, Moments, block_moments, block_of, merge_blocks, rounded, stderr_of, tree_sum
from jaxbias.bias.sources import BiasSources, Chooser, check_choose, find_sources, source_features
from jaxbias.policies import ArmStatistics, Policy
from jaxbias.rewards import Family
from jaxbias.simulation.steps import Batching, Outcome, Problem, Progress, part_of, run_trials, start_trials, statistics_of
from jaxbias.simulation.trials import make_batching, opened_steps, prepare_centred
from jaxbias.stopping import StoppingRule


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
        regret: steps * best mean - the means of the pulled arms, summed over a trial.
        best_share: the share of pulls that the best arm gets; all that are best, where several are.
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
    regret: float
    regret_stderr: float
    best_share: float
    best_share_stderr: float
    num_trials: int
    trajectory: Trajectory | None = None
    after: After | None = None
    sources: BiasSources | None = None

    __str__ = as_text
    _repr_html_ = as_html


@public
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
    delay: int | Sequence[int] | None = None,
    chunk_size: int | None = None,
    progress: bool = True,
) -> BiasSummary:
    """Simulates and measures how wrong the sample means are on average.

    Arguments:
        key, policy, family, mean, num_steps: as in `simulate`.
        num_trials: how many independent trials; memory does not grow with it.
        trajectory: also the bias after every step.
        after: also, for every trial, the errors after this many steps and the pulls from then on.
        batch_size, allocation, stop, delay: as in `simulate`. With `stop` all figures are of the sample means at the end of each
            trial.
        choose: also the bias of the one sample mean that is reported: the "largest", or that of the arm which a function of the
            pulls and sums returns.
        chunk_size: trials simulated at once on each device; it does not change the result.
        progress: show a progress bar when it takes more than a few seconds.

    >>> import jax, jaxbias as jb
    >>> found = jb.measure_bias(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.75], num_steps=16, num_trials=10_000)
    >>> bool((found.bias < -10 * found.bias_stderr).all())
    True
    """
    movable = choose in (None, "largest")
    root, problem, _ = prepare_centred(key, policy, family, mean, num_steps, num_trials, stop, movable)
    batching, choose = make_batching(batch_size, allocation, num_steps, delay, stop), check_choose(choose, problem.mean.shape[0])
    if not is_concrete((root, problem)):
        raise TypeError("measure_bias runs its own loop and cannot be traced; inside jit or vmap, call simulate instead")
    num_arms = problem.mean.shape[0]
    if after is not None and not num_arms <= after <= num_steps:
        raise ArgumentError("after", after, f"from {num_arms} (every arm is pulled once first) to {num_steps}")
    mesh = trial_mesh(math.ceil(num_trials / BLOCK), (root, problem))
    # Groups of a block go through one loop, of two at least: XLA makes no loop of one, and rounds in another way then.
    unit = 2 * BLOCK if num_trials > BLOCK and stays_in_cache(BLOCK, num_arms) else block_of(num_trials)
    chunks = split_trials(num_trials, chunk_size, unit, trials_at_once(num_arms), device_count(mesh))
    asked = Asked(trajectory=trajectory, after=after, choose=choose)
    run = partial(_measure_chunk, num_steps=num_steps, size=chunks.size, batching=batching, asked=asked, mesh=mesh)
    merged, snapshots = None, []
    count = jnp.uint32(num_trials)
    for found in one_ahead(run(problem, root, firsts, count) for firsts in chunks.starts(progress)):
        moments, snapshot = jax.device_get(collect(found, mesh))
        merged = merge_blocks(merged, moments)
        snapshots.append(snapshot)
    kept = jax.tree.map(lambda *parts: np.concatenate(parts)[:num_trials], *snapshots)
    return _summarise(merged, kept, num_trials)


class Asked(NamedTuple):
    """What is wanted beside the bias."""

    trajectory: bool
    after: int | None
    choose: Chooser | None


@partial(compiled, static=("num_steps", "size", "batching", "asked", "mesh"), quick=False)
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
        words, counted = trial_words(root, first[0], size), jnp.arange(size, dtype=jnp.uint32) < num_trials - first[0]
        one = lambda places: _measure(problem, words[:, places], counted[places], num_steps, batching, asked)
        return in_groups(one, size, BLOCK if stays_in_cache(BLOCK, problem.mean.shape[0]) else size)

    return on_each_device(measure_from, mesh)(firsts)


def _measure(
    problem: Problem, words: Array, counted: Array, num_steps: int, batching: Batching, asked: Asked
) -> tuple[dict[str, Moments], After | None]:
    def emit(progress: Progress, _: Outcome) -> Moments | None:
        return block_moments(_errors(problem, statistics_of(progress)), counted) if asked.trajectory else None

    final, snapshot, parts = _run(problem, words, num_steps, batching, asked.after, emit)
    features = _features(problem, final)
    if problem.stop is not None or asked.choose is not None:
        to_the_end = _run(problem._replace(stop=None), words, num_steps, batching) if problem.stop is not None else (final,)
        features |= source_features(_errors(problem, to_the_end[0]), _errors(problem, final), final, asked.choose)
    moments = {name: block_moments(value, counted) for name, value in features.items()}
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
    # A choice between product and sum, or the compiler would merge the two in some programs, whatever `rounded` says.
    squared = rounded(jnp.where(statistics.pulls > 0, jnp.square(error), error))
    negative = jnp.sum(error < 0, axis=1, keepdims=True)
    return {
        "error": jnp.concatenate([error, _average(error)], axis=1),
        "squared": jnp.concatenate([squared, _average(squared)], axis=1),
        "joint": (negative == jnp.arange(error.shape[1] + 1)[None]).astype(error.dtype),
        "pulls": statistics.pulls.astype(error.dtype),
        "earned": _earned(problem.mean.astype(error.dtype), statistics.pulls),
    }


def _average(values: Float[Array, "trials arms"]) -> Float[Array, "trials 1"]:
    """Over arms, rounded before it is summed over trials: XLA may do both in one operation, or not."""
    return rounded(tree_sum(values)[:, None] / values.shape[1])


def _earned(mean: Float[Array, " arms"], pulls: Int[Array, "trials arms"]) -> Float[Array, "trials 2"]:
    """The regret of each trial, and the share of its pulls that the best arm got."""
    best, number = mean == jnp.max(mean), pulls.astype(mean.dtype)
    regret = tree_sum(rounded(number * (jnp.max(mean) - mean)[None]))
    share = rounded(jnp.sum(jnp.where(best[None], pulls, 0), axis=1).astype(mean.dtype) / jnp.sum(number, axis=1))
    return jnp.stack([regret, share], axis=1)


def _summarise(merged: dict[str, Moments] | None, after: After | None, num_trials: int) -> BiasSummary:
    assert merged is not None
    error, squared, joint, earned = (merged[name] for name in ("error", "squared", "joint", "earned"))
    regret, best_share = zip(earned.mean.tolist(), stderr_of(earned).tolist(), strict=True)
    path = merged.get("trajectory")
    return BiasSummary(
        bias=error.mean[:-1],
        bias_stderr=stderr_of(error)[:-1],
        mse=squared.mean[:-1],
        mse_stderr=stderr_of(squared)[:-1],
        joint=joint.mean,
        joint_stderr=stderr_of(joint),
        average_bias=float(error.mean[-1]),
        average_bias_stderr=float(stderr_of(error)[-1]),
        average_mse=float(squared.mean[-1]),
        average_mse_stderr=float(stderr_of(squared)[-1]),
        pulls=merged["pulls"].mean,
        regret=regret[0],
        regret_stderr=regret[1],
        best_share=best_share[0],
        best_share_stderr=best_share[1],
        num_trials=num_trials,
        trajectory=path and Trajectory(bias=path.mean, bias_stderr=stderr_of(path)),
        after=after,
        sources=find_sources(merged, len(error.mean) - 1) if "sources" in merged else None,
    )
