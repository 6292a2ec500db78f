"""Policies with hundreds of arms, in blocks: the same arms as with all indices compared at every step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias._core.randomness import root_words, trial_words
from jaxbias.policies.many_arms import MANY_ARMS, BlockedPolicy
from jaxbias.simulation.steps import Batching, part_of, run_trials, start_trials, statistics_of
from jaxbias.simulation.trials import opened_steps, prepare

ARMS, STEPS, TRIALS = 130, 200, 4
MEAN = np.random.default_rng(0).permutation(np.linspace(0.9, 0.1, ARMS))  # so that good arms are in every block
POLICIES = {
    "lil-ucb": (jb.LilUCB(), jb.Normal()),
    "lil-ucb-first": (jb.LilUCB(ties="first"), jb.Normal()),  # without ties to fall back on all arms
    "first of ties": (jb.LilUCB(ties="first"), jb.Bernoulli()),
    "random ties": (jb.Greedy(), jb.Bernoulli()),  # of rewards of 0 and 1 most arms are tied at most steps
    "epsilon-greedy": (jb.EpsilonGreedy(epsilon=0.3), jb.Normal()),
}


def run(problem):
    words, steps = trial_words(root_words(jax.random.key(0)), jnp.uint32(0), TRIALS), opened_steps(STEPS, ARMS, Batching())
    progress = start_trials(problem, Batching(), TRIALS)
    progress, _ = run_trials(problem, words, progress, part_of(steps, 0, ARMS), lambda *_: None, opening=True)
    progress, arms = run_trials(problem, words, progress, part_of(steps, ARMS, STEPS), lambda _, outcome: outcome.arm)
    return statistics_of(progress), arms


@pytest.mark.parametrize("name", POLICIES)
def test_blocks_choose_the_same_arms(name):
    """Beside a subclass that does not say that its index is its own, which is compared in full."""
    policy, family = POLICIES[name]

    class Plain(type(policy)):
        pass

    _, problem = prepare(jax.random.key(0), policy, family, MEAN, STEPS, TRIALS)
    blocked, plain = problem.for_steps(STEPS), problem._replace(policy=Plain(**vars(policy)))
    assert isinstance(blocked.policy, BlockedPolicy)
    assert not isinstance(plain.policy.for_arms(ARMS), BlockedPolicy)
    found, expected = run(blocked), run(plain)
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_array_equal(found[0].pulls, expected[0].pulls)
    np.testing.assert_allclose(found[0].total, expected[0].total, rtol=1e-6)
    assert len(np.unique(found[1])) > 3


def test_one_step_as_the_policy_and_who_is_not_in_blocks():
    policy = jb.LilUCB(ties="first")
    blocked = policy.for_arms(MANY_ARMS)
    assert isinstance(blocked, BlockedPolicy)
    state, plain = blocked.init(MANY_ARMS), policy.init(MANY_ARMS)
    for arm, reward in ((jnp.int32(3), 1.0), (jnp.int32(3), 2.5), (jnp.int32(MANY_ARMS - 1), -1.0)):
        state, plain = blocked.update(state, arm, jnp.float32(reward)), policy.update(plain, arm, jnp.float32(reward))
    np.testing.assert_allclose(state.index.ravel()[:MANY_ARMS], policy.index(plain), rtol=1e-6)
    np.testing.assert_array_equal(state.largest, state.index.max(axis=1))
    np.testing.assert_allclose(blocked.log_probs(state), policy.log_probs(plain))
    for other in (jb.UCB1(), jb.LilUCB(tau=1.0), jb.Thompson()):
        assert other.for_arms(1000) is other
    assert policy.for_arms(5) is policy


def test_many_arms_in_every_simulation():
    """In `measure_bias`, in batches and with a stopping rule; bias as of the same trials recorded."""
    history = jb.simulate(jax.random.key(0), jb.LilUCB(), jb.Normal(), MEAN, STEPS, TRIALS)
    summary = jb.measure_bias(jax.random.key(0), jb.LilUCB(), jb.Normal(), MEAN, STEPS, TRIALS)
    np.testing.assert_allclose(summary.bias, np.mean(history.statistics.mean - MEAN[None], axis=0), atol=1e-5)
    batched = jb.simulate(jax.random.key(0), jb.LilUCB(), jb.Normal(), MEAN, STEPS, TRIALS, batch_size=20)
    assert (batched.statistics.pulls.sum(axis=1) == STEPS).all()
    rule = jb.StopAtMean(threshold=0.0, first=150)
    stopped = jb.simulate(jax.random.key(0), jb.LilUCB(), jb.Normal(), MEAN, STEPS, TRIALS, stop=rule)
    np.testing.assert_array_equal(stopped.arms[:, :150], history.arms[:, :150])
