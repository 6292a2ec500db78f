"""The conditional likelihood of Bernoulli rewards by forward recursion, against every path of rewards written out."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit, logsumexp

import jaxbias as jb
from jaxbias.estimators.counts import Grid, as_draws, count_paths, table_sizes
from jaxbias.estimators.draws import moments
from jaxbias.estimators.natural import make_record
from jaxbias.estimators.one_parameter import choices_made
from jaxbias.likelihood import selection_log_probs

RANDOM = {
    "greedy-noisy": jb.Greedy(tau=0.5),
    "epsilon-greedy": jb.EpsilonGreedy(),
    "epsilon-greedy-noisy": jb.EpsilonGreedy(tau=0.5),
    "lil-ucb-noisy": jb.LilUCB(tau=1.0),
    "ucb1-noisy": jb.UCB1(tau=1.0),
    "thompson": jb.Thompson(),
    "play-the-winner": jb.PlayTheWinner(),
    "uniform": jb.Uniform(),
}
ARMS = {2: [0, 1, 1, 0, 1, 1, 0, 0], 3: [0, 1, 2, 1, 1, 2, 0, 1]}
REWARDS = {2: [1, 0, 1, 0, 0, 1, 0, 1], 3: [1, 1, 0, 0, 1, 1, 0, 0]}


def log_of(arms, rewards, num_arms, forced=None):
    return jb.History(arms=jnp.array(arms), rewards=jnp.array(rewards, float), num_arms=num_arms, forced=forced)


class Truth:
    """Every path of rewards with the log-probability of the choices it would have led to."""

    def __init__(self, policy, history):
        steps = history.arms.shape[0]
        self.paths = np.array(list(itertools.product([0.0, 1.0], repeat=steps)))
        arms, forced = jnp.asarray(history.arms), history.forced_steps
        of_path = lambda rewards: jnp.sum(selection_log_probs(policy, arms, rewards, forced, history.num_arms))
        self.log_weight = np.asarray(jax.vmap(of_path)(jnp.asarray(self.paths)))
        chosen = np.asarray(arms)[:, None] == np.arange(history.num_arms)
        self.sums, self.pulls = self.paths @ chosen, chosen.sum(axis=0)
        self.total = np.asarray(history.rewards) @ chosen

    def log_normaliser(self, mean):
        rewards = xlog(self.sums, mean) + xlog(self.pulls - self.sums, 1 - mean)
        return logsumexp(self.log_weight + rewards.sum(axis=1))

    def moments(self, mean):
        rewards = (xlog(self.sums, mean) + xlog(self.pulls - self.sums, 1 - mean)).sum(axis=1)
        share = np.exp(self.log_weight + rewards - logsumexp(self.log_weight + rewards))
        expected = share @ self.sums
        return expected, (self.sums - expected).T @ (share[:, None] * (self.sums - expected))

    def maximum(self):
        def off(natural):
            mean = expit(natural)
            rewards = xlog(self.total, mean) + xlog(self.pulls - self.total, 1 - mean)
            return self.log_normaliser(mean) - rewards.sum(), self.moments(mean)[0] - self.total

        natural = logit((self.total + 0.5) / (self.pulls + 1))
        natural = minimize(off, natural, jac=True, method="BFGS", options=dict(gtol=1e-6)).x
        for _ in range(5):
            expected, information = self.moments(expit(natural))
            natural = natural + np.linalg.solve(information, self.total - expected)
        return expit(natural), np.linalg.inv(self.moments(expit(natural))[1])


def xlog(count, value):
    return np.where(count == 0, 0, count * np.log(np.where(value > 0, value, 1)) + np.where(value > 0, 0, -1e9) * (count > 0))


@pytest.mark.parametrize("num_arms", [2, 3])
@pytest.mark.parametrize("policy", RANDOM.values(), ids=RANDOM)
def test_equals_every_path_written_out(policy, num_arms):
    with jax.enable_x64(True):
        history = log_of(ARMS[num_arms], REWARDS[num_arms], num_arms)
        truth = Truth(policy, history)
        record = make_record(history.arms, history.rewards, choices_made(history), num_arms)
        shape = tuple(int(size) for size in table_sizes(truth.pulls[None], truth.total[None])[0])
        grid = Grid(shape=shape, order=jnp.arange(num_arms, dtype=jnp.int32))
        for mean in (np.linspace(0.2, 0.7, num_arms), (truth.total + 0.5) / (truth.pulls + 1)):
            probability, log_normaliser = count_paths(policy, record, jnp.asarray(mean), grid, None)
            found = moments(as_draws(probability, log_normaliser, record, grid), jnp.zeros(num_arms))
            expected, covariance = truth.moments(mean)
            np.testing.assert_allclose(found.log_normaliser, truth.log_normaliser(mean), rtol=1e-8)
            np.testing.assert_allclose(found.total + record.total, expected, rtol=1e-8)
            np.testing.assert_allclose(found.covariance, covariance, rtol=1e-7, atol=1e-9)
        estimate = jb.conditional_mle(jax.random.key(0), history, policy, jb.Bernoulli())
        mean, covariance = truth.maximum()
        np.testing.assert_allclose(estimate.mean, mean, rtol=1e-8)
        np.testing.assert_allclose(estimate.stderr, mean * (1 - mean) * np.sqrt(np.diag(covariance)), rtol=1e-8)
        np.testing.assert_allclose(estimate.diagnostics["log_normaliser"], truth.log_normaliser(mean), rtol=1e-8)
        assert estimate.converged.all() and (estimate.diagnostics["monte_carlo_error"] < 1e-12).all()
        assert (estimate.lower < estimate.mean).all() and (estimate.mean < estimate.upper).all()
