"""The sample mean and its naive intervals, against SciPy and by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import jaxbias as jb

ARMS, REWARDS = [0, 1, 0, 1, 1, 0, 2], [0.5, 1.0, -0.25, 0.0, 2.0, 1.25, 0.75]


def log(arms=ARMS, rewards=REWARDS, num_arms=4):
    return jb.History(arms=jnp.array(arms, int), rewards=jnp.array(rewards, float), num_arms=num_arms)


def test_without_a_family_it_is_the_t_interval(x64):
    found = jb.sample_mean(log(), level=0.9)
    for arm in (0, 1):
        values = np.array(REWARDS)[np.array(ARMS) == arm]
        assert np.allclose([found.mean[arm], found.stderr[arm]], [values.mean(), scipy.stats.sem(values)], rtol=1e-6)
        expected = scipy.stats.t.interval(0.9, len(values) - 1, values.mean(), scipy.stats.sem(values))
        np.testing.assert_allclose([found.lower[arm], found.upper[arm]], expected, rtol=1e-9 if x64 else 1e-5)
    assert found.mean.dtype == found.lower.dtype == jnp.result_type(float)
    assert found.diagnostics["pulls"].tolist() == [3, 3, 1, 0]


def test_arms_with_too_few_pulls_say_so():
    """Arm 2 was pulled once: a mean, and without a known sigma no interval. Arm 3 never: nothing."""
    found = jb.sample_mean(log())
    assert found.converged.tolist() == [True, True, False, False]
    assert np.isnan(found.stderr).tolist() == np.isnan(found.upper).tolist() == [False, False, True, True]
    assert np.isnan(found.mean).tolist() == [False, False, False, True]
    known = jb.sample_mean(log(), jb.Normal(sigma=2.0))
    assert known.converged.tolist() == [True, True, True, False]
    np.testing.assert_allclose(known.upper[2], 0.75 + 2 * scipy.stats.norm.ppf(0.975), rtol=1e-6)


def test_a_known_sigma_for_each_arm(x64):
    sigma = np.array([1.0, 2.0, 3.0, 4.0])
    found = jb.sample_mean(log(), jb.Normal(sigma=jnp.array(sigma)))
    np.testing.assert_allclose(found.stderr[:3], sigma[:3] / np.sqrt([3, 3, 1]), rtol=1e-6)
    np.testing.assert_allclose(found.mean - found.lower, scipy.stats.norm.ppf(0.975) * found.stderr, rtol=1e-5)


def test_a_sigma_to_be_estimated_is_no_sigma():
    np.testing.assert_array_equal(jb.sample_mean(log(), jb.Normal(sigma=None)).lower, jb.sample_mean(log()).lower)


def test_zeros_and_ones(x64):
    history = log([0, 0, 0, 0, 1, 1, 2, 2, 2, 2, 2], [1, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1], num_arms=3)
    found = jb.sample_mean(history, jb.Bernoulli())
    np.testing.assert_allclose(found.stderr, [np.sqrt(0.25 / 4), 0, np.sqrt(0.16 / 5)], rtol=1e-5)
    np.testing.assert_allclose(found.lower, [0.5 - 1.959964 * 0.25, 1, 0], rtol=1e-5)
    np.testing.assert_allclose(found.upper, [0.5 + 1.959964 * 0.25, 1, 0.2 + 1.959964 * np.sqrt(0.032)], rtol=1e-5)
    assert found.converged.tolist() == [True, False, True]  # successes only: a standard error of zero is not believed


def test_one_log_is_a_row_of_the_batch():
    batch = jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.75], 10, 3)
    many, one = jb.sample_mean(batch), jb.sample_mean(jax.tree.map(lambda leaf: leaf[1], batch))
    jax.tree.map(lambda single, row: np.testing.assert_allclose(single, row[1], rtol=1e-6), one, many)


def test_inside_jit_and_vmap():
    batch = jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.75], 10, 3)
    expected = jb.sample_mean(batch)
    for found in (jax.jit(jb.sample_mean)(batch), jax.vmap(jb.sample_mean)(batch)):
        jax.tree.map(lambda ours, theirs: np.testing.assert_allclose(ours, theirs, rtol=1e-6), found, expected)


def test_one_step():
    found = jb.sample_mean(log([1], [0.5], num_arms=2), jb.Normal())
    assert found.converged.tolist() == [False, True]
    assert found.mean[1] == 0.5


def test_far_from_zero_the_deviation_does_not_cancel():
    rewards = [10_000.0, 10_001.0, 10_002.0]
    np.testing.assert_allclose(jb.sample_mean(log([0, 0, 0], rewards, 1)).stderr, [1 / np.sqrt(3)], rtol=1e-5)


@pytest.mark.parametrize("family", [None, jb.Normal()], ids=["t", "z"])
def test_fixed_arms_are_covered(family):
    history = jb.simulate(jax.random.key(1), jb.Uniform(), jb.Normal(), [1.0, 0.75], 12, 20_000)
    found = jb.sample_mean(history, family, level=0.9)
    inside = np.asarray((found.lower <= jnp.array([[1.0, 0.75]])) & (found.upper >= jnp.array([[1.0, 0.75]])))
    inside = inside[np.asarray(found.converged).all(axis=1)].mean(axis=1)
    assert abs(inside.mean() - 0.9) < 4 * inside.std() / np.sqrt(len(inside))


BAD = [
    (dict(level=0.0), "level", "is 0.0; it must be above 0 and below 1"),
    (dict(family=jb.Normal(sigma=-1.0)), "family.sigma", "is -1.0; it must be positive and finite"),
    (dict(family=jb.Normal(sigma=jnp.ones(3))), "family.sigma", r"has shape \(3,\); it must be one number, or one for each of 4"),
    (dict(family=jb.Bernoulli()), "history.rewards", "is 0.5 at step 0, which Bernoulli.* cannot give"),
    (dict(family="normal"), "family", "is 'normal'; it must be an object with sample"),
    (dict(history=log(rewards=[0, 0, 0, np.inf, 0, 0, 0])), "history.rewards", "is inf at step 3; it must be finite"),
    (dict(history=log(num_arms=2)), "history.arms", "is 2 at step 6; it must be from 0 to 1"),
    (dict(history=log([], [])), "history", r"has arms of shape \(0,\)"),
]


@pytest.mark.parametrize(("change", "argument", "message"), BAD)
def test_bad_input_is_named(change, argument, message, unchecked):
    with pytest.raises(jb.ArgumentError, match=message) as refused:
        jb.sample_mean(**(dict(history=log()) | change))
    assert refused.value.argument == argument


def test_a_family_whose_means_do_not_include_one_half():
    """Ratings from 1 to 5: rewards are judged at a mean that the family has."""

    class Ratings:
        mean_range = (1.0, 5.0)

        def sample(self, key, mean):
            return 1 + jax.random.binomial(key, 4.0, (mean - 1) / 4)

        def log_prob(self, reward, mean):
            return jax.scipy.stats.binom.logpmf(reward - 1, 4.0, (mean - 1) / 4)

    found = jb.sample_mean(log([0, 1, 0], [2.0, 5.0, 3.0], 2), Ratings())
    np.testing.assert_allclose(found.mean, [2.5, 5.0])
    with pytest.raises(jb.ArgumentError, match="cannot give"):
        jb.sample_mean(log([0, 1], [2.0, 6.0], 2), Ratings())
