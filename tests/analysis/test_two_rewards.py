"""Two rewards: the line of one on the other in closed form and by drawing it anew, and a whole analysis."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import jaxbias as jb
from jaxbias.analysis.two_rewards import estimate_second_reward, fit_line
from jaxbias.estimators.estimate import Status
from jaxbias.policy_fit.delays import DelayCheck
from jaxbias.reporting.documents import debias_document
from jaxbias.reporting.late_and_second import delay_sentence
from jaxbias.reporting.sentences import sentences

KEY = jax.random.key(2)


def test_clicks_and_revenue_in_closed_form():
    """Of 0 and 1 the line is the two averages, and its variance is theirs."""
    rng = np.random.default_rng(0)
    clicks = np.array([1.0] * 7 + [0.0] * 13)
    revenue = np.where(clicks == 1, rng.gamma(2.0, 5.0, 20), rng.normal(0.5, 0.2, 20))
    line = fit_line(clicks, revenue, 0.4)
    with_click, without = revenue[:7], revenue[7:]
    np.testing.assert_allclose(line.value, 0.4 * with_click.mean() + 0.6 * without.mean())
    np.testing.assert_allclose(line.slope, with_click.mean() - without.mean())
    np.testing.assert_allclose(line.variance, 0.4**2 * with_click.var(ddof=1) / 7 + 0.6**2 * without.var(ddof=1) / 13)
    parts = 0.4**2 * with_click.var(ddof=1) / 7, 0.6**2 * without.var(ddof=1) / 13
    assert line.freedom == int(sum(parts) ** 2 / (parts[0] ** 2 / 6 + parts[1] ** 2 / 12))
    assert np.isnan(fit_line(clicks[6:], revenue[6:], 0.4).variance)  # one click


def test_the_line_is_right_on_average_given_all_it_was_selected_on():
    rng = np.random.default_rng(1)
    first = rng.normal(1.0, 1.0, 12)
    drawn = [fit_line(first, 3.0 - 2.0 * first + rng.normal(0.0, 0.7, 12), 1.4) for _ in range(4000)]
    values, variances = np.array([line.value for line in drawn]), np.array([line.variance for line in drawn])
    assert abs(values.mean() - (3.0 - 2.0 * 1.4)) < 4 * values.std() / len(values) ** 0.5
    assert abs(variances.mean() / values.var() - 1) < 4 * (2 / len(values)) ** 0.5 + 0.02
    freedom = 2 * variances.mean() ** 2 / variances.var()  # of the chi-squared with its mean and variance
    assert abs(drawn[0].freedom / freedom - 1) < 0.15


def estimated(mean, lower, upper, status=(0, 0)):
    parts = {"mean": mean, "stderr": [0.1, 0.1], "lower": lower, "upper": upper}
    parts = {name: jnp.asarray(value, jnp.float32) for name, value in parts.items()}
    return jb.Estimate(method="mean_matching", **parts, status=jnp.asarray(status), diagnostics={})


def test_intervals_change_sides_with_the_slope():
    clicks = np.array([0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0])
    history = jb.History(
        arms=np.array([0, 0, 0, 0, 1, 1, 1, 1]),
        rewards=np.where(np.arange(8) < 4, 2 * clicks, 5 - clicks),
        policy_rewards=clicks,
        num_arms=2,
    )
    found = estimate_second_reward(estimated([0.6, 0.5], [0.5, 0.2], [0.9, 0.6]), history)
    np.testing.assert_allclose(found.mean, [1.2, 4.5], rtol=1e-6)
    np.testing.assert_allclose(found.lower, [1.0, 4.4], rtol=1e-6)
    np.testing.assert_allclose(found.upper, [1.8, 4.8], rtol=1e-6)
    np.testing.assert_allclose(found.stderr, [0.2, 0.1], rtol=1e-5)


def test_an_arm_without_a_line_says_why():
    history = jb.History(
        arms=np.array([0, 0, 0, 1, 1]), rewards=np.arange(5.0), policy_rewards=np.array([0.0, 0.0, 0.0, 1.0, 0.0]), num_arms=2
    )
    found = estimate_second_reward(estimated([0.1, 0.5], [0.0, 0.2], [0.5, 0.8], (Status.AT_EDGE, 0)), history)
    assert found.status.tolist() == [Status.NO_SPREAD, Status.TOO_FEW_PULLS]
    assert np.isnan(found.mean).all()


@pytest.fixture(scope="module")
def log():
    clicks = jb.simulate(jax.random.key(0), jb.Greedy(tau=1.0), jb.Bernoulli(), [0.6, 0.4], num_steps=60)
    arms, clicked = np.asarray(clicks.arms), np.asarray(clicks.rewards)
    revenue = clicked * np.random.default_rng(3).gamma(2.0, 4.0 + arms)
    return pd.DataFrame({"arm": arms, "clicked": clicked, "revenue": revenue})


def test_an_analysis_of_the_second_reward(log):
    names = {"reward": "revenue", "policy_reward": "clicked"}
    options = {"methods": ["sample_mean", "adaptive_weighting", "mean_matching"], "evaluate": False}
    found = jb.debias(KEY, log, jb.Greedy(tau=1.0), columns=names, **options)
    clicks = jb.debias(KEY, log, jb.Greedy(tau=1.0), columns={"reward": "clicked"}, **options)
    assert (found.fit.log_prob, found.recommended.method) == (clicks.fit.log_prob, clicks.recommended.method)
    both = dataclasses.replace(found.log.history)
    expected = estimate_second_reward(clicks.comparison.estimates["mean_matching"], both)
    np.testing.assert_allclose(found.comparison.estimates["mean_matching"].mean, expected.mean, rtol=1e-6)
    averages = log.groupby("arm")["revenue"].mean()
    np.testing.assert_allclose(found.comparison.estimates["sample_mean"].mean, averages, rtol=1e-6)
    weighted = jb.adaptive_weighting(both, jb.Greedy(tau=1.0)).mean
    np.testing.assert_allclose(found.comparison.estimates["adaptive_weighting"].mean, weighted, rtol=1e-5)
    assert any("The policy learned from column 'clicked'" in sentence for sentence in sentences(found))
    document = debias_document(found)
    assert (document["policy_reward"]["column"], document["delays"]) == ("clicked", None)
    late = dataclasses.replace(found, delays=DelayCheck(median=3.0, largest=9, never=2, by_arm=1e-6, by_reward=0.4))
    assert "In this log it does depend on the arm" in delay_sentence(late)
    assert "nothing in this log speaks against that" in delay_sentence(
        dataclasses.replace(late, delays=late.delays._replace(by_arm=0.2))
    )


def test_methods_that_take_the_rewards_for_what_the_policy_saw_refuse(log):
    history = jb.read_log(log, columns={"reward": "revenue", "policy_reward": "clicked"}).history
    policy, family = jb.Greedy(tau=1.0), jb.Normal()
    for refused in (
        lambda: jb.mean_matching(KEY, history, policy, family),
        lambda: jb.conditional_mle(KEY, history, policy, family),
        lambda: jb.test_inversion(KEY, history, policy, family),
        lambda: jb.bias_corrected(KEY, history, policy, family),
        lambda: jb.unbiased(KEY, history, policy),
        lambda: jb.shrinkage(history, family),
        lambda: jb.log_density(history, policy, family, np.zeros(2)),
    ):
        with pytest.raises(jb.ArgumentError, match=r"history\.policy_rewards is given; it must be None for this method"):
            refused()
    with pytest.raises(jb.ArgumentError, match="from 0 to 1 for BetaThompson"):
        jb.check_fit(KEY, dataclasses.replace(history, policy_rewards=history.rewards), jb.BetaThompson())


@pytest.mark.slow
def test_coverage_of_the_second_reward():
    """Clicks to revenue: the sample means are too low, the corrected ones are right, and their intervals cover."""
    policy, family, mean, number = jb.BetaThompson(), jb.Bernoulli(), [0.5, 0.3], 300
    clicks = jb.simulate(jax.random.key(0), policy, family, mean, 60, number)
    first = jb.test_inversion(jax.random.key(1), clicks, policy, family, num_paths=512)
    arms, clicked = np.asarray(clicks.arms), np.asarray(clicks.rewards)
    revenue = clicked * np.random.default_rng(0).gamma(2.0, 5.0 + arms)
    truth = np.array([10.0, 12.0]) * mean
    of = lambda tree, place: jax.tree.map(lambda leaf: leaf[place], tree)
    both = dataclasses.replace(clicks, rewards=jnp.asarray(revenue, jnp.float32), policy_rewards=clicks.rewards)
    plain = dataclasses.replace(first, diagnostics={})
    found = [estimate_second_reward(of(plain, place), of(both, place)) for place in range(number)]
    means, lower, upper = (np.array([getattr(one, name) for one in found], float) for name in ("mean", "lower", "upper"))
    known = np.isfinite(lower)
    covers = np.where(known, (lower <= truth) & (truth <= upper), np.nan)
    coverage = np.nanmean(covers, axis=0)
    assert (coverage > 0.95 - 4 * (0.05 * 0.95 / number) ** 0.5).all()
    naive = np.asarray(jb.sample_mean(both).mean) - truth
    left = np.where(known, means - truth, np.nan)
    assert (np.abs(np.nanmean(left, axis=0)) < np.abs(naive.mean(axis=0)) + 2 * np.nanstd(left, axis=0) / number**0.5).all()
