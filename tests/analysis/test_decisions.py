"""Decisions of an analysis: against a control, the arms that may be the best, and what the policy earned."""

import jax
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import jaxbias as jb
from jaxbias.analysis.best_arm import find_best_arm
from jaxbias.analysis.decisions import Ahead, _ahead, _best_probability, _simulated_tests, decide
from jaxbias.reporting.answer import answer_sentence
from jaxbias.reporting.decisions import contrast_rows, decision_sentences
from jaxbias.reporting.documents import debias_document
from jaxbias.reporting.page import render_report
from jaxbias.reporting.sentences import best_sentence, few_sentence

POLICY, FAMILY = jb.LilUCB(tau=0.5), jb.Normal(sigma=1.0)
QUICK = ("sample_mean", "test_inversion")


def frame_of(mean, num_steps=60, labels="ABC"):
    history = jb.simulate(jax.random.key(3), POLICY, FAMILY, mean, num_steps=num_steps)
    return pd.DataFrame({"arm": [labels[arm] for arm in np.asarray(history.arms)], "reward": np.asarray(history.rewards)})


def analyse(frame, policy=POLICY, **options):
    return jb.debias(jax.random.key(1), frame, policy, FAMILY, methods=QUICK if policy else None, **options)


@pytest.fixture(scope="module")
def found():
    return analyse(frame_of([3.0, 1.0, 1.2]), control="B", evaluate=False)


def test_every_arm_against_the_control(found):
    document = debias_document(found)["contrasts"]
    assert [(row["arm"], row["control"]) for row in document] == [("A", "B"), ("C", "B")]
    assert set(document[0]) >= {"difference", "lower", "upper", "p_value", "p_adjusted", "lift"}
    direct = jb.contrasts(jax.random.key(9), found.log.history, POLICY, FAMILY, 1)
    np.testing.assert_allclose(document[0]["difference"], direct.difference[0], atol=0.1)
    assert document[0]["p_adjusted"] < 0.05 < document[1]["p_adjusted"]
    assert found.decisions.ahead.may_be_best == (0,)
    assert (found.best.arm, found.best.rivals, found.best.is_clear) == (0, (), True)


def test_its_words_and_pages(found):
    control, best, earned = decision_sentences(found)
    assert "'A' better; 'C' not shown to differ" in control
    assert "the best arm is 'A'" in best
    assert "more than with all arms alike" in earned
    assert [row["arm"] for row in contrast_rows(found)] == [0, 2]
    assert 'id="contrasts"' in render_report(found)


def test_a_control_that_may_be_0_has_no_lift_and_says_so(found):
    near = analyse(frame_of([3.0, -0.5, 1.2]), control="B", evaluate=False)
    assert "No lift is given, as the 95% interval of the control's mean includes 0." in decision_sentences(near)[0]
    assert np.isnan([row["lift"] for row in debias_document(near)["contrasts"]]).all()
    assert "No lift" not in decision_sentences(found)[0]
    assert np.isfinite([row["lift"] for row in debias_document(found)["contrasts"]]).all()


def test_an_arm_is_ruled_out_by_two_sided_tests_that_share_the_error():
    """Of three others: one far below, one whose interval excludes 0 but not with its share, one not shown to be below."""
    p_less, lower, upper = np.array([1e-4, 0.01, 0.2]), np.array([-3.0, -2.0, -1.0]), np.array([-1.0, -0.1, 0.5])
    ahead = _ahead(np.array([5, 9, 5, 5]), 1, [0, 2, 3], p_less, lower, upper, 0.95)
    assert (ahead.leader, ahead.may_be_best) == (1, (1, 2, 3))
    np.testing.assert_array_equal(ahead.lower, [1.0, np.nan, 0.1, -0.5])
    np.testing.assert_array_equal(ahead.upper, [3.0, np.nan, 2.0, 1.0])
    one_sided = _ahead(np.array([5, 9]), 1, [0], np.array([0.04]), np.array([-2.0]), np.array([0.1]), 0.95)
    assert one_sided.may_be_best == (0, 1)  # 4% on one side are 8% on both


def estimate_of(mean, lower, upper):
    parts = {name: np.array(values) for name, values in (("mean", mean), ("lower", lower), ("upper", upper))}
    return jb.Estimate(
        method="test_inversion", stderr=np.ones(len(mean)), status=np.zeros(len(mean), int), diagnostics={}, **parts
    )


def test_an_arm_with_a_wide_interval_may_be_the_best_although_it_is_third():
    found = find_best_arm(estimate_of([3.0, 1.0, 0.5], [2.5, 0.8, -4.0], [3.5, 1.2, 5.0]), 0.95)
    assert (found.arm, found.runner_up, found.rivals) == (0, 1, (2,))
    assert found.lower > 0
    assert not found.is_clear


