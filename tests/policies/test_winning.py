"""The probability that an arm wins, against integrals done by brute force."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from scipy.special import log_ndtr, logsumexp

import jaxbias as jb
from jaxbias.policies.winning import beta_win_log_probs, noisy_normal_win_log_probs, normal_win_log_probs


def brute_force(log_density, log_below, grid):
    """Simpson's rule on a grid far finer than the method's."""
    step = grid[1] - grid[0]
    weights = np.log(np.where(np.arange(grid.size) % 2, 4, 2) * step / 3)
    others = log_below.sum(axis=0) - log_below
    return logsumexp(log_density + others + weights, axis=1)


def normal_problem(seed):
    """Arms known with very different precision, some far behind."""
    random = np.random.default_rng(seed)
    scale = 1 / np.sqrt(np.exp(random.uniform(0, np.log(1000), 5)))
    return random.normal(size=5) * random.choice([0.1, 0.5, 2.0]), scale


@pytest.mark.parametrize("seed", range(40))
def test_normal_arms(seed, x64):
    location, scale = normal_problem(seed)
    grid = np.linspace((location - 12 * scale).min(), (location + 12 * scale).max(), 100_001)
    standard = (grid - location[:, None]) / scale[:, None]
    expected = brute_force(scipy.stats.norm.logpdf(standard) - np.log(scale)[:, None], log_ndtr(standard), grid)
    likely = expected > -25
    found = jax.jit(normal_win_log_probs)(jnp.asarray(location, float), jnp.asarray(scale, float))
    np.testing.assert_allclose(np.asarray(found)[likely], expected[likely], atol=1e-5 if x64 else 4e-5)


@pytest.mark.parametrize("tau", [0.02, 0.3, 3.0])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))])
def test_normal_arms_with_gumbel_noise(seed, tau):
    """Against the average of softmax(draws / tau) over a fine product grid of the draws, for three arms."""
    random = np.random.default_rng(seed)
    location, scale = random.normal(size=3), np.array([1.0, 0.3, 0.1])[random.permutation(3)]
    nodes, weights = np.polynomial.hermite_e.hermegauss(160)
    draws = np.stack(np.meshgrid(*[m + s * nodes for m, s in zip(location, scale, strict=True)], indexing="ij"), axis=-1)
    weight = np.einsum("i,j,k->ijk", *[weights / weights.sum()] * 3)
    expected = np.einsum("ijk,ijka->a", weight, np.exp(draws / tau - logsumexp(draws / tau, axis=-1, keepdims=True)))
    with jax.enable_x64(True):
        found = jax.jit(noisy_normal_win_log_probs)(jnp.asarray(location), jnp.asarray(scale), jnp.asarray(tau))
    # At tau = 0.02 the reference itself, a product rule on a near-step, is good to a few parts in a thousand.
    np.testing.assert_allclose(np.exp(found), expected, atol=5e-3 if tau < 0.1 else 1e-5)


def test_a_little_gumbel_noise_changes_little():
    location, scale = jnp.array([0.3, 0.0, -0.5]), jnp.array([0.2, 0.5, 1.0])
    with jax.enable_x64(True):
        location, scale = location.astype(jnp.float64), scale.astype(jnp.float64)
        nearly = jax.jit(noisy_normal_win_log_probs)(location, scale, jnp.asarray(1e-3))
        np.testing.assert_allclose(nearly, jax.jit(normal_win_log_probs)(location, scale), atol=1e-5)


@pytest.mark.parametrize("success", [(1.0, 1.0, 1.0), (3.0, 10.0, 1.0), (0.5, 2.0, 30.0), (200.0, 190.0, 5.0)])
def test_beta_arms(success, x64):
    success, failure = np.array(success), np.array([1.0, 8.0, 2.0])
    grid = np.linspace(-60, 60, 200_001)  # log-odds
    chance = scipy.special.expit(grid)
    arms = [scipy.stats.beta(a, b) for a, b in zip(success, failure, strict=True)]
    log_density = np.stack(
        [
            a * np.log(chance) + b * np.log(scipy.special.expit(-grid)) - scipy.special.betaln(a, b)
            for a, b in zip(success, failure, strict=True)
        ]
    )
    with np.errstate(divide="ignore"):
        log_below = np.maximum(np.log(np.stack([arm.cdf(chance) for arm in arms])), -1000)
    expected = brute_force(log_density, log_below, grid)
    found = jax.jit(beta_win_log_probs)(jnp.asarray(success, float), jnp.asarray(failure, float))
    np.testing.assert_allclose(found, expected, atol=1e-5 if x64 else 1e-4)


def test_two_arms_are_the_integral_too():
    """The closed form for two arms against three with one that cannot win."""
    location, scale = jnp.array([0.4, 0.0]), jnp.array([0.3, 0.7])
    three = jax.jit(normal_win_log_probs)(jnp.array([0.4, 0.0, -60.0]), jnp.array([0.3, 0.7, 1.0]))
    np.testing.assert_allclose(jax.jit(normal_win_log_probs)(location, scale), three[:2], atol=2e-5)


def test_the_gradient_is_that_of_the_integral():
    """The cuts move with the arms; their movement must not count."""
    with jax.enable_x64(True):
        scale = jnp.array([0.3, 0.7, 0.2, 1.0])
        location = jnp.array([0.4, 0.0, 0.1, -1.0])
        value = jax.jit(lambda shift: normal_win_log_probs(location.at[1].add(shift), scale))
        step = 1e-4
        expected = (value(step) - value(-step)) / (2 * step)
        np.testing.assert_allclose(jax.jit(jax.jacfwd(value))(0.0), expected, atol=1e-5)


def test_many_arms():
    log_probs = jax.jit(jb.Thompson().log_probs)(
        jb.policies.ArmStatistics(pulls=jnp.arange(1, 201, dtype=jnp.int32), total=jnp.linspace(0.0, 20.0, 200))
    )
    assert log_probs.shape == (200,)
    np.testing.assert_allclose(jnp.exp(log_probs).sum(), 1.0, atol=1e-5)
