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
from jaxbias import advice
from jaxbias.estimators.compare import METHODS

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


def test_the_numbers_are_those_of_the_calls(whole):
    frame = log_of()
    with jax.enable_x64(True):
        arms, rewards = np.searchsorted(["A", "B", "C"], frame.arm), frame.reward.to_numpy(np.float64)
        history = jb.History(arms=jnp.asarray(arms, jnp.int32), rewards=jnp.asarray(rewards), num_arms=3)
        fit_key, table_key, bias_key = (jax.random.fold_in(KEY, purpose) for purpose in range(3))
        methods = [name for name in METHODS if name not in ("data_splitting", "batched_ols")]
        table = jb.compare(table_key, history, POLICY, FAMILY, methods=methods, num_paths=2**14)
        matching = table.estimates["mean_matching"]
        bias = jb.bias_at(bias_key, history, POLICY, FAMILY, matching.mean)
        fit = jb.check_fit(fit_key, history, POLICY)
    assert list(whole.table.estimates) == methods
    for name, estimate in table.estimates.items():
        for field in ("mean", "stderr", "lower", "upper", "converged"):
            np.testing.assert_array_equal(getattr(whole.table.estimates[name], field), getattr(estimate, field))
    np.testing.assert_array_equal(whole.estimate.mean, matching.mean)
    np.testing.assert_array_equal(whole.bias.bias, bias.bias)
    assert (whole.fit.log_prob, whole.fit.p_value) == (fit.log_prob, fit.p_value)
    assert whole.estimate.mean.dtype == np.float64
    assert (whole.recommended.method, whole.trusted, whole.warnings) == ("mean_matching", True, ())


def test_the_margin_has_the_covariance_in_it(whole):
    mean, covariance = np.asarray(whole.estimate.mean), np.asarray(whole.estimate.diagnostics["covariance"])
    first, second = np.argsort(-mean)[:2]
    assert (whole.best.arm, whole.best.runner_up) == (first, second)
    assert whole.best.margin == pytest.approx(mean[first] - mean[second])
    contrast = np.zeros(3)
    contrast[[first, second]] = 1, -1
    assert whole.best.stderr == pytest.approx(np.sqrt(contrast @ covariance @ contrast))
    assert covariance[first, second] != 0
    assert whole.best.upper - whole.best.margin == pytest.approx(1.959964 * whole.best.stderr, rel=1e-5)


def test_the_frame_has_the_labels(whole):
    frame = whole.to_frame()
    assert list(frame.arm[:3]) == ["A", "B", "C"]
    assert set(frame.method[frame.recommended]) == {"mean_matching"}
    assert frame["mean"][frame.recommended].to_list() == np.asarray(whole.estimate.mean).tolist()


def test_the_words_follow_the_numbers(whole):
    fit, recommended, best, bias = advice.sentences(whole)
    assert fit.startswith("The choices fit LilUCB: the log-probability of its 37 choices is ")
    assert recommended.startswith("Recommended: mean_matching, because ")
    label = whole.labels[int(np.argmax(whole.estimate.mean))]
    assert best.startswith(f"'{label}' has the largest estimate, ")
    low = [whole.labels[arm] for arm in range(3) if whole.bias.bias[arm] < -3 * whole.bias.stderr[arm]]
    assert low
    assert all(repr(name) in bias for name in low)
    assert "negative" not in " ".join(advice.sentences(whole))


@pytest.mark.parametrize(
    ("bias", "stderr", "words"),
    [
        ([-0.1, 0.1, 0.0], [0.01, 0.01, 0.01], "'A' too low; 'B' too high; 'C' within 3 standard errors of right"),
        ([0.1, 0.1, 0.1], [0.01, 0.01, 0.01], "'A', 'B' and 'C' too high"),
        ([np.nan, 0.01, 0.02], [np.nan, 0.01, 0.01], "'B' and 'C' within 3 standard errors of right"),
    ],
)
def test_a_bias_may_have_either_sign(whole, bias, stderr, words):
    found = whole.bias._replace(bias=np.array(bias), stderr=np.array(stderr))
    sentence = advice.bias_sentence(dataclasses.replace(whole, bias=found))
    assert sentence == (
        f"If these estimates are right, the sample means of such a log are on average: {words} (from 16,384 simulated logs)."
    )


