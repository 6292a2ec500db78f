"""Whether a policy fits a log: against enumeration, under the truth, and against other policies."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats
from scipy.stats import binom

import jaxbias as jb
from jaxbias.likelihood import choice_log_probs, replayed_log_probs
from jaxbias.policies import complete_policy
from jaxbias.policy_fit import check as room
from tests.conftest import some_now_others_slow

POLICIES = {
    "greedy": jb.Greedy(tau=0.5),
    "epsilon-greedy": jb.EpsilonGreedy(epsilon=0.2),
    "lil-ucb": jb.LilUCB(tau=0.5),
    "thompson": jb.Thompson(),
}


def short_log(policy, seed=0, num_steps=9):
    return jb.simulate(jax.random.key(seed), policy, jb.Normal(), [1.0, 0.5], num_steps=num_steps)


def redraws(log_probs):
    """Every way to choose on this path: its probability and its total log-probability."""
    chance, total = [], []
    for arms in itertools.product(range(log_probs.shape[1]), repeat=len(log_probs)):
        chosen = log_probs[np.arange(len(arms)), arms]
        chance.append(np.exp(chosen.sum()))
        total.append(chosen.sum())
    return np.array(chance), np.array(total)


@pytest.mark.parametrize("name", POLICIES)
def test_figures_against_every_redraw(name, x64):
    policy, history = POLICIES[name], short_log(POLICIES[name])
    found = jb.check_fit(jax.random.key(1), history, policy)
    log_probs = np.asarray(choice_log_probs(policy, history.arms, history.rewards, 2), np.float64)[2:]
    chosen = log_probs[np.arange(7), np.asarray(history.arms)[2:]]
    chance, total = redraws(log_probs)
    assert chance.sum() == pytest.approx(1, abs=1e-5)
    assert found.log_prob == pytest.approx(chosen.sum(), abs=1e-4)
    assert found.expected == pytest.approx(chance @ total, abs=1e-3)
    assert found.deviation == pytest.approx(np.sqrt(chance @ np.square(total - chance @ total)), abs=1e-3)
    near = 1e-4
    exact = min(1.0, 2 * min(chance[total <= found.log_prob + near].sum(), chance[total >= found.log_prob - near].sum()))
    assert found.p_value == pytest.approx(exact, abs=5 * np.sqrt(exact / room.REDRAWS) + 2 / room.REDRAWS)
    assert found.simulated.mean() == pytest.approx(found.expected, abs=5 * found.deviation / np.sqrt(room.REDRAWS))
    assert (found.choices, found.impossible, found.verdict) == (7, 0, "fits")


@pytest.mark.parametrize("name", some_now_others_slow(POLICIES, now=("greedy",)))
def test_a_log_of_the_policy_is_rarely_accused(name, monkeypatch):
    monkeypatch.setattr(room, "REDRAWS", 1000)
    policy, logs = POLICIES[name], 200
    batch = jb.simulate(jax.random.key(2), policy, jb.Normal(), [1.0, 0.5], num_steps=60, num_trials=logs)
    found = [
        jb.check_fit(jax.random.key(3), jb.History(arms=batch.arms[log], rewards=batch.rewards[log], num_arms=2), policy)
        for log in range(logs)
    ]
    for field in ("p_value", "calibration_p_value"):
        values = np.array([getattr(one, field) for one in found])
        assert np.mean(values < 0.05) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / logs)
    below_half = np.mean([one.p_value < 0.5 for one in found])
    assert below_half == pytest.approx(0.5, abs=4 * np.sqrt(0.25 / logs))  # and it is not timid either
    assert sum(one.fits for one in found) >= logs - 3


@pytest.mark.parametrize(
    ("truth", "declared"),
    [
        (jb.Greedy(tau=0.2), jb.Greedy(tau=1.0)),  # follows the policy more closely than its noise allows
        (jb.Greedy(tau=1.0), jb.Greedy(tau=0.2)),
        (jb.EpsilonGreedy(epsilon=0.5), jb.EpsilonGreedy(epsilon=0.1)),
        (jb.Uniform(), jb.Thompson()),
        (jb.Thompson(), jb.EpsilonGreedy(epsilon=0.5)),
    ],
    ids=["too-close", "too-noisy", "epsilon", "uniform", "thompson"],
)
def test_another_policy_is_found_out(truth, declared):
    history = jb.simulate(jax.random.key(0), truth, jb.Normal(), [1.0, 0.25], num_steps=300)
    found = jb.check_fit(jax.random.key(1), history, declared)
    assert found.verdict == "unlikely"
    assert not found.fits


def test_choices_the_policy_never_makes():
    arms, rewards = jnp.array([0, 1, 1, 0, 1]), jnp.array([1.0, 0.0, 0.5, 1.0, 0.0])
    found = jb.check_fit(jax.random.key(0), jb.History(arms=arms, rewards=rewards, num_arms=2), jb.Greedy())
    assert (found.verdict, found.impossible, found.choices, found.p_value) == ("impossible", 2, 3, 0.0)
    assert found.log_prob == -np.inf
    first, second = found.surprises
    assert (first.step, first.arm, first.probability, first.likeliest_arm, first.likeliest_probability) == (2, 1, 0.0, 0, 1.0)
    assert second.step == 4


def test_a_policy_without_randomness_fits_what_it_chose():
    history = jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.5], num_steps=50)
    found = jb.check_fit(jax.random.key(1), history, jb.Greedy())
    assert (found.verdict, found.log_prob, found.deviation, found.p_value, found.surprises) == ("fits", 0.0, 0.0, 1.0, ())


def test_forced_pulls_are_not_choices():
    history = jb.History(arms=jnp.array([0, 1]), rewards=jnp.array([1.0, 0.0]), num_arms=2)
    found = jb.check_fit(jax.random.key(0), history, jb.Greedy())
    assert (found.verdict, found.choices, found.calibration) == ("nothing to check", 0, ())


def test_the_ecmo_trial_is_one_in_twenty_six():
    log, policy, _ = jb.examples.load_example("ecmo").load()
    history = jb.History(arms=log.history.arms, rewards=log.history.rewards, num_arms=2, forced=np.zeros(12, bool))
    found = jb.check_fit(jax.random.key(0), history, policy)
    assert found.log_prob == pytest.approx(np.log(1 / 26), abs=1e-5)
    assert found.verdict == "fits"


def test_calibration_counts_every_arm_of_every_choice():
    history = jb.simulate(jax.random.key(0), jb.EpsilonGreedy(epsilon=0.3), jb.Normal(), [1.0, 0.5, 0.0], num_steps=203)
    found = jb.check_fit(jax.random.key(1), history, jb.EpsilonGreedy(epsilon=0.3))
    low, high = found.calibration
    assert (low.count, high.count) == (400, 200)
    assert (low.low, low.high, high.low, high.high) == (0.1, 0.2, 0.8, 0.9)
    assert (low.predicted, high.predicted) == (pytest.approx(0.1), pytest.approx(0.8))
    assert low.chosen * 400 + high.chosen * 200 == pytest.approx(200)
    assert low.stderr == pytest.approx(np.sqrt(0.1 * 0.9 / 400), rel=1e-3)


def test_a_long_log_has_fewer_redraws_and_the_normal_p_value(monkeypatch):
    history = jb.simulate(jax.random.key(0), jb.Greedy(tau=1.0), jb.Normal(), [1.0, 0.5], num_steps=2000)
    whole = jb.check_fit(jax.random.key(1), history, jb.Greedy(tau=1.0))
    monkeypatch.setattr(room, "DRAWS_IN_ALL", 2512 * 300)  # the steps that a log of 2,000 is padded to
    fewer = jb.check_fit(jax.random.key(1), history, jb.Greedy(tau=1.0))
    assert (len(whole.simulated), len(fewer.simulated)) == (4000, 300)
    assert fewer.p_value == pytest.approx(whole.p_value, abs=0.03)


def test_a_batch_is_refused():
    batch = jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.5], num_steps=5, num_trials=3)
    with pytest.raises(ValueError, match=r"history has arms of shape \(3, 5\); it must be one log"):
        jb.check_fit(jax.random.key(0), batch, jb.Greedy())


@pytest.mark.parametrize(
    ("count", "hits", "predicted"), [(40, 8, 0.0007), (10, 10, 0.3), (12, 0, 0.3), (9, 3, 1 / 3), (5, 0, 1.0)]
)
def test_the_p_value_of_a_small_row_is_a_bound(count, hits, predicted):
    row = room.CalibrationRow(0.0, 1.0, count, predicted, hits / count, np.sqrt(predicted * (1 - predicted) / count))
    exact = binom(count, predicted)
    tail = exact.sf(hits - 1) if hits / count > predicted else exact.cdf(hits)
    assert min(1.0, 2 * tail) <= room._row_p_value(row) + 1e-12
    divergence = scipy.special.rel_entr([hits / count, 1 - hits / count], [predicted, 1 - predicted]).sum()
    assert room._row_p_value(row) == pytest.approx(min(1.0, 2 * np.exp(-count * divergence)), abs=1e-12)


def test_a_row_of_few_cases_can_give_a_log_away():
    """Rows too small for a Normal are what a log of another policy fills."""
    history = jb.simulate(jax.random.key(0), jb.Uniform(), jb.Normal(), [1.0, 0.5, 0.0], num_steps=60)
    found = jb.check_fit(jax.random.key(1), history, jb.Thompson(sigma=0.2))
    assert found.calibration_p_value < 1e-6


def test_the_worst_row_counts_for_as_many_as_there_are():
    even = room.CalibrationRow(0.4, 0.6, 1000, 0.5, 0.5, np.sqrt(0.25 / 1000))
    off = even._replace(chosen=0.45)
    assert room._row_p_value(off) == pytest.approx(scipy.stats.norm.sf(0.05 / off.stderr) * 2)
    assert room._worst((even, off, even)) == pytest.approx(3 * room._row_p_value(off))
    assert room._worst(()) == 1.0
    assert room._worst((even, even)) == 1.0


def test_near_ties_that_float32_decided_are_no_misfit():
    """A long log of a policy without noise, simulated in float32 and replayed in float64, as `debias` does."""
    history = jb.simulate(jax.random.key(1), jb.LilUCB(), jb.Normal(), [1.0, 0.9, 0.8, 0.7, 0.6], num_steps=40_000)
    with jax.enable_x64(True):
        same = jb.History(arms=np.asarray(history.arms), rewards=np.asarray(history.rewards, np.float64), num_arms=5)
        replayed = np.asarray(replayed_log_probs(complete_policy(jb.LilUCB()), same))
        assert np.isneginf(replayed[np.arange(5, 40_000), same.arms[5:]]).any()  # or it would show nothing
        assert jb.check_fit(jax.random.key(2), same, jb.LilUCB()).verdict == room.Verdict.FITS
        assert jb.check_fit(jax.random.key(2), same, jb.UCB1()).verdict == room.Verdict.IMPOSSIBLE


@pytest.mark.parametrize("steps", [5_000, 20_000])
@pytest.mark.parametrize(
    "policy", [jb.Uniform(), jb.EpsilonGreedy(epsilon=1.0), jb.Exp3(gamma=1.0)], ids=["uniform", "greedy", "exp3"]
)
def test_where_every_choice_has_the_same_probability_nothing_varies(policy, steps, x64):
    """The log-probability is the same in every log: what rounding makes of it must not be taken for a spread."""
    family, mean = (jb.Bernoulli(), [0.5, 0.5, 0.5]) if policy == jb.Exp3(gamma=1.0) else (jb.Normal(), [0.0, 0.0, 0.0])
    history = jb.simulate(jax.random.key(0), policy, family, mean, num_steps=steps)
    fit = jb.check_fit(jax.random.key(1), history, policy)
    assert fit.fits
    assert fit.p_value > 0.05
    assert fit.log_prob == pytest.approx(-fit.choices * np.log(3), rel=1e-4)
