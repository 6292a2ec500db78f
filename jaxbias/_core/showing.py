"""Results that show themselves, on a terminal and in a notebook.

A result only says that it can: `__str__ = as_text` and `_repr_html_ = as_html`. What it shows is made in `reporting`, which is
above all results and knows them; so that module is loaded by its name when something is shown, and imported by none of them.
"""

from importlib import import_module
from typing import Any

from jaxbias._core.settings import is_concrete


def as_text(self: Any) -> str:
    """What `print` shows: sentences and plain tables; the fields where JAX traces a function, as there are no numbers yet."""
    return import_module("jaxbias.reporting.shown").show(self).to_text() if is_concrete(self) else repr(self)


def as_html(self: Any) -> str | None:
    """The same for a notebook; None has it fall back on the text."""
    return import_module("jaxbias.reporting.shown").show(self).to_html() if is_concrete(self) else None
