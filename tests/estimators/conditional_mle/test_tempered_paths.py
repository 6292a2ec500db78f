"""Paths that take their weights in portions: their moments against brute force, and twenty arms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias._core.jit import compiled
from jaxbias.estimators.conditional_mle import newton
from jaxbias.estimators.conditional_mle.newton import make_noise
from jaxbias.estimators.conditional_mle.record import record_of
from jaxbias.estimators.conditional_mle.tempered_paths import Walker, fill_groups, temper, temper_again
from jaxbias.estimators.conditional_mle.weighted_samples import moments_at
from tests.estimators.conditional_mle.test_gaussian_paths import LOGS, brute_force, log_of

PATHS = 2**13


@compiled
def tempered_moments(key, policy, log, other, mean, sigma, path):
    """Of paths tempered at other means, then moved to these."""
    record = record_of(log)
    walker = Walker(policy, record, sigma, path, None)
    start = temper(key, walker, other, make_noise(key, record, PATHS // 2))
    samples, moved = temper_again(key, walker, mean, start)
    return moments_at(samples, jnp.zeros_like(mean)), start.rounds, moved.log_weight


@pytest.mark.parametrize("num_arms", [2, 3])
def test_moments_given_the_arms(num_arms):
    """A Gaussian around a path far from the likely ones, so that the weights are uneven and need several portions."""
    policy, arms = jb.Greedy(tau=0.3 if num_arms == 2 else 0.6), np.array(LOGS[num_arms])
    forced = np.arange(len(arms)) < num_arms
    mean, sigma = np.array([0.6, 0.4, 0.5])[:num_arms], np.array([1.0, 0.7, 1.2])[:num_arms]
    log_normaliser, total, covariance = brute_force(policy, arms, forced, mean, sigma, nodes=16 if num_arms == 2 else 24)
    log, at, spread = log_of(arms, mean[arms], num_arms), jnp.asarray(mean, float), jnp.asarray(sigma, float)
    other, path = at + 0.3 * jnp.arange(num_arms, dtype=float), log.rewards + jnp.asarray([1.0, -1.0] * 3)[: len(arms)]
    found, rounds, log_weight = tempered_moments(jax.random.key(0), policy, log, other, at, spread, path)
    assert rounds >= 2
    assert np.std(log_weight) > 1
    error = np.sqrt(np.diag(found.error))
    np.testing.assert_array_less(error, 0.1 * sigma)
    observed = mean[arms] @ np.eye(num_arms)[arms]
    np.testing.assert_array_less(np.abs(found.total - (total - observed)) / error, 4)
    np.testing.assert_allclose(found.log_normaliser, log_normaliser, atol=0.1)
    np.testing.assert_allclose(np.diag(found.covariance), np.diag(covariance), rtol=0.15)


@pytest.mark.parametrize("pairs", [35, 64])
def test_the_monte_carlo_error_is_known_whatever_the_number_of_paths(pairs, monkeypatch):
    """Of 35 pairs there was one group, and so no error."""
    monkeypatch.setattr(newton, "needs_tempering", lambda *_: True)
    arms, policy, sigma = np.array(LOGS[2]), jb.Greedy(tau=0.3), jnp.ones(2)
    log = log_of(arms, np.array([0.6, 0.4])[arms] + 0.1 * np.arange(len(arms)), 2)

    @jax.jit
    def fit(key):
        record = record_of(log)
        start = newton.newton(key, policy, sigma, record, log.statistics.mean, log.rewards, pairs, 5)
        return start.monte_carlo_error / jnp.sqrt(jnp.diag(start.covariance)), start.effective

    error, effective = fit(jax.random.key(0))
    assert np.all((error > 0.02) & (error < 0.5))
    assert 1 < effective < 2 * pairs + 16
    np.testing.assert_array_less(effective * np.min(error) ** 2, 1.01)  # as many as would have such an error


def test_a_move_beyond_the_noise_is_gone_on_with(monkeypatch):
    """From three standard errors away, with moves of one at most, to where paths that are not tempered end."""
    arms, policy, sigma = np.array(LOGS[2]), jb.Greedy(tau=0.6), jnp.ones(2)
    log = log_of(arms, np.array([0.6, 0.4])[arms] + 0.1 * np.arange(len(arms)), 2)

    def fit(start):
        return newton.newton(jax.random.key(0), policy, sigma, record_of(log), start, log.rewards, 256, 20)

    plain = jax.jit(fit)(log.statistics.mean)
    monkeypatch.setattr(newton, "needs_tempering", lambda *_: True)
    far = plain.mean + 3 * jnp.sqrt(jnp.diag(plain.covariance))
    found = jax.jit(lambda start: fit(start))(far)
    assert 3 <= found.rounds < 20
    error = np.hypot(found.monte_carlo_error, plain.monte_carlo_error)
    np.testing.assert_array_less(np.abs(found.mean - plain.mean), 4 * error)
    np.testing.assert_array_less(error, 0.2 * np.sqrt(np.diag(plain.covariance)))


def test_groups_have_as_many_pairs_each():
    assert [fill_groups(pairs) for pairs in (1, 8, 9, 125, 128)] == [8, 8, 16, 128, 128]


@pytest.mark.slow
def test_many_arms_of_thompson_sampling_converge():
    """Two keys agree within the errors that they report, where plain weights leave one path in seven."""
    policy, family = jb.Thompson(), jb.Normal()
    log = jb.simulate(jax.random.key(0), policy, family, np.linspace(1, 0, 20), num_steps=200)
    one, other = (jb.conditional_mle(jax.random.key(key), log, policy, family, num_paths=512) for key in (1, 2))
    assert one.converged.all()
    assert other.converged.all()
    assert one.diagnostics["effective_samples"] > 100
    error = np.hypot(*(estimate.diagnostics["monte_carlo_error"] for estimate in (one, other)))
    assert np.sqrt(np.mean(np.square((one.mean - other.mean) / error))) < 2
    np.testing.assert_array_less(error, 0.5 * np.asarray(one.stderr))