def test_a_log_that_another_policy_chose():
    found = quick(log_of(jb.Uniform()), jb.Greedy())
    assert (found.fit.verdict, found.trusted, found.recommended.method) == ("impossible", False, "confidence_sequence")
    assert found.bias is None
    assert not found.recommended.corrects
    assert advice.sentences(found)[0].startswith("The log cannot come from Greedy: at step ")
    unlikely = quick(log_of(jb.Uniform(), num_steps=200), jb.Greedy(tau=0.05))
    assert (unlikely.fit.verdict, unlikely.trusted) == ("unlikely", False)
    assert advice.sentences(unlikely)[0].startswith("The log does not look like Greedy's")


def test_without_a_policy_only_what_needs_none():
    found = quick(log_of(), None)
    assert list(found.table.estimates) == ["sample_mean", "confidence_sequence"]
    assert found.table.reasons == {"mean_matching": "policy is None; allowed: the policy that chose the arms"}
    assert (found.fit, found.bias, found.recommended.method, found.trusted) == (None, None, "confidence_sequence", True)
    assert "was not given" in advice.sentences(found)[0]


def test_recorded_propensities_are_used_where_the_policy_is_not_known():
    frame = log_of(jb.Uniform(), num_steps=60)
    frame["propensity"] = np.where(np.arange(60) % 2, 0.25, 0.5)
    found = quick(frame, None, methods=("sample_mean", "propensity_weighting"))
    weights = np.where(np.arange(60) < 3, 1.0, 1 / frame.propensity)
    for arm, label in enumerate("ABC"):
        own = (frame.arm == label).to_numpy()
        expected = np.average(frame.reward[own], weights=weights[own])
        assert float(found.table.estimates["propensity_weighting"].mean[arm]) == pytest.approx(expected)


def test_arms_chosen_at_random_need_no_correction():
    found = quick(log_of(jb.Uniform()), jb.Uniform())
    assert (found.recommended.method, found.recommended.corrects, found.trusted) == ("sample_mean", True, True)
    assert (np.abs(found.bias.bias) < 4 * found.bias.stderr).all()


def test_an_arm_that_was_never_pulled():
    found = quick(log_of(), arms=["A", "B", "C", "D"])
    assert np.isnan(np.asarray(found.estimate.mean)).tolist() == [False, False, False, True]
    assert np.isnan(found.bias.bias).tolist() == [False, False, False, True]
    assert found.status("mean_matching", 3) == "never pulled"
    assert found.trusted
    assert advice.doubt_sentence(found) == "Not to be believed: 'D' (never pulled)."


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
    sigma, low, high = (f"{found.family.sigma * factor:.4g}" for factor in (1, 1 / ratio, ratio))
    assert found.warnings == (
        "The family was not given; Normal was assumed.",
        f"sigma was not given; mean_matching estimated it together with the means: {sigma} [{low}, {high}].",
    )
    sequence = found.table.estimates["confidence_sequence"]
    with jax.enable_x64(True):
        known = jb.confidence_sequence(found.log.history, jb.Normal(sigma=within_arms(frame)))
    np.testing.assert_allclose(sequence.upper, known.upper, rtol=1e-6)
    margin = stats.t(97).ppf(0.975) * found.best.stderr
    assert found.best.upper - found.best.margin == pytest.approx(margin, rel=1e-6)


def test_a_sigma_that_no_method_looks_for_is_that_within_arms():
    frame = log_of(num_steps=100)
    found = quick(frame, policy=None, family=jb.Normal(sigma=None))
    assert found.family.sigma == pytest.approx(within_arms(frame), rel=1e-6)
    says = f"sigma was not given; {within_arms(frame):.4g} is the standard deviation within arms"
    assert found.warnings == (f"{says}, which confidence_sequence takes as known.",)


