"""The converged cMLE: its bias, its error and its intervals on the paper's settings, and what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jaxbias as jb

TWO, FIVE = [1.0, 0.75], [1.0, 0.75, 0.5, 0.38, 0.25]

# Original bias and MSE, then percent left by the converged cMLE, as measured independently with 1,000 to 2,000 trials.
CELLS = [
    (8, TWO, jb.LilUCB(tau=1.0), -0.258, 0.559, 5, 98),
    (8, TWO, jb.EpsilonGreedy(tau=1.0), -0.243, 0.502, -7, 83),
    (8, TWO, jb.Greedy(tau=1.0), -0.288, 0.569, -8, 77),
    (16, TWO, jb.LilUCB(tau=1.0), -0.290, 0.507, -1, 38),
    (16, TWO, jb.EpsilonGreedy(tau=1.0), -0.243, 0.382, 0, 55),
    (16, TWO, jb.Greedy(tau=1.0), -0.334, 0.526, 0, 45),
    (20, FIVE, jb.LilUCB(tau=1.0), -0.319, 0.571, -6, 124),
    (20, FIVE, jb.EpsilonGreedy(tau=1.0), -0.295, 0.502, -6, 110),
    (20, FIVE, jb.Greedy(tau=1.0), -0.346, 0.572, -6, 104),
    (40, FIVE, jb.LilUCB(tau=1.0), -0.345, 0.531, -5, 67),
    (40, FIVE, jb.EpsilonGreedy(tau=1.0), -0.282, 0.405, 1, 69),
    (40, FIVE, jb.Greedy(tau=1.0), -0.377, 0.551, -5, 59),
]


@pytest.mark.slow
@pytest.mark.parametrize(("num_steps", "mean", "policy", "bias", "mse", "bias_left", "mse_left"), CELLS)
def test_tables_two_and_three(num_steps, mean, policy, bias, mse, bias_left, mse_left):
    """Percent of the original bias within 4 combined standard errors, and the Wald intervals cover what they say."""
    history = jb.simulate(jax.random.key(7), policy, jb.Normal(), mean, num_steps, 1000)
    found = jb.conditional_mle(jax.random.key(1), history, policy, jb.Normal(), num_paths=256)
    believed = np.asarray(found.converged).all(axis=1)
    assert believed.mean() > 0.95
    error = np.asarray(found.mean, np.float64) - mean
    left, stderr = 100 * error.mean() / bias, 100 * error.mean(axis=1).std() / np.sqrt(1000) / abs(bias)
    assert abs(left - bias_left) < 4 * np.hypot(stderr, stderr)
    squares = 100 * (error**2).mean(axis=1) / mse
    assert abs(squares.mean() - mse_left) < 4 * np.sqrt(2) * squares.std() / np.sqrt(1000)
    inside = (np.asarray(found.lower) <= mean) & (np.asarray(found.upper) >= mean)
    assert 0.935 <= inside.mean() <= 0.965


# Steps, means, policy, original bias and MSE, and the paper's percentages of them.
PRINTED = [
    (8, TWO, jb.LilUCB(tau=1.0), -0.258, 0.559, 6.2, 86),
    (20, FIVE, jb.Greedy(tau=1.0), -0.346, 0.572, 18.0, 89),
]


@pytest.mark.slow
@pytest.mark.parametrize(("num_steps", "mean", "policy", "bias", "mse", "bias_left", "mse_left"), PRINTED)
def test_the_papers_algorithm_gives_the_papers_figures(num_steps, mean, policy, bias, mse, bias_left, mse_left):
    """Two of the twelve cells, the two that the choice of sampler moves most: bias within 4 combined errors, MSE within 8."""
    history = jb.simulate(jax.random.key(7), policy, jb.Normal(), mean, num_steps, 1000)
    found = jb.conditional_mle(jax.random.key(8), history, policy, jb.Normal(), "contrastive_divergence", num_paths=16)
    error = np.asarray(found.mean, np.float64) - mean
    left, stderr = 100 * error.mean() / bias, 100 * error.mean(axis=1).std() / np.sqrt(1000) / abs(bias)
    assert abs(left - bias_left) < 4 * np.sqrt(2) * stderr
    assert abs(100 * (error**2).mean() / mse - mse_left) < 8


@pytest.mark.slow
@pytest.mark.parametrize(("mean", "bias"), [(TWO, -0.38), (FIVE, -0.40)])
def test_a_thousand_steps_leave_no_bias(mean, bias):
    """Table 4, Greedy: less than 3% of the original bias is left; the standard error of that is under 1%."""
    policy = jb.Greedy(tau=1.0)
    history = jb.simulate(jax.random.key(7), policy, jb.Normal(), mean, 1000, 128)
    found = jb.conditional_mle(jax.random.key(1), history, policy, jb.Normal(), num_paths=256)
    error = np.asarray(found.mean, np.float64) - mean
    assert 100 * error.mean(axis=1).std() / np.sqrt(128) / abs(bias) < 1
    assert abs(100 * error.mean() / bias) < 3
    assert found.converged.all()


@pytest.mark.slow
@pytest.mark.parametrize("given_draws", [False, True])
def test_thompson_in_both_forms(given_draws):
    """T = 24: no bias within 4 errors, intervals that cover; but conditioning on the draws leaves little to learn from."""
    policy = jb.Thompson(tau=1.0 if given_draws else 0.0)
    history = jb.simulate(jax.random.key(7), policy, jb.Normal(), TWO, 24, 1000, keep_draws=True)
    found = jb.conditional_mle(jax.random.key(1), history, policy, jb.Normal(), num_paths=128, given_draws=given_draws)
    error = np.asarray(found.mean, np.float64) - TWO
    assert abs(error.mean()) < 4 * error.mean(axis=1).std() / np.sqrt(1000)
    inside = (np.asarray(found.lower) <= TWO) & (np.asarray(found.upper) >= TWO)
    assert 0.935 <= inside.mean() <= 0.965
    assert found.converged.mean() > 0.99
    noisy_mean = np.asarray(history.statistics.mean) - TWO
    assert ((error**2).mean() > 3 * (noisy_mean**2).mean()) == given_draws


def test_one_log_is_the_batch_of_one():
    policy, family = jb.Greedy(tau=1.0), jb.Normal()
    batch = jb.simulate(jax.random.key(0), policy, family, TWO, 10, 3)
    one = jax.tree.map(lambda leaf: leaf[0], batch)
    many, single = (jb.conditional_mle(jax.random.key(1), h, policy, family, num_paths=64) for h in (batch, one))
    np.testing.assert_allclose(single.mean, many.mean[0], rtol=1e-4)
    assert single.mean.shape == (2,)
    assert many.lower.shape == (3, 2)


def test_without_adaptivity_it_is_the_sample_mean(x64):
    history = jb.simulate(jax.random.key(0), jb.Uniform(), jb.Normal(sigma=2.0), FIVE, 40, 4)
    found = jb.conditional_mle(jax.random.key(1), history, jb.Uniform(), jb.Normal(sigma=2.0), num_paths=256)
    np.testing.assert_allclose(found.mean, history.statistics.mean, atol=1e-4)
    np.testing.assert_allclose(found.stderr, 2 / np.sqrt(history.statistics.pulls), rtol=1e-4)
    assert found.converged.all()
    assert found.mean.dtype == jnp.result_type(float)


def test_the_noise_of_a_long_log_is_made_when_it_is_needed(monkeypatch):
    """A short log that is taken for a long one: other random numbers, and the same estimate within their error."""
    from jaxbias.estimators import newton

    policy, family = jb.Greedy(tau=1.0), jb.Normal()
    history = jb.simulate(jax.random.key(3), policy, family, [1.0, 0.75], 14)
    short = jb.conditional_mle(jax.random.key(1), history, policy, family)
    monkeypatch.setattr(newton, "NOISE_AT_ONCE", 100)
    long = jb.conditional_mle(jax.random.key(1), history, policy, family, num_paths=1022)  # compiled for itself
    error = np.hypot(short.diagnostics["monte_carlo_error"], long.diagnostics["monte_carlo_error"])
    assert np.all(np.abs(long.mean - short.mean) < 4.5 * error)
    assert np.all(long.mean != short.mean)
    assert long.converged.all()


def test_the_score_is_zero_at_the_estimate():
    """At the estimate, other random numbers must find the expected sums where the observed ones are."""
    from jaxbias.estimators.draws import moments as moments_of
    from jaxbias.estimators.gaussian import draw_paths, most_likely_path
    from jaxbias.estimators.logs import make_log

    policy, family = jb.LilUCB(tau=1.0), jb.Normal()
    history = jb.simulate(jax.random.key(3), policy, family, [1.0, 0.75, 0.5], 20)
    found = jb.conditional_mle(jax.random.key(1), history, policy, family, num_paths=8192)
    log = make_log(history.arms, history.rewards, history.forced, 3)
    sigma = jnp.ones(3)

    @jax.jit
    def moments(mean):
        path = most_likely_path(policy, log, mean, sigma, history.rewards, 8)
        noise = jax.random.normal(jax.random.key(9), (20, 20_000))
        return moments_of(draw_paths(policy, log, mean, sigma, path, lambda step: noise[step]), jnp.zeros(3))

    at = moments(found.mean)
    off = np.asarray(at.total) / np.sqrt(np.diag(at.covariance))
    assert np.abs(off).max() < 0.02  # of the spread of the sums: the estimate is off by 2% of its standard error at most


def test_new_values_do_not_recompile():
    from jaxbias.estimators.conditional_mle import _newton_batch

    def run(seed, tau, sigma):
        policy, family = jb.Greedy(tau=tau), jb.Normal(sigma=sigma)
        history = jb.simulate(jax.random.key(seed), policy, family, TWO, 9, 2)
        jb.conditional_mle(jax.random.key(seed), history, policy, family, num_paths=32)

    run(0, 1.0, 1.0)
    before = _newton_batch.cache_size()
    run(1, 2.0, 0.5)
    assert _newton_batch.cache_size() == before


def test_the_papers_algorithm_stops_short_of_the_maximum():
    """200 logs, T = 16: less bias than the noisy mean; most of the way from it to the maximum."""
    policy, family = jb.Greedy(tau=1.0), jb.Normal()
    history = jb.simulate(jax.random.key(5), policy, family, TWO, 16, 200)
    paper = jb.conditional_mle(jax.random.key(1), history, policy, family, "contrastive_divergence", num_paths=64)
    best = jb.conditional_mle(jax.random.key(1), history, policy, family, num_paths=256)
    start = history.statistics.mean
    share = np.asarray(paper.mean - start).mean() / np.asarray(best.mean - start).mean()
    assert 0.5 < share < 1.1
    assert paper.converged.mean() > 0.8
    assert set(paper.diagnostics) == {"drift", "acceptance", "step_size", "divergences", "nan_energies"}


def test_few_paths_are_not_believed():
    history = jb.simulate(jax.random.key(0), jb.Greedy(tau=1.0), jb.Normal(), TWO, 10)
    found = jb.conditional_mle(jax.random.key(1), history, jb.Greedy(tau=1.0), jb.Normal(), num_paths=16)
    assert not found.converged.any()
    assert {jb.STATUS[number] for number in np.asarray(found.diagnostics["status"])} == {"too few effective draws"}


def test_nearly_no_noise_is_not_believed():
    """tau = 0.001: the density is all but cut off at the choices, which no Gaussian follows."""
    policy = jb.LilUCB(tau=1e-3)
    history = jb.simulate(jax.random.key(0), policy, jb.Normal(), FIVE, 60, 8)
    found = jb.conditional_mle(jax.random.key(1), history, policy, jb.Normal(), num_paths=128)
    assert np.isfinite(found.mean[np.asarray(found.converged)]).all()
    assert not found.converged.all()
    assert (np.asarray(found.diagnostics["status"])[~np.asarray(found.converged)] > 0).all()


def test_given_draws_against_linear_algebra(x64):
    """Given Thompson's draws the rewards are exactly Gaussian: the maximum and its error from one matrix of all rewards."""
    policy, sigma = jb.Thompson(prior_mean=0.3, prior_sigma=2.0, sigma=1.1, tau=0.5), np.array([1.0, 0.7, 1.3])
    family, num_steps = jb.Normal(sigma=jnp.asarray(sigma, float)), 12
    history = jb.simulate(jax.random.key(3), policy, family, [1.0, 0.5, 0.0], num_steps, keep_draws=True)
    found = jb.conditional_mle(jax.random.key(1), history, policy, family, given_draws=True, num_paths=8)
    arms, draws = np.asarray(history.arms), np.asarray(history.draws, np.float64)
    assert not draws[:3].any()
    assert (draws[3:] != 0).all()
    precision, shift = np.diag(1 / sigma[arms] ** 2), np.zeros(num_steps)
    for step in range(3, num_steps):
        for arm in range(3):
            seen = (arms[:step] == arm).nonzero()[0]
            posterior = 1 / 2.0**2 + len(seen) / 1.1**2
            row = np.zeros(num_steps)
            row[seen] = 1 / 1.1**2 / posterior
            precision += posterior * np.outer(row, row)
            shift += posterior * row * (draws[step, arm] - 0.3 / 2.0**2 / posterior)
    chosen = np.eye(3)[arms] / sigma[arms, None] ** 2
    covariance = np.linalg.inv(precision)
    information = chosen.T @ covariance @ chosen
    observed = np.asarray(history.rewards, np.float64)
    expected = np.linalg.solve(information, chosen.T @ (observed - covariance @ shift))
    np.testing.assert_allclose(found.mean, expected, atol=1e-3)
    np.testing.assert_allclose(found.stderr, np.sqrt(np.diag(np.linalg.inv(information))), rtol=1e-3)
    assert found.converged.all()


