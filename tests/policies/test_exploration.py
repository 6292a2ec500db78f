"""Exploration sampling, against Thompson sampling's probabilities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.policies.exploration import explore


@pytest.mark.parametrize(
    ("policy", "best"),
    [(jb.policies.ExplorationSampling(), jb.Thompson()), (jb.policies.BetaExplorationSampling(), jb.BetaThompson())],
)
def test_p_times_one_minus_p(policy, best, x64):
    state = jb.policies.ArmStatistics(pulls=jnp.array([5, 6, 9, 4]), total=jnp.array([3.0, 2.0, 4.0, 1.0]))
    probability = np.exp(np.asarray(jax.jit(best.log_probs)(state), np.float64))
    expected = probability * (1 - probability)
    np.testing.assert_allclose(np.exp(jax.jit(policy.log_probs)(state)), expected / expected.sum(), rtol=2e-5)


def test_an_arm_nearly_sure_to_be_best_has_half():
    """Where 1 - p has no digits left: half of the pulls to the best, the rest to its rivals by their chances."""
    chances = jnp.array([-1e-12, -30.0, -31.0])
    np.testing.assert_allclose(np.exp(explore(chances)), [0.5, 0.5 / (1 + np.exp(-1)), 0.5 / (1 + np.e)], rtol=1e-5)


@pytest.mark.parametrize("policy", [jb.policies.ExplorationSampling(), jb.policies.BetaExplorationSampling(prior_success=1e5)])
def test_two_arms_need_no_integral(policy, x64):
    """p (1 - p) is the same for both; a log of 12 rows took minutes."""
    state = jb.policies.ArmStatistics(pulls=jnp.array([5, 600]), total=jnp.array([3.0, 2.0]))
    assert policy.log_probs(state).tolist() == pytest.approx([np.log(0.5)] * 2, rel=1e-7)
    assert policy.log_probs(state).dtype == state.total.dtype
    assert policy.log_prob_cost(2) == 1 < policy.log_prob_cost(3)


def test_one_arm_and_two():
    assert explore(jnp.zeros(1)).tolist() == [0.0]
    np.testing.assert_allclose(np.exp(explore(jnp.log(jnp.array([0.9, 0.1])))), [0.5, 0.5], rtol=1e-6)