def test_simulated_tests_decide_where_there_are_any():
    estimate = estimate_of([3.0, 1.0, 0.5], [2.5, 0.8, -4.0], [3.5, 1.2, 5.0])
    ahead = Ahead(0, np.array([np.nan, 1.5, 0.5]), np.array([np.nan, 2.5, 4.0]), may_be_best=(0,))
    found = find_best_arm(estimate, 0.95, ahead)
    assert (found.lower, found.upper, found.rivals) == (1.5, 2.5, ())
    other = find_best_arm(estimate, 0.95, ahead._replace(leader=1, may_be_best=(1,)))  # tests of another arm: both may be best
    assert other.rivals == (1, 2)
    assert other.lower != 1.5


def test_the_ecmo_trial_has_one_answer():
    """Exactly: if both arms were alike, the likelihood ratio is as large in 2.6% of trials at most (by enumeration)."""
    log, policy, family = jb.examples.load_example("ecmo").load()
    methods = (*QUICK, "confidence_sequence")
    found = jb.debias(jax.random.key(0), log, policy, family, methods=methods, evaluate=True)
    assert answer_sentence(found).startswith("Choose 'ECMO'")
    assert answer_sentence(found).endswith(", though 'conventional' has only 1 pull.")
    assert "enough to call it better (the 95% interval of the difference is above 0)" in best_sentence(found)
    assert "With 95% confidence the best arm is 'ECMO'." in decision_sentences(found)[0]
    assert "the answer relies on the policy" in few_sentence(found)
    assert found.decisions.value.over_uniform_lower > 0
    # Of two arms, what the policy earned over equal shares is a multiple of the difference.
    share = 11 / 12 - 1 / 2
    np.testing.assert_allclose(found.best.lower, found.decisions.value.over_uniform_lower / share, atol=0.02)


def test_why_no_test_was_simulated():
    methods = ("sample_mean", "mean_matching")
    without = jb.debias(
        jax.random.key(1), frame_of([3.0, 1.0, 1.2]), POLICY, FAMILY, methods=methods, control="B", evaluate=False
    )
    assert "as test_inversion was not run" in decision_sentences(without)[0]
    assert "could not be simulated" not in decision_sentences(without)[0]


def test_the_value_of_the_policy(found):
    value, history = found.decisions.value, found.log.history
    pulls, means = np.asarray(history.statistics.pulls), np.asarray(history.statistics.mean)
    np.testing.assert_allclose(value.earned, np.mean(history.rewards))
    assert value.over_uniform_lower < value.earned - means.mean() < value.over_uniform_upper
    assert 0 <= value.under_best_lower <= value.under_best <= value.under_best_upper
    assert value.under_best_upper > means.max() - pulls @ means / pulls.sum()


def test_the_regret_is_above_0_only_by_tests_that_share_the_error():
    """Arms fixed in advance: the best arm is the one of six that happens to look best, so that each test has a sixth of 2.5%."""
    pulls = np.array([40, 10, 12, 14, 16, 18])
    for best, positive in ((0.75, False), (1.2, True)):
        means = np.array([0.0, best, 0.0, 0.0, 0.0, 0.0])
        quantiles = [stats.norm.ppf((np.arange(number) + 0.5) / number) for number in pulls]
        arms, rewards = np.repeat(np.arange(6), pulls), np.repeat(means, pulls) + np.concatenate(quantiles)
        history = jb.History(arms=arms, rewards=rewards, num_arms=6, forced=np.ones(arms.size, bool))
        _, value = _simulated_tests(jax.random.key(0), history, jb.Greedy(), FAMILY, 0.95, 4096)
        assert value is not None
        share = pulls / pulls.sum()
        off = means - share @ means  # of each arm alone over the shares
        error = np.sqrt(np.sum(np.square(np.eye(6) - share) / pulls, axis=1))
        lower, upper = np.max(off - stats.norm.isf(0.025 / 6) * error), np.max(off + stats.norm.isf(0.025) * error)
        assert off[1] - stats.norm.isf(0.025) * error[1] > 0  # by a test of its own
        assert (lower > 0) == positive
        ends = [value.under_best_lower, value.under_best, value.under_best_upper]
        np.testing.assert_allclose(ends, [max(lower, 0), off[1], upper], atol=0.03)


