"""Contrastive divergence, against the maximum by quadrature over every reward, and as the paper runs it."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jaxbias as jb
from jaxbias._core.jit import compiled
from jaxbias.estimators.conditional_mle.contrastive_divergence import ContrastiveDivergence, contrastive_divergence, reward_scale
from tests.conftest import some_now_others_slow

# One log in which the arm with the lower mean was chosen, so that the choices say much about the means.
ARMS, FORCED = np.array([0, 1, 1, 1]), np.array([True, True, False, False])
REWARDS = np.array([0.8, 0.1, 0.4, 1.2])
POLICIES = {"greedy": jb.Greedy(tau=1.0), "epsilon-greedy": jb.EpsilonGreedy(tau=1.0), "lil-ucb": jb.LilUCB(tau=1.0)}
ADAM, KEYS = optax.adam(0.05), 64
DEFAULT, SIGMA = ContrastiveDivergence(), (1.0, 0.5)


@compiled
def fit(keys, policy, family, arms, rewards, forced, settings):
    """One log fitted with each of the keys."""
    return jax.vmap(lambda key: contrastive_divergence(key, policy, family, arms, rewards, forced, 2, settings))(keys)


@pytest.fixture
def fit_one(one_of):
    return partial(run, one_of)


def run(one_of, settings, name="greedy", family=jb.Normal(), num_keys=1):  # noqa: B008
    policy = one_of(POLICIES, name)
    keys = jax.random.split(jax.random.key(0), num_keys)
    return fit(keys, policy, family, jnp.asarray(ARMS, jnp.int32), jnp.asarray(REWARDS, float), jnp.asarray(FORCED), settings)


def assert_maximum(found, expected):
    """The average over the keys within 4 of its standard errors, and those small enough for an agreement within 0.05."""
    error = np.std(found.mean, axis=0, ddof=1) / np.sqrt(found.mean.shape[0])
    assert (error < 0.0125).all()
    np.testing.assert_array_less(np.abs(np.mean(found.mean, axis=0) - expected), 4 * error)


@pytest.mark.parametrize("name", some_now_others_slow(POLICIES, now=("greedy",)))
def test_it_reaches_the_maximum(name, maximum, fit_one):
    expected = maximum(POLICIES[name], ARMS, REWARDS, (1.0, 1.0))
    sample_mean = np.array([REWARDS[arm == ARMS].mean() for arm in range(2)])
    assert np.abs(expected - sample_mean).max() > 0.1
    found = fit_one(DEFAULT, name, num_keys=KEYS)
    assert found.mean.dtype == found.acceptance.dtype == found.covariance.dtype == jnp.float32
    assert_maximum(found, expected)
    np.testing.assert_allclose(found.drift, 0, atol=0.25)
    assert not found.divergences.any()
    assert found.nan_energies is None
    scatter = np.sqrt(np.mean(np.square(np.asarray(found.mean) - expected), axis=0))
    np.testing.assert_allclose(np.sqrt(np.mean(np.square(found.monte_carlo_error), axis=0)), scatter, rtol=0.4)
    np.testing.assert_allclose(found.covariance, np.broadcast_to(np.mean(found.covariance, axis=0), (KEYS, 2, 2)), atol=0.5)


def test_the_gradient_is_that_of_the_log_density(fit_one):
    """Where the chains are the data themselves, the score at the data and at the samples cancel, and nothing moves."""
    still = ContrastiveDivergence(kernel="random_walk", step_size=1e-30, acceptance=(0.0, 1.0), num_iterations=3, tail=1)
    sample_mean = [REWARDS[arm == ARMS].mean() for arm in range(2)]
    np.testing.assert_allclose(fit_one(still).mean[0], sample_mean, rtol=1e-6)


@pytest.mark.slow
def test_in_the_other_precision(maximum, fit_one):
    with jax.enable_x64(True):
        found = fit_one(DEFAULT, num_keys=KEYS)
        assert found.mean.dtype == found.acceptance.dtype == jnp.float64
        assert_maximum(found, maximum(POLICIES["greedy"], ARMS, REWARDS, (1.0, 1.0)))


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["mala", "random_walk", "single_site"])
def test_with_other_kernels(kernel, maximum, fit_one):
    """Chains that mix less well, run longer."""
    found = fit_one(ContrastiveDivergence(num_iterations=400, num_samples=20, tail=300, kernel=kernel), num_keys=KEYS)
    assert_maximum(found, maximum(POLICIES["greedy"], ARMS, REWARDS, (1.0, 1.0)))
    assert 0.2 < float(found.acceptance[0]) < 0.99
    assert (found.nan_energies is None) == (kernel == "mala")


@pytest.mark.slow
def test_one_sigma_per_arm(maximum, fit_one):
    found = fit_one(DEFAULT, family=jb.Normal(sigma=jnp.array(SIGMA)), num_keys=KEYS)
    assert_maximum(found, maximum(POLICIES["greedy"], ARMS, REWARDS, SIGMA))
    scale = reward_scale(jb.Normal(sigma=jnp.array(SIGMA)), jnp.zeros(2), jnp.asarray(ARMS, jnp.int32))
    np.testing.assert_allclose(scale, np.array(SIGMA)[ARMS], rtol=1e-6)


def test_the_papers_settings(maximum, fit_one):
    """From the sample means towards the maximum, all the way or nearly, with the acceptance the paper kept."""
    expected = maximum(POLICIES["greedy"], ARMS, REWARDS, (1.0, 1.0))
    sample_mean = np.array([REWARDS[arm == ARMS].mean() for arm in range(2)])
    found = fit_one(ContrastiveDivergence.paper(keep_iterates=True), num_keys=16)
    assert found.iterates.shape == (16, 600, 2)
    np.testing.assert_allclose(found.iterates[:, 0], np.broadcast_to(sample_mean, (16, 2)), atol=0.1)
    np.testing.assert_allclose(found.mean, found.iterates[:, -100:].mean(axis=1), rtol=1e-4, atol=1e-5)
    share = (np.mean(found.mean, axis=0) - sample_mean) / (expected - sample_mean)
    np.testing.assert_array_less(0.4, share)
    np.testing.assert_array_less(share, 1.3)
    assert ((found.acceptance > 0.2) & (found.acceptance < 0.5)).all()
    assert not found.nan_energies.any()
    assert found.monte_carlo_error is found.covariance is None


@pytest.mark.slow
@pytest.mark.parametrize("persistent", [False, True])
def test_adam(persistent, maximum, fit_one):
    options = dict(num_iterations=300, num_samples=100, tail=200)
    settings = ContrastiveDivergence.paper(optimiser=ADAM, persistent=persistent, **options)
    found = fit_one(settings, num_keys=8)
    assert found.iterates is None
    np.testing.assert_allclose(np.mean(found.mean, axis=0), maximum(POLICIES["greedy"], ARMS, REWARDS, (1.0, 1.0)), atol=0.12)


def test_the_step_is_adapted_from_a_bad_start(fit_one):
    for first in (0.01, 20.0):
        found = fit_one(ContrastiveDivergence.paper(step_size=first, num_iterations=150, tail=20))
        assert 0.15 < float(found.acceptance[0]) < 0.55


def test_trials_new_values_and_a_policy_of_ones_own(own_policy):
    """A batch of trials; a second call with other values compiles nothing; a policy that is replayed step by step."""
    settings = ContrastiveDivergence(num_iterations=10, num_chains=4, tail=5)

    @compiled
    def batch(keys, policy, family, history):
        one = lambda key, *log: contrastive_divergence(key, policy, family, *log, 2, settings)
        return jax.vmap(one)(keys, history.arms, history.rewards, history.forced_steps)

    for policy in (POLICIES["lil-ucb"], own_policy):
        before = batch.cache_size()
        for seed in range(2):
            history = jb.simulate(jax.random.key(seed), policy, jb.Normal(), [1.0, 0.5], num_steps=7, num_trials=5)
            found = batch(jax.random.split(jax.random.key(seed), 5), policy, jb.Normal(sigma=1.0 + seed), history)
            assert found.mean.shape == (5, 2)
            assert np.isfinite(found.mean).all()
        assert batch.cache_size() == before + 1
