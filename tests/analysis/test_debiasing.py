"""From a log to a corrected estimate: against the calls it stands for, and on logs that are not what they are said to be."""

import dataclasses
import importlib
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import jaxbias as jb
from jaxbias.analysis import limits
from jaxbias.analysis.best_arm import find_best_arm
from jaxbias.analysis.findings import Assumed, Assumption, Distrust, Reason
from jaxbias.estimators.estimate import Status
from jaxbias.estimators.registry import METHODS, Cost
from jaxbias.reporting.documents import debias_document
from jaxbias.reporting.sentences import sentences

KEY = jax.random.key(5)
POLICY, FAMILY = jb.LilUCB(tau=0.5), jb.Normal(sigma=1.0)
QUICK = ("sample_mean", "mean_matching", "confidence_sequence")


def frame_of(history, labels="ABCDEFGH"):
    return pd.DataFrame({"arm": [labels[arm] for arm in np.asarray(history.arms)], "reward": np.asarray(history.rewards)})


def log_of(policy=POLICY, means=(1.0, 0.5, 0.0), num_steps=40, seed=0, family=FAMILY):
    return frame_of(jb.simulate(jax.random.key(seed), policy, family, list(means), num_steps=num_steps))


def quick(frame, policy=POLICY, family=FAMILY, **options):
    return jb.debias(KEY, frame, policy, family, **{"methods": QUICK, **options})


@pytest.fixture(scope="module")
def whole():
    return jb.debias(KEY, log_of(), POLICY, FAMILY)


def worded(reasons):
    return {method: str(reason) for method, reason in reasons.items()}


def test_the_numbers_are_those_of_the_calls(whole):
    frame = log_of()
    with jax.enable_x64(True):
        arms, rewards = np.searchsorted(["A", "B", "C"], frame.arm), frame.reward.to_numpy(np.float64)
        history = jb.History(arms=jnp.asarray(arms, jnp.int32), rewards=jnp.asarray(rewards), num_arms=3)
        fit_key, comparison_key, bias_key = (jax.random.fold_in(KEY, purpose) for purpose in range(3))
        methods = [name for name, one in METHODS.items() if one.by_default and name not in ("data_splitting", "batched_ols")]
        comparison = jb.compare(comparison_key, history, POLICY, FAMILY, methods=methods, num_paths=2**14)
        guarded = comparison.estimates["guarded_shrinkage"]
        bias = jb.bias.bias_at(bias_key, history, POLICY, FAMILY, guarded.mean)
        fit = jb.check_fit(fit_key, history, POLICY)
    assert list(whole.comparison.estimates) == methods
    for name, estimate in comparison.estimates.items():
        for field in ("mean", "stderr", "lower", "upper", "converged"):
            np.testing.assert_array_equal(getattr(whole.comparison.estimates[name], field), getattr(estimate, field))
    np.testing.assert_array_equal(whole.estimate.mean, guarded.mean)
    np.testing.assert_array_equal(whole.bias.bias, bias.bias)
    assert (whole.fit.log_prob, whole.fit.p_value) == (fit.log_prob, fit.p_value)
    assert whole.estimate.mean.dtype == np.float64
    assert (whole.recommended.method, whole.recommended.reason) == ("guarded_shrinkage", Reason.PREFERRED)
    assert (whole.trusted, whole.distrust, whole.assumptions, whole.key_words) == (True, (), (), (0, 5))


def test_the_margin_has_the_covariance_in_it(whole):
    recommended = np.asarray(whole.estimate.mean)
    first, second = np.argsort(-recommended)[:2]
    assert (whole.best.arm, whole.best.runner_up) == (first, second)
    assert whole.best.margin == pytest.approx(recommended[first] - recommended[second])
    matching = whole.comparison.estimates["mean_matching"]
    covariance = np.asarray(matching.diagnostics["covariance"])
    contrast = np.zeros(3)
    contrast[[first, second]] = 1, -1
    delta = dataclasses.replace(
        matching, stderr=np.sqrt(np.diag(covariance)), diagnostics={"covariance": covariance}
    )  # as with interval="delta"
    best = find_best_arm(delta, 0.95)
    assert best.stderr == pytest.approx(np.sqrt(contrast @ covariance @ contrast))
    assert covariance[first, second] != 0
    assert best.upper - best.margin == pytest.approx(1.959964 * best.stderr, rel=1e-5)


