"""How a chunk of trials lies in memory: trials next to each other, so that the machine's vectors run along trials.

A policy is written for one trial and sees (arms,). `vmap` makes that (trials, arms), and by default XLA lays out arms
contiguously: five of them fill no vector, and every sum or maximum over arms runs one number at a time.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
from jax.custom_batching import custom_vmap
from jax.experimental.layout import Layout, with_layout_constraint

CACHED = 2**13  # trials times arms whose state stays in the first cache of a core: 32 kB for each number that they keep
MANY = 128  # numbers in a trial from which on one is written and not all, and a trial lies in one piece


def trials_minor(leaf: jax.Array) -> jax.Array:
    """The same array, (trials, ...), with trials last in memory; as it is where one trial has enough to fill the vectors."""
    if math.prod(leaf.shape[1:]) >= MANY:
        return leaf
    return with_layout_constraint(leaf, Layout((*range(1, leaf.ndim), 0)))


@custom_vmap
def materialize(values: Any) -> Any:
    """The same values, computed once and laid out with trials last, before what follows.

    Within one trial it does nothing. Under `vmap` it keeps XLA from computing random numbers inside the reduction over arms that
    uses them, which is not vectorised, or once for each of several uses.
    """
    return values


@materialize.def_vmap
def _materialize_trials(axis_size: int, in_batched: Any, values: Any) -> tuple[Any, Any]:
    del axis_size
    batched = in_batched[0]
    values = jax.tree.map(lambda leaf, is_batched: trials_minor(leaf) if is_batched else leaf, values, batched)
    return jax.lax.optimization_barrier(values), batched


def stays_in_cache(trials: int, num_arms: int) -> bool:
    """Whether so many trials are faster as a group of their own: on a CPU, where what they keep fits the first cache."""
    return trials * num_arms <= CACHED and jax.default_backend() == "cpu"


def in_groups(group: Callable[[jax.Array], Any], number: int, at_once: int) -> Any:
    """What `group` makes of the places of some trials, for all of them: one group after the other, each of at most `at_once`.

    Where groups of this size do not divide the trials, they are of about this size, and the last place is repeated at the end.
    """
    groups = math.ceil(number / at_once)
    size = math.ceil(number / groups)
    if groups == 1:
        return group(jax.numpy.arange(number))
    which = jax.numpy.minimum(jax.numpy.arange(groups * size), number - 1).reshape(groups, size)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:number], jax.lax.map(group, which))


def set_at(values: jax.Array, place: jax.Array, value: jax.Array) -> jax.Array:
    """The array with another value at one place; in a loop, without a copy."""
    return values.at[place].set(value, mode="promise_in_bounds", wrap_negative_indices=False)


def add_at(values: jax.Array, place: jax.Array, value: jax.Array) -> jax.Array:
    """The array with something added at one place. Of few arms all are written, as trials are next to each other in memory."""
    if values.shape[0] >= MANY:
        return values.at[place].add(value, mode="promise_in_bounds", wrap_negative_indices=False)
    chosen = jax.numpy.arange(values.shape[0], dtype=place.dtype) == place
    return values + jax.numpy.where(chosen, value, jax.numpy.zeros_like(value))
