import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.policies import sample_arm
from jaxbias.randomness import root_words, step_key, trial_words
from jaxbias.simulate import CHUNK, CHUNK_STATE, trials_at_once

MEAN = [1.0, 0.75, 0.5]


def test_a_trial_is_the_policy_step_by_step(policy):
    """One trial rebuilt in plain Python from the same keys, with the policy's own functions."""
    family = jb.Bernoulli()
    history = jb.simulate(jax.random.key(5), policy, family, MEAN, num_steps=9, num_trials=4)
    words = trial_words(root_words(jax.random.key(5)), jnp.uint32(0), 4)[:, 2]
    state, update = policy.init(3), jax.jit(policy.update)
    sample = jax.jit(lambda key, state: sample_arm(key, policy, state))
    for step in range(9):
        key, reward_key = (step_key(words, jnp.uint32(3 * step + purpose)) for purpose in (0, 1))
        arm = jnp.int32(step) if step < 3 else sample(key, state)
        reward = family.sample(reward_key, jnp.asarray(MEAN)[arm])
        assert (int(arm), float(reward)) == (int(history.arms[2, step]), float(history.rewards[2, step]))
        state = update(state, arm.astype(jnp.int32), reward)


def test_the_bits_do_not_depend_on_the_chunk(policy):
    run = lambda **options: jb.simulate(
        jax.random.key(1), policy, jb.Bernoulli(), MEAN, num_steps=12, num_trials=700, held_out=True, **options
    )
    whole = run()
    jax.tree.map(np.testing.assert_array_equal, whole, run(chunk_size=100))


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


def test_held_out_means_are_unbiased(policy):
    """200,000 trials would be better; 20,000 see a bias of 0.02."""
    history = jb.simulate(jax.random.key(3), policy, jb.Bernoulli(), [0.7, 0.4], 10, 20_000, held_out=True)
    held = jb.History(arms=history.arms, rewards=history.held_out, num_arms=2).statistics.mean
    error = np.asarray(held) - [0.7, 0.4]
    assert (np.abs(error.mean(axis=0)) < 4 * error.std(axis=0) / np.sqrt(20_000)).all()


def test_the_rewards_are_the_same_with_and_without_held_out():
    run = lambda held: jb.simulate(jax.random.key(3), jb.Greedy(), jb.Normal(), MEAN, 10, 50, held_out=held)
    np.testing.assert_array_equal(run(True).rewards, run(False).rewards)


def test_long_trials_are_counted_right():
    """T = 100,000 over 100 arms, 1,000 pulls each: more than an 8-bit or 16-bit counter, or a float32 of sums, would hold."""
    policy, num_steps = jb.Uniform(), 100_000
    history = jb.simulate(jax.random.key(0), policy, jb.Bernoulli(), [0.5] * 100, num_steps)
    statistics = history.statistics
    assert int(statistics.pulls.sum()) == num_steps
    np.testing.assert_array_equal(statistics.pulls, np.bincount(history.arms, minlength=100))
    np.testing.assert_array_equal(statistics.total, np.bincount(history.arms, np.asarray(history.rewards), 100))
    assert np.abs(np.asarray(statistics.pulls) - 1000).max() < 6 * np.sqrt(1000)
    streamed = jb.measure_bias(jax.random.key(0), policy, jb.Bernoulli(), [0.5] * 100, num_steps, 1)
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

    chunk = import_module("jaxbias.simulate")._simulate_chunk
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


class WrongShape(jb.Uniform):
    def log_probs(self, state):
        return jnp.zeros(7)


class Grows(jb.Uniform):
    def update(self, state, arm, reward):
        return (state, state)


