"""A log with its weights: from columns of its own, from counts, or from a file by period."""

import dataclasses
from typing import Any

import numpy as np

from jaxbias.logs.columns import Columns
from jaxbias.logs.counts import CountsRead
from jaxbias.logs.errors import LogError, quote
from jaxbias.logs.header import WEIGHTS
from jaxbias.logs.log import Log
from jaxbias.logs.notes import Note, NoteKind
from jaxbias.logs.numbers import to_numbers
from jaxbias.logs.values import first_pulls_of
from jaxbias.logs.weights import WeightTable, check_propensity, settle_weights, weight_columns
from jaxbias.logs.weights_file import Periods, table_by_period


def weights_of_pulls(log: Log, columns: Columns, decimal: str, explicit: bool) -> Log:
    """The log with the weights in its columns p_A, p_B, ..., where it has them."""
    table = weight_columns(columns, decimal, log.labels, explicit)
    log = dataclasses.replace(log, notes=tuple(columns.notes))
    if table is None:
        return log
    settled = _settled(log, table, np.arange(log.history.num_steps))
    assert settled.weights is not None
    chosen = np.take_along_axis(settled.weights, np.asarray(log.history.arms)[:, None], axis=1)[:, 0]
    check_propensity(table, chosen, log.propensity, columns.names.get("propensity", ""))
    return settled


def weights_of_counts(log: Log, read: CountsRead, columns: Columns, decimal: str, explicit: bool) -> Log:
    """The same of counts: in columns p_A, p_B, ... the same in all rows of a period, or one weight a row, that of its arm."""
    table = weight_columns(columns, decimal, log.labels, explicit)
    log = dataclasses.replace(log, notes=tuple(columns.notes))
    shape = (len(log.history.batch_sizes or ()), len(log.labels))
    if "weight" in columns.frame:
        if table is not None:
            problem = f"has a column {quote(columns.names['weight'])} and one column of weights for each arm"
            remedy = lambda name: f"to ignore one, set {name('columns.weight')} or {name(f'columns.{WEIGHTS}')} to ''"
            raise LogError("columns.weight", subject=columns.file, problem=problem, remedy=remedy)
        table = _by_cell(columns, read, decimal, log, shape)
    elif table is not None:
        table = _by_batch(table, read, shape)
    return log if table is None else _settled(log, table, _batch_numbers(log))


def weights_of_file(log: Log, columns: Columns, decimal: str, others: tuple[str, ...], cut: bool) -> Log:
    """The log with the weights of each of its periods from a second file."""
    if log.batch is None:
        problem = f"is {columns.file}, weights by period, and the log has no periods"
        remedy = lambda name: (
            f"name them with {name('columns.batch')} or {name('batch_by')}, or put the weights of each pull into the log's own "
            "columns, p_ and the label of each arm"
        )
        raise LogError(WEIGHTS, columns.file, problem=problem, remedy=remedy)
    if log.weights is not None:
        problem = f"is {columns.file}, and the log has weights of its own"
        remedy = lambda name: f"to ignore those, set {name(f'columns.{WEIGHTS}')} to ''"
        raise LogError(WEIGHTS, columns.file, problem=problem, remedy=remedy)
    names = log.periods or tuple(str(number) for number in np.unique(log.batch).tolist())
    table = table_by_period(columns, decimal, log.labels, Periods(names, others, cut))
    return _settled(log, table, _batch_numbers(log))


def _batch_numbers(log: Log) -> np.ndarray:
    assert log.batch is not None
    return np.unique(log.batch, return_inverse=True)[1]


def _settled(log: Log, table: WeightTable, which: np.ndarray) -> Log:
    history = log.history
    arms, given = np.asarray(history.arms), history.forced
    weights, forced = settle_weights(table, arms, log.batch, given, which, log.labels)
    if given is not None:
        return dataclasses.replace(log, weights=weights)
    usual = first_pulls_of(arms) if history.batch_sizes is None else np.arange(len(arms)) < history.batch_sizes[0]
    chosen = int(np.sum(usual & ~forced))
    notes = (Note(NoteKind.WEIGHTS_SAY_CHOSEN, {"count": chosen}),) if chosen else ()
    return dataclasses.replace(
        log, weights=weights, history=dataclasses.replace(history, forced=forced), notes=(*log.notes, *notes)
    )


def _by_cell(columns: Columns, read: CountsRead, decimal: str, log: Log, shape: tuple[int, int]) -> WeightTable:
    """One weight a row: that of its arm in its period."""
    numbers = to_numbers(columns.frame["weight"], decimal)
    cells = np.full(shape, -1)
    there = read.row_batch >= 0
    cells[read.row_batch[there], read.row_arm[there]] = np.flatnonzero(there)
    known = cells >= 0
    values = np.where(known, numbers.values[cells], np.nan)
    missing = np.where(known, numbers.missing[cells], True)
    period = lambda number: f"{columns.file}: period {quote(log.periods[number])}" if log.periods else columns.file
    where = f"{columns.file}: column {quote(columns.names['weight'])} in row "

    def place(number: int, arm: int) -> str:
        row = int(cells[number, arm])
        return f"{period(number)}: the weight of {quote(log.labels[arm])}" if row < 0 else f"{where}{columns.frame.index[row]}"

    def written(number: int, arm: int) -> Any:
        row = int(cells[number, arm])
        return None if row < 0 else columns.frame["weight"].iloc[row]

    return WeightTable(columns.file, values, missing, place, period, written, "columns.weight")


def _by_batch(table: WeightTable, read: CountsRead, shape: tuple[int, int]) -> WeightTable:
    """One row for each period, of rows that must be alike."""
    first = np.full(shape[0], -1)
    for row in range(len(read.row_batch) - 1, -1, -1):
        if read.row_batch[row] >= 0:
            first[read.row_batch[row]] = row
    for row, number in enumerate(read.row_batch):
        same = number < 0 or np.array_equal(table.values[row], table.values[first[number]], equal_nan=True)
        if not same:
            problem = "has other weights than an earlier row of its period"
            remedy = lambda name: (
                "the weights must be the same in all rows of a period; if the column is the weight of the row's own arm, "
                f"name it with {name('columns.weight')}"
            )
            raise LogError(table.argument, subject=table.row_place(row), problem=problem, remedy=remedy)
    return table._replace(
        values=table.values[first],
        missing=table.missing[first],
        place=lambda number, arm: table.place(int(first[number]), arm),
        row_place=lambda number: table.row_place(int(first[number])),
        written=lambda number, arm: table.written(int(first[number]), arm),
    )
