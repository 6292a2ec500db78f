"""The unbiased estimate: over all logs its expectation is the means; the chains agree with the enumeration."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.bias import exact_distribution
from jaxbias.estimators.unbiased import estimator, grid_chains, own_draws
from jaxbias.estimators.unbiased.averaging import Chain
from jaxbias.estimators.unbiased.chains import Moves
from jaxbias.estimators.unbiased.enumeration import all_orders, count_orders
from jaxbias.estimators.unbiased.orders import Setup
from jaxbias.estimators.unbiased.results import from_chains
from jaxbias.history import check_history
from jaxbias.likelihood import statistics_before
from tests.conftest import KINDS, POLICIES

KEY = jax.random.key(1)


def log_with(pulls, successes):
    """A log with these pulls and successes, in any order, after one forced pull of each arm in turn."""
    rewards = [[1.0] * one + [0.0] * (number - one) for number, one in zip(pulls, successes, strict=True)]
    opening = [(arm, rewards[arm].pop()) for arm in range(len(pulls))]
    rest = [(arm, reward) for arm, left in enumerate(rewards) for reward in left]
    return zip(*(opening + rest), strict=True)


def logs_of(pulls, successes):
    """One log for each end of a trial."""
    columns = [list(log_with(*end)) for end in zip(pulls, successes, strict=True)]
    arms, rewards = (np.array(values) for values in zip(*columns, strict=True))
    return jb.History(arms=jnp.asarray(arms, jnp.int32), rewards=jnp.asarray(rewards, float), num_arms=pulls.shape[1])


def expectation(policy, mean, num_steps):
    """Over all ends of a trial, with their probabilities."""
    ends = exact_distribution(policy, np.array(mean), num_steps)
    # Paths of a policy with a state of its own that end with the same pulls and successes are one log.
    counts, which = np.unique(np.hstack([ends.pulls, ends.successes]), axis=0, return_inverse=True)
    probability = np.bincount(which.ravel(), weights=ends.probability)
    log = logs_of(*np.hsplit(counts, 2))
    estimate = jb.unbiased(KEY, log, policy, jb.Bernoulli())
    assert (np.asarray(estimate.diagnostics["orders"]) > 0).all()
    possible = probability > 0
    return probability[possible] @ np.asarray(estimate.mean, np.float64)[possible]


@pytest.mark.parametrize("name", KINDS)
def test_the_expectation_over_all_logs_is_the_means(name):
    with jax.enable_x64(True):
        np.testing.assert_allclose(expectation(POLICIES[name], (0.7, 0.4), 6), (0.7, 0.4), rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mean"), list(itertools.product(POLICIES, ((0.7, 0.4), (0.7, 0.4, 0.15)))))
def test_the_expectation_over_all_logs_is_the_means_for_every_policy(name, mean):
    with jax.enable_x64(True):
        np.testing.assert_allclose(expectation(POLICIES[name], mean, 8), mean, rtol=0, atol=1e-10)


def every_log(policy, mean, num_steps, rule):
    """All logs of Bernoulli rewards that a rule may stop: arms, rewards and length of each, and its probability."""
    found, open_logs = [], [((), (), 1.0)]
    while open_logs:
        arms, rewards, probability = open_logs.pop()
        done, num_arms = len(arms), len(mean)
        pulls = np.bincount(arms, minlength=num_arms) if arms else np.zeros(num_arms, int)
        total = np.bincount(arms, rewards, num_arms) if arms else np.zeros(num_arms)
        statistics = jb.policies.ArmStatistics(pulls=jnp.asarray(pulls), total=jnp.asarray(total))
        if done == num_steps or (done >= num_arms and bool(rule(statistics))):
            found.append((arms, rewards, probability))
            continue
        chances = np.eye(num_arms)[done] if done < num_arms else np.exp(np.asarray(policy.log_probs(statistics), np.float64))
        for arm in np.flatnonzero(chances > 0).tolist():
            for reward, chance in ((1.0, mean[arm]), (0.0, 1 - mean[arm])):
                open_logs.append(((*arms, arm), (*rewards, reward), probability * chances[arm] * chance))
    return found


@pytest.mark.parametrize("policy", [jb.Greedy(), jb.EpsilonGreedy(0.3)], ids=["greedy", "epsilon-greedy"])
def test_the_expectation_over_all_logs_that_a_rule_may_stop_is_the_means(policy):
    """Sequence by sequence, without the library's simulation or enumeration; logs of three lengths in one batch."""
    mean, rule = (0.7, 0.4), jb.StopAtDifference(threshold=0.6, first=3)
    with jax.enable_x64(True):
        logs = every_log(policy, mean, 5, rule)
        lengths = np.array([len(arms) for arms, _, _ in logs])
        assert set(lengths) == {3, 4, 5}
        pad = lambda values: np.array([[*one, *[0] * (5 - len(one))] for one in values])
        arms, rewards, probability = (list(column) for column in zip(*logs, strict=True))
        columns = dict(arms=jnp.asarray(pad(arms), jnp.int32), rewards=jnp.asarray(pad(rewards), float))
        history = jb.History(**columns, num_arms=2, lengths=jnp.asarray(lengths))
        estimate = jb.unbiased(KEY, history, policy, jb.Bernoulli(), stop=rule)
        np.testing.assert_allclose(np.sum(probability), 1, atol=1e-12)
        np.testing.assert_allclose(np.array(probability) @ np.asarray(estimate.mean), mean, rtol=0, atol=1e-10)
        stopped = int(np.argmin(lengths))  # each in its own place
        alone = jb.unbiased(KEY, history.trial(stopped), policy, jb.Bernoulli(), stop=rule)
        np.testing.assert_allclose(estimate.mean[stopped], alone.mean, atol=1e-12)
        with pytest.raises(jb.ArgumentError, match="stop is None"):
            jb.unbiased(KEY, history, policy, jb.Bernoulli())


