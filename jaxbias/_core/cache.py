"""Compiled programs are cached in the user's cache directory, so later runs start faster.

The directory is $JAXBIAS_CACHE, or jaxbias in the system's cache directory ($XDG_CACHE_HOME or ~/.cache on Linux).
JAXBIAS_CACHE=off turns the cache off. If JAX's own JAX_COMPILATION_CACHE_DIR is set, it is used instead.
"""

import os
import re
import stat
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import platformdirs

OFF = "off"
DAMAGED = re.compile("Error (reading|writing) persistent compilation cache entry")  # of a damaged entry, and on a full disk


def cache_directory() -> Path | None:
    """Where compiled programs are cached; None if they are not."""
    asked = os.environ.get("JAXBIAS_CACHE", "")
    if asked == OFF:
        return None
    if asked:
        return Path(asked)
    try:
        directory = platformdirs.user_cache_path("jaxbias", appauthor=False)
    except (RuntimeError, KeyError, OSError):  # a user without a home directory
        return None
    return directory if directory.is_absolute() else None


def is_private(directory: Path) -> bool:
    """Whether nobody but this user can write there: what is in the cache is run."""
    found = directory.stat()
    return not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def use_cache(directory: str | Path | None = None) -> None:
    """Keeps compiled programs in a directory, so that later processes start faster. Call it at the start of a script or notebook.

    Without it, every new process compiles what it uses again. The command line calls it by itself. Compiled programs are
    executed, so a directory that others can write to is not used. If the directory cannot be written to, nothing is kept,
    without a message.

    Arguments:
        directory: by default $JAXBIAS_CACHE, or jaxbias in the system's cache directory (~/.cache/jaxbias on Linux). With
            JAXBIAS_CACHE=off nothing is kept.
    """
    directory = cache_directory() if directory is None else Path(directory)
    if directory is None or "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        private = is_private(directory)
        if private and directory.stat().st_mode & 0o077:
            directory.chmod(0o700)
    except OSError:
        return
    if private and os.access(directory, os.W_OK):
        import jax

        from jaxbias._core.programs import PROGRAMS

        jax.config.update("jax_compilation_cache_dir", str(directory))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # most programs are small, and there are many
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        PROGRAMS.keep_in(directory)
        _replace_damaged(directory)


def _replace_damaged(directory: Path) -> None:
    """Has damaged entries of JAX's own cache removed, of which JAX only warns: it never writes an entry that exists again."""
    show = warnings.showwarning

    def show_others(message: Any, *where: Any, **more: Any) -> None:
        if DAMAGED.match(str(message)):
            _remove_entries(directory)
        else:
            show(message, *where, **more)

    if not getattr(show, "is_ours", False):
        show_others.is_ours = True  # pyright: ignore  (so that it is put there once)
        warnings.showwarning = show_others
    warnings.filterwarnings("always", message=DAMAGED.pattern)


def _remove_entries(directory: Path) -> None:
    for path in directory.glob("*-cache"):
        with suppress(OSError):
            path.unlink()
