"""Reading a log: an experiment as it was recorded, in a file or a data frame."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxbias._core.errors import ArgumentError
from jaxbias.history import History
from jaxbias.logs.columns import DATA_FRAME, Columns, read_frame
from jaxbias.logs.delimited import read_text
from jaxbias.logs.errors import LogError
from jaxbias.logs.files import open_file
from jaxbias.logs.header import check_renames
from jaxbias.logs.labels import check_arms, choose_trial, read_arms
from jaxbias.logs.notes import Note, NoteKind
from jaxbias.logs.parquet import read_parquet
from jaxbias.logs.values import read_batch, read_forced, read_propensity, read_rewards, sort_by_time


@dataclasses.dataclass(frozen=True, kw_only=True)
class Log:
    """One experiment as it was recorded.

    Arguments:
        history: NumPy arrays: arms int32, rewards float64, forced bool or None.
        labels: of arm 0, 1, ...
        propensity: (steps,), the recorded probability of the pulled arm; NaN for a forced pull without one.
        batch: (steps,), the batch of each pull.
        name: of the file; "standard input" or "the data frame" where there is none.
        notes: what reading decided; `jaxbias.reporting.log_notes.describe_note` has the sentence of each.
    """

    history: History
    labels: tuple[str, ...]
    propensity: np.ndarray | None
    batch: np.ndarray | None
    name: str
    notes: tuple[Note, ...] = ()


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

    Rows are sorted by the column time, or if there is none by the column step. The arms are the labels in the rows that are read:
    categories in their order, numbers by value, other labels alphabetically; or `arms`. Columns are found by their exact names,
    or else in any letter case. Errors are a `LogError`, which is a ValueError, with the number of the row: in text files as a
    spreadsheet counts, where the column names are row 1; in Parquet and data frames from 0.

    Arguments:
        source: a path, "-" for standard input, an open file, or a pandas data frame. CSV and TSV are UTF-8 or UTF-16
            and may be gzipped. gzip and Parquet are recognised by their first bytes.
        columns: other names of columns, such as {"reward": "revenue"}; an empty name means that an optional column is ignored.
        separator: between the columns of a text; by default a tab in a .tsv file and a comma otherwise.
        decimal: "." or ",", the decimal mark in a text.
        trial: which trial to read, if the log has several.
        first: how many rows to read, the first in order of time.
        arms: the labels of all arms in order, including arms that were never pulled.

    Returns:
        The log, with notes on what reading decided.

    >>> import io
    >>> log = read_log(io.StringIO("time,arm,reward\\n2,red,1.5\\n1,blue,0.5\\n"))
    >>> log.labels, log.history.arms.tolist(), log.history.rewards.tolist()
    (('blue', 'red'), [0, 1], [0.5, 1.5])
    >>> log.notes
    (Note(kind=<NoteKind.ROWS_SORTED: 'rows_sorted'>, values={'column': 'time'}),)
    """
    renames, labels = check_renames(columns), check_arms(arms)
    if first is not None and (isinstance(first, bool) or not isinstance(first, int | np.integer) or first < 1):
        raise ArgumentError("first", first, "an integer, 1 or more")
    found, name = _read_columns(source, renames, separator, decimal)
    if not len(found.frame):
        raise LogError(subject=found.file, problem="has column names, but no rows", remedy="it must have one row for each pull")
    found = _first_rows(sort_by_time(choose_trial(found, trial), decimal), first)
    return _make_log(found, decimal, labels, name)


def _read_columns(source: Any, renames: Mapping[str, str], separator: str | None, decimal: str) -> tuple[Columns, str]:
    """The needed columns, and the name of the log."""
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise ImportError("reading logs needs pandas; install it with pip install 'jaxbias[cli]'") from error
    _check_marks(separator, decimal)
    if isinstance(source, pd.DataFrame):
        return read_frame(source, renames), DATA_FRAME
    with open_file(source) as opened:
        if opened.is_parquet:
            return read_parquet(opened, renames), opened.short_name
        mark = "\t" if separator == "\\t" else separator
        mark = mark or ("\t" if opened.short_name.endswith((".tsv", ".tsv.gz")) else ",")
        return read_text(opened, renames, mark, decimal), opened.short_name


def _check_marks(separator: str | None, decimal: str) -> None:
    if decimal not in (".", ","):
        raise ArgumentError("decimal", decimal, "'.' or ','")
    is_mark = separator == "\\t" or (isinstance(separator, str) and len(separator) == 1)
    if separator is not None and (not is_mark or separator.isalnum() or separator in "\"'\r\n\0+-_." or not separator.isascii()):
        raise ArgumentError("separator", separator, "one character, such as ',', ';' or '\\t'")


def _first_rows(columns: Columns, first: int | None) -> Columns:
    if first is None:
        return columns
    if first > len(columns.frame):
        columns.notes.append(Note(NoteKind.FEWER_ROWS, {"rows": len(columns.frame), "first": int(first)}))
    return columns._replace(frame=columns.frame.iloc[:first])


def _make_log(columns: Columns, decimal: str, labels: list[str] | None, name: str) -> Log:
    arms, labels_found = read_arms(columns, labels)
    rewards, forced, batch = read_rewards(columns, decimal), read_forced(columns), read_batch(columns, decimal)
    return Log(
        history=History(arms=arms, rewards=rewards, num_arms=len(labels_found), forced=forced, batch_sizes=_sizes(batch)),
        labels=labels_found,
        propensity=read_propensity(columns, decimal, arms, forced, batch),
        batch=batch,
        name=name,
        notes=tuple(columns.notes),
    )


def _sizes(batch: np.ndarray | None) -> tuple[int, ...] | None:
    """How many pulls each batch has; None if each has one, because then every choice saw all rewards before it."""
    if batch is None or len(sizes := np.unique(batch, return_counts=True)[1]) == len(batch):
        return None
    return tuple(sizes.tolist())
