"""What the arrays of a history must hold: real numbers, whole numbers, truth values, and lengths within the steps."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxbias._core.errors import ArgumentError
from jaxbias._core.settings import is_concrete

MOST_ARMS = 2**16  # a log of 1,000 steps and so many arms is 500 MB for each array of (steps, arms)


def check_kinds(history: Any) -> None:
    """Refuses arms and rewards that are no real numbers, and a number of arms that is none."""
    number = history.num_arms
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or not 1 <= number <= MOST_ARMS:
        raise ArgumentError("history.num_arms", number, f"a whole number from 1 to {MOST_ARMS}")
    for name in ("arms", "rewards", "held_out", "policy_rewards"):
        values = getattr(history, name)
        if values is not None and is_concrete(values) and not _is_real(values):
            raise ArgumentError(f"history.{name}", values, "real numbers")


def check_marks(history: Any, shape: tuple[int, ...]) -> None:
    """Refuses `forced` that is not a truth value for each step, and `lengths` that are not within the steps."""
    forced, lengths = history.forced, history.lengths
    if forced is not None and is_concrete(forced):
        values = np.asarray(forced)
        if values.shape != shape:
            allowed = f"one truth value for each step, {shape}"
            raise ArgumentError("history.forced", forced, allowed, problem=f"has shape {values.shape}")
        if values.dtype.kind not in "biuf" or not np.isin(values, (0, 1)).all():
            raise ArgumentError("history.forced", forced, "True or False for each step")
    if lengths is not None and is_concrete(lengths):
        values = np.asarray(lengths)
        if values.shape != shape[:-1]:
            allowed = f"one number for each trial, {shape[:-1]}"
            raise ArgumentError("history.lengths", lengths, allowed, problem=f"has shape {values.shape}")
        if values.dtype.kind not in "iu" or not ((values >= 1) & (values <= shape[-1])).all():
            raise ArgumentError("history.lengths", lengths, f"whole numbers from 1 to {shape[-1]}, the steps")


def _is_real(values: Any) -> bool:
    try:
        dtype = getattr(values, "dtype", None) or np.asarray(values).dtype
    except ValueError:  # rows of different lengths
        return False
    return jnp.issubdtype(dtype, np.bool_) or (jnp.issubdtype(dtype, np.number) and not jnp.issubdtype(dtype, np.complexfloating))
