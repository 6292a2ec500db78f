"""Logs of different lengths, which a rule stopped: those of one length together.

The length is one more thing that the estimate is conditional on. An order of the steps counts if the rule would not have stopped
it earlier; whether the rule stops at the end depends on pulls and sums alone, and is the same for all orders.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxbias._core.errors import ArgumentError
from jaxbias._core.settings import is_concrete
from jaxbias.estimators.estimate import Estimate
from jaxbias.history import History, cut


def check_lengths(history: History, stop: Any) -> None:
    """Refuses trials of different lengths whose rule, or whose lengths, are not known."""
    if history.lengths is None:
        return
    if stop is None:
        raise ArgumentError("stop", stop, "the rule that ended the trials, as they differ in length")
    if not is_concrete(history.lengths):
        problem = "has trials of different lengths, which are not known inside jit"
        raise ArgumentError("history", history, problem=problem, remedy="take one of them, history.trial(0)")


def by_length(ask: Callable[[Any, History], Estimate], keys: Any, logs: History) -> Estimate:
    """`ask` of the logs of each length, put together in their order."""
    lengths, rows, parts = np.asarray(logs.lengths), [], []
    for length in np.unique(lengths).tolist():
        which = np.flatnonzero(lengths == length)
        some = jax.tree.map(lambda leaf: leaf[which], dataclasses.replace(logs, lengths=None, batch_sizes=None))  # noqa: B023
        sizes = cut(dataclasses.replace(jax.tree.map(lambda leaf: leaf[0], logs), lengths=None), length).batch_sizes
        whole = jax.tree.map(lambda leaf: leaf[:, :length], some)  # noqa: B023
        parts.append(ask(keys[which], dataclasses.replace(whole, batch_sizes=sizes)))
        rows.append(which)
    order = np.argsort(np.concatenate(rows))
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[order], *parts)
