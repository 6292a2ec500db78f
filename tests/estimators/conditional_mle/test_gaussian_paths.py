"""Normaliser, expectation and covariance given the arms, against Gauss-Hermite product quadrature over all the rewards."""

import dataclasses
import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import qmc

import jaxbias as jb
from jaxbias._core.jit import compiled
from jaxbias.estimators.conditional_mle import gaussian_paths
from jaxbias.estimators.conditional_mle.gaussian_paths import sample_paths
from jaxbias.estimators.conditional_mle.gaussian_walk import most_likely_path
from jaxbias.estimators.conditional_mle.newton import newton
from jaxbias.estimators.conditional_mle.record import record_of
from jaxbias.estimators.conditional_mle.weighted_samples import expected_total, moments_at
from jaxbias.likelihood import Choices, selection_log_probs
from jaxbias.policies import ArmStatistics

NOISY = {"greedy": jb.Greedy(tau=1.0), "epsilon-greedy": jb.EpsilonGreedy(tau=1.0), "lil-ucb": jb.LilUCB(tau=1.0)}
LOGS = {2: [0, 1, 0, 0, 1, 0], 3: [0, 1, 2, 1, 1]}


def policy_of(one_of, name):
    """The noisy ones in one program; Thompson sampling, whose log-probabilities are concave, in its own."""
    return jb.Thompson() if name == "thompson" else one_of(NOISY, name)


def log_of(arms, rewards, num_arms):
    return jb.History(arms=jnp.asarray(arms, jnp.int32), rewards=jnp.asarray(rewards, float), num_arms=num_arms)


@partial(compiled, static=("num_arms",))
def path_log_probs(policy, arms, rewards, forced, num_arms):
    of_path = lambda row: selection_log_probs(policy, arms, row, forced, num_arms).sum()
    return jax.lax.map(of_path, rewards, batch_size=1000)


@compiled
def moments_of_paths(policy, log, mean, sigma, rewards, noise, tilt):
    """Of paths made at these means, at others that the tilt leads to."""
    record = record_of(log)
    path = most_likely_path(policy, record, mean, sigma, rewards, 6)
    samples = sample_paths(policy, record, mean, sigma, path, lambda step: noise[step])
    return moments_at(samples, tilt), expected_total(samples, tilt)


def brute_force(policy, arms, forced, mean, sigma, nodes=10):
    """Over every reward but the last, which no choice looks at; 10 nodes are good to 1e-5 here."""
    point, weight = np.polynomial.hermite_e.hermegauss(nodes)
    free = len(arms) - 1
    noise = np.array(list(itertools.product(point, repeat=free)))
    noise = np.concatenate([noise, np.zeros((len(noise), 1))], axis=1)
    weights = np.prod(np.array(list(itertools.product(weight / weight.sum(), repeat=free))), axis=1)
    rewards = mean[arms] + sigma[arms] * noise
    log_probs = path_log_probs(policy, jnp.asarray(arms), jnp.asarray(rewards, float), jnp.asarray(forced), num_arms=len(mean))
    density = np.exp(np.asarray(log_probs, np.float64)) * weights
    total = rewards @ np.eye(len(mean))[arms]
    expected = density @ total / density.sum()
    covariance = (total - expected).T @ ((total - expected) * density[:, None]) / density.sum()
    covariance[arms[-1], arms[-1]] += sigma[arms[-1]] ** 2
    return np.log(density.sum()), expected, covariance


def sobol_normals(num_steps, exponent):
    """Noise that fills the space more evenly than random numbers do, so that sums over it are exact to 1e-4 here."""
    points = qmc.Sobol(num_steps, scramble=True, rng=np.random.default_rng(0)).random_base2(exponent)
    return jnp.asarray(ndtri(points).T, float)


@pytest.fixture
def wide(num_arms):
    """Two arms in float64, three in float32: the precision has nothing to do with the number of arms."""
    with jax.enable_x64(num_arms == 2):
        yield


THREE_OF_THOMPSON = pytest.param("thompson", 3, marks=pytest.mark.slow)  # the integral takes as long as all the others


@pytest.mark.parametrize(("name", "num_arms"), [*itertools.product(NOISY, LOGS), ("thompson", 2), THREE_OF_THOMPSON], ids=str)
def test_moments_given_the_arms(name, num_arms, wide, one_of):
    """Normaliser, score and information, each to 1e-3; for three arms of Thompson sampling, whose integral costs more, the
    information of each arm to 1e-3 of itself."""
    policy, arms = policy_of(one_of, name), np.array(LOGS[num_arms])
    forced = np.arange(len(arms)) < num_arms
    mean, sigma = np.array([1.3, 0.2, 0.6])[:num_arms], np.array([1.0, 0.7, 1.2])[:num_arms]
    log_normaliser, total, covariance = brute_force(policy, arms, forced, mean, sigma)
    log, at, spread = log_of(arms, mean[arms], num_arms), jnp.asarray(mean, float), jnp.asarray(sigma, float)
    costly = name == "thompson" and num_arms == 3
    noise = sobol_normals(len(arms), 14 if costly else 19)
    found, _ = moments_of_paths(policy, log, at, spread, log.rewards, noise, jnp.zeros_like(at))
    observed = mean[arms] @ np.eye(num_arms)[arms]
    score, expected_score = (found.total / spread**2, (total - observed) / sigma**2)
    np.testing.assert_allclose(found.log_normaliser, log_normaliser, atol=1e-3)
    np.testing.assert_allclose(score, expected_score, atol=1e-3)
    information, expected = found.covariance / jnp.outer(spread, spread) ** 2, covariance / np.outer(sigma, sigma) ** 2
    unit = np.sqrt(np.diag(expected)) if costly else np.ones(num_arms)
    np.testing.assert_allclose(information / np.outer(unit, unit), expected / np.outer(unit, unit), atol=1e-3)
    assert found.effective > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("name", NOISY)
