"""What every printed table and sentence has in common."""

import io
import sys
from collections.abc import Callable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from jaxbias.reporting.formatting import NONE
from jaxbias.reporting.labels import LONGEST_IN_PLOT, LONGEST_IN_TABLE, short_names

ASCII = str.maketrans({"±": "+/-", "∞": "inf", "…": "...", NONE: "-", "ε": "epsilon", "τ": "tau", "†": "+", "✗": "x"})

WIDE = 10_000  # columns of a console in which every table fits


def make_console() -> Console:
    """Standard output, on which no text is taken for markup, and which shows what its encoding has no sign for as an escape."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    return Console(highlight=False, markup=False)


def say(console: Console, sentence: str) -> None:
    """Prints a sentence, wrapped only on a terminal."""
    console.print(printable(console, sentence), soft_wrap=not console.is_terminal)


def printable(console: Console, text: str) -> str:
    """The text, without the characters of this package that an ASCII console cannot show."""
    return text.translate(ASCII) if console.options.ascii_only else text


def make_table(title: str, *columns: str, left: tuple[int, ...] = (), whole: tuple[int, ...] = ()) -> Table:
    """A table with numbers on the right, and words on the left in the columns of these places; `whole` columns are not cut."""
    table = Table(title=title, title_justify="left")
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place in left else "right", no_wrap=place in whole)
    return table


def add_row(console: Console, table: Table, *cells: str) -> None:
    """Adds a row that this console can show, under a title and headers that it can show."""
    for column in table.columns:
        column.header = printable(console, str(column.header))
    table.title = printable(console, str(table.title)) if table.title else None
    table.add_row(*(printable(console, cell) for cell in cells))


def print_with_labels(console: Console, labels: Sequence[str], build: Callable[[list[str]], Table]) -> None:
    """Prints the table that `build` makes with these names of the arms, shortened in the middle so that it fits the console.

    A table that does not fit loses the ends of its cells, where long labels differ.
    """
    names = short_names(labels, len(labels), LONGEST_IN_TABLE)
    table = build(names)
    too_wide = Measurement.get(console, console.options.update(width=WIDE), table).maximum - console.width
    if too_wide > 0:
        longest = max(max(map(cell_len, names)) - too_wide, LONGEST_IN_PLOT)
        table = build(short_names(labels, len(labels), longest))
    console.print(table)