def test_orders():
    """Two arms forced first; then two pulls of arm 0 and one of arm 1 in three orders, times those of the rewards."""
    arms, rewards = np.array([0, 1, 0, 0, 1]), np.array([1.0, 0.0, 1.0, 0.0, 1.0])
    forced = np.array([True, True, False, False, False])
    orders = all_orders(arms, rewards, forced)
    assert len(orders[0]) == count_orders(arms, rewards, forced) == 3 * 3 * 2
    assert len({(*a, *r) for a, r in zip(orders[0].tolist(), orders[1].tolist(), strict=True)}) == 18
    for one_arms, one_rewards in zip(*orders, strict=True):
        assert sorted(zip(one_arms, one_rewards, strict=True)) == sorted(zip(arms, rewards, strict=True))
        assert one_arms[:2].tolist() == [0, 1]


@pytest.mark.parametrize("name", ["greedy", "epsilon-greedy-noisy", pytest.param("exp3", marks=pytest.mark.slow)])
def test_chains_agree_with_the_enumeration(name, monkeypatch):
    """Rewards that are all different, so that orders are; with a stopping rule that rules some of them out."""
    policy, rule = POLICIES[name], jb.StopAtMean(threshold=1.2, arm=0, first=4)
    given = (jax.random.key(2), policy, jb.Normal(), [0.5, 0.3, 0.0])
    logs = jb.simulate(*given, num_steps=8, num_trials=3, stop=rule, progress=False)
    whole = np.asarray(logs.lengths) == 8
    log = jax.tree.map(lambda leaf: leaf[int(np.argmax(whole))], dataclasses.replace(logs, lengths=None))
    exact = jb.unbiased(KEY, log, policy, stop=rule)
    assert int(exact.diagnostics["orders"]) > 100
    monkeypatch.setattr(estimator, "MOST_ORDERS", 0)
    chains = jb.unbiased(KEY, log, policy, stop=rule, num_chains=32, num_rounds=600)
    assert int(chains.diagnostics["orders"]) == 0
    error = np.maximum(np.asarray(chains.diagnostics["monte_carlo_error"]), 1e-6)
    assert np.max(np.abs(chains.mean - exact.mean) / error) < 4
    moved = np.asarray(log.statistics.pulls) > 1
    assert np.max(error[moved]) < 0.2
    np.testing.assert_allclose(chains.stderr[moved], exact.stderr[moved], rtol=0.15)


