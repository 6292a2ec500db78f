"""Gradients of experiments: scores against autodiff over the log, gradients against exact ones and differences of simulations."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias._core.randomness import root_words, trial_words
from jaxbias.bias.score_function import simulate_scored
from jaxbias.likelihood import reward_log_prob, selection_log_probs
from jaxbias.policies import ArmStatistics
from jaxbias.simulation.scores import settings_vector
from jaxbias.simulation.trials import make_batching, prepare

KEY, TRIALS, STEPS, TWO, THREE = jax.random.key(5), 256, 12, [1.0, 0.75], [0.6, 0.5, 0.4]
SCHEDULE = jb.policies.Schedule(jnp.array([1.0, 0.4, 0.7]), num_steps=STEPS)
SCORED = {
    "greedy": (jb.Greedy(tau=0.7), jb.Normal(), TWO, None),
    "lil-ucb": (jb.LilUCB(tau=1.0), jb.Normal(sigma=2.0), THREE, None),
    "epsilon-greedy": (jb.EpsilonGreedy(epsilon=0.3), jb.Bernoulli(), THREE, None),
    "schedule, in batches": (jb.Greedy(tau=SCHEDULE), jb.Normal(), TWO, 3),
    "exp3": (jb.Exp3(gamma=0.4), jb.Normal(), TWO, None),
    "exp3, in batches": (jb.Exp3(gamma=0.4), jb.Normal(), TWO, 3),
    "clipped": (jb.Clipped(jb.Greedy(tau=0.5), low=-0.5, high=0.9), jb.Normal(), TWO, None),
    "thompson": (jb.Thompson(prior_sigma=2.0), jb.Normal(), TWO, None),
}
NOW = ("lil-ucb", "exp3, in batches", "schedule, in batches")


@pytest.mark.parametrize("name", [name if name in NOW else pytest.param(name, marks=pytest.mark.slow) for name in SCORED])
def test_the_score_is_the_derivative_of_the_log_probability_of_the_log(name):
    """Trial by trial, with the log replayed and differentiated by JAX, through the policy's state where that depends on it."""
    policy, family, mean, batch_size = SCORED[name]
    history = jb.simulate(KEY, policy, family, mean, STEPS, TRIALS, batch_size=batch_size)
    _, problem = prepare(KEY, policy, family, mean, STEPS, TRIALS)
    own, batching = settings_vector(policy, jnp.float32), make_batching(batch_size, "independent", STEPS)
    trials = jax.jit(lambda words: simulate_scored(problem, own, words, STEPS, batching))(
        trial_words(root_words(KEY), jnp.uint32(0), TRIALS)
    )

    def log_probability(values, mean, arms, rewards, forced):
        chosen = selection_log_probs(own.rebuild(values), arms, rewards, forced, len(mean), history.seen_steps)
        return jnp.sum(chosen) + reward_log_prob(family, mean, arms, rewards)

    slopes = jax.jit(jax.vmap(jax.grad(log_probability, (0, 1)), (None, None, 0, 0, 0)))
    expected = slopes(own.values, problem.mean, history.arms, history.rewards, history.forced_steps)
    expected = np.concatenate(expected, axis=1)
    np.testing.assert_allclose(trials.score, expected, rtol=2e-3, atol=2e-3 * np.abs(expected).max(axis=0).max())
    assert (np.std(expected, axis=0) > 0).all()
    np.testing.assert_allclose(trials.figures[:, : len(mean)], history.statistics.mean - problem.mean[None], atol=1e-5)


DRAWN = {
    "thompson": (jb.Thompson(prior_sigma=2.0), ArmStatistics(jnp.array([3, 2, 4]), jnp.array([1.0, 1.5, 2.0]))),
    "thompson, with noise": (jb.Thompson(tau=0.5), ArmStatistics(jnp.array([3, 2, 4]), jnp.array([1.0, 1.5, 2.0]))),
    "beta-thompson": (jb.BetaThompson(), ArmStatistics(jnp.array([3, 2, 4]), jnp.array([1.0, 1.0, 2.0]))),
}


@pytest.mark.parametrize("name", DRAWN)
def test_scores_of_draws_average_to_the_derivative_of_the_probability(name):
    """sum over draws of 1(arm) * score = d P(arm) in each setting, P(arm) being an integral or, with noise, a two-fold one."""
    policy, state = DRAWN[name]
    own = settings_vector(policy, jnp.float32)

    def once(key):
        draws = policy.draw(key, state)
        arm = policy.choose(key, state, draws)
        return arm, jax.grad(lambda values: own.rebuild(values).drawn_log_prob(state, arm, draws))(own.values)

    arms, scores = jax.jit(jax.vmap(once))(jax.random.split(KEY, 200_000))
    per_arm = (np.asarray(arms)[:, None] == np.arange(3))[:, :, None] * np.asarray(scores)[:, None, :]
    width = 2e-3  # central differences, as some probabilities have no gradient of their own
    moves = [own.values + sign * width * np.eye(len(own.values))[place] for place in range(len(own.values)) for sign in (1, -1)]
    probabilities = np.exp(jax.jit(jax.vmap(lambda values: own.rebuild(values).log_probs(state)))(jnp.stack(moves)))
    slopes = (probabilities[::2] - probabilities[1::2]).T / (2 * width)
    error = np.std(per_arm, axis=0) / np.sqrt(len(arms))
    assert (np.abs(per_arm.mean(axis=0) - slopes) < 4 * error + 2e-3).all()
    assert (np.abs(slopes) > 10 * error).any()


