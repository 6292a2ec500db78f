"""The application that the commands register with."""

from contextvars import ContextVar
from typing import Annotated

import typer

import jaxbias as jb
from jaxbias.cli.helping import App, Group

TYPED: ContextVar[list[str]] = ContextVar("TYPED")  # the arguments of this run, which a report repeats

app = App(
    cls=Group,
    help="Measure and remove the bias of adaptively collected data.",
    epilog="Example: jaxbias debias log.csv --policy thompson --sigma 1.5 --report report.html",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"jaxbias {jb.__version__}")
        raise typer.Exit
    return wanted


Version = Annotated[bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)]


@app.callback()
def _common(version: Version = False) -> None:
    del version  # handled by its callback
