"""The probability that an arm wins, against integrals done by brute force."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from scipy.special import betainc, betaln, expit, log_expit, log_ndtr, logsumexp, polygamma

import jaxbias as jb
from jaxbias.policies import ArmStatistics
from jaxbias.policies.base import complete_policy
from jaxbias.policies.win_shares import beta_win_probs
from jaxbias.policies.winning import (
    DEPTH,
    _beta_log_density,
    _beta_reach,
    beta_win_log_probs,
    noisy_normal_win_log_probs,
    normal_win_log_prob,
    normal_win_log_probs,
    normal_win_quadratic,
)

NODES, WEIGHTS = np.polynomial.legendre.leggauss(6)


def brute_force(curves, cuts):
    """Gauss-Legendre between very many cuts; `curves` gives log-densities and log-distribution functions."""
    cuts = np.unique(cuts)
    half = np.diff(cuts) / 2
    grid = ((cuts[:-1] + half)[:, None] + half[:, None] * NODES).ravel()
    log_density, log_below = curves(grid)
    return logsumexp(log_density + log_below.sum(axis=0) - log_below, axis=1, b=(half[:, None] * WEIGHTS).ravel())


def normal_truth(location, scale):
    def curves(grid):
        standard = (grid - location[:, None]) / scale[:, None]
        return scipy.stats.norm.logpdf(standard) - np.log(scale)[:, None], log_ndtr(standard)

    return brute_force(curves, location[:, None] + scale[:, None] * np.linspace(-16, 16, 160))


def noisy_truth(location, scale, tau):
    """The distribution functions by the trapezoid rule over the noise, or over the Normal part where that is wider."""
    normal, gumbel = np.linspace(-14, 14, 281), np.linspace(-4.5, 60, 1000)

    def curves(grid):
        rows = []
        for middle, own in zip(location, scale, strict=True):
            if own < tau:
                rate = np.minimum((middle + own * normal - grid[:, None]) / tau, 600)
                weight = scipy.stats.norm.logpdf(normal) + np.log(0.1)
                both = rate - np.exp(rate) - np.log(tau), -np.exp(rate)
            else:
                rest = (grid[:, None] - middle - tau * gumbel) / own
                weight = scipy.stats.gumbel_r.logpdf(gumbel) + np.log(gumbel[1] - gumbel[0])
                both = scipy.stats.norm.logpdf(rest) - np.log(own), log_ndtr(rest)
            rows.append([logsumexp(part + weight, axis=1) for part in both])
        return np.swapaxes(rows, 0, 1)

    spread = np.hypot(scale, 1.3 * tau)[:, None]
    cuts = [scale[:, None] * np.linspace(-14, 14, 80), tau * np.linspace(-5, 10, 40), spread * np.linspace(-12, 60, 140)]
    return brute_force(curves, np.concatenate([(location[:, None] + cut).ravel() for cut in cuts]))


def beta_truth(success, failure):
    def curves(grid):
        above, below = success[:, None], failure[:, None]
        log_density = above * log_expit(grid) + below * log_expit(-grid) - betaln(above, below)
        under, over = betainc(above, below, expit(grid)), betainc(below, above, expit(-grid))
        with np.errstate(divide="ignore"):
            return log_density, np.maximum(np.where(under < 0.5, np.log(under), np.log1p(-over)), -1e6)

    spread = np.sqrt(polygamma(1, success) + polygamma(1, failure))[:, None]
    cuts = np.log(success / failure)[:, None] + spread * np.linspace(-16, 16, 200)
    return brute_force(curves, np.concatenate([cuts.ravel(), np.linspace(-40, 40, 400), np.sinh(np.linspace(-6, 6, 400))]))


def normal_problem(random, arms, kind):
    """Arms of 1 to 10^4 pulls, of which the kinds are near ties, tails, arms never pulled, and locations far from 0."""
    scale = 1 / np.sqrt(np.exp(random.uniform(0, np.log(1e4), arms)))
    if kind == "any":
        return random.normal(size=arms) * random.choice([0.01, 0.1, 0.5, 2.0]), scale
    if kind == "ties":
        return 1e-3 * random.normal(size=arms) * scale, scale
    if kind == "ahead":
        return np.where(np.arange(arms) == 1, random.uniform(1, 7) * scale, 0.1 * random.normal(size=arms)), scale
    if kind == "tails":
        return -random.uniform(0, 8, arms) * scale * (np.arange(arms) > 0), scale
    if kind == "far":
        return 100 + 2 * random.normal(size=arms) * scale, scale
    never = random.uniform(size=arms) < 0.4
    return np.where(never, 0, 2 * random.normal(size=arms)), np.where(never, 5.0, scale)


def beta_problem(random, arms, kind):
    """Parameters from 0.2 to 10^5: of priors, of rare successes, of arms that are alike, of tails, of many pulls."""
    pulls = np.exp(random.uniform(1, np.log(1e4), arms))
    if kind == "priors":
        return tuple(np.exp(random.uniform(np.log(0.2), np.log(3), (2, arms))))
    if kind == "rare":
        successes = random.binomial(pulls.astype(int), 0.05)
        return 1.0 + successes, 1.0 + pulls.astype(int) - successes
    if kind == "many":
        success = random.uniform(3e4, 1e5, arms)
        return success, success * np.exp(0.5 + 0.01 * random.normal(size=arms))
    behind = random.uniform(0, 7 if kind == "tails" else 0.1, arms) * (np.arange(arms) > 0)
    mean = np.clip(0.5 - behind * 0.5 / np.sqrt(pulls), 0.01, 0.99)
    return pulls * mean, pulls * (1 - mean)


KINDS = {"normal": ("any", "ties", "ahead", "tails", "far", "never"), "beta": ("priors", "rare", "many", "ties", "tails")}
PROBLEMS = {
    "normal": (normal_problem, normal_truth, normal_win_log_probs),
    "beta": (beta_problem, beta_truth, beta_win_log_probs),
}


def check(family, arms, number, seed):
    """Wherever a log-probability is above -25 it is right to 1e-4, in float64 to 1e-5; below it is finite and low."""
    make, truth, function = PROBLEMS[family]
    random, dtype = np.random.default_rng(seed), jnp.result_type(float)
    problems = [make(random, arms, kind) for kind in KINDS[family] for _ in range(number)]
    problems = [tuple(np.asarray(part, dtype).astype(float) for part in problem) for problem in problems]  # as it is rounded
    expected = np.array([truth(*problem) for problem in problems])
    found = np.asarray(jax.jit(jax.vmap(function))(*(jnp.asarray(part, dtype) for part in zip(*problems, strict=True))), float)
    np.testing.assert_allclose(logsumexp(found, axis=1), 0, atol=1e-5)
    likely = expected > -25
    np.testing.assert_allclose(found[likely], expected[likely], atol=1e-5 if dtype == jnp.float64 else 1e-4)
    assert np.all(np.isfinite(found))
    assert np.all(found[~likely] < -24)


@pytest.mark.parametrize("family", PROBLEMS)
def test_against_brute_force(family, x64):
    check(family, arms=5, number=3, seed=0)


@pytest.mark.parametrize(
    "prior", [(1e5, 1.0), (1e5, 1e5), (1.0, 1e5), (1e4, 1e-3), (1e2, 1e-2), (1e-3, 1e4), (1e-3, 1e-3), (1e5, 0.05)], ids=str
)
def test_strong_and_lopsided_priors(prior, x64):
    """An arm that never failed, with a prior of 0.01 failures, lost all its chance of losing, and float32 gave NaN."""
    random = np.random.default_rng(0)
    pulls = random.integers(1, 9, (6, 3))
    success = random.binomial(pulls, 0.5)
    dtype = jnp.result_type(float)
    posteriors = [np.asarray(prior[0] + success, dtype), np.asarray(prior[1] + pulls - success, dtype)]
    expected = np.array([beta_truth(*posterior) for posterior in zip(*(part.astype(float) for part in posteriors), strict=True)])
    found = jax.jit(jax.vmap(beta_win_log_probs))(*map(jnp.asarray, posteriors))
    np.testing.assert_allclose(found, expected, atol=1e-5 if dtype == jnp.float64 else 1e-4)
    assert expected.min() > -25


@pytest.mark.parametrize("low", [0.1, 1e-3, 1e-6])
def test_where_a_beta_density_ends(low, x64):
    """Where its logarithm has fallen by 32, whatever the parameters; Newton's method alone went to and fro."""
    side, other = np.exp(np.random.default_rng(0).uniform(np.log(low), np.log(1e7), (2, 5000)))
    far = np.asarray(_beta_reach(jnp.asarray(side), jnp.asarray(other)), float)
    with jax.enable_x64(True):
        depth = -_beta_log_density(*map(jnp.asarray, (side, other, -far)))
    np.testing.assert_allclose(depth, DEPTH, atol=0.5)