def test_the_probability_to_be_best():
    """Of two arms with the same posterior half each; against 200,000 draws where they differ."""
    arms = np.array([0, 1] * 20)
    even = jb.History(arms=arms, rewards=np.ones(40), num_arms=2)
    np.testing.assert_allclose(_best_probability(even, jb.Bernoulli()), 0.5, atol=1e-5)
    history = jb.History(arms=np.arange(60) % 3, rewards=np.sin(np.arange(60)) + 0.3 * (np.arange(60) % 3), num_arms=3)
    posterior = jb.shrinkage(history, FAMILY)
    draws = np.random.default_rng(0).normal(posterior.mean, posterior.stderr, (200_000, 3)).argmax(axis=1)
    np.testing.assert_allclose(_best_probability(history, FAMILY), np.bincount(draws, minlength=3) / 200_000, atol=0.005)


def test_without_a_policy_they_are_confidence_sequences():
    found = analyse(frame_of([3.0, 1.0, 1.2]), policy=None, control="B")
    assert not found.decisions.simulated
    rows = debias_document(found)["contrasts"]
    assert np.isnan(rows[0]["p_value"])
    sequence = jb.confidence_sequence(found.log.history, FAMILY, control=1)
    np.testing.assert_allclose(rows[0]["lower"], sequence.lower[0], rtol=1e-5)
    assert "whatever chose the arms, as the policy is not known" in decision_sentences(found)[0]


def test_sequences_against_the_control_share_the_error():
    """Of six arms one is above the control by its own interval, and not by one with a fifth of the error."""
    means, level = np.array([0.0, 0.0, 1.05, 0.0, 3.0, -3.0]), 0.95
    history = jb.History(arms=np.tile(np.arange(6), 25), rewards=np.tile(means, 25), num_arms=6)
    found = decide(jax.random.key(0), history, None, FAMILY, 0, level, simulated=False, num_paths=100)
    together = jb.confidence_sequence(history, FAMILY, level=1 - 0.05 / 5, control=0)
    assert found.contrasts is not None
    assert found.contrasts.lower[2] > 0 > together.lower[2]
    np.testing.assert_allclose(found.contrasts.lower, jb.confidence_sequence(history, FAMILY, control=0).lower)
    assert found.differs is not None
    assert found.differs.tolist() == [False, False, False, False, True, True]


def test_of_an_arm_that_was_never_pulled_nothing_is_claimed():
    found = analyse(frame_of([3.0, 1.0, 1.2]), arms=["A", "Z", "B", "C"])
    document = debias_document(found)["decisions"]
    assert np.isnan(document["best_probability"]["Z"])
    np.testing.assert_allclose(np.nansum([*document["best_probability"].values()]), 1, atol=1e-4)
    sentence = decision_sentences(found)[0]
    assert sentence.startswith("The probability to be the best of the arms that were pulled, given the log: 'A' ")
    assert "With 95% confidence the best of the arms that were pulled is 'A'." in sentence
    assert "Z" not in sentence


@pytest.mark.parametrize(
    ("labels", "control", "words"),
    [("ABC", "D", "an arm of the log: A, B, C"), ("AAA", "A", "one arm")],
)
def test_a_control_that_is_none(labels, control, words):
    with pytest.raises(jb.ArgumentError, match=words):
        analyse(frame_of([1.0, 0.5, 0.0], labels=labels), control=control)


def test_a_control_that_was_never_pulled():
    with pytest.raises(jb.ArgumentError, match="never pulled"):
        analyse(frame_of([1.0, 0.5, 0.0]), control="Z", arms=["A", "B", "C", "Z"])


@pytest.mark.slow
@pytest.mark.parametrize("policy", [jb.Greedy(), jb.LilUCB(), jb.Thompson()], ids=lambda policy: type(policy).__name__)
def test_how_often_they_are_right(policy):
    """Of 150 logs: the set holds the best arm, and the intervals hold what the shares that were pulled earn."""
    mean, right = np.array([1.0, 0.75, 0.5]), []
    logs = jb.simulate(jax.random.key(8), policy, FAMILY, mean, num_steps=60, num_trials=150, progress=False)
    for log in range(150):
        history = jb.History(arms=logs.arms[log], rewards=logs.rewards[log], num_arms=3)
        ahead, value = _simulated_tests(jax.random.key(log), history, policy, FAMILY, 0.95, 2048)
        assert ahead is not None
        assert value is not None
        share = np.asarray(history.statistics.pulls) / 60
        more, less = share @ mean - mean.mean(), mean.max() - share @ mean
        inside = value.over_uniform_lower <= more <= value.over_uniform_upper
        right.append([0 in ahead.may_be_best, inside, value.under_best_lower <= less <= value.under_best_upper])
    shares = np.mean(right, axis=0)
    print(type(policy).__name__, shares)
    assert np.all(shares > 0.95 - 3 * np.sqrt(0.95 * 0.05 / 150))
