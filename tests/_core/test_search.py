"""The one loop of every damped search, and the one bracketing search, against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxbias._core.search import bracket, damp, search


def newton_root(target):
    """One Newton round towards the square root of `target`, and how far it moves."""
    return lambda x: ((x + target / x) / 2, jnp.abs(x - target / x) / 2)


def rounds_by_hand(target, x, tolerance, max_rounds=100):
    """The same search in NumPy: where it ends, after how many rounds, and how far the last one moved."""
    rounds, length = 0, np.inf
    while rounds < max_rounds and length > tolerance:
        length = abs(x - target / x) / 2
        x, rounds = (x + target / x) / 2, rounds + 1
    return x, rounds, length


@jax.jit
def roots(targets, starts):
    run = lambda target, start: search(newton_root(target), start, max_rounds=100, tolerance=1e-3, dtype=start.dtype)
    return jax.vmap(run)(targets, starts)


def test_under_vmap_each_search_ends_on_its_own(x64):
    """Roots of different numbers need different numbers of rounds, and none moves on while it waits for the others."""
    targets, starts = np.array([2.0, 9.0, 1e6, 4.0]), np.array([1.0, 3.0, 1.0, 1e-3])
    found = roots(jnp.asarray(targets), jnp.asarray(starts))
    expected = [rounds_by_hand(target, start, 1e-3) for target, start in zip(targets, starts, strict=True)]
    assert found.state.dtype == found.length.dtype == jnp.result_type(float)
    assert found.rounds.tolist() == [rounds for _, rounds, _ in expected]
    assert len(set(found.rounds.tolist())) == 4
    np.testing.assert_allclose(found.state, [root for root, _, _ in expected], rtol=1e-12 if x64 else 1e-5)
    np.testing.assert_allclose(found.length, [length for _, _, length in expected], atol=1e-9 if x64 else 1e-4)
    np.testing.assert_allclose(found.state, np.sqrt(targets), rtol=1e-4)


@pytest.mark.parametrize(("max_rounds", "rounds"), [(0, 0), (1, 1), (3, 3), (50, 10)])
def test_it_ends_within_the_tolerance_or_after_the_most_rounds(max_rounds, rounds):
    """Halving from 1: the length of round k is 2^-k, first below 1/1000 in round 10. The tolerance itself does not end it."""
    halve = lambda x: (x / 2, x / 2)
    found = search(halve, jnp.ones(()), max_rounds=max_rounds, tolerance=1e-3, dtype=jnp.float32)
    assert (int(found.rounds), float(found.state)) == (rounds, 2.0**-rounds)
    assert float(found.length) == (np.inf if rounds == 0 else 2.0**-rounds)
    at_the_tolerance = search(halve, jnp.ones(()), max_rounds=50, tolerance=2.0**-4, dtype=jnp.float32)
    assert int(at_the_tolerance.rounds) == 4


def test_a_length_that_is_not_a_number_ends_it():
    """In the third round, with the state of that round, so that whoever looks at the length sees what went wrong."""
    lost = lambda x: (x + 1, jnp.where(x >= 2, jnp.nan, 1.0))
    found = search(lost, jnp.zeros(()), max_rounds=50, tolerance=1e-3, dtype=jnp.float32)
    assert (int(found.rounds), float(found.state)) == (3, 3.0)
    assert np.isnan(found.length)


def test_a_state_may_be_a_tree():
    improve = lambda state: ({"x": state["x"] / 2, "count": state["count"] + 1}, state["x"])
    start = {"x": jnp.ones(()), "count": jnp.zeros((), jnp.int32)}
    found = search(improve, start, max_rounds=3, tolerance=0.0, dtype=jnp.float32)
    assert (float(found.state["x"]), int(found.state["count"])) == (0.125, 3)


@pytest.mark.parametrize("power", [1, 3])
def test_a_bracket_is_halved_to_the_last_digit(power, x64):
    """Each element on its own goal, in the dtype of its ends."""
    goals = np.array([0.001, 0.5, 2.0, 7.99]) ** power
    found = jax.jit(lambda goals, low, high: bracket(lambda x: x**power, goals, low, high))(
        jnp.asarray(goals), jnp.zeros(4), jnp.full(4, 8.0)
    )
    assert found.dtype == jnp.result_type(float)
    np.testing.assert_allclose(found, goals ** (1 / power), rtol=4 * np.finfo(found.dtype).eps, atol=8 * 2.0**-40)


def test_a_goal_outside_the_bracket_gives_the_nearer_end():
    found = jax.jit(lambda goals, low: bracket(lambda x: x, goals, low, low + 1))(jnp.array([-5.0, 5.0]), jnp.zeros(2))
    np.testing.assert_allclose(found, [0.0, 1.0], atol=1e-6)


def test_a_bracket_under_vmap_and_with_one_goal_for_all(x64):
    low, high = jnp.array([0.0, 1.0]), jnp.array([2.0, 3.0])
    root = lambda low, high: bracket(jnp.square, 2.0, low, high)
    together = jax.jit(jax.vmap(root))(low, high)
    np.testing.assert_allclose(together, np.sqrt(2), rtol=1e-15 if x64 else 1e-6)
    np.testing.assert_array_equal(jax.jit(root)(low, high), together)


def test_damping():
    move, length = np.array([3.0, 1.0], np.float32), np.float32(6.0)
    long, short = jax.jit(lambda move, length: (damp(move, length, 100.0), damp(move, length, 1.5)))(move, length)
    np.testing.assert_allclose(long, move)
    np.testing.assert_allclose(short, move / 4, rtol=1e-6)
