"""Columns that were not read and that a policy may have looked at: they vary, and are no ids and no times."""

import re
from collections.abc import Sequence
from typing import Any

LOOKED_AT = 1000  # rows, the first: enough to see whether a column varies
MOST_LISTED = 50  # columns
ID_WORDS = "id|ids|uuid|guid|key|hash|index|row|rows|user|session|customer|visitor|cookie|unnamed"
IDS = re.compile(rf"(^|[_\W])({ID_WORDS})($|[_\W])")
TIMES = re.compile(r"(time|date|day|hour|month|week|_at$|^step$|^period$)")
DISTINCT = 0.5  # of the values of whole numbers or texts: with more, they are ids


def unused_columns(head: Any, header: Sequence[str], used: Sequence[int]) -> tuple[str, ...]:
    """The names of such columns.

    Arguments:
        head: a data frame with the first rows and all columns.
        header: their names.
        used: the positions of the columns that are read.
    """
    taken, found = set(used), []
    for place, name in enumerate(header):
        plain = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.strip()).casefold()
        if place in taken or not plain or IDS.search(plain) or TIMES.search(plain):
            continue
        if _varies(head.iloc[:LOOKED_AT, place]):
            found.append(name)
        if len(found) == MOST_LISTED:
            break
    return tuple(found)


def _varies(column: Any) -> bool:
    from pandas.api.types import is_datetime64_any_dtype, is_float_dtype

    try:
        distinct = column.nunique(dropna=True)
    except TypeError:  # lists and the like: not one value a row
        return False
    fractions = is_float_dtype(column.dtype) and bool((column.dropna() % 1 != 0).any())
    few = distinct <= max(2, DISTINCT * len(column))
    return distinct > 1 and not is_datetime64_any_dtype(column.dtype) and (fractions or few)
