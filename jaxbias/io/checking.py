"""The values of a log: text to numbers, and a message with the row where they are not what they must be."""

import re
from typing import Any, NamedTuple

import numpy as np

from jaxbias.io.columns import REQUIRED, option
from jaxbias.io.tables import Table
from jaxbias.io.words import Problem, shown

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "<NA>", "NULL", "null", "None", "\\N")  # R, Excel, pandas, SQL
NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"  # Python's float() would take 1_000 too
NUMERIC = (float, int, np.floating, np.integer)
LARGEST = 2**1023  # whole numbers from 2**1024 are no float64
WHOLE = 2.0**53  # up to here every whole number is a float64


class Numbers(NamedTuple):
    """A column as numbers."""

    values: np.ndarray  # float64, NaN where there is none
    missing: np.ndarray  # where nothing is recorded; what else is NaN is not a number
    num_truths: int  # how many were true or false


def refuse(table: Table, role: str, wrong: Any, allowed: str) -> None:
    """Raises for the first row that is wrong, with its number, its value and how many others there are."""
    wrong = np.asarray(wrong)
    if not wrong.any():
        return
    places = np.flatnonzero(wrong)
    place = places[np.argmin(table.frame.index.to_numpy()[places])]
    value, others = table.frame[role].iloc[place], len(places) - 1
    hint = f"; {others:,} other {'row is' if others == 1 else 'rows are'} like it" if others else ""
    if isinstance(value, str) and is_number(value.strip().replace(",", ".")) and "," in value:
        hint += "; --decimal ',' reads decimal commas"
    if role not in REQUIRED:
        hint += f"; {option(role)} '' leaves the column out"
    where = f"{table.name}: column {shown(table.written[role])} in row {table.frame.index[place]}"
    raise Problem(f"{where} is {shown(value)}; allowed: {allowed}{hint}")


def is_number(text: str) -> bool:
    """Whether a text is a number and nothing else."""
    return re.fullmatch(NUMBER, text) is not None


