"""Checks of logged weights: against Pearson's chi-square, by hand, and how often they accuse weights that are right."""

import jax
import numpy as np
import pytest
from scipy import stats

import jaxbias as jb
from jaxbias.likelihood import replayed_log_probs
from jaxbias.policy_fit import check_propensities, check_weights, policy_weights
from jaxbias.policy_fit.check import UNLIKELY
from jaxbias.policy_fit.sample_ratio import sample_ratio


def history_of(arms, num_arms, forced=None, **options):
    arms = np.asarray(arms, np.int32)
    forced = np.zeros(len(arms), bool) if forced is None else forced
    return jb.History(arms=arms, rewards=np.zeros(len(arms)), num_arms=num_arms, forced=forced, **options)


def test_constant_weights_give_pearsons_chi_square():
    generator, share = np.random.default_rng(0), np.array([0.5, 0.3, 0.2])
    arms = generator.choice(3, size=500, p=[0.45, 0.3, 0.25])
    found = sample_ratio(np.tile(share, (500, 1)), arms)
    expected = stats.chisquare(np.bincount(arms), 500 * share)
    assert (found.statistic, found.p_value) == pytest.approx((expected.statistic, expected.pvalue), rel=1e-9)
    assert (found.freedom, found.choices) == (2, 500)
    assert [one.expected for one in found.arms] == pytest.approx(500 * share)
    assert [one.stderr for one in found.arms] == pytest.approx(np.sqrt(500 * share * (1 - share)))


def test_weights_that_change_have_the_covariance_of_the_martingale():
    generator = np.random.default_rng(1)
    weights = generator.dirichlet([2, 2, 2], size=300)
    arms = np.array([generator.choice(3, p=row) for row in weights])
    residual = np.bincount(arms, minlength=3) - weights.sum(axis=0)
    covariance = np.sum([np.diag(row) - np.outer(row, row) for row in weights], axis=0)
    found = sample_ratio(weights, arms)
    assert found.statistic == pytest.approx(residual[:2] @ np.linalg.solve(covariance[:2, :2], residual[:2]), rel=1e-9)
    errors = residual / np.sqrt(np.diag(covariance))
    assert [one.errors for one in found.arms] == pytest.approx(errors)
    assert found.worst == np.argmax(np.abs(errors))


def test_forced_pulls_are_not_counted_and_batches_have_one_row():
    arms, sizes = [0, 1, 0, 0, 1, 0, 1, 1], (2, 4, 2)
    weights = np.array([[np.nan, np.nan], [0.6, 0.4], [0.3, 0.7]])
    forced = np.array([True, True, *[False] * 6])
    by_batch = check_weights(history_of(arms, 2, forced, batch_sizes=sizes), weights)
    by_step = check_weights(history_of(arms, 2, forced), np.repeat(weights, sizes, axis=0))
    assert by_batch == by_step
    first = by_batch.ratio.arms[0]
    assert (first.pulls, first.expected, first.stderr) == (3, pytest.approx(3.0), pytest.approx(np.sqrt(4 * 0.24 + 2 * 0.21)))


def test_arms_with_few_expected_pulls():
    """One pull of an arm that expects 0.01 is odd, and five are not chance; the arms that are left are tested as before."""
    weights = np.tile([0.499_95, 0.499_95, 0.000_1], (100, 1))
    half = np.array([0, 1] * 50)
    assert sample_ratio(weights, half).agrees
    assert sample_ratio(weights, np.where(np.arange(100) < 5, 2, half)).p_value < UNLIKELY
    two = np.tile([0.999, 0.001], (100, 1))  # no arm with a variance of 5
    assert sample_ratio(two, np.zeros(100, int)).p_value == 1
    assert sample_ratio(two, np.where(np.arange(100) < 5, 1, 0)).p_value < UNLIKELY
    certain = sample_ratio(np.tile([1.0, 0.0], (50, 1)), np.zeros(50, int))
    assert (certain.p_value, certain.freedom, certain.worst) == (1.0, 0, None)


def test_many_arms_are_pooled():
    generator, num_arms = np.random.default_rng(2), 300
    weights = np.full((9000, num_arms), 1 / num_arms)
    arms = generator.integers(num_arms, size=9000)
    found = sample_ratio(weights, arms)
    assert found.agrees
    assert found.freedom == 200  # the tested ones and the others together, less one
    assert not sample_ratio(weights, np.where(np.arange(9000) < 300, 7, arms)).agrees


