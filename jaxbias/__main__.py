"""The program: `jaxbias`, or `python -m jaxbias`."""

import gc
import os
import sys

from jaxbias._core.interrupting import end_on_interrupt
from jaxbias._core.streams import open_closed_streams

GARBAGE = 50_000  # new objects before a collection: with Python's 700, imports and a short command spend 0.2 s collecting nothing


def main() -> int:
    """Runs the command line; Ctrl-C ends it at once, while it is still importing too."""
    open_closed_streams()
    end_on_interrupt()
    from jaxbias.cli import main as run

    return run()


def program() -> None:
    """Runs the command line and ends the process; at once, where nobody else needs the compiled programs in its memory.

    The interpreter's own end takes them down one by one, which takes a third of a second after a short `debias`.
    """
    gc.set_threshold(GARBAGE)
    code = main()
    if _has_programs():
        try:
            for stream in filter(None, (sys.stdout, sys.stderr)):  # None where the process began with the file closed
                stream.flush()
        except OSError:  # a closed pipe or a full disk, which the interpreter reports when it exits
            sys.exit(code)
        os._exit(code)
    sys.exit(code)


def _has_programs() -> bool:
    """Whether this process has compiled something, and is not one of several that wait for each other."""
    programs, jax = sys.modules.get("jaxbias._core.programs"), sys.modules.get("jax")
    return bool(programs and jax and programs.PROGRAMS.loaded and jax.process_count() == 1)


if __name__ == "__main__":
    program()
