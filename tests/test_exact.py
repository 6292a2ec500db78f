"""The exact distribution, against the paper's closed forms, against itself done otherwise, and simulation against it."""

import jax
import numpy as np
import pytest
from conftest import POLICIES

import jaxbias as jb

GRID = np.stack(np.meshgrid(*[np.linspace(0, 1, 11)] * 2, indexing="ij"), axis=-1)


def test_the_papers_closed_forms_at_three_steps():
    first, second = GRID[..., 0], GRID[..., 1]
    bias = jb.exact_bias(jb.Greedy(ties="first"), GRID, num_steps=3)
    np.testing.assert_allclose(bias[..., 0], -first * (1 - first) * second / 2, atol=1e-6)
    np.testing.assert_allclose(bias[..., 1], -second * (1 - second) * (1 - first) / 2, atol=1e-6)


def test_the_heat_map_at_ten_steps():
    """Figure 1: negative inside, zero where the arm is certain, larger than at three steps."""
    bias = jb.exact_bias(jb.Greedy(ties="first"), GRID, num_steps=10)[..., 0]
    assert bias.shape == (11, 11)
    assert (bias[1:-1, 1:] < 0).all()
    np.testing.assert_allclose(bias[[0, -1]], 0, atol=1e-9)
    assert bias.min() < jb.exact_bias(jb.Greedy(ties="first"), GRID, num_steps=3)[..., 0].min()


def test_probabilities_sum_to_one(policy):
    found = jb.exact_distribution(policy, [[0.6, 0.4], [0.1, 0.9]], num_steps=6)
    np.testing.assert_allclose(found.probability.sum(axis=-1), 1.0, atol=1e-5)
    assert (found.pulls.sum(axis=1) == 6).all()


def test_states_and_paths_agree():
    """The recursion over states against every path, for the same policy without its base class."""

    class Plain:
        init, log_probs, update = jb.UCB1(tau=0.5).init, jb.UCB1(tau=0.5).log_probs, jb.UCB1(tau=0.5).update

    by_states = jb.exact_distribution(jb.UCB1(tau=0.5), [0.6, 0.3, 0.5], num_steps=7)
    by_paths = jb.exact_distribution(Plain(), [0.6, 0.3, 0.5], num_steps=7)
    np.testing.assert_allclose(by_states.bias, by_paths.bias, atol=1e-6)
    np.testing.assert_allclose(by_states.mse, by_paths.mse, atol=1e-6)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("num_steps", [4, 10])
def test_simulation_is_exact_within_its_error(name, num_steps):
    mean, trials = [0.6, 0.35], 10_000 if "exploration" in name else 100_000  # an integral for every choice
    exact = jb.exact_distribution(POLICIES[name], mean, num_steps)
    found = jb.measure_bias(jax.random.key(8), POLICIES[name], jb.Bernoulli(), mean, num_steps, trials)
    assert (np.abs(found.bias - exact.bias) < 4 * found.bias_stderr + 1e-6).all()
    assert (np.abs(found.mse - exact.mse) < 4 * found.mse_stderr + 1e-6).all()


def test_three_arms():
    exact = jb.exact_bias(jb.BetaThompson(), [0.6, 0.35, 0.5], 7)
    found = jb.measure_bias(jax.random.key(8), jb.BetaThompson(), jb.Bernoulli(), [0.6, 0.35, 0.5], 7, 100_000)
    assert (np.abs(found.bias - exact) < 4 * found.bias_stderr).all()


def test_uniform_is_unbiased():
    np.testing.assert_allclose(jb.exact_bias(jb.Uniform(), [0.3, 0.8], 12), 0, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((jb.Greedy(), [0.5, 1.5], 5), "mean is .*; Bernoulli allows a number from 0 to 1"),
        ((jb.Greedy(), 0.5, 5), r"mean has shape \(\); allowed"),
        ((jb.Greedy(), [0.5, 0.5, 0.5], 2), "num_steps is 2; allowed: 3 or more"),
        ((jb.Exp3(), [0.5, 0.5], 40), "num_steps is 40: more than 4,000,000 states to follow"),
        ((jb.Greedy(tau=-1.0), [0.5, 0.5], 5), "policy.tau is -1.0"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        jb.exact_bias(*arguments)
