"""An extension of griffe: on a page the doctests of a docstring are blocks of code, and its fields are a list."""

import re
from typing import Any

import griffe

DOCTEST = re.compile(r"(?m)^( *)>>> .*(?:\n(?! *$).*)*")

SEVERAL = re.compile(r"(?m)^ +\w+(?:, \w+)+: ")  # several fields in one entry: one name for the parser


class Doctests(griffe.Extension):
    """Puts a fence around every doctest, and gives fields the name that the parser knows."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """After an object was read."""
        if obj.docstring is not None:
            text = re.sub(r"(?m)^( *)Fields:$", r"\1Attributes:", obj.docstring.value)
            text = SEVERAL.sub(lambda found: found[0].replace(", ", ","), text)
            obj.docstring.value = DOCTEST.sub(fence, text)


def fence(found: re.Match[str]) -> str:
    """One doctest as a block; directives for the test runner are left out."""
    code = re.sub(r"  # doctest: .*", "", found[0])
    return f"{found[1]}```pycon\n{code}\n{found[1]}```"
