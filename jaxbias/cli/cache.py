"""What the command line compiled before is kept in the user's cache directory, so that the second run starts at once.

Where: $JAXBIAS_CACHE, or jaxbias under the system's cache directory (~/.cache on Linux). Off: JAXBIAS_CACHE=off. JAX's own
JAX_COMPILATION_CACHE_DIR, where it is set, is left as it is.
"""

import os
import sys
from pathlib import Path

OFF = "off"


def cache_directory() -> Path | None:
    """Where compiled functions are kept; None where they are not."""
    asked = os.environ.get("JAXBIAS_CACHE", "")
    if asked == OFF:
        return None
    return Path(asked) if asked else _system_directory() / "jaxbias"


def _system_directory() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def use_cache() -> None:
    """Has JAX keep what it compiles, in this process; where the directory cannot be made, it goes without."""
    directory = cache_directory()
    if directory is None or "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    if os.access(directory, os.W_OK):
        import jax

        jax.config.update("jax_compilation_cache_dir", str(directory))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # there are many small ones
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