def test_chains_agree_with_paths():
    """The same log by HMC: the two estimates differ by their Monte Carlo errors, the standard errors by little."""
    policy, family = jb.EpsilonGreedy(tau=1.0), jb.Normal()
    history = jb.simulate(jax.random.key(3), policy, family, [1.0, 0.75, 0.5], 20, 4)
    paths = jb.conditional_mle(jax.random.key(1), history, policy, family, num_paths=4096)
    chains = jb.conditional_mle(jax.random.key(2), history, policy, family, sampler=jb.Sampler(num_samples=1000))
    error = np.hypot(paths.diagnostics["monte_carlo_error"], chains.diagnostics["monte_carlo_error"])
    np.testing.assert_array_less(np.abs(paths.mean - chains.mean), 4 * error)
    np.testing.assert_allclose(chains.stderr, paths.stderr, rtol=0.1)
    assert chains.converged.all()
    assert (np.asarray(chains.diagnostics["r_hat"]) < 1.02).all()
    assert not np.asarray(chains.diagnostics["divergences"]).any()
    assert (np.asarray(error) < 0.05).all()


@pytest.mark.parametrize("solver", ["newton", "contrastive_divergence"])
def test_policies_that_keep_something_else(own_policy, solver, maximum):
    """Exp3, and a policy of one's own: against the maximum by quadrature over every reward."""
    arms, rewards = np.array([0, 1, 1, 1]), np.array([0.8, 0.1, 0.4, 1.2])
    history = jb.History(arms=jnp.asarray(arms), rewards=jnp.asarray(rewards, float), num_arms=2)
    for policy in (jb.Exp3(gamma=0.9), own_policy):
        settings = jb.ContrastiveDivergence(
            optimiser=optax.sgd(optax.exponential_decay(0.3, 300, 0.3)),
            num_iterations=1500,
            persistent=True,
            kernel="hmc",
            tail=1000,
        )
        found = jb.conditional_mle(jax.random.key(0), history, policy, jb.Normal(), solver, settings=settings)
        expected = maximum(policy, arms, rewards, (1.0, 1.0))
        assert np.abs(expected - history.statistics.mean).max() > 0.05
        np.testing.assert_allclose(found.mean, expected, atol=0.06)
        assert (np.asarray(found.stderr) > 0.3).all()
        assert found.converged.all()