@pytest.mark.parametrize("prior", [(0.5, 0.5), (0.05, 0.05), (1e5, 1.0), (2.0, 3.0)], ids=str)
@pytest.mark.parametrize("traced", [False, True])
def test_batches_are_drawn_by_the_right_chances_whatever_the_prior(prior, traced):
    """Jeffreys' prior was off by 0.02 and (0.05, 0.05) by 0.2."""
    pulls = np.random.default_rng(1).integers(1, 500, (50, 3))
    total = np.random.default_rng(2).binomial(pulls, np.array([0.02, 0.98])[np.arange(50) % 2][:, None])
    states = ArmStatistics(pulls=jnp.asarray(pulls, jnp.int32), total=jnp.asarray(total, float))

    def both(success, failure, states):
        policy = jb.BetaThompson(prior_success=success, prior_failure=failure)
        return jax.vmap(policy.choice_probs)(states), jax.vmap(policy.log_probs)(states)

    chosen, exact = jax.jit(both)(*prior, states) if traced else both(*prior, states)
    np.testing.assert_allclose(chosen, np.exp(exact), atol=2e-4)


@pytest.mark.slow
@pytest.mark.parametrize("arms", [3, 12, 34, 80])
@pytest.mark.parametrize("family", PROBLEMS)
def test_against_brute_force_with_other_numbers_of_arms(family, arms, x64):
    check(family, arms, number=max(60 // arms, 1), seed=arms)


def check_noisy(taus, kinds, arms):
    random = np.random.default_rng(5)
    with jax.enable_x64(True):
        for tau in taus:
            problems = [normal_problem(random, arms, kind) for kind in kinds]
            given = (jnp.asarray(part) for part in zip(*problems, strict=True))
            found = jax.jit(jax.vmap(noisy_normal_win_log_probs, (0, 0, None)))(*given, jnp.asarray(tau))
            expected = np.array([noisy_truth(*problem, tau) for problem in problems])
            likely = expected > -25
            np.testing.assert_allclose(np.asarray(found)[likely], expected[likely], atol=1e-4)
            assert np.all(np.isfinite(found))


def test_noise_against_brute_force():
    check_noisy([0.05, 1.0], ["any", "tails"], arms=3)


@pytest.mark.slow
def test_noise_against_brute_force_more():
    check_noisy([0.003, 0.3, 3.0, 20.0], ["any", "ties", "ahead", "tails", "never"], arms=5)


@pytest.mark.parametrize("family", PROBLEMS)
def test_far_behind_is_finite_and_falls(family, x64):
    """The log-probability of an arm that falls behind without end."""
    behind = jnp.linspace(0, 60, 61) if family == "normal" else jnp.linspace(0, 1000, 61)
    if family == "normal":
        values = jax.jit(jax.vmap(lambda far: normal_win_log_probs(jnp.stack([far, far, far * 0]), jnp.ones(3))))(behind)
    else:
        values = jax.jit(jax.vmap(lambda far: beta_win_log_probs(500 + far * jnp.array([1.0, 1.0, 0.0]), jnp.full(3, 500.0))))(
            behind
        )
    assert np.all(np.isfinite(values))
    assert np.all(np.diff(values[:, 2]) < 0)
    assert values[-1, 2] < -40


@pytest.mark.parametrize("tau", [0.02, 0.3, 3.0])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))])
def test_normal_arms_with_gumbel_noise(seed, tau):
    """Against the average of softmax(draws / tau) over a fine product grid of the draws, for three arms."""
    random = np.random.default_rng(seed)
    location, scale = random.normal(size=3), np.array([1.0, 0.3, 0.1])[random.permutation(3)]
    nodes, weights = np.polynomial.hermite_e.hermegauss(160)
    draws = np.stack(np.meshgrid(*[m + s * nodes for m, s in zip(location, scale, strict=True)], indexing="ij"), axis=-1)
    weight = np.einsum("i,j,k->ijk", *[weights / weights.sum()] * 3)
    expected = np.einsum("ijk,ijka->a", weight, np.exp(draws / tau - logsumexp(draws / tau, axis=-1, keepdims=True)))
    with jax.enable_x64(True):
        found = jax.jit(noisy_normal_win_log_probs)(jnp.asarray(location), jnp.asarray(scale), jnp.asarray(tau))
    # At tau = 0.02 the reference itself, a product rule on a near-step, is good to a few parts in a thousand.
    np.testing.assert_allclose(np.exp(found), expected, atol=5e-3 if tau < 0.1 else 1e-5)


