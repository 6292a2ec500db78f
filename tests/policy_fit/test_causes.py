"""The causes of a misfit: each is named first for logs that have it, and has the probabilities of the policy that has it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

import jaxbias as jb
from jaxbias.likelihood import replayed_log_probs
from jaxbias.policies import ArmStatistics, WarmUp
from jaxbias.policy_fit import Cause, find_causes
from jaxbias.policy_fit.alternatives import replay
from jaxbias.policy_fit.check import explains
from jaxbias.policy_fit.context import context_alternatives
from jaxbias.policy_fit.refits import refitted_alternatives
from jaxbias.policy_fit.timing import timing_alternatives

MEANS, STEPS, SEEDS = [0.6, 0.5, 0.3], 800, range(3)  # one shape for all, so that every policy is compiled once


def run(policy, seed, **options):
    """A log that says nothing of its batches."""
    found = jb.simulate(jax.random.key(seed), policy, jb.Normal(), MEANS, num_steps=STEPS, **options)
    return jb.History(arms=found.arms, rewards=found.rewards, num_arms=3)


def run_late(policy, seed, delay):
    """By hand: every choice has seen the rewards of all but the last steps."""
    probs = jax.jit(lambda pulls, total: jnp.exp(policy.log_probs(ArmStatistics(pulls=pulls, total=total))))
    random, pulls, total = np.random.default_rng(seed), np.zeros((STEPS + 1, 3), np.int32), np.zeros((STEPS + 1, 3), np.float32)
    arms, rewards = np.arange(STEPS) % 3, random.normal(size=STEPS).astype(np.float32)
    for step in range(STEPS):
        seen = max(step - delay, 0)
        chances = np.asarray(probs(pulls[seen], total[seen]), float) if seen else np.full(3, 1 / 3)
        arms[step] = step if step < 3 else random.choice(3, p=chances / chances.sum())
        rewards[step] += MEANS[arms[step]]
        pulls[step + 1], total[step + 1] = pulls[step], total[step]
        pulls[step + 1, arms[step]] += 1
        total[step + 1, arms[step]] += rewards[step]
    return jb.History(arms=arms, rewards=rewards, num_arms=3)


def run_for_each_device(policy, seed):
    """A policy of its own for each value of a column, where the arms are in another order."""
    random = np.random.default_rng(seed)
    device = random.integers(0, 2, STEPS)
    arms, rewards = np.zeros(STEPS, np.int32), np.zeros(STEPS, np.float32)
    for value, means in enumerate(([0.9, 0.5, 0.1], [0.1, 0.5, 0.9])):
        found = jb.simulate(jax.random.key(2 * seed + value), policy, jb.Normal(), means, num_steps=STEPS)
        rows = np.flatnonzero(device == value)
        arms[rows], rewards[rows] = np.asarray(found.arms)[: len(rows)], np.asarray(found.rewards)[: len(rows)]
    columns = {
        "row": np.arange(STEPS),
        "age": random.normal(size=STEPS),
        "device": np.array(["app", "web"], object)[device],
        "user": np.array([f"u{number}" for number in random.integers(0, 300, STEPS)], object),
    }
    return jb.History(arms=arms, rewards=rewards, num_arms=3), columns


CASES = {
    "batches": (lambda seed: run(jb.Thompson(), seed, batch_size=100), jb.Thompson(), Cause.BATCHES, {"batch_size": 100}),
    "batches-ucb": (lambda seed: run(jb.LilUCB(), seed, batch_size=20), jb.LilUCB(), Cause.BATCHES, {"batch_size": 20}),
    "delay": (lambda seed: run_late(jb.Thompson(), seed, 60), jb.Thompson(), Cause.DELAY, {"delay": 60}),
    "delay-ucb": (lambda seed: run_late(jb.LilUCB(), seed, 20), jb.LilUCB(), Cause.DELAY, {"delay": 20}),
    "warm-up": (lambda seed: run(WarmUp(jb.LilUCB(), 100), seed), jb.LilUCB(), Cause.WARM_UP, {"warm_up": 100}),
    "floor": (lambda seed: run(jb.Floored(jb.Thompson(), 0.08), seed), jb.Thompson(), Cause.FLOOR, {"policy.floor": 0.08}),
    "floor-greedy": (lambda seed: run(jb.Floored(jb.Greedy(), 0.08), seed), jb.Greedy(), Cause.FLOOR, {"policy.floor": 0.08}),
    "less-floor": (
        lambda seed: run(jb.Floored(jb.Greedy(), 0.05), seed),
        jb.Floored(jb.Greedy(), 0.2),
        Cause.FLOOR,
        {"policy.floor": 0.05},
    ),
    "epsilon": (
        lambda seed: run(jb.EpsilonGreedy(epsilon=0.3), seed),
        jb.EpsilonGreedy(epsilon=0.05),
        Cause.NOISE,
        {"policy.epsilon": 0.3},
    ),
    "tau": (lambda seed: run(jb.Greedy(tau=0.2), seed), jb.Greedy(tau=0.02), Cause.NOISE, {"policy.tau": 0.2}),
    "prior": (lambda seed: run(jb.Thompson(sigma=3.0), seed), jb.Thompson(), Cause.PRIOR, {"policy.sigma": 3.0}),
    "setting": (lambda seed: run(jb.LilUCB(beta=0.2), seed), jb.LilUCB(), Cause.SETTING, {"policy.beta": 0.2}),
}


SLOW = ("batches", "delay", "floor")  # Thompson sampling, whose noise is an integral; the others are as good a test


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in CASES])
def test_the_cause_is_named_first(name):
    simulate, declared, cause, settings = CASES[name]
    for seed in SEEDS:
        first = find_causes(simulate(seed), declared)[0]
        assert (first.cause, first.fits, list(first.settings)) == (cause, True, list(settings)), (seed, first)
        assert first.gain > 10
        for setting, value in settings.items():
            assert first.settings[setting] == pytest.approx(value, rel=0.35), seed


@pytest.mark.slow
def test_another_beta_prior_is_named_first():
    for seed in (0, 1, 3):
        found = jb.simulate(jax.random.key(seed), jb.BetaThompson(30.0, 90.0), jb.Bernoulli(), [0.3, 0.4, 0.5], num_steps=STEPS)
        with jax.enable_x64(True):
            first = find_causes(jb.History(arms=found.arms, rewards=found.rewards, num_arms=3), jb.BetaThompson())[0]
        assert first.cause is Cause.PRIOR
        assert first.settings["policy.prior_failure"] / first.settings["policy.prior_success"] > 2


def test_a_column_is_named_if_the_policy_looked_at_it():
    for seed in SEEDS:
        policy = jb.Greedy(tau=0.1)
        history, columns = run_for_each_device(policy, seed)
        found = find_causes(history, policy, columns)
        assert (found[0].cause, found[0].column) == (Cause.CONTEXT, "device")
        assert found[0].fits
        assert found[0].p_value < 1e-20


def test_an_outcome_is_no_context():
    for seed in SEEDS:
        history = run(jb.LilUCB(tau=0.05), seed, batch_size=40)
        outcomes = {"revenue": 3 * np.asarray(history.rewards, float), "bought": np.asarray(history.rewards) > 1}
        assert find_causes(history, jb.LilUCB(tau=0.05), outcomes)[0].cause is Cause.BATCHES


def test_a_right_policy_has_no_causes():
    for seed in range(6):
        for policy in (jb.LilUCB(), jb.Greedy(tau=0.2)):
            assert find_causes(run(policy, seed), policy) == ()


def test_a_log_that_is_only_unusual_has_causes_too():
    """A delay that was left out, and that the check alone does not find: p = 0.0015."""
    found = jb.simulate(jax.random.key(9), jb.Thompson(), jb.Normal(), [1.0, 0.5], num_steps=100, delay=8)
    history = jb.History(arms=found.arms, rewards=found.rewards, num_arms=2)
    fit = jb.check_fit(jax.random.key(0), history, jb.Thompson())
    assert fit.fits
    assert fit.doubtful
    settings = {cause.cause: cause.settings for cause in find_causes(history, jb.Thompson())}
    assert settings[Cause.DELAY] == {"delay": 8}
    assert settings.keys() == {Cause.DELAY, Cause.BATCHES}


def test_causes_of_batches_that_are_known():
    """Rewards that came a batch late, in counts."""
    policy, random = jb.Thompson(), np.random.default_rng(0)
    pulls, total, batches = np.zeros(3, np.int32), np.zeros(3), [(np.full(3, 20), 20 * np.array(MEANS))]
    for _ in range(12):
        seen = batches[:-1] or batches
        state = ArmStatistics(pulls=jnp.asarray(sum(b[0] for b in seen), jnp.int32), total=jnp.asarray(sum(b[1] for b in seen)))
        chances = np.exp(np.asarray(policy.log_probs(state), float))
        pulls = random.multinomial(60, chances / chances.sum())
        total = random.normal(pulls * np.array(MEANS), np.sqrt(pulls))
        batches.append((pulls, total))
    pulls, total = (np.array([batch[part] for batch in batches]) for part in (0, 1))
    history = jb.History.from_counts(pulls, total)
    found = [one for one in timing_alternatives(replay(history, policy)) if one.cause is Cause.DELAY]
    assert found[0].settings == {"delay_in_batches": 1}


def test_shares_and_forced_logs_have_no_causes():
    history = run(jb.Uniform(), 0)
    assert find_causes(dataclasses.replace(history, forced=np.ones(STEPS, bool)), jb.Greedy()) == ()
    sizes = (400, 400)
    assert find_causes(dataclasses.replace(history, batch_sizes=sizes, allocation="shares"), jb.Greedy()) == ()


# What each alternative says, against the policy that it stands for


def alternatives(history, policy, alternatives_of):
    return {one.cause: one for one in alternatives_of(replay(history, policy))}


def test_probabilities_are_those_of_the_log_with_batches_or_with_a_floor():
    history = run(jb.LilUCB(tau=0.5), 0, batch_size=50)
    policy = jb.LilUCB(tau=0.5)
    steps = np.flatnonzero(~np.asarray(history.forced_steps))
    batches = alternatives(history, policy, timing_alternatives)[Cause.BATCHES]
    size = batches.settings["batch_size"]
    sizes = tuple(np.bincount(np.arange(STEPS) // size).tolist())
    expected = np.array(replayed_log_probs(policy, dataclasses.replace(history, batch_sizes=sizes)))
    expected[:size] = -np.log(3)  # nothing was seen: forced
    np.testing.assert_allclose(batches.log_probs, expected[steps], atol=1e-5)
    floor = alternatives(history, policy, refitted_alternatives)[Cause.FLOOR]
    floored = jb.Floored(policy, floor.settings["policy.floor"])
    np.testing.assert_allclose(floor.log_probs, np.asarray(replayed_log_probs(floored, history))[steps], atol=1e-5)


def test_a_long_log_is_thinned_and_still_exact():
    """The first rows and some of the others; the state at each of them is that of the whole log."""
    found = jb.simulate(jax.random.key(0), jb.Greedy(tau=0.2), jb.Normal(), MEANS, num_steps=9000, batch_size=500)
    history = jb.History(arms=found.arms, rewards=found.rewards, num_arms=3)
    looked = replay(history, jb.Greedy(tau=0.2))
    assert len(looked.rows) <= 4000
    assert (looked.rows[:2000] == np.arange(2000)).all()
    whole = np.asarray(replayed_log_probs(jb.Greedy(tau=0.2), history))
    np.testing.assert_allclose(looked.at_rows, whole[looked.rows], atol=2e-4)  # sums of float32
    assert find_causes(history, jb.Greedy(tau=0.2))[0].settings == {"batch_size": 500}


def test_the_log_odds_are_those_of_scipy():
    """With two arms the alternative is a logistic regression with an offset."""
    random = np.random.default_rng(0)
    arms = random.integers(0, 2, 300)
    feature = random.normal(size=300) + 0.5 * arms
    history = jb.History(arms=arms, rewards=random.normal(size=300), num_arms=2)
    looked = replay(history, jb.Greedy(tau=1.0))
    [found] = context_alternatives(looked, {"feature": feature})
    x = ((feature - feature.mean()) / feature.std())[looked.steps]
    x, chosen = x - x.mean(), looked.arms
    probs = (1 - 1e-3) * np.exp(looked.log_probs) + 1e-3 / 2
    offset = np.log(probs[:, 1]) - np.log(probs[:, 0])

    def lost(beta):
        odds = offset + beta * x
        return np.sum(np.logaddexp(0, odds) - chosen * odds) + 1e-3 * len(x) * beta**2 / 2

    best = optimize.minimize_scalar(lost, bounds=(-3, 3), method="bounded", options={"xatol": 1e-9})
    np.testing.assert_allclose(found.log_probs[:, 1] - found.log_probs[:, 0], offset + best.x * x, atol=1e-4)
    slope = np.sum(x * (chosen - probs[:, 1]))
    statistic = slope**2 / np.sum(x**2 * probs[:, 1] * probs[:, 0])
    assert found.p_value == pytest.approx(stats.chi2.sf(statistic, 1), rel=1e-3)


def test_passing_the_check_is_as_in_check_fit():
    for seed in SEEDS:
        history = run(jb.Greedy(tau=0.2), seed)
        for policy in (jb.Greedy(tau=0.2), jb.Greedy(tau=0.02), jb.Greedy(tau=1.0), jb.Greedy()):
            looked = replay(history, policy)
            assert explains(looked.arms, looked.log_probs) == jb.check_fit(jax.random.key(0), history, policy).fits
