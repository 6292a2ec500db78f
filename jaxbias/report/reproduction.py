"""What `jaxbias reproduce` prints."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxbias.report.common import make_console, make_table, say

if TYPE_CHECKING:
    from jaxbias.paper import Reproduction

MOST_PRINTED = 3  # tables and figures with all their cells; of more, the page has them


def reproduction_document(found: "Reproduction") -> dict[str, Any]:
    """Every cell, and how many cells have each verdict."""
    from jaxbias.paper.render import count_verdicts, to_rows

    cells = [{"name": name, **row} for name, outcomes in found.outcomes.items() for row in to_rows(outcomes)]
    return {"cells": cells, "verdicts": count_verdicts(found)}


def print_reproduction(found: "Reproduction", page: Path) -> None:
    """Every cell of a few tables; of many, how many cells agree; then those that do not, and where the page is."""
    from jaxbias.paper.render import count_verdicts, explanations

    console = make_console()
    if len(found.specs) <= MOST_PRINTED:
        for spec in found.specs:
            console.print(_cells(spec, found.outcomes[spec.name]))
            for note in explanations(found.outcomes[spec.name]):
                say(console, note)
    else:
        console.print(_summary(found))
        for name, outcomes in found.outcomes.items():
            for note in explanations(tuple(cell for cell in outcomes if cell.verdict == "DISAGREES")):
                say(console, f"{name}: {note}")
    counts = count_verdicts(found)
    wrong = f"; {counts['DISAGREES']} should agree and do not" if counts["DISAGREES"] else ""
    say(console, f"{counts['agrees']} cells agree, {counts['differs']} differ and say why{wrong}. All of it: {page}")


def _cells(spec: Any, outcomes: Any) -> Any:
    from jaxbias.paper.render import our_number, paper_number

    table = make_table(spec.title, "", "figure", "paper", "ours", "")
    for column in (0, 1, 4):
        table.columns[column].justify = "left"
    row = None
    for cell in outcomes:
        if row not in (None, cell.entry.row):
            table.add_section()
        first = cell.entry.row if cell.entry.row != row else ""
        row = cell.entry.row
        table.add_row(first, cell.entry.column, paper_number(cell), our_number(cell), cell.verdict)
    return table


def _summary(found: "Reproduction") -> Any:
    table = make_table("Cells", "", "agree", "differ, explained", "should agree and do not")
    table.columns[0].justify = "left"
    for name, outcomes in found.outcomes.items():
        verdicts = [cell.verdict for cell in outcomes]
        table.add_row(name, *(str(verdicts.count(word)) for word in ("agrees", "differs", "DISAGREES")))
    return table
