"""Counts: one row for each arm and period, with how often the arm was pulled and what its rewards sum to."""

from typing import Any, NamedTuple

import numpy as np

from jaxbias._core.errors import ArgumentError, NameOf
from jaxbias._core.expanding import MOST_PULLS, ROUNDING
from jaxbias.history import History
from jaxbias.logs.columns import Columns
from jaxbias.logs.errors import LogError, quote
from jaxbias.logs.labels import read_arms
from jaxbias.logs.notes import Note, NoteKind
from jaxbias.logs.numbers import to_numbers
from jaxbias.logs.periods import read_periods
from jaxbias.logs.values import LARGEST_INTEGER, read_forced, refuse_rows

FAR_ABOVE_ONE = 10.0  # the median of whole rewards from which one row for each arm and period is more likely a sum than a pull
SUSPECTS = ("suspect_pulls", "suspect_period")


class CountsRead(NamedTuple):
    """Counts as a history.

    Fields:
        history: with a batch for each period.
        labels: of the arms.
        batch: (steps,), the number of the period of each step.
        periods: what each period is called; None where there is one without a name.
        row_batch: (rows,), the number of the batch of each row; -1 in a period without pulls.
        row_arm: (rows,), the number of its arm.
        without_pulls: what the periods without pulls are called.
    """

    history: History
    labels: tuple[str, ...]
    batch: np.ndarray
    periods: tuple[str, ...] | None
    row_batch: np.ndarray
    row_arm: np.ndarray
    without_pulls: tuple[str, ...]


def read_counts(columns: Columns, decimal: str, arms: list[str] | None) -> CountsRead:
    """The history that counts stand for."""
    numbers, labels = read_arms(columns, arms)
    pulls, sums, squares = (_read_values(columns, role, decimal) for role in ("pulls", _sums(columns), "squares"))
    assert pulls is not None
    assert sums is not None
    _check_pulls(columns, pulls)
    _check_sums(columns, pulls, sums, squares)
    which, names = _read_periods(columns, decimal)
    _refuse_repeated(columns, numbers, which)
    shape = (int(which.max()) + 1, len(labels))
    place = lambda values: _cells(shape, which, numbers, values)
    by_row = read_forced(columns)
    is_binary = "successes" in columns.frame
    history = History.from_counts(
        place(pulls),
        None if is_binary else place(sums),
        successes=place(sums) if is_binary else None,
        squares=None if squares is None else place(squares),
        forced=None if by_row is None else _forced_periods(columns, which, by_row),
    )
    sizes = place(pulls).sum(axis=1)
    kept = np.flatnonzero(sizes > 0)
    kind = NoteKind.ONE_PERIOD if names is None else NoteKind.COUNTS_READ
    values = {"pulls": int(sizes.sum())} | ({} if names is None else {"periods": len(kept)})
    columns.notes.append(Note(kind, values))
    batch = np.repeat(kept, sizes[kept].astype(int))
    place_of = np.full(len(sizes), -1)
    place_of[kept] = np.arange(len(kept))
    called = None if names is None else tuple(names[number] for number in kept)
    without = () if names is None else tuple(names[number] for number in np.flatnonzero(sizes == 0))
    return CountsRead(history, labels, batch, called, place_of[which], numbers, without)


def _sums(columns: Columns) -> str:
    return "successes" if "successes" in columns.frame else "sum"


def _read_values(columns: Columns, role: str, decimal: str) -> np.ndarray | None:
    if role not in columns.frame:
        return None
    values = to_numbers(columns.frame[role], decimal).values
    refuse_rows(columns, role, ~np.isfinite(values), "a finite number")
    return values


def _check_pulls(columns: Columns, pulls: np.ndarray) -> None:
    wrong = (pulls < 0) | (pulls != np.floor(pulls)) | (pulls > LARGEST_INTEGER)
    refuse_rows(columns, "pulls", wrong, "a whole number, 0 or more")
    if not 0 < pulls.sum() <= MOST_PULLS:
        where = f"{columns.file}: column {quote(columns.names['pulls'])}"
        problem, allowed = f"sums to {pulls.sum():,.0f}", f"from 1 to {MOST_PULLS:,} in all"
        raise LogError("columns.pulls", subject=where, problem=problem, allowed=allowed)


def _check_sums(columns: Columns, pulls: np.ndarray, sums: np.ndarray, squares: np.ndarray | None) -> None:
    """Refuses counts that do not add up."""
    role = _sums(columns)
    refuse_rows(columns, role, (pulls == 0) & (sums != 0), "0 where there are no pulls")
    if role == "successes":
        remedy = lambda name: f"if these are sums, name the column with {name('columns.sum')}"
        wrong = (sums < 0) | (sums > pulls) | (sums != np.floor(sums))
        refuse_rows(columns, role, wrong, "a whole number from 0 to the pulls", remedy)
        if squares is not None:
            where = f"{columns.file}: column {quote(columns.names['squares'])}"
            ignore = lambda name: f"to ignore this column, set {name('columns.squares')} to ''"
            problem = "is not needed beside successes, whose squares are the same"
            raise LogError("columns.squares", subject=where, problem=problem, remedy=ignore)
    if squares is not None:
        least = np.square(sums) / np.maximum(pulls, 1)
        refuse_rows(columns, "squares", squares < least * (1 - ROUNDING), "at least the squared sum over the pulls")
        alone = (pulls <= 1) & (squares > least * (1 + ROUNDING) + ROUNDING)
        refuse_rows(columns, "squares", alone, "the square of the sum where there is one pull")


