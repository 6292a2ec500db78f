"""What every policy must do, the built-in ones and one's own."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.policies import sample_arm
from jaxbias.policies.noise import tie_priorities


def replay(policy, num_arms, arms, rewards):
    state, update = policy.init(num_arms), jax.jit(policy.update)
    for arm, reward in zip(arms, rewards, strict=True):
        state = update(state, jnp.int32(arm), jnp.asarray(reward, float))
    return state


STATES = [([0, 1, 2], [0.0, 1.0, 1.0]), ([0, 1, 2, 1, 2, 2], [1.0, 1.0, 0.0, 0.0, 1.0, 1.0]), ([0, 1, 2], [1.0, 1.0, 1.0])]


@pytest.mark.parametrize(("arms", "rewards"), STATES, ids=["open", "longer", "tied"])
def test_log_probs_are_normalised_and_drawn_from(policy, arms, rewards, x64):
    """40,000 draws: every arm's share within 4.5 standard errors of its probability."""
    state = replay(policy, 3, arms, rewards)
    log_probs = jax.jit(policy.log_probs)(state)
    assert log_probs.shape == (3,)
    assert log_probs.dtype == jnp.result_type(float)
    probability = np.exp(np.asarray(log_probs, np.float64))
    np.testing.assert_allclose(probability.sum(), 1.0, atol=1e-6)
    keys = jax.random.split(jax.random.key(0), 40_000)
    drawn = np.bincount(jax.jit(jax.vmap(lambda key: sample_arm(key, policy, state)))(keys), minlength=3) / 40_000
    stderr = np.sqrt(probability * (1 - probability) / 40_000)
    assert (np.abs(drawn - probability) <= 4.5 * stderr + 1e-7).all()


def test_all_arm_sequences_sum_to_one(policy):
    """For fixed rewards of each pull, the probabilities of all sequences of six arms sum to one."""
    rewards = np.array([[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0]])
    sequences = jnp.array(list(itertools.product(range(3), repeat=3)))

    def score(sequence):
        state = replay(policy, 3, [0, 1, 2], rewards[:, 0])
        log_prob, pulls = 0.0, jnp.ones(3, jnp.int32)
        for arm in sequence:
            log_prob += policy.log_probs(state)[arm]
            state = policy.update(state, arm, jnp.asarray(rewards)[arm, pulls[arm]])
            pulls = pulls.at[arm].add(1)
        return log_prob

    np.testing.assert_allclose(jnp.exp(jax.jit(jax.vmap(score))(sequences)).sum(), 1.0, atol=1e-5)


def test_the_gradient_of_what_was_selected_is_finite(policy):
    """With respect to the rewards, of an arm with a probability above zero."""
    if isinstance(policy, jb.BetaThompson | jb.BetaExplorationSampling):
        return  # its rewards are 0 and 1

    def selected(rewards):
        state = replay(policy, 3, [0, 1, 2], list(rewards))
        log_probs = policy.log_probs(state)
        return log_probs[1]

    value, gradient = jax.jit(jax.value_and_grad(selected))(jnp.array([0.1, 0.9, 0.4]))
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_noiseless_log_probs_are_exact():
    tied = jb.ArmStatistics(pulls=jnp.array([3, 6, 1]), total=jnp.array([1.0, 2.0, 0.0]))
    np.testing.assert_array_equal(jb.Greedy(ties="first").log_probs(tied), [0.0, -np.inf, -np.inf])
    np.testing.assert_allclose(jb.Greedy().log_probs(tied), [-np.log(2), -np.log(2), -np.inf])
    gradient = jax.jacobian(lambda total: jb.Greedy().log_probs(tied._replace(total=total)))(tied.total)
    np.testing.assert_array_equal(gradient, np.zeros((3, 3)))


@pytest.mark.parametrize("tau", [1e-30, 1e-6, 1e-3])
def test_tau_near_zero_is_the_noiseless_policy(tau):
    state = jb.ArmStatistics(pulls=jnp.array([1, 1]), total=jnp.array([0.5, 0.1]))
    np.testing.assert_allclose(np.exp(jb.Greedy(tau=tau).log_probs(state)), [1.0, 0.0], atol=1e-6)


def test_a_sweep_over_tau_may_pass_through_zero():
    """A tau that is traced may be zero: ties are then broken at random, as without noise."""
    state = jb.ArmStatistics(pulls=jnp.array([1, 1, 1]), total=jnp.array([1.0, 1.0, 0.0]))
    found = jax.vmap(lambda tau: jb.Greedy(tau=tau).log_probs(state))(jnp.array([0.0, 1.0]))
    np.testing.assert_allclose(found[0], jb.Greedy().log_probs(state))
    np.testing.assert_allclose(found[1], jb.Greedy(tau=1.0).log_probs(state))
    keys = jax.random.split(jax.random.key(0), 10_000)
    drawn = jax.vmap(lambda key: jb.Greedy(tau=jnp.array(0.0)).sample(key, state))(keys)
    np.testing.assert_allclose(np.bincount(drawn, minlength=3) / 10_000, [0.5, 0.5, 0.0], atol=0.02)


