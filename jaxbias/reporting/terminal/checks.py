"""What `jaxbias check` prints."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console

from jaxbias.reporting.formatting import count, number
from jaxbias.reporting.terminal.common import make_console, make_table, say

if TYPE_CHECKING:
    from jaxbias.bias.conditions import CheckResult, Counterexample


def print_checks(results: Sequence["CheckResult"]) -> None:
    """Prints which conditions hold, and a counterexample to each that fails."""
    console = make_console()
    table = make_table("Conditions", "condition", "verdict", "cases tried")
    for result in results:
        table.add_row(result.condition, "holds" if result.holds else "fails", count(result.num_cases))
    console.print(table)
    for result in results:
        if result.counterexample is not None:
            _print_counterexample(console, result.condition, result.counterexample)
    if any(result.holds for result in results):
        say(console, "A condition holds here if no counterexample to it was found among the cases tried.")


def _print_counterexample(console: Console, condition: str, example: "Counterexample") -> None:
    table = make_table(f"A counterexample to {condition}", "step", "arm", "one reward", "other reward")
    for step, (arm, *rewards) in enumerate(zip(example.arms, example.rewards, example.other_rewards, strict=True)):
        table.add_row(str(step), str(arm), *map(number, rewards))
    table.add_section()
    table.add_row("next", "chosen", str(example.chosen), str(example.other_chosen))
    table.add_row("", "probability", *map(number, (example.probability, example.other_probability)))
    console.print(table)
    say(console, f"Case {example.case}: {explain(condition, example)}.\n")


def explain(condition: str, example: "Counterexample") -> str:
    """What the counterexample shows."""
    from jaxbias.bias.conditions import Condition  # here, as it imports JAX

    if condition == Condition.EXPLOIT:
        means = f"where its mean is {number(example.mean)} and not where it is {number(example.other_mean)}"
        return f"arm {example.arm} is chosen {means}, all else equal"
    if condition == Condition.IIO_CONDITIONAL:
        which = f"arm {example.compared} is chosen with another probability after each history"
        return f"given that arm {example.arm} is not chosen, {which}"
    return f"arm {example.arm} is chosen after neither history, and yet with the same seed another arm is"


def checks_document(results: Sequence["CheckResult"]) -> list[dict[str, Any]]:
    """The results with the explanation of each counterexample."""
    return [{**result._asdict(), "counterexample": _example_document(result)} for result in results]


def _example_document(result: "CheckResult") -> dict[str, Any] | None:
    example = result.counterexample
    return None if example is None else {**example._asdict(), "explanation": explain(result.condition, example)}
