"""How a chunk of trials lies in memory: trials next to each other, so that the machine's vectors run along trials.

A policy is written for one trial and sees (arms,). `vmap` makes that (trials, arms), and by default XLA lays out arms
contiguously: five of them fill no vector, and every sum or maximum over arms runs one number at a time.
"""

from typing import Any

import jax
from jax.custom_batching import custom_vmap
from jax.experimental.layout import Layout, with_layout_constraint


def trials_minor(leaf: jax.Array) -> jax.Array:
    """The same array, (trials, ...), with trials last in memory."""
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
