import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import jaxbias as jb
from jaxbias.likelihood import selection_log_probs, trial_log_density
from tests.conftest import POLICIES, Softmax

NOISY = {name: policy for name, policy in POLICIES.items() if "noisy" in name or name in ("thompson", "exp3", "uniform")}


ARMS = np.array([0, 1, 2, 1, 0, 2, 2, 0, 1], np.int32)
REWARDS = np.array([0.9, 0.4, 0.1, 1.3, -0.2, 0.6, 0.3, 1.1, 0.2])
by_policy = pytest.mark.parametrize("policy", [*NOISY.values(), Softmax(0.5)], ids=[*NOISY, "own"])


@by_policy
def test_it_is_the_policy_replayed(policy, x64):
    """Against a plain loop over the policy's own functions, and SciPy's density of the rewards."""
    mean, family = jnp.array([1.0, 0.5, 0.2]), jb.Normal(sigma=jnp.array([1.0, 2.0, 0.5]))
    arms, rewards = jnp.asarray(ARMS), jnp.asarray(REWARDS, float)

    @jax.jit
    def both(arms, rewards):
        def step(state, now):
            arm, reward = now
            after = jax.tree.map(lambda new, old: new.astype(old.dtype), policy.update(state, arm, reward), state)
            return after, policy.log_probs(state)[arm]

        _, chosen = jax.lax.scan(step, jax.tree.map(jnp.asarray, policy.init(3)), (arms, rewards))
        return chosen, trial_log_density(policy, family, mean, arms, rewards, jnp.arange(9) < 3)

    chosen, found = both(arms, rewards)
    expected = scipy.stats.norm.logpdf(REWARDS, np.asarray(mean)[ARMS], np.asarray(family.sigma)[ARMS]).sum()
    np.testing.assert_allclose(found, expected + np.asarray(chosen, np.float64)[3:].sum(), rtol=1e-4)


@by_policy
def test_its_gradients_are_finite_differences(policy):
    with jax.enable_x64(True):
        arms, forced = jnp.asarray(ARMS[[0, 1, 3, 4, 7, 8]]), jnp.arange(6) < 2
        start = jnp.concatenate([jnp.array([1.0, 0.5]), jnp.asarray(REWARDS[[0, 1, 3, 4, 7, 8]])])
        value = lambda both: trial_log_density(policy, jb.Normal(), both[:2], arms, both[2:], forced)
        gradient = jax.jit(jax.grad(value))(start)
        shifts = 1e-5 * jnp.eye(8)
        values = jax.jit(lambda points: jax.lax.map(value, points))(jnp.concatenate([start[None] + shifts, start[None] - shifts]))
        np.testing.assert_allclose(gradient, (values[:8] - values[8:]) / 2e-5, atol=1e-4)


def test_forced_pulls_have_no_term():
    arms, rewards = jnp.array([0, 1, 1, 0]), jnp.array([0.1, 0.5, 0.2, 0.9])
    forced = jnp.array([True, True, False, True])
    found = selection_log_probs(jb.Greedy(tau=1.0), arms, rewards, forced, 2)
    np.testing.assert_allclose(found, [0.0, 0.0, jax.nn.log_softmax(jnp.array([0.1, 0.5]))[1], 0.0], rtol=1e-6)


@pytest.mark.slow
def test_steps_in_blocks_give_the_same(monkeypatch):
    """Of many arms, few steps at a time: an integral for each would not fit in memory together."""
    from jaxbias import likelihood

    history = jb.simulate(jax.random.key(0), jb.Thompson(), jb.Normal(), [1.0, 0.5, 0.0], num_steps=20)
    found = []
    for cubes in (2**19, 27 * 6, 1):  # all at once, six at a time, one at a time
        monkeypatch.setattr(likelihood, "CUBES_AT_ONCE", cubes)
        run = jax.jit(lambda arms, rewards: likelihood.choice_log_probs(jb.Thompson(), arms, rewards, 3))  # traced anew
        found.append(run(history.arms, history.rewards))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-5)
