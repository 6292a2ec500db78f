"""Shrinkage against brute-force integrals in NumPy and SciPy, and what it must do at the edges."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import jaxbias as jb
from jaxbias.estimators.conjugate import line_log_density, log_evidence, log_rising
from jaxbias.estimators.shrinkage.estimator import shrunken_means, summarise_log
from jaxbias.estimators.shrinkage.one_parameter import conjugate_posterior
from jaxbias.estimators.shrinkage.posterior import Summary

PULLS = np.array([12, 3, 1])
SHARES = (np.arange(800) + 0.5) / 800  # of the uniform prior of the shrinkage of a typical arm
KINDS = {"bernoulli": jb.Bernoulli(), "poisson": jb.Poisson(), "exponential": jb.Exponential()}


def log_of(rewards_by_arm):
    """One log, arm after arm."""
    arms = np.concatenate([np.full(len(rewards), arm) for arm, rewards in enumerate(rewards_by_arm)])
    rewards = np.concatenate(rewards_by_arm).astype(float)
    return jb.History(arms=jnp.asarray(arms, jnp.int32), rewards=jnp.asarray(rewards), num_arms=len(rewards_by_arm))


@pytest.fixture(scope="module")
def normal_log():
    rng = np.random.default_rng(0)
    return log_of([rng.normal(mean, 1, size) for mean, size in zip((1.0, 0.2, -0.5), PULLS, strict=True)])


def brute_normal(means, variances, level, freedom=None, within=None):
    """Posterior mean, deviation and quantiles by a midpoint rule over the shrinkage, and root finding in SciPy."""
    between = variances.mean() * (1 - SHARES) / SHARES
    weights, places, scales = [], [], []
    for one in between:
        precision = 1 / (one + variances)
        centre = precision @ means / precision.sum()
        squares = precision @ np.square(means - centre)
        prior = np.sqrt(np.prod(precision) / precision.sum())
        weights.append(prior * (np.exp(-squares / 2) if within is None else (squares + within) ** (-freedom / 2)))
        shrinks = variances * precision
        places.append(means - shrinks * (means - centre))
        unit = 1 if within is None else (squares + within) / freedom
        scales.append(np.sqrt((one * shrinks + shrinks**2 / precision.sum()) * unit))
    weights, places, scales = np.array(weights) / np.sum(weights), np.array(places), np.array(scales)
    cdf = stats.norm.cdf if within is None else lambda z: stats.t.cdf(z, freedom)
    mean = weights @ places
    grid = np.linspace(mean - 8, mean + 8, 6001)
    chances = np.array([weights @ cdf((at - places) / scales) for at in grid])
    ends = [[np.interp(share, chances[:, arm], grid[:, arm]) for arm in range(len(means))] for share in (level[0], level[1])]
    heavy = 1 if within is None else freedom / (freedom - 2)
    return mean, np.sqrt(weights @ (heavy * scales**2 + (places - mean) ** 2)), *ends


@pytest.mark.parametrize("sigma", [1.0, None])
def test_normal_rewards_against_brute_force(normal_log, sigma):
    summary = jax.tree.map(np.asarray, summarise_log(normal_log))
    known = dict(freedom=None, within=None) if sigma else dict(freedom=PULLS.sum() - 1, within=summary.squares.sum())
    expected = brute_normal(summary.mean, 1 / PULLS, (0.05, 0.95), **known)
    estimate = jb.shrinkage(normal_log, jb.Normal(sigma=sigma), level=0.9)
    found = (estimate.mean, estimate.stderr, estimate.lower, estimate.upper)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-3)
    assert estimate.converged.all()


def test_a_sigma_for_each_arm(normal_log):
    """Near the answer with one sigma where they are the same; and a noisy arm counts for less."""
    one, each = (jb.shrinkage(normal_log, jb.Normal(sigma=sigma)) for sigma in (None, "each"))
    assert np.all(np.abs(one.mean - each.mean) < one.stderr)
    noisy = dataclasses.replace(normal_log, rewards=normal_log.rewards * jnp.where(normal_log.arms == 0, 10.0, 1.0))
    noisy = jb.shrinkage(noisy, jb.Normal(sigma="each"))
    assert float(noisy.diagnostics["weight"][0]) < float(each.diagnostics["weight"][0])
    assert np.all((each.lower < each.mean) & (each.mean < each.upper))


def brute_conjugate(kind, pulls, totals):
    """Posterior means by a midpoint rule over shrinkage and a fine one over the centre."""
    typical, line, top, bottom = len(pulls) / np.sum(1 / pulls), np.linspace(-18, 18, 1201), 0, 0
    for share in SHARES:
        worth = typical * share / (1 - share)
        centre = special.expit(line) if kind == "bernoulli" else np.exp(line)
        first, scale = worth * centre, worth if kind == "poisson" else worth + 1
        log_weight = np.zeros_like(line) if kind == "exponential" else line / 2
        log_weight = np.log(centre * (1 - centre)) / 2 if kind == "bernoulli" else log_weight
        for number, total in zip(pulls, totals, strict=True):
            if kind == "bernoulli":
                second = worth * (1 - centre)
                log_weight = log_weight + special.betaln(first + total, second + number - total) - special.betaln(first, second)
            elif kind == "poisson":
                gained = special.gammaln(first + total) - special.gammaln(first)
                log_weight = log_weight + gained + first * np.log(worth / (worth + number)) - total * np.log(worth + number)
            else:
                gained = special.gammaln(scale + number) - special.gammaln(scale)
                log_weight = log_weight + gained + scale * np.log(first / (first + total)) - number * np.log(first + total)
        weight = np.exp(log_weight)
        top = top + np.array([weight @ ((first + t) / (worth + n)) for n, t in zip(pulls, totals, strict=True)])
        bottom += weight.sum()
    return top / bottom


@pytest.mark.parametrize("kind", KINDS)
def test_conjugate_families_against_brute_force(kind):
    totals = np.array([3.0, 2.0, 0.0]) + (0.5 if kind == "exponential" else 0)
    pulls = jnp.asarray(PULLS, float)
    one = jax.jit(lambda mean: shrunken_means(KINDS[kind], Summary(pulls=pulls, mean=mean, squares=jnp.zeros_like(mean))))(
        jnp.asarray(totals) / pulls
    )
    np.testing.assert_allclose(one, brute_conjugate(kind, PULLS, totals), rtol=2e-3)


def test_evidence_against_scipy():
    """The probability of the rewards under the prior over that at its mean; also where Gamma functions cancel in float32."""
    start, count = np.array([1e-3, 0.3, 5.0, 1e6]), np.array([40.0, 7.0, 0.0, 1000.0])
    exact = special.gammaln(start + count) - special.gammaln(start) - count * np.log(start)
    np.testing.assert_allclose(log_rising(jnp.asarray(start), jnp.asarray(count)), exact, rtol=2e-5, atol=2e-4)
    mean, weight, pulls, total = 0.3, 4.0, 9.0, 2.0
    exact = {
        "bernoulli": stats.betabinom.logpmf(2, 9, 1.2, 2.8) - stats.binom.logpmf(2, 9, 0.3),
        "poisson": stats.nbinom.logpmf(2, 1.2, 4 / 13) - stats.poisson.logpmf(2, 2.7),
        "exponential": special.gammaln(14) - special.gammaln(5) + 5 * np.log(1.2) - 14 * np.log(3.2) + 9 * np.log(0.3) + 2 / 0.3,
    }
    numbers = [jnp.asarray(value) for value in (mean, weight, pulls, total)]
    for kind, family in KINDS.items():
        np.testing.assert_allclose(log_evidence(family, *numbers), exact[kind], rtol=1e-4)
    priors = stats.beta(1.8, 4.2), stats.gamma(1.8, scale=1 / 6), stats.invgamma(7, scale=1.8)
    for (kind, family), prior in zip(KINDS.items(), priors, strict=True):
        at, slope = (np.log(0.4 / 0.6), 0.4 * 0.6) if kind == "bernoulli" else (np.log(0.4), 0.4)  # d mean / d place
        found = line_log_density(family, jnp.asarray(at), jnp.asarray(0.3), jnp.asarray(6.0))
        np.testing.assert_allclose(found, prior.logpdf(0.4) + np.log(slope), rtol=1e-4)


def test_quantiles_of_a_mixture_against_scipy():
    """The table on the line: the distribution function of the mixture of Beta distributions at the ends of the interval."""
    summary = Summary(*(jnp.asarray(values, float) for values in (PULLS, [0.25, 2 / 3, 0.0], [0.0] * 3)))

    def ends(summary):
        posterior = conjugate_posterior(jb.Bernoulli(), summary)
        return posterior.weight, posterior.mean, posterior.kept, posterior.quantile(0.05), posterior.quantile(0.95)

    weight, mean, kept, *found = (np.asarray(values, np.float64) for values in jax.jit(ends)(summary))
    after = PULLS / kept
    for share, at in zip((0.05, 0.95), found, strict=True):
        chance = weight @ special.betainc(after * mean, after * (1 - mean), at)
        np.testing.assert_allclose(chance, share, atol=6e-3)  # the lower end of an arm without a success is coarse


@pytest.mark.parametrize("kind", KINDS)
def test_estimates_and_intervals_stay_in_the_range(kind):
    """Also where every reward was at the end of it; a single pull has no interval of length 0."""
    rewards = {"bernoulli": [[0, 0, 0], [0], [1, 1]], "poisson": [[0, 0, 0], [0], [0, 0]], "exponential": [[0.1, 2], [3], [1e-3]]}
    estimate, (low, high) = jb.shrinkage(log_of(rewards[kind]), KINDS[kind]), KINDS[kind].mean_range
    assert np.all((low <= estimate.lower) & (estimate.lower < estimate.mean) & (estimate.mean < estimate.upper))
    assert np.all((estimate.upper <= high) & (estimate.stderr > 0))
    assert estimate.converged.all()


def test_a_single_arm_and_an_arm_without_a_pull(normal_log):
    one = jb.shrinkage(log_of([[1.0, 2.0]]), jb.Normal(sigma=1.0))
    np.testing.assert_allclose([one.mean[0], one.upper[0]], [1.5, 1.5 + 1.96 / np.sqrt(2)], rtol=1e-3)
    wider = dataclasses.replace(normal_log, num_arms=4)
    estimate, without = jb.shrinkage(wider, jb.Normal()), jb.shrinkage(normal_log, jb.Normal())
    assert int(estimate.status[3]) == jb.Status.NEVER_PULLED
    assert np.isnan(float(estimate.mean[3]))
    np.testing.assert_allclose(estimate.mean[:3], without.mean, atol=1e-3)


def test_equal_sample_means_have_intervals():
    estimate = jb.shrinkage(log_of([[1.0, 3.0], [2.0, 2.0], [2.0, 2.0, 2.0]]), jb.Normal())
    np.testing.assert_allclose(estimate.mean, 2, atol=1e-5)
    naive = 2 * 1.96 / np.sqrt([2, 2, 3])
    assert np.all((estimate.upper - estimate.lower > 0.6 * naive) & (estimate.upper - estimate.lower < naive))


def test_a_batch_is_its_logs_and_has_gradients(normal_log):
    both = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), normal_log)
    estimate = jb.shrinkage(both, jb.Normal())
    assert estimate.mean.shape == (2, 3)
    np.testing.assert_allclose(estimate.mean[1], jb.shrinkage(normal_log, jb.Normal()).mean, rtol=1e-5)
    first = lambda rewards: jb.shrinkage(dataclasses.replace(normal_log, rewards=rewards), jb.Normal()).mean[0]
    slope = jax.grad(first)(normal_log.rewards)
    step = jnp.zeros_like(slope).at[0].set(0.02)
    change = first(normal_log.rewards + step) - first(normal_log.rewards - step)
    np.testing.assert_allclose(change / 0.04, slope[0], rtol=0.03)


@pytest.mark.usefixtures("unchecked")
def test_what_is_refused(normal_log):
    with pytest.raises(jb.ArgumentError, match="family is None; it must be an object with sample"):
        jb.shrinkage(normal_log, None)
    with pytest.raises(jb.ArgumentError, match=r"family\.sigma is not given"):
        jb.shrinkage(log_of([[1.0], [2.0]]), jb.Normal(sigma=None))
