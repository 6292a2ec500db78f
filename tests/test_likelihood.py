import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from conftest import POLICIES, Softmax

import jaxbias as jb
from jaxbias.likelihood import log_density, selection_log_probs

NOISY = {name: policy for name, policy in POLICIES.items() if "noisy" in name or name in ("thompson", "exp3", "uniform")}


@pytest.mark.parametrize("policy", [*NOISY.values(), Softmax(0.5)], ids=[*NOISY, "own"])
def test_it_is_the_policy_replayed(policy, x64):
    """Against a plain loop over the policy's own functions."""
    mean, family = jnp.array([1.0, 0.5, 0.2]), jb.Normal(sigma=jnp.array([1.0, 2.0, 0.5]))
    history = jb.simulate(jax.random.key(0), policy, family, mean, 9)
    state, expected, update, log_probs = policy.init(3), 0.0, jax.jit(policy.update), jax.jit(policy.log_probs)
    for step, (arm, reward) in enumerate(zip(history.arms, history.rewards, strict=True)):
        expected += scipy.stats.norm.logpdf(reward, mean[arm], family.sigma[arm])
        expected += 0.0 if step < 3 else float(log_probs(state)[arm])
        state = update(state, arm, reward)
    found = jax.jit(lambda rewards: log_density(policy, family, mean, history.arms, rewards, history.forced))(history.rewards)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("policy", [*NOISY.values(), Softmax(0.5)], ids=[*NOISY, "own"])
def test_its_gradients_are_finite_differences(policy):
    with jax.enable_x64(True):
        mean, family = jnp.array([1.0, 0.5]), jb.Normal()
        history = jb.simulate(jax.random.key(1), policy, family, mean, 6)
        value = jax.jit(lambda mean, rewards: log_density(policy, family, mean, history.arms, rewards, history.forced))
        for argument in (0, 1):
            arguments = [mean, history.rewards]
            gradient = jax.jit(jax.grad(value, argument))(*arguments)
            for entry in range(len(arguments[argument])):
                shift = jnp.zeros_like(arguments[argument]).at[entry].set(1e-5)
                up, down = (value(*[a + s * shift if i == argument else a for i, a in enumerate(arguments)]) for s in (1, -1))
                np.testing.assert_allclose(gradient[entry], (up - down) / 2e-5, atol=1e-4)


def test_forced_pulls_have_no_term():
    arms, rewards = jnp.array([0, 1, 1, 0]), jnp.array([0.1, 0.5, 0.2, 0.9])
    forced = jnp.array([True, True, False, True])
    found = selection_log_probs(jb.Greedy(tau=1.0), arms, rewards, forced, 2)
    np.testing.assert_allclose(found, [0.0, 0.0, jax.nn.log_softmax(jnp.array([0.1, 0.5]))[1], 0.0], rtol=1e-6)


def test_steps_in_blocks_give_the_same(monkeypatch):
    """Of many arms, few steps at a time: an integral for each would not fit in memory together."""
    from jaxbias import likelihood

    history = jb.simulate(jax.random.key(0), jb.Thompson(), jb.Normal(), [1.0, 0.5, 0.0], num_steps=20)
    found = []
    for cubes in (2**19, 27 * 6, 1):  # all at once, six at a time, one at a time
        monkeypatch.setattr(likelihood, "CUBES_AT_ONCE", cubes)
        found.append(likelihood.choice_log_probs(jb.Thompson(), history.arms, history.rewards, 3))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-5)
