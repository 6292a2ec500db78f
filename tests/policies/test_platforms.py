"""Floors, top-two sampling, warm-up and KL-UCB: each against its definition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.policies import KLUCB, ArmStatistics, WarmUp
from jaxbias.policy_fit import fit_settings

STATE = ArmStatistics(pulls=jnp.array([5, 4, 9]), total=jnp.array([3.0, 1.0, 6.0]))


def test_top_two_by_drawing_again_until_another_arm_comes():
    policy = jb.TopTwo(jb.Thompson(), beta=0.7)
    p = np.exp(np.asarray(jb.Thompson().log_probs(STATE), float))
    p, random = p / p.sum(), np.random.default_rng(0)
    first, second = random.choice(3, 400_000, p=p), random.choice(3, 400_000, p=p)
    again = random.random(first.size) > 0.7
    while (same := again & (second == first)).any():
        second[same] = random.choice(3, same.sum(), p=p)
    share = np.bincount(np.where(again, second, first), minlength=3) / first.size
    np.testing.assert_allclose(np.exp(policy.log_probs(STATE)), share, atol=4 * 0.5 / np.sqrt(first.size))
    sure = ArmStatistics(pulls=jnp.array([10_000, 10_000, 10_000]), total=jnp.array([9e3, 1e3, 0.0]))
    np.testing.assert_allclose(jax.nn.logsumexp(policy.log_probs(sure)), 0, atol=1e-5)
    np.testing.assert_allclose(np.exp(policy.log_probs(sure))[0], 0.7, atol=1e-5)


def test_a_floor_is_a_mixture_and_can_be_found_in_a_log():
    policy = jb.Floored(jb.Greedy(tau=0.5), floor=0.08)
    expected = 0.08 + (1 - 3 * 0.08) * np.exp(jb.Greedy(tau=0.5).log_probs(STATE))
    np.testing.assert_allclose(np.exp(policy.log_probs(STATE)), expected, rtol=1e-6)
    assert policy.keeps_statistics
    assert jb.Floored(jb.BetaThompson()).unit_rewards
    history = jb.simulate(jax.random.key(0), jb.Floored(jb.Greedy(), floor=0.08), jb.Normal(), [1.0, 0.5, 0.0], num_steps=1500)
    found = fit_settings(history, jb.Floored(jb.Greedy()), ["floor"]).fitted["floor"]
    assert found.lower < 0.08 < found.upper
    assert found.upper - found.lower < 0.05
    assert jb.check_fit(jax.random.key(1), history, jb.Floored(jb.Greedy(), floor=0.08)).p_value > 0.01
    with pytest.raises(jb.ArgumentError, match=r"policy.floor is 0.4.*at most 1 / 3"):
        jb.simulate(jax.random.key(0), jb.Floored(jb.Greedy(), floor=0.4), jb.Normal(), [1.0, 0.5, 0.0], num_steps=20)


def test_a_warm_up_is_uniform_and_then_the_policy():
    policy = WarmUp(jb.Greedy(ties="first"), num_steps=30)
    history = jb.simulate(jax.random.key(0), policy, jb.Normal(), [2.0, 0.0], num_steps=40, num_trials=400)
    early = np.asarray(history.arms)[:, 2:30]
    assert abs(early.mean() - 0.5) < 4 * 0.5 / np.sqrt(early.size)
    pulls, rewards = np.asarray(history.arms)[:, :30], np.asarray(history.rewards)[:, :30]
    means = np.stack([np.where(pulls == arm, rewards, 0).sum(axis=1) / (pulls == arm).sum(axis=1) for arm in (0, 1)], axis=1)
    np.testing.assert_array_equal(np.asarray(history.arms)[:, 30], means.argmax(axis=1))


def test_kl_ucb_against_its_definition():
    found, mean = KLUCB(c=3.0).index(STATE), np.array([0.6, 0.25, 6 / 9])
    limit = np.log(18) + 3 * np.log(np.log(18))
    kl = lambda p, q: p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    np.testing.assert_allclose(kl(mean, np.asarray(found, float)) * np.array([5, 4, 9]), limit, rtol=1e-4)
    assert (found > mean).all()
