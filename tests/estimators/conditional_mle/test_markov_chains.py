"""The samplers, against moments known exactly: in closed form, or by quadrature over every reward."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.diagnostics
import pytest

import jaxbias as jb
from jaxbias._core.jit import compiled
from jaxbias.estimators.conditional_mle.chain_diagnostics import chain_diagnostics
from jaxbias.estimators.conditional_mle.markov_chains import TARGETS, Sampler, continue_chain, sample_chain
from jaxbias.likelihood import selection_log_probs, trial_log_density
from tests.conftest import some_now_others_slow

CHAINS = 8
SAMPLERS = {
    "hmc": Sampler(kernel="hmc", num_samples=1500, num_warmup=200),
    "mala": Sampler(kernel="mala", num_samples=3000, num_warmup=300),
    "random_walk": Sampler(kernel="random_walk", num_samples=3000, num_warmup=300, thinning=3),
    "single_site": Sampler(kernel="single_site", num_samples=3000, num_warmup=300, thinning=8),
}
ARMS, FORCED = jnp.array([0, 1, 1, 0]), jnp.array([True, True, False, False])
POLICY, FAMILY, MEAN = jb.Greedy(tau=1.0), jb.Normal(), jnp.array([1.0, 0.5])


@compiled
def run(keys, sampler, start, location, deviation):
    """Chains from independent normals with these locations and deviations."""

    def density(rewards, location, deviation):
        return -0.5 * jnp.sum(jnp.square((rewards - location) / deviation))

    return jax.vmap(lambda key: sample_chain(key, density, start, sampler, location, deviation, scale=deviation))(keys)


@compiled
def run_conditional(keys, sampler, policy, arms, rewards, forced, mean):
    """Chains from the rewards of one trial given its arms."""
    density = lambda values, mean: trial_log_density(policy, FAMILY, mean, arms, values, forced)
    return jax.vmap(lambda key: sample_chain(key, density, rewards, sampler, mean))(keys)


def conditional_moments(mean, points=24):
    """Mean and variance of every reward given the arms, by Gauss-Hermite quadrature over all four."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(points)
    grid = np.stack(np.meshgrid(*[nodes] * 4, indexing="ij"), axis=-1).reshape(-1, 4) + np.asarray(mean)[np.asarray(ARMS)]
    weight = np.prod(np.stack(np.meshgrid(*[weights] * 4, indexing="ij"), axis=-1).reshape(-1, 4), axis=1)
    selection = jax.vmap(lambda rewards: jnp.sum(selection_log_probs(POLICY, ARMS, rewards, FORCED, 2)))(
        jnp.asarray(grid, jnp.float32)
    )
    weight = weight * np.exp(np.asarray(selection, float))
    weight = weight / weight.sum()
    average = weight @ grid
    return average, weight @ (grid - average) ** 2


def assert_moments(samples, mean, variance):
    """Within 4 standard errors, those from the effective number of samples."""
    mean, variance = (jnp.asarray(value, samples.dtype) for value in (mean, variance))
    for values, expected in ((samples, mean), (jnp.square(samples - mean[None, None]), variance)):
        size, r_hat = chain_diagnostics(values)
        assert (size > 500).all()
        assert (r_hat < 1.02).all()
        error = np.std(values, axis=(0, 1)) / np.sqrt(size)
        assert (error < 0.1 * np.std(values, axis=(0, 1))).all()
        np.testing.assert_array_less(np.abs(np.mean(values, axis=(0, 1)) - expected), 4 * error)


@pytest.mark.parametrize(("kernel", "wide"), [*((kernel, False) for kernel in SAMPLERS), ("hmc", True), ("random_walk", True)])
def test_normal_moments(kernel, wide):
    """In float64 a kernel with gradients and one without: the others share their steps."""
    with jax.enable_x64(wide):
        has_normal_moments(kernel, jnp.float64 if wide else jnp.float32)