def test_a_little_gumbel_noise_changes_little():
    location, scale = jnp.array([0.3, 0.0, -0.5]), jnp.array([0.2, 0.5, 1.0])
    with jax.enable_x64(True):
        location, scale = location.astype(jnp.float64), scale.astype(jnp.float64)
        nearly = jax.jit(noisy_normal_win_log_probs)(location, scale, jnp.asarray(1e-3))
        np.testing.assert_allclose(nearly, jax.jit(normal_win_log_probs)(location, scale), atol=1e-5)


def test_two_arms_are_the_integral_too():
    """The closed form for two arms against three with one that cannot win."""
    location, scale = jnp.array([0.4, 0.0]), jnp.array([0.3, 0.7])
    three = jax.jit(normal_win_log_probs)(jnp.array([0.4, 0.0, -60.0]), jnp.array([0.3, 0.7, 1.0]))
    np.testing.assert_allclose(jax.jit(normal_win_log_probs)(location, scale), three[:2], atol=2e-5)


def test_the_gradient_is_that_of_the_integral():
    """The cuts move with the arms; their movement must not count."""
    with jax.enable_x64(True):
        scale = jnp.array([0.3, 0.7, 0.2, 1.0])
        location = jnp.array([0.4, 0.0, 0.1, -1.0])
        value = jax.jit(lambda shift: normal_win_log_probs(location.at[1].add(shift), scale))
        step = 1e-4
        expected = (value(step) - value(-step)) / (2 * step)
        np.testing.assert_allclose(jax.jit(jax.jacfwd(value))(0.0), expected, atol=1e-5)


