"""The derivative of mean matching against central differences of the whole estimator with the same key, in float64."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb

KEY = jax.random.key(1)
MANY, FEW = 2**16, 2**12  # paths: the derivative is then known to 1%, and to 4%
POLICY, NORMAL = jb.Greedy(), jb.Normal()
MEANS = {"normal": [1.0, 0.75, 0.5, 0.38, 0.25], "bernoulli": [0.6, 0.5, 0.4, 0.55, 0.45]}


def simulated(policy, family, num_steps, num_arms, seed=5, **options):
    means = MEANS["normal" if isinstance(family, jb.Normal) else "bernoulli"][:num_arms]
    return jb.simulate(jax.random.key(seed), policy, family, means, num_steps=num_steps, **options)


def check_rewards(history, policy, family, step=0.2, tolerance=0.02, num_paths=MANY):
    """In each arm's sample mean, by `step` of its standard errors, as simulated choices jump where it moves by little."""
    moved = lambda rewards: dataclasses.replace(history, rewards=rewards)
    mean = jax.jit(lambda rewards: jb.mean_matching(KEY, moved(rewards), policy, family, num_paths=num_paths).mean)
    jacobian = np.asarray(jax.jacrev(mean)(history.rewards))
    pulls = np.asarray(history.statistics.pulls)
    rows = [int(np.flatnonzero(np.asarray(history.arms) == arm)[-1]) for arm in range(history.num_arms)]
    away = lambda row, by: mean(history.rewards.at[row].add(by))
    steps = step * np.sqrt(pulls)
    differences = np.stack([(away(row, by) - away(row, -by)) / (2 * by) for row, by in zip(rows, steps, strict=True)], axis=1)
    np.testing.assert_allclose(jacobian[:, rows], differences, atol=tolerance * np.abs(differences).max())
    return jacobian


def test_normal_rewards():
    """Without noise; and a shift of all rewards moves every estimate by as much."""
    with jax.enable_x64(True):
        jacobian = check_rewards(simulated(POLICY, NORMAL, 8, 2), POLICY, NORMAL, num_paths=FEW, tolerance=0.1)
        np.testing.assert_allclose(jacobian.sum(axis=1), 1, rtol=1e-10)


@pytest.mark.slow
def test_bernoulli_rewards_and_tau():
    with jax.enable_x64(True):
        family, history = jb.Bernoulli(), simulated(jb.Greedy(tau=1.0), jb.Bernoulli(), 8, 2, seed=8)
        check_rewards(history, jb.Greedy(tau=1.0), family, step=0.05)
        mean = jax.jit(lambda tau: jb.mean_matching(KEY, history, jb.Greedy(tau=tau), family, num_paths=MANY).mean)
        difference = (mean(0.6) - mean(0.4)) / 0.2
        np.testing.assert_allclose(jax.jacrev(mean)(0.5), difference, atol=0.1 * float(jnp.abs(difference).max()))


@pytest.mark.parametrize(("num_paths", "tolerance"), [(FEW, 0.4), pytest.param(MANY, 0.1, marks=pytest.mark.slow)])
def test_settings_and_sigma(compilations, num_paths, tolerance):
    """Of many logs, with batches, and no new program for new values; forward and reverse mode agree."""
    with jax.enable_x64(True):
        histories = simulated(jb.Greedy(tau=1.0), NORMAL, 8, 2, num_trials=2, batch_size=2)

        def mean(settings):
            policy, family = jb.Greedy(tau=settings[0]), jb.Normal(sigma=settings[1])
            return jb.mean_matching(KEY, histories, policy, family, num_paths=num_paths).mean

        at, step = jnp.array([1.0, 1.0]), 0.1
        found = jax.jacrev(mean)(at)
        np.testing.assert_allclose(jax.jacfwd(mean)(at), found, rtol=1e-9)
        other = at * 1.01
        compilations.clear()
        jax.jacrev(mean)(other)
        assert not compilations
        moved = jax.jit(mean)
        differences = jnp.stack([(moved(at + by) - moved(at - by)) / (2 * step) for by in step * jnp.eye(2)], axis=-1)
        np.testing.assert_allclose(found, differences, atol=tolerance * float(jnp.abs(differences).max()))


