"""The start of a command that computes: every core, the cache, and the programs that the same command needed last time."""

import re
import sys

import jaxbias as jb
from jaxbias._core.cache import use_cache
from jaxbias.cli.app import TYPED

WORD = re.compile(r"-{0,2}[a-z]+[a-z0-9-]*")  # an option, or the name of a policy, a family or a method: not a file or a number


def start_jax() -> None:
    """For a command that runs in one process; what is loaded ahead is found by the command's words."""
    jb.use_all_cores()
    use_cache()
    from jaxbias._core.programs import PROGRAMS  # here, because it imports JAX

    PROGRAMS.load_ahead([word for word in TYPED.get([]) if WORD.fullmatch(word)])


def end_jax() -> None:
    """The end of a command, whether or not it has begun to compute."""
    if programs := sys.modules.get("jaxbias._core.programs"):
        programs.PROGRAMS.end()
