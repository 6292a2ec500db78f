"""Files that are written completely or not at all."""

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jaxbias._core.errors import ArgumentError

OPEN: set[str] = set()  # temporary folders in use, for an end without cleaning up
PLACE = "a file in an existing folder with write permission"


def can_be_written(out: Path) -> bool:
    """Whether the path is free, or a regular file, which would be replaced.

    Not a device: replacing /dev/null by a file would break the machine for all its users.
    """
    free = out.is_file() or not os.path.lexists(out)
    return free and out.parent.is_dir() and os.access(out.parent, os.W_OK)


def check_writable(out: Path, argument: str = "out", others: Iterable[Any] = ()) -> None:
    """Refuses a path where no file can be put; for a caller that wants to know before the work.

    `others` are the files that the caller reads or writes beside it: none of them may be replaced.
    """
    if not can_be_written(out):
        raise ArgumentError(argument, str(out), PLACE)
    if any(isinstance(other, str | os.PathLike) and _is_same(out, Path(other)) for other in others):
        problem = f"is {str(out)!r}, which is also read or written by this command"
        raise ArgumentError(argument, str(out), problem=problem, remedy="give it another name")


def _is_same(one: Path, other: Path) -> bool:
    try:
        return os.path.realpath(one) == os.path.realpath(other) or os.path.samefile(one, other)
    except (OSError, ValueError):  # one of them does not exist, or cannot
        return False


@contextmanager
def written_whole(out: Path) -> Iterator[Path]:
    """A temporary path beside `out`; the file written there replaces `out` at the end, unless an error was raised.

    The temporary file is in a folder of its own with a random name, which only this user can enter: no other process has the
    same, and nobody can put a link there.
    """
    check_writable(out)
    out = out.resolve()  # a link stays, and its target is replaced
    with tempfile.TemporaryDirectory(prefix=".jaxbias-", dir=out.parent, ignore_cleanup_errors=True) as folder:
        temporary = Path(folder) / out.name
        OPEN.add(folder)
        try:
            yield temporary
            temporary.replace(out)
        finally:
            OPEN.discard(folder)
