"""Test inversion against textbook intervals where nothing was adaptive, and against enumeration where it was."""

import dataclasses
import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

import jaxbias as jb
from jaxbias.estimators.inversion.anchors import place_anchors
from jaxbias.estimators.inversion.statistic import Sums, statistic
from jaxbias.likelihood import selection_log_probs
from jaxbias.rewards import at_arm

KEY = jax.random.key(3)
ARMS = jnp.array([0, 1] * 10)
PATHS = 4096
# The Monte Carlo error of a tail of 2.5% is 3% of it with so many paths, or 0.013 standard errors of an end: four of them.
CLOSE = 0.05


def fixed_log(family, mean, seed=0):
    """A log whose arms were all fixed in advance."""
    keys = jax.random.split(jax.random.key(seed), ARMS.shape[0])

    def reward(key, arm):
        arm_family, arm_mean = at_arm((family, jnp.asarray(mean)), arm, 2)
        return arm_family.sample(key, arm_mean)

    rewards = jax.vmap(reward)(keys, ARMS)
    return jb.History(arms=ARMS, rewards=rewards, num_arms=2, forced=jnp.ones(ARMS.shape, bool))


def invert(history, family, **options):
    return jb.test_inversion(KEY, history, jb.Greedy(), family, num_paths=PATHS, **options)


def assert_ends(found, expected, unit):
    """Both ends of each arm as expected, up to the Monte Carlo error in units of the standard error."""
    ends = np.stack([found.lower, found.upper], axis=-1)
    np.testing.assert_allclose(ends / unit[:, None], expected / unit[:, None], atol=CLOSE, rtol=0)
    assert np.all(found.converged)


def test_normal_with_fixed_arms_is_the_textbook_interval():
    family = jb.Normal(sigma=jnp.array([1.0, 2.0]))
    history = fixed_log(family, [1.0, 0.5])
    found, naive = invert(history, family), jb.sample_mean(history, family)
    assert_ends(found, np.stack([naive.lower, naive.upper], axis=-1), np.asarray(naive.stderr))
    np.testing.assert_allclose((found.mean - naive.mean) / naive.stderr, 0, atol=CLOSE)
    np.testing.assert_allclose(found.stderr, naive.stderr, rtol=0.03)


def test_unknown_sigma_with_fixed_arms_is_students():
    history, unknown = fixed_log(jb.Normal(sigma=3.0), [1.0, 0.5]), jb.Normal(sigma=None)
    found = invert(history, unknown)
    means, rewards = np.asarray(history.statistics.mean), np.asarray(history.rewards)
    sigma = np.sqrt(np.sum((rewards - means[ARMS]) ** 2) / 18)
    unit = np.full(2, sigma / np.sqrt(10))
    quantile = stats.t(18).ppf(0.975)
    assert_ends(found, means[:, None] + unit[:, None] * np.array([-quantile, quantile])[None], unit)


def mid_p_interval(below, value, low, high):
    """The two means at which P(sum < observed) + P(sum = observed) / 2 is 97.5% and 2.5%."""
    return [optimize.brentq(lambda mean, goal=goal: below(value, mean) - goal, low, high) for goal in (0.975, 0.025)]


@pytest.mark.parametrize("name", ["bernoulli", "poisson", "exponential"])
def test_other_families_with_fixed_arms_have_exact_mid_p_intervals(name):
    family, mean, below, high = {
        "bernoulli": (
            jb.Bernoulli(),
            [0.6, 0.3],
            lambda value, mean: stats.binom(10, mean).cdf(value) - stats.binom(10, mean).pmf(value) / 2,
            1 - 1e-9,
        ),
        "poisson": (
            jb.Poisson(),
            [1.5, 0.6],
            lambda value, mean: stats.poisson(10 * mean).cdf(value) - stats.poisson(10 * mean).pmf(value) / 2,
            20.0,
        ),
        "exponential": (jb.Exponential(), [2.0, 1.0], lambda value, mean: stats.gamma(10, scale=mean).cdf(value), 50.0),
    }[name]
    history = fixed_log(family, mean, seed=1)
    expected = np.array([mid_p_interval(below, float(value), 1e-9, high) for value in history.statistics.total])
    unit = np.asarray(jnp.sqrt(family.variance(history.statistics.mean) / 10))
    assert_ends(invert(history, family), expected, unit)