def test_the_frame_has_the_labels(whole):
    frame = whole.to_frame()
    assert list(frame.arm[:3]) == ["A", "B", "C"]
    assert set(frame.method[frame.recommended]) == {"guarded_shrinkage"}
    assert frame["mean"][frame.recommended].to_list() == np.asarray(whole.estimate.mean).tolist()


@pytest.mark.slow
def test_a_log_that_another_policy_chose():
    found = quick(log_of(jb.Uniform()), jb.Greedy())
    assert (found.fit.verdict, found.trusted, found.recommended.method) == ("impossible", False, "confidence_sequence")
    assert found.bias is None
    assert (found.recommended.corrects, found.recommended.reason) == (False, Reason.POLICY_DOES_NOT_FIT)
    assert found.distrust == (Distrust.POLICY_DOES_NOT_FIT, Distrust.NOT_CORRECTED)
    assert found.misled == ("mean_matching",)
    unlikely = quick(log_of(jb.Uniform(), num_steps=200), jb.Greedy(tau=0.05))
    assert (unlikely.fit.verdict, unlikely.trusted) == ("unlikely", False)


def test_without_a_policy_only_what_needs_none():
    found = quick(log_of(), None)
    assert list(found.comparison.estimates) == ["sample_mean", "confidence_sequence"]
    assert worded(found.comparison.reasons) == {
        "mean_matching": "policy is None; it must be the policy that chose the arms for mean_matching"
    }
    assert (found.fit, found.bias, found.recommended.method, found.trusted) == (None, None, "confidence_sequence", True)
    assert (found.recommended.reason, found.distrust, found.misled) == (Reason.POLICY_UNKNOWN, (), ())


def test_recorded_propensities_are_used_where_the_policy_is_not_known():
    frame = log_of(jb.Uniform(), num_steps=60)
    frame["propensity"] = np.where(np.arange(60) % 2, 0.25, 0.5)
    found = quick(frame, None, methods=("sample_mean", "propensity_weighting"))
    weights = np.where(np.arange(60) < 3, 1.0, 1 / frame.propensity)
    for arm, label in enumerate("ABC"):
        own = (frame.arm == label).to_numpy()
        expected = np.average(frame.reward[own], weights=weights[own])
        assert float(found.comparison.estimates["propensity_weighting"].mean[arm]) == pytest.approx(expected)


def test_arms_chosen_at_random_need_no_correction():
    found = quick(log_of(jb.Uniform()), jb.Uniform())
    assert (found.recommended.method, found.recommended.corrects, found.trusted) == ("sample_mean", True, True)
    assert (np.abs(found.bias.bias) < 4 * found.bias.stderr).all()


def test_an_arm_that_was_never_pulled():
    found = quick(log_of(), arms=["A", "B", "C", "D"])
    assert np.isnan(np.asarray(found.estimate.mean)).tolist() == [False, False, False, True]
    assert np.isnan(found.bias.bias).tolist() == [False, False, False, True]
    assert [found.status("mean_matching", arm) for arm in (0, 3)] == [Status.CONVERGED, Status.NEVER_PULLED]
    assert [found.status("sample_mean", arm) for arm in (0, 3)] == [Status.CONVERGED, Status.NEVER_PULLED]
    assert found.trusted


def within_arms(frame):
    squares = sum(((group - group.mean()) ** 2).sum() for _, group in frame.groupby("arm").reward)
    return np.sqrt(squares / (len(frame) - frame.arm.nunique()))


