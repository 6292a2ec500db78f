"""Batches of one size, for a log that does not name its batches."""

import dataclasses

import numpy as np

from jaxbias._core.errors import ArgumentError
from jaxbias.logs.reading import Log


def in_batches(log: Log, batch_size: int) -> Log:
    """The log with so many rows in each batch; the last one may be smaller.

    >>> import io, jaxbias as jb
    >>> log = jb.read_log(io.StringIO("arm,reward\\na,1\\nb,0\\na,0\\n"))
    >>> in_batches(log, 2).history.batch_sizes
    (2, 1)
    """
    num_steps = log.history.num_steps
    if log.history.batch_sizes is not None:
        remedy = lambda name_of: f"leave it out, or ignore the column with {name_of('columns.batch')} ''"
        raise ArgumentError("batch_size", batch_size, problem=f"is {batch_size}, and the log has batches", remedy=remedy)
    if not isinstance(batch_size, int | np.integer) or not 1 <= batch_size < num_steps:
        raise ArgumentError("batch_size", batch_size, f"a whole number from 1 to {num_steps - 1}, below the rows of the log")
    if batch_size == 1:
        return log
    batch = np.arange(num_steps) // batch_size
    sizes = tuple(np.bincount(batch).tolist())
    return dataclasses.replace(log, history=dataclasses.replace(log.history, batch_sizes=sizes), batch=batch)
