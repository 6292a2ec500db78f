"""Searches inside compiled programs: a loop for damped Newton methods, and bisection of monotone functions.

A search is `improve(state) -> (state, length)`: one round, and how far it moved, in standard errors or whatever unit its
tolerance is in. The loop ends when a round moves less than the tolerance, when the length is not a number, or after the most
rounds.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

State = TypeVar("State")
HALVINGS = {jnp.dtype("float32"): 40, jnp.dtype("float64"): 70}  # of a bracket that holds the solution: to the last digit


class Searched(NamedTuple):
    """Where a search ended."""

    state: Any
    rounds: Int[Array, ""]
    length: Float[Array, ""]  # of the last round


def search(
    improve: Callable[[State], tuple[State, Float[Array, ""]]], start: State, *, max_rounds: int, tolerance: float, dtype: Any
) -> Searched:
    """Rounds of `improve` until one moves less than the tolerance; at least one.

    >>> import jax.numpy as jnp
    >>> root = lambda x: ((x + 2 / x) / 2, jnp.abs(x - 2 / x) / 2)
    >>> found = search(root, jnp.asarray(1.0), max_rounds=20, tolerance=1e-3, dtype=jnp.float32)
    >>> round(float(found.state), 4), int(found.rounds)
    (1.4142, 4)
    """

    def going(now: Searched) -> Array:
        return (now.rounds < max_rounds) & (now.length > tolerance)

    def go_on(now: Searched) -> Searched:
        state, length = improve(now.state)
        return Searched(state=state, rounds=now.rounds + 1, length=length)

    begin = Searched(state=start, rounds=jnp.zeros((), jnp.int32), length=jnp.full((), jnp.inf, dtype))
    return jax.lax.while_loop(going, go_on, begin)


def damp(move: Float[Array, " n"], length: Float[Array, ""], longest: float) -> Float[Array, " n"]:
    """The move, shortened where it is longer than the quadratic that it comes from can be trusted."""
    return move * (longest / jnp.maximum(length, longest))


def bracket(
    function: Callable[[Array], Array],
    goal: float | Array,
    low: Float[Array, "*shape"],
    high: Float[Array, "*shape"],
    halvings: int | None = None,
) -> Float[Array, "*shape"]:
    """Where an increasing function is `goal` between two ends, each element on its own; to the last digit, or so many halvings.

    To the last digit, or by so many halvings.

    >>> import jax.numpy as jnp
    >>> round(float(bracket(jnp.square, 2.0, jnp.zeros(()), 2 * jnp.ones(()))), 4)
    1.4142
    """

    def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = (low + high) / 2
        below = function(middle) < goal
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    low, high = jax.lax.fori_loop(0, halvings or HALVINGS[jnp.dtype(low.dtype)], halve, (low, high))
    return (low + high) / 2