BAD = [
    (
        dict(policy=jb.Greedy(tau=-1.0)),
        "policy.tau is -1.0; allowed: a finite number, 0 or more, or a function from the step to one",
    ),
    (dict(policy=jb.Greedy(tau=float("nan"))), "policy.tau is nan; allowed: a finite number, 0 or more"),
    (dict(policy=jb.Greedy(ties="last")), "policy.ties is 'last'; allowed: 'random' or 'first'"),
    (dict(policy=jb.EpsilonGreedy(epsilon=1.5)), "policy.epsilon is 1.5; allowed: a number from 0 to 1"),
    (dict(policy=jb.EpsilonGreedy(epsilon="x")), "policy.epsilon is 'x'; allowed: a number from 0 to 1"),
    (dict(policy=jb.LilUCB(delta=0.0)), "policy.delta is 0.0; allowed: a number above 0 and below 1"),
    (dict(policy=jb.Thompson(prior_sigma=0.0)), "policy.prior_sigma is 0.0; allowed: a finite number above 0"),
    (dict(policy=jb.Exp3(gamma=0.0)), "policy.gamma is 0.0; allowed: a number above 0 and at most 1"),
    (dict(policy=jb.Greedy), "policy is the class Greedy; allowed: an instance of it"),
    (dict(policy="greedy"), "policy is 'greedy', without init, log_probs, update; allowed"),
    (dict(policy=WrongShape()), r"policy.log_probs returns shape \(7,\); allowed: \(2,\), one for each arm"),
    (dict(policy=Grows()), "policy.update returns .*; allowed: the shapes of init"),
    (dict(family=jb.Normal(sigma=0.0)), "family.sigma is 0.0; allowed: a finite number above 0"),
    (dict(family=jb.Normal(sigma=np.array([1.0, -1.0]))), r"family.sigma is \[ 1. -1.\]; allowed: a finite number above 0"),
    (
        dict(family=jb.Normal(sigma=np.ones(3))),
        r"family has a setting of shape \(3,\); allowed: one number, or one for each of 2",
    ),
    (dict(family=jb.Bernoulli(), mean=[0.5, 1.2]), "mean is .*1.2.*; Bernoulli allows a number from 0 to 1 for each arm"),
    (dict(family="normal"), "family is 'normal'; allowed: an object with sample"),
    (dict(mean=[0.0, float("nan")]), r"mean is \[0.0, nan\]; allowed: finite numbers"),
    (dict(mean=[]), r"mean has shape \(0,\); allowed: one axis"),
    (dict(mean=1.0), r"mean has shape \(\); allowed: one axis"),
    (dict(num_steps=1), "num_steps is 1; allowed: 2 .every arm is pulled once first. to 8388608, or more in float64"),
    (dict(num_steps=2**24), "num_steps is 16777216; allowed: 2"),
    (dict(policy=jb.Thompson(sigma=np.ones(3))), r"policy.sigma has shape \(3,\); allowed: one number, or one for each of 2"),
    (dict(policy=jb.BetaThompson()), "family is Normal.*; allowed with BetaThompson: one with rewards from 0 to 1"),
    (dict(mean=[0.0, 1e39]), r"mean is \[0.0, inf\]; allowed: finite numbers"),
    (dict(num_trials=0), "num_trials is 0; allowed: 1 to"),
    (dict(chunk_size=0), "chunk_size is 0; allowed: 1 or more"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=lambda value: None if isinstance(value, dict) else value[:30])
def test_bad_input_is_named(change, message, unchecked):
    arguments = {"policy": jb.Greedy(), "family": jb.Normal(), "mean": [0.0, 1.0], "num_steps": 5, "num_trials": 2} | change
    for function in (jb.simulate, jb.measure_bias):
        with pytest.raises(ValueError, match=message):
            function(jax.random.key(0), **arguments)


def test_chunks_of_many_arms_are_smaller():
    assert trials_at_once(2) == CHUNK
    assert trials_at_once(200) * 200 <= CHUNK_STATE < (trials_at_once(200) + 1) * 200
    wide = dict(policy=jb.Greedy(), family=jb.Normal(), mean=np.linspace(1, 0, 40), num_steps=50)
    run = lambda size: jb.measure_bias(jax.random.key(0), num_trials=3000, chunk_size=size, **wide)
    jax.tree.map(np.testing.assert_array_equal, run(None), run(512))