def has_normal_moments(kernel, dtype):
    location, deviation = jnp.array([0.0, 1.0, -2.0]), jnp.array([1.0, 3.0, 0.2])
    keys = jax.random.split(jax.random.key(0), CHAINS)
    samples, info = run(keys, SAMPLERS[kernel], location + deviation, location, deviation)
    assert samples.dtype == dtype
    assert_moments(samples, location, jnp.square(deviation))
    np.testing.assert_allclose(info.acceptance, TARGETS[kernel], atol=0.12)
    assert int(info.divergences.sum()) == int(info.nan_energies.sum()) == 0


@pytest.mark.parametrize("kernel", some_now_others_slow(SAMPLERS, now=("hmc",)))
def test_conditional_moments(kernel):
    keys = jax.random.split(jax.random.key(1), CHAINS)
    rewards = jnp.array([0.5, 0.0, 1.0, -1.0])
    samples, _ = run_conditional(keys, SAMPLERS[kernel], POLICY, ARMS, rewards, FORCED, MEAN)
    mean, variance = conditional_moments(MEAN)
    assert np.abs(mean - np.asarray(MEAN)[np.asarray(ARMS)]).max() > 0.1  # the choices do matter here
    assert_moments(samples, mean, variance)


@pytest.mark.parametrize("kernel", SAMPLERS)
def test_a_set_step_size_is_kept_and_traced(kernel):
    keys = jax.random.split(jax.random.key(2), 2)
    before = run.cache_size()
    for step_size in (0.3, 0.6):
        sampler = Sampler(kernel=kernel, num_samples=20, num_warmup=5, step_size=step_size)
        samples, info = run(keys, sampler, jnp.zeros(3), jnp.full(3, step_size), jnp.ones(3))
        np.testing.assert_allclose(info.step_size, step_size, rtol=1e-6)
        assert samples.shape == (2, 20, 3)
    assert run.cache_size() == before + 1


@pytest.mark.parametrize("kernel", SAMPLERS)
def test_a_nan_energy_is_a_counted_rejection(kernel):
    """The density is not a number above 1: the samples stay below, and follow the truncated normal there."""

    def density(rewards):
        return jnp.where(rewards[0] > 1, jnp.nan, -0.5 * jnp.sum(jnp.square(rewards)))

    sampler = Sampler(kernel=kernel, num_samples=4000, num_warmup=0, step_size=0.9, num_leapfrog=2)
    one = lambda key: sample_chain(key, density, jnp.zeros(2), sampler)
    samples, info = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(3), CHAINS))
    assert samples[..., 0].max() <= 1
    assert (info.nan_energies > 100).all()
    assert not info.divergences.any()
    size = chain_diagnostics(samples).effective_sample_size[0]
    truncated_mean = -np.exp(-0.5) / np.sqrt(2 * np.pi) / 0.8413447
    assert abs(samples[..., 0].mean() - truncated_mean) < 4 * np.std(samples[..., 0]) / np.sqrt(size)


def test_a_chain_that_starts_at_nan_stays_and_says_so():
    for kernel in SAMPLERS:
        sampler = Sampler(kernel=kernel, num_samples=10, num_warmup=0, step_size=0.5)
        samples, info = sample_chain(jax.random.key(0), lambda rewards: jnp.nan * jnp.sum(rewards), jnp.ones(2), sampler)
        assert (samples == 1).all()
        assert int(info.nan_energies) == 10
        assert float(info.acceptance) == 0


def test_divergences_are_counted():
    """A step far too long for a narrow density."""
    density = lambda rewards: -0.5 * jnp.sum(jnp.square(rewards / 1e-3))
    sampler = Sampler(kernel="hmc", num_samples=20, num_warmup=0, step_size=0.1)
    samples, info = sample_chain(jax.random.key(0), density, jnp.zeros(2), sampler)
    assert int(info.divergences) == 20
    assert (samples == 0).all()


