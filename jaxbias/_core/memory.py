"""What XLA says where there is no memory, in words: a refusal, and not an error of its own kind with a traceback."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import jax

from jaxbias._core.errors import ArgumentError

NO_ROOM, BYTES = "RESOURCE_EXHAUSTED", re.compile(r"(\d+) bytes")


@contextmanager
def refusing_what_has_no_room(name: str) -> Iterator[None]:
    """What runs inside, by its name in the message; it is refused where XLA finds no memory for it."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if NO_ROOM not in str(error):
            raise
        size = BYTES.search(str(error))
        amount = f"{int(size[1]) / 1e9:,.0f} GB of memory at once" if size else "more memory"
        remedy = "take fewer rows of the log, or merge arms that were hardly pulled"
        raise ArgumentError("history", subject=name, problem=f"needs {amount}, more than there is", remedy=remedy) from error
