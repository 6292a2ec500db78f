"""The command line: words to calls, no mathematics.

JAX is imported inside the commands, so that `--help` answers at once. Bad input is one line on standard error and exit code 2.
"""

import sys
from collections.abc import Sequence
from typing import Any

try:
    import typer
    from typer.main import get_command

    from jaxbias.cli import debiasing, reproducing, simulating  # noqa: F401  (they register their commands)
    from jaxbias.cli.app import TYPED, app
except ModuleNotFoundError as error:
    raise SystemExit(f"jaxbias: {error}; the command line comes with pip install 'jaxbias[cli]'") from error

from jaxbias.naming import as_option

USAGE_ERROR: Any = typer.BadParameter.__mro__[1]  # click's UsageError, wherever this release of typer keeps it
INTERRUPTED = 130  # what a shell makes of Ctrl-C: 128 and the number of the signal
ARGUMENTS = {  # what the library calls an option, where that is another word
    "num_steps": "--steps",
    "num_trials": "--trials",
    "num_arms": "--arms",
    "num_cases": "--cases",
    "mean": "--mean",
    "level": "--level",
    "methods": "--method",
    "family.sigma": "--sigma",
    "policy.sigma": "--policy-sigma (by default --sigma)",
    "out": "--report",
    "trial": "--trial",
    "trials": "--trials",
    "jobs": "--jobs",
    "names": "NAME",
    "folder": "--out",
    "first": "--first",
    "arms": "--arm",
    "separator": "--separator",
    "decimal": "--decimal",
    "allocation": "--allocation",
    "batch_size": "--batch-size",
    "stop.threshold": "--stop-difference or --stop-mean",
    "stop.first": "--stop-first",
    "stop.every": "--stop-every",
    "stop.arm": "--stop-arm",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    TYPED.set(arguments)
    try:
        code = get_command(app).main(arguments or ["--help"], prog_name="jaxbias", standalone_mode=False)
    except USAGE_ERROR as error:
        return _complain(error.format_message().replace("Value error, ", ""), code=2)
    except ValueError as error:
        return _complain(_in_options(str(error)), code=2)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except OSError as error:
        return _complain(str(error), code=1)
    return _complain("interrupted", code) if code == INTERRUPTED else code or 0


def _in_options(message: str) -> str:
    """The library's message with its argument, the first word, as the option that was typed."""
    argument, _, rest = message.partition(" ")
    if argument.startswith("policy.") and rest.startswith("is "):
        argument = ARGUMENTS.get(argument, as_option(argument.removeprefix("policy.")))
    return f"{ARGUMENTS.get(argument, argument)} {rest}"


def _complain(message: str, code: int) -> int:
    print(f"jaxbias: {' '.join(message.split())}", file=sys.stderr)
    return code
