"""What is wrong with a log, and how messages quote names and values: on one line, short, without control characters."""

from collections.abc import Iterable
from typing import Any

from jaxbias._core.errors import ArgumentError, Words

LONGEST_VALUE = 40  # characters of a value in a message: enough to search for it
MOST_BITS = 14_000  # of an integer in a message: Python writes out at most 4300 digits
SETTINGS_OF_COUNTS = {"counts": "counts=True", "no_counts": "counts=False"}
MOST_NAMES = 10  # in a list before "and 3 more"


class LogError(ArgumentError):
    """What is wrong inside a file or a data frame; the subject says where, such as "log.csv: column 'reward' in row 3".

    >>> remedy = lambda name_of: f"name it with {name_of('columns.arm')}"
    >>> print(LogError(subject="log.csv", problem="has no column 'arm'", remedy=remedy))
    log.csv has no column 'arm'; name it with columns['arm']
    """

    def __init__(
        self,
        argument: str = "source",
        value: Any = None,
        allowed: Words = "",
        *,
        subject: Words = "",
        problem: Words = "",
        remedy: Words = "",
    ) -> None:
        super().__init__(argument, value, allowed, subject=subject, problem=problem, remedy=remedy)

    def __str__(self) -> str:
        """The sentence, with arguments as `read_log` calls them."""
        return self.describe(library_name)


def library_name(argument: str) -> str:
    """How the library writes an argument of `read_log`.

    >>> library_name("decimal"), library_name("columns.reward")
    ('decimal', "columns['reward']")
    """
    if argument in SETTINGS_OF_COUNTS:
        return SETTINGS_OF_COUNTS[argument]
    name, dot, key = argument.partition(".")
    return f"{name}[{key!r}]" if dot else name


def quote(value: Any) -> str:
    """A value of a log in a message.

    >>> print(quote("NA"), quote("x" * 50), quote(2.5), quote(None))
    'NA' 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...' 2.5 empty
    """
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return "a number too long to show"
    if _is_empty(value):
        return "empty"
    if isinstance(value, str):
        return repr(str(_shorten(value)))
    return _shorten(printable(str(value)))


def _is_empty(value: Any) -> bool:
    """Whether it is an empty text, or what pandas has for a missing value (None, NaN, NaT, NA)."""
    return value is None or value == "" if isinstance(value, str | None) else str(value) in ("nan", "NaT", "<NA>")


def printable(name: str) -> str:
    """A name as it is, or escaped if it has control characters."""
    return name if name.isprintable() else repr(name)


def join_names(names: Iterable[str]) -> str:
    """Names separated by commas; of many, the first few.

    >>> join_names(["arm", "reward"])
    'arm, reward'
    """
    names = [_shorten(printable(name)) for name in names]
    more = [f"and {len(names) - MOST_NAMES:,} more"] if len(names) > MOST_NAMES else []
    return ", ".join([*names[:MOST_NAMES], *more]) or "none"


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."
