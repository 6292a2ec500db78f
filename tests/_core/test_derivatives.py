"""Derivatives that do not exist are NaN where they are asked for and nowhere else; a search is not differentiated."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxbias._core.derivatives import held, implicit, moving_with, refuse_derivative, safe_sqrt, undefined_in, undefined_where
from jaxbias._core.errors import ArgumentError

BAD, AT = jnp.array([False, True]), jnp.array([1.0, 2.0])
MIXED = jnp.array([[1.0, 2.0], [3.0, 4.0]])
NAN = jnp.nan


@pytest.mark.parametrize("change", [lambda f: f, jax.jit, lambda f: lambda x: jax.vmap(f)(x[None])[0]])
@pytest.mark.parametrize(
    ("gate", "forward", "reverse"),
    [
        (undefined_where, [[1.0, 2.0], [NAN, NAN]], [[1.0, 2.0], [NAN, NAN]]),
        (undefined_in, [[1.0, NAN], [3.0, NAN]], [[1.0, NAN], [3.0, NAN]]),
    ],
)
def test_what_is_undefined_is_nan_and_the_rest_is_not(change, gate, forward, reverse):
    """An output that is undefined spoils its row, an input its column, in both modes."""
    function = (lambda x: gate(BAD, MIXED @ x)) if gate is undefined_where else (lambda x: MIXED @ gate(BAD, x))
    np.testing.assert_array_equal(jax.jacfwd(change(function))(AT), forward)
    np.testing.assert_array_equal(jax.jacrev(change(function))(AT), reverse)
    np.testing.assert_array_equal(change(function)(AT), MIXED @ AT)


def test_a_nan_that_nothing_depends_on_does_not_spread():
    assert jax.grad(lambda x: undefined_where(BAD, MIXED @ x)[0])(AT).tolist() == [1.0, 2.0]
    assert jax.grad(lambda x: jnp.sum(jnp.where(BAD, 0, undefined_where(BAD, MIXED @ x))))(AT).tolist() == [1.0, 2.0]


def test_the_root_of_zero():
    roots = lambda x: safe_sqrt(x * jnp.array([4.0, 0.0]))
    np.testing.assert_allclose(roots(jnp.ones(2)), [2.0, 0.0])
    assert jax.grad(lambda x: roots(x)[0])(jnp.ones(2)).tolist() == [1.0, 0.0]
    assert np.isnan(jax.grad(safe_sqrt)(jnp.array(0.0)))
    assert np.isnan(safe_sqrt(jnp.array(NAN)))


def test_a_value_moves_with_its_carrier():
    value, tangent = jax.jvp(lambda x: moving_with(-jnp.inf * jnp.ones(()), x**2), (3.0,), (1.0,))
    assert (float(value), float(tangent)) == (-np.inf, 6.0)


@pytest.mark.parametrize("change", [lambda f: f, jax.jit, jax.checkpoint])
def test_a_refusal_says_which_argument(change):
    error = ArgumentError("solver", "slow", "'fast'")
    function = change(lambda x, y: jnp.sum(refuse_derivative({"x": x, "n": 3}, error)["x"]) * y)
    assert float(function(AT, 2.0)) == 6.0
    assert float(jax.grad(function, 1)(AT, 2.0)) == 3.0  # what is not refused can be differentiated
    for mode in (jax.grad(function), lambda *at: jax.jvp(function, at, (AT, 1.0))):
        with pytest.raises(ArgumentError, match="solver is 'slow'; it must be 'fast'"):
            mode(AT, 2.0)


def solved(figures, settings, context, calls):
    """x = 2 figures + 3 a + b, found by a loop that has no derivative in reverse mode."""

    def slopes(which, settings, context):
        calls.append(which)
        del settings
        return jnp.stack([jnp.stack([[jnp.array(3.0), context][i] for i in which])])

    total = held(2 * figures + 3 * settings[0] + settings[1])
    solution = jax.lax.while_loop(lambda x: jnp.all(x < total), lambda x: x + 1, jnp.zeros_like(total)) * 0 + total
    return implicit(slopes, solution, 2 * jnp.ones((1, 1)), figures, settings, context)[0]


@pytest.mark.parametrize("change", [lambda f: f, jax.jit])
def test_a_solution_moves_with_what_it_solves(change):
    calls = []
    function = change(lambda figures, a, b: solved(figures, [a, b], jnp.array(1.0), calls))
    at = (jnp.array([1.0]), 2.0, 5.0)
    assert float(function(*at)) == 13.0
    assert jax.grad(function)(*at).tolist() == [2.0]
    assert calls == []  # the slopes cost a simulation: only where a setting is differentiated
    found = jax.grad(function, (1, 2))(*at)
    assert [float(part) for part in found] == [3.0, 1.0]
    assert float(jax.jvp(lambda b: function(at[0], 2.0, b), (5.0,), (1.0,))[1]) == 1.0
    assert calls[-1] == (1,)
    assert jax.vmap(jax.grad(function), (0, None, None))(jnp.ones((3, 1)), 2.0, 5.0).shape == (3, 1)


def test_a_solution_is_not_differentiated_twice():
    function = lambda figures, a: solved(figures, [a, 0.0], jnp.array(1.0), [])
    with pytest.raises(ArgumentError, match="differentiated twice"):
        jax.hessian(function)(jnp.array([1.0]), 1.0)
    with pytest.raises(ArgumentError, match="differentiated twice"):
        jax.jacfwd(jax.grad(function, 1))(jnp.array([1.0]), 1.0)


def test_a_slope_that_does_not_exist_spoils_its_own_setting():
    slopes = lambda which, *_: jnp.stack([jnp.array([NAN, 2.0])[jnp.array(which)]])
    function = lambda a, b: implicit(slopes, jnp.zeros(1), jnp.zeros((1, 0)), jnp.zeros(0), [a, b], None)[0]
    np.testing.assert_array_equal(jax.grad(function, (0, 1))(1.0, 1.0), [NAN, 2.0])
    np.testing.assert_array_equal(jax.jvp(function, (1.0, 1.0), (0.0, 1.0))[1], 2.0)
    assert np.isnan(jax.jvp(function, (1.0, 1.0), (1.0, 0.0))[1])
