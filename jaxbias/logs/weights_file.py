"""Weights by period in a file of their own: the period and one column for each arm, or a row for each arm and period."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from jaxbias.logs.columns import Columns
from jaxbias.logs.errors import LogError, join_names, quote
from jaxbias.logs.header import PREFIX, WEIGHTS, positions, synonym_positions
from jaxbias.logs.labels import as_label
from jaxbias.logs.notes import Note
from jaxbias.logs.numbers import to_numbers
from jaxbias.logs.periods import read_periods
from jaxbias.logs.weights import WeightTable, match_labels

WEEK = "week of "  # how `batch_by="week"` calls a period
SHAPES = "a column period, and one column for each arm or the columns arm and weight"


class WantedWeights(NamedTuple):
    """Which columns a file of weights has.

    Fields:
        labels: of the arms.
        prefix: how the name of a column may begin, before the label of an arm.
    """

    labels: tuple[str, ...]
    prefix: str = PREFIX

    @property
    def required(self) -> list[str]:
        """The names without which it is no such file."""
        return ["period"]

    def find(self, file: str, header: Sequence[str]) -> tuple[dict[str, int], list[Note]]:
        """The position of each column. The role arm is that of the labels, which are read as text; or else of the periods."""
        period = positions(header, "period") or synonym_positions(header, "period")
        if len(period) != 1:
            count = f"{len(period)} columns of periods" if period else "no column 'period'"
            raise self._refused(file, header, f"has {count}")
        arm, weight = positions(header, "arm"), positions(header, "weight") or synonym_positions(header, "weight")
        if arm and weight:
            return {"arm": arm[0], "period": period[0], "weight": weight[0]}, []
        rest = {place: self._label(column) for place, column in enumerate(header) if place != period[0] and column.strip()}
        matched = match_labels(rest.values(), self.labels)
        for place, name in rest.items():
            if name not in matched.values():
                arms = f"the arms are {join_names(self.labels)}"
                raise self._refused(file, header, f"has a column {quote(header[place])}, which no arm is called; {arms}")
        absent = [label for label in self.labels if label not in matched]
        if absent:
            raise self._refused(file, header, f"has no weights of {join_names(map(quote, absent))}")
        if len(rest) > len(matched):
            raise self._refused(file, header, "has two columns for one arm")
        by_name = {name: place for place, name in rest.items()}
        found = {label: by_name[matched[label]] for label in self.labels}
        return {"arm": period[0], "period": period[0], **{_role(label): place for label, place in found.items()}}, []

    def _label(self, column: str) -> str:
        name = column.strip()
        named = match_labels([name], self.labels)
        if not named and self.prefix and name.casefold().startswith(self.prefix.casefold()):
            return name[len(self.prefix) :]
        return name

    def _refused(self, file: str, header: Sequence[str], problem: str) -> LogError:
        listed = f"its columns are {join_names(filter(str.strip, header))}"
        return LogError(WEIGHTS, subject=file, problem=problem, remedy=f"{listed}; it must have {SHAPES}")


def _role(label: str) -> str:
    return f"weight of {label}"


class Periods(NamedTuple):
    """The periods of a log, for which weights are looked up.

    Fields:
        names: of each batch, in order.
        others: of periods without pulls, whose weights are not needed.
        cut: whether the log was cut to its first rows, so that the file may have later periods.
    """

    names: tuple[str, ...]
    others: tuple[str, ...] = ()
    cut: bool = False


def table_by_period(columns: Columns, decimal: str, labels: Sequence[str], periods: Periods) -> WeightTable:
    """The weights of every batch of the log, unchecked; a batch that the file does not have is an empty row."""
    in_rows = "weight" in columns.frame
    cells = _cells(columns, decimal, labels, periods, _arms_of_rows(columns, labels) if in_rows else None)
    roles = ["weight" if in_rows else _role(label) for label in labels]
    numbers = {role: to_numbers(columns.frame[role], decimal) for role in set(roles)}
    values, missing = np.full(cells.shape, np.nan), np.ones(cells.shape, bool)
    for arm, role in enumerate(roles):
        there = cells[:, arm] >= 0
        values[there, arm] = numbers[role].values[cells[there, arm]]
        missing[there, arm] = numbers[role].missing[cells[there, arm]]
    name_of = lambda number: f"{columns.file}: period {quote(periods.names[number])}"

    def place_of(number: int, arm: int) -> str:
        row = int(cells[number, arm])
        return f"{name_of(number)}: the weight of {quote(labels[arm])}" if row < 0 else _where(columns, roles[arm], row)

    def written_at(number: int, arm: int) -> Any:
        row = int(cells[number, arm])
        return None if row < 0 else columns.frame[roles[arm]].iloc[row]

    return WeightTable(columns.file, values, missing, place_of, name_of, written_at, WEIGHTS)


def _cells(
    columns: Columns, decimal: str, labels: Sequence[str], periods: Periods, arms: np.ndarray | None
) -> Int[np.ndarray, "batches arms"]:
    """The row of the file for each batch and arm, -1 where there is none; `arms` is that of each row, or None for all arms."""
    try:
        order, written, _ = read_periods(columns, "period", decimal)
    except LogError as error:  # its remedy is that of a log, whose periods can be ignored
        raise LogError(WEIGHTS, error.value, error.allowed, subject=error.subject, problem=error.problem) from error
    names = order.astype(np.int64).astype(str) if written is None else written
    keys = [period_key(name) for name in names]
    known = {period_key(name): number for number, name in enumerate(periods.names)}
    _refuse_unknown(columns, keys, known, periods)
    cells = np.full((len(periods.names), len(labels)), -1)
    for row, key in enumerate(keys):
        if key not in known:
            continue
        place = (known[key], slice(None) if arms is None else int(arms[row]))
        if np.any(cells[place] >= 0):
            each = "" if arms is None else f" for arm {quote(labels[int(arms[row])])}"
            problem = f"is {quote(names[row])}, which an earlier row has{each}"
            raise LogError(WEIGHTS, subject=_where(columns, "period", row), problem=problem, remedy="keep one of them")
        cells[place] = row
    return cells


def _where(columns: Columns, role: str, row: int) -> str:
    return f"{columns.file}: column {quote(columns.names[role])} in row {columns.frame.index[row]}"


def _refuse_unknown(columns: Columns, keys: list[Any], known: dict[Any, int], periods: Periods) -> None:
    others = {period_key(name) for name in periods.others}
    for row, key in enumerate(keys):
        if key not in known and key not in others and not periods.cut:
            value = columns.frame["period"].iloc[row]
            problem = f"is {quote(value)}, a period that the log does not have"
            remedy = f"the periods of the log are {join_names(periods.names)}"
            raise LogError(WEIGHTS, subject=_where(columns, "period", row), problem=problem, remedy=remedy)


def _arms_of_rows(columns: Columns, labels: Sequence[str]) -> np.ndarray:
    """The number of the arm in each row."""
    written = [as_label(value) for value in columns.frame["arm"].astype(object)]
    number = {label: arm for arm, label in enumerate(labels)}
    matched = {name: label for label, name in match_labels(set(written), labels).items()}
    for row, name in enumerate(written):
        if name not in matched:
            problem = f"is {quote(columns.frame['arm'].iloc[row])}, which no arm of the log is called"
            remedy = f"the arms are {join_names(labels)}"
            raise LogError(WEIGHTS, subject=_where(columns, "arm", row), problem=problem, remedy=remedy)
    return np.array([number[matched[name]] for name in written])


def period_key(name: str) -> Any:
    """A period in a form in which two ways to write it are equal.

    >>> period_key("2024-01-31") == period_key("2024-01-31 00:00:00"), period_key("07") == period_key("7"), period_key(" May ")
    (True, True, 'May')
    """
    import pandas as pd

    text = str(name).strip().removeprefix(WEEK)
    try:
        return int(float(text)) if float(text).is_integer() else text
    except (ValueError, OverflowError):
        stamp = pd.to_datetime(text, format="ISO8601", utc=True, errors="coerce")
        return text if stamp is pd.NaT else str(stamp)
