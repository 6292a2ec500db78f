"""Compiled programs are cached in the user's cache directory, so later runs start faster.

The directory is $JAXBIAS_CACHE, or jaxbias in the system's cache directory ($XDG_CACHE_HOME or ~/.cache on Linux).
JAXBIAS_CACHE=off turns the cache off. If JAX's own JAX_COMPILATION_CACHE_DIR is set, it is used instead.
"""

import os
import stat
from pathlib import Path

import platformdirs

OFF = "off"


def cache_directory() -> Path | None:
    """Where compiled programs are cached; None if they are not."""
    asked = os.environ.get("JAXBIAS_CACHE", "")
    if asked == OFF:
        return None
    return Path(asked) if asked else platformdirs.user_cache_path("jaxbias", appauthor=False)


def is_private(directory: Path) -> bool:
    """Whether nobody but this user can write there: what is in the cache is run."""
    found = directory.stat()
    return not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def use_cache(directory: str | Path | None = None) -> None:
    """Keeps compiled programs in a directory, so that later processes start faster: a line for the start of a script or notebook.

    Without it every new process compiles again what it uses. The command line calls it itself. Compiled programs are executed, so
    that a directory which others can write to is not used; nor is any, without a message, where it cannot be written.

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
    except OSError:
        return
    if private and os.access(directory, os.W_OK):
        import jax

        from jaxbias._core.programs import PROGRAMS

        jax.config.update("jax_compilation_cache_dir", str(directory))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # most programs are small, and there are many
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        PROGRAMS.keep_in(directory)
