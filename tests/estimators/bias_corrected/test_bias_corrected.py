"""The simulated bias against an enumeration of all trials, and what the correction must do at the edges."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.bias import exact_distribution
from jaxbias.estimators.shrinkage.estimator import shrunken_means
from jaxbias.estimators.shrinkage.posterior import Summary

KEY, PATHS = jax.random.key(3), 512
POLICY = jb.EpsilonGreedy(0.2)


def plain_means(history):
    """An estimator of one's own: the sample means, from the steps."""
    return history.statistics.mean


@pytest.fixture(scope="module")
def bernoulli_logs():
    return jb.simulate(jax.random.key(0), POLICY, jb.Bernoulli(), [0.6, 0.4], num_steps=8, num_trials=2, progress=False)


@pytest.fixture(scope="module")
def normal_logs():
    return jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.5, 0.0], num_steps=15, num_trials=2, progress=False)


@pytest.fixture(scope="module")
def corrected(bernoulli_logs):
    return jb.bias_corrected(KEY, bernoulli_logs, POLICY, jb.Bernoulli(), num_paths=PATHS)


def test_the_bias_is_that_of_all_trials(bernoulli_logs, corrected):
    """Every end of a trial at the estimate, with its probability and its shrunken means."""
    shrunken = jb.shrinkage(bernoulli_logs, jb.Bernoulli())
    np.testing.assert_allclose(corrected.diagnostics["estimate"], shrunken.mean, atol=1e-5)
    ends = exact_distribution(POLICY, np.asarray(shrunken.mean, np.float64), 8)
    pulls = jnp.asarray(ends.pulls, float)
    summary = Summary(pulls=pulls, mean=jnp.asarray(ends.successes, float) / pulls, squares=jnp.zeros_like(pulls))
    of_ends = np.asarray(jax.jit(jax.vmap(lambda one: shrunken_means(jb.Bernoulli(), one)))(summary), np.float64)
    exact = ends.probability @ of_ends - np.asarray(shrunken.mean)
    off = (corrected.diagnostics["bias"] - exact) / corrected.diagnostics["monte_carlo_error"]
    assert np.max(np.abs(off)) < 4
    np.testing.assert_allclose(corrected.mean, shrunken.mean - corrected.diagnostics["bias"], atol=1e-5)
    variance = ends.probability @ np.square(of_ends) - np.square(ends.probability @ of_ends)
    assert np.all(corrected.diagnostics["monte_carlo_error"] < np.sqrt(variance / PATHS))  # thanks to the score


def test_estimates_and_intervals_stay_in_the_range(corrected):
    assert np.all((corrected.lower >= 0) & (corrected.lower <= corrected.mean))
    assert np.all((corrected.upper <= 1) & (corrected.upper >= corrected.mean))
    assert np.all(corrected.stderr > 0)


def test_an_arm_without_a_success():
    log = jb.History(arms=jnp.array([0, 1, 0, 0, 0]), rewards=jnp.array([1.0, 0.0, 1.0, 0.0, 1.0]), num_arms=2)
    estimate = jb.bias_corrected(KEY, log, jb.Greedy(), jb.Bernoulli(), jb.sample_mean, num_paths=256)
    assert int(estimate.status[1]) == jb.Status.AT_EDGE
    assert 0 <= float(estimate.lower[1]) <= float(estimate.mean[1]) <= float(estimate.upper[1]) <= 1


def test_a_function_of_steps_is_the_built_in_one_of_sums(normal_logs):
    by_sums = jb.bias_corrected(KEY, normal_logs, jb.Greedy(), jb.Normal(), jb.sample_mean, num_paths=512)
    by_steps = jb.bias_corrected(KEY, normal_logs, jb.Greedy(), jb.Normal(), plain_means, num_paths=512)
    np.testing.assert_allclose(by_sums.mean, by_steps.mean, atol=1e-4)
    assert np.all(by_sums.mean > normal_logs.statistics.mean)  # which are too low on average
    with_family = lambda history, family: jb.sample_mean(history, family)
    found = jb.bias_corrected(KEY, normal_logs, jb.Greedy(), jb.Normal(), with_family, num_paths=512)
    np.testing.assert_allclose(found.mean, by_steps.mean, atol=1e-4)


