"""Policies that see something else than the rewards."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb

KEY = jax.random.key(0)


def test_what_changes_nothing_changes_nothing():
    """A change of scale does not move Greedy; limits that no reward reaches move nothing: bit for bit."""
    options = dict(num_steps=12, num_trials=50)
    plain = jb.simulate(KEY, jb.Greedy(), jb.Normal(), [1.0, 0.5], **options)
    for policy in (jb.Transformed(jb.Greedy(), lambda reward: 2 * reward), jb.Clipped(jb.Greedy(), low=-99, high=99.0)):
        found = jb.simulate(KEY, policy, jb.Normal(), [1.0, 0.5], **options)
        np.testing.assert_array_equal(found.arms, plain.arms)
        np.testing.assert_array_equal(found.rewards, plain.rewards)


def test_it_sees_what_it_is_said_to_see():
    """Rewards of 0 and 1 turned round: Greedy then pulls what fails, with the exact bias of Greedy at the opposite means."""
    turned = jb.Transformed(jb.Greedy(), lambda reward: 1 - reward)
    exact = jb.bias.exact_bias(jb.Greedy(), [0.4, 0.7], num_steps=7)
    found = jb.measure_bias(KEY, turned, jb.Bernoulli(), [0.6, 0.3], num_steps=7, num_trials=50_000)
    assert (np.abs(found.bias + exact) < 4 * found.bias_stderr).all()
    assert (found.bias > 10 * found.bias_stderr).all()


@pytest.mark.slow
def test_conditional_likelihood_of_a_transformed_reward(maximum):
    policy = jb.Transformed(jb.Greedy(tau=0.5), jnp.tanh)
    arms, rewards = np.array([0, 1, 0, 1, 1]), np.array([0.9, 0.1, 1.2, 0.8, -0.3])
    expected = maximum(policy, arms, rewards, np.ones(2))
    history = jb.History(arms=jnp.asarray(arms), rewards=jnp.asarray(rewards, float), num_arms=2)
    found = jb.conditional_mle(KEY, history, policy, jb.Normal(), num_chains=8)
    np.testing.assert_allclose(found.mean, expected, atol=5 * float(found.diagnostics["monte_carlo_error"].max()))
    plain = maximum(jb.Greedy(tau=0.5), arms, rewards, np.ones(2))
    assert np.abs(plain - expected).max() > 8 * float(found.diagnostics["monte_carlo_error"].max())


@pytest.mark.slow
def test_matched():
    policy, mean = jb.Clipped(jb.Greedy(), low=0.0, high=1.0), [1.0, 0.75]
    history = jb.simulate(KEY, policy, jb.Normal(), mean, num_steps=20, num_trials=1000)
    before = np.asarray(history.statistics.mean) - mean
    after = np.asarray(jb.mean_matching(KEY, history, policy, jb.Normal()).mean) - mean
    stderr = after.std(axis=0) / np.sqrt(1000)
    assert (np.abs(after.mean(axis=0)) < 0.3 * np.abs(before.mean(axis=0)) + 3 * stderr).all()


def test_the_policy_inside_is_checked(unchecked):
    with pytest.raises(ValueError, match=r"policy\.tau is -1.0; it must be 0 or more, and finite"):
        jb.simulate(KEY, jb.Clipped(jb.Greedy(tau=-1.0), low=0.0, high=1.0), jb.Normal(), [1.0, 0.5], num_steps=5)