def test_tau_may_be_a_schedule_over_steps():
    state = jb.ArmStatistics(pulls=jnp.array([3, 1]), total=jnp.array([3.0, 0.0]))
    schedule = jb.Greedy(tau=lambda step: 2.0 / jnp.sqrt(step.astype(float)))
    np.testing.assert_allclose(schedule.log_probs(state), jb.Greedy(tau=1.0).log_probs(state), rtol=1e-6)
    history = jb.simulate(jax.random.key(0), schedule, jb.Normal(), [1.0, 0.0], num_steps=10, num_trials=3)
    assert history.arms.shape == (3, 10)


def test_ties_are_shared_evenly():
    """Three tied arms of five, 90,000 draws: each a third within 4.5 standard errors."""
    state = jb.ArmStatistics(pulls=jnp.ones(5, jnp.int32), total=jnp.array([1.0, 0.0, 1.0, 0.5, 1.0]))
    keys = jax.random.split(jax.random.key(3), 90_000)
    drawn = np.bincount(jax.vmap(lambda key: jb.Greedy().sample(key, state))(keys), minlength=5) / 90_000
    np.testing.assert_allclose(drawn, np.array([1, 0, 1, 0, 1]) / 3, atol=4.5 * np.sqrt(2 / 9 / 90_000))


def test_of_many_tied_arms_the_one_with_the_highest_priority():
    """Forty arms, compared in groups, with ties within groups and across them; against the same choice in NumPy."""
    keys = jax.random.split(jax.random.key(4), 300)
    total = jnp.asarray(np.random.default_rng(0).integers(0, 4, (300, 40)), jnp.float32)
    choose = lambda key, total: jb.Greedy().sample(key, jb.ArmStatistics(pulls=jnp.ones(40, jnp.int32), total=total))
    words = jax.vmap(lambda key: jax.random.bits(key, (), jnp.uint32))(keys)
    priorities = np.asarray(jax.vmap(lambda word: tie_priorities(word, 40))(words)).astype(np.int64)
    expected = np.argmax(np.where(total == np.max(total, axis=1, keepdims=True), priorities, 0), axis=1)
    np.testing.assert_array_equal(jax.vmap(choose)(keys, total), expected)
    np.testing.assert_array_equal([choose(*trial) for trial in zip(keys[:5], total[:5], strict=True)], expected[:5])


def test_lil_ucb_is_the_papers_index():
    state = jb.ArmStatistics(pulls=jnp.array([1, 7]), total=jnp.array([0.5, 1.4]))
    width = [2 * 1.1 * np.sqrt(2 * 1.01 * np.log(np.log(1.01 * pulls) / 0.005) / pulls) for pulls in (1, 7)]
    np.testing.assert_allclose(jb.LilUCB().index(state), np.array([0.5, 0.2]) + width, rtol=1e-5)


def test_ucb1_is_auers_index():
    state = jb.ArmStatistics(pulls=jnp.array([1, 7]), total=jnp.array([0.5, 1.4]))
    np.testing.assert_allclose(
        jb.UCB1().index(state), np.array([0.5, 0.2]) + np.sqrt(2 * np.log(8) / np.array([1, 7])), rtol=1e-6
    )


def test_exp3_by_hand():
    """Two arms, gamma 1/2: after arm 0 gave 1 with probability 1/2, its weight is exp(1/2 * 2 / 2)."""
    state = replay(jb.Exp3(gamma=0.5), 2, [0], [1.0])
    share = np.exp(0.5) / (1 + np.exp(0.5))
    np.testing.assert_allclose(jnp.exp(jb.Exp3(gamma=0.5).log_probs(state))[0], 0.5 * share + 0.25, rtol=1e-6)


def test_thompson_posterior_is_the_papers():
    location, scale = jb.Thompson(prior_mean=1.0, prior_sigma=5.0, sigma=2.0).posterior(
        jb.ArmStatistics(pulls=jnp.array([4]), total=jnp.array([8.0]))
    )
    precision = 1 / 25 + 4 / 4
    np.testing.assert_allclose(location, [(1 / 25 + 8 / 4) / precision], rtol=1e-6)
    np.testing.assert_allclose(scale, [precision**-0.5], rtol=1e-6)


def test_one_arm_is_always_pulled(policy):
    state = replay(policy, 1, [0], [1.0])
    np.testing.assert_allclose(policy.log_probs(state), [0.0], atol=1e-6)
