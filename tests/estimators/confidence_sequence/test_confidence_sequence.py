"""The confidence sequence: its formula, that it is tightest where it should be, and that it never misses too often."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats

import jaxbias as jb

ARMS, REWARDS = [0, 1, 0, 1, 1], [1.0, 2.0, 3.0, -1.0, 0.5]


def log(arms=ARMS, rewards=REWARDS, num_arms=2):
    return jb.History(arms=jnp.array(arms, int), rewards=jnp.array(rewards, float), num_arms=num_arms)


def half_width(pulls, scale, rho, alpha):
    total = pulls * scale**2 + rho
    return np.sqrt(total * np.log(total / (rho * alpha**2))) / pulls


def best_ratio(alpha):
    return -scipy.special.lambertw(-(alpha**2) / np.e, -1).real - 1


def best_rho(pulls, scale, alpha):
    return pulls * scale**2 / best_ratio(alpha)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_the_formula(level, x64):
    scale = np.array([2.0, 0.5])
    found = jb.confidence_sequence(log(), jb.Normal(sigma=jnp.array(scale)), level=level, tightest_at=20)
    rho = best_rho(20, scale, 1 - level)
    np.testing.assert_allclose(found.diagnostics["rho"], rho, rtol=1e-5)
    half = half_width(np.array([2, 3]), scale, rho, 1 - level)
    np.testing.assert_allclose(found.mean, [2.0, 0.5], rtol=1e-6)
    np.testing.assert_allclose(found.upper - found.mean, half, rtol=1e-5)
    np.testing.assert_allclose(found.mean - found.lower, half, rtol=1e-5)
    np.testing.assert_allclose(found.stderr, scale / np.sqrt([2, 3]), rtol=1e-6)
    assert found.mean.dtype == found.lower.dtype == jnp.result_type(float)
    assert found.converged.all()


@pytest.mark.parametrize("tightest_at", [5, 80])
def test_it_is_tightest_where_it_is_asked_to_be(tightest_at):
    """No other rho gives a narrower interval at that number of pulls."""
    history = log([0] * tightest_at, [0.0] * tightest_at, 1)
    found = jb.confidence_sequence(history, jb.Normal(), tightest_at=tightest_at)
    best = scipy.optimize.minimize_scalar(lambda log_rho: half_width(tightest_at, 1.0, np.exp(log_rho), 0.05))
    np.testing.assert_allclose(found.upper, best.fun, rtol=1e-5)
    np.testing.assert_allclose(found.diagnostics["rho"], np.exp(best.x), rtol=1e-3)


def test_the_last_step_of_the_trajectory_is_the_estimate(x64):
    history = jb.simulate(jax.random.key(0), jb.UCB1(), jb.Normal(), [1.0, 0.75], 30, 3)
    found = jb.confidence_sequence(history, jb.Normal(), trajectory=True)
    for end in ("lower", "upper"):
        by_step = found.diagnostics[f"{end}_by_step"]
        assert by_step.shape == (3, 30, 2)
        np.testing.assert_allclose(by_step[:, -1], getattr(found, end), rtol=1e-4)
    assert np.isinf(found.diagnostics["upper_by_step"][:, 0, 1]).all()  # arm 1 was not pulled yet
    cut = jax.tree.map(lambda leaf: leaf[1, :12], history)
    shorter = jb.confidence_sequence(cut, jb.Normal())
    np.testing.assert_allclose(shorter.lower, found.diagnostics["lower_by_step"][1, 11], rtol=1e-4)


def test_zeros_and_ones_stay_in_their_range():
    history = log([0, 1, 0, 0], [1, 0, 1, 1], num_arms=3)
    found = jb.confidence_sequence(history, jb.Bernoulli(), trajectory=True)
    assert np.all((found.lower >= 0) & (found.upper <= 1))
    assert found.upper.tolist()[::2] == [1, 1]  # three successes of three, and no pull
    assert 0 < float(found.lower[0]) < 1
    assert (np.asarray(found.diagnostics["upper_by_step"]) <= 1).all()


def test_an_arm_never_pulled_has_an_interval_that_says_nothing():
    found = jb.confidence_sequence(log(num_arms=3), jb.Normal())
    assert found.converged.tolist() == [True, True, False]
    assert np.isnan(found.mean[2])
    assert np.isnan(found.stderr[2])
    assert [float(found.lower[2]), float(found.upper[2])] == [-np.inf, np.inf]


def test_a_scale_of_ones_own():
    given = jb.confidence_sequence(log(), None, scale=1.5)
    same = jb.confidence_sequence(log(), jb.Normal(sigma=1.5))
    np.testing.assert_array_equal(given.lower, same.lower)
    assert not np.array_equal(given.stderr, same.stderr)  # that of the rewards themselves


def test_batch_jit_vmap_and_one_step():
    batch = jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.75], 10, 3)
    many = jb.confidence_sequence(batch, jb.Normal(), trajectory=True)
    one = jb.confidence_sequence(jax.tree.map(lambda leaf: leaf[1], batch), jb.Normal(), trajectory=True)
    jax.tree.map(lambda single, row: np.testing.assert_allclose(single, row[1], rtol=1e-5), one, many)
    for transform in (jax.jit, jax.vmap):
        found = transform(lambda history: jb.confidence_sequence(history, jb.Normal()))(batch)
        np.testing.assert_allclose(found.lower, many.lower, rtol=1e-5)
    single = jb.confidence_sequence(log([1], [2.0]), jb.Normal())
    assert single.converged.tolist() == [False, True]


@pytest.mark.slow
@pytest.mark.parametrize("policy", [jb.Greedy(), jb.UCB1()], ids=["greedy", "ucb1"])
def test_few_runs_ever_miss(policy):
    """2,000 runs of 2,000 steps: at most 5% miss the mean of an arm at any step; the naive interval misses many times that."""
    mean = np.array([1.0, 0.75], np.float32)
    history = jb.simulate(jax.random.key(8), policy, jb.Normal(), mean, 2000, 2000)
    found = jb.confidence_sequence(history, jb.Normal(), trajectory=True).diagnostics
    lower, upper = np.asarray(found["lower_by_step"]), np.asarray(found["upper_by_step"])
    missed = ((lower > mean) | (upper < mean)).any(axis=1).mean(axis=0)
    assert (missed <= 0.05).all()
    assert missed.max() > 0.015  # and it is not so wide as to say nothing
    first = np.asarray(history.arms) == 0
    pulls = first.cumsum(axis=1)
    running = np.where(first, np.asarray(history.rewards), 0).cumsum(axis=1) / pulls
    assert (np.abs(running - 1.0) > 1.96 / np.sqrt(pulls)).any(axis=1).mean() > 0.2


@pytest.mark.slow
def test_few_runs_of_zeros_and_ones_ever_miss():
    mean = np.array([0.5, 0.4], np.float32)
    history = jb.simulate(jax.random.key(9), jb.Greedy(), jb.Bernoulli(), mean, 1000, 2000)
    found = jb.confidence_sequence(history, jb.Bernoulli(), trajectory=True).diagnostics
    missed = (np.asarray(found["lower_by_step"]) > mean) | (np.asarray(found["upper_by_step"]) < mean)
    assert (missed.any(axis=1).mean(axis=0) <= 0.05).all()


def counts(kind):
    """What an arm of each kind gave, and the logarithm of the mixture over the likelihood at a mean, by SciPy."""
    pulls, total, worth = 30, 4.0, 200 / best_ratio(0.05)
    if kind == "bernoulli":
        beta = lambda m: scipy.special.betaln(worth * m + total, worth * (1 - m) + pulls - total)
        ratio = lambda m: beta(m) - scipy.special.betaln(worth * m, worth * (1 - m)) - total * np.log(m) - 26 * np.log(1 - m)
    elif kind == "poisson":
        ratio = lambda m: (
            scipy.stats.nbinom.logpmf(total, worth * m, worth / (worth + pulls)) - scipy.stats.poisson.logpmf(total, pulls * m)
        )
    else:  # the sum of the rewards has a Gamma distribution, and 1 / mean a Gamma prior: a beta prime distribution
        ratio = lambda m: (
            scipy.stats.betaprime.logpdf(total, pulls, worth + 1, scale=worth * m)
            - scipy.stats.gamma.logpdf(total, pulls, scale=m)
        )
    rewards = [1.0] * 4 + [0.0] * 26 if kind != "exponential" else [4 / 30] * 30
    return log([0] * 30, rewards, 1), ratio


@pytest.mark.parametrize(
    ("kind", "family"), [("bernoulli", jb.Bernoulli()), ("poisson", jb.Poisson()), ("exponential", jb.Exponential())]
)
def test_mixtures_of_other_families(kind, family):
    """At both ends the mixture is 20 times as likely as the mean there; between them less, beyond them more."""
    history, ratio = counts(kind)
    found = jb.confidence_sequence(history, family)
    low, high = float(found.lower[0]), float(found.upper[0])
    np.testing.assert_allclose([ratio(low), ratio(high)], np.log(20), atol=2e-3)
    inside, outside = (
        np.linspace(low, high, 50)[1:-1],
        np.concatenate([low * np.linspace(0.1, 0.99), high * np.linspace(1.01, 1.5)]),
    )
    assert np.max(ratio(inside)) < np.log(20) < np.min(ratio(outside[outside < 1]))


def test_unknown_sigma():
    """At both ends the noncentral t density, mixed over effects, is 20 times the central one."""
    rewards = np.random.default_rng(0).normal(1, 2, 12)
    found = jb.confidence_sequence(log([0] * 12, rewards, 1), jb.Normal(sigma=None))
    prior = np.sqrt(best_ratio(0.05) / 50)
    t = (rewards.mean() - float(found.lower[0])) / (rewards.std(ddof=1) / np.sqrt(12))
    effects = np.linspace(-8, 8, 4001) * prior
    mixed = (
        scipy.stats.nct.pdf(t, 11, effects * np.sqrt(12)) @ scipy.stats.norm.pdf(effects, 0, prior) * (effects[1] - effects[0])
    )
    np.testing.assert_allclose(mixed / scipy.stats.t.pdf(t, 11), 20, rtol=1e-3)
    np.testing.assert_allclose(found.upper + found.lower, 2 * found.mean, rtol=1e-4)


def test_unknown_variance_is_asymptotic():
    """The formula of Waudby-Smith et al. (2024); nothing is said after one pull, or where rewards do not vary."""
    rewards = np.random.default_rng(0).exponential(1, 40)
    found = jb.confidence_sequence(log([0] * 40 + [1, 1, 2], [*rewards, 3.0, 3.0, 1.0], 3), None)
    rho_squared = best_ratio(0.05) / 50
    wider = 40 * rho_squared + 1
    half = rewards.std() * np.sqrt(2 * wider / (40**2 * rho_squared) * np.log(np.sqrt(wider) / 0.05))
    np.testing.assert_allclose(found.upper[0] - found.mean[0], half, rtol=1e-4)
    assert np.isinf(found.lower[1:]).all()
    assert found.converged.tolist() == [True, False, False]


def test_bounded_rewards():
    """The empirical Bernstein sequence as it is published, in a loop; the range is rescaled, and the arms do not mix."""
    rewards, arms = np.random.default_rng(0).beta(2, 5, 60), np.arange(60) % 2
    found = jb.confidence_sequence(log(arms, 4 * rewards - 1, 2), None, bounds=(-1.0, 3.0), trajectory=True)
    total, squares, bets, won, prices = 0.0, 0.0, 0.0, 0.0, 0.0
    for number, reward in enumerate(rewards[arms == 1], start=1):
        mean, variance = (0.5 + total) / number, (0.25 + squares) / number
        bet = min(np.sqrt(2 * np.log(2 / 0.05) / (variance * number * np.log(1 + number))), 0.5)
        bets, won = bets + bet, won + bet * reward
        prices += 4 * (reward - mean) ** 2 * (-np.log(1 - bet) - bet) / 4
        total += reward
        squares += (reward - (0.5 + total) / (number + 1)) ** 2
        low = max((won - np.log(2 / 0.05) - prices) / bets, 0)
        np.testing.assert_allclose(found.diagnostics["lower_by_step"][2 * number - 1, 1], 4 * low - 1, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found.upper[1], 4 * (won + np.log(2 / 0.05) + prices) / bets - 1, rtol=1e-4)


def test_a_small_rate_has_a_narrow_interval():
    """5% of 3,800: at most 1.8 times the naive width."""
    history = log([0] * 3800, [1.0] * 190 + [0.0] * 3610, 1)
    found, naive = jb.confidence_sequence(history, jb.Bernoulli()), jb.sample_mean(history, jb.Bernoulli())
    assert float(found.upper[0] - found.lower[0]) < 1.8 * float(naive.upper[0] - naive.lower[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "options", "mean"),
    [
        (jb.Bernoulli(), dict(family=jb.Bernoulli()), (0.05, 0.03)),
        (jb.Bernoulli(), dict(family=None, bounds=(0.0, 1.0)), (0.05, 0.03)),
        (jb.Normal(), dict(family=jb.Normal(sigma=None)), (1.0, 0.75)),
        (jb.Poisson(), dict(family=jb.Poisson()), (0.5, 0.4)),
        (jb.Exponential(), dict(family=jb.Exponential()), (1.0, 0.75)),
    ],
    ids=["bernoulli", "bounds", "normal", "poisson", "exponential"],
)
def test_few_runs_of_any_family_ever_miss(family, options, mean):
    """2,000 runs of 1,000 steps: at most 5% ever miss the mean of an arm."""
    mean = np.array(mean, np.float32)
    history = jb.simulate(jax.random.key(10), jb.EpsilonGreedy(0.2), family, mean, 1000, 2000)
    found = jb.confidence_sequence(history, **options, trajectory=True).diagnostics
    missed = (np.asarray(found["lower_by_step"]) > mean) | (np.asarray(found["upper_by_step"]) < mean)
    assert (missed.any(axis=1).mean(axis=0) <= 0.05).all()


BAD = [
    (dict(tightest_at=0), "tightest_at", "is 0; it must be positive and finite"),
    (dict(tightest_at=np.inf), "tightest_at", "is inf; it must be positive and finite"),
    (dict(bounds=(1.0, 0.0)), "bounds", "it must be two finite numbers, the smaller one first"),
    (dict(bounds=(0.0, 1.0)), "history.rewards", r"is 2.0 at step 1; it must be inside bounds, \(0.0, 1.0\)"),
    (dict(bounds=(-1.0, 3.0), scale=1.0), "bounds", "it must be None where scale is given"),
    (dict(scale=-1.0), "scale", "is -1.0; it must be positive and finite"),
    (dict(scale=jnp.ones(3)), "scale", r"has shape \(3,\); it must be one number, or one for each of 2 arms"),
    (dict(family=jb.Bernoulli()), "history.rewards", "is 2.0 at step 1, which Bernoulli.* cannot give"),
    (dict(level=0), "level", "is 0; it must be above 0"),
]


@pytest.mark.parametrize(("change", "argument", "message"), BAD)
def test_bad_input_is_named(change, argument, message, unchecked):
    with pytest.raises(jb.ArgumentError, match=message) as refused:
        jb.confidence_sequence(**(dict(history=log(), family=jb.Normal()) | change))
    assert refused.value.argument == argument