@pytest.mark.parametrize("kernel", SAMPLERS)
def test_trials_chains_and_means_are_vmaps(kernel):
    """A trial's chain does not depend on the trials beside it, and one compilation serves new values."""
    sampler = Sampler(kernel=kernel, num_samples=15, num_warmup=5)
    history = jb.simulate(jax.random.key(4), POLICY, FAMILY, [1.0, 0.5], num_steps=6, num_trials=3)
    keys = jax.random.split(jax.random.key(5), (3, 2))
    call = partial(run_conditional, sampler=sampler, policy=POLICY)

    @jax.jit
    def batch(keys, history, means):
        trial = lambda keys, arms, rewards, forced, mean: run_conditional(keys, sampler, POLICY, arms, rewards, forced, mean)
        return jax.vmap(trial)(keys, history.arms, history.rewards, history.forced_steps, means)

    means = jnp.stack([MEAN, MEAN + 1, MEAN - 1])
    samples, info = batch(keys, history, means)
    assert samples.shape == (3, 2, 15, 6)
    assert info.acceptance.shape == (3, 2)
    alone, _ = call(keys[1], arms=history.arms[1], rewards=history.rewards[1], forced=history.forced_steps[1], mean=means[1])
    np.testing.assert_allclose(samples[1], alone, atol=1e-4)
    batch(jax.random.split(jax.random.key(6), (3, 2)), history, means + 0.5)
    assert batch._cache_size() == 1


def test_the_same_key_is_the_same_chain():
    sampler = Sampler(kernel="random_walk", num_samples=5, num_warmup=0, step_size=0.5)
    keys = jnp.stack([jax.random.key(0), jax.random.key(0), jax.random.key(1)])
    samples, _ = run(keys, sampler, jnp.zeros(3), jnp.zeros(3), jnp.ones(3))
    assert (samples[0] == samples[1]).all()
    assert not (samples[0] == samples[2]).any()


@pytest.mark.parametrize("shape", [(1, 101, 2), (4, 200, 3), (3, 50)])
def test_diagnostics_are_numpyros(shape, x64):
    """On chains that remember (an autoregression) and, in one, are not at the same place."""
    noise = np.random.default_rng(0).normal(size=shape)
    chains = np.zeros(shape)
    for draw in range(1, shape[1]):
        chains[:, draw] = 0.7 * chains[:, draw - 1] + noise[:, draw]
    chains[0] += 0.5
    found = jax.jit(chain_diagnostics)(jnp.asarray(chains, float))
    np.testing.assert_allclose(found.effective_sample_size, numpyro.diagnostics.effective_sample_size(chains), rtol=1e-3)
    np.testing.assert_allclose(found.r_hat, numpyro.diagnostics.split_gelman_rubin(chains), rtol=1e-4)


@pytest.mark.parametrize("kernel", ["hmc", pytest.param("mala", marks=pytest.mark.slow)])
def test_numpyros_own_kernels_continue_a_chain(kernel):
    """Independent normals, reached from far away: moments within 4 standard errors of chains that are independent."""
    location, deviation = np.array([1.0, -2.0, 0.0]), np.array([0.5, 2.0, 1.0])
    sampler, start, scale = (
        Sampler(kernel=kernel, num_samples=400, step_size=0.8),
        jnp.full(3, 3.0),
        jnp.asarray(deviation, float),
    )

    def density(rewards, location):
        return -0.5 * jnp.sum(jnp.square((rewards - location) / scale))

    def chain(key):
        return continue_chain(key, density, start, sampler, jnp.asarray(location, float), scale=scale)

    samples, info = jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(2), 64))
    samples = np.asarray(samples[:, 100:], np.float64)
    for found, expected in ((samples, location), (np.square(samples - location), np.square(deviation))):
        average = found.mean(axis=1)
        error = average.std(axis=0, ddof=1) / 8
        assert (np.abs(average.mean(axis=0) - expected) < 4 * error).all()
        assert (error < 0.1 * np.square(deviation)).all()
    assert (np.asarray(info.acceptance) > 0.5).all()
    assert not info.divergences.any()
    assert info.nan_energies is None


def test_numpyro_counts_a_nan_energy_as_a_divergence():
    sampler = Sampler(num_samples=5, step_size=1.0)
    density = lambda rewards: jnp.where(jnp.all(rewards == 0), 0.0, jnp.nan) + 0 * jnp.sum(rewards)
    samples, info = continue_chain(jax.random.key(0), density, jnp.zeros(2), sampler, scale=jnp.ones(2))
    assert int(info.divergences) == 5
    assert not samples.any()
