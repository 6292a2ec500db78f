"""The conditional maximum likelihood estimator: one log and many, what it believes, other policies, and what it refuses.

Compiling takes nearly all of the time, and a new shape compiles anew: most tests share the logs of one fixture. Bias, error and
coverage are in `test_conditional_mle_tables.py`.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.estimators.conditional_mle import Sampler, newton, normal_rewards
from jaxbias.estimators.conditional_mle.gaussian_paths import sample_paths
from jaxbias.estimators.conditional_mle.gaussian_walk import most_likely_path
from jaxbias.estimators.conditional_mle.record import record_of
from jaxbias.estimators.conditional_mle.weighted_samples import moments_at

TWO, FIVE = [1.0, 0.75], [1.0, 0.75, 0.5, 0.38, 0.25]
GREEDY, FAMILY, PATHS = jb.Greedy(tau=1.0), jb.Normal(), 256
UCB_STEPS, UCB_PATHS = 20, 8192  # of the tests with lil'UCB, which share a program


@pytest.fixture(scope="module")
def logs():
    """200 logs of two arms and 16 steps."""
    return jb.simulate(jax.random.key(5), GREEDY, FAMILY, TWO, 16, 200)


@pytest.fixture(scope="module")
def found(logs):
    return jb.conditional_mle(jax.random.key(1), logs, GREEDY, FAMILY, num_paths=PATHS)


def test_one_log_is_the_batch_of_one(logs, found):
    single = jb.conditional_mle(jax.random.key(1), logs.trial(0), GREEDY, FAMILY, num_paths=PATHS)
    assert single.mean.shape == (2,)
    assert found.lower.shape == (200, 2)
    for name in ("mean", "stderr", "lower", "upper", "status"):
        np.testing.assert_allclose(getattr(single, name), getattr(found, name)[0], rtol=1e-4)


def test_few_paths_are_not_believed(logs):
    few = jb.conditional_mle(jax.random.key(1), logs.trial(0), GREEDY, FAMILY, num_paths=16)
    assert not few.converged.any()
    assert set(few.status.tolist()) == {jb.Status.TOO_FEW_SAMPLES}


def test_new_values_do_not_recompile(found):
    del found  # was compiled
    programs = (normal_rewards._laplace, normal_rewards._fit_paths)
    before = [program.cache_size() for program in programs]
    policy, family = jb.Greedy(tau=2.0), jb.Normal(sigma=0.5)
    history = jb.simulate(jax.random.key(2), policy, family, [0.3, 0.6], 16, 200)
    jb.conditional_mle(jax.random.key(3), history, policy, family, num_paths=PATHS)
    assert [program.cache_size() for program in programs] == before


def test_the_noise_of_a_long_log_is_made_when_it_is_needed(logs, found, monkeypatch):
    """Short logs that are taken for long ones: other random numbers, and the same estimates within their error."""
    monkeypatch.setattr(newton, "NOISE_AT_ONCE", 100)
    long = jb.conditional_mle(jax.random.key(1), logs, GREEDY, FAMILY, num_paths=PATHS - 2)  # compiled for itself
    believed = np.asarray(found.converged & long.converged)
    assert believed.mean() > 0.95
    error = np.hypot(found.diagnostics["monte_carlo_error"], long.diagnostics["monte_carlo_error"])
    assert (np.abs(long.mean - found.mean) < 4.5 * error)[believed].all()
    assert np.all(long.mean != found.mean)


@pytest.mark.slow
def test_the_papers_algorithm_goes_towards_the_maximum(logs, found):
    """A tenth of its iterations: on the way from the noisy means, with standard errors of the size that Newton's method gives."""
    settings = jb.ContrastiveDivergence.paper(num_iterations=60, tail=10)
    paper = jb.conditional_mle(jax.random.key(1), logs, GREEDY, FAMILY, "contrastive_divergence", num_paths=64, settings=settings)
    start = logs.statistics.mean
    share = np.asarray(paper.mean - start).mean() / np.asarray(found.mean - start).mean()
    assert 0.05 < share < 0.8
    np.testing.assert_allclose(np.median(paper.stderr), np.median(found.stderr), rtol=0.2)
    assert set(paper.diagnostics) == {"drift", "acceptance", "step_size", "divergences", "nan_energies"}


@pytest.mark.slow
def test_without_adaptivity_it_is_the_sample_mean():
    history = jb.simulate(jax.random.key(0), jb.Uniform(), jb.Normal(sigma=2.0), FIVE, 40, 4)
    found = jb.conditional_mle(jax.random.key(1), history, jb.Uniform(), jb.Normal(sigma=2.0), num_paths=PATHS)
    np.testing.assert_allclose(found.mean, history.statistics.mean, atol=1e-4)
    np.testing.assert_allclose(found.stderr, 2 / np.sqrt(history.statistics.pulls), rtol=1e-4)
    assert found.converged.all()


@pytest.mark.slow
def test_the_score_is_zero_at_the_estimate():
    """At the estimates, other random numbers must find the expected sums where the observed ones are."""
    policy, sigma = jb.LilUCB(tau=1.0), jnp.ones(3)
    history = jb.simulate(jax.random.key(3), policy, FAMILY, [1.0, 0.75, 0.5], UCB_STEPS, 8)
    found = jb.conditional_mle(jax.random.key(1), history, policy, FAMILY, num_paths=UCB_PATHS)
    noise = jax.random.normal(jax.random.key(9), (UCB_STEPS, 20_000))

    @jax.jit
    @jax.vmap
    def moments(log, mean):
        record = record_of(log)
        path = most_likely_path(policy, record, mean, sigma, log.rewards, 8)
        return moments_at(sample_paths(policy, record, mean, sigma, path, lambda step: noise[step]), jnp.zeros(3))

    at = moments(history, found.mean)
    off = np.asarray(at.total) / np.sqrt(np.diagonal(at.covariance, axis1=1, axis2=2))
    assert np.abs(off).max() < 0.02  # of the spread of the sums: the estimate is off by 2% of its standard error at most


