"""An extension of griffe: the doctests of a docstring are blocks of code on its page, and not running text."""

import re
from typing import Any

import griffe

DOCTEST = re.compile(r"(?m)^( *)>>> .*(?:\n(?! *$).*)*")


class Doctests(griffe.Extension):
    """Puts a fence around every doctest."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """After an object was read."""
        if obj.docstring is not None:
            obj.docstring.value = DOCTEST.sub(fence, obj.docstring.value)


def fence(found: re.Match[str]) -> str:
    """One doctest as a block; directives for the test runner are left out."""
    code = re.sub(r"  # doctest: .*", "", found[0])
    return f"{found[1]}```pycon\n{code}\n{found[1]}```"
