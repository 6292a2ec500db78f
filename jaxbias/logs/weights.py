"""Logged weights: the probability of every arm, in one column for each arm (p_A, p_B, ...), checked row by row."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxbias._core.errors import NameOf, Words
from jaxbias.logs.columns import Columns
from jaxbias.logs.errors import LogError, join_names, quote
from jaxbias.logs.header import WEIGHT_OF, WEIGHTS
from jaxbias.logs.notes import Note, NoteKind
from jaxbias.logs.numbers import is_number, to_numbers
from jaxbias.logs.values import first_pulls_of

ROUNDING = 5e-4  # of a weight: logs are written with three digits
PERCENT = (99.0, 101.0)  # what percentages sum to
NUMBER = "a number from 0 to 1"


class WeightTable(NamedTuple):
    """Weights as they are written, one row for each pull or period.

    Fields:
        file: its name in messages.
        values: (rows, arms), NaN where there is no number.
        missing: (rows, arms), where nothing was recorded.
        place: where a cell is, in words, from its row and arm.
        row_place: where a row is.
        written: what a cell has, from its row and arm.
        argument: of the function that reads it, with which it can be left out.
    """

    file: str
    values: np.ndarray
    missing: np.ndarray
    place: Callable[[int, int], str]
    row_place: Callable[[int], str]
    written: Callable[[int, int], Any]
    argument: str


def match_labels(names: Iterable[str], labels: Sequence[str]) -> dict[str, str]:
    """Which of the names stands for each arm: the same text, or else the same in any letter case."""
    names = list(names)
    folded: dict[str, list[str]] = {}
    for name in names:
        folded.setdefault(name.strip().casefold(), []).append(name)
    found = {}
    for label in labels:
        alike = [label] if label in names else folded.get(label.casefold(), [])
        if len(alike) == 1:
            found[label] = alike[0]
    return found


def weight_columns(columns: Columns, decimal: str, labels: Sequence[str], explicit: bool) -> WeightTable | None:
    """The columns of weights, one for each arm, unchecked; None where the log has none."""
    names = [role[len(WEIGHT_OF) :] for role in columns.frame if role.startswith(WEIGHT_OF)]
    matched = match_labels(names, labels)
    if not matched:
        _without_match(columns, names, labels, explicit)
        return None
    _refuse_unmatched(columns, names, matched, labels)
    roles = [WEIGHT_OF + matched[label] for label in labels]
    numbers = [to_numbers(columns.frame[role], decimal) for role in roles]
    rows = columns.frame.index
    return WeightTable(
        file=columns.file,
        values=np.stack([number.values for number in numbers], axis=1),
        missing=np.stack([number.missing for number in numbers], axis=1),
        place=lambda row, arm: f"{columns.file}: column {quote(columns.names[roles[arm]])} in row {rows[row]}",
        row_place=lambda row: f"{columns.file}: row {rows[row]}",
        written=lambda row, arm: columns.frame[roles[arm]].iloc[row],
        argument=f"columns.{WEIGHTS}",
    )


def _without_match(columns: Columns, names: list[str], labels: Sequence[str], explicit: bool) -> None:
    if explicit:
        problem = f"has no column of weights for {join_names(map(quote, labels))}"
        remedy = lambda name: f"{name(f'columns.{WEIGHTS}')} is how their names begin, before the label of an arm"
        raise LogError(f"columns.{WEIGHTS}", subject=columns.file, problem=problem, remedy=remedy)
    if len(names) > 1:
        named = tuple(columns.names[WEIGHT_OF + name] for name in names)
        columns.notes.append(Note(NoteKind.WEIGHTS_NOT_READ, {"columns": named}))


def _refuse_unmatched(columns: Columns, names: list[str], matched: dict[str, str], labels: Sequence[str]) -> None:
    ignore = lambda name: f"to ignore the columns of weights, set {name(f'columns.{WEIGHTS}')} to ''"
    for name in names:
        if name not in matched.values():
            where = f"{columns.file}: column {quote(columns.names[WEIGHT_OF + name])}"
            problem = f"is the weight of an arm {quote(name)}, which no row has"
            remedy = lambda name_of: f"if it was never pulled, give all labels with {name_of('arms')}; {ignore(name_of)}"
            raise LogError(f"columns.{WEIGHTS}", subject=where, problem=problem, remedy=remedy)
    absent = [label for label in labels if label not in matched]
    if absent:
        there = columns.names[WEIGHT_OF + next(iter(matched.values()))]
        problem = f"has column {quote(there)}, but no column with the weights of {join_names(map(quote, absent))}"
        raise LogError(f"columns.{WEIGHTS}", subject=columns.file, problem=problem, remedy=ignore)


def check_table(table: WeightTable) -> np.ndarray:
    """The weights, each row with the sum one; NaN in rows that are empty."""
    values, empty = table.values, np.all(table.missing, axis=1)
    refuse_cells(table, ~np.isfinite(values) & ~np.expand_dims(empty, 1), NUMBER)
    refuse_cells(table, values < 0, NUMBER)
    total = values.sum(axis=1)
    as_percent = (total >= PERCENT[0]) & (total <= PERCENT[1])
    large = values > 1
    if (large.any(axis=1) & as_percent).sum() * 2 > large.any(axis=1).sum():
        refuse_cells(table, large & as_percent[:, None], NUMBER, "these are percentages: divide the weights by 100")
    refuse_cells(table, large, NUMBER)
    tolerance = max(2, values.shape[1]) * ROUNDING
    off = ~empty & ~(np.abs(total - 1) <= tolerance)
    if off.any():
        row = int(np.flatnonzero(off)[0])
        others = _others(int(off.sum()) - 1)
        problem = f"has weights that sum to {total[row]:.6g}"
        remedy = lambda name: "; ".join(["they must sum to 1", *others, _ignore(table)(name)])
        raise LogError(table.argument, subject=table.row_place(row), problem=problem, remedy=remedy)
    return values / np.where(empty, 1, total)[:, None]


def _others(number: int) -> list[str]:
    return [f"{number:,} other {'row has' if number == 1 else 'rows have'} the same problem"] if number else []


def _ignore(table: WeightTable) -> Callable[[NameOf], str]:
    if table.argument == WEIGHTS:
        return lambda name: f"correct the file, or leave out {name(WEIGHTS)}"
    return lambda name: f"to ignore the columns of weights, set {name(table.argument)} to ''"


def refuse_cells(table: WeightTable, wrong: np.ndarray, allowed: Words, remedy: str = "", problem: str = "") -> None:
    """Raises for the first row with a cell that is wrong."""
    if not wrong.any():
        return
    row, arm = (int(place) for place in np.argwhere(wrong)[0])
    written = table.written(row, arm)
    parts = [*_others(int(wrong.any(axis=1).sum()) - 1), *([remedy] if remedy else [])]
    raise LogError(
        table.argument,
        written,
        allowed,
        subject=table.place(row, arm),
        problem=f"is {quote(written)}{problem}",
        remedy=lambda name: "; ".join([*parts, *_commas(written, name), _ignore(table)(name)]),
    )


def _commas(written: Any, name_of: NameOf) -> list[str]:
    has_comma = isinstance(written, str) and "," in written and is_number(written.strip().replace(",", "."))
    return [f"to read decimal commas, set {name_of('decimal')} to ','"] if has_comma else []


class Weighted(NamedTuple):
    """Weights that agree with the pulls.

    Fields:
        weights: (steps, arms), or (batches, arms).
        forced: (steps,), the pulls that these weights did not choose.
    """

    weights: np.ndarray
    forced: np.ndarray


def settle_weights(
    table: WeightTable,
    arms: np.ndarray,
    batch: np.ndarray | None,
    forced: np.ndarray | None,
    which: np.ndarray,
    labels: Sequence[str],
) -> Weighted:
    """The weights, and which pulls were forced.

    Without a column that says it, of the pulls that could have been (the first of each arm, or the first batch) those without
    weights, and those whose arm had weight 1 or 0: any other weight says that the pull was a choice.

    Arguments:
        table: unchecked.
        arms, batch, forced: (steps,), of the log.
        which: (steps,), the row of the table for each step.
        labels: of the arms.
    """
    weights = check_table(table)
    chosen = weights[which, arms]
    empty, could_be = np.isnan(chosen), forced
    if could_be is None:
        could_be = first_pulls_of(arms) if batch is None else batch == batch[0]
        forced = could_be & (empty | (chosen == 1) | (chosen == 0))
    _refuse_empty(table, which[empty & ~could_be])
    cells = np.zeros(weights.shape, bool)
    wrong = (chosen == 0) & ~could_be
    cells[which[wrong], arms[wrong]] = True
    if cells.any():
        arm = labels[int(np.argwhere(cells)[0, 1])]
        remedy = "mark the pull in a column 'forced' if no weight chose it"
        refuse_cells(table, cells, "above 0 for an arm that is pulled", remedy, f", and {quote(arm)} is pulled there")
    assert forced is not None
    return Weighted(weights, forced)


def _refuse_empty(table: WeightTable, rows: np.ndarray) -> None:
    if not len(rows):
        return
    parts = ["only forced pulls may be without", *_others(len(np.unique(rows)) - 1)]
    remedy = lambda name: "; ".join([*parts, _ignore(table)(name)])
    raise LogError(table.argument, subject=table.row_place(int(rows.min())), problem="has no weights", remedy=remedy)


def check_propensity(table: WeightTable, chosen: np.ndarray, propensity: np.ndarray | None, column: str) -> None:
    """Refuses a column of propensities that is not the weight of the pulled arm."""
    if propensity is None:
        return
    off = np.abs(chosen - propensity) > 2 * ROUNDING
    if off.any():
        row = int(np.flatnonzero(off)[0])
        problem = f"has {propensity[row]:.6g} in column {quote(column)}, and a weight of {chosen[row]:.6g} for the arm it pulls"
        remedy = lambda name: "; ".join([*_others(int(off.sum()) - 1), _ignore(table)(name)])
        raise LogError(table.argument, subject=table.row_place(row), problem=problem, remedy=remedy)