def test_sigma_is_estimated_with_the_means():
    frame = log_of(num_steps=100)
    found = quick(frame, family=None)
    figures = found.estimate.diagnostics
    assert (found.recommended.method, found.family.sigma) == ("mean_matching", float(figures["sigma"]))
    assert found.family.sigma == pytest.approx(within_arms(frame), rel=0.05)
    ratio = np.exp(stats.t(97).ppf(0.975) * float(figures["sigma_stderr"]) / found.family.sigma)
    family, sigma = found.assumptions
    assert family == Assumption(Assumed.NORMAL)
    assert (sigma.kind, sigma.method, sigma.each) == (Assumed.SIGMA_ESTIMATED, "mean_matching", False)
    np.testing.assert_allclose(
        [sigma.sigma, sigma.lower, sigma.upper], [[found.family.sigma * part] for part in (1, 1 / ratio, ratio)]
    )
    sequence = found.comparison.estimates["confidence_sequence"]
    with jax.enable_x64(True):
        known = jb.confidence_sequence(found.log.history, jb.Normal(sigma=within_arms(frame)))
    np.testing.assert_allclose(sequence.upper, known.upper, rtol=1e-6)


def test_a_sigma_that_no_method_looks_for_is_that_within_arms():
    frame = log_of(num_steps=100)
    found = quick(frame, policy=None, family=jb.Normal(sigma=None))
    assert found.family.sigma == pytest.approx(within_arms(frame), rel=1e-6)
    (sigma,) = found.assumptions
    assert (sigma.kind, sigma.each, sigma.taken_by) == (Assumed.SIGMA_WITHIN_ARMS, False, ("confidence_sequence",))
    np.testing.assert_allclose(sigma.sigma, [within_arms(frame)], rtol=1e-6)


@pytest.mark.slow
def test_one_sigma_for_each_arm():
    found = quick(log_of(num_steps=100, seed=1), family=jb.Normal(sigma="each"), arms=["A", "B", "C", "D"])
    assert found.family.sigma.shape == (4,)
    np.testing.assert_array_equal(found.family.sigma[:3], found.estimate.diagnostics["sigma"][:3])
    assert np.isnan(found.estimate.diagnostics["sigma"][3])  # never pulled: for a simulation, that of all arms together
    assert np.isfinite(found.family.sigma).all()
    (sigma,) = found.assumptions
    assert (sigma.kind, sigma.method, sigma.each) == (Assumed.SIGMA_ESTIMATED, "mean_matching", True)
    np.testing.assert_array_equal(sigma.sigma, found.estimate.diagnostics["sigma"])
    assert (sigma.lower[:3] < sigma.sigma[:3]).all()
    assert found.trusted


@pytest.mark.slow
def test_rewards_of_0_and_1_are_bernoulli():
    frame = log_of(jb.Greedy(), means=(0.5, 0.3), family=jb.Bernoulli())
    found = quick(frame, jb.Greedy(), None)
    assert found.family == jb.Bernoulli()
    assert found.assumptions == (Assumption(Assumed.BERNOULLI),)


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (
            dict(arm=["A", "B"], reward=[1.0, 2.0]),
            dict(family=None),
            "family.sigma is not given; it must be a standard deviation, as no arm was pulled twice",
        ),
        (
            dict(arm=["A", "A"], reward=[2.0, 2.0]),
            dict(family=None),
            "as every arm's rewards are all the same, so that it cannot be estimated",
        ),
        (
            dict(arm=["A", "A"], reward=[1e308, -1e308]),
            dict(family=None),
            "as the rewards are too large to be squared, so that it cannot be estimated",
        ),
        (
            dict(arm=["A", "B"], reward=[1.0, 2.0]),
            dict(family=jb.Bernoulli()),
            "history.rewards is 2.0 at step 1, which Bernoulli",
        ),
        (
            dict(arm=["A", "B"], reward=[1.0, 2.0]),
            dict(policy=jb.BetaThompson()),
            "history.rewards is 2.0 at step 1; it must be from 0 to 1 for BetaThompson",
        ),
        (dict(arm=["A", "B"], reward=[1.0, 2.0]), dict(level=1.0), "level is 1.0; "),
        (dict(arm=["A", "B"], reward=[1.0, 2.0]), dict(opening="no"), "opening is 'no'; it must be 'forced' or 'chosen'"),
        (dict(arm=["A", "B"], reward=[1.0, 2.0]), dict(methods=["magic"]), "methods has 'magic'; choose from sample_mean, "),
        (
            dict(arm=["A", "B"], reward=[1.0, 2.0]),
            dict(fit=["epsilon"]),
            "fit has 'epsilon'; it must be 'tau' for LilUCB",
        ),
    ],
)
def test_what_is_refused(unchecked, frame, options, message):
    with pytest.raises(ValueError, match=message):
        quick(pd.DataFrame(frame), **options)


