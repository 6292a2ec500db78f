import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias._core.chunks import CHUNK, CHUNK_STATE, trials_at_once
from jaxbias._core.randomness import root_words, step_key, trial_words
from jaxbias.policies import complete_policy
from tests.conftest import POLICIES, some_now_others_slow

MEAN = [1.0, 0.75, 0.5]
CHANCES = [0.7, 0.4, 0.5]


@pytest.fixture(params=POLICIES)
def name(request):
    return request.param


def run_held_out(policy, num_trials, chunk_size):
    return jb.simulate(
        jax.random.key(5),
        policy,
        jb.Bernoulli(),
        CHANCES,
        num_steps=9,
        num_trials=num_trials,
        held_out=True,
        chunk_size=chunk_size,
    )


@functools.cache
def many(name):
    """The trials that the next tests look at; where every choice is an integral, those of the first test alone."""
    return run_held_out(POLICIES[name], *((16, 16) if "exploration" in name else (20_480, 1024)))


def test_a_trial_is_the_policy_step_by_step(name):
    """One trial rebuilt in plain Python from the same keys, with the policy's own functions."""
    policy, family, history = POLICIES[name], jb.Bernoulli(), many(name)
    words = trial_words(root_words(jax.random.key(5)), jnp.uint32(0), 4)[:, 2]
    state, update = policy.init(3), jax.jit(policy.update)
    sample = jax.jit(lambda key, state: complete_policy(policy).sample(key, state))
    for step in range(9):
        key, reward_key = (step_key(words, jnp.uint32(3 * step + purpose)) for purpose in (0, 1))
        arm = jnp.int32(step) if step < 3 else sample(key, state)
        reward = family.sample(reward_key, jnp.asarray(CHANCES)[arm])
        assert (int(arm), float(reward)) == (int(history.arms[2, step]), float(history.rewards[2, step]))
        state = update(state, arm.astype(jnp.int32), reward)


INTEGRALS = [name for name in POLICIES if "exploration" in name]


@pytest.mark.parametrize("name", some_now_others_slow(POLICIES, now=set(POLICIES) - set(INTEGRALS)))
def test_held_out_means_are_unbiased(name):
    """200,000 trials would be better; 20,000 see a bias of 0.02."""
    history = run_held_out(POLICIES[name], 5120, 1024) if name in INTEGRALS else many(name)
    held = jb.History(arms=history.arms, rewards=history.held_out, num_arms=3).statistics.mean
    error = np.asarray(held) - CHANCES
    assert (np.abs(error.mean(axis=0)) < 4 * error.std(axis=0) / np.sqrt(len(error))).all()


@pytest.mark.parametrize("name", some_now_others_slow(POLICIES))
def test_the_bits_do_not_depend_on_the_chunk(name):
    """The first 700 trials, in chunks of 112 and in chunks of 1024 with thousands after them; 64 of integrals."""
    number, history = (64, run_held_out(POLICIES[name], 64, 64)) if name in INTEGRALS else (700, many(name))
    few = run_held_out(POLICIES[name], number, chunk_size=16 if name in INTEGRALS else 100)
    jax.tree.map(lambda few, many: np.testing.assert_array_equal(few, many[:number]), few, history)


def test_fewer_trials_are_the_first_ones():
    run = lambda trials: jb.simulate(jax.random.key(1), jb.Thompson(), jb.Normal(), MEAN, 20, trials)
    jax.tree.map(lambda few, many: np.testing.assert_array_equal(few, many[:50]), run(50), run(3000))
    jax.tree.map(lambda one, many: np.testing.assert_array_equal(one, many[0]), run(None), run(50))


def test_a_policy_of_ones_own_needs_no_registration(own_policy):
    history = jb.simulate(jax.random.key(0), own_policy, jb.Normal(), MEAN, num_steps=200, num_trials=500)
    assert history.arms.shape == (500, 200)
    late = np.asarray(history.arms)[:, 150:]
    assert np.mean(late == 0) > np.mean(late == 2) + 0.1  # it learns
    found = jb.measure_bias(jax.random.key(0), own_policy, jb.Normal(), MEAN, num_steps=20, num_trials=20_000)
    assert (found.bias < 0).all()


def test_a_policy_may_be_three_functions_in_a_tuple():
    from typing import Any, NamedTuple

    class Triple(NamedTuple):
        init: Any
        log_probs: Any
        update: Any

    greedy = jb.Greedy(tau=1.0)
    triple = Triple(init=greedy.init, log_probs=greedy.log_probs, update=greedy.update)
    history = jb.simulate(jax.random.key(0), triple, jb.Normal(), MEAN, num_steps=10, num_trials=7)
    assert history.arms.shape == (7, 10)


