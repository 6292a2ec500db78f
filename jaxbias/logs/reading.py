"""Reading a log: an experiment as it was recorded, in a file or a data frame."""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from jaxbias._core.errors import ArgumentError
from jaxbias.history import History
from jaxbias.logs.attaching import weights_of_counts, weights_of_file, weights_of_pulls
from jaxbias.logs.clusters import read_cluster, with_cluster
from jaxbias.logs.columns import DATA_FRAME, Columns, read_frame
from jaxbias.logs.counts import check_counts_options, read_counts, refuse_counts
from jaxbias.logs.delays import as_batch, check_delay_options, read_seen_at
from jaxbias.logs.delimited import read_text
from jaxbias.logs.errors import LogError
from jaxbias.logs.files import open_file
from jaxbias.logs.header import UNUSED, WEIGHTS, Finder, Wanted, check_renames
from jaxbias.logs.labels import check_arms, choose_trial, read_arms
from jaxbias.logs.log import Log
from jaxbias.logs.notes import Note, NoteKind
from jaxbias.logs.parquet import read_parquet
from jaxbias.logs.periods import batch_by_time, check_unit, read_batch
from jaxbias.logs.values import read_forced, read_policy_rewards, read_propensity, read_rewards, sort_by_time
from jaxbias.logs.weights_file import WantedWeights


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
    weights: Any = None,
    delay: int | None = None,
    cluster: str | None = None,
) -> Log:
    """Reads a log: one pull a row, with the columns arm and reward, and batch, propensity, time, forced and trial if it has them.

    Where the probability of every arm was recorded, it may be in columns p_A, p_B, ..., named like the arms with p_ before them,
    or by period in a second file. Of the first pulls, which count as forced otherwise, those with such weights count as choices.

    Also seen_at, when the reward of the row had arrived, in the units of the column time or step: rows that are later had seen
    it, and it is empty where none had; and policy_reward, what the policy learned from where that is not the reward.

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
        weights: a second file or data frame with the weights of each period: a column period, which is the batch of the log, and
            one column for each arm, called like it with or without p_; or the columns period, arm and weight. Weights in the log
            itself are in columns p_ and the label of each arm; `columns={"weights": "prob_"}` if they begin with something else,
            and "" to ignore them. Counts may also have the weight of each row's arm in a column weight.
        batch_by: make a batch of the pulls of each hour, day, week or month of the column time, in UTC where it has an offset.
        delay: how many rows late the policy saw each reward, in place of a column seen_at; 0 where the next choice had seen it.
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
    check_delay_options(delay, counts)
    if first is not None and (isinstance(first, bool) or not isinstance(first, int | np.integer) or first < 1):
        raise ArgumentError("first", first, "an integer, 1 or more")
    found, name = _read_columns(source, Wanted(with_cluster(renames, cluster, counts), counts), separator, decimal)
    if not len(found.frame):
        each = "arm and period" if counts else "pull"
        raise LogError(
            subject=found.file, problem="has column names, but no rows", remedy=f"it must have one row for each {each}"
        )
    named, others = bool(renames.get(WEIGHTS)), ()
    if counts:
        log, others = _log_of_counts(choose_trial(found, trial), decimal, labels, name, named)
    else:
        found = _first_rows(sort_by_time(choose_trial(found, trial), decimal), first)
        found = found if counts is False else refuse_counts(found, decimal)
        log = weights_of_pulls(_make_log(found, decimal, labels, name, batch_by, delay), found, decimal, named)
        if not (hasattr(source, "read") or (isinstance(source, str) and source == "-")):
            again = partial(_read_unused, source, renames, separator=separator, decimal=decimal, trial=trial, first=first)
            log = dataclasses.replace(log, read_unused=again)
    if weights is None:
        return log
    second, _ = _read_columns(weights, WantedWeights(log.labels), separator, decimal)
    return weights_of_file(log, second, decimal, others, cut=first is not None)


def _read_unused(
    source: Any, renames: dict[str, str], *, separator: str | None, decimal: str, trial: Any, first: int | None
) -> dict[str, np.ndarray]:
    """The columns without a role in the same rows: numbers as floats, anything else as it is."""
    found, _ = _read_columns(source, Wanted(renames, counts=False, unused=True), separator, decimal)
    frame = _first_rows(sort_by_time(choose_trial(found, trial), decimal), first).frame
    columns = {role.removeprefix(UNUSED): frame[role] for role in frame.columns if role.startswith(UNUSED)}
    is_number = lambda values: values.dtype.kind in "iuf"
    return {name: np.asarray(values, float if is_number(values) else object) for name, values in columns.items()}


def _log_of_counts(
    columns: Columns, decimal: str, labels: list[str] | None, name: str, named: bool
) -> tuple[Log, tuple[str, ...]]:
    """The log, and its periods without pulls."""
    read = read_counts(columns, decimal, labels)
    notes, given = tuple(columns.notes), {"periods": read.periods, "unused": columns.unused}
    log = Log(history=read.history, labels=read.labels, propensity=None, batch=read.batch, name=name, notes=notes, **given)
    return weights_of_counts(log, read, columns, decimal, named), read.without_pulls


def _read_columns(source: Any, wanted: Finder, separator: str | None, decimal: str) -> tuple[Columns, str]:
    """The needed columns, and the name of the log."""
    try:
        from jaxbias.logs.frames import as_frame
    except ModuleNotFoundError as error:
        raise ImportError("reading logs needs pandas; install it with pip install 'jaxbias[cli]'") from error
    _check_marks(separator, decimal)
    frame = as_frame(source)
    if frame is not None:
        return read_frame(frame, wanted), DATA_FRAME
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


def _make_log(
    columns: Columns, decimal: str, labels: list[str] | None, name: str, batch_by: str | None, delay: int | None
) -> Log:
    arms, labels_found = read_arms(columns, labels)
    rewards, forced = read_rewards(columns, decimal), read_forced(columns)
    batch, periods = read_batch(columns, decimal) if batch_by is None else batch_by_time(columns, batch_by)
    seen_at = read_seen_at(columns, decimal, delay, batch)
    if (by_arrival := as_batch(seen_at)) is not None:
        batch, seen_at = by_arrival, None
    cluster = read_cluster(columns)
    if batch is None and "time" not in columns.frame and _is_grouped(arms):
        columns.notes.append(Note(NoteKind.GROUPED_BY_ARM, {"rows": len(arms)}))
    history = History(
        arms=arms,
        rewards=rewards,
        num_arms=len(labels_found),
        forced=forced,
        policy_rewards=read_policy_rewards(columns, decimal),
        batch_sizes=_sizes(batch),
        seen_at=seen_at,
    )
    return Log(
        history=history,
        labels=labels_found,
        propensity=read_propensity(columns, decimal, arms, forced, batch),
        batch=batch,
        name=name,
        notes=tuple(columns.notes),
        periods=periods,
        unused=columns.unused,
        policy_reward=columns.names.get("policy_reward"),
        cluster=cluster,
    )


def _is_grouped(arms: np.ndarray) -> bool:
    """Whether each of several arms has all of its pulls, two or more, next to each other."""
    _, pulls = np.unique(arms, return_counts=True)
    changes = int((np.diff(arms) != 0).sum())
    return len(pulls) > 1 and int(pulls.min()) > 1 and changes == len(pulls) - 1


def _sizes(batch: np.ndarray | None) -> tuple[int, ...] | None:
    """How many pulls each batch has; None if each has one, because then every choice saw all rewards before it."""
    if batch is None or len(sizes := np.unique(batch, return_counts=True)[1]) == len(batch):
        return None
    return tuple(sizes.tolist())
