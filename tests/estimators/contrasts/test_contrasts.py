"""Comparisons of arms: against the textbook where nothing was adaptive, and their error rates where it was."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jaxbias as jb
from jaxbias.estimators.contrasts.adjusting import _share_below, holm
from jaxbias.estimators.contrasts.best import _severity, _status, may_be_best
from jaxbias.estimators.inversion.question import ask, invert, weigh

KEY = jax.random.key(3)
PULLS = np.array([12, 16, 20, 24])
ARMS = jnp.asarray(np.repeat(np.arange(4), PULLS))
MEANS = np.array([2.0, 2.5, 1.8, 2.1])
FAMILY = jb.Normal(sigma=1.0)
CLOSE = 0.06  # standard errors: four Monte Carlo errors of an end


def fixed_log(means=MEANS):
    """A log whose arms were all fixed in advance, with exactly these sample means."""
    rewards = np.repeat(means, PULLS) + np.concatenate([stats.norm.ppf((np.arange(n) + 0.5) / n) for n in PULLS])
    return jb.History(arms=ARMS, rewards=jnp.asarray(rewards), num_arms=4, forced=jnp.ones(ARMS.shape, bool))


def compare(control: Any = 0, means=MEANS, **options):
    options = dict(num_paths=4096) | options
    return jb.contrasts(KEY, fixed_log(means), jb.Greedy(), FAMILY, control, **options)


@pytest.fixture(scope="module")
def found():
    return compare()


ERRORS = np.sqrt(1 / PULLS[1:] + 1 / PULLS[0])
Z = (MEANS[1:] - MEANS[0]) / ERRORS


def test_differences_are_the_z_test(found):
    assert np.isnan(found.difference[0])
    assert np.all(found.converged)
    np.testing.assert_allclose((found.difference[1:] - (MEANS[1:] - MEANS[0])) / ERRORS, 0, atol=CLOSE)
    np.testing.assert_allclose((found.lower[1:] - (MEANS[1:] - MEANS[0])) / ERRORS, -1.96, atol=CLOSE)
    np.testing.assert_allclose((found.upper[1:] - (MEANS[1:] - MEANS[0])) / ERRORS, 1.96, atol=CLOSE)
    np.testing.assert_allclose(found.p_greater[1:], stats.norm.sf(Z), rtol=0.1, atol=0.01)
    np.testing.assert_allclose(found.p_value[1:], 2 * stats.norm.sf(np.abs(Z)), rtol=0.1)


def test_the_largest_statistic_is_dunnetts(found):
    """One minus the probability that three correlated Normal variables are all nearer to 0."""
    variance = np.diag(1 / PULLS[1:]) + 1 / PULLS[0]
    correlation = variance / np.outer(ERRORS, ERRORS)
    together = stats.multivariate_normal(np.zeros(3), correlation)
    exact = [1 - together.cdf(np.full(3, z), lower_limit=np.full(3, -z)) for z in np.abs(Z)]
    np.testing.assert_allclose(found.p_adjusted[1:], exact, rtol=0.12)


def test_lift_is_fiellers(found):
    """The ratios r at which (mean - r control)^2 = 1.96^2 (1/n + r^2/n0)."""
    for arm in range(1, 4):
        control, square = MEANS[0], 1.959964**2
        quadratic = [control**2 - square / PULLS[0], -2 * MEANS[arm] * control, MEANS[arm] ** 2 - square / PULLS[arm]]
        lower, upper = np.sort(np.roots(quadratic))
        unit = np.sqrt(1 / PULLS[arm] + 1 / PULLS[0]) / control
        found_ends = np.array([found.lift[arm], found.lift_lower[arm], found.lift_upper[arm]]) + 1
        np.testing.assert_allclose((found_ends - [MEANS[arm] / control, lower, upper]) / unit, 0, atol=2 * CLOSE)


def test_a_control_that_may_be_0_has_no_ratio():
    near = compare(means=np.array([0.3, 2.5, 1.8, 2.1]))
    assert np.all(np.isnan(near.lift))
    assert np.all(np.isfinite(near.difference[1:]))


def test_the_lift_of_a_rate_is_not_below_minus_one():
    """No success in 5 pulls, one in 7: there the lower end was looked for among ratios below 0, down to -6."""
    arms = np.repeat([0, 1, 2], [48, 7, 5])
    rewards = np.concatenate([np.arange(48) < 21, np.arange(7) < 1, np.zeros(5)]).astype(float)
    log = jb.History(arms=arms, rewards=rewards, num_arms=3, forced=np.ones(60, bool))
    found = jb.contrasts(KEY, log, jb.Greedy(), jb.Bernoulli(), control=0, num_paths=512, adjust="none")
    assert np.all(np.asarray(found.lift_lower[1:]) >= -1)
    assert np.all(np.asarray(found.lift[1:]) >= -1)
    assert -0.999 < found.lift_lower[1] < found.lift[1] < found.lift_upper[1]


def test_one_sided():
    greater = compare(alternative="greater", adjust="none")
    np.testing.assert_allclose((greater.lower[1:] - (MEANS[1:] - MEANS[0])) / ERRORS, -1.645, atol=CLOSE)
    assert np.all(np.isposinf(greater.upper[1:]))
    np.testing.assert_array_equal(greater.p_value, greater.p_greater)
    np.testing.assert_allclose(greater.stderr[1:], ERRORS, rtol=CLOSE)  # whatever quantile the end is at
    less = compare(alternative="less", adjust="holm")
    assert np.all(np.isneginf(less.lower[1:]))
    np.testing.assert_allclose(less.p_adjusted, holm(less.p_less[None])[0])


def test_every_pair_and_the_best():
    pairs, best = compare("pairs", adjust="holm"), compare("best")
    assert [*zip(pairs.arm.tolist(), pairs.control.tolist(), strict=True)] == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    square = np.full((4, 4), np.inf)
    square[pairs.arm, pairs.control], square[pairs.control, pairs.arm] = pairs.difference, -pairs.difference
    np.testing.assert_allclose(best.difference, square.min(axis=1), atol=1e-6)
    lower = np.full((4, 4), np.inf)
    lower[pairs.arm, pairs.control], lower[pairs.control, pairs.arm] = pairs.lower, -pairs.upper
    np.testing.assert_allclose(best.lower, lower.min(axis=1), atol=1e-6)
    # The upper end with a third of the error: the smallest of z-intervals to the other three.
    share = stats.norm.isf(0.025 / 3)
    others = [[MEANS[k] - MEANS[j] + share * np.sqrt(1 / PULLS[k] + 1 / PULLS[j]) for j in range(4) if j != k] for k in range(4)]
    np.testing.assert_allclose(best.upper, np.min(others, axis=1), atol=0.03)
    z = (MEANS[2] - MEANS[1]) / np.sqrt(1 / PULLS[2] + 1 / PULLS[1])
    np.testing.assert_allclose(best.p_less[2], 3 * stats.norm.cdf(z), rtol=0.15)
    assert may_be_best(best).tolist() == [True, True, True, True]
    assert may_be_best(compare("best", means=np.array([0.0, 2.5, 0.1, 2.4]))).tolist() == [False, True, False, True]
    assert set(best.control.tolist()) == {-1}


def test_holm_is_its_definition():
    p = np.array([[0.04, 0.01, np.nan, 0.03, 0.6]])
    np.testing.assert_allclose(holm(jnp.asarray(p))[0], [0.09, 0.04, np.nan, 0.09, 0.6], rtol=1e-6)


def test_many_logs_and_the_table():
    history = jb.simulate(KEY, jb.LilUCB(), FAMILY, [1.0, 0.75, 0.5], num_steps=30, num_trials=3)
    many = jb.contrasts(KEY, history, jb.LilUCB(), FAMILY, control=2, num_paths=256)
    assert many.difference.shape == (3, 3)
    assert np.isnan(many.difference[:, 2]).all()
    frame = many.to_frame()
    assert len(frame) == 6
    assert frame["arm"].tolist() == [0, 1, 0, 1, 0, 1]
    assert "averages over 3 logs" in str(many)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(control=4), "from 0 to 3"),
        (dict(control=-1), "from 0 to 3"),
        (dict(control="A"), "'pairs' or 'best'"),
        (dict(control=1.0), "from 0 to 3"),
        (dict(adjust="bonferroni"), "'max-t' or 'holm'"),
        (dict(control="best", adjust="max-t"), "'holm' or 'none'"),
        (dict(alternative="above"), "'greater'"),
        (dict(num_paths=10), "100 or more"),
    ],
)
def test_refused(options, words):
    with pytest.raises(jb.ArgumentError, match=words):
        compare(**options)


def test_one_arm_is_refused():
    history = jb.History(arms=jnp.zeros(4, int), rewards=jnp.ones(4), num_arms=1)
    with pytest.raises(jb.ArgumentError, match="two arms"):
        jb.contrasts(KEY, history, jb.Greedy(), FAMILY)


def test_an_arm_never_pulled_is_not_a_number():
    history = jb.History(arms=jnp.array([0, 1, 0, 1]), rewards=jnp.ones(4), num_arms=3, forced=jnp.ones(4, bool))
    found = jb.contrasts(KEY, history, jb.Greedy(), FAMILY, num_paths=256)
    assert found.status.tolist() == [0, 0, jb.Status.NEVER_PULLED]
    assert np.isnan(found.p_value[2])
    assert np.isfinite(found.p_adjusted[1])
    against = jb.contrasts(KEY, history, jb.Greedy(), FAMILY, control=2, num_paths=256)
    assert against.status.tolist() == [jb.Status.NEVER_PULLED, jb.Status.NEVER_PULLED, 0]
    assert np.isnan(against.p_value).all()


def test_of_the_arms_that_were_pulled_one_may_be_the_best():
    """An arm without a pull says nothing about the others, which were all excluded with it."""
    arms, rewards = jnp.array([0, 1, 2] * 8), jnp.array([0.0, 3.0, 2.8] * 8)
    history = jb.History(arms=arms, rewards=rewards, num_arms=4, forced=jnp.ones(24, bool))
    found = jb.contrasts(KEY, history, jb.Greedy(), FAMILY, "best", num_paths=512)
    assert may_be_best(found).tolist() == [False, True, True, False]
    assert found.status.tolist() == [0, 0, 0, jb.Status.NEVER_PULLED]
    np.testing.assert_allclose(found.difference[:3], [-3.0, 0.2, -0.2], atol=0.1)
    assert np.isnan([found.difference[3], found.lower[3], found.p_value[3]]).all()
    for alternative in ("greater", "less"):
        one_sided = jb.contrasts(KEY, history, jb.Greedy(), FAMILY, "best", num_paths=512, alternative=alternative)
        assert np.isnan([one_sided.lower[3], one_sided.upper[3]]).all()
        assert np.isfinite(one_sided.stderr[:3]).all()
    nothing = jb.History(arms=jnp.zeros(3, int), rewards=jnp.ones(3), num_arms=2, forced=jnp.ones(3, bool))
    alone = jb.contrasts(KEY, nothing, jb.Greedy(), FAMILY, "best", num_paths=512)
    assert np.isnan(alone.difference).all()
    assert alone.status.tolist() == [jb.Status.NEVER_PULLED] * 2


def test_figures_at_an_end_of_the_range_are_better_than_unreliable_ones():
    """Although the status has a larger number: of an arm's comparisons the worst one counts."""
    every = jnp.array([int(one) for one in jb.Status])
    worst = jnp.maximum(_severity(jnp.int32(jb.Status.AT_EDGE)), _severity(every))
    np.testing.assert_array_equal(_status(worst.astype(float)), jnp.where(every == 0, int(jb.Status.AT_EDGE), every))