def test_insertions_alone_agree_with_the_enumeration(monkeypatch):
    """A log whose arms alternate, so that the ratio of an insertion matters: with half of it, it is off by 10 errors."""
    policy = jb.Greedy(tau=0.3)
    log = jb.simulate(jax.random.key(3), policy, jb.Normal(), [0.3, 0.2], num_steps=9, progress=False)
    assert log.statistics.pulls.tolist() == [5, 4]
    monkeypatch.setattr(estimator, "MOST_ORDERS", 10**6)
    exact = jb.unbiased(KEY, log, policy)
    monkeypatch.setattr(estimator, "MOST_ORDERS", 0)
    monkeypatch.setattr(estimator, "WITH_NOISE", Moves(exchanges=0, insertions=1, couplings=0))
    chains = jb.unbiased(KEY, log, policy, num_chains=256, num_rounds=600)
    error = np.asarray(chains.diagnostics["monte_carlo_error"])
    assert np.max(error) < 0.03
    assert np.max(np.abs(chains.mean - exact.mean) / error) < 4


def test_chains_with_draws_agree_with_the_enumeration(monkeypatch):
    """Thompson sampling with three arms, in steps and in batches of two; with first steps that are exchanged alone."""
    monkeypatch.setattr(estimator, "ON_GRID", 0)
    policy = jb.Thompson()
    monkeypatch.setattr(own_draws, "SMALLEST", 1)
    monkeypatch.setattr(own_draws, "PARTS", (own_draws.Part(1, 6, 2, 1, 4), own_draws.Part(2, 6, 2, 1, 0)))
    for sizes in (None, (1, 1, 1, 2, 3)):
        given = (jax.random.key(4), policy, jb.Normal(), [0.5, 0.3, 0.4])
        log = jb.simulate(*given, num_steps=8, batch_size=sizes, progress=False)
        monkeypatch.setattr(estimator, "MOST_ORDERS", 10**6)
        exact = jb.unbiased(KEY, log, policy)
        assert int(exact.diagnostics["orders"]) > 100
        monkeypatch.setattr(estimator, "MOST_ORDERS", 0)
        chains = jb.unbiased(KEY, log, policy, num_chains=64, num_rounds=300)
        error = np.maximum(np.asarray(chains.diagnostics["monte_carlo_error"]), 1e-6)
        assert np.max(error) < 0.05
        assert np.max(np.abs(chains.mean - exact.mean) / error) < 4


@pytest.mark.parametrize("forced", [(0, 1, 2), (0, 1, 2, 3, 4)], ids=["once", "twice"])
def test_chains_on_a_grid_agree_with_the_enumeration(monkeypatch, forced):
    """Thompson sampling with three arms; with several forced pulls of an arm; one in the middle has the other chains."""
    rewards = jnp.array([0.2, 1.4, -0.6, 0.9, -1.1, 0.5, 0.1, 1.0], jnp.float32)
    steps = np.isin(np.arange(8), forced)
    log = jb.History(arms=jnp.array([0, 1, 2, 0, 1, 1, 0, 1]), rewards=rewards, num_arms=3, forced=steps)
    policy = jb.Thompson(prior_mean=jnp.array([0.0, 0.3, 0.1]), prior_sigma=2.0)
    assert estimator._is_on_grid(policy, log, None)
    assert not estimator._is_on_grid(policy, dataclasses.replace(log, forced=np.isin(np.arange(8), (0, 1, 2, 5))), None)
    monkeypatch.setattr(grid_chains, "RETIMINGS", (grid_chains.Retiming(1, 3, 3), grid_chains.Retiming(2, 2, 2)))
    monkeypatch.setattr(estimator, "MOST_ORDERS", 10**6)
    exact = jb.unbiased(KEY, log, policy)
    assert int(exact.diagnostics["orders"]) > 100
    monkeypatch.setattr(estimator, "MOST_ORDERS", 0)
    chains = jb.unbiased(KEY, log, policy, num_chains=32, num_rounds=150)
    error = np.maximum(np.asarray(chains.diagnostics["monte_carlo_error"]), 1e-6)
    assert np.max(error) < 0.04
    assert np.max(np.abs(chains.mean - exact.mean) / error) < 4


