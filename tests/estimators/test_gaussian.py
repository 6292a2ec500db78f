"""Normaliser, expectation and covariance given the arms, against Gauss-Hermite product quadrature over all the rewards."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import qmc

import jaxbias as jb
from jaxbias.estimators.draws import expected_total, moments
from jaxbias.estimators.gaussian import draw_paths, most_likely_path
from jaxbias.estimators.logs import make_log
from jaxbias.estimators.newton import newton
from jaxbias.likelihood import selection_log_probs

POLICIES = {
    "greedy": jb.Greedy(tau=1.0),
    "epsilon-greedy": jb.EpsilonGreedy(tau=1.0),
    "lil-ucb": jb.LilUCB(tau=1.0),
    "thompson": jb.Thompson(),
}
LOGS = {2: [0, 1, 0, 0, 1, 0], 3: [0, 1, 2, 1, 1]}


def brute_force(policy, arms, forced, mean, sigma, nodes=10):
    """Over every reward but the last, which no choice looks at; 10 nodes are good to 1e-5 here."""
    point, weight = np.polynomial.hermite_e.hermegauss(nodes)
    free = len(arms) - 1
    noise = np.array(list(itertools.product(point, repeat=free)))
    noise = np.concatenate([noise, np.zeros((len(noise), 1))], axis=1)
    weights = np.prod(np.array(list(itertools.product(weight / weight.sum(), repeat=free))), axis=1)
    rewards = mean[arms] + sigma[arms] * noise
    score = lambda row: selection_log_probs(policy, jnp.asarray(arms), row, jnp.asarray(forced), len(mean)).sum()
    log_probs = jax.jit(partial(jax.lax.map, score, batch_size=1000))(jnp.asarray(rewards, float))
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


@pytest.mark.parametrize("num_arms", LOGS)
@pytest.mark.parametrize("name", POLICIES)
def test_moments_given_the_arms(name, num_arms, x64):
    """Normaliser, score and information, each to 1e-3; for three arms of Thompson sampling, whose integral costs more, the
    information of each arm to 1e-3 of itself."""
    policy, arms = POLICIES[name], np.array(LOGS[num_arms])
    forced = np.arange(len(arms)) < num_arms
    mean, sigma = np.array([1.3, 0.2, 0.6])[:num_arms], np.array([1.0, 0.7, 1.2])[:num_arms]
    log_normaliser, total, covariance = brute_force(policy, arms, forced, mean, sigma)
    rewards = jnp.asarray(mean[arms], float)
    log = make_log(jnp.asarray(arms, jnp.int32), rewards, jnp.asarray(forced), num_arms)
    at, spread = jnp.asarray(mean, float), jnp.asarray(sigma, float)

    @jax.jit
    def run(rewards, noise):
        path = most_likely_path(policy, log, at, spread, rewards, 6)
        return moments(draw_paths(policy, log, at, spread, path, lambda step: noise[step]), jnp.zeros_like(at))

    costly = name == "thompson" and num_arms == 3
    found = run(rewards, sobol_normals(len(arms), 14 if costly else 19))
    observed = mean[arms] @ np.eye(num_arms)[arms]
    score, expected_score = (found.total / spread**2, (total - observed) / sigma**2)
    np.testing.assert_allclose(found.log_normaliser, log_normaliser, atol=1e-3)
    np.testing.assert_allclose(score, expected_score, atol=1e-3)
    information, expected = found.covariance / jnp.outer(spread, spread) ** 2, covariance / np.outer(sigma, sigma) ** 2
    unit = np.sqrt(np.diag(expected)) if costly else np.ones(num_arms)
    np.testing.assert_allclose(information / np.outer(unit, unit), expected / np.outer(unit, unit), atol=1e-3)
    assert found.effective > 0.9


@pytest.mark.parametrize("name", ["greedy", "epsilon-greedy", "lil-ucb"])
def test_tilted_draws_are_draws_elsewhere(name, x64):
    """Draws made at other means, reweighted to these: the same score and information, and the same normaliser."""
    policy, arms = POLICIES[name], np.array(LOGS[2])
    forced, sigma = np.arange(len(arms)) < 2, np.array([1.0, 0.7])
    mean, other = np.array([1.3, 0.2]), np.array([1.5, -0.1])
    _, total, covariance = brute_force(policy, arms, forced, mean, sigma)
    rewards = jnp.asarray(mean[arms], float)
    log = make_log(jnp.asarray(arms, jnp.int32), rewards, jnp.asarray(forced), 2)
    at, spread = jnp.asarray(other, float), jnp.asarray(sigma, float)

    @jax.jit
    def run(rewards, noise, tilt):
        path = most_likely_path(policy, log, at, spread, rewards, 6)
        draws = draw_paths(policy, log, at, spread, path, lambda step: noise[step])
        return moments(draws, tilt), expected_total(draws, tilt)

    found, alone = run(rewards, sobol_normals(len(arms), 17), jnp.asarray((mean - other) / sigma**2, float))
    observed = mean[arms] @ np.eye(2)[arms]
    np.testing.assert_allclose(found.total, total - observed, atol=1e-3)
    np.testing.assert_allclose(alone, found.total, atol=1e-5)
    np.testing.assert_allclose(found.covariance, covariance, atol=3e-3)


def test_without_choices_the_moments_are_exact(x64):
    """Pulls that say nothing: sums are Normal(pulls x mean, pulls x sigma^2), whatever the noise, tilted or not."""
    arms, mean, sigma = np.array([0, 1, 1, 0, 1]), np.array([0.4, -0.2]), np.array([1.0, 2.0])
    rewards = jnp.asarray([0.3, -1.0, 0.7, 2.0, 0.1], float)
    log = make_log(jnp.asarray(arms, jnp.int32), rewards, jnp.zeros(5, bool), 2)
    at, spread = jnp.asarray(mean, float), jnp.asarray(sigma, float)
    noise = jax.random.normal(jax.random.key(0), (5, 40), float)
    draws = jax.jit(partial(draw_paths, jb.Uniform(), log, noise=lambda step: noise[step]))(mean=at, sigma=spread, path=rewards)
    pulls, observed = np.array([2, 3]), np.asarray(rewards) @ np.eye(2)[arms]
    plain = moments(draws, jnp.zeros(2, float))
    np.testing.assert_allclose(plain.total, pulls * mean - observed, atol=1e-5)
    np.testing.assert_allclose(plain.covariance, np.diag(pulls * sigma**2), atol=1e-4)
    np.testing.assert_allclose(plain.log_normaliser, 5 * np.log(0.5), atol=1e-5)
    tilted = moments(draws, jnp.asarray([0.1, -0.05], float))
    np.testing.assert_allclose(tilted.total, pulls * (mean + np.array([0.1, -0.05]) * sigma**2) - observed, atol=0.02)


def test_the_most_likely_path_is_a_maximum():
    """The gradient of the log-density with respect to every reward is zero there."""
    policy, mean = jb.LilUCB(tau=0.5), jnp.array([0.3, 0.1])
    history = jb.simulate(jax.random.key(0), policy, jb.Normal(), mean, 12)
    log = make_log(history.arms, history.rewards, history.forced, 2)
    path = most_likely_path(policy, log, mean, jnp.ones(2), history.rewards, 8)

    def height(path):
        selection = selection_log_probs(policy, history.arms, path, history.forced, 2).sum()
        return selection - jnp.sum(jnp.square(path - mean[history.arms])) / 2

    np.testing.assert_allclose(jax.grad(height)(path), 0, atol=1e-3)


@pytest.mark.parametrize("name", ["greedy", "epsilon-greedy", "lil-ucb"])
def test_the_log_normaliser_where_the_search_ends(name):
    """The probability of the arms at the estimate, from paths that were drawn elsewhere."""
    policy, arms, sigma = POLICIES[name], np.array(LOGS[2]), np.array([1.0, 0.7])
    rewards, forced = jnp.asarray([2.0, -1.0, 0.3, 1.0, 1.5, 0.2]), np.arange(6) < 2
    log = make_log(jnp.asarray(arms, jnp.int32), rewards, jnp.asarray(forced), 2)
    start = jnp.asarray([1.0, 0.6])
    path = most_likely_path(policy, log, start, jnp.asarray(sigma), rewards, 6)
    found = jax.jit(partial(newton, pairs=2**14, max_rounds=1))(jax.random.key(0), policy, jnp.asarray(sigma), log, start, path)
    assert np.abs(found.move).max() > 0.1
    expected, _, _ = brute_force(policy, arms, forced, np.asarray(found.mean, np.float64), sigma)
    np.testing.assert_allclose(found.log_normaliser, expected, atol=0.02)  # of which the weights make some 0.005