def test_the_rewards_are_the_same_with_and_without_held_out():
    run = lambda held: jb.simulate(jax.random.key(3), jb.Greedy(), jb.Normal(), MEAN, 10, 50, held_out=held)
    np.testing.assert_array_equal(run(True).rewards, run(False).rewards)


@pytest.mark.parametrize(("num_steps", "num_arms"), [(2_000, 2), pytest.param(100_000, 100, marks=pytest.mark.slow)])
def test_long_trials_are_counted_right(num_steps, num_arms):
    """1,000 pulls of each arm: more than an 8-bit counter would hold, and 100,000 steps more than a 16-bit one."""
    policy, mean = jb.Uniform(), [0.5] * num_arms
    history = jb.simulate(jax.random.key(0), policy, jb.Bernoulli(), mean, num_steps)
    statistics = history.statistics
    assert int(statistics.pulls.sum()) == num_steps
    np.testing.assert_array_equal(statistics.pulls, np.bincount(history.arms, minlength=num_arms))
    np.testing.assert_array_equal(statistics.total, np.bincount(history.arms, np.asarray(history.rewards), num_arms))
    assert np.abs(np.asarray(statistics.pulls) - 1000).max() < 6 * np.sqrt(1000)
    streamed = jb.measure_bias(jax.random.key(0), policy, jb.Bernoulli(), mean, num_steps, 1)
    np.testing.assert_array_equal(streamed.pulls, statistics.pulls)
    np.testing.assert_allclose(streamed.bias, np.asarray(statistics.mean, np.float64) - 0.5, atol=1e-7)


def test_it_can_be_vmapped_over_settings_and_means():
    def pulls(tau, mean):
        return jb.simulate(jax.random.key(0), jb.Greedy(tau=tau), jb.Normal(), mean, 10, 20).statistics.pulls

    taus, means = jnp.array([0.5, 1.0, 2.0]), jnp.tile(jnp.asarray(MEAN), (3, 1))
    together = jax.jit(jax.vmap(pulls))(taus, means)
    for row in range(3):
        np.testing.assert_array_equal(together[row], pulls(taus[row], means[row]))


def test_new_values_do_not_recompile():
    from importlib import import_module

    chunk = import_module("jaxbias.simulation.trials")._simulate_chunk
    run = lambda seed, tau, epsilon, mean: jb.simulate(
        jax.random.key(seed), jb.EpsilonGreedy(epsilon=epsilon, tau=tau), jb.Normal(sigma=epsilon + 1), mean, 13, 21
    )
    run(0, 0.5, 0.1, [0.0, 1.0])
    before = chunk.cache_size()
    run(1, 0.7, 0.3, [0.5, 2.0])
    assert chunk.cache_size() == before
    run(1, 0.0, 0.3, [0.5, 2.0])  # no noise is another program
    assert chunk.cache_size() == before + 1


def test_float64_stays_float64():
    with jax.enable_x64(True):
        history = jb.simulate(jax.random.key(0), jb.LilUCB(tau=1.0), jb.Normal(), jnp.array(MEAN), 10, 5)
        assert history.rewards.dtype == jnp.float64
        single = jb.simulate(jax.random.key(0), jb.LilUCB(tau=1.0), jb.Normal(), jnp.array(MEAN, jnp.float32), 10, 5)
        assert single.rewards.dtype == jnp.float32


def test_one_arm_and_two_hundred():
    assert not jb.simulate(jax.random.key(0), jb.LilUCB(), jb.Normal(), [1.0], 5, 3).arms.any()
    many = jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), list(np.linspace(0, 1, 200)), 250, 3)
    assert (many.statistics.pulls >= 1).all()


class Probabilities:
    """The commonest mistake: probabilities in place of their logarithms."""

    def init(self, num_arms):
        return jnp.zeros(num_arms)

    def log_probs(self, state):
        return jax.nn.softmax(state)

    def update(self, state, arm, reward):
        return state.at[arm].add(reward)


class WrongShape(jb.Uniform):
    def log_probs(self, state):
        return jnp.zeros(7)


class Grows(jb.Uniform):
    def update(self, state, arm, reward):
        return (state, state)


