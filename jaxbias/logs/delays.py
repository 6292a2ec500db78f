"""When the rewards of a log arrived: the column seen_at, in the units of the column time or step, or one delay for all rows."""

from typing import Any, NamedTuple

import numpy as np

from jaxbias._core.arrivals import batches_of, delayed, is_immediate
from jaxbias._core.errors import ArgumentError
from jaxbias.logs.columns import Columns
from jaxbias.logs.errors import LogError, quote
from jaxbias.logs.notes import Note, NoteKind
from jaxbias.logs.numbers import MISSING, to_numbers
from jaxbias.logs.values import refuse_rows

NUMBER, STAMP = "a number", "a timestamp such as 2024-01-31 12:00:00"


class Moments(NamedTuple):
    """A column of times: integers or float64, or the nanoseconds of timestamps; and where nothing was recorded."""

    values: np.ndarray
    missing: np.ndarray
    are_stamps: bool


def check_delay_options(delay: Any, counts: bool | None) -> None:
    """Refuses a delay that is not a whole number, or for a log of counts, whose rewards are seen after each period."""
    if delay is None:
        return
    if counts:
        problem = lambda name: f"is {delay} with {name('counts')}"
        remedy = "the rewards of a period are seen after it; a period is a batch"
        raise LogError("delay", delay, problem=problem, remedy=remedy)
    if isinstance(delay, bool) or not isinstance(delay, int | np.integer) or delay < 0:
        raise ArgumentError("delay", delay, "a whole number of steps, 0 or more")


def read_seen_at(columns: Columns, decimal: str, delay: int | None, batch: np.ndarray | None) -> tuple[int, ...] | None:
    """For each row, the last row (from 0) that was chosen before its reward had arrived; None where there are no delays."""
    if delay is None and "seen_at" not in columns.frame:
        return None
    if batch is not None:
        raise _with_batches(columns, delay)
    if delay is not None and "seen_at" in columns.frame:
        problem = lambda name: f"has a column {quote(columns.names['seen_at'])}, and {name('delay')} is {delay}"
        remedy = lambda name: f"to ignore the column, set {name('columns.seen_at')} to ''"
        raise LogError("delay", delay, subject=columns.file, problem=problem, remedy=remedy)
    seen_at = _read_column(columns, decimal) if delay is None else delayed(int(delay), len(columns.frame))
    return None if is_immediate(seen_at) else seen_at


def as_batch(seen_at: tuple[int, ...] | None) -> np.ndarray | None:
    """The batch of each row, where the rewards arrived in batches."""
    sizes = None if seen_at is None else batches_of(seen_at)
    return None if sizes is None else np.repeat(np.arange(len(sizes)), sizes)


def _with_batches(columns: Columns, delay: int | None) -> LogError:
    if delay is None:
        problem: Any = f"has batches, and a column {quote(columns.names['seen_at'])}"
    else:
        problem = lambda name: f"has batches, and {name('delay')} is {delay}"
    remedy = lambda name: (
        f"the rewards of a batch are seen after it: give one of them; to ignore columns, set {name('columns.batch')} or "
        f"{name('columns.seen_at')} to ''"
    )
    return LogError("delay", delay, subject=columns.file, problem=problem, remedy=remedy)


def _read_column(columns: Columns, decimal: str) -> tuple[int, ...]:
    """Rows whose time is later than `seen_at` had seen the reward; those of the same time had not."""
    if "time" not in columns.frame:
        problem = f"has a column {quote(columns.names['seen_at'])}, and no column 'time' or 'step' to compare it with"
        remedy = lambda name: f"name it with {name('columns.time')}, or give {name('delay')}"
        raise LogError("columns.time", None, subject=columns.file, problem=problem, remedy=remedy)
    times = _read_moments(columns, "time", decimal, None)
    arrived = _read_moments(columns, "seen_at", decimal, times)
    known = ~arrived.missing
    early = known & (np.where(known, arrived.values, times.values) < times.values)
    refuse_rows(columns, "seen_at", early, f"at or after the {quote(columns.names['time'])} of its own row")
    last = np.searchsorted(times.values, arrived.values, side="right") - 1
    if arrived.missing.any():
        columns.notes.append(Note(NoteKind.NEVER_SEEN, {"count": int(arrived.missing.sum())}))
    return tuple(np.where(known, last, len(last)).tolist())


def _read_moments(columns: Columns, role: str, decimal: str, like: Moments | None) -> Moments:
    """Numbers or timestamps; with `like`, of the same kind, and missing where a reward never arrived."""
    import pandas as pd
    from pandas.api.types import is_datetime64_any_dtype

    column = columns.frame[role]
    if is_datetime64_any_dtype(column.dtype):
        numbers, missing = np.full(len(column), np.nan), column.isna().to_numpy(bool)
        stamps = pd.to_datetime(column, utc=True)
    else:
        numbers, missing, _ = to_numbers(column, decimal)
        text = column.astype(str).str.strip()
        missing = missing | text.isin(MISSING).to_numpy(bool)
        stamps = pd.to_datetime(text.where(~missing), format="ISO8601", utc=True, errors="coerce")
    finite = np.isfinite(numbers)
    are_stamps = bool(2 * finite.sum() < (~missing).sum()) if like is None else like.are_stamps
    allowed = STAMP if are_stamps else NUMBER
    if like is not None:
        allowed = f"{allowed}, like the column {quote(columns.names['time'])}, or empty where the reward never arrived"
    present = (stamps.notna().to_numpy(bool) & ~finite) if are_stamps else finite
    refuse_rows(columns, role, ~present & ~missing, allowed)
    if not are_stamps:
        return Moments(np.where(missing, np.inf, numbers), missing, False)
    nanoseconds = stamps.dt.tz_convert(None).astype("datetime64[ns]").astype("int64").to_numpy()
    return Moments(np.where(missing, np.iinfo(np.int64).max, nanoseconds), missing, True)