def test_draws_start_from_their_distribution_given_the_log():
    """The mean of each step's own draw, by quadrature over a standard Normal variable; a forced step says nothing of it."""
    policy = jb.Thompson()
    log = jb.simulate(jax.random.key(4), policy, jb.Normal(), [0.5, 0.3, 0.4], num_steps=8, progress=False)
    log = check_history(log)
    question, before = estimator._ask(log, None), statistics_before(log.arms, log.rewards, 3)
    draws, possible = own_draws._start(KEY, Setup(policy=policy, stop=None, seen=None), question, 4000)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    given = jax.vmap(jax.vmap(policy.log_prob_given_own_draw, (None, None, 0)), (0, 0, None))
    density = np.exp(np.asarray(given(before, log.arms, jnp.asarray(nodes, log.rewards.dtype)))) * weights
    expected = np.where(np.asarray(log.forced_steps), 0, density @ nodes / density.sum(axis=1))
    assert bool(possible)
    assert np.max(np.abs(np.asarray(draws).mean(axis=0) - expected)) < 4 / np.sqrt(4000)
    assert np.max(np.abs(expected)) > 0.3


def test_a_log_of_one_arm_is_its_sample_mean():
    """Without a choice all orders are equally likely: by enumeration, and for Normal rewards given the sum."""
    log = jb.History(arms=jnp.zeros(6, jnp.int32), rewards=jnp.array([1.0, 3.0, 2.0, 0.0, 0.0, 5.0]), num_arms=1)
    exact = jb.unbiased(KEY, log, jb.Greedy())
    np.testing.assert_allclose(exact.mean, 11 / 6, rtol=1e-5)
    np.testing.assert_allclose(exact.stderr, np.std(log.rewards, ddof=1) / np.sqrt(6), rtol=1e-4)
    sums = jb.unbiased(KEY, log, jb.Greedy(), jb.Normal(sigma=1.0), num_rounds=600)
    assert abs(float(sums.mean[0]) - 11 / 6) < 4 * float(sums.diagnostics["monte_carlo_error"][0])
    np.testing.assert_allclose(sums.stderr, 1 / np.sqrt(6), rtol=0.1)


def test_what_is_refused_and_what_is_impossible():
    log = jb.History(arms=jnp.array([0, 0, 1, 1]), rewards=jnp.array([1.0, 0.0, 1.0, 0.0]), num_arms=2)
    with pytest.raises(jb.ArgumentError, match="has no forced first pull of arm 1: the policy chose before it"):
        jb.unbiased(KEY, log, jb.Greedy())
    shares = dataclasses.replace(log, batch_sizes=(2, 2), allocation="shares")
    with pytest.raises(jb.ArgumentError, match=r"history\.allocation is 'shares'"):
        jb.unbiased(KEY, shares, jb.Greedy())
    with pytest.raises(jb.ArgumentError, match="num_chains is 1"):
        jb.unbiased(KEY, log, jb.Greedy(), num_chains=1)
    # Greedy never leaves an arm that only succeeds for one that only fails.
    wrong = jb.History(arms=jnp.array([0, 1, 1, 1]), rewards=jnp.array([1.0, 0.0, 0.0, 0.0]), num_arms=2)
    estimate = jb.unbiased(KEY, wrong, jb.Greedy(), jb.Bernoulli())
    assert not np.isfinite(estimate.mean).any()
    assert not estimate.converged[0]


def test_estimates_stay_in_the_range_and_a_single_pull_is_no_evidence():
    log = jb.History(arms=jnp.array([0, 1, 0, 0, 0]), rewards=jnp.array([1.0, 0.0, 1.0, 0.0, 1.0]), num_arms=2)
    known, unknown = jb.unbiased(KEY, log, jb.Greedy(), jb.Bernoulli()), jb.unbiased(KEY, log, jb.Greedy())
    assert np.all((known.lower >= 0) & (known.lower <= known.mean) & (known.mean <= known.upper) & (known.upper <= 1))
    assert int(known.status[1]) == jb.Status.AT_EDGE
    assert int(unknown.status[1]) == jb.Status.PULLED_ONCE
    assert float(unknown.mean[1]) == 0.0
    assert np.isnan(np.array([unknown.stderr[1], unknown.lower[1], unknown.upper[1]])).all()
    shared = jb.unbiased(KEY, log, jb.Greedy(), jb.Normal(sigma=None))
    np.testing.assert_allclose(shared.stderr[1], np.std([1.0, 1.0, 0.0, 1.0], ddof=1), rtol=1e-5)
    assert np.all(known.stderr > 0)