def test_a_batch_is_its_logs_and_keys(normal_logs):
    """Log i has the key folded with i."""
    both = jb.bias_corrected(KEY, normal_logs, jb.Greedy(), jb.Normal(), jb.sample_mean, num_paths=512)
    first = jb.bias_corrected(KEY, normal_logs.trial(0), jb.Greedy(), jb.Normal(), jb.sample_mean, num_paths=512)
    np.testing.assert_allclose(both.mean[0], first.mean, atol=1e-5)


def test_gradient_is_that_of_the_expectation(normal_logs):
    """d corrected / d reward = (2 - J) d estimate / d reward: a finite difference with the same random numbers, smoothed by
    many paths."""
    log = normal_logs.trial(0)

    def corrected(rewards):
        history = dataclasses.replace(log, rewards=rewards)
        return jb.bias_corrected(KEY, history, jb.Uniform(), jb.Normal(), jb.sample_mean, num_paths=2048).mean

    slope = jax.jacrev(corrected)(log.rewards)
    # Under a uniform policy the sample mean is unbiased: the correction is noise, and J is the identity.
    expected = (np.asarray(log.arms) == np.arange(3)[:, None]) / np.asarray(log.statistics.pulls)[:, None]
    np.testing.assert_allclose(slope, expected, atol=0.15 * expected.max())


def test_unknown_sigma_stops_and_batches():
    rule, family = jb.StopAtDifference(threshold=1.0, first=6), jb.Normal(sigma=None)
    options = dict(num_steps=12, num_trials=2, batch_size=3, stop=rule, progress=False)
    logs = jb.simulate(jax.random.key(2), jb.Thompson(), jb.Normal(), [1.0, 0.5, 0.0], **options)
    estimate = jb.bias_corrected(KEY, logs, jb.Thompson(), family, num_paths=256, stop=rule, num_steps=12)
    assert estimate.mean.shape == (2, 3)
    assert np.isfinite(estimate.mean).all()
    assert np.all((estimate.lower < estimate.mean) & (estimate.mean < estimate.upper))


def test_an_arm_that_was_never_pulled(normal_logs):
    log = dataclasses.replace(normal_logs.trial(0), num_arms=4)
    log = dataclasses.replace(log, forced=log.forced_steps)
    estimate = jb.bias_corrected(KEY, log, jb.Greedy(), jb.Normal(), num_paths=256)
    assert int(estimate.status[3]) == jb.Status.NEVER_PULLED
    assert np.isnan(float(estimate.mean[3]))
    assert estimate.converged[:3].all()


def test_what_is_refused(normal_logs):
    with pytest.raises(jb.ArgumentError, match="num_paths is 10"):
        jb.bias_corrected(KEY, normal_logs, jb.Greedy(), jb.Normal(), num_paths=10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "mean", "num_steps", "most"),
    [
        (jb.LilUCB(), (1.0, 0.75), 16, 70),
        (jb.LilUCB(), (1.0, 0.75, 0.5, 0.38, 0.25), 40, 42),
        (jb.Greedy(), (1.0, 0.75, 0.5, 0.38, 0.25), 40, 52),
        (jb.Thompson(), (1.0, 0.75, 0.5, 0.38, 0.25), 80, 46),
    ],
    ids=["lil-ucb-2", "lil-ucb-5", "greedy-5", "thompson-5"],
)
def test_bias_and_error_in_the_settings_of_the_paper(policy, mean, num_steps, most):
    """In percent of the sample means': at most 20 of the bias, and what was asked for of the mean squared error."""
    logs = jb.simulate(jax.random.key(5), policy, jb.Normal(), mean, num_steps=num_steps, num_trials=2000, progress=False)
    estimate = jb.bias_corrected(KEY, logs, policy, jb.Normal(), num_paths=256)
    before, after = (np.asarray(values, float) - mean for values in (logs.statistics.mean, estimate.mean))
    assert abs(after.mean()) < 0.2 * abs(before.mean())
    assert 100 * np.square(after).mean() < most * np.square(before).mean()
    inside = (np.asarray(estimate.lower) <= mean) & (np.asarray(estimate.upper) >= mean)
    assert inside.mean() > 0.945
