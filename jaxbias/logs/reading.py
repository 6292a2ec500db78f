"""Reading a log: an experiment as it was recorded, in a file or a data frame."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from jaxbias._core.errors import ArgumentError
from jaxbias.history import History
from jaxbias.logs.clusters import read_cluster, with_cluster
from jaxbias.logs.columns import DATA_FRAME, Columns, read_frame
from jaxbias.logs.counts import check_counts_options, read_counts, refuse_counts
from jaxbias.logs.delimited import read_text
from jaxbias.logs.errors import LogError
from jaxbias.logs.files import open_file
from jaxbias.logs.header import Wanted, check_renames
from jaxbias.logs.labels import check_arms, choose_trial, read_arms
from jaxbias.logs.notes import Note, NoteKind
from jaxbias.logs.parquet import read_parquet
from jaxbias.logs.periods import batch_by_time, check_unit, read_batch
from jaxbias.logs.values import read_forced, read_propensity, read_rewards, sort_by_time


@dataclasses.dataclass(frozen=True, kw_only=True)
class Log:
    """One experiment as it was recorded.

    Arguments:
        history: NumPy arrays: arms int32, rewards float64, forced bool or None.
        labels: of arm 0, 1, ...
        propensity: (steps,), the recorded probability of the pulled arm; NaN for a forced pull without one.
        batch: (steps,), the batch of each pull.
        name: of the file; "standard input" or "the data frame" where there is none.
        periods: what each batch is called, in order, where they are dates or labels.
        cluster: (steps,), the number of the user, or other cluster, of each pull, from 0, where a column of them was named.
        notes: what reading decided; `jaxbias.reporting.log_notes.describe_note` has the sentence of each.
    """

    history: History
    labels: tuple[str, ...]
    propensity: np.ndarray | None
    batch: np.ndarray | None
    name: str
    notes: tuple[Note, ...] = ()
    periods: tuple[str, ...] | None = None
    cluster: np.ndarray | None = None


def read_log(
    source: Any,
    *,
    columns: Mapping[str, str] | None = None,
    separator: str | None = None,
    decimal: str = ".",
    trial: Any = None,
    first: int | None = None,
    arms: Sequence[Any] | None = None,
    counts: bool | None = None,
    batch_by: Literal["hour", "day", "week", "month"] | None = None,
    cluster: str | None = None,
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
        counts: whether a row is not one pull but what an arm got in a period, with the columns arm, pulls (or users, impressions,
            visitors, ...), and sum or successes (or conversions, clicks, ...); squares, the sum of the squared rewards, period (a
            number, a date or a label), forced and trial if it has them. A period is a batch. Without `counts`, a log that looks
            like counts is refused.
        batch_by: make a batch of the pulls of each hour, day, week or month of the column time, in UTC where it has an offset.
        cluster: the name of a column of users, or other clusters whose rewards may be alike. Without it, a column that looks like
            users and repeats is noted.

    A batch is a number, a date, or any label; batches are in order of time.

    Returns:
        The log, with notes on what reading decided.

    >>> import io
    >>> log = read_log(io.StringIO("time,arm,reward\\n2,red,1.5\\n1,blue,0.5\\n"))
    >>> log.labels, log.history.arms.tolist(), log.history.rewards.tolist()
    (('blue', 'red'), [0, 1], [0.5, 1.5])
    >>> log.notes
    (Note(kind=<NoteKind.ROWS_SORTED: 'rows_sorted'>, values={'column': 'time'}),)
    """
    renames, labels = check_renames(columns, bool(counts)), check_arms(arms)
    check_counts_options(counts, first, batch_by)
    check_unit(batch_by)
    if first is not None and (isinstance(first, bool) or not isinstance(first, int | np.integer) or first < 1):
        raise ArgumentError("first", first, "an integer, 1 or more")
    found, name = _read_columns(source, Wanted(with_cluster(renames, cluster, counts), counts), separator, decimal)
    if not len(found.frame):
        each = "arm and period" if counts else "pull"
        raise LogError(
            subject=found.file, problem="has column names, but no rows", remedy=f"it must have one row for each {each}"
        )
    if counts:
        return _log_of_counts(choose_trial(found, trial), decimal, labels, name)
    found = _first_rows(sort_by_time(choose_trial(found, trial), decimal), first)
    found = found if counts is False else refuse_counts(found, decimal)
    return _make_log(found, decimal, labels, name, batch_by)


def _log_of_counts(columns: Columns, decimal: str, labels: list[str] | None, name: str) -> Log:
    history, arms, batch, periods = read_counts(columns, decimal, labels)
    notes = tuple(columns.notes)
    return Log(history=history, labels=arms, propensity=None, batch=batch, name=name, notes=notes, periods=periods)


def _read_columns(source: Any, wanted: Wanted, separator: str | None, decimal: str) -> tuple[Columns, str]:
    """The needed columns, and the name of the log."""
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise ImportError("reading logs needs pandas; install it with pip install 'jaxbias[cli]'") from error
    _check_marks(separator, decimal)
    if isinstance(source, pd.DataFrame):
        return read_frame(source, wanted), DATA_FRAME
    with open_file(source) as opened:
        if opened.is_parquet:
            return read_parquet(opened, wanted), opened.short_name
        mark = "\t" if separator == "\\t" else separator
        mark = mark or ("\t" if opened.short_name.endswith((".tsv", ".tsv.gz")) else ",")
        return read_text(opened, wanted, mark, decimal), opened.short_name


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


def _make_log(columns: Columns, decimal: str, labels: list[str] | None, name: str, batch_by: str | None) -> Log:
    arms, labels_found = read_arms(columns, labels)
    rewards, forced = read_rewards(columns, decimal), read_forced(columns)
    batch, periods = read_batch(columns, decimal) if batch_by is None else batch_by_time(columns, batch_by)
    cluster = read_cluster(columns)
    return Log(
        history=History(arms=arms, rewards=rewards, num_arms=len(labels_found), forced=forced, batch_sizes=_sizes(batch)),
        labels=labels_found,
        propensity=read_propensity(columns, decimal, arms, forced, batch),
        batch=batch,
        name=name,
        notes=tuple(columns.notes),
        periods=periods,
        cluster=cluster,
    )


def _sizes(batch: np.ndarray | None) -> tuple[int, ...] | None:
    """How many pulls each batch has; None if each has one, because then every choice saw all rewards before it."""
    if batch is None or len(sizes := np.unique(batch, return_counts=True)[1]) == len(batch):
        return None
    return tuple(sizes.tolist())
