"""What `jaxbias examples` prints."""

from collections.abc import Sequence
from typing import Any

from jaxbias.reporting.terminal.common import make_console, say


def print_examples(examples: Sequence[Any]) -> None:
    """Prints what each `Example` is, where it is from, and how to run it."""
    console = make_console()
    for example in examples:
        say(console, f"{example.name}: {example.title}")
        for line in (example.description, f"Source: {example.source}", f"Run: jaxbias debias --example {example.name}"):
            say(console, f"    {line}")
        say(console, "")
