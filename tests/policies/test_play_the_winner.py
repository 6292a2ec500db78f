"""The play-the-winner urn against the same urn filled ball by ball, in fractions."""

import itertools
import math
import operator
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.likelihood import selection_log_probs


def fill(urn, arm, reward, added):
    """Puts in what one reward puts in."""
    for other in range(len(urn)):
        if other == arm:
            urn[arm] += added * reward
        else:
            urn[other] += added * (1 - reward) / (len(urn) - 1)


def chance_of_arms(arms, rewards, balls, added=Fraction(1)):
    """The probability of these arms, all of them drawn from the urn, where they give these rewards."""
    urn, chance = list(map(Fraction, balls)), Fraction(1)
    for arm, reward in zip(arms, rewards, strict=True):
        chance *= urn[arm] / sum(urn)
        fill(urn, arm, reward, added)
    return chance


def log_chance(policy, arms, rewards, num_arms):
    """The same by the policy, for a batch of logs with no forced pulls."""
    none_forced = jnp.zeros(np.shape(arms)[1], bool)
    score = jax.vmap(lambda arms, rewards: jnp.sum(selection_log_probs(policy, arms, rewards, none_forced, num_arms)))
    return jax.jit(score)(jnp.asarray(arms, jnp.int32), jnp.asarray(rewards, float))


@pytest.mark.parametrize(
    ("balls", "added"),
    [((1, 1), Fraction(1)), ((1, 1, 1), Fraction(1)), ((3, Fraction(1, 2)), Fraction(2)), ((1, 2, 5), Fraction(3, 4))],
    ids=["RPW(1, 1)", "three arms", "per arm", "three per arm"],
)
@pytest.mark.parametrize("num_steps", [1, 3, 5])
def test_every_sequence_has_the_urns_probability(balls, added, num_steps, x64):
    """All arms and all rewards of 0 and 1: the probabilities are the urn's, and with those of the rewards they sum to one."""
    num_arms, mean = len(balls), [Fraction(2, 3), Fraction(1, 5), Fraction(1, 2)]
    logs = list(itertools.product(itertools.product(range(num_arms), (0, 1)), repeat=num_steps))
    exact = [chance_of_arms(*zip(*log, strict=True), balls, added) for log in logs]
    chance_of_rewards = [math.prod(mean[arm] if reward else 1 - mean[arm] for arm, reward in log) for log in logs]
    assert sum(map(operator.mul, exact, chance_of_rewards)) == 1
    arms, rewards = np.moveaxis(np.array(logs), -1, 0)
    policy = jb.policies.PlayTheWinner(balls=jnp.asarray(list(map(float, balls))), added=float(added))
    found = log_chance(policy, arms, rewards, num_arms)
    assert found.dtype == jnp.result_type(float)
    np.testing.assert_allclose(np.exp(found), np.array(exact, float), rtol=1e-13 if x64 else 2e-6)


def test_the_ecmo_trial(x64):
    """A success of the new treatment, a death under the old, ten more successes: 1/2 * 1/3 * 3/4 * ... * 12/13."""
    arms, rewards = [0, 1] + [0] * 10, [1, 0] + [1] * 10
    assert chance_of_arms(arms, rewards, (1, 1)) == Fraction(1, 26)
    found = log_chance(jb.policies.PlayTheWinner(), [arms], [rewards], 2)
    np.testing.assert_allclose(found, [-np.log(26)], rtol=1e-13 if x64 else 1e-6)


@pytest.mark.parametrize("num_arms", [2, 3])
def test_a_reward_between_is_shared(num_arms, x64):
    arms, rewards = [0, 1, 1, 0, num_arms - 1], [Fraction(1, 4), Fraction(7, 8), Fraction(1, 2), Fraction(1), Fraction(0)]
    exact = chance_of_arms(arms, rewards, (1,) * num_arms, Fraction(2))
    found = log_chance(jb.policies.PlayTheWinner(added=2.0), [arms], [list(map(float, rewards))], num_arms)
    np.testing.assert_allclose(np.exp(found), [float(exact)], rtol=1e-13 if x64 else 2e-6)


