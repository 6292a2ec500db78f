"""float32: means far from 0, long logs, and rewards that vary little beside their size; against float64 and against a shift."""

import jax
import numpy as np
import pytest

import jaxbias as jb
from jaxbias._core.precision import BLOCK, sum_by_arm
from jaxbias.bias import measure_gradient
from jaxbias.estimators.estimate import Status
from jaxbias.policies import ArmStatistics

KEY = jax.random.key(0)
MEAN = np.array([1.0, 0.5])


@pytest.mark.parametrize(
    "policy_at",
    [
        lambda offset: jb.Greedy(),
        lambda offset: jb.EpsilonGreedy(),
        lambda offset: jb.LilUCB(tau=0.5),
        lambda offset: jb.Uniform(),
        lambda offset: jb.Thompson(prior_mean=offset),
        lambda offset: jb.Floored(jb.UCB1(), floor=0.1),
    ],
    ids=["greedy", "epsilon-greedy", "lil-ucb", "uniform", "thompson", "floored"],
)
@pytest.mark.parametrize("offset", [1e6, 1e8])
def test_the_bias_does_not_depend_on_where_the_means_are(policy_at, offset):
    """A million with float32's seven digits: -0.587 instead of -0.278 where sums were not centred."""
    options = dict(num_steps=40, num_trials=512)
    near = jb.measure_bias(KEY, policy_at(0.0), jb.Normal(), MEAN, **options)
    far = jb.measure_bias(KEY, policy_at(offset), jb.Normal(), MEAN + offset, **options)
    np.testing.assert_allclose(far.bias, near.bias, atol=0.2 * near.bias_stderr.min())
    np.testing.assert_allclose(far.mse, near.mse, rtol=0.05)


@pytest.mark.parametrize("stop_at", [lambda offset: jb.StopAtDifference(0.8), lambda offset: jb.StopAtMean(1.5 + offset)])
def test_rules_that_stop_are_shifted_too(stop_at):
    options = dict(num_steps=30, num_trials=512, choose="largest")
    near = jb.measure_bias(KEY, jb.Greedy(), jb.Normal(), MEAN, stop=stop_at(0.0), **options)
    far = jb.measure_bias(KEY, jb.Greedy(), jb.Normal(), MEAN + 1e6, stop=stop_at(1e6), **options)
    np.testing.assert_allclose(far.bias, near.bias, atol=0.2 * near.bias_stderr.min())


def test_simulated_rewards_are_where_the_means_are():
    near = jb.simulate(KEY, jb.Thompson(), jb.Normal(), MEAN, 40, 8, held_out=True, keep_draws=True)
    far = jb.simulate(KEY, jb.Thompson(prior_mean=1e4), jb.Normal(), MEAN + 1e4, 40, 8, held_out=True, keep_draws=True)
    assert np.mean(np.asarray(near.arms) == np.asarray(far.arms)) > 0.95
    same = (near.arms == far.arms).all(axis=1)
    for name in ("rewards", "held_out"):
        np.testing.assert_allclose(getattr(far, name)[same] - 1e4, getattr(near, name)[same], atol=0.002)
    free = np.asarray(near.draws[same] != 0)
    np.testing.assert_allclose((far.draws[same] - 1e4)[free], near.draws[same][free], atol=0.005)
    assert (np.asarray(far.draws)[:, :2] == 0).all()


def never(statistics: ArmStatistics):
    return statistics.pulls.sum() < 0


class Own(jb.Greedy):
    """Compares something else than means, for all that is known."""


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (lambda: jb.simulate(KEY, jb.Greedy(), jb.Normal(), MEAN + 1e8, 40), "float32 cannot hold rewards so far from 0"),
        (lambda: jb.measure_bias(KEY, jb.Greedy(), jb.Normal(), [1e6, 0.0], 100, 16), "float32 loses the differences"),
        (lambda: jb.measure_bias(KEY, Own(), jb.Normal(), MEAN + 1e7, 100, 16), "float32 loses the differences"),
        (
            lambda: jb.measure_bias(KEY, jb.Greedy(), jb.Normal(), MEAN + 1e7, 100, 16, stop=never),
            "float32 loses the differences",
        ),
        (lambda: measure_gradient(KEY, jb.Greedy(tau=1.0), jb.Normal(), MEAN + 1e7, 100, 16), "float32 loses"),
    ],
)
def test_what_float32_cannot_carry_is_refused_and_float64_named(run, words):
    with pytest.raises(jb.ArgumentError, match=words) as refused:
        run()
    assert "use float64 (jax.config.update('jax_enable_x64', True)" in str(refused.value)


