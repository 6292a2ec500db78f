"""The derivative of the conditional MLE against central differences of the whole estimator with the same key, in float64."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.estimators.conditional_mle import routes
from jaxbias.estimators.estimate import Status

KEY = jax.random.key(1)
MEANS = {"normal": [1.0, 0.75, 0.5, 0.38, 0.25], "bernoulli": [0.6, 0.5, 0.4, 0.55, 0.45]}
STEP = 0.05  # of a central difference, in standard deviations of a reward


def simulated(policy, family, num_steps, num_arms, seed=5):
    means = MEANS["normal" if isinstance(family, jb.Normal) else "bernoulli"][:num_arms]
    return jb.simulate(jax.random.key(seed), policy, family, means, num_steps=num_steps)


def check_rewards(history, policy, family, tolerance=0.02, step=STEP, **options):
    """A row of each arm: the two estimates of every difference are one batch of logs under one key."""
    moved = lambda rewards: dataclasses.replace(history, rewards=rewards)
    mean = jax.jit(lambda rewards: jb.conditional_mle(KEY, moved(rewards), policy, family, **options).mean)
    jacobian = np.asarray(jax.jacrev(mean)(history.rewards))
    rows = [int(np.flatnonzero(np.asarray(history.arms) == arm)[-1]) for arm in range(history.num_arms)]
    away = lambda row, by: mean(history.rewards.at[row].add(by))
    differences = np.stack([(away(row, step) - away(row, -step)) / (2 * step) for row in rows], axis=1)
    np.testing.assert_allclose(jacobian[:, rows], differences, atol=tolerance * np.abs(differences).max())
    return jacobian


def test_normal_rewards():
    """And a shift of all rewards moves every estimate by as much; what the log says moves the interval, not its length."""
    with jax.enable_x64(True):
        policy, family = jb.Greedy(tau=1.0), jb.Normal()
        history = simulated(policy, family, 8, 2)
        jacobian = check_rewards(history, policy, family)
        np.testing.assert_allclose(jacobian.sum(axis=1), 1, rtol=1e-10)
        found = lambda rewards: jb.conditional_mle(KEY, dataclasses.replace(history, rewards=rewards), policy, family)
        estimate, tangent = jax.jvp(found, (history.rewards,), (jnp.ones(8),))
        np.testing.assert_allclose(tangent.mean, 1, rtol=1e-10)
        np.testing.assert_allclose(tangent.lower, 1, rtol=1e-10)
        assert not np.any(tangent.stderr)
        in_means = np.asarray(estimate.diagnostics["jacobian"])
        np.testing.assert_allclose(in_means / np.asarray(history.statistics.pulls), jacobian[:, :2], rtol=1e-5)  # padded and not


def test_bernoulli_rewards():
    """Exact; the derivative in the policy's tau too. They are whole numbers, so that only a traced one can be in between."""
    with jax.enable_x64(True):
        family, history = jb.Bernoulli(), simulated(jb.Greedy(tau=1.0), jb.Bernoulli(), 8, 2, seed=8)
        jacobian = check_rewards(history, jb.Greedy(tau=1.0), family, tolerance=1e-3)
        assert np.isfinite(jacobian).all()
        mean = jax.jit(lambda tau: jb.conditional_mle(KEY, history, jb.Greedy(tau=tau), family).mean)
        difference = (mean(0.501) - mean(0.499)) / 0.002
        np.testing.assert_allclose(jax.jacfwd(mean)(0.5), difference, rtol=1e-3)
        np.testing.assert_allclose(jax.jacrev(mean)(0.5), difference, rtol=1e-3)


@pytest.mark.parametrize(("num_paths", "tolerance"), [(1024, 0.1), pytest.param(2**15, 0.03, marks=pytest.mark.slow)])
def test_settings_and_sigma(compilations, num_paths, tolerance):
    """Of a batch of logs, with no new program for new values; the differences have the noise of their paths."""
    with jax.enable_x64(True):
        histories = jb.simulate(
            jax.random.key(5), jb.Greedy(tau=1.0), jb.Normal(), MEANS["normal"][:2], num_steps=8, num_trials=3
        )

        def mean(settings):
            policy, family = jb.Greedy(tau=settings[0]), jb.Normal(sigma=settings[1])
            return jb.conditional_mle(KEY, histories, policy, family, num_paths=num_paths).mean

        at, step = jnp.array([1.0, 1.0]), 0.05
        found = jax.jacrev(mean)(at)
        other = at * 1.01
        compilations.clear()
        jax.jacrev(mean)(other)
        assert not compilations
        moved = jax.jit(mean)
        differences = jnp.stack([(moved(at + by) - moved(at - by)) / (2 * step) for by in step * jnp.eye(2)], axis=-1)
        np.testing.assert_allclose(found, differences, atol=tolerance * float(jnp.abs(differences).max()))


