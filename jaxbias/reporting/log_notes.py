"""The sentences for what reading a log decided."""

from collections.abc import Callable
from typing import Any

from jaxbias.logs.errors import join_names, quote
from jaxbias.logs.notes import Note, NoteKind


def describe_note(note: Note) -> str:
    """One sentence.

    >>> describe_note(Note(NoteKind.ROWS_SORTED, {"column": "time"}))
    "The rows were sorted by column 'time'."
    """
    return _SENTENCES[note.kind](**note.values)


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _blanks_removed(count: int) -> str:
    return f"Blanks around {_count(count, 'label', 'labels')} were removed."


def _unused_categories(count: int) -> str:
    return f"{_count(count, 'category has no rows and was', 'categories have no rows and were')} left out of the arms."


def _grouped_by_arm(rows: int) -> str:
    said = f"The {rows:,} rows have all pulls of one arm, then all of the next, and no column time"
    return f"{said}. If the log was sorted by arm, put its rows back in the order of the pulls: the corrections depend on it."


def _from_booleans(count: int) -> str:
    return f"{_count(count, 'reward was', 'rewards were')} true or false; true was read as 1 and false as 0."


def _counts_read(pulls: int, periods: int) -> str:
    return f"{_count(pulls, 'pull', 'pulls')} in {_count(periods, 'period', 'periods')} were read from counts."


def _one_period(pulls: int) -> str:
    said = f"The counts have no periods, so their {_count(pulls, 'pull was', 'pulls were')} read as one batch"
    return f"{said}: nothing inside it can have been adaptive, and there is nothing to correct."


def _said_chosen(count: int) -> str:
    first = "of the first pulls has" if count == 1 else "of the first pulls have"
    return f"{count:,} {first} weights, and {'counts as a choice' if count == 1 else 'count as choices'}, not as forced."


def _ids_repeat(column: str, ids: int, rows: int) -> str:
    said = f"Column {quote(column)} has {_count(ids, 'value', 'different values')} in {_count(rows, 'row', 'rows')}"
    given = f"name it with --cluster (in Python, cluster={column!r})"
    return f"{said}. If the rewards of one are alike, the intervals are too narrow; to allow for it, {given}."


_SENTENCES: dict[NoteKind, Callable[..., Any]] = {
    NoteKind.COLUMN_MATCHED: lambda column, name: f"Column {quote(column)} was read as {quote(name)}.",
    NoteKind.EMPTY_ROWS_SKIPPED: lambda count: f"{_count(count, 'empty row was', 'empty rows were')} skipped.",
    NoteKind.BLANKS_REMOVED: _blanks_removed,
    NoteKind.UNUSED_CATEGORIES: _unused_categories,
    NoteKind.LABELS_DIFFER_IN_CASE: lambda labels: (
        f"Labels {join_names(map(quote, labels))} differ only in letter case; they were read as different arms."
    ),
    NoteKind.LABELS_ALIKE: lambda labels: (
        f"Labels {join_names(map(ascii, labels))} are almost the same; they were read as different arms."
    ),
    NoteKind.GROUPED_BY_ARM: _grouped_by_arm,
    NoteKind.REWARDS_FROM_BOOLEANS: _from_booleans,
    NoteKind.ROWS_SORTED: lambda column: f"The rows were sorted by column {quote(column)}.",
    NoteKind.BATCHES_BY: lambda unit, count: (
        f"The times were grouped into {_count(count, 'batch', 'batches')}, one for each {unit}."
    ),
    NoteKind.COUNTS_READ: _counts_read,
    NoteKind.ONE_PERIOD: _one_period,
    NoteKind.WEIGHTS_NOT_READ: lambda columns: (
        f"Columns {join_names(map(quote, columns))} were not read as weights: no arm is called like what follows p_."
    ),
    NoteKind.WEIGHTS_SAY_CHOSEN: _said_chosen,
    NoteKind.NEVER_SEEN: lambda count: (
        f"{_count(count, 'reward has', 'rewards have')} no time of arrival: no choice had seen {'it' if count == 1 else 'them'}."
    ),
    NoteKind.IDS_REPEAT: _ids_repeat,
    NoteKind.FEWER_ROWS: lambda rows, first: f"The log has {_count(rows, 'row', 'rows')}, fewer than the first {first:,}.",
}