def _read_periods(columns: Columns, decimal: str) -> tuple[np.ndarray, list[str] | None]:
    """The number of each row's period, in order of time, and what the periods are called."""
    if "period" not in columns.frame:
        return np.zeros(len(columns.frame), int), None
    order, labels, _ = read_periods(columns, "period", decimal)
    _, first, which = np.unique(order, return_index=True, return_inverse=True)
    written = order.astype(np.int64).astype(str) if labels is None else labels
    return which, written[first].tolist()


def _refuse_repeated(columns: Columns, arms: np.ndarray, which: np.ndarray) -> None:
    import pandas as pd

    again = pd.DataFrame({"arm": arms, "period": which}).duplicated().to_numpy()

    def remedy(name: NameOf) -> str:
        period = "" if "period" in columns.frame else f", or name their period with {name('columns.period')}"
        return f"sum the rows of an arm{period}, or if each row is one pull, leave out {name('counts')}"

    allowed = "in one row" if "period" not in columns.frame else "in one row of each period"
    refuse_rows(columns, "arm", again, allowed, remedy)


def _cells(shape: tuple[int, int], which: np.ndarray, arms: np.ndarray, values: np.ndarray) -> np.ndarray:
    cells = np.zeros(shape)
    cells[which, arms] = values
    return cells


def _forced_periods(columns: Columns, which: np.ndarray, by_row: np.ndarray) -> np.ndarray:
    """Whether each period was forced: the same for all its arms."""
    some, all_of_it = np.zeros(which.max() + 1, bool), np.ones(which.max() + 1, bool)
    np.logical_or.at(some, which, by_row)
    np.logical_and.at(all_of_it, which, by_row)
    refuse_rows(columns, "forced", (some != all_of_it)[which], "the same for all arms of a period")
    return some


def refuse_counts(columns: Columns, decimal: str) -> Columns:
    """The columns of a log of pulls, refused where its rows look like counts that were not declared."""
    column = _looks_like_counts(columns, decimal)
    if column is not None:
        remedy = lambda name: f"give {name('counts')} if they are, or {name('no_counts')} if each row is one pull"
        problem = f"has one row for each arm and period, and column {quote(column)} looks like counts"
        raise LogError("counts", subject=columns.file, problem=problem, remedy=remedy)
    present = [role for role in SUSPECTS if role in columns.frame]
    names = {role: name for role, name in columns.names.items() if role not in SUSPECTS}
    return columns._replace(frame=columns.frame.drop(columns=present), names=names) if present else columns


def _looks_like_counts(columns: Columns, decimal: str) -> str | None:
    """The column that suggests counts: how many pulls there were, or rewards that are whole and far above 1."""
    frame = columns.frame
    pulls = to_numbers(frame["suspect_pulls"], decimal).values if "suspect_pulls" in frame else None
    rewards = to_numbers(frame["reward"], decimal).values
    many = pulls is not None and _is_whole(pulls) and pulls.max() > 1 and not _is_row_number(pulls)
    large = _is_whole(rewards) and float(np.median(rewards)) >= FAR_ABOVE_ONE
    if not (many or large) or not _is_one_row_each(frame, alone=many):
        return None
    return columns.names["suspect_pulls" if many else "reward"]


def _is_whole(values: np.ndarray) -> bool:
    return bool(np.isfinite(values).all() and (values >= 0).all() and (values == np.floor(values)).all())


def _is_row_number(values: np.ndarray) -> bool:
    return len(values) > 1 and bool((np.diff(values) == 1).all())


def _is_one_row_each(frame: Any, alone: bool) -> bool:
    """Whether no arm has two rows in a period, and most periods have several arms; or without periods, each arm one row."""
    period = next((role for role in ("batch", "suspect_period", "time") if role in frame), None)
    if period is None:
        return alone and not frame["arm"].duplicated().any()
    cells = frame[["arm", period]]
    shared = cells[period].map(cells[period].value_counts()) > 1
    return not cells.duplicated().any() and float(shared.mean()) > 0.5


def check_counts_options(counts: bool | None, first: int | None, batch_by: str | None) -> None:
    """Refuses options that counts do not have."""
    if counts and first is not None:
        raise ArgumentError("first", first, "None with counts, which have no order of rows")
    if counts and batch_by is not None:
        raise ArgumentError("batch_by", batch_by, "None with counts, whose periods are the batches")