def test_gradients_of_the_bias_against_exact_ones():
    """Bernoulli rewards, whose bias is exact: its central differences in float64 within 4 standard errors."""
    mean, num_steps, width = np.array([0.6, 0.4]), 8, 1e-3
    found = jb.bias.measure_gradient(KEY, jb.Greedy(tau=0.4), jb.Bernoulli(), mean, num_steps, num_trials=200_000)
    with jax.enable_x64(True):
        exact = lambda tau, mean: np.asarray(jb.bias.exact_bias(jb.Greedy(tau=tau), mean, num_steps), np.float64)
        in_tau = (exact(0.4 + width, mean) - exact(0.4 - width, mean)) / (2 * width)
        moves = width * np.eye(2)
        in_mean = np.stack([(exact(0.4, mean + move) - exact(0.4, mean - move)) / (2 * width) for move in moves], axis=1)
    error = found.gradient_stderr.bias
    assert (np.abs(found.gradient.bias.policy.tau - in_tau) < 4 * error.policy.tau).all()
    assert (np.abs(found.gradient.bias.mean - in_mean) < 4 * error.mean).all()
    assert (np.abs(in_tau) > 20 * error.policy.tau).all()
    assert (np.abs(in_mean) > 10 * error.mean).any()


def differences(policy_at, mean_at, width, num_steps, num_trials, at):
    """The central difference of each figure, from independent simulations, and its standard error."""
    found = [
        jb.measure_bias(jax.random.key(seed), policy_at(at + way), jb.Normal(), mean_at(at + way), num_steps, num_trials)
        for seed, way in ((1, width), (2, -width))
    ]
    names = ("bias", "mse", "average_bias", "average_mse", "regret")
    slope = {name: (getattr(found[0], name) - getattr(found[1], name)) / (2 * width) for name in names}
    error = {name: np.hypot(*(getattr(one, f"{name}_stderr") for one in found)) / (2 * width) for name in names}
    return slope, error


