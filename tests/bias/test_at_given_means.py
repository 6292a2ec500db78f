"""The bias of logs like a given one: against the exact distribution, and for arms that are left out or never pulled."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.bias import at_given_means

KEY = jax.random.key(0)
ARMS, REWARDS = jnp.array([0, 1, 0, 0, 1, 0], jnp.int32), jnp.array([1.0, 0.0, 1.0, 0.0, 1.0, 1.0])


def log(num_arms=2, **changes):
    return jb.History(**{"arms": ARMS, "rewards": REWARDS, "num_arms": num_arms} | changes)


def test_against_the_exact_bias():
    """The rewards of the log do not matter, only how it was made: here the first pull of each arm was forced."""
    mean = [0.7, 0.4]
    found = jb.bias.bias_at(KEY, log(), jb.Greedy(), jb.Bernoulli(), mean, num_trials=40_000)
    assert found.num_trials == 20 * at_given_means.AT_ONCE
    exact = jb.bias.exact_bias(jb.Greedy(), mean, num_steps=6)
    assert (np.abs(found.bias - exact) < 4 * found.stderr).all()
    assert (np.abs(found.bias) > 10 * found.stderr).all()  # there is something to agree on
    by_trials = jb.measure_bias(KEY, jb.Greedy(), jb.Bernoulli(), mean, num_steps=6, num_trials=found.num_trials)
    np.testing.assert_allclose(found.stderr, by_trials.bias_stderr, rtol=0.05)


def test_the_parts_together_are_the_whole(monkeypatch):
    """Four at a time, most of the spread is between the parts."""
    run = lambda: jb.bias.bias_at(KEY, log(), jb.Greedy(), jb.Normal(), [1.0, 0.75], num_trials=2048)
    whole = run()
    monkeypatch.setattr(at_given_means, "AT_ONCE", 4)
    parts = run()
    np.testing.assert_allclose(parts.bias, whole.bias, rtol=1e-4)
    np.testing.assert_allclose(parts.stderr, whole.stderr, rtol=1e-4)


def test_an_arm_without_a_mean_is_left_out():
    """The others are as in the same log without it."""
    two = jb.bias.bias_at(KEY, log(), jb.Greedy(), jb.Normal(), [1.0, 0.75], num_trials=2048)
    three = jb.bias.bias_at(KEY, log(num_arms=3), jb.Greedy(), jb.Normal(), [1.0, 0.75, np.nan], num_trials=2048)
    np.testing.assert_array_equal(three.bias, [*two.bias, np.nan])
    np.testing.assert_array_equal(three.stderr, [*two.stderr, np.nan])


def test_an_arm_that_no_trial_pulls_has_no_bias():
    """Greedy starts an arm that was never pulled at 0, and both others are always above: it has no sample mean to be wrong."""
    found = jb.bias.bias_at(KEY, log(num_arms=3), jb.Greedy(), jb.Normal(sigma=0.01), [1.0, 0.5, -50.0], num_trials=2048)
    assert np.isfinite(found.bias[:2]).all()
    assert np.isnan([found.bias[2], found.stderr[2]]).all()


@pytest.mark.parametrize(
    ("changes", "argument", "phrase"),
    [
        (dict(mean=[1.0, np.nan]), "mean", "finite for each arm that was pulled"),
        (dict(num_trials=1), "num_trials", "num_trials is 1; it must be 2 or more"),
        (dict(family=jb.Normal(sigma=None)), "family.sigma", "a simulation"),
        (dict(num_steps=9), "num_steps", "stop"),
    ],
)
def test_what_is_refused(changes, argument, phrase, unchecked):
    arguments = {"policy": jb.Greedy(), "family": jb.Normal(), "mean": [1.0, 0.75]} | changes
    with pytest.raises(jb.ArgumentError, match=phrase) as error:
        jb.bias.bias_at(KEY, log(), **arguments)
    assert error.value.argument == argument
