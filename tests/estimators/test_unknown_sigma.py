"""Sigma estimated together with the means: against quadrature, against Student, and what the scale of the rewards changes."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri
from scipy.stats import qmc

import jaxbias as jb
from jaxbias.estimators.draws import moments
from jaxbias.estimators.gaussian import draw_paths, most_likely_path
from jaxbias.estimators.logs import make_log
from jaxbias.estimators.unknown_sigma import UnknownSigma
from jaxbias.likelihood import selection_log_probs

COMMON, EACH = jb.Normal(sigma=None), jb.Normal(sigma="each")
ESTIMATORS = {"conditional_mle": jb.conditional_mle, "mean_matching": jb.mean_matching}
ARMS = np.array([0, 1, 0, 1])  # of which the last reward is seen by no choice
REWARDS = np.array([1.5, 0.2, 0.1, 1.0])


def of_arms(family, num_arms=2):
    return np.zeros(num_arms, int) if family.sigma is None else np.arange(num_arms)


def statistics(rewards, mean, of_arm):
    """Sums of each arm and sums of squares around the means of each sigma, less those of the log: (draws, statistics)."""
    chosen, pooled = np.eye(2)[ARMS], np.eye(of_arm.max() + 1)[of_arm]
    squares = np.square(rewards - mean[ARMS]) - np.square(REWARDS - mean[ARMS])
    return np.concatenate([(rewards - REWARDS) @ chosen, squares @ chosen @ pooled], axis=1)


def brute_force(policy, mean, sigma, of_arm, at=None, nodes=24):
    """log-probability of the arms, expectation and covariance of the statistics: Gauss-Hermite over all four rewards."""
    point, weight = np.polynomial.hermite_e.hermegauss(nodes)
    noise = np.array(list(itertools.product(point, repeat=4)))
    weights = np.prod(np.array(list(itertools.product(weight / weight.sum(), repeat=4))), axis=1)
    rewards = mean[ARMS] + sigma[ARMS] * noise
    forced = jnp.asarray([True, True, False, False])
    score = lambda row: selection_log_probs(policy, jnp.asarray(ARMS), row, forced, 2).sum()
    log_probs = jax.jit(partial(jax.lax.map, score, batch_size=4096))(jnp.asarray(rewards))
    density = np.exp(np.asarray(log_probs, np.float64)) * weights
    found = statistics(rewards, mean if at is None else at, of_arm)
    expected = density @ found / density.sum()
    return np.log(density.sum()), expected, (found - expected).T @ ((found - expected) * density[:, None]) / density.sum()


def draws_at(policy, mean, sigma, parameters, exponent=16):
    log = make_log(jnp.asarray(ARMS, jnp.int32), jnp.asarray(REWARDS), jnp.asarray([True, True, False, False]), 2)
    points = qmc.Sobol(4, scramble=True, rng=np.random.default_rng(0)).random_base2(exponent)
    at, spread = jnp.asarray(mean), jnp.asarray(sigma)
    path = most_likely_path(policy, log, at, spread, jnp.asarray(REWARDS), 6)
    noise = jnp.asarray(ndtri(points).T)
    draws = draw_paths(policy, log, at, spread, path, lambda step: noise[step], squares=True)
    return log, parameters.statistics(draws)


POLICIES = {"greedy": jb.Greedy(tau=1.0), "epsilon-greedy": jb.EpsilonGreedy(tau=1.0)}


@pytest.mark.parametrize("family", [COMMON, EACH], ids=["common", "each"])
@pytest.mark.parametrize("name", POLICIES)
def test_score_and_information_against_quadrature(name, family):
    """At the means and sigma of the draws, and by reweighting at others; the normaliser too."""
    policy, of_arm = POLICIES[name], of_arms(family)
    with jax.enable_x64(True):
        mean, sigma = np.array([0.9, 0.4]), np.array([1.0, 0.7])[of_arm]
        parameters = UnknownSigma(of_arm=of_arm, is_free=jnp.ones(of_arm.max() + 1, bool))
        log, draws = draws_at(policy, mean, sigma, parameters)
        move = np.array([0.1, -0.2, *[-0.15, -0.1][: of_arm.max() + 1]])
        start = jnp.asarray(np.concatenate([mean, np.log(sigma[: of_arm.max() + 1])]))
        for change in (np.zeros_like(move), move):
            after = sigma * np.exp(change[2:][of_arm])
            log_normaliser, expected, covariance = brute_force(policy, mean + change[:2], after, of_arm, at=mean)
            found = moments(draws, parameters.tilt(start, jnp.asarray(change)))
            np.testing.assert_allclose(found.total, expected, atol=2e-3)
            np.testing.assert_allclose(found.covariance, covariance, atol=2e-2)
            added = parameters.log_normaliser(log, start, jnp.asarray(change))
            np.testing.assert_allclose(found.log_normaliser + added, log_normaliser, atol=2e-3)


@pytest.mark.parametrize("family", [COMMON, EACH], ids=["common", "each"])
def test_the_slope_is_the_derivative_of_the_tilt(family, x64):
    of_arm = of_arms(family)
    parameters = UnknownSigma(of_arm=of_arm, is_free=jnp.ones(of_arm.max() + 1, bool))
    at, move = jnp.asarray([0.9, 0.4, -0.2, 0.3])[: 3 + of_arm.max()], jnp.asarray([0.1, -0.2, 0.15, -0.1])[: 3 + of_arm.max()]
    expected = jax.jacfwd(lambda move: parameters.tilt(at, move))(move)
    np.testing.assert_allclose(parameters.slope(at, move), expected, rtol=1e-5)


@pytest.mark.parametrize("family", [COMMON, EACH], ids=["common", "each"])
def test_the_maximum_against_quadrature(family):
    """The score, by quadrature, is zero at the estimate, and the standard errors are those of its information."""
    policy, of_arm = jb.Greedy(tau=1.0), of_arms(family)
    with jax.enable_x64(True):
        history = jb.History(arms=jnp.asarray(ARMS), rewards=jnp.asarray(REWARDS), num_arms=2)
        found = jb.conditional_mle(jax.random.key(0), history, policy, family, num_paths=2**16)
        figures = found.diagnostics
        sigma = np.broadcast_to(np.asarray(figures["sigma"]), 2)
        _, expected, covariance = brute_force(policy, np.asarray(found.mean), sigma, of_arm)
    by_variance = 1 / np.concatenate([sigma**2, np.unique(sigma**2) if family is COMMON else sigma**2])
    information = covariance * np.outer(by_variance, by_variance)
    inverse = np.linalg.inv(information)
    errors = np.sqrt(np.diag(inverse))
    assert np.abs(inverse @ (expected * by_variance) / errors).max() < 0.03
    larger = np.sqrt(2.0)  # four pulls of two arms leave two degrees of freedom; two pulls of one arm leave one
    np.testing.assert_allclose(found.stderr, larger * errors[:2], rtol=0.03)
    np.testing.assert_allclose(figures["sigma_stderr"], (sigma * errors[2:])[: of_arm.max() + 1].squeeze(), rtol=0.03)
    quantile = stats.t(2 if family is COMMON else 1).ppf(0.975)
    half = np.asarray(found.upper) - np.asarray(found.mean)
    np.testing.assert_allclose(half, quantile * np.asarray(found.stderr), rtol=1e-5)


def within(history, trial, arm=None):
    arms, rewards = np.asarray(history.arms[trial]), np.asarray(history.rewards[trial], np.float64)
    return sum(np.square(rewards[arms == k] - rewards[arms == k].mean()).sum() for k in range(3) if arm in (None, k))


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("family", [COMMON, EACH], ids=["common", "each"])
def test_without_adaptivity_it_is_students(name, family, x64):
    """Sample means, the usual sigma (maximum likelihood's or that with degrees of freedom) and Student's intervals."""
    history = jb.simulate(jax.random.key(0), jb.Uniform(), jb.Normal(sigma=2.0), [1.0, 0.75, 0.5], 40, 2)
    forced = jb.History(arms=history.arms, rewards=history.rewards, num_arms=3, forced=jnp.ones((2, 40), bool))
    found = ESTIMATORS[name](jax.random.key(1), forced, jb.Uniform(), family)
    assert found.converged.all()
    assert found.mean.dtype == found.upper.dtype == found.diagnostics["sigma"].dtype == jnp.result_type(float)
    pulls = np.asarray(history.statistics.pulls)
    exact = name == "conditional_mle"  # the other's standard errors are simulated
    for trial in range(2):
        each = [within(history, trial, arm) for arm in range(3)]
        squares, freedom = (within(history, trial), 37) if family is COMMON else (np.array(each), pulls[trial] - 1)
        size = 40 if family is COMMON else pulls[trial]
        usual, maximum = np.sqrt(squares / freedom), np.sqrt(squares / size)
        error = np.asarray(found.diagnostics["monte_carlo_error"][trial])
        still = 4 * error + 3e-3 * np.asarray(found.stderr[trial])  # what a last step of a tenth of it leaves
        np.testing.assert_array_less(np.abs(found.mean[trial] - history.statistics.mean[trial]), still)
        expected = maximum if exact else usual
        np.testing.assert_allclose(found.diagnostics["sigma"][trial], expected, rtol=1e-3 if exact else 0.02)
        half = stats.t(freedom).ppf(0.975) * usual / np.sqrt(pulls[trial])
        np.testing.assert_allclose(found.upper[trial] - found.mean[trial], half, rtol=1e-3 if exact else 0.1)
        np.testing.assert_allclose(found.diagnostics["sigma_stderr"][trial] / expected, 1 / np.sqrt(2 * size), rtol=0.15)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_long_log_tells_sigma(name):
    """Within 4 standard errors, which are small; the means too."""
    policy, mean = jb.Greedy(tau=1.0), [1.0, 0.75, 0.5]
    history = jb.simulate(jax.random.key(2), policy, jb.Normal(sigma=1.5), mean, 1500)
    found = ESTIMATORS[name](jax.random.key(1), history, policy, COMMON, num_paths=512)
    sigma, error = found.diagnostics["sigma"], found.diagnostics["sigma_stderr"]
    assert abs(sigma - 1.5) < 4 * error < 0.15
    assert found.converged.all()
    assert (np.abs(np.asarray(found.mean) - mean) < 4 * np.asarray(found.stderr)).all()


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("family", [COMMON, EACH], ids=["common", "each"])
def test_rewards_on_another_scale(name, family):
    """A hundred times the rewards, with a hundred times the noise: all figures a hundred times as large."""
    history = jb.simulate(jax.random.key(3), jb.Greedy(tau=1.0), jb.Normal(), [1.0, 0.75], 24)
    larger = jb.History(arms=history.arms, rewards=100 * history.rewards, num_arms=2)
    run = partial(ESTIMATORS[name], jax.random.key(1), num_paths=512)
    one, other = run(history, jb.Greedy(tau=1.0), family), run(larger, jb.Greedy(tau=100.0), family)
    for figure in ("mean", "stderr", "lower", "upper"):
        np.testing.assert_allclose(getattr(other, figure), 100 * getattr(one, figure), rtol=2e-3, atol=0.2)
    for figure in ("sigma", "sigma_stderr"):
        np.testing.assert_allclose(other.diagnostics[figure], 100 * one.diagnostics[figure], rtol=2e-3)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_one_pull_tells_no_sigma_of_its_own(name):
    """The arm has a mean and no interval, and says why; the others are estimated. With one sigma for all it has both."""
    arms = jnp.asarray([0, 1, 2, 0, 0, 1, 0, 1])
    history = jb.History(arms=arms, rewards=jnp.asarray([1.0, 0.3, -0.5, 2.0, 0.5, 1.1, 1.4, -0.2]), num_arms=3)
    found = ESTIMATORS[name](jax.random.key(0), history, jb.Greedy(tau=1.0), EACH)
    assert found.converged.tolist() == [True, True, False]
    assert jb.STATUS[found.diagnostics["status"][2]] == "pulled once, which does not tell its sigma"
    assert np.isfinite(found.mean).all()
    for figures in (found.stderr, found.lower, found.upper, found.diagnostics["sigma_stderr"]):
        assert np.isnan(figures).tolist() == [False, False, True]
    assert found.diagnostics["freedom"].tolist() == [3, 2, 0]
    together = ESTIMATORS[name](jax.random.key(0), history, jb.Greedy(tau=1.0), COMMON)
    assert together.converged.all()
    assert float(together.diagnostics["freedom"]) == 5


def test_a_policy_that_keeps_more_than_sums(own_policy):
    """Chains in place of paths find the same maximum."""
    history = jb.simulate(jax.random.key(0), jb.Greedy(tau=1.0), jb.Normal(), [1.0, 0.75], 12)
    run = partial(jb.conditional_mle, jax.random.key(1), history)
    paths = run(jb.Greedy(tau=1.0), COMMON, num_paths=4096)
    chains = run(jb.Greedy(tau=1.0), COMMON, sampler=jb.Sampler(num_samples=1000))
    np.testing.assert_array_less(np.abs(paths.mean - chains.mean), 0.15 * np.asarray(paths.stderr))
    assert abs(paths.diagnostics["sigma"] - chains.diagnostics["sigma"]) < 0.15 * paths.diagnostics["sigma_stderr"]
    own = run(own_policy, COMMON, sampler=jb.Sampler(num_samples=200))
    assert np.isfinite(own.mean).all()


def test_batches_of_pulls():
    """In batches the sums of squares are still those of the single pulls: forced batches are Student's."""
    arms = jnp.asarray([0, 1, 0, 0, 1, 1, 0, 1, 1])
    rewards = jax.random.normal(jax.random.key(0), (9,))
    history = jb.History(arms=arms, rewards=rewards, num_arms=2, batch_sizes=(2, 4, 3))
    found = jb.conditional_mle(jax.random.key(1), history, jb.Uniform(), COMMON)
    np.testing.assert_allclose(found.mean, history.statistics.mean, atol=1e-4)
    squares = sum(np.square(rewards[arms == arm] - rewards[arms == arm].mean()).sum() for arm in range(2))
    np.testing.assert_allclose(found.diagnostics["sigma"], np.sqrt(squares / 9), rtol=1e-3)


ALIKE = jb.History(arms=jnp.asarray([0, 1, 0, 1, 0]), rewards=jnp.asarray([0.1, 0.2, 0.1, 0.2, 0.1]), num_arms=2)
ONCE = jb.History(arms=jnp.asarray([0, 1]), rewards=jnp.asarray([0.1, 0.2]), num_arms=2)
HALF = jb.History(arms=jnp.asarray([0, 1, 0, 1]), rewards=jnp.asarray([0.1, 0.2, 0.1, 0.3]), num_arms=2)


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize(
    ("history", "family", "message"),
    [
        (ALIKE, COMMON, "family.sigma is None and every arm's rewards are all the same; allowed: a standard deviation"),
        (ONCE, COMMON, "family.sigma is None and no arm was pulled twice; allowed: a standard deviation"),
        (ONCE, EACH, "family.sigma is 'each' and no arm was pulled twice; allowed: "),
        (HALF, EACH, "family.sigma is 'each' and the rewards of arm 0 are all the same; allowed: "),
        (HALF, jb.Normal(sigma="all"), "family.sigma is 'all'; allowed: a number; to be estimated: None"),
    ],
)
def test_what_is_refused(name, history, family, message):
    with pytest.raises(ValueError, match=message):
        ESTIMATORS[name](jax.random.key(0), history, jb.Greedy(tau=1.0), family)


def test_what_needs_a_sigma():
    key, policy = jax.random.key(0), jb.Greedy(tau=1.0)
    history = jb.simulate(key, policy, jb.Normal(), [1.0, 0.75], 12)
    for family in (COMMON, EACH):
        message = f"family.sigma is {family.sigma!r}; allowed in a simulation: a standard deviation"
        with pytest.raises(ValueError, match=message):
            jb.simulate(key, policy, family, [1.0, 0.75], 12)
        with pytest.raises(ValueError, match=message):
            jb.measure_bias(key, policy, family, [1.0, 0.75], num_steps=12, num_trials=100)
        with pytest.raises(ValueError, match=message):
            jb.bias_at(key, history, policy, family, [1.0, 0.75])
        with pytest.raises(ValueError, match="solver is 'contrastive_divergence' and family"):
            jb.conditional_mle(key, history, policy, family, "contrastive_divergence")
        with pytest.raises(ValueError, match="inverted is True and family is Normal"):
            jb.mean_matching(key, history, policy, family, inverted=True)
        for estimate in (jb.sample_mean(history, family), jb.propensity_weighting(history, policy, family=family)):
            assert np.isfinite(estimate.mean).all()
        np.testing.assert_array_equal(jb.sample_mean(history, family).lower, jb.sample_mean(history).lower)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("conditional_mle", jb.Greedy(tau=1.0)),
        ("conditional_mle", jb.LilUCB(tau=1.0)),
        ("mean_matching", jb.Greedy(tau=1.0)),
        ("mean_matching", jb.Greedy()),
    ],
)
def test_intervals_cover(name, policy):
    """T = 40, three arms, 500 logs: the intervals cover what they say, and less than 40% of the bias is left."""
    mean = np.array([1.0, 0.75, 0.5])
    history = jb.simulate(jax.random.key(7), policy, jb.Normal(), mean, 40, 500)
    found = ESTIMATORS[name](jax.random.key(1), history, policy, COMMON, num_paths=512)
    inside = (np.asarray(found.lower) <= mean) & (np.asarray(found.upper) >= mean)
    assert 0.93 <= inside.mean() <= 0.985
    error = (np.asarray(found.mean) - mean).mean(axis=1)
    original = (np.asarray(history.statistics.mean) - mean).mean()
    assert abs(error.mean()) < 0.4 * abs(original) + 3 * error.std() / np.sqrt(500)
    assert found.converged.mean() > 0.99
