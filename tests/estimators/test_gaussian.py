"""Normaliser, expectation and covariance given the arms, against Gauss-Hermite product quadrature over all the rewards."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.estimators.gaussian import conditional_moments, make_log, most_likely_path
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


@pytest.mark.parametrize("num_arms", LOGS)
@pytest.mark.parametrize("name", POLICIES)
def test_moments_given_the_arms(name, num_arms, x64):
    """With 400,000 paths the normaliser to 1e-3, the sums to that and 4 standard errors, the covariance to 4e-3.

    Three arms of Thompson sampling, whose integral costs more: 80,000 paths and 2.5 times these.
    """
    pairs, close = (40_000, 2.5e-3) if name == "thompson" and num_arms == 3 else (200_000, 1e-3)
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
        return conditional_moments(policy, log, at, spread, path, noise)

    found = run(rewards, jax.random.normal(jax.random.key(0), (len(arms), pairs)))
    observed = mean[arms] @ np.eye(num_arms)[arms]
    error = np.sqrt(np.diag(found.error)).max()
    assert error < close
    np.testing.assert_allclose(found.log_normaliser, log_normaliser, atol=close)
    np.testing.assert_allclose(found.total + jnp.asarray(observed, float), total, atol=close + 4 * error)
    np.testing.assert_allclose(found.covariance, covariance, atol=4 * close)
    assert found.effective > 0.9


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