def test_what_is_added_may_depend_on_the_arm_pulled():
    """Arm 0 failed and adds 2, a ball each to the others; arm 1 succeeded and adds 4: urn 1, 1 + 1 + 4, 1 + 1."""
    policy = jb.policies.PlayTheWinner(added=jnp.array([2.0, 4.0, 8.0]))
    state = jb.policies.ArmStatistics(pulls=jnp.array([1, 1, 0]), total=jnp.array([0.0, 1.0, 0.0]))
    np.testing.assert_allclose(jnp.exp(policy.log_probs(state)), np.array([1, 6, 2]) / 9, rtol=1e-6)


@pytest.mark.parametrize("balls", [1.0, 1e-3, 1e3])
def test_a_million_pulls_lose_no_digits(balls):
    pulls, total = [600_000, 400_000, 3], [150_000, 399_999, 0]
    failures = [a - b for a, b in zip(pulls, total, strict=True)]
    urn = np.array([balls + total[k] + (sum(failures) - failures[k]) / 2 for k in range(3)])
    state = jb.policies.ArmStatistics(pulls=jnp.array(pulls), total=jnp.array(total, float))
    np.testing.assert_allclose(jnp.exp(jb.policies.PlayTheWinner(balls).log_probs(state)), urn / urn.sum(), rtol=1e-5)


def test_without_added_balls_nothing_is_learnt():
    policy = jb.policies.PlayTheWinner(balls=jnp.array([1.0, 3.0]), added=0.0)
    np.testing.assert_allclose(jb.bias.exact_bias(policy, [0.3, 0.8], 8), 0, atol=1e-6)


@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_one_arm_is_sure(reward, x64):
    policy = jb.policies.PlayTheWinner()

    @jax.jit
    def after(reward, keys):
        state = policy.update(policy.init(1), jnp.int32(0), reward)
        return policy.log_probs(state), jax.vmap(lambda key: policy.sample(key, state))(keys)

    log_probs, drawn = after(jnp.asarray(reward), jax.random.split(jax.random.key(0), 100))
    np.testing.assert_array_equal(log_probs, [0.0])
    assert not drawn.any()


@pytest.mark.parametrize(
    "policy",
    [
        jb.policies.PlayTheWinner(balls=jnp.array([0.2, 1.0, 0.5, 3.0]), added=0.3),
        jb.policies.PlayTheWinner(added=jnp.array([0.0, 1.0, 2.5, 0.1])),
    ],
    ids=["balls", "added"],
)
def test_balls_are_drawn_as_often_as_they_lie_there(policy):
    """100,000 draws: every arm's share within 4.5 standard errors of its probability."""
    state = jb.policies.ArmStatistics(pulls=jnp.array([4, 0, 9, 2]), total=jnp.array([1.5, 0.0, 2.0, 2.0]))
    probability = np.exp(np.asarray(policy.log_probs(state), np.float64))
    keys = jax.random.split(jax.random.key(1), 100_000)
    drawn = np.bincount(jax.jit(jax.vmap(lambda key: policy.sample(key, state)))(keys), minlength=4) / 100_000
    assert (np.abs(drawn - probability) < 4.5 * np.sqrt(probability * (1 - probability) / 100_000)).all()


def test_settings_are_leaves():
    """A sweep over what is added is a vmap, and agrees with one at a time."""
    state = jb.policies.ArmStatistics(pulls=jnp.array([2, 1]), total=jnp.array([2.0, 0.0]))
    swept = jax.vmap(lambda added: jb.policies.PlayTheWinner(added=added).log_probs(state))(jnp.array([0.0, 1.0, 5.0]))
    np.testing.assert_allclose(jnp.exp(swept)[:, 0], [1 / 2, 4 / 5, 16 / 17], rtol=1e-6)


@pytest.mark.parametrize(
    ("policy", "family", "message"),
    [
        (jb.policies.PlayTheWinner(balls=0.0), jb.Bernoulli(), "policy.balls is 0.0; it must be positive and finite"),
        (jb.policies.PlayTheWinner(added=-1.0), jb.Bernoulli(), "policy.added is -1.0; it must be 0 or more, and finite"),
        (jb.policies.PlayTheWinner(balls=jnp.ones(3)), jb.Bernoulli(), r"policy.balls has shape \(3,\); it must be one number"),
        (
            jb.policies.PlayTheWinner(),
            jb.Normal(),
            "family is Normal.*; it must be one with rewards from 0 to 1 for PlayTheWinner",
        ),
    ],
)
def test_bad_input_is_named(policy, family, message):
    with pytest.raises(ValueError, match=message):
        jb.simulate(jax.random.key(0), policy, family, [0.5, 0.5], 4)