def test_many_arms():
    log_probs = jax.jit(jb.Thompson().log_probs)(
        jb.policies.ArmStatistics(pulls=jnp.arange(1, 201, dtype=jnp.int32), total=jnp.linspace(0.0, 20.0, 200))
    )
    assert log_probs.shape == (200,)
    np.testing.assert_allclose(jnp.exp(log_probs).sum(), 1.0, atol=1e-5)


def every_arm(location, scale, arm):
    return normal_win_log_probs(location, scale)[arm]


@pytest.mark.parametrize("arms", [3, 30])
def test_one_arm_alone(arms):
    """Its log-probability as brute force has it, the derivatives as automatic differentiation of all arms has them."""
    draws = np.random.default_rng(arms)
    with jax.enable_x64(True):
        both = jax.jit(lambda *at: (normal_win_quadratic(*at), normal_win_log_prob(*at)))
        slopes = jax.jit(lambda *at: (jax.grad(every_arm)(*at), -jax.jacfwd(jax.grad(every_arm))(*at)))
        for _ in range(5):
            location, scale = draws.normal(0, 1, arms), np.exp(draws.uniform(np.log(0.05), np.log(3), arms))
            truth = normal_truth(location, scale)
            for arm in {0, int(truth.argmax()), int(np.where(truth > -25, truth, 0).argmin())}:
                at = jnp.asarray(location), jnp.asarray(scale), jnp.asarray(arm)
                (value, slope, curvature), alone = both(*at)
                assert abs(value - truth[arm]) < 1e-4
                assert value == pytest.approx(float(alone), abs=1e-12)
                for found, expected in zip((slope, curvature), slopes(*at), strict=True):
                    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("policy", [jb.Thompson(prior_sigma=2.0, sigma=0.7), jb.Thompson(tau=0.5)])
