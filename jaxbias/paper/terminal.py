"""What `jaxbias reproduce` prints."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from jaxbias.paper.render import VERDICTS, count_verdicts, explanations, our_number, paper_number, to_rows
from jaxbias.paper.run import Reproduction
from jaxbias.paper.spec import NOISY, Outcome, Spec
from jaxbias.reporting.terminal.common import add_row, make_console, make_table, say
from jaxbias.reporting.terminal.evaluation import ERRORS

MOST_PRINTED = 3  # tables and figures that are printed with all their cells; with more, the page has them


def reproduction_document(reproduction: Reproduction) -> dict[str, Any]:
    """Every cell, and how many cells have each verdict."""
    cells = [{"name": name, **row} for name, outcomes in reproduction.outcomes.items() for row in to_rows(outcomes)]
    return {"cells": cells, "verdicts": count_verdicts(reproduction)}


def print_reproduction(reproduction: Reproduction, page: Path) -> None:
    """Prints every cell if there are few tables, otherwise how many agree; then the cells that do not, and where the page is."""
    console = make_console()
    if len(reproduction.specs) <= MOST_PRINTED:
        for spec in reproduction.specs:
            console.print(_cells(console, spec, reproduction.outcomes[spec.name]))
            for note in explanations(reproduction.outcomes[spec.name]):
                say(console, note)
    else:
        console.print(_summary(reproduction))
        for name, outcomes in reproduction.outcomes.items():
            for note in explanations(tuple(cell for cell in outcomes if cell.verdict == "DISAGREES")):
                say(console, f"{name}: {note}")
    counts = count_verdicts(reproduction)
    noisy = f", {counts[NOISY]} are too noisy to tell with so few trials" if counts[NOISY] else ""
    wrong = f"; {counts['DISAGREES']} should agree and do not" if counts["DISAGREES"] else ""
    say(console, f"{counts['agrees']} cells agree, {counts['differs']} differ for a known reason{noisy}{wrong}.")
    say(console, f"The page with everything: {page}")


def _cells(console: Console, spec: Spec, outcomes: tuple[Outcome, ...]) -> Table:
    table = make_table(f"{spec.title} ({ERRORS})", "", "figure", "paper", "ours", "", left=(0, 1, 4))
    row = None
    for cell in outcomes:
        if row not in (None, cell.entry.row):
            table.add_section()
        first = cell.entry.row if cell.entry.row != row else ""
        row = cell.entry.row
        add_row(console, table, first, cell.entry.column, paper_number(cell), our_number(cell), cell.verdict)
    return table


def _summary(reproduction: Reproduction) -> Table:
    table = make_table("Cells", "", "agree", "differ, explained", "should agree and do not", "too noisy", left=(0,))
    for name, outcomes in reproduction.outcomes.items():
        verdicts = [cell.verdict for cell in outcomes]
        table.add_row(name, *(str(verdicts.count(word)) for word in VERDICTS))
    return table