def to_numbers(column: Any, decimal: str = ".") -> Numbers:
    """A column of numbers, truths or text as float64; exactly, where it is text."""
    from pandas import CategoricalDtype
    from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype

    if isinstance(column.dtype, CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    if is_numeric_dtype(column.dtype) and not is_complex_dtype(column.dtype):
        values = column.to_numpy(np.float64, na_value=np.nan)
        num_truths = int(column.notna().sum()) if is_bool_dtype(column.dtype) else 0
        return Numbers(values=values, missing=column.isna().to_numpy(bool), num_truths=num_truths)
    if column.dtype == object:
        return _objects_to_numbers(column, decimal)
    return _text_to_numbers(column, decimal)


def _objects_to_numbers(column: Any, decimal: str) -> Numbers:
    """Numbers as they are, and the rest as text: in a long log a few words among numbers must not make all of it text."""
    number = np.fromiter((isinstance(value, NUMERIC) and not isinstance(value, bool) for value in column), bool, len(column))
    values, missing = np.full(len(column), np.nan), np.zeros(len(column), bool)
    try:
        values[number] = column[number].astype(np.float64)
    except OverflowError:  # a whole number of more than 308 digits
        values[number] = column[number].map(lambda value: float(value) if abs(value) < LARGEST else np.inf)
    missing[number] = np.isnan(values[number])
    values[~number], missing[~number], num_truths = _text_to_numbers(column[~number], decimal)
    return Numbers(values=values, missing=missing, num_truths=num_truths)


def _text_to_numbers(column: Any, decimal: str) -> Numbers:
    present = column.notna().to_numpy(bool)
    text = column[present].astype(str).str.strip()
    lower = text.str.lower()
    truth = lower.isin(["true", "false"]).to_numpy(bool)
    number = text.str.fullmatch(NUMBER.replace(r"\.", f"[{decimal}]")).to_numpy(bool)
    found = np.full(len(text), np.nan)
    found[truth] = lower[truth] == "true"
    found[number] = text[number].str.replace(decimal, ".", regex=False).astype(np.float64)
    values, missing = np.full(len(column), np.nan), ~present
    values[present] = found
    missing[present] = text.isin(MISSING).to_numpy(bool)
    return Numbers(values=values, missing=missing, num_truths=int(truth.sum()))


def read_rewards(table: Table, decimal: str) -> np.ndarray:
    """The rewards: finite numbers."""
    numbers = to_numbers(table.frame["reward"], decimal)
    refuse(table, "reward", ~np.isfinite(numbers.values), "a finite number")
    if numbers.num_truths:
        table.notes.append(f"Rewards that were true or false became 1 and 0: {numbers.num_truths:,} of them.")
    return np.array(numbers.values)  # a copy, which does not keep the other columns in memory


def read_forced(table: Table) -> np.ndarray | None:
    """Which pulls were forced."""
    if "forced" not in table.frame:
        return None
    values = to_numbers(table.frame["forced"]).values
    refuse(table, "forced", ~np.isin(values, (0, 1)), "0, 1, true or false")
    return values == 1


def read_batch(table: Table, decimal: str) -> np.ndarray | None:
    """The batch of each pull: whole numbers that do not go down."""
    if "batch" not in table.frame:
        return None
    values = to_numbers(table.frame["batch"], decimal).values
    whole = (values >= 0) & (values <= WHOLE) & (np.floor(values) == values)
    refuse(table, "batch", ~whole, "a whole number, 0 or more")
    refuse(table, "batch", np.diff(values, prepend=0) < 0, "a number no smaller than the one before it")
    return values.astype(np.int64)


def read_propensity(table: Table, decimal: str, arms: np.ndarray, forced: np.ndarray | None, batch: Any) -> np.ndarray | None:
    """The recorded probability of each pull; NaN where the pull was forced and none was recorded."""
    if "propensity" not in table.frame:
        return None
    values, missing, _ = to_numbers(table.frame["propensity"], decimal)
    if forced is None:
        forced = _first_pulls(arms) if batch is None else batch == batch[0]
    right = (values > 0) & (values <= 1)
    allowed = "a number above 0 and at most 1, or nothing where the pull was forced"
    refuse(table, "propensity", ~(right | (missing & forced)), allowed)
    return np.array(values)


def _first_pulls(arms: np.ndarray) -> np.ndarray:
    """Which pulls are the first of their arm, and so forced where the log does not say."""
    steps, first = np.arange(len(arms)), np.zeros(arms.max() + 1, int)
    first[arms[::-1]] = steps[::-1]  # the last to be written stays
    return first[arms] == steps


def in_order(table: Table, decimal: str) -> Table:
    """The rows in order of time; those of the same time stay as they are."""
    if "time" not in table.frame:
        return table
    times = _read_times(table, decimal)
    if (times[1:] >= times[:-1]).all():
        return table
    table.notes.append(f"Rows were put in order of column {shown(table.written['time'])}.")
    return table._replace(frame=table.frame.iloc[np.argsort(times, kind="stable")])


def _read_times(table: Table, decimal: str) -> np.ndarray:
    """Times that can be compared: whole numbers as they are, other numbers, or else timestamps."""
    import pandas as pd
    from pandas.api.types import is_datetime64_any_dtype, is_timedelta64_dtype

    column, allowed = table.frame["time"], "a number, or a timestamp such as 2024-01-31 12:00:00"
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iu":
        return column.to_numpy()
    if is_datetime64_any_dtype(column.dtype) or is_timedelta64_dtype(column.dtype):
        refuse(table, "time", column.isna(), allowed)
        return column.astype("int64").to_numpy()
    numbers = to_numbers(column, decimal).values
    finite = np.isfinite(numbers)
    if 2 * finite.sum() <= len(finite):
        stamps = pd.to_datetime(column.astype(str).str.strip(), format="ISO8601", utc=True, errors="coerce")
        if stamps.notna().sum() > finite.sum():
            refuse(table, "time", stamps.isna(), allowed)
            return stamps.astype("int64").to_numpy()
    refuse(table, "time", ~finite, allowed)
    return numbers
