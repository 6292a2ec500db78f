"""The conditional likelihood of Bernoulli rewards by forward recursion, against every path of rewards written out."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit, logsumexp

import jaxbias as jb
from jaxbias._core.jit import compiled
from jaxbias.estimators.conditional_mle.record import record_of
from jaxbias.estimators.conditional_mle.success_counts import Grid, as_samples, count_paths, table_sizes
from jaxbias.estimators.conditional_mle.weighted_samples import moments_at
from jaxbias.likelihood import Choices, selection_log_probs

RANDOM = {
    "greedy-noisy": jb.Greedy(tau=0.5),
    "epsilon-greedy": jb.EpsilonGreedy(),
    "epsilon-greedy-noisy": jb.EpsilonGreedy(tau=0.5),
    "lil-ucb-noisy": jb.LilUCB(tau=1.0),
    "ucb1-noisy": jb.UCB1(tau=1.0),
    "thompson": jb.Thompson(),
    "play-the-winner": jb.policies.PlayTheWinner(),
    "uniform": jb.Uniform(),
}
ARMS = {2: [0, 1, 1, 0, 1, 1, 0, 0], 3: [0, 1, 2, 1, 1, 2, 0, 1]}
REWARDS = {2: [1, 0, 1, 0, 0, 1, 0, 1], 3: [1, 1, 0, 0, 1, 1, 0, 0]}


@compiled
def path_log_probs(policy, paths, history):
    arms, forced = history.arms, history.forced_steps
    return jax.vmap(lambda rewards: jnp.sum(selection_log_probs(policy, arms, rewards, forced, history.num_arms)))(paths)


@partial(compiled, static=("shape",))
def moments_of_counts(policy, history, mean, shape):
    record, grid = record_of(history), Grid(shape=shape, order=jnp.arange(len(shape), dtype=jnp.int32))
    samples = as_samples(*count_paths(policy, record, mean, grid, None), record, grid)
    return moments_at(samples, jnp.zeros_like(mean))


def log_of(arms, rewards, num_arms, forced=None):
    return jb.History(arms=jnp.array(arms), rewards=jnp.array(rewards, float), num_arms=num_arms, forced=forced)


class Truth:
    """Every path of rewards with the log-probability of the choices it would have led to."""

    def __init__(self, policy, history):
        steps = history.arms.shape[0]
        self.paths = np.array(list(itertools.product([0.0, 1.0], repeat=steps)))
        self.log_weight = np.asarray(path_log_probs(policy, jnp.asarray(self.paths), history))
        chosen = np.asarray(history.arms)[:, None] == np.arange(history.num_arms)
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


@pytest.mark.parametrize("num_arms", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", RANDOM)
def test_equals_every_path_written_out(name, num_arms, one_of):
    with jax.enable_x64(True):
        history, policy = log_of(ARMS[num_arms], REWARDS[num_arms], num_arms), one_of(RANDOM, name)
        truth = Truth(policy, history)
        shape = tuple(int(size) for size in table_sizes(truth.pulls[None], truth.total[None])[0])
        for mean in (np.linspace(0.2, 0.7, num_arms), (truth.total + 0.5) / (truth.pulls + 1)):
            found = moments_of_counts(policy, history, jnp.asarray(mean), shape=shape)
            expected, covariance = truth.moments(mean)
            np.testing.assert_allclose(found.log_normaliser, truth.log_normaliser(mean), rtol=1e-8)
            np.testing.assert_allclose(found.total + truth.total, expected, rtol=1e-8)
            np.testing.assert_allclose(found.covariance, covariance, rtol=1e-7, atol=1e-9)
        estimate = jb.conditional_mle(jax.random.key(0), history, policy, jb.Bernoulli())
        mean, covariance = truth.maximum()
        np.testing.assert_allclose(estimate.mean, mean, rtol=1e-8)
        np.testing.assert_allclose(estimate.stderr, mean * (1 - mean) * np.sqrt(np.diag(covariance)), rtol=1e-8)
        np.testing.assert_allclose(estimate.diagnostics["log_normaliser"], truth.log_normaliser(mean), rtol=1e-8)
        assert estimate.converged.all()
        assert (estimate.diagnostics["monte_carlo_error"] < 1e-12).all()
        half = 1.959963984540054 * np.sqrt(np.diag(covariance))
        np.testing.assert_allclose(estimate.lower, expit(logit(mean) - half), rtol=1e-7)
        np.testing.assert_allclose(estimate.upper, expit(logit(mean) + half), rtol=1e-7)


@pytest.mark.parametrize("high", [False, True])
def test_an_arm_at_the_end_of_the_range(high, one_of):
    """The others' likelihood is that of the paths where this arm had no success (or no failure); its interval is one-sided."""
    with jax.enable_x64(True):
        rewards = np.where(np.array(ARMS[3]) == 1, float(high), REWARDS[3])
        history, policy = log_of(ARMS[3], rewards, 3), one_of(RANDOM, "greedy-noisy")
        truth = Truth(policy, history)
        estimate = jb.conditional_mle(jax.random.key(0), history, policy, jb.Bernoulli())
        assert int(estimate.status[1]) == jb.Status.AT_EDGE
        assert estimate.converged.all()
        assert float(estimate.mean[1]) == high
        np.testing.assert_allclose(truth.moments(np.asarray(estimate.mean))[0], truth.total, rtol=1e-8)
        expected = (float(estimate.lower[1]), 1.0) if high else (0.0, float(estimate.upper[1]))
        assert (float(estimate.lower[1]), float(estimate.upper[1])) == expected
        mean = np.asarray(estimate.mean).copy()
        mean[1] = estimate.lower[1] if high else estimate.upper[1]
        conditional = dict(zip(("there", "all"), there_and_all(truth, mean), strict=True))
        np.testing.assert_allclose(conditional["there"] / conditional["all"], 0.05, rtol=1e-6)
        np.testing.assert_allclose(estimate.stderr[1], abs(mean[1] - float(high)) / 1.959963984540054, rtol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("num_arms", [2, 3])
def test_tables_of_posteriors_equal_every_path_written_out(num_arms):
    """`log_probs` itself is right to 1e-5; a test of the tables has the rest."""
    with jax.enable_x64(True):
        history, policy = log_of(ARMS[num_arms], REWARDS[num_arms], num_arms), jb.BetaThompson()
        estimate = jb.conditional_mle(jax.random.key(0), history, policy, jb.Bernoulli())
        mean, covariance = Truth(policy, history).maximum()
        np.testing.assert_allclose(estimate.mean, mean, rtol=1e-3)
        np.testing.assert_allclose(estimate.stderr, mean * (1 - mean) * np.sqrt(np.diag(covariance)), rtol=1e-3)


def there_and_all(truth, mean):
    """The weight of the paths in which arm 1 is where it was, and of all."""
    weight = np.exp(truth.log_weight + (xlog(truth.sums, mean) + xlog(truth.pulls - truth.sums, 1 - mean)).sum(axis=1))
    return weight[truth.sums[:, 1] == truth.total[1]].sum(), weight.sum()


def test_states_of_many_successes_can_be_left_out():
    """The probabilities that are kept are the same numbers."""
    with jax.enable_x64(True):
        policy, mean = jb.EpsilonGreedy(tau=0.5), jnp.array([0.1, 0.2])
        history = jb.simulate(jax.random.key(0), policy, jb.Bernoulli(), [0.1, 0.2], num_steps=30)
        record = record_of(history)
        order = jnp.array([1, 0], jnp.int32)
        count = lambda shape: jax.jit(lambda: count_paths(policy, record, mean, Grid(shape, order), None))()
        (whole, whole_log), (part, part_log) = count((31, 31)), count((8, 9))
        kept = np.exp(whole_log) * np.asarray(whole).reshape(31, 31)[:8, :9]
        np.testing.assert_allclose(np.exp(part_log) * np.asarray(part).reshape(8, 9), kept, rtol=1e-10, atol=1e-300)


def test_several_choices_from_one_state():
    """As in a batch: the state before its first step is scored once for each choice."""
    with jax.enable_x64(True):
        policy, mean = jb.Greedy(tau=0.5), np.array([0.4, 0.6])
        history = log_of([0, 1, 1, 0, 1], [1, 0, 1, 0, 0], 2)
        choices = jnp.array([[0, 0], [0, 0], [1, 2], [0, 0], [0, 0]])
        record = record_of(history)._replace(choices=Choices(arm=None, number=choices))
        grid = Grid((3, 4), jnp.arange(2, dtype=jnp.int32))
        found = jax.jit(lambda: count_paths(policy, record, jnp.asarray(mean), grid, None)[1])()
        expected = 0.0
        for first, second in itertools.product([0, 1], repeat=2):
            log_probs = policy.log_probs(
                jb.policies.ArmStatistics(pulls=jnp.array([1, 1]), total=jnp.array([first, second], float))
            )
            chance = (mean[0] if first else 1 - mean[0]) * (mean[1] if second else 1 - mean[1])
            expected += chance * np.exp(float(log_probs[0] + 2 * log_probs[1]))
        np.testing.assert_allclose(found, np.log(expected), rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [jb.EpsilonGreedy(tau=0.2), jb.BetaThompson()], ids=["epsilon-greedy", "beta-thompson"])
def test_float32_is_near_float64(policy):
    drawn = jb.simulate(jax.random.key(5), jb.Greedy(tau=0.3), jb.Bernoulli(), [0.3, 0.4], num_steps=100)
    arms, rewards = np.asarray(drawn.arms), np.asarray(drawn.rewards)
    found = {}
    for wide in (False, True):
        with jax.enable_x64(wide):
            history = log_of(arms, rewards, 2)
            found[wide] = jb.conditional_mle(jax.random.key(0), history, policy, jb.Bernoulli())
    assert found[False].mean.dtype == jnp.float32
    error = np.abs(np.asarray(found[False].mean, np.float64) - np.asarray(found[True].mean)) / np.asarray(found[True].stderr)
    assert (error < 1e-3).all()
    np.testing.assert_allclose(found[False].stderr, found[True].stderr, rtol=1e-3)


def test_one_arm_has_nothing_to_correct():
    history = log_of([0, 0, 0, 0], [1, 0, 0, 1], 1)
    estimate = jb.conditional_mle(jax.random.key(0), history, jb.BetaThompson(), jb.Bernoulli())
    np.testing.assert_allclose(estimate.mean, [0.5], rtol=1e-5)
    np.testing.assert_allclose(estimate.stderr, [0.25], rtol=1e-5)


@pytest.fixture(scope="module")
def all_logs():
    """All logs of six steps and two arms, with the probability of each at some means."""
    policy, mean, steps = jb.Greedy(tau=0.5), np.array([0.4, 0.6]), 6
    arms = np.array([[0, 1, *rest] for rest in itertools.product([0, 1], repeat=steps - 2)])
    rewards = np.array(list(itertools.product([0.0, 1.0], repeat=steps)))
    pairs = [np.repeat(arms, len(rewards), axis=0), np.tile(rewards, (len(arms), 1))]
    forced = np.tile(np.arange(steps) < 2, (len(pairs[0]), 1))
    of_log = lambda *log: jnp.sum(selection_log_probs(policy, *log, 2))
    chosen = np.exp(np.asarray(jax.jit(jax.vmap(of_log))(*map(jnp.asarray, (pairs[0], pairs[1], forced)))))
    chance = chosen * np.where(pairs[1] == 1, mean[pairs[0]], 1 - mean[pairs[0]]).prod(axis=1)
    history = jb.History(arms=jnp.asarray(pairs[0]), rewards=jnp.asarray(pairs[1], jnp.float32), num_arms=2)
    return policy, mean, history, chance, jb.conditional_mle(jax.random.key(0), history, policy, jb.Bernoulli())


@pytest.mark.slow
def test_intervals_cover_over_all_logs(all_logs):
    """Each log counts with its probability: nothing is drawn."""
    _, mean, _, chance, estimate = all_logs
    np.testing.assert_allclose(chance.sum(), 1, rtol=1e-5)
    assert estimate.converged.all()
    inside = (np.asarray(estimate.lower) <= mean) & (np.asarray(estimate.upper) >= mean)
    assert (chance @ inside >= 0.935).all()


@pytest.mark.slow
def test_a_batch_is_its_logs_one_by_one_and_jit_changes_nothing(all_logs):
    """Of logs with different numbers of pulls, which go different ways: one of each way, and one in a trace."""
    policy, _, history, _, whole = all_logs
    run = lambda log: jb.conditional_mle(jax.random.key(0), log, policy, jb.Bernoulli())
    fewest = np.asarray(history.statistics.pulls).min(axis=1)
    for number in (np.flatnonzero(fewest == 1)[20], np.flatnonzero(fewest == 3)[20]):
        alone = run(history.trial(int(number)))
        for name in ("mean", "stderr", "lower", "upper"):
            np.testing.assert_allclose(getattr(alone, name), getattr(whole, name)[number], rtol=1e-4)
    traced = jax.jit(run)(history.trial(int(number)))
    np.testing.assert_allclose(traced.mean, alone.mean, rtol=1e-4)
    np.testing.assert_allclose(traced.upper, alone.upper, rtol=1e-4)
