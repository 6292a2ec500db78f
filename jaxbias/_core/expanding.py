"""Counts as rows: pulls, sums and sums of squares of each arm and period, expanded into rewards that have the same.

Of 0/1 rewards the counts say everything but the order. Of other rewards the rows are not the real ones: half of them lie above
and half below the mean of their arm and period, so that their sum and their sum of squares are those of the real ones.
"""

from typing import Any, NamedTuple

import numpy as np

from jaxbias._core.errors import ArgumentError

MOST_PULLS = 2**26  # rows in memory: a gigabyte with their arms and rewards
ROUNDING = 1e-9  # relative: how far sums written with ten digits may be from adding up


class Counts(NamedTuple):
    """What each arm got in each period, (periods, arms).

    Fields:
        pulls: how often the arm was pulled.
        total: the sum of its rewards.
        squares: the sum of their squares, where it is known.
        binary: whether every reward is 0 or 1.
    """

    pulls: np.ndarray
    total: np.ndarray
    squares: np.ndarray | None
    binary: bool


class Rows(NamedTuple):
    """The rows of counts: (steps,) arms and rewards, and the number of steps of each period."""

    arms: np.ndarray
    rewards: np.ndarray
    sizes: tuple[int, ...]


def check_counts(pulls: Any, total: Any, successes: Any, squares: Any) -> Counts:
    """Counts as arrays of (periods, arms), refused where they do not add up."""
    if (total is None) == (successes is None):
        problem = "is given with successes" if total is not None else "is None, and so is successes"
        raise ArgumentError("total", total, problem=problem, remedy="give one of them")
    if squares is not None and successes is not None:
        raise ArgumentError("squares", squares, "None with successes, whose squares are the same", problem="is given")
    given = np.asarray(pulls, np.float64)
    if given.ndim not in (1, 2) or given.size == 0:
        raise ArgumentError("pulls", given, "of shape (arms,) or (periods, arms)", problem=f"has shape {given.shape}")
    counts = np.atleast_2d(given)
    _refuse("pulls", counts, (counts < 0) | (counts != np.floor(counts)) | ~np.isfinite(counts), "a whole number, 0 or more")
    if not 0 < counts.sum() <= MOST_PULLS:
        raise ArgumentError("pulls", counts.sum(), f"from 1 to {MOST_PULLS:,} in all", problem=f"sums to {counts.sum():,.0f}")
    name = "total" if successes is None else "successes"
    sums = _like(name, total if successes is None else successes, given)
    _refuse(name, sums, ~np.isfinite(sums), "a finite number")
    _refuse(name, sums, (counts == 0) & (sums != 0), "0 where there are no pulls")
    if successes is not None:
        wrong = (sums < 0) | (sums > counts) | (sums != np.floor(sums))
        _refuse(name, sums, wrong, "a whole number from 0 to the pulls")
    second = None if squares is None else _like("squares", squares, given)
    if second is not None:
        least = np.square(sums) / np.maximum(counts, 1)
        wrong = ~(second >= least * (1 - ROUNDING)) | ~np.isfinite(second)
        _refuse("squares", second, wrong, "at least the squared sum over the pulls")
        alone = (counts <= 1) & (second > least * (1 + ROUNDING) + ROUNDING)
        _refuse("squares", second, alone, "the square of the only reward, where there is one pull")
    whole = (sums == np.floor(sums)) & (sums >= 0) & (sums <= counts)
    binary = successes is not None or (second is not None and bool(whole.all()) and np.array_equal(second, sums))
    return Counts(counts.astype(np.int64), sums, None if binary else second, binary)


def _like(name: str, values: Any, pulls: np.ndarray) -> np.ndarray:
    found = np.asarray(values, np.float64)
    if found.shape != pulls.shape:
        raise ArgumentError(name, found, f"of the shape of pulls, {pulls.shape}", problem=f"has shape {found.shape}")
    return np.atleast_2d(found)


def _refuse(name: str, values: np.ndarray, wrong: np.ndarray, allowed: str) -> None:
    if wrong.any():
        period, arm = np.argwhere(wrong)[0]
        value = values[period, arm]
        raise ArgumentError(name, value, allowed, problem=f"is {value:g} for arm {arm} in period {period}")


def expand_counts(counts: Counts) -> Rows:
    """Rows with these pulls, sums and squares, period by period and in it arm by arm; periods without a pull are left out."""
    kept = counts.pulls.sum(axis=1) > 0
    pulls, total = counts.pulls[kept].ravel(), counts.total[kept].ravel()
    arms = np.tile(np.arange(counts.pulls.shape[1], dtype=np.int32), int(kept.sum()))
    count = np.maximum(pulls, 1)
    place = np.arange(pulls.sum()) - np.repeat(np.cumsum(pulls) - pulls, pulls)  # of a row among those of its arm and period
    if counts.squares is not None:
        mean, paired = total / count, pulls - pulls % 2
        spread = np.maximum(counts.squares[kept].ravel() - np.square(total) / count, 0)
        deviation = np.sqrt(spread / np.maximum(paired, 1))
        side = np.where(place < np.repeat(paired // 2, pulls), 1, np.where(place < np.repeat(paired, pulls), -1, 0))
        rewards = np.repeat(mean, pulls) + side * np.repeat(deviation, pulls)
    elif np.array_equal(total, np.floor(total)):
        least = np.floor(total / count)  # whole numbers next to each other: for successes 0 and 1
        rewards = np.repeat(least, pulls) + (place < np.repeat(total - least * count, pulls))
    else:
        rewards = np.repeat(total / count, pulls)
    sizes = tuple(int(size) for size in counts.pulls[kept].sum(axis=1))
    return Rows(np.repeat(arms, pulls), rewards.astype(np.float64), sizes)