def test_contrasts_with_fixed_arms_are_the_z_test():
    family = jb.Normal(sigma=1.0)
    history = fixed_log(family, [1.0, 0.5])
    found = invert(history, family, contrast=[[1.0, -1.0], [0.5, 0.5]])
    mean = np.asarray(history.statistics.mean)
    middle, error = np.array([mean[0] - mean[1], mean.mean()]), np.array([np.sqrt(0.2), np.sqrt(0.05)])
    assert_ends(found, middle[:, None] + 1.959964 * error[:, None] * np.array([-1.0, 1.0])[None], error)
    np.testing.assert_allclose(found.diagnostics["p_value"], 2 * stats.norm.sf(np.abs(middle / error)), rtol=0.15)
    one = invert(history, family, contrast=[1.0, -1.0])
    np.testing.assert_allclose(one.upper, found.upper[0], atol=CLOSE)
    assert one.mean.shape == ()


def exact_tail_above(policy, anchors, observed, at, num_steps, num_forced=2):
    """P(statistic of arm 0 >= observed | arm 0 is pulled) for Bernoulli rewards, ties half, averaged over the anchors of arm 1.

    By enumeration of all arms and rewards.
    """
    statistic = lambda pulls, total: (total / pulls - at) / np.sqrt(at * (1 - at) / pulls)
    later = np.array(list(itertools.product((0, 1), repeat=num_steps - num_forced)))
    arms = np.concatenate([np.tile(np.arange(num_forced), (len(later), 1)), later], axis=1)
    rewards = np.array(list(itertools.product((0.0, 1.0), repeat=num_steps)))
    arms, rewards = np.repeat(arms, len(rewards), axis=0), np.tile(rewards, (len(arms), 1))
    chosen = np.exp(jax.vmap(partial(policy_log_prob, policy, num_forced=num_forced))(jnp.asarray(arms), jnp.asarray(rewards)))
    means = np.where(arms[None] == 0, at, np.asarray(anchors)[:, None, None])
    chance = chosen * np.prod(np.where(rewards, means, 1 - means), axis=2).mean(axis=0)
    np.testing.assert_allclose(chance.sum(), 1, rtol=1e-5)
    pulls = np.sum(arms == 0, axis=1)
    value, seen = statistic(np.maximum(pulls, 1), np.sum(rewards * (arms == 0), axis=1)), statistic(*observed)
    above = np.where(np.abs(value - seen) < 1e-9, 0.5, value > seen)
    return np.sum(chance * above * (pulls > 0)) / np.sum(chance * (pulls > 0))


def policy_log_prob(policy, arms, rewards, num_forced):
    return jnp.sum(selection_log_probs(policy, arms, rewards, jnp.arange(arms.shape[0]) < num_forced, 2))


def test_the_tails_of_an_adaptive_log_against_enumeration():
    """At the lower end the exact probability of the tail above is 2.5%, the other arm spread over its anchors."""
    policy, family = jb.Greedy(tau=0.2), jb.Bernoulli()
    arms, rewards = jnp.array([0, 1, 0, 0, 0]), jnp.array([1.0, 0.0, 1.0, 1.0, 1.0])
    history = jb.History(arms=arms, rewards=rewards, num_arms=2)
    found = jb.test_inversion(KEY, history, policy, family, num_paths=2 * PATHS, max_rounds=1)
    statistics = history.statistics
    anchors = place_anchors(family, statistics.mean, statistics.pulls, jnp.ones(()))
    exact = exact_tail_above(policy, anchors.places[1], (4, 4.0), float(found.lower[0]), 5)
    assert exact == pytest.approx(0.025, rel=0.15)
    assert found.upper[0] == 1  # every reward of arm 0 was a success