def bad(history=None, policy=None, family=None, **options):
    arms, rewards = jnp.array([0, 1, 0, 1]), jnp.array([0.5, 0.2, 0.1, 0.4])
    history = jb.History(arms=arms, rewards=rewards, num_arms=2) if history is None else history(arms, rewards)
    return jb.conditional_mle(jax.random.key(0), history, policy or jb.Greedy(tau=1.0), family or jb.Normal(), **options)


class NoFamily:
    """Two functions, and nothing about its natural parameter."""

    def sample(self, key, mean):
        return mean

    def log_prob(self, reward, mean):
        return -jnp.abs(reward - mean)


BAD = [
    (dict(policy=jb.LilUCB()), "whose choices are not random; conditional_mle needs randomised choices .tau > 0.: mean_matching"),
    (dict(given_draws=True), "given_draws is True and policy is Greedy; allowed with it: Thompson"),
    (dict(given_draws=True, policy=jb.Thompson()), "given_draws is True and history.draws is None; allowed: what simulate"),
    (
        dict(
            given_draws=True,
            policy=jb.Thompson(),
            history=lambda a, r: jb.History(arms=a, rewards=r, num_arms=2, draws=jnp.zeros((4, 3))),
        ),
        r"history.draws has shape \(4, 3\); allowed: \(4, 2\)",
    ),
    (
        dict(
            given_draws=True,
            policy=jb.Thompson(),
            history=lambda a, r: jb.History(
                arms=a, rewards=r, num_arms=2, draws=jnp.zeros((4, 2)).at[3].set(jnp.array([2.0, 1.0]))
            ),
        ),
        "history.arms is 1 at step 3, which the policy gives probability zero",
    ),
    (dict(num_chains=1), "num_chains is 1; allowed: 2 or more"),
    (dict(sampler=jb.Sampler(num_samples=0)), "sampler.num_samples is 0; allowed: a whole number, 1 or more"),
    (dict(family=NoFamily()), "family is .*; allowed: Normal, Bernoulli, Poisson and Exponential"),
    (
        dict(family=jb.Exponential(), solver="contrastive_divergence"),
        "solver is 'contrastive_divergence' and family is Exponential.*; allowed with it: Normal",
    ),
    (dict(family=jb.Bernoulli()), "history.rewards is 0.5 at step 0, which Bernoulli cannot give"),
    (dict(solver="adam"), "solver is 'adam'; allowed: 'newton' or 'contrastive_divergence'"),
    (dict(level=1.0), "level is 1.0; allowed: a number above 0 and below 1"),
    (dict(num_paths=1), "num_paths is 1; allowed: 2 or more"),
    (dict(history=lambda a, r: jb.History(arms=a, rewards=r.at[2].set(jnp.nan), num_arms=2)), "history.rewards is nan at step 2"),
    (
        dict(history=lambda a, r: jb.History(arms=a.at[3].set(5), rewards=r, num_arms=2)),
        "history.arms is 5 at step 3; allowed: 0 to 1",
    ),
    (dict(history=lambda a, r: jb.History(arms=a, rewards=r, num_arms=3)), "arm 2 was never pulled in trial 0"),
    (
        dict(history=lambda a, r: jb.History(arms=a, rewards=r[:3], num_arms=2)),
        r"arms of shape \(4,\) and rewards of shape \(3,\)",
    ),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_input_is_named(change, message, unchecked):
    with pytest.raises(ValueError, match=message):
        bad(**change)


def test_an_arm_with_probability_zero_is_named():
    class Never(jb.StatisticsPolicy):
        def log_probs(self, state):
            return jnp.log(jnp.array([0.6, 0.4, 0.0]))

    history = jb.History(arms=jnp.array([0, 1, 2, 0, 2]), rewards=jnp.ones(5), num_arms=3)
    with pytest.raises(ValueError, match=r"history.arms is 2 at step 4, which the policy gives probability zero"):
        jb.conditional_mle(jax.random.key(0), history, Never(), jb.Normal())
