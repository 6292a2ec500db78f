"""`jaxbias reproduce`: the tables and figures of the paper, our numbers beside the printed ones."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

import jaxbias as jb
from jaxbias._core.cache import use_cache
from jaxbias.cli.app import TYPED, app
from jaxbias.cli.options import Json, Seed, make_key
from jaxbias.cli.processes import Processes, spread_over, with_process_options
from jaxbias.reporting import terminal as report

DISAGREES = 1  # exit code: a cell that should agree does not
FOLDER = Path("jaxbias-paper")


@app.command(
    epilog="Example: jaxbias reproduce table2 figure2e --trials 200 --out paper. Exit code: 0; 1 if a cell that should agree "
    "with the paper is more than 4 standard errors away; 2 for bad input. An interrupted run continues where it stopped."
)
@with_process_options
def reproduce(
    processes: Processes | None,
    names: Annotated[list[str] | None, typer.Argument(help="table1 ... figure2f, or all.", metavar="[NAME]...")] = None,
    trials: Annotated[
        int | None, typer.Option(help="Instead of the paper's 1000; larger numbers are scaled in proportion.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the tables, the figures and the page.", metavar="DIR")] = FOLDER,
    jobs: Annotated[
        int | None, typer.Option(help="Experiments to run at a time (one for each core).", show_default=False)
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only errors on standard error.")] = False,
) -> None:
    """Reproduce the tables and figures of the paper, and compare with the printed numbers."""
    use_cache()
    from jaxbias import paper
    from jaxbias.paper.terminal import print_reproduction, reproduction_document

    with spread_over(processes) as answers:
        with show_progress(quiet or not answers) as progress:
            found = paper.reproduce(make_key(seed), names or ["all"], out, num_trials=trials, jobs=jobs, progress=progress)
        if not answers:
            return
        page = paper.write_reproduction(found, out, command=shlex.join(["jaxbias", *TYPED.get()]))
        if as_json:
            settings = {"names": [spec.name for spec in found.specs], "trials": trials, "seed": seed, "version": jb.__version__}
            typer.echo(report.to_json({**reproduction_document(found), "page": str(page), "settings": settings}))
        else:
            print_reproduction(found, page)
    if found.failures:
        raise typer.Exit(DISAGREES)


@contextmanager
def show_progress(quiet: bool, unit: str = "cells") -> Iterator[Any]:
    """A progress bar on a terminal, and a line for each step elsewhere."""
    if quiet:
        yield None
        return
    if not sys.stderr.isatty():
        yield lambda step: step.name and print(f"jaxbias: {step.done}/{step.total} {step.name}", file=sys.stderr, flush=True)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn(f"{{task.fields[cells]}} {unit}"), BarColumn(), TimeElapsedColumn(), TextColumn("left:"))
    # The speed is averaged over the whole run, because cells differ a hundredfold.
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), speed_estimate_period=3600) as bar:
        task = bar.add_task("", total=1.0, cells="0")
        yield lambda step: bar.update(task, completed=step.share, cells=f"{step.done}/{step.total}")
