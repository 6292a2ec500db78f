"""The values of a log, each column checked row by row."""

from typing import Any

import numpy as np

from jaxbias._core.errors import NameOf, Words
from jaxbias.logs.columns import Columns
from jaxbias.logs.errors import LogError, quote
from jaxbias.logs.header import NEEDED_OF_COUNTS, REQUIRED
from jaxbias.logs.notes import Note, NoteKind
from jaxbias.logs.numbers import is_number, to_numbers

LARGEST_INTEGER = 2.0**53  # up to here float64 has every integer


def refuse_rows(
    columns: Columns, role: str, wrong: Any, allowed: Words, remedy: Words = "", *, problem: str = "", key: str | None = None
) -> None:
    """Raises for the first row that is wrong, with its number, its value and how many others there are.

    Arguments:
        wrong: (rows,), which rows.
        allowed: what the value must be; it completes "it must be ...".
        remedy: what else to do.
        problem: what else is wrong beside the value.
        key: of the setting that names the column, where that is not its role.
    """
    key, wrong = key or role, np.asarray(wrong)
    if not wrong.any():
        return
    places = np.flatnonzero(wrong)
    place = places[np.argmin(columns.frame.index.to_numpy()[places])]
    value = columns.frame[role].iloc[place]
    raise LogError(
        f"columns.{key}",
        value,
        allowed,
        subject=f"{columns.file}: column {quote(columns.names[role])} in row {columns.frame.index[place]}",
        problem=f"is {quote(value)}{problem}",
        remedy=lambda name_of: "; ".join(_remedies(key, value, len(places) - 1, remedy, name_of)),
    )


def _remedies(role: str, value: Any, others: int, remedy: Words, name_of: NameOf) -> list[str]:
    found = [f"{others:,} other {'row has' if others == 1 else 'rows have'} the same problem"] if others else []
    found += [remedy if isinstance(remedy, str) else remedy(name_of)] if remedy else []
    if isinstance(value, str) and "," in value and is_number(value.strip().replace(",", ".")):
        found.append(f"to read decimal commas, set {name_of('decimal')} to ','")
    if role not in REQUIRED + NEEDED_OF_COUNTS:
        found.append(f"to ignore this column, set {name_of(f'columns.{role}')} to ''")
    return found


def read_rewards(columns: Columns, decimal: str) -> np.ndarray:
    """The rewards, which must be finite."""
    numbers = to_numbers(columns.frame["reward"], decimal)
    refuse_rows(columns, "reward", ~np.isfinite(numbers.values), "a finite number")
    if numbers.num_booleans:
        columns.notes.append(Note(NoteKind.REWARDS_FROM_BOOLEANS, {"count": numbers.num_booleans}))
    return np.array(numbers.values)  # a copy, so that the other columns can be freed


def read_policy_rewards(columns: Columns, decimal: str) -> np.ndarray | None:
    """What the policy learned from, where that is not the reward."""
    if "policy_reward" not in columns.frame:
        return None
    values = to_numbers(columns.frame["policy_reward"], decimal).values
    refuse_rows(columns, "policy_reward", ~np.isfinite(values), "a finite number")
    return np.array(values)


def read_forced(columns: Columns) -> np.ndarray | None:
    """Which pulls were forced."""
    if "forced" not in columns.frame:
        return None
    values = to_numbers(columns.frame["forced"]).values
    refuse_rows(columns, "forced", ~np.isin(values, (0, 1)), "0, 1, true or false")
    return values == 1


def read_propensity(columns: Columns, decimal: str, arms: np.ndarray, forced: np.ndarray | None, batch: Any) -> np.ndarray | None:
    """The recorded probability of each pull; NaN for a forced pull without one."""
    if "propensity" not in columns.frame:
        return None
    values, missing, _ = to_numbers(columns.frame["propensity"], decimal)
    if forced is None:
        forced = first_pulls_of(arms) if batch is None else batch == batch[0]
    right = (values > 0) & (values <= 1)
    allowed, remedy = "above 0 and at most 1", "it may be empty only where the pull was forced"
    refuse_rows(columns, "propensity", ~(right | (missing & forced)), allowed, remedy)
    return np.array(values)


def first_pulls_of(arms: np.ndarray) -> np.ndarray:
    """Which pulls are the first of their arm: these count as forced if the log does not mark forced pulls."""
    steps, first = np.arange(len(arms)), np.zeros(arms.max() + 1, int)
    first[arms[::-1]] = steps[::-1]  # the earliest pull is written last, and stays
    return first[arms] == steps


def sort_by_time(columns: Columns, decimal: str) -> Columns:
    """The rows in order of time; rows of the same time keep their order."""
    if "time" not in columns.frame:
        return columns
    times = _read_times(columns, decimal)
    if (times[1:] >= times[:-1]).all():
        return columns
    columns.notes.append(Note(NoteKind.ROWS_SORTED, {"column": columns.names["time"]}))
    return columns._replace(frame=columns.frame.iloc[np.argsort(times, kind="stable")])


def _read_times(columns: Columns, decimal: str) -> np.ndarray:
    """Times as numbers: integers as they are, other numbers as float64, timestamps as nanoseconds."""
    import pandas as pd
    from pandas.api.types import is_datetime64_any_dtype, is_timedelta64_dtype

    column, allowed = columns.frame["time"], "a number, or a timestamp such as 2024-01-31 12:00:00"
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iu":
        return column.to_numpy()
    if is_datetime64_any_dtype(column.dtype) or is_timedelta64_dtype(column.dtype):
        refuse_rows(columns, "time", column.isna(), allowed)
        return column.astype("int64").to_numpy()
    numbers = to_numbers(column, decimal).values
    finite = np.isfinite(numbers)
    if 2 * finite.sum() <= len(finite):
        stamps = pd.to_datetime(column.astype(str).str.strip(), format="ISO8601", utc=True, errors="coerce")
        if stamps.notna().sum() > finite.sum():
            refuse_rows(columns, "time", stamps.isna(), allowed)
            return stamps.astype("int64").to_numpy()
    refuse_rows(columns, "time", ~finite, allowed)
    return numbers
