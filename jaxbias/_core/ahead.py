"""Programs that a command needed last time, loaded while it is still importing and reading.

A second core does it meanwhile: Python's lock is not held while a program is loaded. What a command needed is kept in a small
file beside the programs, by the command's words; a wrong guess costs that other core some time, and nothing else.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from jaxbias._core.errors import ArgumentError
from jaxbias._core.files import written_whole

FILE = "{}.ahead"
ENDING = ".program"  # of the files in a list
LONGEST = 2**20  # bytes of a list: a long command uses some hundreds of programs


class Ahead:
    """The programs of a folder that threads load before they are asked for, and the list of those that were."""

    def __init__(self, folder: Path, words: Sequence[str], load: Callable[[Path], Any]) -> None:
        """Starts to load what a run with the same words used last time; `load` gets the path of each program."""
        self.list = folder / FILE.format(hashlib.sha256("\0".join(words).encode()).hexdigest())
        self.before = _read(self.list)
        self.used: list[str] = []
        self.threads = ThreadPoolExecutor(max(_cores() - 1, 1), thread_name_prefix="jaxbias-programs")
        names = self.before if _cores() > 1 else []
        self.loading: dict[str, Future[Any]] = {name: self.threads.submit(load, folder / name) for name in names}

    def take(self, name: str) -> Any:
        """The loaded program; None where nobody has begun to load it, or it cannot be loaded."""
        self.used.append(name)
        loading = self.loading.pop(name, None)
        if loading is None or loading.cancel():
            return None
        try:
            return loading.result()
        except Exception:  # whoever asked tries it too, and says what is wrong
            return None

    def end(self) -> None:
        """Loads nothing more, and keeps the list of what was used."""
        self.threads.shutdown(wait=False, cancel_futures=True)
        used = list(dict.fromkeys(self.used))  # one that was forgotten meanwhile was asked for again
        if used and used != self.before:
            with suppress(OSError, ArgumentError), written_whole(self.list) as temporary:
                temporary.write_text("\n".join(used))


def _read(path: Path) -> list[str]:
    """The names in a list, each of a file of the same folder; none where the file is damaged, or no list at all."""
    with suppress(OSError, UnicodeDecodeError):
        if path.is_file() and path.stat().st_size < LONGEST:
            return [name for name in path.read_text().split("\n") if name.endswith(ENDING) and name == Path(name).name]
    return []


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
