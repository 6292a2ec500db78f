"""Sequential Monte Carlo for the conditional likelihood, against the exact recursion, every path written out, and quadrature."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import jaxbias as jb
from jaxbias._core.jit import compiled
from jaxbias.estimators.conditional_mle.particles import sample_particles
from jaxbias.estimators.conditional_mle.record import record_of
from jaxbias.estimators.conditional_mle.success_counts import Grid, as_samples, count_paths, table_sizes
from jaxbias.estimators.conditional_mle.weighted_samples import moments_at
from jaxbias.likelihood import selection_log_probs

MANY = 2**14


@partial(compiled, static=("tables",))
def moments_of_particles(policy, family, history, mean, tables=None):
    samples = sample_particles(jax.random.key(1), policy, family, record_of(history), mean, MANY, tables)
    return moments_at(samples, jnp.zeros_like(mean))


@partial(compiled, static=("shape", "nodes"))
def moments_of_counts(policy, history, mean, shape, nodes):
    record, grid = record_of(history), Grid(shape, jnp.arange(len(shape), dtype=jnp.int32))
    return moments_at(as_samples(*count_paths(policy, record, mean, grid, nodes), record, grid), jnp.zeros_like(mean))


def agree(found, expected, log_normaliser):
    """Expected sums within 4 of the Monte Carlo errors that 16 groups say, which are small."""
    error = np.sqrt(np.diag(found.error))
    assert (error < 0.2 * np.sqrt(np.diag(found.covariance))).all()
    assert (np.abs(np.asarray(found.total) - expected) < 4 * error).all()
    assert abs(float(found.log_normaliser) - float(log_normaliser)) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("policy", [jb.EpsilonGreedy(), jb.BetaThompson()], ids=["epsilon-greedy", "beta-thompson"])
def test_equals_the_recursion(policy):
    history = jb.simulate(jax.random.key(2), policy, jb.Bernoulli(), [0.3, 0.4], num_steps=100)
    mean, statistics = jnp.array([0.35, 0.4]), history.statistics
    sizes = table_sizes(np.asarray(statistics.pulls)[None], np.asarray(statistics.total)[None])
    shape, nodes = tuple(sizes[0].tolist()), policy.table_nodes(100)
    exact = moments_of_counts(policy, history, mean, shape=shape, nodes=nodes)
    tables = None if nodes is None else (max(shape), nodes)
    drawn = moments_of_particles(policy, jb.Bernoulli(), history, mean, tables=tables)
    agree(drawn, exact.total, exact.log_normaliser)
    np.testing.assert_allclose(drawn.covariance, exact.covariance, rtol=0.1, atol=0.2)


@pytest.mark.slow
def test_their_errors_are_those_of_repeated_keys():
    """Few particles, so that the groups are uneven: intervals of 1.96 reported errors hold the exact sums in 95% of 300 keys.

    By the plain sum of squares over groups they did in 83 and 86%.
    """
    policy, mean, number, keys = jb.Greedy(tau=0.1), jnp.array([0.35, 0.4]), 1024, 300
    history = jb.simulate(jax.random.key(2), policy, jb.Bernoulli(), [0.3, 0.4], num_steps=200)
    shape = tuple(table_sizes(np.asarray(history.statistics.pulls)[None], np.asarray(history.statistics.total)[None])[0].tolist())
    exact = moments_of_counts(policy, history, mean, shape=shape, nodes=None)

    def run(key):
        samples = sample_particles(key, policy, jb.Bernoulli(), record_of(history), mean, number)
        found = moments_at(samples, jnp.zeros_like(mean))
        return found.total - exact.total, jnp.sqrt(jnp.diag(found.error))

    off, error = jax.jit(lambda keys: jax.lax.map(run, keys, batch_size=40))(jax.random.split(jax.random.key(7), keys))
    covered = np.mean(np.abs(off) < 1.96 * error, axis=0)
    assert (np.abs(covered - 0.95) < 3 * np.sqrt(0.95 * 0.05 / keys)).all(), covered
    assert (np.sqrt(np.mean(np.square(off / error), axis=0)) < 1.25).all()


def weights_of(policy, history, paths):
    arms, forced = jnp.asarray(history.arms), history.forced_steps
    of_path = lambda rewards: jnp.sum(selection_log_probs(policy, arms, rewards, forced, history.num_arms))
    return np.asarray(jax.jit(jax.vmap(of_path))(jnp.asarray(paths, jnp.result_type(float))), np.float64)


def expected_sums(history, paths, log_weight):
    chosen = np.asarray(history.arms)[:, None] == np.arange(history.num_arms)
    share = np.exp(log_weight - logsumexp(log_weight))
    return share @ (paths @ chosen) - np.asarray(history.rewards) @ chosen


@pytest.mark.slow
def test_a_policy_with_a_state_of_its_own():
    """Exp3, whose state is not pulls and sums, against every path of rewards."""
    policy, mean = jb.Exp3(gamma=0.5), np.array([0.3, 0.6])
    arms, rewards = jnp.array([0, 1, 1, 0, 1, 1]), jnp.array([1.0, 0.0, 1.0, 0.0, 0.0, 1.0])
    history = jb.History(arms=arms, rewards=rewards, num_arms=2)
    paths = np.array(list(itertools.product([0.0, 1.0], repeat=6)))
    prior = np.log(np.where(paths == 1, mean[arms], 1 - mean[arms])).sum(axis=1)
    log_weight = weights_of(policy, history, paths) + prior
    found = moments_of_particles(policy, jb.Bernoulli(), history, jnp.asarray(mean, jnp.float32))
    agree(found, expected_sums(history, paths, log_weight), logsumexp(log_weight))
    estimate = jb.conditional_mle(jax.random.key(1), history, policy, jb.Bernoulli())
    prior = np.log(np.where(paths == 1, estimate.mean[arms], 1 - estimate.mean[arms])).sum(axis=1)
    left = expected_sums(history, paths, weights_of(policy, history, paths) + prior)  # zero at the maximum
    score_error = np.asarray(estimate.diagnostics["monte_carlo_error"] / estimate.stderr**2 * estimate.mean * (1 - estimate.mean))
    assert (np.abs(left) < 4 * score_error).all()


def test_poisson_against_every_path():
    """Counts up to 14 at each of four steps."""
    policy, mean = jb.Greedy(tau=0.7), np.array([1.0, 1.5])
    arms, rewards = jnp.array([0, 1, 1, 0]), jnp.array([0.0, 2.0, 1.0, 3.0])
    history = jb.History(arms=arms, rewards=rewards, num_arms=2)
    paths = np.array(list(itertools.product(range(15), repeat=4)), float)
    rates = mean[np.asarray(arms)]
    prior = (paths * np.log(rates) - rates - gammaln(paths + 1)).sum(axis=1)
    log_weight = weights_of(policy, history, paths) + prior
    found = moments_of_particles(policy, jb.Poisson(), history, jnp.asarray(mean, jnp.float32))
    agree(found, expected_sums(history, paths, log_weight), logsumexp(log_weight))


def test_exponential_against_quadrature():
    """Two forced pulls and one choice after them: an integral over two rewards by Gauss-Laguerre."""
    policy, mean = jb.Greedy(tau=0.7), np.array([1.0, 1.5])
    history = jb.History(arms=jnp.array([0, 1, 1]), rewards=jnp.array([0.5, 2.0, 1.0]), num_arms=2)
    nodes, weights = np.polynomial.laguerre.laggauss(40)
    first, second = (grid.ravel() for grid in np.meshgrid(nodes, nodes, indexing="ij"))
    paths = np.stack([first * mean[0], second * mean[1], np.full(first.shape, mean[1])], axis=1)  # the last is its mean
    log_weight = weights_of(policy, history, paths) + np.log(np.outer(weights, weights).ravel())
    found = moments_of_particles(policy, jb.Exponential(), history, jnp.asarray(mean, jnp.float32))
    agree(found, expected_sums(history, paths, log_weight), logsumexp(log_weight))


@pytest.mark.parametrize(
    "family",
    [
        pytest.param(jb.Poisson(), id="poisson"),
        pytest.param(jb.Exponential(), id="exponential", marks=pytest.mark.slow),
    ],
)
def test_without_selection_it_is_the_sample_mean(family):
    """Uniform choices say nothing: the estimate is the sample mean, and its standard error the plain one."""
    history = jb.simulate(jax.random.key(1), jb.Uniform(), family, [1.0, 2.0], num_steps=60)
    estimate = jb.conditional_mle(jax.random.key(0), history, jb.Uniform(), family)
    statistics = history.statistics
    plain = np.sqrt(np.asarray(family.variance(statistics.mean)) / np.asarray(statistics.pulls))
    assert estimate.converged.all()
    assert (np.abs(estimate.mean - statistics.mean) < 4 * estimate.diagnostics["monte_carlo_error"]).all()
    np.testing.assert_allclose(estimate.stderr, plain, rtol=0.15)
    half = 1.96 * np.asarray(estimate.stderr / estimate.mean)
    np.testing.assert_allclose(estimate.upper, np.asarray(estimate.mean) * np.exp(half), rtol=1e-3)


@pytest.mark.slow
def test_no_counts_at_all():
    """Poisson, an arm without a single count: the mean 0, and an interval up to 3.0 over its pulls, as without selection."""
    history = jb.History(arms=jnp.array([0, 1] * 30), rewards=jnp.array([0.0, 1.0] * 30), num_arms=2)  # 60 steps, as above
    estimate = jb.conditional_mle(jax.random.key(0), history, jb.Uniform(), jb.Poisson())
    assert int(estimate.status[0]) == jb.Status.AT_EDGE
    assert estimate.converged.all()
    assert float(estimate.mean[0]) == float(estimate.lower[0]) == 0
    np.testing.assert_allclose(estimate.upper[0], -np.log(0.05) / 30, rtol=0.1)
