"""Finished results in a folder: one JSON file for each, written whole, and read by the next run."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from jaxbias._core.errors import ArgumentError
from jaxbias._core.files import written_whole


def save_kept(path: Path, head: dict[str, Any], content: dict[str, Any]) -> None:
    """Writes a result with what identifies it."""
    text = json.dumps({**head, **content}) + "\n"
    with suppress(OSError):  # an empty folder in its place; one with files is for its owner to remove
        path.rmdir()
    with written_whole(path) as temporary:
        temporary.write_text(text)


def load_kept(path: Path, head: dict[str, Any]) -> dict[str, Any] | None:
    """A result; None where there is none with the same head."""
    try:
        kept = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(kept, dict) or {name: kept.get(name) for name in head} != head:
        return None
    return None if _has_null([value for name, value in kept.items() if name not in head]) else kept


def _has_null(value: Any) -> bool:
    """Whether a value is missing: a figure that does not exist is written as NaN."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return value is None or any(map(_has_null, parts))


def make_folder(folder: str | Path, inside: str) -> Path:
    """The folder, with a subfolder for the results."""
    folder = Path(folder)
    writable = "a folder that can be written to"
    try:
        (folder / inside).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = f"is {str(folder)!r}: {error.strerror}"
        raise ArgumentError("folder", str(folder), writable, problem=problem) from error
    if not os.access(folder / inside, os.W_OK):
        raise ArgumentError("folder", str(folder), writable)
    return folder
