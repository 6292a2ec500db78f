import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import jaxbias as jb


@pytest.mark.parametrize("sigma", [0.5, np.array([0.5, 1.0, 2.0])])
def test_normal_is_scipys(sigma, x64):
    mean, reward = jnp.array([0.0, 1.0, -2.0]), jnp.array([0.3, 5.0, -2.0])
    expected = scipy.stats.norm(np.asarray(mean), sigma).logpdf(np.asarray(reward))
    np.testing.assert_allclose(jb.Normal(sigma=sigma).log_prob(reward, mean), expected, rtol=1e-12 if x64 else 1e-6)


def test_bernoulli_is_scipys_and_impossible_elsewhere():
    mean, reward = jnp.array([0.2, 0.2, 0.2, 1.0]), jnp.array([0.0, 1.0, 0.5, 1.0])
    np.testing.assert_allclose(jb.Bernoulli().log_prob(reward, mean), [np.log(0.8), np.log(0.2), -np.inf, 0.0], rtol=1e-6)


@pytest.mark.parametrize(
    ("family", "sigma"),
    [(jb.Normal(sigma=2.0), 2.0), (jb.Bernoulli(), np.sqrt(0.21)), (jb.Poisson(), np.sqrt(0.3)), (jb.Exponential(), 0.3)],
    ids=["normal", "bernoulli", "poisson", "exponential"],
)
def test_samples_have_the_mean_and_spread(family, sigma, x64):
    draws = family.sample(jax.random.key(0), jnp.full(200_000, 0.3))
    assert draws.dtype == jnp.result_type(float)
    assert abs(draws.mean() - 0.3) < 4 * sigma / np.sqrt(draws.size)
    assert abs(draws.std() - sigma) < 0.01 * sigma


def test_one_sigma_per_arm_reaches_the_arm():
    history = jb.simulate(jax.random.key(0), jb.Uniform(), jb.Normal(sigma=jnp.array([0.1, 3.0])), [0.0, 0.0], 50, 2000)
    spread = [np.std(np.asarray(history.rewards)[np.asarray(history.arms) == arm]) for arm in (0, 1)]
    np.testing.assert_allclose(spread, [0.1, 3.0], rtol=0.02)


class Waiting:
    """A third family: two functions."""

    def sample(self, key, mean):
        return mean * jax.random.exponential(key, mean.shape, mean.dtype)

    def log_prob(self, reward, mean):
        return -reward / mean - jnp.log(mean)


def test_a_third_family_is_two_functions():
    """Uniform arms leave the sample mean unbiased; Greedy arms do not."""
    key, mean = jax.random.key(0), [1.0, 2.0]
    fair = jb.measure_bias(key, jb.Uniform(), Waiting(), mean, num_steps=10, num_trials=50_000)
    assert (np.abs(fair.bias) < 4 * fair.bias_stderr).all()
    greedy = jb.measure_bias(key, jb.Greedy(), Waiting(), mean, num_steps=10, num_trials=50_000)
    assert (greedy.bias < -10 * greedy.bias_stderr).all()


def test_log_prob_of_counts_and_waiting_times(x64):
    reward, mean = jnp.array([0.0, 3.0, 0.5, -1.0]), jnp.array([0.0, 2.0, 2.0, 2.0])
    counts = [0.0, 3 * np.log(2) - 2 - np.log(6), -np.inf, -np.inf]
    np.testing.assert_allclose(jb.Poisson().log_prob(reward, mean), counts, rtol=1e-5, atol=1e-6)
    waiting = [-3 / 2 - np.log(2), -0.25 - np.log(2), -np.inf]
    np.testing.assert_allclose(jb.Exponential().log_prob(reward[1:], mean[1:]), waiting, rtol=1e-6)
    assert float(jb.Exponential().log_prob(jnp.array(0.0), jnp.array(1.0))) == -np.inf


@pytest.mark.parametrize("family", [jb.Bernoulli(), jb.Poisson(), jb.Exponential()], ids=["bernoulli", "poisson", "exponential"])
def test_the_natural_parameter_and_back(family, x64):
    """It is the one in which the log-likelihood is linear in the reward, and the mean's derivative in it is the variance."""
    mean = jnp.array([0.2, 0.7])
    np.testing.assert_allclose(family.from_natural(family.natural(mean)), mean, rtol=1e-5)
    slope = jax.vmap(jax.grad(family.from_natural))(family.natural(mean))
    np.testing.assert_allclose(slope, family.variance(mean), rtol=1e-5)
    ratio = lambda reward: family.log_prob(jnp.asarray(reward), mean[1]) - family.log_prob(jnp.asarray(reward), mean[0])
    rewards = (1.0, 2.0) if not isinstance(family, jb.Bernoulli) else (0.0, 1.0)
    np.testing.assert_allclose(ratio(rewards[1]) - ratio(rewards[0]), jnp.diff(family.natural(mean))[0], rtol=1e-4)


@pytest.mark.parametrize("family", [jb.Poisson(), jb.Exponential()], ids=["poisson", "exponential"])
@pytest.mark.slow
def test_mean_matching_takes_them(family):
    """Greedy leaves the sample means too low on average; matched, an arm left early goes up."""
    history = jb.simulate(jax.random.key(3), jb.EpsilonGreedy(), family, [1.0, 1.5], num_steps=30, num_trials=40)
    found = jb.mean_matching(jax.random.key(1), history, jb.EpsilonGreedy(), family, num_paths=512)
    assert np.asarray(found.converged).mean() > 0.9
    assert (found.mean > 0).all()
    assert np.mean(np.asarray(found.mean)) > np.mean(np.asarray(history.statistics.mean))
