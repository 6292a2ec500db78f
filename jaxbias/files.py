"""Files that are written whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PLACE = "a file in a folder that exists and can be written to"


def can_be_written(out: Path) -> bool:
    """Whether a file can be put there: nothing is there yet, or a regular file, which is replaced.

    A device is not: to put a file in the place of /dev/null would break the machine for everybody on it.
    """
    free = out.is_file() or not os.path.lexists(out)
    return free and out.parent.is_dir() and os.access(out.parent, os.W_OK)


@contextmanager
def written_whole(out: Path) -> Iterator[Path]:
    """Where to write, beside the file; what was written takes its place when nothing went wrong."""
    if not can_be_written(out):
        raise ValueError(f"out is {str(out)!r}; allowed: {PLACE}")
    out = out.resolve()  # a link stays, and what it points to is replaced
    temporary = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        yield temporary
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)
