"""The conditional log-likelihood against quadrature over the rewards, and against all the rewards there are."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.likelihood import selection_log_probs

KEY = jax.random.key(1)
ARMS = np.array([0, 1, 1, 0, 1])
REWARDS = np.array([0.9, 0.4, 1.3, -0.2, 0.6])
MANY = 2**16  # paths: a Monte Carlo error of 3e-4


def log(rewards=REWARDS, arms=ARMS):
    return jb.History(arms=jnp.asarray(arms, jnp.int32), rewards=jnp.asarray(rewards, float), num_arms=2)


def of_normal(policy, mean, sigma, history, points=11):
    """The log-likelihood with the probability of the arms by Gauss-Hermite quadrature, differentiable in everything."""
    size = history.arms.shape[0]
    node, weight = np.polynomial.hermite_e.hermegauss(points)
    nodes = np.stack(np.meshgrid(*[node] * size, indexing="ij"), axis=-1).reshape(-1, size)
    weights = np.prod(np.stack(np.meshgrid(*[weight / weight.sum()] * size, indexing="ij"), axis=-1).reshape(-1, size), axis=1)
    values = jnp.asarray(nodes) * sigma + mean[history.arms][None]
    chosen = lambda rewards: jnp.sum(selection_log_probs(policy, history.arms, rewards, history.forced_steps, 2))
    normaliser = jnp.log(jnp.sum(jnp.asarray(weights) * jnp.exp(jax.vmap(chosen)(values))))
    return jb.log_density(history, policy, jb.Normal(sigma=sigma), mean) - normaliser


def of_bernoulli(policy, mean, history):
    """The same by adding up all rewards."""
    rewards = jnp.asarray(list(itertools.product([0.0, 1.0], repeat=history.arms.shape[0])))
    of_arms = mean[history.arms][None]
    chosen = lambda rewards: jnp.sum(selection_log_probs(policy, history.arms, rewards, history.forced_steps, 2))
    weights = jnp.prod(jnp.where(rewards == 1, of_arms, 1 - of_arms), axis=1)
    normaliser = jnp.log(jnp.sum(weights * jnp.exp(jax.vmap(chosen)(rewards))))
    return jb.log_density(history, policy, jb.Bernoulli(), mean) - normaliser


def test_normal_rewards_against_quadrature():
    """Value, score, information, and the derivatives in tau, sigma and the rewards."""
    with jax.enable_x64(True):
        history, mean = log(), jnp.array([1.0, 0.3])
        policy = lambda tau: jb.LilUCB(beta=0.0, tau=tau)

        def ours(mean, tau, sigma, rewards):
            changed = dataclasses.replace(history, rewards=rewards)
            return jb.conditional_log_likelihood(KEY, changed, policy(tau), jb.Normal(sigma=sigma), mean, num_paths=MANY)

        def truth(mean, tau, sigma, rewards):
            return of_normal(policy(tau), mean, sigma, dataclasses.replace(history, rewards=rewards))

        at = (mean, jnp.array(0.7), jnp.array(1.2), history.rewards)
        found, expected = (jax.jit(jax.value_and_grad(one, (0, 1, 2, 3)))(*at) for one in (ours, truth))
        np.testing.assert_allclose(found[0], expected[0], atol=1e-3)
        for one, other in zip(found[1], expected[1], strict=True):
            np.testing.assert_allclose(one, other, atol=0.015)  # four Monte Carlo errors of the score of a setting
        np.testing.assert_allclose(found[1][0], expected[1][0], atol=1e-3)
        found, expected = (jax.jit(jax.hessian(one))(*at) for one in (ours, truth))
        np.testing.assert_allclose(found, expected, atol=0.03)  # of a variance of 1.7, known to 0.6% from so many paths


def test_bernoulli_rewards_are_exact():
    with jax.enable_x64(True):
        history = log([1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0], [0, 1, 1, 0, 1, 1, 0])
        at = (jnp.array([0.5, 0.3]), jnp.array(0.4))
        ours = lambda mean, tau: jb.conditional_log_likelihood(KEY, history, jb.Greedy(tau=tau), jb.Bernoulli(), mean)
        truth = lambda mean, tau: of_bernoulli(jb.Greedy(tau=tau), mean, history)
        for derivative in (lambda f: jax.value_and_grad(f, (0, 1)), jax.hessian):
            found, expected = (jax.jit(derivative(one))(*at) for one in (ours, truth))
            for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
                np.testing.assert_allclose(one, other, atol=1e-8)


def test_a_policy_of_ones_own_and_other_families(own_policy):
    """By particles, within their error: the log-likelihood of a policy that is not one of pulls and sums, and of counts."""
    with jax.enable_x64(True):
        history, mean = log(), jnp.array([1.0, 0.3])
        ours = jb.conditional_log_likelihood(KEY, history, own_policy, jb.Normal(), mean, num_paths=2**14)
        truth = jax.jit(lambda mean: of_normal(own_policy, mean, 1.0, history))(mean)
        np.testing.assert_allclose(ours, truth, atol=5e-3)


def test_many_logs_are_as_one_each_and_nothing_recompiles(compilations):
    policy, family = jb.Greedy(tau=1.0), jb.Normal()
    histories = jb.simulate(jax.random.key(0), policy, family, [1.0, 0.5], num_steps=6, num_trials=3)
    means = jnp.array([[1.0, 0.5], [0.2, 0.1], [0.0, 1.0]])
    whole = lambda means: jb.conditional_log_likelihood(KEY, histories, policy, family, means, num_paths=256)
    found, score = jax.vmap(lambda _: whole(means))(jnp.arange(1))[0], jax.grad(lambda means: whole(means).sum())(means)
    assert found.shape == (3,)
    assert score.shape == (3, 2)
    np.testing.assert_allclose(whole(means), found, rtol=1e-5)
    for trial in range(3):  # each with a key of its own, so within the Monte Carlo error
        one = jb.conditional_log_likelihood(KEY, histories.trial(trial), policy, family, means[trial], num_paths=256)
        np.testing.assert_allclose(found[trial], one, atol=0.15)
    other = means + 1
    compilations.clear()
    jb.conditional_log_likelihood(KEY, histories, jb.Greedy(tau=2.0), jb.Normal(sigma=3.0), other, num_paths=256)
    assert not compilations


def test_what_does_not_exist():
    history = log([1.0, 0.0, 1.0, 1.0, 0.0], ARMS)
    value = lambda mean, tau: jb.conditional_log_likelihood(KEY, history, jb.Greedy(tau=tau), jb.Bernoulli(), mean)
    at_edge = jnp.array([1.0, 0.5])
    np.testing.assert_allclose(value(at_edge, 1.0), of_bernoulli(jb.Greedy(tau=1.0), at_edge, history), rtol=1e-5)
    found = jax.grad(value)(at_edge, 1.0)
    assert np.isnan(found).tolist() == [True, False]
    with pytest.raises(jb.ArgumentError, match="differentiated twice"):
        jax.jacfwd(jax.grad(value, 1))(jnp.array([0.5, 0.5]), 1.0)
    with pytest.raises(jb.ArgumentError, match="num_paths is 1"):
        jb.conditional_log_likelihood(KEY, history, jb.Greedy(tau=1.0), jb.Bernoulli(), at_edge, num_paths=1)
    with pytest.raises(jb.ArgumentError, match="choices are not random"):
        jb.conditional_log_likelihood(KEY, history, jb.Greedy(), jb.Bernoulli(), at_edge)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of NumPyro's own
def test_a_posterior_by_nuts():
    """The means of two arms given the arms that were chosen, by NumPyro, against quadrature over both means."""
    import numpyro
    from numpyro.infer import MCMC, NUTS

    # NumPyro mixes its dtypes and ranks.
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        policy, family, history = jb.Greedy(tau=1.0), jb.Normal(), log()

        def model():
            mean = numpyro.sample("mean", numpyro.distributions.Normal(0.0, 2.0).expand([2]).to_event(1))
            numpyro.factor("log", jb.conditional_log_likelihood(KEY, history, policy, family, mean, num_paths=512))

        run = MCMC(NUTS(model), num_warmup=200, num_samples=800, num_chains=1, progress_bar=False)
        run.run(jax.random.key(3))
        samples = np.asarray(run.get_samples()["mean"])
        line = np.linspace(-6, 6, 41)
        grid = jnp.asarray(np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2))
        value = jax.jit(lambda grid: jax.lax.map(lambda mean: of_normal(policy, mean, 1.0, history, points=7), grid))(grid)
        weight = np.asarray(jax.nn.softmax(value - jnp.sum(grid**2, axis=1) / 8))
        expected = weight @ np.asarray(grid)
        deviation = np.sqrt(weight @ np.square(np.asarray(grid) - expected))
        np.testing.assert_allclose(samples.mean(axis=0), expected, atol=0.2 * deviation.max())  # over 100 effective samples
        np.testing.assert_allclose(samples.std(axis=0), deviation, rtol=0.2)
