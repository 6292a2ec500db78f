"""Columns of text, numbers or booleans as float64."""

import re
from typing import Any, NamedTuple

import numpy as np

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "<NA>", "NULL", "null", "None", "\\N")  # R, Excel, pandas, SQL
NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"  # Python's float() would take 1_000 too
NUMERIC = (float, int, np.floating, np.integer)
LARGEST = 2**1023  # integers from 2**1024 on overflow float64


class Numbers(NamedTuple):
    """A column as numbers."""

    values: np.ndarray  # float64, NaN where there is no number
    missing: np.ndarray  # where nothing was recorded; any other NaN is text that is not a number
    num_booleans: int  # how many were true or false


def is_number(text: str) -> bool:
    """Whether a text is a decimal number."""
    return re.fullmatch(NUMBER, text) is not None


def to_numbers(column: Any, decimal: str = ".") -> Numbers:
    """A column of numbers, booleans or text as float64; text is converted exactly."""
    from pandas import CategoricalDtype
    from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype

    if isinstance(column.dtype, CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    if is_numeric_dtype(column.dtype) and not is_complex_dtype(column.dtype):
        values = column.to_numpy(np.float64, na_value=np.nan)
        num_booleans = int(column.notna().sum()) if is_bool_dtype(column.dtype) else 0
        return Numbers(values=values, missing=column.isna().to_numpy(bool), num_booleans=num_booleans)
    if column.dtype == object:
        return _objects_to_numbers(column, decimal)
    return _text_to_numbers(column, decimal)


def _objects_to_numbers(column: Any, decimal: str) -> Numbers:
    """Numbers directly and the rest through text: a few words among many numbers must not slow the whole column down."""
    number = np.fromiter((isinstance(value, NUMERIC) and not isinstance(value, bool) for value in column), bool, len(column))
    values, missing = np.full(len(column), np.nan), np.zeros(len(column), bool)
    try:
        values[number] = column[number].astype(np.float64)
    except OverflowError:  # an integer of more than 308 digits
        values[number] = column[number].map(lambda value: float(value) if abs(value) < LARGEST else np.inf)
    missing[number] = np.isnan(values[number])
    values[~number], missing[~number], num_booleans = _text_to_numbers(column[~number], decimal)
    return Numbers(values=values, missing=missing, num_booleans=num_booleans)


def _text_to_numbers(column: Any, decimal: str) -> Numbers:
    present = column.notna().to_numpy(bool)
    text = column[present].astype(str).str.strip()
    lower = text.str.lower()
    boolean = lower.isin(["true", "false"]).to_numpy(bool)
    number = text.str.fullmatch(NUMBER.replace(r"\.", f"[{decimal}]")).to_numpy(bool)
    found = np.full(len(text), np.nan)
    found[boolean] = lower[boolean] == "true"
    found[number] = text[number].str.replace(decimal, ".", regex=False).astype(np.float64)
    values, missing = np.full(len(column), np.nan), ~present
    values[present] = found
    missing[present] = text.isin(MISSING).to_numpy(bool)
    return Numbers(values=values, missing=missing, num_booleans=int(boolean.sum()))
