"""Batches and periods: numbers, dates, or any labels in order of time; and batches made of timestamps."""

import re
from typing import Any, NamedTuple

import numpy as np

from jaxbias._core.errors import ArgumentError
from jaxbias.logs.columns import Columns
from jaxbias.logs.errors import LogError, quote
from jaxbias.logs.notes import Note, NoteKind
from jaxbias.logs.numbers import to_numbers
from jaxbias.logs.values import LARGEST_INTEGER, refuse_rows

UNITS = {"hour": "%Y-%m-%d %H:00", "day": "%Y-%m-%d", "week": "week of %Y-%m-%d", "month": "%Y-%m"}  # and how each is written
DATE = "a date such as 2024-01-31, in the format of the others"
OTHER_DATE = re.compile(r"\d{1,4}[/.\-]\d{1,2}[/.\-]\d{1,4}")  # a date that is not written as ISO 8601 has it


class Periods(NamedTuple):
    """The period of each row.

    Fields:
        order: (rows,), numbers that grow with time; for labels the order in which they first appear.
        labels: of each row, as written; None for numbers.
        kind: "number", "date" or "label".
    """

    order: np.ndarray
    labels: np.ndarray | None
    kind: str


def read_periods(columns: Columns, role: str, decimal: str) -> Periods:
    """The periods in a column: integers, dates, or labels."""
    from pandas.api.types import is_datetime64_any_dtype

    column = columns.frame[role]
    if is_datetime64_any_dtype(column.dtype):
        refuse_rows(columns, role, column.isna(), DATE)
        return Periods(column.astype("int64").to_numpy(), _as_dates(column), "date")
    values, missing, _ = to_numbers(column, decimal)
    refuse_rows(columns, role, missing, "an integer, a date or a label")
    finite = np.isfinite(values)
    if 2 * finite.sum() > len(finite):
        refuse_rows(columns, role, ~finite, "an integer, like the others")
        whole = (values >= 0) & (values <= LARGEST_INTEGER) & (np.floor(values) == values)
        refuse_rows(columns, role, ~whole, "an integer, 0 or more")
        return Periods(values, None, "number")
    refuse_rows(columns, role, finite, "a date or a label, like the others")
    return _dates_or_labels(columns, role)


def _dates_or_labels(columns: Columns, role: str) -> Periods:
    import pandas as pd

    text = columns.frame[role].astype(str).str.strip()
    stamps = pd.to_datetime(text, format="ISO8601", utc=True, errors="coerce")
    if stamps.notna().any():
        refuse_rows(columns, role, stamps.isna(), DATE)
        return Periods(stamps.astype("int64").to_numpy(), text.to_numpy(str), "date")
    dated = text.str.contains(OTHER_DATE).to_numpy(bool)
    if dated.any():
        refuse_rows(columns, role, ~dated, DATE)
    return Periods(pd.factorize(text)[0], text.to_numpy(str), "label")


def _as_dates(column: Any) -> np.ndarray:
    midnight = bool((column.dt.normalize() == column).all())
    return column.dt.strftime("%Y-%m-%d" if midnight else "%Y-%m-%d %H:%M:%S").to_numpy(str)


def read_batch(columns: Columns, decimal: str) -> tuple[np.ndarray | None, tuple[str, ...] | None]:
    """The batch of each pull, integers that never decrease, and where these are dates or labels what each is called."""
    if "batch" not in columns.frame:
        return None, None
    order, labels, kind = read_periods(columns, "batch", decimal)
    if kind == "number":
        refuse_rows(columns, "batch", np.diff(order, prepend=0) < 0, "at least the batch of the pull before it")
        return order.astype(np.int64), None
    if kind == "date":
        down = np.diff(order, prepend=order[0]) < 0
        refuse_rows(columns, "batch", down, "no earlier than the batch of the pull before it")
    else:
        begins = np.flatnonzero(np.diff(order, prepend=-1) != 0)
        again = np.zeros(len(order), bool)
        again[np.setdiff1d(begins, begins[np.unique(order[begins], return_index=True)[1]])] = True
        refuse_rows(columns, "batch", again, "a label whose rows follow each other, in order of time")
    assert labels is not None
    _, first, batch = np.unique(order, return_index=True, return_inverse=True)
    return batch.astype(np.int64), tuple(labels[first].tolist())


def check_unit(batch_by: str | None) -> None:
    """Refuses a unit of time that there is not."""
    if batch_by is not None and batch_by not in UNITS:
        raise ArgumentError("batch_by", batch_by, f"one of {', '.join(UNITS)}")


def batch_by_time(columns: Columns, unit: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """The batch of each pull from its timestamp, in UTC where that has an offset, and what each batch is called."""
    import pandas as pd
    from pandas.api.types import is_datetime64_any_dtype

    if "batch" in columns.frame:
        problem = lambda name: f"has a column {quote(columns.names['batch'])}, and {name('batch_by')} is {unit!r}"
        remedy = lambda name: f"to ignore the column, set {name('columns.batch')} to ''"
        raise LogError("batch_by", unit, subject=columns.file, problem=problem, remedy=remedy)
    if "time" not in columns.frame:
        problem = lambda name: f"has no column of timestamps, and {name('batch_by')} is {unit!r}"
        remedy = lambda name: f"name it with {name('columns.time')}"
        raise LogError("columns.time", None, subject=columns.file, problem=problem, remedy=remedy)
    column = columns.frame["time"]
    allowed = f"a timestamp such as 2024-01-31 12:00:00, to be grouped by {unit}"
    if is_datetime64_any_dtype(column.dtype):
        stamps = pd.to_datetime(column, utc=True)
    else:
        refuse_rows(columns, "time", np.isfinite(to_numbers(column).values), allowed)
        stamps = pd.to_datetime(column.astype(str).str.strip(), format="ISO8601", utc=True, errors="coerce")
        refuse_rows(columns, "time", stamps.isna(), allowed)
    begins = stamps.dt.tz_localize(None).dt.to_period({"hour": "h", "day": "D", "week": "W", "month": "M"}[unit]).dt.start_time
    names = begins.dt.strftime(UNITS[unit]).to_numpy(str)
    _, first, batch = np.unique(begins.astype("int64").to_numpy(), return_index=True, return_inverse=True)
    columns.notes.append(Note(NoteKind.BATCHES_BY, {"unit": unit, "count": len(first)}))
    return batch.astype(np.int64), tuple(names[first].tolist())
