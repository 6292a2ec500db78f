"""Batches drawn as a whole: the same distribution as their pulls one by one, and as the enumeration of a small problem."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jaxbias as jb
from jaxbias._core.binomial import binomial, multinomial
from jaxbias._core.randomness import root_words, trial_words
from jaxbias.policies.win_shares import beta_win_probs
from jaxbias.policies.winning import beta_win_log_probs
from jaxbias.simulation.batches import can_batch
from jaxbias.simulation.paths import Design, design_of, simulate_paths, simulate_sums
from jaxbias.simulation.steps import Batching, Problem
from tests.conftest import some_now_others_slow
from tests.simulation.test_batches import exact_batched

KEY = jax.random.key(0)
SIZES = (12,) * 10
PATHS = 4096
SETTINGS = {
    "beta-thompson": (jb.BetaThompson(), jb.Bernoulli(), [0.5, 0.4, 0.3]),
    "greedy": (jb.Greedy(tau=0.5), jb.Normal(sigma=2.0), [1.0, 0.5, 0.0]),
    "poisson": (jb.EpsilonGreedy(epsilon=0.4), jb.Poisson(), [2.0, 1.5, 1.0]),
    "exponential": (jb.EpsilonGreedy(epsilon=0.4), jb.Exponential(), [2.0, 1.5, 1.0]),
}


def words_of(number):
    return trial_words(root_words(KEY), jnp.uint32(0), number)


@pytest.mark.parametrize("name", some_now_others_slow(SETTINGS, now=("beta-thompson", "greedy")))
def test_moments_of_batches_and_of_their_pulls(name):
    policy, family, mean = SETTINGS[name]
    history = jb.History(arms=np.arange(36, dtype=np.int32) % 3, rewards=np.zeros(36), num_arms=3, batch_sizes=SIZES[:3])
    design, means = design_of(history), jnp.asarray(mean)
    problem, squares = Problem(policy=policy, family=family, mean=means), isinstance(family, jb.Normal)
    assert can_batch(problem, design.batching, 3, squares)
    run = jax.jit(lambda words, steps: simulate_paths(words, policy, family, means, design, squares, steps), static_argnums=1)
    whole, single = (run(words_of(PATHS), steps) for steps in (False, True))
    for field in ("pulls", "sample_means", "score", "squares")[: 4 if squares else 3]:
        one, other = (np.asarray(getattr(paths, field), float) for paths in (whole, single))
        error = np.sqrt((one.var(axis=0) + other.var(axis=0)) / PATHS)
        assert (np.abs(one.mean(axis=0) - other.mean(axis=0)) < 4 * error).all(), field
        second = [np.square(part - other.mean(axis=0)) for part in (one, other)]
        error = np.sqrt((second[0].var(axis=0) + second[1].var(axis=0)) / PATHS)
        assert (np.abs(second[0].mean(axis=0) - second[1].mean(axis=0)) < 4.5 * error).all(), field


def test_batches_against_enumeration():
    """Forced first pulls inside the first batch, unequal batches, 0/1 rewards: every arm and reward enumerated."""
    policy, mean, sizes = jb.BetaThompson(), [0.7, 0.4], (3, 1, 2)
    expected, mass = exact_batched(policy, mean, sizes)
    assert mass == pytest.approx(1.0, abs=1e-5)
    design = Design(jnp.array([0, 1, 0, 0, 0, 0]), jnp.arange(6) < 2, Batching(batch_sizes=sizes))
    cheap = Cheap()
    number = 60_000
    run = jax.jit(lambda words: simulate_sums(words, cheap, jb.Bernoulli(), jnp.tile(jnp.array([mean]), (number, 1)), design))
    assert can_batch(Problem(policy=cheap, family=jb.Bernoulli(), mean=jnp.array(mean)), design.batching, 2)
    sums = run(words_of(number))
    found = np.asarray(sums.total) / np.asarray(sums.pulls)
    assert (np.asarray(sums.pulls).sum(axis=1) == 6).all()
    assert (np.abs(found.mean(axis=0) - expected) < 4 * found.std(axis=0) / np.sqrt(number)).all()


class Cheap(jb.BetaThompson):
    """Batches as a whole, however small."""

    def choice_cost(self, num_arms):
        return 0.0


def test_binomial_and_multinomial_against_their_probabilities():
    number, cases = 40_000, [(250, 0.3), (7, 0.9), (60, 0.1), (1, 0.2), (300, 0.001), (3, 0.0), (3, 1.0)]
    count, chance = (jnp.asarray(part, float) for part in zip(*cases, strict=True))
    keys = jax.random.split(KEY, number)
    drawn = np.asarray(jax.jit(jax.vmap(lambda key: binomial(key, count, chance)))(keys))
    for column, (trials, success) in zip(drawn.T, cases, strict=True):
        values = np.arange(trials + 1)
        expected, seen = number * stats.binom.pmf(values, trials, success), np.bincount(column.astype(int), minlength=trials + 1)
        often = expected > 5
        off = np.square(seen - expected)[often] / expected[often]
        assert stats.chi2.sf(off.sum(), max(often.sum() - 1, 1)) > 1e-4, (trials, success)
        assert seen[~often].sum() <= expected[~often].sum() + 5 * np.sqrt(expected[~often].sum() + 1)
    chances = np.array([0.1, 0.0, 0.6, 0.25, 0.05])
    shared = np.asarray(jax.jit(jax.vmap(lambda key: multinomial(key, jnp.array(40.0), jnp.asarray(chances, float))))(keys))
    assert (shared.sum(axis=1) == 40).all()
    covariance = 40 * (np.diag(chances) - np.outer(chances, chances))
    np.testing.assert_allclose(shared.mean(axis=0), 40 * chances, atol=4.5 * np.sqrt(40 / 4 / number))
    np.testing.assert_allclose(np.cov(shared.T), covariance, atol=0.25)


def test_fast_win_probabilities_are_those_of_the_likelihood():
    generator = np.random.default_rng(0)
    pulls = np.floor(10 ** generator.uniform(0, 4, (60, 4)))
    success = 1.0 + generator.binomial(pulls.astype(int), generator.uniform(0.05, 0.6, (60, 4)))
    failure = 2.0 + pulls - success
    with jax.enable_x64(True):
        posterior = jnp.asarray(success), jnp.asarray(failure)
        exact = np.exp(np.asarray(jax.jit(jax.vmap(beta_win_log_probs))(*posterior)))
        off = np.abs(exact - np.asarray(jax.jit(jax.vmap(beta_win_probs))(*posterior)))
    assert off.max() < 5e-4
    assert off.mean() < 2.5e-5
