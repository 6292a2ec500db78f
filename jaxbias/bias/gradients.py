"""Gradients of experiments, measured: how bias, MSE and regret change with the means and with the policy's settings."""

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.typing import ArrayLike
from jaxtyping import Array, PRNGKeyArray, UInt

from jaxbias._core.chunks import Firsts, split_trials
from jaxbias._core.devices import collect, device_count, on_each_device, one_ahead, trial_mesh
from jaxbias._core.door import public
from jaxbias._core.jit import compiled
from jaxbias._core.randomness import trial_words
from jaxbias._core.settings import is_concrete
from jaxbias.bias.moments import BLOCK, Moments, block_moments, merge_blocks, stderr_of
from jaxbias.bias.score_function import (
    Figures,
    by_name,
    centred,
    scored_at_once,
    sensitivities,
    simulate_scored,
    without_gradient,
)
from jaxbias.policies import Policy
from jaxbias.rewards import Family
from jaxbias.simulation.scores import SettingsVector, settings_vector
from jaxbias.simulation.steps import Batching, Problem
from jaxbias.simulation.trials import make_batching, prepare
from jaxbias.stopping import StoppingRule


class GradientSummary(NamedTuple):
    """What `measure_gradient` found.

    Fields:
        value, value_stderr: the figures, as `measure_bias` has them.
        gradient, gradient_stderr: the derivative of each figure as a `Sensitivity`; NaN where there is none.
        num_trials: that all of it is averaged over.
    """

    value: Figures
    value_stderr: Figures
    gradient: Figures
    gradient_stderr: Figures
    num_trials: int


@public
def measure_gradient(
    key: PRNGKeyArray,
    policy: Policy,
    family: Family,
    mean: ArrayLike | Sequence[float],
    num_steps: int,
    num_trials: int,
    *,
    baseline: bool = True,
    batch_size: int | Sequence[int] | None = None,
    stop: StoppingRule | None = None,
    chunk_size: int | None = None,
    progress: bool = True,
) -> GradientSummary:
    """Simulates, and measures bias, MSE and regret together with their derivatives in the policy's settings and in the means.

    Arguments:
        key, policy, family, mean, num_steps, num_trials, batch_size, stop, chunk_size, progress: as in `measure_bias`; trial i is
            the same trial, and another chunk size changes the gradients by rounding only.
        baseline: whether to take the average of the other trials off each figure; without it the error is larger.

    Returns:
        A `GradientSummary`. `found.gradient.bias.policy.tau[k]` is the derivative of arm k's bias in tau,
        `found.gradient.bias.mean[k, j]` that in the mean of arm j. A setting without a gradient has NaN: it is known before
        compilation (a tau of 0), or the probabilities of the choices do not change smoothly with it.

    >>> import jax, jaxbias as jb
    >>> problem = (jb.Greedy(tau=1.0), jb.Normal(), [1.0, 0.75])
    >>> found = jb.bias.measure_gradient(jax.random.key(0), *problem, num_steps=16, num_trials=20_000)
    >>> bool((found.gradient.bias.policy.tau > 5 * found.gradient_stderr.bias.policy.tau).all())
    True
    """
    root, problem = prepare(key, policy, family, mean, num_steps, num_trials, stop)
    batching = make_batching(batch_size, "independent", num_steps)
    if not is_concrete((root, problem)):
        raise TypeError("measure_gradient runs its own loop and cannot be traced; inside jit or grad, call expected_figures")
    num_arms, count = problem.mean.shape[0], jnp.uint32(num_trials)
    mesh = trial_mesh(math.ceil(num_trials / BLOCK), (root, problem))
    own = settings_vector(problem.policy, problem.mean.dtype)
    largest = scored_at_once(num_arms, own.values.shape[0])
    chunks = split_trials(num_trials, chunk_size, BLOCK, largest, device_count(mesh))
    run = partial(_gradient_chunk, num_steps=num_steps, size=chunks.size, batching=batching, baseline=baseline, mesh=mesh)
    merged = None
    for found in one_ahead(run(problem, root, firsts, count) for firsts in chunks.starts(progress)):
        merged = merge_blocks(merged, jax.device_get(collect(found, mesh)))
    assert merged is not None
    return _summarise(merged, own, problem, num_trials)


@partial(compiled, static=("num_steps", "size", "batching", "baseline", "mesh"), quick=False)
def _gradient_chunk(
    problem: Problem,
    root: UInt[Array, "2"],
    firsts: Firsts,
    num_trials: UInt[Array, ""],
    num_steps: int,
    size: int,
    batching: Batching,
    baseline: bool,
    mesh: Mesh | None,
) -> dict[str, Moments]:
    own = settings_vector(problem.policy, problem.mean.dtype)

    def measure_from(first: Array) -> dict[str, Moments]:
        counted = jnp.arange(size, dtype=jnp.uint32) < num_trials - first[0]
        trials = simulate_scored(problem, own, trial_words(root, first[0], size), num_steps, batching)
        figures = centred(trials.figures, counted) if baseline else trials.figures
        gradient = figures[:, :, None] * trials.score[:, None, :]
        gradient = gradient.at[:, :, own.values.shape[0] :].add(trials.direct)
        columns = {"figures": trials.figures, "score": trials.score, "gradient": gradient.reshape(size, -1)}
        return {name: block_moments(value, counted) for name, value in columns.items()}

    return on_each_device(measure_from, mesh)(firsts)


def _summarise(merged: dict[str, Moments], own: SettingsVector, problem: Problem, num_trials: int) -> GradientSummary:
    num_arms = problem.mean.shape[0]
    shape = (2 * num_arms + 3, own.values.shape[0] + num_arms)
    without = without_gradient(merged["score"].mean, stderr_of(merged["score"]), own, np.asarray(problem.mean))
    gradient, error = (
        np.where(without, np.nan, value.reshape(shape)) for value in (merged["gradient"].mean, stderr_of(merged["gradient"]))
    )
    return GradientSummary(
        value=by_name(merged["figures"].mean, num_arms),
        value_stderr=by_name(stderr_of(merged["figures"]), num_arms),
        gradient=sensitivities(gradient, own, num_arms),
        gradient_stderr=sensitivities(error, own, num_arms),
        num_trials=num_trials,
    )
