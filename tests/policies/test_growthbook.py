"""The shares of a GrowthBook bandit against integrals on a fine grid and, for three arms, the probability of the last place."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import jaxbias as jb
from jaxbias.naming.presets import PresetName, with_preset
from jaxbias.policies import ArmStatistics, GrowthBook
from jaxbias.policies.growthbook import first_or_second
from jaxbias.policies.winning import normal_win_log_probs

PULLS, TOTAL = np.array([400, 300, 500, 120]), np.array([40.0, 33.0, 45.0, 14.0])


def state_of(pulls, total):
    return ArmStatistics(pulls=jnp.asarray(pulls, jnp.int32), total=jnp.asarray(total, float))


def grid_shares(mean, deviation):
    """Half of P(first) + P(second), each an integral over the value of the arm's own draw."""
    grid = np.linspace((mean - 10 * deviation).min(), (mean + 10 * deviation).max(), 200_001)
    below = norm.cdf((grid - mean[:, None]) / deviation[:, None])
    shares = []
    for arm in range(len(mean)):
        others = [other for other in range(len(mean)) if other != arm]
        first = np.prod(below[others], axis=0)
        second = sum((1 - below[one]) * np.prod(below[[other for other in others if other != one]], axis=0) for one in others)
        density = norm.pdf((grid - mean[arm]) / deviation[arm]) / deviation[arm]
        shares.append(np.trapezoid(density * (first + second), grid) / 2)
    return np.array(shares)


def test_shares_are_the_integrals_on_a_grid(x64):
    mean = TOTAL / PULLS
    deviation = np.sqrt(mean * (1 - mean) / (PULLS - 1))
    found = np.exp(GrowthBook().log_probs(state_of(PULLS, TOTAL)))
    assert np.abs(found - grid_shares(mean, deviation)).max() < (1e-6 if x64 else 1e-5)


def test_of_three_arms_who_is_not_last_is_first_or_second(x64):
    location, scale = jnp.array([0.3, 0.0, 0.1]), jnp.array([0.1, 0.2, 0.4])
    last = np.exp(normal_win_log_probs(-location, scale))
    assert np.allclose(first_or_second(location, scale), (1 - last) / 2, atol=1e-6 if x64 else 1e-5)


@pytest.mark.parametrize("pulls", [[99, 500, 500], [0, 0, 0]])
def test_all_arms_are_alike_until_each_has_enough_pulls(pulls):
    total = 0.1 * np.asarray(pulls)
    assert np.allclose(np.exp(GrowthBook().log_probs(state_of(pulls, total))), 1 / 3)
    assert not np.allclose(np.exp(GrowthBook(least_pulls=0).log_probs(state_of([99, 500, 500], [30, 50, 50]))), 1 / 3)


def test_an_arm_without_a_success_has_a_share():
    found = np.exp(GrowthBook().log_probs(state_of([200, 200, 200], [0, 20, 200])))
    assert np.all(np.isfinite(found))
    assert found[0] < found[1] <= found[2]


def test_two_arms_have_half_each():
    assert np.allclose(np.exp(GrowthBook().log_probs(state_of([200, 200], [2, 20]))), 0.5)


def test_the_preset_has_the_floor():
    assert with_preset({"preset": PresetName.growthbook})["floor"] == 0.01
    policy = jb.Floored(GrowthBook(), floor=0.01)
    least = np.exp(policy.log_probs(state_of([1000, 1000, 1000], [100, 200, 300]))).min()
    assert np.isclose(least, 0.01, atol=1e-4)
