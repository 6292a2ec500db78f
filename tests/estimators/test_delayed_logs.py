"""Estimators on logs whose rewards came late: paths that follow the delays, the likelihood in order of arrival, refusals."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias._core.randomness import root_words, trial_words
from jaxbias.estimators.conditional_mle.record import condensed_record_of, record_of
from jaxbias.history import check_history
from jaxbias.likelihood import log_prob_of_choices, selection_log_probs, statistics_seen
from jaxbias.policies import ArmStatistics
from jaxbias.simulation.paths import design_of, simulate_paths
from tests.simulation.test_delays import all_paths, by_hand

KEY = jax.random.key(4)
POLICY, FAMILY, MEAN = jb.LilUCB(tau=0.5), jb.Normal(), jnp.array([1.0, 0.5])
DELAY = [3, 0, 5, 1, 0, 4, 0, 2, 6, 0, 1, 0, 3, 9, 0, 0]


@pytest.fixture(scope="module")
def history():
    return jb.simulate(KEY, POLICY, FAMILY, MEAN, 16, delay=DELAY)


def test_paths_keep_every_reward(history):
    """Sums, squares and scores of a path are of all its pulls, and not only of those that the policy has seen."""
    words = trial_words(root_words(KEY), jnp.uint32(0), 64)
    design = design_of(check_history(history))
    paths = simulate_paths(words, POLICY, FAMILY, MEAN, design, squares=True, steps=True)
    steps = paths.history
    assert steps.seen_at == history.seen_at
    off = np.where(
        np.asarray(steps.arms)[..., None] == np.arange(2), (np.asarray(steps.rewards) - MEAN[steps.arms])[..., None], 0
    )
    np.testing.assert_allclose(paths.squares, np.square(off).sum(axis=1), rtol=1e-5)
    np.testing.assert_allclose(paths.score, off.sum(axis=1), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(paths.pulls, steps.statistics.pulls)


def test_the_record_is_in_order_of_arrival(history):
    """The choices of a record, each from the state before its step, are those of the log."""
    log = check_history(history)
    for record in (record_of(log), condensed_record_of(log)):
        states = ArmStatistics(pulls=record.pulls, total=record.running(record.rewards))
        chosen = jax.vmap(lambda choices, state: log_prob_of_choices(choices, POLICY.log_probs(state)))(record.choices, states)
        expected = selection_log_probs(POLICY, log.arms, log.rewards, log.forced_steps, 2, log.seen_steps)
        np.testing.assert_allclose(chosen.sum(), expected.sum(), rtol=1e-5)
    assert record.arms.tolist() == log.arms[log.seen_steps.order].tolist()


def test_conditional_likelihood_against_enumeration():
    """The probability of the arms, summed over every sequence of rewards, where these arrive out of order."""
    policy, mean, seen_at = jb.Greedy(tau=0.3), np.array([0.6, 0.35]), (3, 1, 4, 3, 5, 9)
    arms, rewards = all_paths()
    own = (arms == [0, 1, 0, 0, 1, 0]).all(axis=1)
    arms, rewards = arms[own], rewards[own]
    given = (jnp.asarray(arms, jnp.int32), jnp.asarray(rewards, jnp.float32))
    log_probs = np.asarray(jax.jit(jax.vmap(lambda *path: by_hand(policy, seen_at, *path)))(*given), float)
    chosen = np.take_along_axis(log_probs, arms[..., None], axis=2)[..., 0][:, 2:].sum(axis=1)
    density = chosen + np.where(rewards == 1, np.log(mean[arms]), np.log(1 - mean[arms])).sum(axis=1)
    place = int(np.flatnonzero((rewards == [1, 0, 1, 0, 0, 1]).all(axis=1))[0])
    log = jb.History(arms=arms[place], rewards=rewards[place], num_arms=2, forced=np.arange(6) < 2, seen_at=seen_at)
    found = jb.conditional_log_likelihood(KEY, log, policy, jb.Bernoulli(), mean)
    np.testing.assert_allclose(found, density[place] - np.log(np.exp(density).sum()), atol=1e-4)


def test_what_a_choice_had_seen(history):
    log = check_history(history)
    found = statistics_seen(log)
    for step in range(16):
        seen = [other for other in range(step) if other + DELAY[other] < step]
        np.testing.assert_array_equal(found.pulls[step], np.bincount(log.arms[np.array(seen, int)], minlength=2))


def test_matching_gives_the_observed_means_with_the_delays(history):
    estimate = jb.mean_matching(jax.random.key(1), history, POLICY, FAMILY, interval="delta", num_paths=4096)
    found = jb.bias.bias_at(jax.random.key(2), history, POLICY, FAMILY, estimate.mean)
    off = estimate.mean + found.bias - history.statistics.mean
    assert (np.abs(off) < 4 * np.hypot(found.stderr, np.asarray(estimate.stderr) / 64) + 1e-3).all()
    undelayed = dataclasses.replace(history, seen_at=None)
    other = jb.bias.bias_at(jax.random.key(2), undelayed, POLICY, FAMILY, estimate.mean)
    assert (np.abs(other.bias - found.bias) > 4 * np.hypot(found.stderr, other.stderr)).any()


def test_batches_as_arrivals_are_batches():
    batched = jb.simulate(KEY, POLICY, FAMILY, MEAN, 16, batch_size=4)
    arrivals = dataclasses.replace(batched, batch_sizes=None, seen_at=tuple(step // 4 * 4 + 3 for step in range(16)))
    assert check_history(arrivals).batch_sizes == (4,) * 4
    found = [jb.adaptive_weighting(one, POLICY).mean for one in (batched, arrivals)]
    np.testing.assert_array_equal(*found)
    immediate = dataclasses.replace(batched, batch_sizes=None, seen_at=tuple(range(16)))
    assert check_history(immediate).seen_at is None


def test_what_cannot_follow_a_delay_says_so(history):
    with pytest.raises(jb.ArgumentError, match=r"history\.seen_at says that rewards came late; .* without delays for unbiased"):
        jb.unbiased(KEY, history, POLICY)
    with pytest.raises(jb.ArgumentError, match=r"history\.batch_sizes is None"):
        jb.batched_ols(history, FAMILY)
    with pytest.raises(jb.ArgumentError, match="it must be None for a log whose rewards came late"):
        jb.mean_matching(KEY, history, POLICY, FAMILY, stop=jb.StopAtDifference(1.0))
    thompson = jb.simulate(KEY, jb.Thompson(), FAMILY, MEAN, 16, delay=DELAY, keep_draws=True)
    with pytest.raises(jb.ArgumentError, match="False for a log with batches or delays"):
        jb.conditional_mle(KEY, thompson, jb.Thompson(), FAMILY, given_draws=True)


def test_the_declared_delay_decides_the_fit():
    history = jb.simulate(KEY, jb.Greedy(), FAMILY, [1.0, 0.9, 0.8], 60, delay=6)
    assert jb.check_fit(KEY, history, jb.Greedy()).verdict == "fits"
    undelayed = dataclasses.replace(history, seen_at=None)
    assert jb.check_fit(KEY, undelayed, jb.Greedy()).verdict == "impossible"
    assert jb.check_fit(KEY, undelayed.with_delay(6), jb.Greedy()).verdict == "fits"


@pytest.mark.slow
@pytest.mark.parametrize("policy", [jb.Thompson(), jb.LilUCB(tau=0.5)], ids=["thompson", "lil-ucb"])
def test_intervals_cover_with_a_delay(policy):
    mean, number = [1.0, 0.75], 500
    history = jb.simulate(KEY, policy, FAMILY, mean, 100, number, delay=10)
    found = jb.test_inversion(jax.random.key(1), history, policy, FAMILY, num_paths=512)
    covers = (np.asarray(found.lower) <= mean) & (mean <= np.asarray(found.upper))
    assert (np.abs(covers.mean(axis=0) - 0.95) < 4 * (0.05 * 0.95 / number) ** 0.5).all()
