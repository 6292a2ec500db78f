"""Augmented weighting with adaptive weights: by hand in plain loops, its coverage, and what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb

ARMS, REWARDS = [0, 1, 0, 1, 0, 1, 1], [1.0, 2.0, 3.0, -1.0, 0.5, 0.25, 1.5]
CHANCES = [[np.nan, 0.0], [0.0, 0.0], [0.5, 0.5], [0.75, 0.25], [0.8, 0.2], [0.4, 0.6], [0.9, 0.1]]


class Floored(jb.policies.StatisticsPolicy):
    """Thompson sampling, or with probability t^-decay an arm at random: the floor that the article puts under it."""

    def __init__(self, decay):
        self.decay, self.inner = decay, jb.Thompson()

    def share(self, state):
        return jnp.maximum(jnp.sum(state.pulls), 2).astype(state.total.dtype) ** -self.decay

    def log_probs(self, state):
        share, num_arms = self.share(state), state.total.shape[0]
        return jnp.logaddexp(jnp.log1p(-share) + self.inner.log_probs(state), jnp.log(share / num_arms))

    def sample(self, key, state):
        coin, arm, inner = jax.random.split(key, 3)
        anything = jax.random.randint(arm, (), 0, state.total.shape[0])
        explores = jax.random.uniform(coin, dtype=state.total.dtype) < self.share(state)
        return jnp.where(explores, anything, self.inner.sample(inner, state).astype(anything.dtype))


def log(arms=ARMS, rewards=REWARDS, num_arms=2, forced=None):
    return jb.History(arms=jnp.array(arms, int), rewards=jnp.array(rewards, float), num_arms=num_arms, forced=forced)


def by_hand(arms, rewards, chances, num_arms, forced, scheme, decay):
    """In plain loops, as the article has it: the mean and the standard error of each arm."""
    found = []
    free = [step for step in range(len(arms)) if not forced[step]]
    steps = len(free)
    for arm in range(num_arms):
        stick, weights, scores = 1.0, [], []
        for number, step in enumerate(free, start=1):
            seen = [rewards[s] for s in range(step) if arms[s] == arm]
            before = sum(seen) / len(seen) if seen else 0.0
            chance = chances[step][arm]
            scores.append(before + ((rewards[step] - before) / chance if arms[step] == arm else 0.0))
            rate = 1 / (steps - number + 1)
            if scheme == "two_point":
                tail = (steps ** (1 - decay) - number ** (1 - decay)) / (1 - decay)
                rate = chance * rate + (1 - chance) * number**-decay / (number**-decay + tail)
            weights.append(np.sqrt(chance * rate * stick))
            stick -= rate * stick
        mean = sum(h * score for h, score in zip(weights, scores, strict=True)) / sum(weights)
        squares = sum(h**2 * (score - mean) ** 2 for h, score in zip(weights, scores, strict=True))
        found.append((mean, np.sqrt(squares) / sum(weights)))
    return np.array(found).T


@pytest.mark.parametrize("decay", [0.0, 0.7])
@pytest.mark.parametrize("scheme", ["constant", "two_point"])
def test_by_hand(scheme, decay, x64):
    found = jb.adaptive_weighting(log(), propensities=jnp.array(CHANCES), scheme=scheme, floor_decay=decay)
    mean, stderr = by_hand(ARMS, REWARDS, CHANCES, 2, [True, True] + [False] * 5, scheme, decay)
    tolerance = 1e-6 if x64 else 1e-5
    np.testing.assert_allclose(found.mean, mean, rtol=tolerance)
    np.testing.assert_allclose(found.stderr, stderr, rtol=tolerance)
    np.testing.assert_allclose(found.lower, mean - 1.959964 * stderr, rtol=1e-5)
    assert found.converged.all()
    assert found.mean.dtype == jnp.result_type(float)
    assert found.diagnostics["free_pulls"].tolist() == [2, 3]
    np.testing.assert_allclose(found.diagnostics["smallest_probability"], [0.4, 0.1], rtol=1e-6)


def test_nothing_forced_and_steps_forced_in_between(x64):
    chances = [[0.3, 0.7], [0.6, 0.4], *CHANCES[2:]]
    for forced in ([False] * 7, [True, False, False, True, False, False, False]):
        history = log(forced=jnp.array(forced))
        for scheme in ("constant", "two_point"):
            found = jb.adaptive_weighting(history, propensities=jnp.array(chances), scheme=scheme)
            mean, stderr = by_hand(ARMS, REWARDS, chances, 2, forced, scheme, 0.7)
            np.testing.assert_allclose(found.mean, mean, rtol=1e-6 if x64 else 1e-5)
            np.testing.assert_allclose(found.stderr, stderr, rtol=1e-6 if x64 else 1e-5)


@pytest.mark.parametrize("scheme", ["constant", "two_point"])
def test_probabilities_of_the_policy_are_those_before_the_step(scheme, own_policy):
    for policy in (jb.Thompson(), own_policy):
        history = jb.simulate(jax.random.key(2), policy, jb.Normal(), [1.0, 0.5, 0.0], 30)
        (state, chances), log_probs = (policy.init(3), []), jax.jit(policy.log_probs)
        for arm, reward in zip(history.arms, history.rewards, strict=True):
            chances.append(np.exp(log_probs(state)).tolist())
            state = policy.update(state, arm, reward)
        forced = [True] * 3 + [False] * 27
        mean, stderr = by_hand(history.arms.tolist(), history.rewards.tolist(), chances, 3, forced, scheme, 0.7)
        found = jb.adaptive_weighting(history, policy, scheme=scheme)
        np.testing.assert_allclose(found.mean, mean, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(found.stderr, stderr, rtol=1e-3, atol=1e-6)  # zero of an arm with one pull


def test_the_constant_scheme_weighs_by_the_root_of_the_probability():
    found = jb.adaptive_weighting(log(), propensities=jnp.array(CHANCES))
    roots = np.sqrt(np.array(CHANCES)[2:])
    expected = roots.sum(axis=0) ** 2 / (roots**2).sum(axis=0)
    np.testing.assert_allclose(found.diagnostics["effective_sample_size"], expected, rtol=1e-5)


def test_batch_jit_and_vmap():
    policy = jb.Greedy(tau=1.0)
    batch = jb.simulate(jax.random.key(0), policy, jb.Normal(), [1.0, 0.75], 15, 3)
    many = jb.adaptive_weighting(batch, policy)
    one = jb.adaptive_weighting(jax.tree.map(lambda leaf: leaf[1], batch), policy)
    jax.tree.map(lambda single, row: np.testing.assert_allclose(single, row[1], rtol=1e-4), one, many)
    for transform in (jax.jit, jax.vmap):
        found = transform(lambda history: jb.adaptive_weighting(history, policy))(batch)
        np.testing.assert_allclose(found.stderr, many.stderr, rtol=1e-4)


def test_arms_with_too_few_choices_say_so():
    """Arm 1 only in its forced pull, arm 2 never: neither is believed, arm 0 is."""
    history = log([0, 1, 0, 0], [1.0, 2.0, 3.0, 4.0], num_arms=3)
    found = jb.adaptive_weighting(history, jb.Uniform())
    assert found.converged.tolist() == [True, False, False]
    assert np.isnan(found.mean).tolist() == [False, False, True]


def test_nothing_was_chosen():
    found = jb.adaptive_weighting(log([0, 1], [1.0, 2.0]), jb.Uniform())
    assert not found.converged.any()
    assert np.isnan(found.mean).all()


def test_the_range_of_the_family_clips_the_interval():
    history = log([0, 1, 0, 1, 0], [1.0, 0.0, 1.0, 1.0, 0.0])
    found = jb.adaptive_weighting(history, jb.Uniform(), jb.Bernoulli())
    assert (np.asarray(found.lower) >= 0).all()
    assert (np.asarray(found.upper) <= 1).all()


@pytest.mark.slow
def test_it_covers_with_a_floor_under_the_probabilities():
    """Thompson, K = 3, T = 2,000 with a floor: both schemes cover 95% within 4 standard errors and beat the mean's bias.

    Without a floor the arms that Thompson sampling gives up are covered 89 to 92% of the time: see the docstring.
    """
    policy, mean, trials = Floored(0.5), np.array([1.0, 0.75, 0.5]), 250
    history = jb.simulate(jax.random.key(5), policy, jb.Normal(), mean, 2000, trials)
    from jaxbias.likelihood import replayed_log_probs

    chances = jnp.exp(replayed_log_probs(policy, history))
    for scheme in ("constant", "two_point"):
        found = jb.adaptive_weighting(history, propensities=chances, scheme=scheme, floor_decay=0.5)
        inside = ((np.asarray(found.lower) <= mean) & (np.asarray(found.upper) >= mean)).mean(axis=1)
        assert abs(inside.mean() - 0.95) < 4 * inside.std() / np.sqrt(trials)
        assert found.converged.all()
        scaled = (np.asarray(found.mean) - mean) / np.asarray(found.stderr)
        assert (np.abs(scaled.std(axis=0) - 1) < 4 / np.sqrt(2 * trials)).all()


BAD = [
    (dict(policy=None), "policy", "is None; it must be given, or propensities, and not both"),
    (
        dict(propensities=jnp.array(CHANCES)),
        "policy",
        "is given with propensities; it must be given, or propensities",
    ),
    (dict(policy=jb.UCB1()), "policy", "whose choices are not random; it must be one with random choices .tau > 0."),
    (
        dict(policy=None, propensities=jnp.ones(7)),
        "propensities",
        r"has shape \(7,\); it must be of shape \(7, 2\), one for each step and arm",
    ),
    (
        dict(policy=None, propensities=jnp.full((7, 2), 0.4)),
        "propensities",
        "is 0.8.* at step 2, as the sum over the arms, which must be 1",
    ),
    (
        dict(policy=None, propensities=jnp.array(CHANCES).at[4].set(jnp.array([1.5, -0.5]))),
        "propensities",
        "is 1.5 at step 4; it must be from 0 to 1",
    ),
    (dict(policy=None, propensities=jnp.array(CHANCES).at[3, 1].set(jnp.nan)), "propensities", "is nan at step 3"),
    (
        dict(policy=None, propensities=jnp.array(CHANCES).at[4].set(jnp.array([0.0, 1.0]))),
        "history.arms",
        "is 0 at step 4, which had probability zero",
    ),
    (dict(scheme="stable"), "scheme", "is 'stable'; it must be 'constant' or 'two_point'"),
    (dict(floor_decay=1.0), "floor_decay", "is 1.0; it must be 0 or more and below 1"),
    (dict(level=1), "level", "is 1; it must be above 0"),
]


@pytest.mark.parametrize(("change", "argument", "message"), BAD)
def test_bad_input_is_named(change, argument, message, unchecked):
    with pytest.raises(jb.ArgumentError, match=message) as refused:
        jb.adaptive_weighting(**(dict(history=log(), policy=jb.Uniform()) | change))
    assert refused.value.argument == argument