def test_tilted_samples_are_samples_elsewhere(name, one_of):
    """Samples made at other means, reweighted to these: the same score and information, and the same normaliser."""
    policy, arms = policy_of(one_of, name), np.array(LOGS[2])
    forced, sigma = np.arange(len(arms)) < 2, np.array([1.0, 0.7])
    mean, other = np.array([1.3, 0.2]), np.array([1.5, -0.1])
    _, total, covariance = brute_force(policy, arms, forced, mean, sigma)
    log, at, spread = log_of(arms, mean[arms], 2), jnp.asarray(other, float), jnp.asarray(sigma, float)
    tilt = jnp.asarray((mean - other) / sigma**2, float)
    found, alone = moments_of_paths(policy, log, at, spread, log.rewards, sobol_normals(len(arms), 19), tilt)
    observed = mean[arms] @ np.eye(2)[arms]
    np.testing.assert_allclose(found.total, total - observed, atol=1e-3)
    np.testing.assert_allclose(alone, found.total, atol=1e-5)
    np.testing.assert_allclose(found.covariance, covariance, atol=3e-3)


def test_without_choices_the_moments_are_exact(x64):
    """Pulls that say nothing: sums are Normal(pulls x mean, pulls x sigma^2), whatever the noise, tilted or not."""
    arms, mean, sigma = np.array([0, 1, 1, 0, 1]), np.array([0.4, -0.2]), np.array([1.0, 2.0])
    rewards = jnp.asarray([0.3, -1.0, 0.7, 2.0, 0.1], float)
    record = record_of(dataclasses.replace(log_of(arms, rewards, 2), forced=jnp.zeros(5, bool)))
    at, spread = jnp.asarray(mean, float), jnp.asarray(sigma, float)
    noise = jax.random.normal(jax.random.key(0), (5, 40), float)
    make = jax.jit(partial(sample_paths, jb.Uniform(), record, noise=lambda step: noise[step]))
    samples = make(mean=at, sigma=spread, path=rewards)
    pulls, observed = np.array([2, 3]), np.asarray(rewards) @ np.eye(2)[arms]
    plain = moments_at(samples, jnp.zeros(2, float))
    np.testing.assert_allclose(plain.total, pulls * mean - observed, atol=1e-5)
    np.testing.assert_allclose(plain.covariance, np.diag(pulls * sigma**2), atol=1e-4)
    np.testing.assert_allclose(plain.log_normaliser, 5 * np.log(0.5), atol=1e-5)
    tilted = moments_at(samples, jnp.asarray([0.1, -0.05], float))
    np.testing.assert_allclose(tilted.total, pulls * (mean + np.array([0.1, -0.05]) * sigma**2) - observed, atol=0.02)


def test_the_most_likely_path_is_a_maximum():
    """The gradient of the log-density with respect to every reward is zero there."""
    policy, mean = jb.LilUCB(tau=0.5), jnp.array([0.3, 0.1])
    history = jb.simulate(jax.random.key(0), policy, jb.Normal(), mean, 12)
    path = jax.jit(partial(most_likely_path, policy, rounds=8))(record_of(history), mean, jnp.ones(2), history.rewards)

    def height(path):
        selection = selection_log_probs(policy, history.arms, path, history.forced, 2).sum()
        return selection - jnp.sum(jnp.square(path - mean[history.arms])) / 2

    np.testing.assert_allclose(jax.jit(jax.grad(height))(path), 0, atol=1e-3)


@compiled
def one_round(policy, sigma, log, start):
    record = record_of(log)
    path = most_likely_path(policy, record, start, sigma, log.rewards, 6)
    return newton(jax.random.key(0), policy, sigma, record, start, path, pairs=2**14, max_rounds=1)


@pytest.mark.parametrize("name", NOISY)
def test_the_log_normaliser_where_the_search_ends(name, one_of):
    """The probability of the arms at the estimate, from paths that were sampled elsewhere."""
    policy, arms, sigma = policy_of(one_of, name), np.array(LOGS[2]), np.array([1.0, 0.7])
    log, forced = log_of(arms, [2.0, -1.0, 0.3, 1.0, 1.5, 0.2], 2), np.arange(6) < 2
    found = one_round(policy, jnp.asarray(sigma), log, jnp.asarray([1.0, 0.6]))
    assert np.abs(found.move).max() > 0.1
    expected, _, _ = brute_force(policy, arms, forced, np.asarray(found.mean, np.float64), sigma)
    np.testing.assert_allclose(found.log_normaliser, expected, atol=0.02)  # of which the weights make some 0.005


def test_many_arms_of_thompson_go_in_groups_of_paths():
    """Beyond a few arms the integrals of some paths at a time: the same as of each path on its own."""
    draws, arms = np.random.default_rng(0), 16
    pulls = jnp.asarray(draws.integers(1, 9, arms), jnp.int32)
    total = jnp.asarray(draws.normal(size=(arms, 100)), jnp.float32)
    choices = Choices(arm=jnp.asarray(3), number=jnp.asarray(1))
    found = jax.jit(lambda total: gaussian_paths._over_paths(jb.Thompson(), choices, pulls, total))(total)
    every = jax.vmap(lambda total: jb.Thompson().log_probs(ArmStatistics(pulls, total))[3], in_axes=1)
    np.testing.assert_allclose(found, jax.jit(every)(total), atol=1e-4)
    none = gaussian_paths._over_paths(jb.Thompson(), choices._replace(number=jnp.asarray(0)), pulls, total)
    assert not none.any()