def test_chains_that_never_move_are_not_taken_for_chains_that_agree():
    """Without exchanges or simulations the first rewards stay: no effective samples, whatever the agreement."""
    still = lambda values: jnp.broadcast_to(jnp.asarray(values), (1, 4, 2, 2))
    chains = Chain(mean=still([1.0, 2.0]), variance=still([0.0, 0.0]), accepted=jnp.zeros((1, 4, 2)))
    found = from_chains(chains, jnp.array([[True, False]]))
    assert np.isinf(found.r_hat[0, 0])
    assert float(found.effective_sample_size[0, 0]) == 0
    assert float(found.r_hat[0, 1]) == 1  # one reward only: nothing can move


@pytest.mark.parametrize("family", [None, jb.Normal()], ids=["sets", "sums"])
def test_without_adaptivity_chains_average_to_the_sample_means(family, monkeypatch):
    """Every order, and every reward given the sums, is then as likely as any other; arm by arm, over many logs."""
    monkeypatch.setattr(estimator, "MOST_ORDERS", 0)
    logs = jb.simulate(jax.random.key(5), jb.Uniform(), jb.Normal(), [1.0, 0.75, 0.5], num_steps=20, num_trials=300)
    found = jb.unbiased(KEY, logs, jb.Uniform(), family, num_chains=4, num_rounds=40)
    off = np.asarray(found.mean - logs.statistics.mean)
    assert (np.abs(off.mean(axis=0)) < 4 * off.std(axis=0) / np.sqrt(len(off))).all()


@pytest.mark.slow
@pytest.mark.parametrize("family", [None, jb.Normal()], ids=["sets", "sums"])
@pytest.mark.parametrize("name", ["lil-ucb", "greedy", "epsilon-greedy", "thompson"])
def test_no_bias_in_the_settings_of_the_paper(name, family):
    """By chains of any length, as each starts in equilibrium; and the standard error is right on average."""
    mean = np.array([1.0, 0.75, 0.5, 0.38, 0.25], np.float32)
    logs = jb.simulate(jax.random.key(5), POLICIES[name], jb.Normal(), mean, num_steps=40, num_trials=1000, progress=False)
    estimate = jb.unbiased(KEY, logs, POLICIES[name], family, num_chains=4, num_rounds=100)
    off = np.asarray(estimate.mean) - mean
    assert np.max(np.abs(off.mean(axis=0) / (off.std(axis=0) / np.sqrt(len(off))))) < 3.5
    if family is not None:
        np.testing.assert_allclose(np.square(estimate.stderr).mean(axis=0), np.square(off).mean(axis=0), rtol=0.2)


@pytest.mark.slow
def test_the_standard_error_of_zeros_and_ones_is_not_too_small():
    """On average and log by log. With the variance of a reward at the estimate its square was a third of the error's."""
    policy, mean = jb.EpsilonGreedy(), np.array([0.5, 0.4], np.float32)
    logs = jb.simulate(jax.random.key(5), policy, jb.Bernoulli(), mean, num_steps=40, num_trials=600, progress=False)
    estimate = jb.unbiased(KEY, logs, policy, jb.Bernoulli(), num_chains=2, num_rounds=20)
    inner = (np.asarray(logs.statistics.mean) % 1) > 0  # the others have an interval on one side
    squared, reported = (np.where(inner, np.square(part), 0) for part in (np.asarray(estimate.mean) - mean, estimate.stderr))
    ratio = reported.sum(axis=0) / squared.sum(axis=0)
    assert (ratio > 0.9).all()
    assert (ratio < 1.7).all()
    covered = (np.asarray(estimate.lower) <= mean) & (mean <= np.asarray(estimate.upper))
    assert (np.sum(covered & inner, axis=0) > 0.93 * inner.sum(axis=0)).all()
