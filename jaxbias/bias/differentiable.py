"""The figures of an experiment as a function that JAX can differentiate: for optimisers, inside jit, grad and vmap."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray, UInt

from jaxbias._core.chunks import split_trials, trials_at_once
from jaxbias._core.jit import compiled
from jaxbias._core.randomness import trial_words
from jaxbias.bias.moments import BLOCK
from jaxbias.bias.score_function import (
    Figures,
    ScoredTrials,
    by_name,
    centred,
    figures_of,
    run_to_the_end,
    scored_at_once,
    simulate_scored,
    without_gradient,
)
from jaxbias.policies import Policy
from jaxbias.rewards import Family
from jaxbias.simulation.scores import SettingsVector, settings_vector
from jaxbias.simulation.steps import Batching, Problem
from jaxbias.simulation.trials import make_batching, prepare
from jaxbias.stopping import StoppingRule


def expected_figures(
    key: PRNGKeyArray,
    policy: Policy,
    family: Family,
    mean: ArrayLike | Sequence[float],
    num_steps: int,
    num_trials: int,
    *,
    batch_size: int | Sequence[int] | None = None,
    stop: StoppingRule | None = None,
) -> Figures:
    """Bias, MSE and regret by simulation, as a function that `jax.grad`, `jax.jacobian` and `jit` can be applied to.

    The values are averages over `num_trials` trials, the derivatives in the policy's settings and in the means those of
    `measure_gradient`, from the same trials: for an optimiser that designs an experiment. Arguments as there; second derivatives
    are refused.

    >>> import jax, jaxbias as jb
    >>> def loss(tau):
    ...     figures = expected_figures(jax.random.key(0), jb.Greedy(tau=tau), jb.Normal(), [1.0, 0.75], 16, num_trials=10_000)
    ...     return figures.average_mse + 0.02 * figures.regret
    >>> bool(jax.grad(loss)(0.2) < 0)  # more noise would be better
    True
    """
    root, problem = prepare(key, policy, family, mean, num_steps, num_trials, stop)
    return _expected(problem, root, num_steps, num_trials, make_batching(batch_size, "independent", num_steps))


@partial(compiled, static=("num_steps", "num_trials", "batching"), quick=False)
def _expected(problem: Problem, root: UInt[Array, "2"], num_steps: int, num_trials: int, batching: Batching) -> Figures:
    """The average figures, with the rule for their derivative: one simulation gives both.

    All that is traced is an argument of the function that has the rule, as such a function must not refer to values being traced.
    """
    leaves, structure = jax.tree.flatten(problem)
    traced = [isinstance(leaf, jax.Array) for leaf in leaves]
    own, sizes = settings_vector(problem.policy, problem.mean.dtype), (num_steps, num_trials, batching)

    def problem_at(values: Array, mean: Array, others: list[Array]) -> tuple[Problem, SettingsVector]:
        given = iter(others)
        whole = [next(given) if is_traced else leaf for leaf, is_traced in zip(leaves, traced, strict=True)]
        other: Problem = jax.tree.unflatten(structure, whole)
        vector = settings_vector(other.policy, mean.dtype)._replace(values=values)
        return other._replace(policy=vector.rebuild(values), mean=mean), vector

    @jax.custom_jvp
    def figures(values: Array, mean: Array, others: list[Array], root: Array) -> Array:
        return _average_figures(problem_at(values, mean, others)[0], root, *sizes)

    @partial(figures.defjvp, symbolic_zeros=True)
    def derivative(primals: Any, tangents: Any) -> tuple[Array, Array]:
        values, mean, others, root = primals
        if not all(isinstance(tangent, SymbolicZero) for tangent in tangents[2]):
            raise TypeError("expected_figures has derivatives in the policy's settings and in the means only")
        once = _once(lambda values, mean, others, root: _jacobian(*problem_at(values, mean, others), root, *sizes))
        value, jacobian = once(values, mean, others, root)
        along = [jnp.zeros_like(one) if isinstance(way, SymbolicZero) else way for one, way in zip(primals, tangents[:2])]  # noqa: B905
        return value, jacobian @ jnp.concatenate(along)

    fixed = jax.lax.stop_gradient(problem._replace(family=None, stop=None))  # in what is an argument by itself
    fixed = fixed._replace(family=problem.family, stop=problem.stop)
    others = [leaf for leaf, is_traced in zip(jax.tree.leaves(fixed), traced, strict=True) if is_traced]
    return by_name(figures(own.values, problem.mean, others, root), problem.mean.shape[0])


def _once(function: Any) -> Any:
    """The function, refusing to be differentiated: what it simulates has no derivative along the path."""
    once = jax.custom_jvp(function)

    @once.defjvp
    def refuse(*_: Any) -> Any:
        raise TypeError("expected_figures has first derivatives only")

    return once


def _over_chunks(chunk: Any, root: Array, num_trials: int, largest: int) -> Any:
    """The sum over chunks of trials of what each gives for its words and which of its trials count."""
    size = split_trials(num_trials, None, BLOCK, largest).size

    def one(first: Array) -> Any:
        return chunk(trial_words(root, first, size), jnp.arange(size, dtype=jnp.uint32) < num_trials - first)

    summed = jax.lax.map(one, jnp.arange(0, num_trials, size, dtype=jnp.uint32))
    return jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0) / num_trials, summed)


def _average_figures(problem: Problem, root: Array, num_steps: int, num_trials: int, batching: Batching) -> Array:
    problem = problem.for_steps(num_steps)

    def chunk(words: Array, counted: Array) -> Array:
        statistics, _ = run_to_the_end(problem, words, num_steps, batching)
        return jnp.sum(jnp.where(counted[:, None], jax.vmap(figures_of, (0, None))(statistics, problem.mean), 0), axis=0)

    return _over_chunks(chunk, root, num_trials, trials_at_once(problem.mean.shape[0]))


def _jacobian(
    problem: Problem,
    own: SettingsVector,
    root: Array,
    num_steps: int,
    num_trials: int,
    batching: Batching,
) -> tuple[Float[Array, " figures"], Float[Array, "figures parameters"]]:
    """The average figures, and their derivative in the settings and the means; NaN where there is none."""
    mean, size = problem.mean, own.values.shape[0]

    def chunk(words: Array, counted: Array) -> tuple[Array, ...]:
        trials = simulate_scored(problem, own, words, num_steps, batching)
        trials = ScoredTrials(*(jnp.where(counted.reshape(-1, *(1,) * (leaf.ndim - 1)), leaf, 0) for leaf in trials))
        jacobian = jnp.matmul(centred(trials.figures, counted).T, trials.score, precision="highest")
        jacobian = jacobian.at[:, size:].add(jnp.sum(trials.direct, axis=0))
        return jnp.sum(trials.figures, axis=0), jacobian, jnp.sum(trials.score, axis=0), jnp.sum(trials.score**2, axis=0)

    largest = scored_at_once(mean.shape[0], size)
    figures, jacobian, average, squares = _over_chunks(chunk, root, num_trials, largest)
    error = jnp.sqrt(jnp.maximum(squares - jnp.square(average), 0) / num_trials)
    return figures, jnp.where(without_gradient(average, error, own, mean), jnp.nan, jacobian)
