"""Rules that stop a trial, and the three sources of the bias of what is then reported."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb

KEY = jax.random.key(0)


def exact_sources(policy, mean, num_steps, rule):
    """By enumeration of every arm and every reward of 0 and 1 up to the last step: E[m(T)], E[m(S)], P(c), E[m_c(S) - mean_c],
    with c the arm of the largest sample mean, the first of several; and the expected length."""
    num_arms = len(mean)
    end, stopped, chosen, reported, length, mass = np.zeros(num_arms), np.zeros(num_arms), np.zeros(num_arms), 0.0, 0.0, 0.0
    log_probs, asked = {}, {}

    def at(table, function, pulls, total):
        if (pulls, total) not in table:
            table[pulls, total] = np.asarray(
                function(jb.policies.ArmStatistics(jnp.asarray(pulls, jnp.int32), jnp.asarray(total, float)))
            )
        return table[pulls, total]

    for rest in itertools.product(range(num_arms), repeat=num_steps - num_arms):
        arms = (*range(num_arms), *rest)
        for rewards in itertools.product((0.0, 1.0), repeat=num_steps):
            weight, pulls, total, final = 1.0, np.zeros(num_arms, int), np.zeros(num_arms), None
            for step, (arm, reward) in enumerate(zip(arms, rewards, strict=True)):
                if step >= num_arms:
                    weight *= np.exp(at(log_probs, policy.log_probs, tuple(pulls), tuple(total))[arm])
                weight *= mean[arm] if reward else 1 - mean[arm]
                pulls, total = pulls + np.eye(num_arms, dtype=int)[arm], total + reward * np.eye(num_arms)[arm]
                if final is None and step >= num_arms - 1 and at(asked, rule, tuple(pulls), tuple(total)):
                    final = total / pulls, step + 1
            means, steps = final or (total / pulls, num_steps)
            best = int(np.argmax(means))
            mass, length = mass + weight, length + weight * steps
            end, stopped = end + weight * total / pulls, stopped + weight * means
            chosen[best] += weight
            reported += weight * (means[best] - mean[best])
    assert mass == pytest.approx(1, abs=1e-5)
    return end, stopped, chosen, reported, length


@pytest.mark.parametrize(
    "rule", [jb.StopAtDifference(threshold=0.6, first=3), jb.StopAtMean(threshold=0.7, arm=1, first=3, every=2)]
)
def test_the_three_sources_against_enumeration(rule):
    policy, mean = jb.EpsilonGreedy(epsilon=0.4, ties="first"), np.array([0.6, 0.5])
    end, stopped, chosen, reported, length = exact_sources(policy, mean, 7, rule)
    found = jb.measure_bias(KEY, policy, jb.Bernoulli(), mean, num_steps=7, num_trials=100_000, stop=rule, choose="largest")
    sources = found.sources
    close = lambda value, stderr, exact: np.all(np.abs(np.asarray(value) - exact) < 4.5 * np.asarray(stderr))
    assert close(sources.sampling, sources.sampling_stderr, end - mean)
    assert close(sources.stopping, sources.stopping_stderr, stopped - end)
    assert close(found.bias, found.bias_stderr, stopped - mean)
    assert close(sources.chosen, np.sqrt(chosen * (1 - chosen) / 100_000), chosen)
    assert close(sources.reported, sources.reported_stderr, reported)
    assert close(sources.choosing, sources.choosing_stderr, reported - chosen @ (stopped - mean))
    assert close(sources.reported_sampling, sources.reported_sampling_stderr, chosen @ (end - mean))
    assert close(sources.reported_stopping, sources.reported_stopping_stderr, chosen @ (stopped - end))
    assert found.pulls.sum() == pytest.approx(length, abs=0.03)


@pytest.mark.slow
def test_the_sources_sum_to_the_bias():
    rule = jb.StopAtDifference(threshold=0.8, first=6)
    found = jb.measure_bias(KEY, jb.Greedy(), jb.Normal(), [1.0, 0.5, 0.5], 20, 5000, stop=rule, choose="largest")
    sources = found.sources
    np.testing.assert_allclose(sources.sampling + sources.stopping, found.bias, atol=1e-6)
    parts = sources.reported_sampling + sources.reported_stopping + sources.choosing
    assert parts == pytest.approx(sources.reported, abs=1e-6)
    # Their errors are those of repetition.
    again = [
        jb.measure_bias(jax.random.key(seed), jb.Greedy(), jb.Normal(), [1.0, 0.5, 0.5], 20, 1000, stop=rule, choose="largest")
        for seed in range(60)
    ]
    for name in ("choosing", "reported_stopping", "reported_sampling"):
        values = [getattr(one.sources, name) for one in again]
        stated = np.mean([getattr(one.sources, f"{name}_stderr") for one in again])
        assert np.std(values) == pytest.approx(stated, rel=0.35), name  # four standard errors of a deviation of 60


def test_what_stopping_changes_and_what_it_does_not():
    """The steps before the stop are those of the trial that goes on; those after it are empty, and counted nowhere."""
    rule = jb.StopAtDifference(threshold=1.0, first=6, every=5)
    options = dict(num_steps=30, num_trials=200)
    history = jb.simulate(KEY, jb.LilUCB(), jb.Normal(), [1.0, 0.0, 0.2], stop=rule, **options)
    whole = jb.simulate(KEY, jb.LilUCB(), jb.Normal(), [1.0, 0.0, 0.2], **options)
    lengths = np.asarray(history.lengths)
    assert set(lengths) <= {6, 11, 16, 21, 26, 30}
    assert len(set(lengths)) > 3
    taken = np.arange(30)[None] < lengths[:, None]
    np.testing.assert_array_equal(np.where(taken, history.rewards, 0), np.where(taken, whole.rewards, 0))
    np.testing.assert_array_equal(np.where(taken, 0, history.rewards), 0)
    np.testing.assert_array_equal(history.statistics.pulls.sum(axis=1), lengths)
    one = history.trial(3)
    assert one.lengths is None
    assert len(one.arms) == lengths[3]
    alone = jb.sample_mean(one, jb.Normal())
    np.testing.assert_allclose(alone.mean, np.asarray(history.statistics.mean)[3], rtol=1e-6)
    np.testing.assert_allclose(jb.sample_mean(history, jb.Normal()).mean, history.statistics.mean, rtol=1e-5, atol=1e-6)


def test_a_batch_is_not_stopped_inside():
    rule = jb.StopAtDifference(threshold=0.3)
    history = jb.simulate(KEY, jb.Uniform(), jb.Normal(), [0.0, 0.0], 30, 100, stop=rule, batch_size=[4, 6, 20])
    assert set(np.asarray(history.lengths)) == {4, 10, 30}


@pytest.mark.slow
def test_too_high_measured_matched_and_corrected():
    """A trial that stops when a mean is high reports it too high, though nothing was adaptive in its sampling."""
    rule, mean = jb.StopAtMean(threshold=0.9, arm=0, first=10), [0.5, 0.5]
    found = jb.measure_bias(KEY, jb.Uniform(), jb.Normal(), mean, num_steps=60, num_trials=20_000, stop=rule)
    assert found.bias[0] > 20 * found.bias_stderr[0] > 0
    assert abs(found.sources.sampling[0]) < 4 * found.sources.sampling_stderr[0]
    history = jb.simulate(jax.random.key(1), jb.Uniform(), jb.Normal(), mean, 60, 1000, stop=rule)
    matched = jb.mean_matching(jax.random.key(2), history, jb.Uniform(), jb.Normal(), stop=rule)
    off = np.asarray(matched.mean) - mean
    assert np.asarray(matched.converged).all()
    assert abs(off[:, 0].mean()) < 0.25 * found.bias[0] + 3 * off[:, 0].std() / np.sqrt(1000)
    covered = (np.asarray(matched.lower) <= 0.5) & (np.asarray(matched.upper) >= 0.5)
    assert (np.abs(covered.mean(axis=0) - 0.96) < 0.025).all()
    ignored = np.asarray(jb.mean_matching(jax.random.key(2), history.trial(8), jb.Uniform(), jb.Normal()).mean)
    one = jb.mean_matching(jax.random.key(2), history.trial(8), jb.Uniform(), jb.Normal(), stop=rule, num_steps=60)
    assert len(history.trial(8).arms) < 60
    assert one.mean[0] < ignored[0] - 0.05


@pytest.mark.slow
def test_a_stopped_log_from_file_to_answer(tmp_path):
    rule = jb.StopAtMean(threshold=0.9, arm=0, first=10)
    history = jb.simulate(jax.random.key(1), jb.Uniform(), jb.Normal(), [0.5, 0.5], 60, 20, stop=rule)
    jb.logs.write_log(history, tmp_path / "log.csv")
    which = int(np.argmin(history.lengths))
    log = jb.read_log(tmp_path / "log.csv", trial=which)
    assert len(log.history.arms) == int(history.lengths[which]) < 60
    found = jb.debias(KEY, log, jb.Greedy(tau=100.0), jb.Normal(sigma=1.0), stop=rule, num_steps=60)
    assert found.recommended.method == "mean_matching"
    assert found.bias.bias[0] > 3 * found.bias.stderr[0]
    assert set(found.comparison.estimates) == {"sample_mean", "mean_matching", "confidence_sequence"}
    assert "assumes a fixed number of steps" in str(found.comparison.reasons["conditional_mle"])


def test_a_rule_of_ones_own():
    rule = lambda statistics: jnp.sum(statistics.total) >= 2
    history = jb.simulate(KEY, jb.Uniform(), jb.Bernoulli(), [0.5, 0.5], 20, 50, stop=rule)
    successes = np.asarray(history.statistics.total).sum(axis=1)
    assert ((successes == 2) | (np.asarray(history.lengths) == 20)).all()


@pytest.mark.parametrize(
    ("options", "argument", "phrase"),
    [
        (dict(stop=jb.StopAtDifference(threshold=-1.0)), "stop.threshold", "is -1.0; it must be positive"),
        (
            dict(stop=jb.StopAtDifference(threshold=1.0, every=0)),
            "stop.every",
            "is 0; it must be a whole number from 1 to 2,147,483,647",
        ),
        (dict(stop=jb.StopAtMean(threshold=1.0, arm=2)), "stop.arm", "is 2; it must be from 0 to 1"),
        (dict(stop=3), "stop", "is 3; it must be a function from pulls and sums to whether to stop, or None"),
        (
            dict(stop=lambda statistics: statistics.total),
            "stop",
            "returns .*; it must be a function that returns one truth value",
        ),
        (dict(choose="best"), "choose", "is 'best'; it must be 'largest', or a function from pulls and sums to an arm"),
        (dict(choose=lambda statistics: statistics.mean), "choose", "returns .*; it must be a function that returns the number"),
    ],
)
def test_what_is_refused(unchecked, options, argument, phrase):
    with pytest.raises(jb.ArgumentError, match=phrase) as error:
        jb.measure_bias(KEY, jb.Greedy(), jb.Normal(), [1.0, 0.5], num_steps=8, num_trials=10, **options)
    assert error.value.argument == argument


def test_estimators_that_need_whole_trials(unchecked):
    history = jb.simulate(KEY, jb.Greedy(tau=1.0), jb.Normal(), [1.0, 0.5], 20, 5, stop=jb.StopAtDifference(threshold=0.5))
    for method in (jb.propensity_weighting, jb.adaptive_weighting):
        with pytest.raises(jb.ArgumentError, match="history has trials that a rule stopped early; it must be one of them"):
            method(history, jb.Greedy(tau=1.0))
    with pytest.raises(jb.ArgumentError, match="num_steps is 10; it must be 20, as in the log, or more") as error:
        jb.mean_matching(KEY, history, jb.Greedy(tau=1.0), jb.Normal(), num_steps=10)
    assert error.value.argument == "num_steps"


def test_the_words_follow_the_numbers():
    from jaxbias.reporting.bias import source_sentences

    policy, mean = jb.Greedy(), [0.5, 0.5]
    found = jb.measure_bias(KEY, policy, jb.Normal(), mean, num_steps=20, num_trials=5000, choose="largest")
    [sentence] = source_sentences(found.sources)
    assert f"is off by {found.sources.reported:.3f}"[:-1] in sentence
    assert "sampling -0." in sentence
    assert "stopping 0 (not clear of 0)" in sentence
    assert found.sources.choosing > 0


def test_rules_at_their_thresholds():
    """Stops at the threshold, not below it; not without a look, nor where an arm to be compared was never pulled."""
    state = lambda pulls, total: jb.policies.ArmStatistics(jnp.array(pulls, jnp.int32), jnp.array(total))
    cases = [
        (jb.StopAtMean(threshold=0.75, arm=1), state([1, 4], [9.0, 3.0]), True),
        (jb.StopAtMean(threshold=0.76, arm=1), state([1, 4], [9.0, 3.0]), False),
        (jb.StopAtMean(threshold=0.5, arm=1, control=0), state([4, 4], [1.0, 3.0]), True),
        (jb.StopAtMean(threshold=0.51, arm=1, control=0), state([4, 4], [1.0, 3.0]), False),
        (jb.StopAtMean(threshold=0.5, arm=0, control=1), state([4, 4], [1.0, 3.0]), False),
        (jb.StopAtDifference(threshold=0.5), state([4, 4, 2], [1.0, 3.0, 0.5]), True),
        (jb.StopAtDifference(threshold=0.51), state([4, 4, 2], [1.0, 3.0, 0.5]), False),
        (jb.StopAtDifference(threshold=0.5, first=9), state([4, 4], [1.0, 3.0]), False),
        (jb.StopAtDifference(threshold=0.5, first=3, every=5), state([4, 4], [1.0, 3.0]), True),
        (jb.StopAtDifference(threshold=0.5), state([4, 0], [3.0, 0.0]), False),
    ]
    for rule, statistics, stops in cases:
        assert bool(rule(statistics)) == stops, rule


def test_errors_of_the_sources_by_hand():
    """The delta method trial by trial, in NumPy, from logs with the same random numbers."""
    policy, mean, rule = jb.Greedy(), np.array([1.0, 0.5, 0.5]), jb.StopAtDifference(threshold=0.8, first=6)
    problem = (KEY, policy, jb.Normal(), mean, 20, 2000)
    sources = jb.measure_bias(*problem, stop=rule, choose="largest").sources
    stop, end = (np.asarray(jb.simulate(*problem, stop=one).statistics.mean, float) for one in (rule, None))
    chosen = np.eye(3)[stop.argmax(axis=1)]
    stop, end = stop - mean, end - mean
    reported, share = (stop * chosen).sum(axis=1), chosen.mean(axis=0)
    by_trial = {
        "reported_sampling": end @ share + chosen @ end.mean(axis=0),
        "reported_stopping": (stop - end) @ share + chosen @ (stop - end).mean(axis=0),
        "choosing": reported - stop @ share - chosen @ stop.mean(axis=0),
        "reported": reported,
    }
    for name, values in by_trial.items():
        stderr = values.std(ddof=1) / np.sqrt(2000)
        assert getattr(sources, f"{name}_stderr") == pytest.approx(stderr, rel=2e-3), name
    assert sources.choosing == pytest.approx(reported.mean() - share @ stop.mean(axis=0), abs=1e-5)
