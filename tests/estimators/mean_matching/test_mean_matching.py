"""Mean matching: against the exact expectation of small Bernoulli problems, one log and many, and what it refuses.

Tests with noisy greedy choices share one shape and one program. Bias, error and coverage are in `test_mean_matching_tables.py`.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import root

import jaxbias as jb
from jaxbias.estimators.inversion.intervals import PURPOSE
from jaxbias.estimators.mean_matching.estimator import _match
from jaxbias.estimators.mean_matching.matching import FEW, Simulated, find_match

TWO, NOISY, STEPS, PATHS = [1.0, 0.75], jb.Greedy(tau=1.0), 12, 2048


def match(history, policy, family=None, **options):
    return jb.mean_matching(jax.random.key(1), history, policy, family or jb.Normal(), **{"interval": "delta", **options})


def assert_within_error(found, expected, largest=0.03):
    """Within 4 Monte Carlo errors, and those small against the standard error."""
    error = np.asarray(found.diagnostics["monte_carlo_error"])
    assert (error < largest * np.asarray(found.stderr)).all()
    np.testing.assert_array_less(np.abs(np.asarray(found.mean) - expected), 4 * error + 1e-5)


BERNOULLI = {
    "greedy": (jb.Greedy(), 9),
    "greedy-first": (jb.Greedy(ties="first"), 10),
    "epsilon-greedy": (jb.EpsilonGreedy(), 8),
    "thompson": (jb.BetaThompson(), 6),
    "lil-ucb": (jb.LilUCB(tau=0.5), 8),
}


@pytest.mark.parametrize(
    ("name", "wide"),
    [
        *((name, False) for name in BERNOULLI if name != "thompson"),
        ("greedy", True),
        pytest.param("thompson", False, marks=pytest.mark.slow),
    ],
)
def test_against_the_exact_expectation(name, wide):
    """With 0/1 rewards the expectation is a finite sum: its solution, to 1e-9, and the simulated one within its own error."""
    policy, num_steps = BERNOULLI[name]
    arms = jnp.asarray([0, 1] + [0] * (num_steps - 4) + [1, 1], jnp.int32)
    rewards = jnp.asarray(np.resize([1.0, 0.0, 0.0, 1.0], num_steps), float)
    history = jb.History(arms=arms, rewards=rewards, num_arms=2)
    observed = np.asarray(history.statistics.mean, np.float64)
    with jax.enable_x64(True):
        solved = root(lambda mean: mean + np.asarray(jb.bias.exact_bias(policy, mean, num_steps)) - observed, observed, tol=1e-11)
    assert np.abs(solved.fun).max() < 1e-9
    with jax.enable_x64(wide):
        found = match(jb.History(arms=arms, rewards=rewards.astype(float), num_arms=2), policy, jb.Bernoulli(), num_paths=8192)
        assert found.mean.dtype == jnp.result_type(float)
    assert_within_error(found, solved.x)
    assert found.converged.all()
    assert np.abs(solved.x - observed).max() > 0.02


def test_standard_errors_are_those_of_the_delta_method():
    """J from differences of the exact expectation, V from a plain simulation at the estimate."""
    policy, num_steps = jb.Greedy(), 9
    arms, rewards = jnp.asarray([0, 1, 0, 0, 0, 0, 0, 1, 1]), jnp.asarray(np.resize([1.0, 0.0, 0.0, 1.0], 9), float)
    found = match(jb.History(arms=arms, rewards=rewards, num_arms=2), policy, jb.Bernoulli(), num_paths=8192)
    mean, small = np.asarray(found.mean, np.float64), 1e-4
    bias = lambda mean: np.asarray(jb.bias.exact_bias(policy, mean, num_steps))
    slopes = [(bias(mean + small * unit) - bias(mean - small * unit)) / (2 * small) for unit in np.eye(2)]
    inverse = np.linalg.inv(np.eye(2) + np.stack(slopes, axis=1))
    simulated = jb.simulate(jax.random.key(3), policy, jb.Bernoulli(), mean, num_steps, 50_000).statistics.mean
    expected = np.sqrt(np.diag(inverse @ np.cov(np.asarray(simulated, np.float64).T) @ inverse.T))
    np.testing.assert_allclose(found.stderr, expected, rtol=0.1)
    assert np.abs(np.linalg.norm(inverse - np.eye(2))) > 0.2  # leaving J out would be noticed


@pytest.mark.parametrize(("family", "wide"), [(jb.Normal(sigma=2.0), True), (jb.Bernoulli(), False)])
def test_without_adaptivity_it_is_the_sample_mean(family, wide):
    with jax.enable_x64(wide):
        is_the_sample_mean(family)


def is_the_sample_mean(family):
    history = jb.simulate(jax.random.key(0), jb.Uniform(), family, [0.6, 0.5, 0.4], 60, 3)
    found = match(history, jb.Uniform(), family)
    assert_within_error(found, history.statistics.mean, largest=0.01)
    assert found.mean.dtype == jnp.result_type(float)
    variance = 4.0 if isinstance(family, jb.Normal) else found.mean * (1 - found.mean)
    np.testing.assert_allclose(found.stderr, np.sqrt(variance / 20.0), rtol=0.15)  # about 20 pulls each


def test_forced_pulls_are_forced():
    """A log in which every pull was forced is not adaptive, whatever the policy."""
    arms = jnp.asarray([0, 1, 0, 0, 1, 1, 1, 0, 1, 0, 0, 1], jnp.int32)
    rewards = jax.random.normal(jax.random.key(0), (STEPS,))
    history = jb.History(arms=arms, rewards=rewards, num_arms=2, forced=jnp.ones(STEPS, bool))
    found = match(history, NOISY, num_paths=PATHS)
    np.testing.assert_allclose(found.mean, history.statistics.mean, atol=1e-4)
    np.testing.assert_allclose(found.stderr, 1 / np.sqrt(6), rtol=0.05)


def test_a_family_that_does_not_say_its_variance():
    class Plain:
        def sample(self, key, mean):
            return jb.Normal().sample(key, mean)

        def log_prob(self, reward, mean):
            return jb.Normal().log_prob(reward, mean)

    history = jb.simulate(jax.random.key(2), NOISY, jb.Normal(), TWO, STEPS)
    plain, known = match(history, NOISY, Plain(), num_paths=PATHS), match(history, NOISY, num_paths=PATHS)
    np.testing.assert_allclose(plain.mean, known.mean, atol=1e-3)
    np.testing.assert_allclose(plain.stderr, known.stderr, rtol=1e-3)


def test_new_values_do_not_recompile():
    def run(seed, tau, sigma, level):
        policy, family = jb.Greedy(tau=tau), jb.Normal(sigma=sigma)
        history = jb.simulate(jax.random.key(seed), policy, family, TWO, STEPS)
        jb.mean_matching(jax.random.key(seed), history, policy, family, num_paths=PATHS, level=level, interval="delta")

    run(0, 1.0, 1.0, 0.95)
    before = _match.cache_size()
    run(1, 2.0, 0.5, 0.9)
    assert _match.cache_size() == before


@pytest.mark.parametrize("name", ["lil-ucb", pytest.param("own", marks=pytest.mark.slow)])
def test_one_log_is_the_batch_of_one(name, own_policy):
    policy = {"lil-ucb": jb.LilUCB(), "own": own_policy}[name]
    batch = jb.simulate(jax.random.key(0), policy, jb.Normal(), TWO, 10, 3)
    many, single = (match(history, policy, num_paths=512, interval="inversion") for history in (batch, batch.trial(0)))
    np.testing.assert_allclose(single.mean, many.mean[0], atol=1e-4)
    np.testing.assert_allclose(single.lower, many.lower[0], atol=0.02)
    inverted = jb.test_inversion(jax.random.fold_in(jax.random.key(1), PURPOSE), batch, policy, jb.Normal(), num_paths=512)
    np.testing.assert_allclose(many.upper, jnp.maximum(inverted.upper, many.mean), atol=1e-5)
    assert many.diagnostics["inverted"].all()
    assert many.upper.shape == (3, 2)


def test_an_arm_that_was_never_pulled_is_left_out():
    """Not a number for that arm; the others as if it had not been there."""
    arms, rewards = jnp.array([0, 2, 0, 2, 2]), jnp.array([0.1, 0.5, -0.2, 0.9, 0.3])
    found = match(jb.History(arms=arms, rewards=rewards, num_arms=3), jb.Thompson(prior_mean=jnp.array([0.0, 5.0, 1.0])))
    alone = match(jb.History(arms=arms // 2, rewards=rewards, num_arms=2), jb.Thompson(prior_mean=jnp.array([0.0, 1.0])))
    assert np.isnan(found.mean[1])
    assert found.converged.tolist() == [True, False, True]
    assert int(found.status[1]) == jb.Status.NEVER_PULLED
    np.testing.assert_allclose(found.mean[jnp.array([0, 2])], alone.mean, atol=1e-5)


def test_an_arm_that_always_succeeded_is_at_the_edge():
    arms, rewards = jnp.array([0, 1, 0, 1, 0, 0]), jnp.array([1.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    found = match(jb.History(arms=arms, rewards=rewards, num_arms=2), jb.Greedy(), jb.Bernoulli())
    assert int(found.status[0]) == jb.Status.AT_EDGE
    assert found.mean[0] > 0.95
    assert ((found.lower >= 0) & (found.upper <= 1)).all()
    # Believed, with an interval on one side: four successes in a row have a chance of 5% at its lower end.
    assert found.converged[0]
    np.testing.assert_allclose((found.lower[0], found.upper[0]), (0.05 ** (1 / 4), 1.0), rtol=1e-5)


def test_one_arm_and_one_row():
    found = match(jb.History(arms=jnp.array([0]), rewards=jnp.array([0.7]), num_arms=1), jb.Greedy())
    np.testing.assert_allclose(found.mean, 0.7, atol=1e-4)
    np.testing.assert_allclose(found.stderr, 1.0, rtol=0.1)


LOG = dict(arms=jnp.array([0, 1, 0]), rewards=jnp.array([0.5, 0.2, 0.1]), num_arms=2)
BAD = [
    (LOG, dict(num_paths=10), "num_paths", "is 10; it must be 100 or more"),
    (LOG, dict(level=0.0), "level", "is 0.0; it must be above 0 and below 1"),
    (LOG | dict(rewards=jnp.array([0.5, jnp.inf, 0.1])), {}, "history.rewards", "is inf at step 1; it must be finite"),
    (LOG | dict(arms=jnp.array([0, 1, 2])), {}, "history.arms", "is 2 at step 2; it must be from 0 to 1"),
    (LOG | dict(arms=jnp.array([0.0, 1.0, 0.0])), {}, "history.arms", "is of float32; it must be whole numbers from 0 to 1"),
    (LOG, dict(family=jb.Bernoulli()), "history.rewards", "is 0.5 at step 0, which Bernoulli.* cannot give"),
]


@pytest.mark.parametrize(("log", "options", "argument", "message"), BAD)
def test_bad_input_is_named(log, options, argument, message, unchecked):
    with pytest.raises(jb.ArgumentError, match=message) as refused:
        match(jb.History(**log), jb.Greedy(), **options)
    assert refused.value.argument == argument


@pytest.mark.parametrize(
    ("jump", "unexplained", "rounds"),
    [(0.0, 0.01, 2), (0.05, 4.0, 1), (0.05, 0.01, 12)],
    ids=["far at first", "within the Monte Carlo error", "beyond it"],
)
def test_the_search_ends_where_a_move_is_within_its_monte_carlo_error(jump, unexplained, rounds):
    """Figures that jump where the mean crosses 0, as those of few paths with discrete rewards do: no move is a small one."""

    def simulate(words, mean):
        expected = mean + jnp.where(mean >= 0, jump, -jump) + (0.5 if jump == 0 else 0.0)
        spread = jnp.full((1, 1), 0.09)
        return Simulated(expected, spread, jnp.full((1, 1), unexplained), jnp.ones((1, 1)))

    found = find_match(jax.random.key(0), simulate, jnp.zeros(1), -10.0, 10.0, num_paths=FEW, max_rounds=4)
    assert int(found.rounds) == rounds
    np.testing.assert_allclose(found.monte_carlo_error, np.sqrt(unexplained / FEW), rtol=1e-6)
