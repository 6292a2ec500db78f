"""Data splitting: unbiased as the text has it, biased as the paper's tables have it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb

TWO, FIVE = [1.0, 0.75], [1.0, 0.75, 0.5, 0.38, 0.25]
SETTINGS = [(8, TWO), (16, TWO), (20, FIVE), (40, FIVE)]

# Percent of the original MSE, as the paper prints it (1,000 trials), and the original MSE.
HELD = {
    "lil-ucb": (jb.LilUCB(), (108, 101, 112, 104), (0.559, 0.507, 0.571, 0.531)),
    "epsilon-greedy": (jb.EpsilonGreedy(), (123, 123, 123, 135), (0.502, 0.382, 0.502, 0.405)),
    "greedy": (jb.Greedy(), (108, 107, 111, 107), (0.569, 0.526, 0.572, 0.551)),
}


def split(arms=(0, 1, 1, 0), rewards=(1.0, 2.0, 3.0, 5.0), held_out=(10.0, 20.0, 30.0, 60.0), num_arms=2):
    return jb.History(arms=jnp.array(arms), rewards=jnp.array(rewards), num_arms=num_arms, held_out=jnp.array(held_out, float))


def test_by_hand(x64):
    held = jb.data_splitting(split(), jb.Normal(sigma=2.0))
    assert held.mean.tolist() == [35.0, 25.0]
    np.testing.assert_allclose(held.stderr, [np.sqrt(2), np.sqrt(2)], rtol=1e-6)
    shared = jb.data_splitting(split(), first_shared=True)
    assert shared.mean.tolist() == [30.5, 16.0]  # (1 + 60) / 2 and (2 + 30) / 2
    np.testing.assert_allclose(shared.stderr, [29.5, 14.0], rtol=1e-6)
    assert held.mean.dtype == jnp.result_type(float)


def test_it_is_the_sample_mean_of_what_was_held_out():
    history = jb.simulate(jax.random.key(0), jb.Greedy(), jb.Bernoulli(), [0.6, 0.5], 12, 5, held_out=True)
    found = jb.data_splitting(history, jb.Bernoulli())
    other = jb.sample_mean(dataclasses.replace(history, rewards=history.held_out), jb.Bernoulli())
    for field in ("mean", "stderr", "lower", "upper", "converged"):
        np.testing.assert_array_equal(getattr(found, field), getattr(other, field))
    one = jb.data_splitting(jax.tree.map(lambda leaf: leaf[2], history), jb.Bernoulli())
    np.testing.assert_allclose(one.upper, found.upper[2], rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jb.data_splitting)(history).mean, found.mean, rtol=1e-6)


def test_an_arm_never_pulled():
    found = jb.data_splitting(split(num_arms=3), jb.Normal())
    assert found.converged.tolist() == [True, True, False]
    assert np.isnan(found.mean).tolist() == [False, False, True]


@pytest.mark.parametrize("policy", [jb.Greedy(), jb.LilUCB()], ids=["greedy", "lil-ucb"])
def test_split_as_the_text_says_it_is_unbiased_and_covers(policy):
    history = jb.simulate(jax.random.key(3), policy, jb.Normal(), TWO, 8, 40_000, held_out=True)
    found, mean = jb.data_splitting(history, jb.Normal()), np.array(TWO)
    error = np.asarray(found.mean, float) - mean
    assert (np.abs(error.mean(axis=0)) < 4 * error.std(axis=0) / np.sqrt(40_000)).all()
    inside = ((np.asarray(found.lower) <= mean) & (np.asarray(found.upper) >= mean)).mean(axis=1)
    assert abs(inside.mean() - 0.95) < 4 * inside.std() / np.sqrt(40_000)


@pytest.mark.slow
@pytest.mark.parametrize("name", HELD)
def test_the_held_columns_of_table_three(name):
    """The tables' variant: T rewards in all, of which the first of each arm is shared; within 2 errors of 1,000 trials."""
    policy, printed, original = HELD[name]
    longest = {
        len(mean): jb.simulate(jax.random.key(3), policy, jb.Normal(), mean, num_steps, 10_000, held_out=True)
        for mean, num_steps in ((TWO, 9), (FIVE, 22))
    }
    for (total, mean), percent, mse in zip(SETTINGS, printed, original, strict=True):
        num_steps = len(mean) + (total - len(mean)) // 2
        history = jax.tree.map(lambda leaf: leaf[:, :num_steps], longest[len(mean)])  # noqa: B023
        error = np.asarray(jb.data_splitting(history, first_shared=True).mean, float) - mean
        squares = 100 * (error**2).mean(axis=1) / mse
        # Both the held-out and the original figure of a printed percentage are averages of 1,000 trials.
        stderr = np.hypot(squares.std(), squares.std()) / np.sqrt(1000)
        assert abs(squares.mean() - percent) < 2 * stderr
        if total == 8:
            assert -0.22 < error.mean() < -0.175


def test_other_variants_do_not_give_the_table():
    """lil'UCB, T = 8: without the shared sample there is no bias; with T steps of two rewards each the bias is too large."""
    history = jb.simulate(jax.random.key(3), jb.LilUCB(), jb.Normal(), TWO, 8, 20_000, held_out=True)
    error = np.asarray(jb.data_splitting(history, first_shared=True).mean, float) - TWO
    assert error.mean() < -0.24


BAD = [
    (
        dict(history=dataclasses.replace(split(), held_out=None)),
        "history.held_out",
        "is None; it must be a second reward",
    ),
    (
        dict(history=split(held_out=(1.0, 2.0))),
        "history.held_out",
        r"has shape \(2,\); it must be of the shape of rewards",
    ),
    (dict(history=split(held_out=(1.0, 2.0, np.nan, 1.0))), "history.held_out", "is nan at step 2; it must be finite"),
    (
        dict(history=split(rewards=(0.0, 1.0, 1.0, 0.0)), family=jb.Bernoulli()),
        "history.held_out",
        "is 10.0 at step 0, which Bernoulli.* cannot give",
    ),
    (dict(level=2), "level", "is 2; it must be above 0 and below 1"),
]


@pytest.mark.parametrize(("change", "argument", "message"), BAD)
def test_bad_input_is_named(change, argument, message, unchecked):
    with pytest.raises(jb.ArgumentError, match=message) as refused:
        jb.data_splitting(**(dict(history=split()) | change))
    assert refused.value.argument == argument
