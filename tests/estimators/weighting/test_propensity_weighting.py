"""Propensity weighting: by hand, against the paper's column, and what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb

TWO, FIVE = [1.0, 0.75], [1.0, 0.75, 0.5, 0.38, 0.25]
ARMS, REWARDS, CHANCES = [0, 1, 0, 1, 0], [1.0, 2.0, 3.0, -1.0, 0.5], [0.0, np.nan, 0.5, 0.25, 0.8]


def log(arms=ARMS, rewards=REWARDS, num_arms=2):
    return jb.History(arms=jnp.array(arms, int), rewards=jnp.array(rewards, float), num_arms=num_arms)


def by_hand(arms, rewards, chances, num_arms, normalised):
    """In plain loops: the mean and the standard error of each arm. Chances: 1 where forced."""
    means, stderrs = [], []
    for arm in range(num_arms):
        weights = [1 / p if a == arm else 0.0 for a, p in zip(arms, chances, strict=True)]
        terms = [w * y for w, y in zip(weights, rewards, strict=True)]
        if normalised:
            mean = sum(terms) / sum(weights)
            squares = sum((w * (y - mean)) ** 2 for w, y in zip(weights, rewards, strict=True))
            stderrs.append(np.sqrt(squares) / sum(weights))
        else:
            mean = sum(terms) / len(terms)
            stderrs.append(np.std(terms, ddof=1) / np.sqrt(len(terms)))
        means.append(mean)
    return means, stderrs


@pytest.mark.parametrize("normalised", [True, False])
def test_propensities_of_the_log(normalised, x64):
    found = jb.propensity_weighting(log(), propensities=jnp.array(CHANCES), normalised=normalised)
    mean, stderr = by_hand(ARMS, REWARDS, [1.0, 1.0, *CHANCES[2:]], 2, normalised)
    tolerance = 1e-12 if x64 else 1e-6
    np.testing.assert_allclose(found.mean, mean, rtol=tolerance)
    np.testing.assert_allclose(found.stderr, stderr, rtol=tolerance)
    np.testing.assert_allclose(found.upper - found.mean, 1.959964 * np.array(stderr), rtol=1e-5)
    np.testing.assert_allclose(found.diagnostics["largest_weight"], [2, 4], rtol=1e-6)
    np.testing.assert_allclose(found.diagnostics["effective_sample_size"], [4.25**2 / (1 + 4 + 1.25**2), 25 / 17], rtol=1e-6)
    assert found.converged.all()
    assert found.mean.dtype == jnp.result_type(float)


def test_propensities_of_the_policy_are_those_before_the_step(x64, own_policy):
    """Replayed step by step in a loop, for policies that keep statistics and one that does not."""
    for policy in (jb.LilUCB(tau=0.7), own_policy):
        history = jb.simulate(jax.random.key(2), policy, jb.Normal(), [1.0, 0.5, 0.0], 12)
        (state, chances), log_probs = (policy.init(3), []), jax.jit(policy.log_probs)
        for step, (arm, reward) in enumerate(zip(history.arms, history.rewards, strict=True)):
            chances.append(1.0 if step < 3 else float(jnp.exp(log_probs(state)[arm])))
            state = policy.update(state, arm, reward)
        for normalised in (True, False):
            found = jb.propensity_weighting(history, policy, jb.Normal(), normalised=normalised)
            mean, stderr = by_hand(history.arms.tolist(), history.rewards.tolist(), chances, 3, normalised)
            np.testing.assert_allclose(found.mean, mean, rtol=1e-4, atol=1e-5)
            pulled = np.asarray(found.diagnostics["pulls"]) > 1
            np.testing.assert_allclose(np.asarray(found.stderr)[pulled], np.array(stderr)[pulled], rtol=1e-4, atol=1e-5)
            given = jb.propensity_weighting(history, propensities=jnp.array(chances), normalised=normalised)
            np.testing.assert_allclose(given.mean, found.mean, rtol=1e-4, atol=1e-5)


def test_with_equal_chances_normalised_it_is_the_sample_mean_of_free_and_forced_pulls_weighted():
    """Uniform: every free pull counts K times a forced one."""
    history = jb.simulate(jax.random.key(0), jb.Uniform(), jb.Normal(), FIVE, 60, 4)
    found = jb.propensity_weighting(history, jb.Uniform())
    for trial in range(4):
        for arm in range(5):
            values = np.asarray(history.rewards[trial])[np.asarray(history.arms[trial]) == arm]
            weights = np.where(np.arange(len(values)) == 0, 1, 5)
            np.testing.assert_allclose(found.mean[trial, arm], np.average(values, weights=weights), rtol=1e-4, atol=1e-5)


def test_batch_jit_and_vmap():
    policy = jb.Greedy(tau=1.0)
    batch = jb.simulate(jax.random.key(0), policy, jb.Normal(), TWO, 15, 3)
    many = jb.propensity_weighting(batch, policy)
    one = jb.propensity_weighting(jax.tree.map(lambda leaf: leaf[1], batch), policy)
    jax.tree.map(lambda single, row: np.testing.assert_allclose(single, row[1], rtol=1e-5), one, many)
    for transform in (jax.jit, jax.vmap):
        found = transform(lambda history: jb.propensity_weighting(history, policy))(batch)
        np.testing.assert_allclose(found.stderr, many.stderr, rtol=1e-5)


def test_arms_with_too_few_pulls_say_so():
    history = log([0, 1, 0, 0], [1.0, 2.0, 3.0, 4.0], num_arms=3)
    for normalised in (True, False):
        found = jb.propensity_weighting(history, propensities=jnp.full(4, 0.5), normalised=normalised)
        assert found.converged.tolist() == [True, False, False]
        assert np.isnan(found.mean).tolist() == [False, False, True]
        assert np.isnan(found.upper[2])


def test_one_step():
    for normalised in (True, False):
        found = jb.propensity_weighting(log([0], [2.0]), jb.Uniform(), normalised=normalised)
        assert found.mean[0] == 2.0
        assert not found.converged.any()


def test_the_range_of_the_family_clips_the_interval():
    history = log([0, 1, 0, 1, 0], [1.0, 0.0, 1.0, 1.0, 0.0])
    found = jb.propensity_weighting(history, jb.Uniform(), jb.Bernoulli())
    assert (np.asarray(found.lower) >= 0).all()
    assert (np.asarray(found.upper) <= 1).all()


# Percent of the original MSE at 100,000 trials, unnormalised and self-normalised; what the paper prints; the original MSE.
COLUMN = [
    (8, TWO, 330, 109, 295, 0.502),
    (16, TWO, 253, 122, 244, 0.382),
    (20, FIVE, 409, 121, 399, 0.502),
    (40, FIVE, 290, 146, 290, 0.405),
]


@pytest.mark.slow
@pytest.mark.parametrize("cells", [COLUMN[:2], COLUMN[2:]], ids=["two-arms", "five-arms"])
def test_the_propensity_column_of_table_three(cells):
    policy, trials = jb.EpsilonGreedy(), 100_000
    longest = jb.simulate(jax.random.key(11), policy, jb.Normal(), cells[1][1], cells[1][0], trials)
    for num_steps, mean, plain, normalised, printed, mse in cells:
        history = jax.tree.map(lambda leaf: leaf[:, :num_steps], longest)  # noqa: B023
        for kind, percent in ((False, plain), (True, normalised)):
            found = np.asarray(jb.propensity_weighting(history, policy, normalised=kind).mean, float)
            squares = 100 * ((found - mean) ** 2).mean(axis=1) / mse
            # Both figures are from 100,000 trials, and the known one is rounded, as is the MSE it is a share of.
            slack = 0.5 + 0.002 * percent
            assert abs(squares.mean() - percent) < slack + 4 * np.sqrt(2 / trials) * squares.std()
            if not kind:
                assert abs(squares.mean() - printed) < 2.5 * squares.std() / np.sqrt(1000)
                # Forced pulls count with probability one: the expectation is this share of the mean.
                share = (num_steps - len(mean) + 1) / num_steps
                off = np.abs(found.mean(axis=0) - share * np.array(mean))
                assert (off < 4 * found.std(axis=0) / np.sqrt(trials)).all()


BAD = [
    (dict(policy=None), "policy", "is None; it must be given, or propensities, and not both"),
    (
        dict(propensities=jnp.full(5, 0.5)),
        "policy",
        "is given with propensities; it must be given, or propensities",
    ),
    (dict(policy=jb.LilUCB()), "policy", "whose choices are not random; it must be one with random choices .tau > 0."),
    (dict(policy=None, propensities=jnp.ones(5)), "propensities", "is 1 at every step; it must be below 1 somewhere"),
    (
        dict(policy=None, propensities=jnp.full(4, 0.5)),
        "propensities",
        r"has shape \(4,\); it must be of shape \(5,\), one for each step",
    ),
    (
        dict(policy=None, propensities=jnp.array([1, 1, 0.5, 0.0, 1])),
        "propensities",
        "is 0.0 at step 3; it must be above 0 and at most 1",
    ),
    (dict(policy=None, propensities=jnp.array([1, 1, jnp.nan, 0.5, 1])), "propensities", "is nan at step 2"),
    (dict(policy=None, propensities=jnp.array([1, 1, 1.5, 0.5, 1])), "propensities", "is 1.5 at step 2"),
    (dict(family=jb.Bernoulli()), "history.rewards", "is 2.0 at step 1, which Bernoulli.* cannot give"),
    (dict(policy="greedy"), "policy", "is 'greedy'"),
    (dict(level=-1), "level", "is -1; it must be above 0"),
]


@pytest.mark.parametrize(("change", "argument", "message"), BAD)
def test_bad_input_is_named(change, argument, message, unchecked):
    with pytest.raises(jb.ArgumentError, match=message) as refused:
        jb.propensity_weighting(**(dict(history=log(), policy=jb.Uniform()) | change))
    assert refused.value.argument == argument


def test_a_choice_without_a_chance_is_named():
    class Never(jb.policies.StatisticsPolicy):
        def log_probs(self, state):
            return jnp.log(jnp.array([0.6, 0.4, 0.0]))

    history = log([0, 1, 2, 0, 2], [1.0] * 5, num_arms=3)
    with pytest.raises(ValueError, match=r"history\.arms is 2 at step 4, which had probability zero"):
        jb.propensity_weighting(history, Never())