@pytest.mark.parametrize("frame", [dict(arm=["A"], reward=[1.5]), dict(arm=["A"] * 5, reward=[1.0, 2.0, 0.0, 1.0, 0.5])])
def test_one_row_and_one_arm(frame):
    found = quick(pd.DataFrame(frame))
    assert found.best is None
    mean, stderr = np.mean(frame["reward"]), 1 / np.sqrt(len(frame["reward"]))
    assert float(found.estimate.mean[0]) == pytest.approx(mean, abs=0.1 * stderr)
    assert float(found.estimate.stderr[0]) == pytest.approx(stderr, rel=0.1)


@pytest.mark.slow
def test_batches_are_followed():
    """Greedy's choices are impossible as those of batches, where the order of arms goes against what it had seen then."""
    policy = jb.Greedy()
    frame = log_of(policy, seed=0).assign(batch=np.arange(40) // 10)
    assert quick(frame, policy).fit.verdict == "impossible"
    assert quick(frame.assign(batch=np.arange(40)), policy).trusted


def test_a_log_too_long_to_simulate(monkeypatch):
    monkeypatch.setattr(limits, "LONGEST", 30)
    found = quick(log_of())
    assert str(found.comparison.reasons["mean_matching"]).startswith("the number of rows is 40; it must be at most 30, because ")
    assert (found.bias, found.recommended.method, found.recommended.reason) == (None, "confidence_sequence", Reason.NONE_TRIED)
    assert found.distrust == (Distrust.NOT_CORRECTED,)


@pytest.mark.slow
def test_what_would_take_many_minutes_is_left_out_unless_asked_for(monkeypatch):
    def left_out(history, policy, family):
        return {name: str(reason) for name, reason in limits.too_slow(history, policy, family).items()}

    history = jb.simulate(jax.random.key(0), jb.Thompson(), FAMILY, [1.0, 0.5, 0.0], num_steps=40)
    assert left_out(history, jb.Thompson(), FAMILY) == {}
    monkeypatch.setattr(limits, "INTEGRALS", 119)  # 40 steps of 3 arms cost 120
    reason = (
        "the cost of Thompson's integrals is 120; it must be at most 119, about a minute; ask for the method by name to run it "
        "anyway"
    )
    assert left_out(history, jb.Thompson(), FAMILY) == {"conditional_mle": reason}
    assert left_out(history, jb.LilUCB(), FAMILY) == {}
    assert left_out(history, None, FAMILY) == {}
    in_batches = dataclasses.replace(history, batch_sizes=(10, 10, 20))  # 3 batches of 3 arms cost 27
    assert left_out(in_batches, jb.Thompson(), FAMILY) == {}
    for most, names in ((6 * 120, []), (6 * 120 - 1, ["conditional_mle"])):  # the integrals of Beta posteriors cost six times
        monkeypatch.setattr(limits, "INTEGRALS", most)
        assert list(left_out(history, jb.BetaThompson(), jb.Bernoulli())) == names
    monkeypatch.setattr(limits, "INTEGRALS", 119)
    left_out = quick(frame_of(history), jb.Thompson(), methods=None).comparison.reasons
    assert worded(left_out) == {"conditional_mle": reason}
    asked = quick(frame_of(history), jb.Thompson(), methods=["sample_mean", "conditional_mle"])
    assert asked.comparison.reasons == {}


@pytest.mark.slow
def test_noise_is_fitted_first():
    found = quick(log_of(jb.Greedy(tau=0.5), num_steps=200), jb.Greedy(), fit=["tau"])
    assert found.fitted["tau"].lower < 0.5 < found.fitted["tau"].upper
    assert found.policy.tau == found.fitted["tau"].value
    assert found.fit.fits


def test_the_answer_depends_on_the_key_alone():
    first, again = quick(log_of()), quick(log_of())
    np.testing.assert_array_equal(first.estimate.mean, again.estimate.mean)
    other = jb.debias(jax.random.key(6), log_of(), POLICY, FAMILY, methods=QUICK)
    assert (np.asarray(other.estimate.mean) != np.asarray(first.estimate.mean)).any()


def test_progress_is_reported():
    said = []
    quick(log_of(), progress=said.append)
    last = ["testing differences", "simulating the bias"]
    assert said == ["reading the log", "replaying the policy", "checked the policy", *QUICK, *last]
    assert [part.checked is not None for part in said] == [part == "checked the policy" for part in said]
    assert said[2].checked.fit.fits
    assert said[3].left > said[-1].left > 0


def test_a_budget_is_spent_on_sums_first_and_says_what_it_left_out():
    found = quick(log_of(), budget=1e-6)
    kept = [name for name in QUICK if METHODS[name].cost is Cost.SUMS]
    assert list(found.comparison.estimates) == kept
    assert set(found.left_out) == set(QUICK) - set(kept)
    assert str(found.comparison.reasons["mean_matching"]).startswith("budget leaves no time")
    assert "The budget left no time for: mean_matching." in sentences(found)
    assert debias_document(found)["left_out"] == found.left_out
    with pytest.raises(ValueError, match="budget is 0"):
        quick(log_of(), budget=0.0)


# Logs in which the first pulls were chosen too


def urn_expectations(policy, means, num_steps):
    """Each arm's expected sample mean given that it was pulled, over every sequence of arms and rewards."""
    weight, total = np.zeros(2), np.zeros(2)
    for arms in itertools.product(range(2), repeat=num_steps):
        for rewards in itertools.product((0.0, 1.0), repeat=num_steps):
            pulls, sums, chance = np.zeros(2), np.zeros(2), 1.0
            for arm, reward in zip(arms, rewards, strict=True):
                balls = 1 + sums + (pulls - sums)[::-1]
                chance *= balls[arm] / balls.sum() * (means[arm] if reward else 1 - means[arm])
                pulls[arm] += 1
                sums[arm] += reward
            pulled = pulls > 0
            weight += chance * pulled
            total += chance * np.where(pulled, sums / np.maximum(pulls, 1), 0)
    return total / weight


@pytest.mark.slow
def test_matching_is_given_that_the_arm_was_pulled():
    arms, rewards = [0, 1, 0, 0, 1, 0], [1.0, 0.0, 1.0, 0.0, 1.0, 1.0]
    frame = pd.DataFrame({"arm": arms, "reward": rewards})
    found = quick(frame, jb.policies.PlayTheWinner(), jb.Bernoulli(), opening="chosen")
    assert not found.log.history.forced.any()
    error = 5 * np.asarray(found.estimate.diagnostics["monte_carlo_error"]) + 0.01
    expected = urn_expectations(jb.policies.PlayTheWinner(), np.asarray(found.estimate.mean), 6)
    assert (np.abs(expected - np.asarray(found.comparison.estimates["sample_mean"].mean)) < error).all()
    bias = urn_expectations(jb.policies.PlayTheWinner(), np.asarray(found.estimate.mean), 6) - np.asarray(found.estimate.mean)
    assert (np.abs(found.bias.bias - bias) < 5 * found.bias.stderr).all()


def test_the_ecmo_trial():
    log, policy, family = jb.examples.load_example("ecmo").load()
    found = quick(log, policy, family, opening="chosen")
    assert found.labels == ("conventional", "ECMO")
    assert found.comparison.pulls.tolist() == [1, 11]
    assert found.fit.log_prob == pytest.approx(np.log(1 / 26))
    assert (found.trusted, found.recommended.method) == (True, "mean_matching")
    lower, upper = np.asarray(found.estimate.lower), np.asarray(found.estimate.upper)
    assert (lower[0], upper[1]) == (0, 1)
    assert 0.8 < upper[0] < 0.975  # one death in one pull has a chance of 2.5% at 0.975, and the urn adds to it
    assert 0.025 ** (1 / 11) < lower[1] < 0.95  # eleven lives in a row have a chance of 2.5% here, and so on
    assert [found.status("mean_matching", arm) for arm in (0, 1)] == [Status.AT_EDGE] * 2
    assert not found.best.is_clear
    assert found.best.lower == pytest.approx(lower[1] - upper[0])
    safe = found.comparison.estimates["confidence_sequence"]
    few = found.few_pulls
    assert (few.total, few.weakest, few.pulls, few.rival) == (12, 0, 1, 1)
    assert few.shown == ((1, float(safe.lower[1])),)
    assert few.lead_lower == float(safe.lower[1] - safe.upper[0])


def test_the_simulated_example_is_the_simulation_it_says():
    log, policy, family = jb.examples.load_example().load()
    history = jb.simulate(jax.random.key(1), policy, family, [1.0, 0.75, 0.5], num_steps=60)
    np.testing.assert_array_equal(log.history.arms, history.arms)
    # To the last bit but one: without LLVM's optimisations, as in the tests, a product and a sum are rounded apart.
    np.testing.assert_allclose(log.history.rewards, history.rewards, rtol=0, atol=5e-7)
    assert repr(policy) == "LilUCB(beta=1.0, epsilon=0.01, delta=0.005, tau=0.2, ties='random')"


def test_the_bias_is_the_same_however_many_trials_are_simulated_together(monkeypatch):
    """Four at a time, most of the spread is between the parts."""
    room = importlib.import_module("jaxbias.bias.at_given_means")
    history = jb.simulate(jax.random.key(0), jb.Greedy(), FAMILY, [1.0, 0.75], num_steps=16)
    whole = jb.bias.bias_at(KEY, history, jb.Greedy(), FAMILY, [1.0, 0.75], num_trials=2048)
    monkeypatch.setattr(room, "AT_ONCE", 4)
    parts = jb.bias.bias_at(KEY, history, jb.Greedy(), FAMILY, [1.0, 0.75], num_trials=2048)
    np.testing.assert_allclose(parts.bias, whole.bias, rtol=1e-4)
    np.testing.assert_allclose(parts.stderr, whole.stderr, rtol=1e-4)


def test_the_margin_of_confidence_sequences_is_between_their_ends(whole):
    sequence = whole.comparison.estimates["confidence_sequence"]
    best = find_best_arm(sequence, 0.95)
    assert best.lower == pytest.approx(float(sequence.lower[best.arm] - sequence.upper[best.runner_up]))
    assert best.upper == pytest.approx(float(sequence.upper[best.arm] - sequence.lower[best.runner_up]))


def test_the_margin_of_intervals_that_are_no_plus_and_minus():
    """By hand: an arm at 0.8 in [0.5, 0.9] is ahead of one at 0.3 in [0.2, 0.7]."""
    parts = dict(mean=np.array([0.3, 0.8]), lower=np.array([0.2, 0.5]), upper=np.array([0.7, 0.9]), stderr=np.array([0.3, 0.4]))
    found = find_best_arm(jb.Estimate(method="test_inversion", status=np.zeros(2, int), diagnostics={}, **parts), 0.95)
    assert (found.arm, found.runner_up, found.stderr) == (1, 0, pytest.approx(0.5))
    np.testing.assert_allclose((found.margin, found.lower, found.upper), (0.5, 0.5 - 0.5, 0.5 + np.hypot(0.1, 0.1)), atol=1e-12)