@pytest.mark.parametrize(("reward", "pulls"), [(1.14, 25), (3.3, 7), (-1e6 / 3, 11)])
def test_rewards_that_do_not_vary_are_not_refused(reward, pulls):
    """Their mean is off by its rounding in float64, which is no variation."""
    history = jb.History(arms=np.arange(2 * pulls) % 2, rewards=np.tile([reward, 2.0], pulls), num_arms=2)
    np.testing.assert_allclose(jb.sample_mean(history).mean, [reward, 2.0], rtol=1e-6)


def test_forty_million_ones():
    """A sum in float32 that adds one by one stops at 2^24: the mean was 0.419."""
    steps = 2**24 + 2**22
    history = jb.History(arms=np.zeros(steps, np.int32), rewards=np.ones(steps, np.float32), num_arms=1)
    assert float(history.statistics.mean[0]) == 1.0


@pytest.mark.slow
def test_forty_million_ones_and_their_interval():
    """The mean was 0.419, with an interval to match, converged."""
    steps = 40_000_000
    history = jb.History(arms=np.zeros(steps, np.int32), rewards=np.ones(steps, np.float32), num_arms=1)
    found = jb.sample_mean(history)
    assert [float(part[0]) for part in (found.mean, found.lower, found.upper)] == [1.0, 1.0, 1.0]


@pytest.mark.slow
def test_ten_million_steps_against_float64():
    rng = np.random.default_rng(0)
    arms, rewards = rng.integers(0, 3, 10**7), (rng.normal(size=10**7) + 3).astype(np.float32)
    found = jb.sample_mean(jb.History(arms=arms, rewards=rewards, num_arms=3))
    exact = np.array([rewards[arms == arm].astype(np.float64).mean() for arm in range(3)])
    assert np.abs(np.asarray(found.mean) - exact).max() < 0.002 * np.asarray(found.stderr).min()
    spread = np.array([rewards[arms == arm].astype(np.float64).std() for arm in range(3)]) / np.sqrt(np.bincount(arms))
    np.testing.assert_allclose(found.stderr, spread, rtol=1e-4)


@pytest.mark.parametrize("estimator", [jb.sample_mean, lambda history: jb.adaptive_weighting(history, propensities=HALVES)])
def test_rewards_around_a_large_number(estimator):
    """Equivariant to a shift as long as float32 carries the rewards, refused beyond, right in float64."""
    near = estimator(log_around(0.0))
    for offset in (100.0, 1e4):
        far = estimator(log_around(offset))
        assert np.abs(np.asarray(far.mean, np.float64) - offset - near.mean).max() < 0.02 * np.asarray(near.stderr).min()
    for offset in (1e6, 1e8):
        with pytest.raises(jb.ArgumentError, match=r"history.rewards are up to .* which float32 cannot carry; .* use float64"):
            estimator(log_around(offset))
    with jax.enable_x64(True):
        far = estimator(log_around(1e8))
        np.testing.assert_allclose(np.asarray(far.mean) - 1e8, near.mean, atol=1e-5)


HALVES = np.full((40, 2), 0.5)


def log_around(offset):
    rng = np.random.default_rng(0)
    return jb.History(arms=np.r_[0, 1, rng.integers(0, 2, 38)], rewards=offset + rng.normal(size=40), num_arms=2)


@pytest.mark.parametrize("family", [None, jb.Bernoulli()])
@pytest.mark.parametrize("tau", [0.1, 0.02])
def test_no_mean_beyond_its_range_is_called_converged(tau, family):
    """Chances of 1e-5 and 1e-22 give one score all the weight: means of 1.1 and 4e10 of rewards of 0 and 1."""
    rng = np.random.default_rng(0)
    history = jb.History(arms=np.r_[0, 1, rng.integers(0, 2, 38)], rewards=rng.integers(0, 2, 40).astype(float), num_arms=2)
    for is_wide in (False, True):
        with jax.enable_x64(is_wide):
            found = jb.adaptive_weighting(history, jb.Greedy(tau=tau), family)
        inside = (np.asarray(found.mean) >= 0) & (np.asarray(found.mean) <= 1)
        assert (inside | ~np.asarray(found.converged)).all()
        assert found.status[1] == Status.OUT_OF_RANGE or found.converged[1]
    assert not inside.all() or found.status[1] == Status.OUT_OF_RANGE


@pytest.mark.parametrize("blocks", [1, 2, 3, 5])
def test_sums_by_blocks_leave_none_out(blocks):
    """Of traced values, in whole blocks and in part of one; small whole numbers have exact sums."""
    size = blocks * BLOCK - 7
    arms, values = np.arange(size, dtype=np.int32) % 3, (np.arange(size) % 5).astype(np.float32)
    found = jax.jit(lambda arms, values: sum_by_arm(arms, values, 3))(arms, values)
    np.testing.assert_array_equal(found, np.bincount(arms, weights=values, minlength=3))