def test_p_values_alone_are_those_with_intervals():
    """What benchmarks/contrasts.py measures is what `contrasts` gives."""
    history = jb.simulate(KEY, jb.LilUCB(), FAMILY, [1.0, 0.75, 0.5], num_steps=30, num_trials=3)
    given = (history, jb.LilUCB(), FAMILY)
    whole = jb.contrasts(KEY, *given, num_paths=256, max_rounds=1, adjust="none")
    question = ask(*given, 256, None, None)
    alone = invert(KEY, question, weigh([[-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]], history), None, 0.0, max_rounds=1)
    np.testing.assert_allclose(alone.null_tails[..., 0], whole.p_less[:, 1:], rtol=1e-4)
    assert np.isnan(alone.lower).all()


@pytest.mark.slow
@pytest.mark.parametrize("policy", [jb.Greedy(), jb.LilUCB(), jb.Thompson()], ids=lambda policy: type(policy).__name__)
def test_error_rates_of_four_equal_arms(policy):
    history = jb.simulate(jax.random.key(5), policy, FAMILY, [0.5] * 4, num_steps=80, num_trials=600)
    found = jb.contrasts(KEY, history, policy, FAMILY, num_paths=512)
    any_of = lambda p: np.mean(np.any(np.asarray(p)[:, 1:] < 0.05, axis=1))
    assert any_of(found.p_adjusted) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 600)
    assert any_of(holm(found.p_value)) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 600)
    assert any_of(found.p_adjusted) > 0.015  # and not by never rejecting
    best = jb.contrasts(KEY, history, policy, FAMILY, "best", num_paths=512)
    assert np.mean(may_be_best(best)) > 0.95


def test_an_adjusted_p_value_is_at_least_its_own():
    """On paths whose smallest p-values are all large, the share below would be less."""
    smallest = jnp.linspace(0.5, 1.0, 200)
    found = _share_below(smallest, jnp.array([0.04, 0.4, 0.75, jnp.nan]))
    np.testing.assert_allclose(found[:3], [0.04, 0.4, 0.75], rtol=1e-6)
    assert jnp.isnan(found[3])
