"""How messages about a log put names and values into words: one line each, nothing endless, no control characters."""

from collections.abc import Iterable
from typing import Any

CUT = 40  # characters of a value that are shown: enough to find it by
LONG = 14_000  # bits of a whole number that Python agrees to write out: 4300 digits
LISTED = 10  # names in a list before it says how many more there are


class Problem(ValueError):
    """What is wrong with a log, in our words; tells it from the ValueErrors of the parsers."""


def shown(value: Any) -> str:
    """A value of a log as a message shows it.

    >>> print(shown("NA"), shown("x" * 50), shown(2.5), shown(None))
    'NA' 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...' 2.5 empty
    """
    if isinstance(value, int) and value.bit_length() > LONG:
        return "a number too long to show"
    if is_empty(value):
        return "empty"
    if isinstance(value, str):
        return repr(str(_cut(value)))
    return _cut(plain(str(value)))


def is_empty(value: Any) -> bool:
    """Whether nothing is there: an empty text, or what pandas holds where a value is missing (None, NaN, NaT, NA)."""
    return value is None or value == "" if isinstance(value, str | None) else str(value) in ("nan", "NaT", "<NA>")


def plain(name: str) -> str:
    """A name as it is, or escaped where it would break the line."""
    return name if name.isprintable() else repr(name)


def listed(names: Iterable[str]) -> str:
    """Names one after the other, the first few of them."""
    names = [_cut(plain(name)) for name in names]
    more = [f"and {len(names) - LISTED:,} more"] if len(names) > LISTED else []
    return ", ".join([*names[:LISTED], *more]) or "none"


def _cut(text: str) -> str:
    return text if len(text) <= CUT else f"{text[:CUT]}..."
