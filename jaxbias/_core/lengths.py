"""Lengths that logs are padded to, so that logs of about the same length share their compiled programs."""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

Carry = TypeVar("Carry")

SHORTEST = 64  # steps
RATIO = 2.5  # of one length to the one before: a dozen lengths up to a million steps, and at most 2.5 times the work
LANES = 16  # a length is a whole number of these: the widest vector of a CPU, in 32-bit numbers


def padded_length(length: int) -> int:
    """The least of the lengths that is not below this one.

    >>> [padded_length(length) for length in (1, 64, 65, 1000, 1_000_000)]
    [64, 64, 160, 1008, 1525888]
    """
    power = max(math.ceil(math.log(max(length, 1) / SHORTEST) / math.log(RATIO) - 1e-9), 0)
    return max(math.ceil(SHORTEST * RATIO**power / LANES) * LANES, length)


def pad_axis(values: Any, length: int, fill: object, axis: int = -1) -> np.ndarray:
    """The values with so many of them along one axis, the new ones with the value `fill`."""
    values = np.asarray(values)
    widths = [(0, 0)] * values.ndim
    widths[axis] = (0, length - values.shape[axis])
    return np.pad(values, widths, constant_values=fill)


def scan_up_to(
    body: Callable[[Carry, Any], tuple[Carry, Any]], start: Carry, steps: Any, length: Int[Array, ""] | None
) -> tuple[Carry, Any]:
    """`lax.scan` over the first steps, or all of them; what the body gives for the others is 0.

    Their number is not known before compilation, so that it costs nothing and has no derivative in reverse mode.
    """
    if length is None:
        return jax.lax.scan(body, start, steps)
    at = lambda number: jax.tree.map(lambda leaf: leaf[number], steps)
    size = jax.tree.leaves(steps)[0].shape[0]
    kept = jax.eval_shape(body, start, at(0))[1]
    nothing = jax.tree.map(lambda leaf: jnp.zeros((size, *leaf.shape), leaf.dtype), kept)

    def go_on(number: Int[Array, ""], state: tuple[Carry, Any]) -> tuple[Carry, Any]:
        after, new = body(state[0], at(number))
        return after, jax.tree.map(lambda all_of_them, one: all_of_them.at[number].set(one), state[1], new)

    return jax.lax.fori_loop(0, length, go_on, (start, nothing))
