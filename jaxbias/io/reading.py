"""Logs in: an experiment as it was recorded, in a file or a data frame."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxbias.history import History
from jaxbias.io.checking import in_order, read_batch, read_forced, read_propensity, read_rewards
from jaxbias.io.columns import check_renames
from jaxbias.io.labels import check_arms, choose_trial, read_arms
from jaxbias.io.sources import open_source
from jaxbias.io.tables import Table, read_frame, read_parquet, read_text
from jaxbias.io.words import Problem, shown


@dataclasses.dataclass(frozen=True, kw_only=True)
class Log:
    """One experiment as it was recorded.

    Arguments:
        history: NumPy arrays: arms int32, rewards float64, forced bool or None.
        labels: of arm 0, 1, ...
        propensity: (steps,), the recorded probability of the arm that was pulled; NaN where a forced pull has none.
        batch: (steps,), the batch of each pull.
        name: of the file; "standard input" or "the data frame" where there is none.
        notes: sentences on what reading decided.
    """

    history: History
    labels: tuple[str, ...]
    propensity: np.ndarray | None
    batch: np.ndarray | None
    name: str
    notes: tuple[str, ...] = ()


def read_log(
    source: Any,
    *,
    columns: Mapping[str, str] | None = None,
    separator: str | None = None,
    decimal: str = ".",
    trial: Any = None,
    first: int | None = None,
    arms: Sequence[Any] | None = None,
) -> Log:
    """Reads a log: one pull a row, with the columns arm and reward, and batch, propensity, time, forced and trial if it has them.

    Rows are put in order of time, or without it of a column "step". The arms are the labels that occur in the rows that are
    read: categories in their order, numbers by value, other labels as text; or `arms`. Columns are found by their exact names,
    or else in any letter case. What is wrong is a ValueError of one line with the number of the row: in text as a spreadsheet
    counts, where the names of the columns are row 1; in Parquet and data frames from 0.

    Arguments:
        source: a path, "-" for standard input, an open file, or a pandas data frame. CSV and TSV in UTF-8 or UTF-16, Parquet, and
            any of them compressed with gzip are told apart by their first bytes.
        columns: other names of columns, such as {"reward": "revenue"}; an empty name leaves an optional column out.
        separator: between the columns of a text; without it a tab where the file ends in .tsv, and a comma otherwise.
        decimal: "." or ",", the decimal mark in a text.
        trial: which trial, where the log has several.
        first: only this many rows, the first in order of time.
        arms: all labels in order, those of arms never pulled too.

    Returns:
        The log, with notes on what reading decided.

    >>> import io
    >>> log = read_log(io.StringIO("time,arm,reward\\n2,red,1.5\\n1,blue,0.5\\n"))
    >>> log.labels, log.history.arms.tolist(), log.history.rewards.tolist()
    (('blue', 'red'), [0, 1], [0.5, 1.5])
    >>> log.notes
    ("Rows were put in order of column 'time'.",)
    """
    renames, labels = check_renames(columns), check_arms(arms)
    if first is not None and (isinstance(first, bool) or not isinstance(first, int | np.integer) or first < 1):
        raise Problem(f"first is {shown(first)}; allowed: a whole number, 1 or more")
    table, name = _read_table(source, renames, separator, decimal)
    if not len(table.frame):
        raise Problem(f"{table.name} has no rows below its column names; allowed: one or more")
    table = _first_rows(in_order(choose_trial(table, trial), decimal), first)
    return _make_log(table, decimal, labels, name)


def _read_table(source: Any, renames: Mapping[str, str], separator: str | None, decimal: str) -> tuple[Table, str]:
    """The columns that are needed, and the name of the log."""
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise ImportError("reading logs needs pandas; it comes with pip install 'jaxbias[cli]'") from error
    _check_marks(separator, decimal)
    if isinstance(source, pd.DataFrame):
        return read_frame(source, renames), "the data frame"
    with open_source(source) as opened:
        if opened.is_parquet:
            return read_parquet(opened, renames), opened.short_name
        mark = "\t" if separator == "\\t" else separator
        mark = mark or ("\t" if opened.short_name.endswith((".tsv", ".tsv.gz")) else ",")
        return read_text(opened, renames, mark, decimal), opened.short_name


def _check_marks(separator: str | None, decimal: str) -> None:
    if decimal not in (".", ","):
        raise Problem(f"decimal is {shown(decimal)}; allowed: '.' or ','")
    is_mark = separator == "\\t" or (isinstance(separator, str) and len(separator) == 1)
    if separator is not None and (not is_mark or separator.isalnum() or separator in "\"'\r\n\0+-_." or not separator.isascii()):
        raise Problem(f"separator is {shown(separator)}; allowed: one character such as ',', ';' or '\\t'")


def _first_rows(table: Table, first: int | None) -> Table:
    if first is None:
        return table
    if first > len(table.frame):
        table.notes.append(f"There are {len(table.frame):,} rows, fewer than the first {first:,}.")
    return table._replace(frame=table.frame.iloc[:first])


def _make_log(table: Table, decimal: str, labels: list[str] | None, name: str) -> Log:
    arms, labels_found = read_arms(table, labels)
    rewards, forced, batch = read_rewards(table, decimal), read_forced(table), read_batch(table, decimal)
    return Log(
        history=History(arms=arms, rewards=rewards, num_arms=len(labels_found), forced=forced, batch_sizes=_sizes(batch)),
        labels=labels_found,
        propensity=read_propensity(table, decimal, arms, forced, batch),
        batch=batch,
        name=name,
        notes=tuple(table.notes),
    )


def _sizes(batch: np.ndarray | None) -> tuple[int, ...] | None:
    """How many pulls each batch has; None where each has one, as then every choice has seen all before it."""
    if batch is None or len(sizes := np.unique(batch, return_counts=True)[1]) == len(batch):
        return None
    return tuple(sizes.tolist())
