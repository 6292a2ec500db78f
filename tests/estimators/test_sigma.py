"""Sigma estimated together with the means, by both methods: against Student, and what the scale of the rewards changes.

The logs of one estimator and family have one shape, so that one program serves them.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jaxbias as jb

COMMON, EACH = jb.Normal(sigma=None), jb.Normal(sigma="each")
ESTIMATORS = {"conditional_mle": jb.conditional_mle, "mean_matching": partial(jb.mean_matching, interval="delta")}
STEPS, PATHS = 24, 2048


def estimate(name, history, family, tau=1.0):
    return ESTIMATORS[name](jax.random.key(1), history, jb.Greedy(tau=tau), family, num_paths=PATHS)


@pytest.fixture(scope="module")
def two_logs():
    """One log of noisy greedy choices, and one in which arm 2 was pulled once."""
    history = jb.simulate(jax.random.key(3), jb.Greedy(tau=1.0), jb.Normal(), [1.0, 0.75, 0.5], STEPS, 2)
    once = jnp.asarray([0, 1, 2, 0, 0, 1, 0, 1] + [0, 0, 1, 0] * 4)
    rewards = jnp.asarray([1.0, 0.3, -0.5, 2.0, 0.5, 1.1, 1.4, -0.2] + [0.7, 1.9, 0.4, 1.2, 0.1, 2.2, -0.9, 0.3] * 2)
    arms = jnp.stack([history.arms[0], once.astype(history.arms.dtype)])
    return jb.History(arms=arms, rewards=jnp.stack([history.rewards[0], rewards]), num_arms=3)


def within(history, trial, arm=None):
    arms, rewards = np.asarray(history.arms[trial]), np.asarray(history.rewards[trial], np.float64)
    return sum(np.square(rewards[arms == k] - rewards[arms == k].mean()).sum() for k in range(3) if arm in (None, k))


@pytest.mark.parametrize(
    ("name", "family", "wide"),
    [
        ("conditional_mle", COMMON, False),
        ("conditional_mle", EACH, False),
        ("conditional_mle", EACH, True),
        ("mean_matching", COMMON, False),
        ("mean_matching", EACH, False),
        ("mean_matching", COMMON, True),
    ],
)
def test_without_adaptivity_it_is_students(name, family, wide):
    """Sample means, the usual sigma (maximum likelihood's or that with degrees of freedom) and Student's intervals."""
    with jax.enable_x64(wide):
        is_students(name, family)


def is_students(name, family):
    history = jb.simulate(jax.random.key(0), jb.Uniform(), jb.Normal(sigma=2.0), [1.0, 0.75, 0.5], STEPS, 2)
    forced = jb.History(arms=history.arms, rewards=history.rewards, num_arms=3, forced=jnp.ones((2, STEPS), bool))
    found = estimate(name, forced, family)
    assert found.converged.all()
    assert found.mean.dtype == found.upper.dtype == found.diagnostics["sigma"].dtype == jnp.result_type(float)
    pulls = np.asarray(history.statistics.pulls)
    exact = name == "conditional_mle"  # the other's standard errors are simulated
    for trial in range(2):
        each = [within(history, trial, arm) for arm in range(3)]
        squares, freedom = (within(history, trial), STEPS - 3) if family is COMMON else (np.array(each), pulls[trial] - 1)
        size = STEPS if family is COMMON else pulls[trial]
        usual, maximum = np.sqrt(squares / freedom), np.sqrt(squares / size)
        error = np.asarray(found.diagnostics["monte_carlo_error"][trial])
        still = 4 * error + 3e-3 * np.asarray(found.stderr[trial])  # what a last step of a tenth of it leaves
        np.testing.assert_array_less(np.abs(found.mean[trial] - history.statistics.mean[trial]), still)
        expected = maximum if exact else usual
        np.testing.assert_allclose(found.diagnostics["sigma"][trial], expected, rtol=1e-3 if exact else 0.02)
        half = stats.t(freedom).ppf(0.975) * usual / np.sqrt(pulls[trial])
        np.testing.assert_allclose(found.upper[trial] - found.mean[trial], half, rtol=1e-3 if exact else 0.1)
        np.testing.assert_allclose(found.diagnostics["sigma_stderr"][trial] / expected, 1 / np.sqrt(2 * size), rtol=0.15)


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("family", [COMMON, EACH], ids=["common", "each"])
def test_rewards_on_another_scale(name, family, two_logs):
    """A hundred times the rewards, with a hundred times the noise: all figures a hundred times as large."""
    larger = jb.History(arms=two_logs.arms, rewards=100 * two_logs.rewards, num_arms=3)
    one, other = estimate(name, two_logs, family), estimate(name, larger, family, tau=100.0)
    for figure in ("mean", "stderr", "lower", "upper"):
        np.testing.assert_allclose(getattr(other, figure), 100 * getattr(one, figure), rtol=2e-3, atol=0.2)
    for figure in ("sigma", "sigma_stderr"):
        np.testing.assert_allclose(other.diagnostics[figure], 100 * one.diagnostics[figure], rtol=2e-3)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_one_pull_tells_no_sigma_of_its_own(name, two_logs):
    """The arm has a mean and no interval, and says why; the others are estimated. With one sigma for all it has both."""
    found = jax.tree.map(lambda leaf: leaf[1], estimate(name, two_logs, EACH))
    assert found.converged.tolist() == [True, True, False]
    assert int(found.status[2]) == jb.Status.PULLED_ONCE
    assert np.isfinite(found.mean).all()
    for figures in (found.stderr, found.lower, found.upper, found.diagnostics["sigma_stderr"]):
        assert np.isnan(figures).tolist() == [False, False, True]
    assert found.diagnostics["freedom"].tolist() == [15, 6, 0]
    together = jax.tree.map(lambda leaf: leaf[1], estimate(name, two_logs, COMMON))
    assert together.converged.all()
    assert float(together.diagnostics["freedom"]) == 21


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_long_log_tells_sigma(name):
    """Within 4 standard errors, which are small; the means too."""
    policy, mean = jb.Greedy(tau=1.0), [1.0, 0.75, 0.5]
    history = jb.simulate(jax.random.key(2), policy, jb.Normal(sigma=1.5), mean, 1500)
    found = ESTIMATORS[name](jax.random.key(1), history, policy, COMMON, num_paths=512)
    sigma, error = found.diagnostics["sigma"], found.diagnostics["sigma_stderr"]
    assert abs(sigma - 1.5) < 4 * error < 0.15
    assert found.converged.all()
    assert (np.abs(np.asarray(found.mean) - mean) < 4 * np.asarray(found.stderr)).all()


ALIKE = jb.History(arms=jnp.asarray([0, 1, 0, 1, 0]), rewards=jnp.asarray([0.1, 0.2, 0.1, 0.2, 0.1]), num_arms=2)
ONCE = jb.History(arms=jnp.asarray([0, 1]), rewards=jnp.asarray([0.1, 0.2]), num_arms=2)
HALF = jb.History(arms=jnp.asarray([0, 1, 0, 1]), rewards=jnp.asarray([0.1, 0.2, 0.1, 0.3]), num_arms=2)


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize(
    ("history", "family", "message"),
    [
        (ALIKE, COMMON, "it must be a standard deviation, as every arm's rewards are all the same"),
        (ONCE, COMMON, "it must be a standard deviation, as no arm was pulled twice"),
        (ONCE, EACH, "it must be a standard deviation, as no arm was pulled twice"),
        (HALF, EACH, "it must be a standard deviation, as the rewards of arm 0 are all the same"),
        (HALF, jb.Normal(sigma="all"), "is 'all'; it must be a standard deviation; to estimate it, None"),
    ],
)
def test_what_is_refused(name, history, family, message):
    with pytest.raises(jb.ArgumentError, match=message) as refused:
        ESTIMATORS[name](jax.random.key(0), history, jb.Greedy(tau=1.0), family)
    assert refused.value.argument == "family.sigma"


def refusal(function, *args, **options):
    with pytest.raises(jb.ArgumentError) as refused:
        function(*args, **options)
    return refused.value


def test_what_needs_a_sigma():
    key, policy, mean = jax.random.key(0), jb.Greedy(tau=1.0), [1.0, 0.75]
    history = jb.simulate(key, policy, jb.Normal(), mean, 12)
    for family in (COMMON, EACH):
        for error in (
            refusal(jb.simulate, key, policy, family, mean, 12),
            refusal(jb.measure_bias, key, policy, family, mean, num_steps=12, num_trials=100),
            refusal(jb.bias.bias_at, key, history, policy, family, mean),
        ):
            assert (error.argument, error.value) == ("family.sigma", family.sigma)
            assert "it must be a standard deviation, one or one per arm, for" in str(error)
        error = refusal(jb.conditional_mle, key, history, policy, family, "contrastive_divergence")
        assert error.argument == "solver"
        assert "it must be 'newton' for Normal(sigma=" in str(error)
        for estimate in (jb.sample_mean(history, family), jb.propensity_weighting(history, policy, family=family)):
            assert np.isfinite(estimate.mean).all()
        np.testing.assert_array_equal(jb.sample_mean(history, family).lower, jb.sample_mean(history).lower)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("conditional_mle", jb.Greedy(tau=1.0)),
        ("conditional_mle", jb.LilUCB(tau=1.0)),
        ("mean_matching", jb.Greedy(tau=1.0)),
        ("mean_matching", jb.Greedy()),
    ],
)
def test_intervals_cover(name, policy):
    """T = 40, three arms, 500 logs: the intervals cover what they say, and less than 40% of the bias is left."""
    mean = np.array([1.0, 0.75, 0.5])
    history = jb.simulate(jax.random.key(7), policy, jb.Normal(), mean, 40, 500)
    found = ESTIMATORS[name](jax.random.key(1), history, policy, COMMON, num_paths=512)
    inside = (np.asarray(found.lower) <= mean) & (np.asarray(found.upper) >= mean)
    assert 0.93 <= inside.mean() <= 0.985
    error = (np.asarray(found.mean) - mean).mean(axis=1)
    original = (np.asarray(history.statistics.mean) - mean).mean()
    assert abs(error.mean()) < 0.4 * abs(original) + 3 * error.std() / np.sqrt(500)
    assert found.converged.mean() > 0.99