def test_nearly_no_noise_is_not_believed():
    """tau = 0.006, near the least that is taken: the density is all but cut off at the choices, which no Gaussian follows."""
    policy = jb.LilUCB(tau=6e-3)
    history = jb.simulate(jax.random.key(0), policy, FAMILY, [1.0, 0.75, 0.5], UCB_STEPS, 8)
    found = jb.conditional_mle(jax.random.key(1), history, policy, FAMILY, num_paths=UCB_PATHS)
    assert np.isfinite(found.mean[np.asarray(found.converged)]).all()
    assert not found.converged.all()


@pytest.mark.slow
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
    assert found.mean.dtype == found.upper.dtype == jnp.result_type(float)
    np.testing.assert_allclose(found.mean, expected, atol=1e-3)
    np.testing.assert_allclose(found.stderr, np.sqrt(np.diag(np.linalg.inv(information))), rtol=1e-3)
    assert found.converged.all()


@pytest.mark.parametrize(
    ("solver", "name"),
    [
        ("newton", "own"),
        ("contrastive_divergence", "own"),
        pytest.param("newton", "exp3", marks=pytest.mark.slow),
        pytest.param("contrastive_divergence", "exp3", marks=pytest.mark.slow),
    ],
)
def test_policies_that_keep_something_else(own_policy, solver, name, maximum):
    """Exp3, and a policy of one's own: against the maximum by quadrature over every reward."""
    policy = {"exp3": jb.Exp3(gamma=0.9), "own": own_policy}[name]
    arms, rewards = np.array([0, 1, 1, 1]), np.array([0.8, 0.1, 0.4, 1.2])
    history = jb.History(arms=jnp.asarray(arms), rewards=jnp.asarray(rewards, float), num_arms=2)
    found = jb.conditional_mle(jax.random.key(0), history, policy, FAMILY, solver)
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
    (dict(policy=jb.LilUCB()), "policy", "choices are not random; it must be one with random choices .tau > 0.* mean_matching"),
    (dict(given_draws=True), "given_draws", "is True; it must be False with Greedy: only Thompson"),
    (dict(given_draws=True, policy=jb.Thompson()), "history.draws", "is None; it must be recorded where given_draws is True"),
    (
        dict(
            given_draws=True,
            policy=jb.Thompson(),
            history=lambda a, r: jb.History(arms=a, rewards=r, num_arms=2, draws=jnp.zeros((4, 3))),
        ),
        "history.draws",
        r"has shape \(4, 3\); it must be of shape \(4, 2\)",
    ),
    (
        dict(
            given_draws=True,
            policy=jb.Thompson(),
            history=lambda a, r: jb.History(
                arms=a, rewards=r, num_arms=2, draws=jnp.zeros((4, 2)).at[3].set(jnp.array([2.0, 1.0]))
            ),
        ),
        "history.arms",
        "is 1 at step 3, which the policy gives probability zero",
    ),
    (dict(num_chains=1), "num_chains", "is 1; it must be 2 or more"),
    (dict(sampler=Sampler(num_samples=0)), "sampler.num_samples", "is 0; it must be a whole number from 1 to 2,147,483,647"),
    (dict(family=NoFamily()), "family", "it must be Normal, Bernoulli, Poisson or Exponential, or one with variance"),
    (
        dict(family=jb.Exponential(), solver="contrastive_divergence"),
        "solver",
        "is 'contrastive_divergence'; it must be 'newton' for Exponential",
    ),
    (dict(family=jb.Bernoulli()), "history.rewards", "is 0.5 at step 0, which Bernoulli.* cannot give"),
    (dict(solver="adam"), "solver", "is 'adam'; it must be 'newton' or 'contrastive_divergence'"),
    (dict(level=1.0), "level", "is 1.0; it must be above 0 and below 1"),
    (dict(num_paths=1), "num_paths", "is 1; it must be 2 or more"),
    (
        dict(history=lambda a, r: jb.History(arms=a, rewards=r.at[2].set(jnp.nan), num_arms=2)),
        "history.rewards",
        "is nan at step 2; it must be finite",
    ),
    (
        dict(history=lambda a, r: jb.History(arms=a.at[3].set(5), rewards=r, num_arms=2)),
        "history.arms",
        "is 5 at step 3; it must be from 0 to 1",
    ),
    (
        dict(history=lambda a, r: jb.History(arms=a, rewards=r, num_arms=3)),
        "history",
        "has no pull of arm 2 in trial 0; it must be one with every arm pulled",
    ),
    (
        dict(history=lambda a, r: jb.History(arms=a, rewards=r[:3], num_arms=2)),
        "history",
        r"arms of shape \(4,\) and rewards of shape \(3,\)",
    ),
]


@pytest.mark.parametrize(("change", "argument", "message"), BAD)
def test_bad_input_is_named(change, argument, message, unchecked):
    with pytest.raises(jb.ArgumentError, match=message) as refused:
        bad(**change)
    assert refused.value.argument == argument


def test_an_arm_with_probability_zero_is_named():
    class Never(jb.policies.StatisticsPolicy):
        def log_probs(self, state):
            return jnp.log(jnp.array([0.6, 0.4, 0.0]))

    history = jb.History(arms=jnp.array([0, 1, 2, 0, 2]), rewards=jnp.ones(5), num_arms=3)
    with pytest.raises(jb.ArgumentError, match=r"history.arms is 2 at step 4, which the policy gives probability zero"):
        jb.conditional_mle(jax.random.key(0), history, Never(), jb.Normal())