BAD = [
    (dict(policy=jb.Greedy(tau=-1.0)), "policy.tau", "is -1.0; it must be 0 or more, and finite, or a function of the step"),
    (dict(policy=jb.Greedy(tau=float("nan"))), "policy.tau", "is nan; it must be 0 or more, and finite"),
    (dict(policy=jb.Greedy(ties="last")), "policy.ties", "is 'last'; it must be 'random' or 'first'"),
    (dict(policy=jb.EpsilonGreedy(epsilon=1.5)), "policy.epsilon", "is 1.5; it must be from 0 to 1"),
    (dict(policy=jb.EpsilonGreedy(epsilon="x")), "policy.epsilon", "is 'x'; it must be from 0 to 1"),
    (dict(policy=jb.LilUCB(delta=0.0)), "policy.delta", "is 0.0; it must be above 0 and below 1"),
    (dict(policy=jb.Thompson(prior_sigma=0.0)), "policy.prior_sigma", "is 0.0; it must be positive and finite"),
    (dict(policy=jb.Exp3(gamma=0.0)), "policy.gamma", "is 0.0; it must be above 0 and at most 1"),
    (dict(policy=jb.Greedy), "policy", "is the class Greedy; it must be an instance"),
    (dict(policy="greedy"), "policy", "is 'greedy', without init, log_probs, update; it must be"),
    (dict(policy=Probabilities()), "policy.log_probs", "exponentials sum to 3.297 and not to 1; return log-probabilities"),
    (dict(policy=WrongShape()), "policy.log_probs", r"returns shape \(7,\); it must be \(2,\), one for each arm"),
    (dict(policy=Grows()), "policy.update", "returns .*; it must be the shapes of init"),
    (dict(family=jb.Normal(sigma=0.0)), "family.sigma", "is 0.0; it must be positive"),
    (dict(family=jb.Normal(sigma=np.array([1.0, -1.0]))), "family.sigma", r"is \[ 1., -1.\]; it must be positive"),
    (dict(family=jb.Normal(sigma=np.ones(3))), "family.sigma", r"has shape \(3,\); it must be one number, or one for each of 2"),
    (dict(family=jb.Bernoulli(), mean=[0.5, 1.2]), "mean", "is .*1.2.*; it must be from 0 to 1 for each arm, with Bernoulli"),
    (dict(family="normal"), "family", "is 'normal'; it must be an object with sample"),
    (dict(mean=[0.0, float("nan")]), "mean", r"is \[0.0, nan\]; it must be finite"),
    (dict(mean=[]), "mean", r"has shape \(0,\); it must be one number for each arm"),
    (dict(mean=1.0), "mean", r"has shape \(\); it must be one number for each arm"),
    (dict(num_steps=1), "num_steps", "is 1; it must be from 2 .every arm is pulled once first. to 8388608, or more in float64"),
    (dict(num_steps=2**24), "num_steps", "is 16777216; it must be from 2"),
    (
        dict(policy=jb.Thompson(sigma=np.ones(3))),
        "policy.sigma",
        r"has shape \(3,\); it must be one number, or one for each of 2",
    ),
    (dict(policy=jb.BetaThompson()), "family", "is Normal.*; it must be one with rewards from 0 to 1 for BetaThompson"),
    (dict(mean=[0.0, 1e39]), "mean", r"is \[0.0, inf\]; it must be finite"),
    (dict(num_trials=0), "num_trials", "is 0; it must be from 1 to"),
    (dict(chunk_size=0), "chunk_size", "is 0; it must be 1 or more"),
]


@pytest.mark.parametrize(("change", "argument", "phrase"), BAD, ids=[f"{argument} {phrase[:20]}" for _, argument, phrase in BAD])
def test_bad_input_is_named(change, argument, phrase, unchecked):
    arguments = {"policy": jb.Greedy(), "family": jb.Normal(), "mean": [0.0, 1.0], "num_steps": 5, "num_trials": 2} | change
    for function in (jb.simulate, jb.measure_bias):
        with pytest.raises(jb.ArgumentError, match=phrase) as error:
            function(jax.random.key(0), **arguments)
        assert error.value.argument == argument


def test_chunks_of_many_arms_are_smaller():
    assert trials_at_once(2) == CHUNK
    assert trials_at_once(200) * 200 <= CHUNK_STATE < (trials_at_once(200) + 1) * 200
    wide = dict(policy=jb.Greedy(), family=jb.Normal(), mean=np.linspace(1, 0, 40), num_steps=50)
    run = lambda size: jb.measure_bias(jax.random.key(0), num_trials=3000, chunk_size=size, **wide)
    jax.tree.map(np.testing.assert_array_equal, run(None), run(512))
