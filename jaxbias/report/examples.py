"""What `jaxbias examples` prints."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jaxbias.report.common import make_console, say

if TYPE_CHECKING:
    from jaxbias.examples import Example


def print_examples(examples: Sequence["Example"]) -> None:
    """Prints what each is, where it is from, and how to run it."""
    console = make_console()
    for example in examples:
        say(console, f"{example.name}: {example.title}")
        for line in (example.description, f"Source: {example.source}", f"Run: jaxbias debias --example {example.name}"):
            say(console, f"    {line}")
        say(console, "")