FIVE = jnp.array([1.0, 0.75, 0.5, 0.38, 0.25])
two, five = lambda _: jnp.array(TWO), lambda _: FIVE
MOVED = {
    "tau": (lambda tau: jb.Greedy(tau=tau), two, 1.0, 0.1, 16, lambda one: one.policy.tau),
    "beta": (lambda beta: jb.LilUCB(beta=beta, tau=1.0), five, 1.0, 0.2, 40, lambda one: one.policy.beta),
    "epsilon": (lambda one: jb.EpsilonGreedy(epsilon=one), five, 0.2, 0.02, 20, lambda one: one.policy.epsilon),
    "prior_sigma": (
        lambda one: jb.Thompson(prior_sigma=one),
        two,
        1.0,
        0.1,
        24,
        lambda one: one.policy.prior_sigma,
    ),
    "prior_sigma, five arms": (lambda one: jb.Thompson(prior_sigma=one), five, 1.0, 0.1, 24, lambda one: one.policy.prior_sigma),
    "tau of Thompson": (lambda tau: jb.Thompson(tau=tau), five, 0.5, 0.1, 24, lambda one: one.policy.tau),
    "mean": (lambda _: jb.LilUCB(tau=1.0), lambda one: FIVE.at[1].set(one), 0.75, 0.05, 40, lambda one: one.mean[..., 1]),
    "mean, no noise": (lambda _: jb.Greedy(), lambda one: jnp.array([1.0, one]), 0.75, 0.05, 16, lambda one: one.mean[..., 1]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MOVED)
def test_gradients_against_differences_of_large_simulations(name):
    policy_at, mean_at, at, width, num_steps, part = MOVED[name]
    found = jb.bias.measure_gradient(KEY, policy_at(at), jb.Normal(), mean_at(at), num_steps, num_trials=400_000)
    slope, error = differences(policy_at, mean_at, width, num_steps, 2_000_000, at)
    for figure in found.gradient._fields:
        ours, ours_error = part(getattr(found.gradient, figure)), part(getattr(found.gradient_stderr, figure))
        assert (np.abs(ours - slope[figure]) < 4 * np.hypot(ours_error, error[figure])).all(), figure
    clear = [np.max(np.abs(slope[figure]) - 4 * error[figure]) > 0 for figure in found.gradient._fields]
    assert any(clear)  # there is something to agree on: beta changes the regret, and the bias by next to nothing


def figures_at(policy, mean, num_trials=2000):
    return jb.bias.expected_figures(KEY, policy, jb.Normal(), mean, STEPS, num_trials)


def test_inside_jit_and_grad_the_same_gradients():
    """Values and Jacobian as measured, forward and backward; another value compiles nothing; a second derivative is refused."""
    policy, mean = jb.LilUCB(tau=jnp.float32(0.5)), jnp.array(TWO)
    measured = jb.bias.measure_gradient(KEY, policy, jb.Normal(), mean, STEPS, 2000)
    jacobian = jax.jit(jax.jacobian(figures_at, argnums=(0, 1)))
    found = jacobian(policy, mean)
    for figure, (by_policy, by_mean) in found._asdict().items():
        expected = getattr(measured.gradient, figure)
        for name in ("beta", "epsilon", "delta", "tau"):
            np.testing.assert_allclose(getattr(by_policy, name), getattr(expected.policy, name), rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(by_mean, expected.mean, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(figures_at(policy, mean).mse, measured.value.mse, rtol=1e-5)
    jacobian(jb.LilUCB(beta=0.3, tau=jnp.float32(0.8)), mean + 1)
    assert jacobian._cache_size() <= 2  # settings as Python numbers once, as arrays once
    tangent = jax.jvp(lambda mean: figures_at(policy, mean).regret, (mean,), (jnp.array([1.0, 0.0]),))[1]
    np.testing.assert_allclose(tangent, measured.gradient.regret.mean[0], rtol=1e-3)
    with pytest.raises(TypeError, match="first derivatives only"):
        jax.hessian(lambda mean: figures_at(policy, mean).regret)(mean)
    at_sigma = lambda sigma: jb.bias.expected_figures(KEY, policy, jb.Normal(sigma=sigma), mean, STEPS, 2000).regret
    with pytest.raises(TypeError, match="settings and in the means only"):
        jax.grad(at_sigma)(1.0)


def test_what_has_no_gradient_is_not_a_number():
    measure = partial(jb.bias.measure_gradient, KEY, family=jb.Normal(), num_steps=STEPS, num_trials=1000)
    greedy, tied = measure(policy=jb.Greedy(), mean=TWO).gradient, measure(policy=jb.Greedy(tau=0.5), mean=[1.0, 1.0]).gradient
    assert np.isnan(greedy.bias.policy.tau)
    assert np.isfinite(greedy.bias.mean).all()
    assert np.isfinite(greedy.regret.mean).all()
    assert np.isnan(tied.regret.mean).all()
    assert np.isfinite(tied.mse.mean).all()
    ucb = measure(policy=jb.LilUCB(), mean=TWO).gradient.average_mse
    assert np.isnan([ucb.policy.beta, ucb.policy.epsilon, ucb.policy.delta, ucb.policy.tau]).all()
    assert np.isfinite(ucb.mean).all()
    edge = measure(policy=jb.EpsilonGreedy(epsilon=0.0), mean=TWO).gradient.regret.policy
    assert np.isnan([edge.epsilon, edge.tau]).all()
    assert np.isnan(jax.grad(lambda tau: figures_at(jb.Greedy(tau=tau), jnp.array(TWO)).average_mse)(0.0))


def test_chunks_change_nothing_and_the_baseline_helps():
    measure = partial(jb.bias.measure_gradient, KEY, jb.Greedy(tau=0.5), jb.Normal(), TWO, STEPS, 1500)
    whole, parts, plain = measure(), measure(chunk_size=512), measure(baseline=False)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), whole.gradient, parts.gradient)
    simulated = jb.measure_bias(KEY, jb.Greedy(tau=0.5), jb.Normal(), TWO, STEPS, 1500)
    np.testing.assert_allclose(whole.value.bias, simulated.bias, rtol=1e-6)
    np.testing.assert_allclose(whole.value.regret, simulated.regret, rtol=1e-6)
    assert whole.gradient_stderr.regret.policy.tau < 0.8 * plain.gradient_stderr.regret.policy.tau
    combined = np.hypot(whole.gradient_stderr.regret.policy.tau, plain.gradient_stderr.regret.policy.tau)
    assert abs(whole.gradient.regret.policy.tau - plain.gradient.regret.policy.tau) < 4 * combined


@pytest.mark.slow
def test_with_a_stopping_rule():
    """The figures are those at the end of each trial, as are the scores: against differences of simulations."""
    rule = jb.StopAtDifference(threshold=1.0, first=4, every=1)
    found = jb.bias.measure_gradient(KEY, jb.Greedy(tau=0.5), jb.Normal(), TWO, 20, 400_000, stop=rule)
    at = lambda seed, tau: jb.measure_bias(jax.random.key(seed), jb.Greedy(tau=tau), jb.Normal(), TWO, 20, 2_000_000, stop=rule)
    ends = [at(1, 0.55), at(2, 0.45)]
    slope = (ends[0].bias - ends[1].bias) / 0.1
    error = np.hypot(ends[0].bias_stderr, ends[1].bias_stderr) / 0.1
    ours, ours_error = found.gradient.bias.policy.tau, found.gradient_stderr.bias.policy.tau
    assert (np.abs(ours - slope) < 4 * np.hypot(ours_error, error)).all()