def test_one_sigma_for_each_arm():
    found = quick(log_of(num_steps=100, seed=1), family=jb.Normal(sigma="each"), arms=["A", "B", "C", "D"])
    assert found.family.sigma.shape == (4,)
    np.testing.assert_array_equal(found.family.sigma[:3], found.estimate.diagnostics["sigma"][:3])
    assert np.isnan(found.estimate.diagnostics["sigma"][3])  # never pulled: for a simulation, that of all arms together
    assert np.isfinite(found.family.sigma).all()
    assert found.warnings[0].startswith(
        "sigma was not given, and each arm has its own; mean_matching estimated it together with "
    )
    assert f"{found.family.sigma[1]:.4g} [" in found.warnings[0]
    assert found.trusted


def test_rewards_of_0_and_1_are_bernoulli():
    frame = log_of(jb.Greedy(), means=(0.5, 0.3), family=jb.Bernoulli())
    found = quick(frame, jb.Greedy(), None)
    assert found.family == jb.Bernoulli()
    assert found.warnings == ("The family was not given; every reward is 0 or 1, so Bernoulli.",)


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (
            dict(arm=["A", "B"], reward=[1.0, 2.0]),
            dict(family=None),
            "family.sigma is None and no arm was pulled twice; allowed: ",
        ),
        (
            dict(arm=["A", "A"], reward=[2.0, 2.0]),
            dict(family=None),
            "family.sigma is None and every arm's rewards are all the same",
        ),
        (
            dict(arm=["A", "A"], reward=[1e308, -1e308]),
            dict(family=None),
            "family.sigma is None and the rewards are too large to be squared",
        ),
        (
            dict(arm=["A", "B"], reward=[1.0, 2.0]),
            dict(family=jb.Bernoulli()),
            "history.rewards is 2.0 at step 1, which Bernoulli",
        ),
        (
            dict(arm=["A", "B"], reward=[1.0, 2.0]),
            dict(policy=jb.BetaThompson()),
            "history.rewards is 2.0 at step 1; allowed with",
        ),
        (dict(arm=["A", "B"], reward=[1.0, 2.0]), dict(level=1.0), "level is 1.0; allowed: "),
        (dict(arm=["A", "B"], reward=[1.0, 2.0]), dict(opening="no"), "opening is 'no'; allowed: 'forced' or 'chosen'"),
        (dict(arm=["A", "B"], reward=[1.0, 2.0]), dict(methods=["magic"]), "methods has 'magic'; allowed: sample_mean, "),
        (dict(arm=["A", "B"], reward=[1.0, 2.0]), dict(fit=["epsilon"]), "names has 'epsilon' and policy is LilUCB; allowed: "),
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


