"""`jaxbias reproduce`: the paper, ours beside theirs."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

import jaxbias as jb
from jaxbias import report
from jaxbias.cli.app import TYPED, app
from jaxbias.cli.cache import use_cache
from jaxbias.cli.options import Json, Seed
from jaxbias.cli.processes import Processes, spread_over, with_process_options

DISAGREES = 1  # exit code: a cell that should agree does not
FOLDER = Path("jaxbias-paper")


@app.command(
    epilog="Example: jaxbias reproduce table2 figure2e --trials 200 --out paper. Exit code: 0; 1 where a cell that should agree "
    "with the paper is more than 4 standard errors away; 2 for bad input. A run that was stopped goes on where it was."
)
@with_process_options
def reproduce(
    processes: Processes | None,
    names: Annotated[list[str] | None, typer.Argument(help="table1 ... figure2f, or all.", metavar="[NAME]...")] = None,
    trials: Annotated[int | None, typer.Option(help="In place of the paper's 1000; what has more is scaled alike.")] = None,
    out: Annotated[Path, typer.Option(help="The folder for the tables, figures and the page.", metavar="DIR")] = FOLDER,
    jobs: Annotated[int | None, typer.Option(help="Experiments at a time (one for each core).", show_default=False)] = None,
    seed: Seed = 0,
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Nothing on standard error but errors.")] = False,
) -> None:
    """Run the tables and figures of the paper, and compare with what it printed."""
    use_cache()
    with spread_over(processes) as answers:
        with _progress(quiet or not answers) as tell:
            found = jb.reproduce(names or ["all"], out, trials=trials, seed=seed, jobs=jobs, progress=tell)
        if not answers:
            return
        page = jb.write_reproduction(found, out, command=shlex.join(["jaxbias", *TYPED.get()]))
        if as_json:
            settings = {"names": [spec.name for spec in found.specs], "trials": trials, "seed": seed, "version": jb.__version__}
            typer.echo(report.to_json({**report.reproduction_document(found), "page": str(page), "settings": settings}))
        else:
            report.print_reproduction(found, page)
    if found.failures:
        raise typer.Exit(DISAGREES)


@contextmanager
def _progress(quiet: bool) -> Iterator[Any]:
    """A bar on a terminal; elsewhere a line for each experiment."""
    if quiet:
        yield None
        return
    if not sys.stderr.isatty():
        yield lambda step: step.name and print(f"jaxbias: {step.done}/{step.total} {step.name}", file=sys.stderr, flush=True)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.fields[cells]} cells"), BarColumn(), TimeElapsedColumn(), TextColumn("left:"))
    # The speed is that of the whole run: two cells may differ a hundredfold.
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), speed_estimate_period=3600) as bar:
        task = bar.add_task("", total=1.0, cells="0")
        yield lambda step: bar.update(task, completed=step.share, cells=f"{step.done}/{step.total}")
