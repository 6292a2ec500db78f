"""The command line: options to calls, no mathematics.

JAX is imported inside the commands, so that `--help` answers at once. Bad input is one line on standard error and exit code 2.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any

try:
    import typer
    from typer.main import get_command

    from jaxbias.cli import (  # noqa: F401  (they register their commands)
        debiasing,
        evaluating,
        listing,
        planning,
        propensities,
        reproducing,
        simulating,
    )
    from jaxbias.cli.app import TYPED, app
except ModuleNotFoundError as error:
    raise SystemExit(f"jaxbias: {error}; install the command line with pip install 'jaxbias[cli]'") from error

from jaxbias._core.errors import ArgumentError
from jaxbias.cli.errors import option_names, suggest_name
from jaxbias.cli.starting import check_devices, end_jax
from jaxbias.cli.supervising import Supervised, use_channels_of_parent

USAGE_ERROR: Any = typer.BadParameter.__mro__[1]  # click's UsageError, wherever this release of typer keeps it
NO_ROOM = "RESOURCE_EXHAUSTED"  # how XLA's message begins where there is no memory
INTERRUPTED = 130  # the exit code that shells give after Ctrl-C: 128 plus the number of the signal


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    TYPED.set(arguments)
    use_channels_of_parent()
    command = _command()
    try:
        code = _run(command, arguments or ["--help"])
    except USAGE_ERROR as error:
        words = error.format_message().replace("Value error, ", "")
        return _complain(words + suggest_name(getattr(error, "param", None), arguments), code=2)
    except ArgumentError as error:
        return _complain(error.describe(option_names(command.commands.get(arguments[0]))), code=2)
    except ValueError as error:
        return _complain(str(error), code=2)
    except Supervised as end:
        return end.code
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except OSError as error:  # such as a full disk
        return _complain(str(error), code=2)
    finally:
        end_jax()
    return _complain("interrupted", code) if code == INTERRUPTED else code or 0


def _run(command: Any, arguments: list[str]) -> Any:
    try:
        return command.main(arguments, prog_name="jaxbias", standalone_mode=False)
    except (RuntimeError, AssertionError) as error:
        if "jax" in sys.modules:
            check_devices()
        if NO_ROOM not in str(error):  # JAX, which has this error, is imported inside the commands
            raise
        from jaxbias._core.memory import refusing_what_has_no_room

        with refusing_what_has_no_room("the command"):
            raise


@cache
def _command() -> Any:
    """Made once: it takes longer than reading a short log."""
    return get_command(app)


def _complain(message: str, code: int) -> int:
    with suppress(OSError):  # a full disk or a closed pipe: the exit code says it too
        print(f"jaxbias: {' '.join(message.split())}", file=sys.stderr)
    return code
