"""What every printed table and sentence has in common."""

from rich.console import Console
from rich.table import Table

from jaxbias.reporting.formatting import NONE

ASCII = str.maketrans({"±": "+/-", "∞": "inf", "…": "...", NONE: "-", "ε": "epsilon", "τ": "tau", "†": "+", "✗": "x"})


def make_console() -> Console:
    """Standard output, on which no text is taken for markup."""
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