def test_against_a_policy():
    policy = jb.EpsilonGreedy(epsilon=0.3)
    history = jb.simulate(jax.random.key(0), policy, jb.Normal(), [1.0, 0.5, 0.0], num_steps=30)
    exact = policy_weights(history, policy)
    assert np.isnan(exact[:3]).all()
    np.testing.assert_allclose(exact[3:], np.exp(replayed_log_probs(policy, history))[3:], rtol=1e-6)
    same = check_weights(history, exact, policy).policy
    assert (same.agrees, same.wrong, same.rows, same.worst) == (True, 0, 27, ())
    assert (same.largest, same.typical) == pytest.approx((0, 0), abs=1e-6)
    assert same.log_prob == pytest.approx(same.policy_log_prob)
    wrong = exact.copy()
    wrong[10], wrong[20] = wrong[10] + np.array([0.05, -0.05, 0]), [0.2, 0.2, 0.6]
    found = check_weights(history, wrong, policy).policy
    off = np.abs(wrong - exact)[3:]
    assert (found.agrees, found.wrong) == (False, 2)
    assert (found.largest, found.typical) == pytest.approx((off.max(), np.sqrt(np.mean(off**2))), rel=1e-5)
    assert {one.row for one in found.worst} == {10, 20}
    first = found.worst[0]
    assert abs(first.logged - first.exact) == pytest.approx(found.largest)
    assert (first.logged, first.exact) == pytest.approx((wrong[first.row, first.arm], exact[first.row, first.arm]))
    assert check_weights(history, wrong, policy, tolerance=1.0).policy.agrees
    chosen = exact[np.arange(30), np.asarray(history.arms)]
    assert check_propensities(history, chosen, policy).agrees
    assert check_propensities(history, np.where(np.arange(30) == 5, chosen + 0.02, chosen), policy).wrong == 1


def test_the_choices_say_which_is_right():
    right, wrong = jb.EpsilonGreedy(epsilon=0.1), jb.EpsilonGreedy(epsilon=0.9)
    history = jb.simulate(jax.random.key(0), right, jb.Normal(), [1.0, 0.5, 0.0], num_steps=30)
    found = check_weights(history, policy_weights(history, right), wrong).policy
    assert found.log_prob > found.policy_log_prob
    assert not found.agrees


def test_weights_of_another_shape_are_refused():
    history = history_of([0, 1, 0, 1], 2, batch_sizes=(2, 2))
    with pytest.raises(jb.ArgumentError, match=r"weights has shape \(3, 2\); it must be of shape \(4, 2\) or \(2, 2\)"):
        check_weights(history, np.full((3, 2), 0.5))


SETTINGS = {
    "thompson": (jb.Thompson(), jb.Normal(), [1.0, 0.75, 0.5], 200, None),
    "epsilon-greedy": (jb.EpsilonGreedy(epsilon=0.1), jb.Bernoulli(), [0.5, 0.4, 0.3], 200, None),
    "beta-thompson in batches": (jb.BetaThompson(), jb.Bernoulli(), [0.3, 0.25, 0.2], 400, 40),
}


@pytest.mark.slow
def test_the_level_is_exact_where_weights_do_not_follow_the_pulls():
    generator, p_values = np.random.default_rng(3), []
    for _ in range(1000):
        weights = generator.dirichlet([1, 1, 1], size=150)
        arms = np.argmax(generator.random((150, 1)) < np.cumsum(weights, axis=1), axis=1)
        p_values.append(sample_ratio(weights, arms).p_value)
    assert abs(np.mean(np.array(p_values) < 0.05) - 0.05) < 3 * np.sqrt(0.05 * 0.95 / 1000)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_false_alarms_and_power(name):
    """1,000 logs: the check accuses right weights no more often than its level says, and wrong ones most of the time."""
    policy, family, mean, steps, size = SETTINGS[name]
    options = {} if size is None else {"batch_size": size}
    logs = jb.simulate(jax.random.key(7), policy, family, mean, num_steps=steps, num_trials=1000, **options)
    chances = np.exp(np.asarray(replayed_log_probs(jb.policies.complete_policy(policy), logs), np.float64))
    free, arms = ~np.asarray(logs.forced_steps), np.asarray(logs.arms)
    mixed = 0.7 * chances + 0.3 / 3  # weights with a floor that was not there
    right, wrong = (
        np.array([sample_ratio(part[trial][free[trial]], arms[trial][free[trial]]).p_value for trial in range(1000)])
        for part in (chances, mixed)
    )
    for level in (0.05, 0.01):
        rate, error = np.mean(right < level), np.sqrt(level * (1 - level) / 1000)
        print(f"{name}: rejected at {level}: {rate:.4f} +- {error:.4f}; wrong weights {np.mean(wrong < level):.3f}")
        assert rate < level + 3 * error
    assert np.mean(right < UNLIKELY) < UNLIKELY + 3 * np.sqrt(UNLIKELY / 1000)
    assert np.mean(right < 0.05) > 0.01  # it is not a check that never says anything
    assert np.mean(wrong < UNLIKELY) > 0.5