def test_batches_are_followed():
    """Greedy's choices are impossible as those of batches, where the order of arms goes against what it had seen then."""
    policy = jb.Greedy()
    frame = log_of(policy, seed=0).assign(batch=np.arange(40) // 10)
    assert quick(frame, policy).fit.verdict == "impossible"
    assert quick(frame.assign(batch=np.arange(40)), policy).trusted


def test_a_log_too_long_to_simulate(monkeypatch):
    monkeypatch.setattr(importlib.import_module("jaxbias.debias"), "LONGEST", 30)
    found = quick(log_of())
    assert found.table.reasons["mean_matching"].startswith("the log has 40 rows; allowed: 30, as it simulates thousands of")
    assert (found.bias, found.recommended.method, found.trusted) == (None, "confidence_sequence", False)


def test_what_would_take_many_minutes_is_left_out_unless_asked_for(monkeypatch):
    room = importlib.import_module("jaxbias.debias")  # which the function of its name hides
    history = jb.simulate(jax.random.key(0), jb.Thompson(), FAMILY, [1.0, 0.5, 0.0], num_steps=40)
    assert room._too_slow(history, jb.Thompson()) == {}
    monkeypatch.setattr(room, "INTEGRALS", 359)  # 40 steps of 3 arms are 360
    reason = "steps x arms^2 is 360; allowed with Thompson unless the method is asked for by name: 359, a minute"
    assert room._too_slow(history, jb.Thompson()) == {"conditional_mle": reason}
    assert room._too_slow(history, jb.LilUCB()) == {}
    assert room._too_slow(history, jb.BetaThompson()) == {}
    monkeypatch.setattr(room, "BETA_INTEGRALS", 300)
    assert "allowed with BetaThompson" in room._too_slow(history, jb.BetaThompson())["conditional_mle"]
    assert quick(frame_of(history), jb.Thompson(), methods=None).table.reasons == {"conditional_mle": reason}
    asked = quick(frame_of(history), jb.Thompson(), methods=["sample_mean", "conditional_mle"])
    assert asked.table.reasons == {}


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


def test_progress_is_told():
    said = []
    quick(log_of(), progress=said.append)
    assert said == ["reading the log", "replaying the policy", *QUICK, "simulating the bias"]


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


def test_matching_is_given_that_the_arm_was_pulled():
    arms, rewards = [0, 1, 0, 0, 1, 0], [1.0, 0.0, 1.0, 0.0, 1.0, 1.0]
    frame = pd.DataFrame({"arm": arms, "reward": rewards})
    found = quick(frame, jb.PlayTheWinner(), jb.Bernoulli(), opening="chosen")
    assert not found.log.history.forced.any()
    error = 5 * np.asarray(found.estimate.diagnostics["monte_carlo_error"]) + 0.01
    expected = urn_expectations(jb.PlayTheWinner(), np.asarray(found.estimate.mean), 6)
    assert (np.abs(expected - np.asarray(found.table.estimates["sample_mean"].mean)) < error).all()
    bias = urn_expectations(jb.PlayTheWinner(), np.asarray(found.estimate.mean), 6) - np.asarray(found.estimate.mean)
    assert (np.abs(found.bias.bias - bias) < 5 * found.bias.stderr).all()


def test_the_ecmo_trial():
    log, policy, family = jb.load_example("ecmo").load()
    found = quick(log, policy, family, opening="chosen")
    assert found.labels == ("conventional", "ECMO")
    assert found.table.pulls.tolist() == [1, 11]
    assert found.fit.log_prob == pytest.approx(np.log(1 / 26))
    assert (found.trusted, found.recommended.method) == (True, "mean_matching")
    np.testing.assert_allclose(found.estimate.upper[0], 0.95)  # one death has a chance of 5% there
    np.testing.assert_allclose(found.estimate.lower[1], 0.05 ** (1 / 11))  # and eleven lives here
    assert not found.best.is_clear
    assert found.best.lower == pytest.approx(0.05 ** (1 / 11) - 0.95)


def test_the_simulated_example_is_the_simulation_it_says():
    log, policy, family = jb.load_example().load()
    history = jb.simulate(jax.random.key(1), policy, family, [1.0, 0.75, 0.5], num_steps=60)
    np.testing.assert_array_equal(log.history.arms, history.arms)
    np.testing.assert_array_equal(log.history.rewards.astype(np.float32), history.rewards)
    assert repr(policy) == "LilUCB(beta=1.0, epsilon=0.01, delta=0.005, tau=0.2, ties='random')"


def test_the_bias_is_the_same_however_many_trials_are_simulated_together(monkeypatch):
    """Four at a time, most of the spread is between the parts."""
    room = importlib.import_module("jaxbias.estimators.bias_at")
    history = jb.simulate(jax.random.key(0), jb.Greedy(), FAMILY, [1.0, 0.75], num_steps=16)
    whole = jb.bias_at(KEY, history, jb.Greedy(), FAMILY, [1.0, 0.75], num_trials=2048)
    monkeypatch.setattr(room, "AT_ONCE", 4)
    parts = jb.bias_at(KEY, history, jb.Greedy(), FAMILY, [1.0, 0.75], num_trials=2048)
    np.testing.assert_allclose(parts.bias, whole.bias, rtol=1e-4)
    np.testing.assert_allclose(parts.stderr, whole.stderr, rtol=1e-4)


def test_the_margin_of_confidence_sequences_is_between_their_ends(whole):
    sequence = whole.table.estimates["confidence_sequence"]
    best = advice.best_arm(sequence, 0.95)
    assert best.lower == pytest.approx(float(sequence.lower[best.arm] - sequence.upper[best.runner_up]))
    assert best.upper == pytest.approx(float(sequence.upper[best.arm] - sequence.lower[best.runner_up]))
