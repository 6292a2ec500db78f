"""Guarded shrinkage: its rule by hand and against enumeration, and what it is for, by simulation."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.bias import exact_distribution
from jaxbias.estimators.guarded_shrinkage import noise_ratio
from jaxbias.evaluation import evaluate

KEY, POLICY = jax.random.key(3), jb.EpsilonGreedy(0.2)
# Arm 0 was pulled often, and arm 2 once: in the three trials with a low reward, one like the others, and a very high one.
ARMS = [0, 1, 2, 0, 1] + [0] * 15
OF_ARM = [[0.9, 0.7, -1.0], [0.3, 0.25, 0.1], [0.0, 0.1, 4.5]]


@pytest.fixture(scope="module")
def logs():
    arms = np.tile(ARMS, (len(OF_ARM), 1))
    rewards = np.take_along_axis(np.array(OF_ARM), arms, axis=1)
    return jb.History(arms=jnp.asarray(arms, jnp.int32), rewards=jnp.asarray(rewards, jnp.float32), num_arms=3)


@pytest.fixture(scope="module")
def guarded(logs):
    return jb.guarded_shrinkage(KEY, logs, jb.Greedy(), jb.Normal(), num_paths=4096, interval="delta")


def test_the_rule(logs, guarded):
    """Up by how much less often than usual an arm was pulled, down only below a standard error."""
    mean, pulls = (np.asarray(values, float) for values in (logs.statistics.mean, logs.statistics.pulls))
    shrunken = np.asarray(jb.shrinkage(logs, jb.Normal()).mean)
    simulate = lambda mean: jb.simulate(
        KEY, jb.Greedy(), jb.Normal(), mean, num_steps=len(ARMS), num_trials=20_000, progress=False
    )
    usual = np.stack([np.mean(1 / np.asarray(simulate(mean).statistics.pulls), axis=0) for mean in shrunken])
    ratio = 1 / (pulls * usual)
    np.testing.assert_allclose(guarded.diagnostics["noise_ratio"], ratio, rtol=0.04)
    standard_errors = (shrunken - mean) * np.sqrt(pulls)
    up, down = np.clip((ratio - 1) / 0.75, 0, 1), np.clip(1 - np.abs(standard_errors), 0, 1)
    part = np.where(standard_errors > 0, up, down)
    assert ((part == 0).any(), (part == 1).any(), ((part > 0.1) & (part < 0.9)).any()) == (True, True, True)
    np.testing.assert_allclose(guarded.diagnostics["part"], part, atol=0.15)
    own_part = np.asarray(guarded.diagnostics["part"])
    np.testing.assert_allclose(guarded.mean, mean + own_part * (shrunken - mean), atol=1e-5)


def test_each_kind_of_arm(logs, guarded):
    """An arm that was given up goes up, one that was pulled often does not, and one that stands out does not go down."""
    part = np.asarray(guarded.diagnostics["part"])
    assert part[1, 2] == 1  # one pull where two are usual
    assert 0.3 < part[0, 2] < 0.8  # one pull, which is more usual for so low an arm
    assert part[2, 0] == 0  # seven pulls, drawn up towards the other arms
    assert part[2, 2] < 0.05  # a standard error above what the others say
    assert 0 < part[0, 0] < 1  # seven pulls, drawn down
    stays = part == 0
    np.testing.assert_array_equal(np.asarray(guarded.mean)[stays], np.asarray(logs.statistics.mean)[stays])


def test_the_usual_noise_is_that_of_all_trials():
    """Every end of a trial of 8 steps, with its probability."""
    log = jb.simulate(jax.random.key(0), POLICY, jb.Bernoulli(), [0.6, 0.4], num_steps=8, progress=False)
    estimate = jb.guarded_shrinkage(KEY, log, POLICY, jb.Bernoulli(), num_paths=8192, interval="delta")
    ends = exact_distribution(POLICY, np.asarray(estimate.diagnostics["shrinkage"], np.float64), 8)
    usual = ends.probability @ (1 / ends.pulls)
    spread = np.sqrt(ends.probability @ np.square(1 / ends.pulls) - usual**2)
    expected = 1 / (np.asarray(log.statistics.pulls) * usual)
    off = (np.asarray(estimate.diagnostics["noise_ratio"]) / expected - 1) / (spread / usual / np.sqrt(8192))
    assert np.max(np.abs(off)) < 4


def test_paths_that_did_not_pull_an_arm_say_nothing_about_it():
    of_paths = jnp.array([[4, 0], [1, 2], [2, 2]])
    ratio = noise_ratio(jnp.array([2.0, 8.0]), of_paths)
    np.testing.assert_allclose(ratio, [0.5 / ((1 / 4 + 1 + 1 / 2) / 3), (1 / 8) / (1 / 2)], rtol=1e-6)


def test_intervals(logs, guarded):
    inverted = jb.test_inversion(KEY, logs, jb.Greedy(), jb.Normal())
    default = jb.guarded_shrinkage(KEY, logs, jb.Greedy(), jb.Normal(), num_paths=2048)
    np.testing.assert_allclose(default.upper, np.maximum(inverted.upper, default.mean), atol=0.1)
    np.testing.assert_allclose(default.lower, np.minimum(inverted.lower, default.mean), atol=0.1)
    deviation = np.asarray(jb.shrinkage(logs, jb.Normal()).stderr)
    np.testing.assert_allclose(guarded.stderr, deviation, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(guarded.upper - guarded.mean), 1.959964 * deviation, rtol=1e-4)


def test_a_batch_is_its_logs_and_keys(logs, guarded):
    one = jb.guarded_shrinkage(jax.random.key(3), logs.trial(0), jb.Greedy(), jb.Normal(), num_paths=4096, interval="delta")
    np.testing.assert_allclose(one.mean, guarded.mean[0], atol=1e-5)


def test_an_arm_without_a_success_or_a_pull():
    log = jb.History(arms=jnp.array([0, 1, 0, 0, 0]), rewards=jnp.array([1.0, 0.0, 1.0, 0.0, 1.0]), num_arms=2)
    for interval in ("inversion", "delta"):
        found = jb.guarded_shrinkage(KEY, log, jb.Greedy(), jb.Bernoulli(), num_paths=256, interval=interval)
        assert np.all((found.lower >= 0) & (found.lower <= found.mean) & (found.mean <= found.upper) & (found.upper <= 1))
        assert found.lower[1] < found.upper[1]
    unpulled = dataclasses.replace(log, num_arms=3, forced=log.forced_steps)
    found = jb.guarded_shrinkage(KEY, unpulled, jb.Greedy(), jb.Bernoulli(), num_paths=256, interval="delta")
    assert int(found.status[2]) == jb.Status.NEVER_PULLED
    assert np.isnan(float(found.mean[2]))


def test_unknown_sigma_stops_and_batches():
    rule, family = jb.StopAtDifference(threshold=1.0, first=6), jb.Normal(sigma=None)
    options = dict(num_steps=12, num_trials=2, batch_size=3, stop=rule, progress=False)
    logs = jb.simulate(jax.random.key(2), jb.Thompson(), jb.Normal(), [1.0, 0.5, 0.0], **options)
    found = jb.guarded_shrinkage(KEY, logs, jb.Thompson(), family, num_paths=256, stop=rule, num_steps=12)
    assert np.all((found.lower < found.mean) & (found.mean < found.upper))


def test_derivative_is_of_the_estimate_with_its_part_held(logs):
    log = logs.trial(0)
    mean_of = lambda rewards: (
        jb.guarded_shrinkage(
            KEY, dataclasses.replace(log, rewards=rewards), jb.Greedy(), jb.Normal(), num_paths=256, interval="delta"
        ).mean
    )
    shrunken_of = lambda rewards: jb.shrinkage(dataclasses.replace(log, rewards=rewards), jb.Normal()).mean
    sample_of = lambda rewards: dataclasses.replace(log, rewards=rewards).statistics.mean
    found, shrunken, sample = (jax.jacrev(one)(log.rewards) for one in (mean_of, shrunken_of, sample_of))
    given = jb.guarded_shrinkage(KEY, log, jb.Greedy(), jb.Normal(), num_paths=256, interval="delta")
    part = np.asarray(given.diagnostics["part"])[:, None]
    np.testing.assert_allclose(found, (1 - part) * sample + part * shrunken, atol=1e-5)


def test_what_is_refused(logs, unchecked):
    with pytest.raises(jb.ArgumentError, match="num_paths is 10"):
        jb.guarded_shrinkage(KEY, logs, jb.Greedy(), jb.Normal(), num_paths=10)
    with pytest.raises(jb.ArgumentError, match="interval is 'wide'"):
        jb.guarded_shrinkage(KEY, logs, jb.Greedy(), jb.Normal(), interval="wide")


def test_no_more_error_where_an_arm_was_pulled_often_and_less_elsewhere():
    """A setting of its own: neither one that the limits were chosen on nor one of a table."""
    guarded = lambda *given: jb.guarded_shrinkage(*given, num_paths=128, interval="delta")
    shrunken = lambda *given: jb.shrinkage(given[1], given[3])
    methods = {"guarded": guarded, "shrinkage": shrunken}
    found = evaluate(jax.random.key(8), jb.LilUCB(), jb.Normal(), [0.9, 0.5, 0.2], 120, methods=methods, num_trials=600).methods
    ours, plain = found["guarded"], found["shrinkage"]
    assert ours.relative_rmse + 4 * ours.relative_rmse_stderr < 0.8
    assert ours.relative_rmse_by_pulls[-1] < 1.02
    assert plain.relative_rmse_by_pulls[-1] - 4 * plain.relative_rmse_by_pulls_stderr[-1] > 1.02  # what the guard is for
