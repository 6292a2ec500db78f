"""Mean matching on the paper's settings, noisy and not: bias, error and coverage over many logs."""

import jax
import numpy as np
import pytest

import jaxbias as jb

TWO, FIVE = [1.0, 0.75], [1.0, 0.75, 0.5, 0.38, 0.25]


def match(history, policy, **options):
    return jb.mean_matching(jax.random.key(1), history, policy, jb.Normal(), interval="delta", **options)


# Steps, means, policy, original bias and MSE; percent of them left, as measured independently, or None; most bias allowed.
CELLS = [
    (16, TWO, jb.Greedy(tau=1.0), -0.334, 0.526, 8, 45),
    (40, FIVE, jb.LilUCB(tau=1.0), -0.345, 0.531, 8, 52),
    (16, TWO, jb.Greedy(), -0.334, 0.526, 30, 110),
    (40, FIVE, jb.LilUCB(), -0.345, 0.531, 30, 110),
    (24, TWO, jb.Thompson(), -0.178, 0.307, 30, 110),
]


@pytest.mark.slow
@pytest.mark.parametrize(("num_steps", "mean", "policy", "bias", "mse", "bias_left", "mse_left"), CELLS)
def test_the_papers_settings(num_steps, mean, policy, bias, mse, bias_left, mse_left):
    """1,000 logs: little bias is left and the MSE is below the cMLE's (with noise) or not above the original (without)."""
    history = jb.simulate(jax.random.key(7), policy, jb.Normal(), mean, num_steps, 1000)
    found = match(history, policy, num_paths=512)
    error = np.asarray(found.mean, np.float64) - mean
    stderr = 100 * error.mean(axis=1).std() / np.sqrt(1000) / abs(bias)
    assert abs(100 * error.mean() / bias) < bias_left + 2 * stderr
    assert 100 * (error**2).mean() / mse < mse_left
    inside = (np.asarray(found.lower) <= mean) & (np.asarray(found.upper) >= mean)
    assert 0.94 <= inside.mean() <= 0.99
    assert found.converged.mean() > 0.99