def test_a_setting_of_choices_that_are_not_random_has_no_derivative():
    """Nor has tau at 0; sigma has one. Rounded shares have probabilities that are not known."""
    history = simulated(POLICY, NORMAL, 8, 2)
    mean = lambda tau, sigma: jb.mean_matching(KEY, history, jb.Greedy(tau=tau), jb.Normal(sigma=sigma), num_paths=256).mean[0]
    in_tau, in_sigma = jax.grad(mean, (0, 1))(jnp.array(0.0), 1.0)
    assert np.isnan(in_tau)
    assert np.isfinite(in_sigma)
    mean = lambda beta: jb.mean_matching(KEY, history, jb.LilUCB(beta=beta), NORMAL, num_paths=256).mean[0]
    assert np.isnan(jax.grad(mean)(1.0))
    shared = simulated(jb.Thompson(), NORMAL, 8, 2, batch_size=4, allocation="shares")
    with pytest.raises(jb.ArgumentError, match=r"history\.allocation is 'shares'"):
        jax.grad(lambda sigma: jb.mean_matching(KEY, shared, jb.Thompson(prior_sigma=sigma), NORMAL, num_paths=256).mean[0])(5.0)


def test_arms_that_were_never_pulled():
    """The others are estimated as if they had not been there, and so are their derivatives."""
    whole = simulated(POLICY, NORMAL, 8, 2)
    wider = dataclasses.replace(whole, num_arms=3)
    moved = lambda history: (
        lambda rewards: (
            jb.mean_matching(
                KEY, dataclasses.replace(history, rewards=rewards), POLICY, jb.Normal(sigma=None), num_paths=256
            ).mean
        )
    )
    expected = np.asarray(jax.jacrev(moved(whole))(whole.rewards))
    found = np.asarray(jax.jacrev(moved(wider))(whole.rewards))
    np.testing.assert_allclose(found[:2], expected, rtol=1e-4)
    estimate = jb.mean_matching(KEY, wider, POLICY, jb.Normal(sigma=None), num_paths=256)
    assert np.isnan(estimate.mean).tolist() == [False, False, True]
    assert estimate.diagnostics["jacobian"].shape == (3, 4)
    assert np.isnan(jb.influence(KEY, wider, POLICY, jb.Normal(sigma=None), num_paths=256)[2]).all()


def test_a_rule_that_stops_is_not_differentiated():
    history = simulated(POLICY, NORMAL, 8, 2)
    mean = lambda bound: jb.mean_matching(KEY, history, POLICY, NORMAL, stop=jb.StopAtMean(bound), num_steps=12).mean[0]
    with pytest.raises(jb.ArgumentError, match="stop is differentiated"):
        jax.grad(mean)(5.0)


@pytest.mark.slow
@pytest.mark.parametrize("num_arms", [2, 5])
@pytest.mark.parametrize("num_steps", [8, 20, 60])
@pytest.mark.parametrize("policy", [jb.LilUCB(), jb.LilUCB(tau=1.0)], ids=["tau 0", "tau 1"])
def test_the_grid_of_normal_rewards(policy, num_steps, num_arms):
    with jax.enable_x64(True):
        history = simulated(policy, NORMAL, num_steps, num_arms)
        jacobian = check_rewards(history, policy, NORMAL, num_paths=2**18)
        np.testing.assert_allclose(jacobian.sum(axis=1), 1, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("num_arms", [2, 5])
@pytest.mark.parametrize("num_steps", [8, 20, 60])
@pytest.mark.parametrize("policy", [jb.Greedy(), jb.Greedy(tau=1.0)], ids=["tau 0", "tau 1"])
def test_the_grid_of_bernoulli_rewards(policy, num_steps, num_arms):
    """Logs with an arm at an edge are passed over."""
    with jax.enable_x64(True):
        for seed in range(100):
            history = simulated(policy, jb.Bernoulli(), num_steps, num_arms, seed)
            rates = history.statistics.mean
            if bool(jnp.all((rates > 0) & (rates < 1))):
                check_rewards(history, policy, jb.Bernoulli(), step=0.05, num_paths=2**18)
                return
    pytest.skip("no such log without an arm at an edge")
