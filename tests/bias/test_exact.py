"""The exact distribution, against the paper's closed forms, against itself done otherwise, and simulation against it."""

import jax
import numpy as np
import pytest

import jaxbias as jb
from tests.conftest import POLICIES, some_now_others_slow

GRID = np.stack(np.meshgrid(*[np.linspace(0, 1, 11)] * 2, indexing="ij"), axis=-1)


def test_the_papers_closed_forms_at_three_steps():
    first, second = GRID[..., 0], GRID[..., 1]
    bias = jb.bias.exact_bias(jb.Greedy(ties="first"), GRID, num_steps=3)
    np.testing.assert_allclose(bias[..., 0], -first * (1 - first) * second / 2, atol=1e-6)
    np.testing.assert_allclose(bias[..., 1], -second * (1 - second) * (1 - first) / 2, atol=1e-6)


def test_the_heat_map_at_ten_steps():
    """Figure 1: negative inside, zero where the arm is certain, larger than at three steps."""
    bias = jb.bias.exact_bias(jb.Greedy(ties="first"), GRID, num_steps=10)[..., 0]
    assert bias.shape == (11, 11)
    assert (bias[1:-1, 1:] < 0).all()
    np.testing.assert_allclose(bias[[0, -1]], 0, atol=1e-9)
    assert bias.min() < jb.bias.exact_bias(jb.Greedy(ties="first"), GRID, num_steps=3)[..., 0].min()


def test_probabilities_sum_to_one(policy):
    found = jb.bias.exact_distribution(policy, [[0.6, 0.4], [0.1, 0.9]], num_steps=6)
    np.testing.assert_allclose(found.probability.sum(axis=-1), 1.0, atol=1e-5)
    assert (found.pulls.sum(axis=1) == 6).all()


def test_states_and_paths_agree():
    """The recursion over states against every path, for the same policy without its base class."""

    class Plain:
        init, log_probs, update = jb.UCB1(tau=0.5).init, jb.UCB1(tau=0.5).log_probs, jb.UCB1(tau=0.5).update

    by_states = jb.bias.exact_distribution(jb.UCB1(tau=0.5), [0.6, 0.3, 0.5], num_steps=7)
    by_paths = jb.bias.exact_distribution(Plain(), [0.6, 0.3, 0.5], num_steps=7)
    np.testing.assert_allclose(by_states.bias, by_paths.bias, atol=1e-6)
    np.testing.assert_allclose(by_states.mse, by_paths.mse, atol=1e-6)


@pytest.mark.parametrize("name", some_now_others_slow(POLICIES))
@pytest.mark.parametrize("num_steps", [pytest.param(4, marks=pytest.mark.slow), 10])
def test_simulation_is_exact_within_its_error(name, num_steps):
    mean, trials = [0.6, 0.35], 10_000 if "exploration" in name else 100_000  # an integral for every choice
    exact = jb.bias.exact_distribution(POLICIES[name], mean, num_steps)
    found = jb.measure_bias(jax.random.key(8), POLICIES[name], jb.Bernoulli(), mean, num_steps, trials)
    assert (np.abs(found.bias - exact.bias) < 4 * found.bias_stderr + 1e-6).all()
    assert (np.abs(found.mse - exact.mse) < 4 * found.mse_stderr + 1e-6).all()


@pytest.mark.slow
def test_three_arms():
    exact = jb.bias.exact_bias(jb.BetaThompson(), [0.6, 0.35, 0.5], 7)
    found = jb.measure_bias(jax.random.key(8), jb.BetaThompson(), jb.Bernoulli(), [0.6, 0.35, 0.5], 7, 100_000)
    assert (np.abs(found.bias - exact) < 4 * found.bias_stderr).all()


def test_uniform_is_unbiased():
    np.testing.assert_allclose(jb.bias.exact_bias(jb.Uniform(), [0.3, 0.8], 12), 0, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "argument", "phrase"),
    [
        ((jb.Greedy(), [0.5, 1.5], 5), "mean", "it must be from 0 to 1 for each arm, with Bernoulli rewards"),
        ((jb.Greedy(), 0.5, 5), "mean", r"has shape \(\); it must be one number for each arm"),
        ((jb.Greedy(), [0.5, 0.5, 0.5], 2), "num_steps", "is 2; it must be 3 or more"),
        ((jb.Exp3(), [0.5, 0.5], 40), "num_steps", "is 40; it must be smaller: there are more than 4,000,000 states to follow"),
        ((jb.Greedy(tau=-1.0), [0.5, 0.5], 5), "policy.tau", "is -1.0"),
    ],
)
def test_bad_input_is_named(arguments, argument, phrase):
    with pytest.raises(jb.ArgumentError, match=phrase) as error:
        jb.bias.exact_bias(*arguments)
    assert error.value.argument == argument
