"""What `jaxbias plan` prints."""

from typing import TYPE_CHECKING

from jaxbias.reporting.planning import HEADERS, plan_rows, plan_sentences
from jaxbias.reporting.terminal.common import add_row, make_console, make_table, say

if TYPE_CHECKING:
    from jaxbias.planning.results import Plan


def print_plan(plan: "Plan", note: str = "") -> None:
    """Prints the designs, then which numbers of steps reach the goals."""
    console = make_console()
    if plan.designs:
        table = make_table("Designs", *HEADERS, left=(0,), whole=(0,))
        for row in plan_rows(plan):
            add_row(console, table, *row)
        console.print(table)
        say(console, "\N{PLUS-MINUS SIGN} is the Monte Carlo standard error.")
    for sentence in [*plan_sentences(plan), *([note] if note else [])]:
        say(console, sentence)