def test_a_log_without_forced_pulls_is_compared_with_paths_that_pulled_the_arm():
    """Here a path in five does not pull arm 0: the tail is a probability given that it was pulled."""
    policy, family = jb.Greedy(tau=0.5), jb.Bernoulli()
    arms, rewards = jnp.array([1, 0, 0, 0]), jnp.array([1.0, 0.0, 1.0, 1.0])
    history = jb.History(arms=arms, rewards=rewards, num_arms=2, forced=jnp.zeros(4, bool))
    found = jb.test_inversion(KEY, history, policy, family, num_paths=2 * PATHS, max_rounds=1)
    statistics = history.statistics
    anchors = place_anchors(family, statistics.mean, statistics.pulls, jnp.ones(()))
    exact = [exact_tail_above(policy, anchors.places[1], (3, 2.0), float(end), 4, 0) for end in (found.lower[0], found.upper[0])]
    np.testing.assert_allclose(exact, [0.025, 0.975], atol=0.0025)


def test_paths_with_few_and_many_degrees_of_freedom_are_on_one_scale():
    """Student's distribution function of t is the Normal one of the statistic: Wallace's formula, to 0.02 of it."""
    freedom, t = (part.ravel() for part in np.meshgrid([2.0, 4.0, 9.0, 60.0], [-3.0, -1.5, -0.2, 0.0, 0.7, 2.5]))
    sums = Sums(*(jnp.asarray(part)[:, None] for part in (np.full(t.size, 4.0), 1 + t, np.full(t.size, 4.0), freedom)))
    found = statistic(jb.Normal(sigma=1.0), sums, jnp.ones(1), jnp.ones(()))
    np.testing.assert_allclose(found, stats.norm.ppf(stats.t(freedom).cdf(t)), atol=0.03)
    two = Sums(*(jnp.asarray([part]) for part in ([4.0, 8.0], [1.5, 1.0], [4.0, 2.0], [3.0, 7.0])))
    welch = stats.ttest_ind_from_stats(1.5, 2.0, 4, 1.0, 2**0.5, 8, equal_var=False)
    found = statistic(jb.Normal(sigma=1.0), two, jnp.array([1.0, -1.0]), jnp.zeros(()))
    np.testing.assert_allclose(2 * stats.norm.sf(abs(found[0])), welch.pvalue, atol=0.01)


def test_a_batch_is_its_logs_and_new_values_compile_nothing():
    from jaxbias.estimators.inversion.question import _run

    policy, family = jb.LilUCB(tau=0.5), jb.Normal(sigma=1.0)
    many = jb.simulate(jax.random.key(1), policy, family, [1.0, 0.5, 0.2], 12, 3)
    whole = jb.test_inversion(KEY, many, policy, family, num_paths=256)
    one = jb.test_inversion(KEY, many.trial(0), policy, family, num_paths=256)  # the first log has the first key
    np.testing.assert_allclose(one.lower, whole.lower[0], rtol=1e-4)
    before = _run.cache_size()
    other = jb.test_inversion(jax.random.key(8), many, jb.LilUCB(tau=0.7), jb.Normal(sigma=1.2), num_paths=256, level=0.9)
    assert _run.cache_size() == before
    assert np.all(other.converged)
    assert np.all(whole.upper - whole.lower > 0)


