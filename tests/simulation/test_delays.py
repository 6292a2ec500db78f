"""Rewards that come late: against enumeration, against replaying by hand, and the two ends, no delay and batches."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias._core.arrivals import batches_of, is_immediate, schedule_of
from jaxbias.likelihood import replayed_log_probs
from jaxbias.simulation import trials
from jaxbias.simulation.steps import Batching

KEY = jax.random.key(5)
NUM_STEPS, MEAN = 6, np.array([0.6, 0.35])
DELAYS = {"constant": (2,) * 6, "out-of-order": (3, 0, 2, 0, 1, 4), "burst": (2, 3, 0, 0, 0, 0), "never": (9, 0, 9, 1, 9, 0)}
POLICIES = {
    "greedy": jb.Greedy(),
    "noisy": jb.Greedy(tau=0.3),
    "lil-ucb": jb.LilUCB(tau=1.0),
    "beta-thompson": jb.BetaThompson(),
    "exp3": jb.Exp3(),  # its state is not pulls and sums, and depends on the order of the rewards
}


def all_paths():
    """Every sequence of arms after the two forced ones, with every sequence of rewards."""
    arms = [(0, 1, *rest) for rest in itertools.product((0, 1), repeat=NUM_STEPS - 2)]
    rewards = list(itertools.product((0.0, 1.0), repeat=NUM_STEPS))
    pairs = list(itertools.product(arms, rewards))
    return np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])


def by_hand(policy, seen_at, arms, rewards):
    """The log-probability of every arm at every step of one path: a new state for each choice, from the rewards it had seen."""
    found = []
    for step in range(NUM_STEPS):
        seen = [other for other in range(step) if seen_at[other] < step]
        state = policy.init(2)
        for other in sorted(seen, key=lambda other: (seen_at[other], other)):
            state = policy.update(state, arms[other], rewards[other])
        found.append(policy.log_probs(state))
    return jnp.stack(found)


QUICK = [("greedy", "constant"), ("noisy", "out-of-order"), ("exp3", "burst"), ("exp3", "out-of-order"), ("lil-ucb", "never")]
CASES = [pytest.param(case, marks=[] if case in QUICK else pytest.mark.slow) for case in itertools.product(POLICIES, DELAYS)]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: "-".join(case))
def enumerated(request):
    policy, delay = POLICIES[request.param[0]], DELAYS[request.param[1]]
    seen_at = tuple(step + late for step, late in enumerate(delay))
    arms, rewards = all_paths()
    given = (jnp.asarray(arms, jnp.int32), jnp.asarray(rewards, jnp.float32))
    log_probs = np.asarray(jax.jit(jax.vmap(lambda *path: by_hand(policy, seen_at, *path)))(*given), float)
    return policy, delay, seen_at, arms, rewards, log_probs


def test_probabilities_are_those_of_what_had_arrived(enumerated):
    """Propensities and log-density of all paths."""
    policy, _, seen_at, arms, rewards, log_probs = enumerated
    forced = np.broadcast_to(np.arange(NUM_STEPS) < 2, arms.shape)
    history = jb.History(arms=arms, rewards=rewards.astype(np.float32), num_arms=2, forced=forced, seen_at=seen_at)
    np.testing.assert_allclose(np.exp(replayed_log_probs(policy, history)), np.exp(log_probs), atol=2e-6)
    chosen = np.take_along_axis(log_probs, arms[..., None], axis=2)[..., 0][:, 2:].sum(axis=1)
    density = np.where(rewards == 1, np.log(MEAN[arms]), np.log(1 - MEAN[arms])).sum(axis=1) + chosen
    np.testing.assert_allclose(np.exp(density).sum(), 1, atol=1e-5)
    found = jb.log_density(history, policy, jb.Bernoulli(), MEAN)
    np.testing.assert_allclose(np.exp(found), np.exp(density), rtol=1e-4, atol=1e-9)


def test_bias_against_enumeration(enumerated):
    policy, delay, _, arms, rewards, log_probs = enumerated
    chosen = np.take_along_axis(log_probs, arms[..., None], axis=2)[..., 0][:, 2:].sum(axis=1)
    chance = np.exp(chosen) * np.where(rewards == 1, MEAN[arms], 1 - MEAN[arms]).prod(axis=1)
    own = arms[..., None] == np.arange(2)
    sample_mean = np.where(own, rewards[..., None], 0).sum(axis=1) / own.sum(axis=1)
    exact = chance @ sample_mean - MEAN
    found = jb.measure_bias(KEY, policy, jb.Bernoulli(), MEAN, NUM_STEPS, 40_000, delay=delay)
    assert (np.abs(found.bias - exact) < 4 * found.bias_stderr + 1e-6).all()
    np.testing.assert_allclose(found.pulls, chance @ own.sum(axis=1), atol=0.03)


def simulate_with(monkeypatch, seen_at, policy, family, mean):
    """By the program of delays, also where there is a quicker one."""
    monkeypatch.setattr(trials, "make_batching", lambda *_: Batching(seen_at=seen_at))
    return jb.simulate(KEY, policy, family, mean, 24, 64)


@pytest.mark.parametrize("name", ["greedy", "exp3", pytest.param("beta-thompson", marks=pytest.mark.slow)])
def test_no_delay_and_batches_are_special_cases_of_one_program(monkeypatch, name):
    problem = (POLICIES[name], jb.Bernoulli(), [0.5, 0.4, 0.6])
    plain, batched = jb.simulate(KEY, *problem, 24, 64), jb.simulate(KEY, *problem, 24, 64, batch_size=8)
    at_once, at_ends = tuple(range(24)), tuple(step // 8 * 8 + 7 for step in range(24))
    for expected, seen_at in ((plain, at_once), (batched, at_ends)):
        found = simulate_with(monkeypatch, seen_at, *problem)
        np.testing.assert_array_equal(found.arms, expected.arms)
        np.testing.assert_array_equal(found.rewards, expected.rewards)
    monkeypatch.undo()
    for expected, delay in ((plain, 0), (batched, [7 - step % 8 for step in range(24)])):
        found = jb.simulate(KEY, *problem, 24, 64, delay=delay)
        np.testing.assert_array_equal(found.arms, expected.arms)
        assert (found.batch_sizes, found.seen_at) == (expected.batch_sizes, None)


def test_a_delay_of_zero_measures_the_same_bits():
    problem = (jb.LilUCB(), jb.Normal(), [1.0, 0.75], 16, 2048)
    found = [jb.measure_bias(KEY, *problem, **late) for late in ({}, {"delay": 0}, {"delay": 3})]
    np.testing.assert_array_equal(found[0].bias, found[1].bias)
    assert (found[0].bias != found[2].bias).all()
    together = [0 if step == 15 else 1 - step % 2 for step in range(16)]
    batched = jb.measure_bias(KEY, *problem, batch_size=2).bias
    np.testing.assert_array_equal(jb.measure_bias(KEY, *problem, delay=together).bias, batched)


def test_what_is_pending_is_no_more_than_the_delay():
    assert schedule_of(tuple(range(10, 1010))).num_slots == 12  # eleven are pending at once, and a slot for the last ten
    random = np.arange(200) + np.random.default_rng(0).integers(0, 7, 200)
    assert schedule_of(tuple(random.tolist())).num_slots <= 8
    assert is_immediate((0, 1, 9))
    assert batches_of((2, 2, 2, 4, 9)) == (3, 2)
    assert batches_of((1, 2, 3, 3)) is None


def test_a_history_with_delays():
    history = jb.History(arms=np.array([0, 1, 0, 1, 1]), rewards=np.arange(5.0), num_arms=2)
    late = history.with_delay(2)
    assert late.seen_at == (2, 3, 4, 5, 6)
    assert late.forced_steps.tolist() == [True, True, True, False, False]
    assert history.with_delay([1, 0, 1, 0, 0]).forced_steps.tolist() == [True, True, False, False, False]  # batches
    assert history.with_delay([1, 0, 0, 0, 0]).forced_steps.tolist() == [True, True, False, False, False]
    stacked = jb.History(arms=np.stack([history.arms] * 2), rewards=np.ones((2, 5)), num_arms=2, seen_at=late.seen_at)
    assert stacked.trial(1).seen_at == late.seen_at
    assert math.isfinite(jb.log_density(late, jb.Greedy(tau=1.0), jb.Normal(), np.array([0.0, 1.0])))
