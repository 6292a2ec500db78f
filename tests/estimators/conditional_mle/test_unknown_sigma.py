"""Sigma as a parameter of the conditional likelihood: score, information and maximum against quadrature over all rewards."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri
from scipy.stats import qmc

import jaxbias as jb
from jaxbias._core.jit import compiled
from jaxbias.estimators.conditional_mle import Sampler
from jaxbias.estimators.conditional_mle.gaussian_paths import sample_paths
from jaxbias.estimators.conditional_mle.gaussian_walk import most_likely_path
from jaxbias.estimators.conditional_mle.record import record_of
from jaxbias.estimators.conditional_mle.unknown_sigma import MeansAndSigma
from jaxbias.estimators.conditional_mle.weighted_samples import moments_at
from jaxbias.likelihood import selection_log_probs
from tests.conftest import some_now_others_slow

COMMON, EACH = jb.Normal(sigma=None), jb.Normal(sigma="each")
POLICIES = {"greedy": jb.Greedy(tau=1.0), "epsilon-greedy": jb.EpsilonGreedy(tau=1.0)}
ARMS = np.array([0, 1, 0, 1])  # of which the last reward is seen by no choice
REWARDS = np.array([1.5, 0.2, 0.1, 1.0])


def of_arms(family, num_arms=2):
    return np.zeros(num_arms, int) if family.sigma is None else np.arange(num_arms)


def statistics(rewards, mean, of_arm):
    """Sums of each arm and sums of squares around the means of each sigma, less those of the log: (samples, statistics)."""
    chosen, pooled = np.eye(2)[ARMS], np.eye(of_arm.max() + 1)[of_arm]
    squares = np.square(rewards - mean[ARMS]) - np.square(REWARDS - mean[ARMS])
    return np.concatenate([(rewards - REWARDS) @ chosen, squares @ chosen @ pooled], axis=1)


@compiled
def path_log_probs(policy, rewards, forced):
    of_path = lambda row: selection_log_probs(policy, jnp.asarray(ARMS), row, forced, 2).sum()
    return jax.lax.map(of_path, rewards, batch_size=4096)


def brute_force(policy, mean, sigma, of_arm, at=None, nodes=24):
    """log-probability of the arms, expectation and covariance of the statistics: Gauss-Hermite over all four rewards."""
    point, weight = np.polynomial.hermite_e.hermegauss(nodes)
    noise = np.array(list(itertools.product(point, repeat=4)))
    weights = np.prod(np.array(list(itertools.product(weight / weight.sum(), repeat=4))), axis=1)
    rewards = mean[ARMS] + sigma[ARMS] * noise
    log_probs = path_log_probs(policy, jnp.asarray(rewards), jnp.asarray([True, True, False, False]))
    density = np.exp(np.asarray(log_probs, np.float64)) * weights
    found = statistics(rewards, mean if at is None else at, of_arm)
    expected = density @ found / density.sum()
    return np.log(density.sum()), expected, (found - expected).T @ ((found - expected) * density[:, None]) / density.sum()


def the_log():
    return jb.History(arms=jnp.asarray(ARMS, jnp.int32), rewards=jnp.asarray(REWARDS), num_arms=2)


@compiled
def samples_at(policy, log, mean, sigma, noise):
    """Of the sums and the squares of each arm."""
    record = record_of(log)
    path = most_likely_path(policy, record, mean, sigma, log.rewards, 6)
    return sample_paths(policy, record, mean, sigma, path, lambda step: noise[step], squares=True)


@pytest.mark.parametrize("family", [COMMON, EACH], ids=["common", "each"])
@pytest.mark.parametrize("name", some_now_others_slow(POLICIES, now=("greedy",)))
def test_score_and_information_against_quadrature(name, family, one_of):
    """At the means and sigma of the samples, and by reweighting at others; the normaliser too."""
    policy, of_arm = one_of(POLICIES, name), of_arms(family)
    with jax.enable_x64(True):
        mean, sigma = np.array([0.9, 0.4]), np.array([1.0, 0.7])[of_arm]
        parameters = MeansAndSigma(of_arm=of_arm, is_free=jnp.ones(of_arm.max() + 1, bool))
        noise = jnp.asarray(ndtri(qmc.Sobol(4, scramble=True, rng=np.random.default_rng(0)).random_base2(16)).T)
        samples = parameters.statistics(samples_at(policy, the_log(), jnp.asarray(mean), jnp.asarray(sigma), noise))
        move = np.array([0.1, -0.2, *[-0.15, -0.1][: of_arm.max() + 1]])
        start = jnp.asarray(np.concatenate([mean, np.log(sigma[: of_arm.max() + 1])]))
        for change in (np.zeros_like(move), move):
            after = sigma * np.exp(change[2:][of_arm])
            log_normaliser, expected, covariance = brute_force(policy, mean + change[:2], after, of_arm, at=mean)
            found = moments_at(samples, parameters.tilt(start, jnp.asarray(change)))
            np.testing.assert_allclose(found.total, expected, atol=2e-3)
            np.testing.assert_allclose(found.covariance, covariance, atol=2e-2)
            added = parameters.log_normaliser(record_of(the_log()), start, jnp.asarray(change))
            np.testing.assert_allclose(found.log_normaliser + added, log_normaliser, atol=2e-3)


@pytest.mark.parametrize("family", [COMMON, EACH], ids=["common", "each"])
def test_the_slope_is_the_derivative_of_the_tilt(family, x64):
    of_arm = of_arms(family)
    parameters = MeansAndSigma(of_arm=of_arm, is_free=jnp.ones(of_arm.max() + 1, bool))
    at, move = jnp.asarray([0.9, 0.4, -0.2, 0.3])[: 3 + of_arm.max()], jnp.asarray([0.1, -0.2, 0.15, -0.1])[: 3 + of_arm.max()]
    expected = jax.jacfwd(lambda move: parameters.tilt(at, move))(move)
    np.testing.assert_allclose(parameters.slope(at, move), expected, rtol=1e-5)


@pytest.mark.parametrize("family", [pytest.param(COMMON, id="common", marks=pytest.mark.slow), pytest.param(EACH, id="each")])
def test_the_maximum_against_quadrature(family, one_of):
    """The score, by quadrature, is zero at the estimate, and the standard errors are those of its information."""
    policy, of_arm = one_of(POLICIES, "greedy"), of_arms(family)
    with jax.enable_x64(True):
        found = jb.conditional_mle(jax.random.key(0), the_log(), policy, family, num_paths=2**16)
        figures = found.diagnostics
        sigma = np.broadcast_to(np.asarray(figures["sigma"]), 2)
        _, expected, covariance = brute_force(policy, np.asarray(found.mean), sigma, of_arm)
    by_variance = 1 / np.concatenate([sigma**2, np.unique(sigma**2) if family is COMMON else sigma**2])
    information = covariance * np.outer(by_variance, by_variance)
    inverse = np.linalg.inv(information)
    errors = np.sqrt(np.diag(inverse))
    assert np.abs(inverse @ (expected * by_variance) / errors).max() < 0.03
    larger = np.sqrt(2.0)  # four pulls of two arms leave two degrees of freedom; two pulls of one arm leave one
    np.testing.assert_allclose(found.stderr, larger * errors[:2], rtol=0.03)
    np.testing.assert_allclose(figures["sigma_stderr"], (sigma * errors[2:])[: of_arm.max() + 1].squeeze(), rtol=0.03)
    quantile = stats.t(2 if family is COMMON else 1).ppf(0.975)
    half = np.asarray(found.upper) - np.asarray(found.mean)
    np.testing.assert_allclose(half, quantile * np.asarray(found.stderr), rtol=1e-5)


@pytest.mark.slow
def test_chains_find_the_same_maximum_as_paths():
    history = jb.simulate(jax.random.key(0), jb.Greedy(tau=1.0), jb.Normal(), [1.0, 0.75], 12)
    run = partial(jb.conditional_mle, jax.random.key(1), history)
    paths = run(jb.Greedy(tau=1.0), COMMON, num_paths=4096)
    chains = run(jb.Greedy(tau=1.0), COMMON, sampler=Sampler(num_samples=1000))
    np.testing.assert_array_less(np.abs(paths.mean - chains.mean), 0.15 * np.asarray(paths.stderr))
    assert abs(paths.diagnostics["sigma"] - chains.diagnostics["sigma"]) < 0.15 * paths.diagnostics["sigma_stderr"]


@pytest.mark.slow
def test_a_policy_that_keeps_more_than_sums(own_policy):
    """Chains in place of paths."""
    history = jb.simulate(jax.random.key(0), jb.Greedy(tau=1.0), jb.Normal(), [1.0, 0.75], 12)
    own = jb.conditional_mle(jax.random.key(1), history, own_policy, COMMON, sampler=Sampler(num_samples=200))
    assert np.isfinite(own.mean).all()
    assert np.isfinite(own.diagnostics["sigma"])


@pytest.mark.slow
def test_batches_of_pulls():
    """In batches the sums of squares are still those of the single pulls: forced batches are Student's."""
    arms = jnp.asarray([0, 1, 0, 0, 1, 1, 0, 1, 1])
    rewards = jax.random.normal(jax.random.key(0), (9,))
    history = jb.History(arms=arms, rewards=rewards, num_arms=2, batch_sizes=(2, 4, 3))
    found = jb.conditional_mle(jax.random.key(1), history, jb.Uniform(), COMMON)
    np.testing.assert_allclose(found.mean, history.statistics.mean, atol=1e-4)
    squares = sum(np.square(rewards[arms == arm] - rewards[arms == arm].mean()).sum() for arm in range(2))
    np.testing.assert_allclose(found.diagnostics["sigma"], np.sqrt(squares / 9), rtol=1e-3)