def test_shifted_and_scaled_rewards_shift_and_scale_the_interval():
    """For Greedy, whose choices do not depend on the origin or the unit."""
    family = jb.Normal(sigma=1.0)
    with jax.enable_x64(True):
        log = jb.simulate(jax.random.key(1), jb.Greedy(), family, jnp.array([1.0, 0.5]), 12)
        moved = dataclasses.replace(log, rewards=10 + 3 * log.rewards)
        found = jb.test_inversion(KEY, log, jb.Greedy(), family, num_paths=256)
        other = jb.test_inversion(KEY, moved, jb.Greedy(), jb.Normal(sigma=3.0), num_paths=256)
        for name in ("mean", "lower", "upper"):
            np.testing.assert_allclose(getattr(other, name), 10 + 3 * getattr(found, name), rtol=1e-9)


def test_arms_never_pulled_pulled_once_and_refusals():
    policy, family = jb.Greedy(), jb.Normal(sigma=1.0)
    history = jb.History(arms=jnp.array([0, 1, 0, 0]), rewards=jnp.array([1.0, 0.0, 2.0, 1.5]), num_arms=3)
    found = jb.test_inversion(KEY, history, policy, family, num_paths=256)
    assert found.status.tolist()[2] == jb.Status.NEVER_PULLED
    assert np.isnan(found.lower[2])
    assert np.isfinite(found.lower[:2]).all()
    each = jb.test_inversion(KEY, dataclasses.replace(history, num_arms=2), policy, jb.Normal(sigma="each"), num_paths=256)
    assert each.status.tolist()[1] == jb.Status.PULLED_ONCE
    for options, argument in (
        (dict(level=1.0), "level"),
        (dict(num_paths=10), "num_paths"),
        (dict(contrast=[1.0, -1.0]), "contrast"),
        (dict(contrast=[0.0, 0.0, 0.0]), "contrast"),
    ):
        with pytest.raises(jb.ArgumentError) as error:
            jb.test_inversion(KEY, history, policy, family, **options)
        assert error.value.argument == argument

    class Own:
        def sample(self, key, mean):
            return mean

        def log_prob(self, reward, mean):
            return -jnp.abs(reward - mean)

    with pytest.raises(jb.ArgumentError, match="natural"):
        jb.test_inversion(KEY, history, policy, Own())


SETTINGS = {
    "lil-ucb": (jb.LilUCB(), jb.Normal(), jb.Normal(), [1.0, 0.75], 16, {}),
    "thompson": (jb.Thompson(), jb.Normal(), jb.Normal(), [1.0, 0.75, 0.5], 40, {}),
    "sigma": (jb.Greedy(), jb.Normal(), jb.Normal(sigma=None), [1.0, 0.75, 0.5], 40, {}),
    "batches": (jb.Thompson(), jb.Normal(), jb.Normal(), [1.0, 0.75, 0.5], 60, dict(batch_size=10)),
    "stopped": (jb.Greedy(), jb.Normal(), jb.Normal(), [1.0, 0.5], 40, dict(stop=jb.StopAtDifference(threshold=0.8, first=8))),
    "bernoulli": (jb.EpsilonGreedy(), jb.Bernoulli(), jb.Bernoulli(), [0.3, 0.35], 100, {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_coverage_is_what_it_says(name):
    policy, family, assumed, mean, num_steps, options = SETTINGS[name]
    logs = 600
    history = jb.simulate(jax.random.key(5), policy, family, mean, num_steps, logs, **options)
    ending = {} if "stop" not in options else dict(stop=options["stop"])
    found = jb.test_inversion(KEY, history, policy, assumed, num_paths=1024, **ending)
    true = np.asarray(mean)
    below, above = np.mean(true < found.lower), np.mean(true > found.upper)
    # Four standard errors of a share of 95% of so many intervals, those of one log taken for independent. Discrete ones cover
    # a little more.
    error = np.sqrt(0.05 * 0.95 / (logs * len(mean)))
    assert 0.95 - 4 * error < 1 - below - above < 0.95 + max(4 * error, 0.03)
    naive = jb.sample_mean(history, assumed)
    if isinstance(family, jb.Normal) and assumed.sigma is not None:
        assert np.mean(found.upper - found.lower) < 1.15 * np.mean(naive.upper - naive.lower)
