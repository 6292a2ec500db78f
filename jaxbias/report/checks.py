"""What `jaxbias check` prints."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from jaxbias.report.common import make_console, make_table, say

if TYPE_CHECKING:
    from jaxbias.conditions import CheckResult, Counterexample


def print_checks(results: Sequence["CheckResult"]) -> None:
    """Prints which conditions hold, and a counterexample to each that fails."""
    console = make_console()
    table = make_table("Conditions", "condition", "verdict", "cases tried")
    for result in results:
        table.add_row(result.condition, "holds" if result.holds else "fails", f"{result.num_cases:,}")
    console.print(table)
    for result in results:
        if result.counterexample is not None:
            _print_counterexample(console, result.condition, result.counterexample)
    if any(result.holds for result in results):
        say(console, "A condition that holds is one to which no counterexample was found among the cases tried.")


def _print_counterexample(console: Console, condition: str, example: "Counterexample") -> None:
    table = make_table(f"A counterexample to {condition}", "step", "arm", "one reward", "other reward")
    for step, (arm, *rewards) in enumerate(zip(example.arms, example.rewards, example.other_rewards, strict=True)):
        table.add_row(str(step), str(arm), *(f"{reward:.4g}" for reward in rewards))
    table.add_section()
    table.add_row("next", "chosen", str(example.chosen), str(example.other_chosen))
    table.add_row("", "probability", *(f"{value:.4f}" for value in (example.probability, example.other_probability)))
    console.print(table)
    say(console, f"Seed {example.seed}: {example.explanation}.\n")
