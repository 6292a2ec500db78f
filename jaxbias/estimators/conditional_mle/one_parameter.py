"""The conditional maximum likelihood of Bernoulli, Poisson and Exponential rewards: exact where it can be, else by particles."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import sequential_vmap
from jax.scipy.special import ndtri
from jaxtyping import Array, Float, Int

from jaxbias._core.chunks import LogChunks, split_logs
from jaxbias._core.jit import compiled
from jaxbias._core.search import bracket, search
from jaxbias.estimators.conditional_mle.checks import LogProblem, policy_of
from jaxbias.estimators.conditional_mle.exponential_family import (
    Edges,
    Maximum,
    edges_of,
    limited,
    log_probability,
    maximise_likelihood,
    mean_at,
)
from jaxbias.estimators.conditional_mle.hierarchical import posterior_from_samples
from jaxbias.estimators.conditional_mle.hierarchical_prior import ConjugatePrior
from jaxbias.estimators.conditional_mle.newton import LONGEST_MOVE, NEAR, BoundedFit, NewtonFit
from jaxbias.estimators.conditional_mle.particles import sample_particles
from jaxbias.estimators.conditional_mle.record import Record, record_of
from jaxbias.estimators.conditional_mle.routes import Route, choose_routes
from jaxbias.estimators.conditional_mle.success_counts import Grid, as_samples, count_paths
from jaxbias.estimators.conditional_mle.weighted_samples import SampleMoments, Samples
from jaxbias.estimators.intervals import bounded_interval
from jaxbias.estimators.shrinkage.estimator import shrunken_means
from jaxbias.estimators.shrinkage.posterior import Summary
from jaxbias.history import History

PARTICLES_PER_PATH = 4  # as a particle costs a quarter of a path, and the ends of the resampled ones are alike
FARTHEST_ROUND = (
    2.0  # of a move between two sets of particles, by `_distance`: where few are left they say little of their spread
)
FARTHEST_EDGE = 10.0  # of the natural parameter of an arm at an end of the range, from where its samples were made
AT_ONCE = 64  # logs sent to the compiled function together; it takes them one after another


def fit_one_parameter(
    keys: Any, problem: LogProblem, num_paths: int, max_rounds: int, level: float, hierarchical: bool = False
) -> BoundedFit:
    """Many logs, those that are computed alike together."""
    history, policy, family = problem
    routes, order = choose_routes(policy, family, history)
    parts, rows = [], []
    for route in sorted(set(routes), key=repr):
        rows.append(np.flatnonzero([other == route for other in routes]))
        mine, logs, axes = keys, history, order
        if len(rows[-1]) < len(routes):
            mine, logs, axes = jax.tree.map(lambda leaf, row=rows[-1]: leaf[row], (keys, history, order))
        chunks = split_logs(AT_ONCE, (mine, logs, policy, family))
        run = partial(_fit_chunks, chunks=chunks, route=route, max_rounds=max_rounds, hierarchical=hierarchical)
        run = partial(run, number=PARTICLES_PER_PATH * num_paths)
        parts.append(chunks.collect(run(policy, family, mine, logs, axes, jnp.asarray(level))))
    if len(parts) == 1:
        return parts[0]
    places = np.argsort(np.concatenate(rows), kind="stable")
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[places], *parts)


@partial(compiled, static=("chunks", "route", "number", "max_rounds", "hierarchical"), pads=("history",))
def _fit_chunks(
    policy: Any,
    family: Any,
    keys: Any,
    history: History,
    order: Int[Array, "trials arms"],
    level: Any,
    chunks: LogChunks,
    route: Route,
    number: int,
    max_rounds: int,
    hierarchical: bool,
) -> BoundedFit:
    @sequential_vmap  # a choice between two programs stays one
    def one(key: Any, log: History, order: Int[Array, " arms"]) -> BoundedFit:
        record = record_of(log)
        given = policy_of(policy, log)
        confidence = jnp.asarray(level, log.rewards.dtype)
        fit_exactly, fit_particles = (
            (_posterior_exactly, _posterior_particles) if hierarchical else (_fit_exactly, _fit_particles)
        )
        if route.shape is not None:
            return fit_exactly(given, family, record, confidence, Grid(shape=route.shape, order=order), route)
        return fit_particles(key, given, family, record, confidence, route, number, max_rounds)

    return chunks.map(lambda trial: one(*trial), (keys, history, order))


def _fit_exactly(policy: Any, family: Any, record: Record, level: Array, grid: Grid, route: Route) -> BoundedFit:
    """One set of sums with their probabilities serves every mean."""
    edges, mean = edges_of(family, record), (record.total + 0.5) / (record.count + 1)
    samples = as_samples(*count_paths(policy, record, mean, grid, route.nodes), record, grid)
    best = maximise_likelihood(limited(samples, edges), edges, longest=float("inf"))
    at = SearchState(family.natural(mean), jnp.zeros_like(mean), best)
    return _on_mean_scale(family, record, edges, at, samples, level, jnp.ones((), jnp.int32))


def _posterior_exactly(policy: Any, family: Any, record: Record, level: Array, grid: Grid, route: Route) -> BoundedFit:
    """One set of sums with their probabilities serves every mean here too."""
    mean = (record.total + 0.5) / (record.count + 1)
    samples = as_samples(*count_paths(policy, record, mean, grid, route.nodes), record, grid)
    sample, prior = lambda _, none: (samples, none), ConjugatePrior(family)
    fit = posterior_from_samples(sample, prior, record, mean, None, level, max_rounds=1, least=0.0)[0]
    return fit._replace(newton=fit.newton._replace(move=jnp.zeros_like(mean)))


def _posterior_particles(
    key: Any, policy: Any, family: Any, record: Record, level: Array, route: Route, number: int, max_rounds: int
) -> BoundedFit:
    tables = None if route.nodes is None or route.rows is None else (route.rows, route.nodes)

    def sample(mean: Array, none: None) -> tuple[Samples, None]:
        return sample_particles(key, policy, family, record, mean, number, tables), none

    start = shrunken_means(family, Summary(record.count, record.total / record.count, jnp.zeros_like(record.count)))
    return posterior_from_samples(sample, ConjugatePrior(family), record, start, None, level, max_rounds)[0]


class SearchState(NamedTuple):
    """The natural parameters of the last samples, what is left to move from there, and the maximum by those samples."""

    natural: Float[Array, " arms"]
    move: Float[Array, " arms"]
    best: Maximum


def _fit_particles(
    key: Any, policy: Any, family: Any, record: Record, level: Array, route: Route, number: int, max_rounds: int
) -> BoundedFit:
    """Particles, the maximum by their weights, and again from there where that was far."""
    edges, start = edges_of(family, record), _inside(family, record)
    tables = None if route.nodes is None or route.rows is None else (route.rows, route.nodes)
    ceiling = family.natural(jnp.asarray(family.mean_range[1], start.dtype))

    def sample(at: SearchState) -> Samples:
        return sample_particles(key, policy, family, record, family.from_natural(at.natural), number, tables)

    def improve(state: tuple[SearchState, Samples]) -> tuple[tuple[SearchState, Samples], Array]:
        at = state[0]._replace(natural=state[0].natural + state[0].move)
        samples = sample(at)
        best = maximise_likelihood(limited(samples, edges), edges, LONGEST_MOVE)
        move = best.tilt * jnp.minimum(1, FARTHEST_ROUND / _distance(family, record, at.natural, best.tilt, edges))
        move = jnp.minimum(move, (ceiling - at.natural) / 2)
        length = jnp.sqrt(move @ jnp.linalg.solve(best.covariance, move))
        return (SearchState(at.natural, move, best._replace(tilt=move)), samples), length

    begin = SearchState(family.natural(start), jnp.zeros_like(start), _no_maximum(start))
    no_samples = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(sample, begin))
    found = search(improve, (begin, no_samples), max_rounds=max_rounds, tolerance=NEAR, dtype=start.dtype)
    at, samples = found.state
    return _on_mean_scale(family, record, edges, at, samples, level, found.rounds)


def _distance(family: Any, record: Record, natural: Array, move: Array, edges: Edges) -> Float[Array, ""]:
    """In the standard errors that there would be had the arms been chosen in advance."""
    information = record.count * family.variance(family.from_natural(natural))
    return jnp.sqrt(jnp.sum(jnp.where(edges.either, 0, information * jnp.square(move))))


def _inside(family: Any, record: Record) -> Float[Array, " arms"]:
    """The sample means; of an arm at the end of the range, what one more pull might have made of it."""
    low, high = family.mean_range
    edges, near = edges_of(family, record), 1 / (record.count + 1)
    return jnp.where(edges.low, low + near, jnp.where(edges.high, high - near, record.total / record.count))


def _no_maximum(start: Float[Array, " arms"]) -> Maximum:
    zero, square = jnp.zeros((), start.dtype), jnp.eye(start.shape[0], dtype=start.dtype)
    return Maximum(jnp.zeros_like(start), SampleMoments(zero, jnp.zeros_like(start), square, square, zero), square)


def _edge_interval(family: Any, samples: Samples, edges: Edges, at: SearchState, level: Array) -> Float[Array, "arms 2"]:
    """For an arm at an end of the range: from there to the mean that makes it unlikely to have been there.

    Half of the probability of being there counts, so that it is what the level leaves; the others stay where they are.
    """
    side = jnp.where(edges.low, 1, -1).astype(level.dtype)
    ends = []
    for arm in range(side.shape[0]):
        others = Edges(edges.low.at[arm].set(False), edges.high.at[arm].set(False))
        log_weight = limited(samples, others).log_weight + jnp.tensordot(at.best.tilt, samples.total, axes=1)
        away = samples.total[arm]

        def leaving(shift: Array, log_weight: Array = log_weight, away: Array = away, side: Array = side[arm]) -> Array:
            share = jax.nn.softmax(log_weight + side * shift * away, axis=(0, 1))
            return 1 - jnp.sum(jnp.where(away == 0, share, 0))

        far = jnp.full((), FARTHEST_EDGE, level.dtype)
        ends.append(at.natural[arm] + side[arm] * bracket(leaving, level, -far, far))
    low, high = (jnp.asarray(end, level.dtype) for end in family.mean_range)
    outer = family.from_natural(jnp.stack(ends))
    return jnp.stack([jnp.where(edges.low, low, outer), jnp.where(edges.high, high, outer)], axis=1)


def _on_mean_scale(
    family: Any, record: Record, edges: Edges, at: SearchState, samples: Samples, level: Float[Array, ""], rounds: Int[Array, ""]
) -> BoundedFit:
    """By the delta method; an arm at an end of the range has the standard error that its interval would have been made of."""
    best = at.best
    mean = mean_at(family, at.natural + best.tilt, edges)
    slope = jnp.where(edges.either, 0, family.variance(mean))
    covariance = slope[:, None] * best.covariance * slope[None]
    middle = jnp.where(edges.either, 0.5, mean)  # has a logarithm; not used
    inside = jnp.stack(bounded_interval(family, middle, jnp.sqrt(jnp.diag(covariance)), level), axis=1)
    at_edges = lambda: _edge_interval(family, samples, edges, at, level)
    ends = jnp.where(edges.either[:, None], jax.lax.cond(jnp.any(edges.either), at_edges, lambda: inside), inside)
    from_length = (ends[:, 1] - ends[:, 0]) / ndtri((1 + level) / 2)
    score = slope[:, None] * best.covariance
    newton = NewtonFit(
        mean=mean,
        covariance=covariance + jnp.diag(jnp.where(edges.either, jnp.square(from_length), 0)),
        move=slope * at.move,
        rest=-score @ best.found.total,
        monte_carlo_error=jnp.sqrt(jnp.diag(score @ best.found.error @ score.T)),
        effective=best.found.effective * samples.log_weight.size,
        rounds=rounds,
        log_normaliser=log_probability(family, record, best, mean, family.from_natural(at.natural)),
    )
    return BoundedFit(newton=newton, ends=ends, at_edge=edges.either)