def test_thompson_has_one_arm_alone(policy):
    """In the summed rewards, also where there is noise and where two arms have a closed form."""
    draws = np.random.default_rng(0)
    for arms in (2, 4):
        pulls = jnp.asarray(draws.integers(1, 30, arms), jnp.int32)
        total = jnp.asarray(draws.normal(size=arms) * np.asarray(pulls), jnp.float32)
        state, every = ArmStatistics(pulls, total), lambda total, pulls=pulls: policy.log_probs(ArmStatistics(pulls, total))
        arm = jnp.asarray(1)
        assert policy.log_prob(state, arm) == pytest.approx(float(every(total)[1]), abs=1e-4)
        found = jax.jit(policy.choice_quadratic)(state, arm)
        assert (found is not None) == (arms > 2 and policy.tau == 0)
        if found is not None:
            slope = jax.jit(jax.grad(lambda total, every=every: every(total)[1]))
            np.testing.assert_allclose(found[1], slope(total), atol=1e-4)
            np.testing.assert_allclose(found[2], -jax.jit(jax.jacfwd(slope))(total), atol=1e-4)


@pytest.mark.parametrize(("prior", "resolved"), [(1.0, True), (0.5, False), (2e3, False)])
def test_what_the_prior_decides_goes_along_into_jit_and_is_forgotten_with_it(prior, resolved):
    policy = complete_policy(jb.BetaThompson(prior_success=prior))
    seen = []
    jax.jit(lambda policy: seen.append(policy.resolved))(policy)
    jax.jit(lambda prior: seen.append(complete_policy(jb.BetaThompson(prior_success=prior)).resolved))(prior)
    assert seen == [resolved, None]


@pytest.mark.parametrize("num_arms", [2, 4, 20])
def test_the_chances_of_simulated_batches_are_right_to_three_digits(num_arms):
    """Rates that are nearly alike, pulls from 1 to 5,000."""
    draws = np.random.default_rng(1)
    pulls = np.exp(draws.uniform(0, np.log(5000), (200, num_arms))).astype(int)
    rates = draws.uniform(0.01, 0.9, (200, 1)) * np.exp(draws.normal(0, 0.1, (200, num_arms)))
    successes = draws.binomial(pulls, np.clip(rates, 0, 1))
    posterior = jnp.asarray(1.0 + successes, jnp.float32), jnp.asarray(1.0 + pulls - successes, jnp.float32)
    found, expected = jax.jit(jax.vmap(beta_win_probs))(*posterior), jnp.exp(jax.jit(jax.vmap(beta_win_log_probs))(*posterior))
    np.testing.assert_allclose(found, expected, atol=1e-3)
    assert np.median(np.max(np.abs(found - expected), axis=1)) < 1e-4
