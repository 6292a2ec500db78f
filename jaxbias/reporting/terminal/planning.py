"""What `jaxbias plan` prints."""

from typing import TYPE_CHECKING

from jaxbias.reporting.planning import HEADERS, plan_answer, plan_rows, plan_sentences
from jaxbias.reporting.terminal.common import add_row, make_console, make_table, say
from jaxbias.reporting.terminal.evaluation import ERRORS

if TYPE_CHECKING:
    from jaxbias.planning.results import Plan

# Two tables, as eight columns do not fit on a narrow terminal: the places of the columns in `HEADERS`.
PARTS = {"What the designs earn": (0, 1, 2, 3, 7), "What they teach about the difference": (0, 1, 4, 5, 6)}


def print_plan(plan: "Plan", note: str = "") -> None:
    """Prints the designs, then which numbers of steps reach the goals."""
    console, answer = make_console(), plan_answer(plan)
    say(console, answer)
    if plan.designs:
        for title, columns in PARTS.items():
            table = make_table(
                f"{title} ({ERRORS})", *(HEADERS[column] for column in columns), left=(0,), whole=tuple(range(len(columns)))
            )
            for row in plan_rows(plan):
                add_row(console, table, *(row[column] for column in columns))
            console.print(table)
    rest = [sentence for sentence in plan_sentences(plan) if sentence != answer]
    for sentence in [*rest, *([note] if note else [])]:
        say(console, sentence)