def test_an_unknown_sigma():
    with jax.enable_x64(True):
        policy = jb.Greedy(tau=1.0)
        jacobian = check_rewards(simulated(policy, jb.Normal(), 8, 2), policy, jb.Normal(sigma=None), num_paths=8192)
        np.testing.assert_allclose(jacobian.sum(axis=1), 1, rtol=1e-10)


def test_contrastive_divergence_is_not_differentiable():
    history = simulated(jb.Greedy(tau=1.0), jb.Normal(), 8, 2)

    def mean(rewards, tau):
        changed = dataclasses.replace(history, rewards=rewards)
        return jb.conditional_mle(KEY, changed, jb.Greedy(tau=tau), jb.Normal(), solver="contrastive_divergence").mean.sum()

    for argument in (0, 1):
        with pytest.raises(jb.ArgumentError, match="it must be 'newton' where an estimate is differentiated"):
            jax.grad(mean, argument)(history.rewards, 1.0)


def test_what_did_not_converge_has_no_derivative():
    """So few paths are enough for the first log alone, whose arms are far apart: NaN, and only where it is asked for."""
    policy, family = jb.Greedy(tau=1.0), jb.Normal()
    histories = jb.simulate(jax.random.key(5), policy, family, MEANS["normal"][:2], num_steps=8, num_trials=2)
    far = dataclasses.replace(histories, rewards=histories.rewards.at[0].multiply(30.0))

    def estimate(rewards, tau):
        changed = dataclasses.replace(far, rewards=rewards)
        return jb.conditional_mle(KEY, changed, jb.Greedy(tau=tau), family, num_paths=64)

    assert estimate(far.rewards, 1.0).status.tolist() == [[Status.CONVERGED] * 2, [Status.TOO_FEW_SAMPLES] * 2]
    moved = jax.grad(lambda rewards: estimate(rewards, 1.0).mean.sum())(far.rewards)
    assert np.isnan(moved).all(axis=1).tolist() == [False, True]
    of_first = lambda rewards, tau: estimate(rewards, tau).mean[0].sum()
    assert all(np.isfinite(part).all() for part in jax.grad(of_first, (0, 1))(far.rewards, 1.0))


def test_an_arm_at_an_edge():
    """It has no derivative, nor has any estimate in its rewards; the others have theirs."""
    history = jb.History(arms=jnp.array([0, 1, 1, 0, 1, 0]), rewards=jnp.array([1.0, 1.0, 0.0, 1.0, 1.0, 1.0]), num_arms=2)
    policy = jb.Greedy(tau=1.0)
    mean = lambda rewards: jb.conditional_mle(KEY, dataclasses.replace(history, rewards=rewards), policy, jb.Bernoulli())
    assert mean(history.rewards).status.tolist() == [Status.AT_EDGE, Status.CONVERGED]
    jacobian = np.asarray(jax.jacrev(lambda rewards: mean(rewards).mean)(history.rewards))
    assert np.isnan(jacobian[0]).all()
    assert np.isnan(jacobian[1]).tolist() == [arm == 0 for arm in [0, 1, 1, 0, 1, 0]]
    forward = jax.jvp(lambda rewards: mean(rewards).mean, (history.rewards,), (jnp.zeros(6).at[1].set(1.0),))[1]
    np.testing.assert_allclose(forward, [np.nan, jacobian[1, 1]], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("num_arms", [2, 5])
@pytest.mark.parametrize("num_steps", [8, 20, 60])
@pytest.mark.parametrize(("policy", "family"), [(jb.LilUCB(tau=1.0), jb.Normal()), (jb.Greedy(tau=1.0), jb.Bernoulli())])
def test_the_grid(policy, family, num_steps, num_arms, monkeypatch):
    """All of them within 2% of the largest entry. Logs with an arm at an edge are passed over: an arm pulled once is at one."""
    monkeypatch.setattr(routes, "MOST_STATES", 2**21)  # differences of particles are too noisy: all of them exactly
    if not isinstance(family, jb.Normal) and num_steps < 2 * num_arms:
        pytest.skip("some arm is at an edge")
    with jax.enable_x64(True):
        for seed in range(100):
            history = simulated(policy, family, num_steps, num_arms, seed)
            rates = history.statistics.mean
            if isinstance(family, jb.Normal) or bool(jnp.all((rates > 0) & (rates < 1))):
                break
        jacobian = check_rewards(history, policy, family, num_paths=8192)
        if isinstance(family, jb.Normal):
            np.testing.assert_allclose(jacobian.sum(axis=1), 1, rtol=1e-10)
