"""The start of a command that computes: every core, the cache, and the programs that the same command needed last time."""

import os
import re
import sys

import jaxbias as jb
from jaxbias._core.cache import use_cache
from jaxbias._core.errors import ArgumentError
from jaxbias.cli.app import TYPED

WORD = re.compile(r"-{0,2}[a-z]+[a-z0-9-]*")  # an option, or the name of a policy, a family or a method: not a file or a number


def start_jax() -> None:
    """For a command that runs in one process; what is loaded ahead is found by the command's words."""
    jb.use_all_cores()
    use_cache()
    from jaxbias._core.programs import PROGRAMS  # here, because it imports JAX

    PROGRAMS.load_ahead([word for word in TYPED.get([]) if WORD.fullmatch(word)])


def check_devices() -> None:
    """Refuses a platform without devices, after an error that may come of it: JAX has several, some without words."""
    import jax

    try:
        jax.devices()
    except (RuntimeError, AssertionError) as error:
        named = os.environ.get("JAX_PLATFORMS", "")
        problem = f"is {named!r}, of which JAX has no device here" if named else f"has no device: {error}"
        remedy = "set that variable to cpu, or to nothing"
        raise ArgumentError("platform", named, subject="JAX_PLATFORMS", problem=problem, remedy=remedy) from error


def end_jax() -> None:
    """The end of a command, whether or not it has begun to compute."""
    if programs := sys.modules.get("jaxbias._core.programs"):
        programs.PROGRAMS.end()
