"""`jaxbias propensities`: the exact probability of every arm, for a log that has none; and whether logged ones are right."""

from pathlib import Path
from typing import Annotated, Any

import typer

import jaxbias as jb
from jaxbias._core.cache import use_cache
from jaxbias._core.files import check_writable, written_whole
from jaxbias.cli.app import app
from jaxbias.cli.debiasing import HOLDS
from jaxbias.cli.options import Json, Sigma, refuse_fit, with_policy_options, with_reading_options
from jaxbias.naming.collection import build_collection
from jaxbias.naming.names import Opening, PolicyName
from jaxbias.naming.settings import COLUMNS
from jaxbias.reporting import terminal as report

DISAGREE = 1  # exit code: the log has probabilities, and some are not the policy's


def _of_log(text: str, *names: str, **options: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel="The log", show_default=False, **options)


def _column(role: str) -> Any:
    return Annotated[str | None, _of_log(f"Name of the column that holds {HOLDS[role]}.", f"--{role}-column", metavar="NAME")]


@app.command(
    epilog="Example: jaxbias propensities log.csv --policy thompson --out with-weights.csv. Exit code: 0; 1 if the log has "
    "probabilities and they are not the policy's; 2 for bad input."
)
@with_policy_options
@with_reading_options
def propensities(
    given: dict[str, Any],
    reading: dict[str, Any],
    log: Annotated[
        str, typer.Argument(metavar="LOG", help="A CSV, TSV or Parquet file, plain or gzipped; - for standard input.")
    ],
    policy: Annotated[PolicyName, typer.Option(help="The policy that chose the arms.")],
    sigma: Sigma = None,
    out: Annotated[Path | None, typer.Option(help="Write the probabilities to this CSV file.", metavar="FILE.csv")] = None,
    tolerance: Annotated[float, typer.Option(help="How far a logged probability may be from the exact one.")] = 0.01,
    as_json: Json = False,
    arm: Annotated[list[str] | None, _of_log("Label of an arm; once for each arm in order, including arms never pulled.")] = None,
    opening: Annotated[Opening | None, _of_log("Whether the first pull of each arm was forced (forced) or chosen.")] = None,
    first: Annotated[int | None, _of_log("Read only this many rows, the first ones.")] = None,
    trial: Annotated[str | None, _of_log("Which trial to read, if the log has several.")] = None,
    separator: Annotated[str | None, _of_log("Separator of the columns in a text file (comma; tab in a .tsv).")] = None,
    decimal: Annotated[str, _of_log("Decimal mark, . or , (.).")] = ".",
    arm_column: _column("arm") = None,  # pyright: ignore  (what typer reads)
    reward_column: _column("reward") = None,  # pyright: ignore
    batch_column: _column("batch") = None,  # pyright: ignore
    propensity_column: _column("propensity") = None,  # pyright: ignore
    time_column: _column("time") = None,  # pyright: ignore
    forced_column: _column("forced") = None,  # pyright: ignore
    trial_column: _column("trial") = None,  # pyright: ignore
) -> None:
    """Write the exact probability of every arm at every step or batch of a log; check those that it has."""
    options = locals()
    refuse_fit(given)
    named = {role: options.get(f"{role}_column", reading.pop(f"{role}_column", None)) for role in COLUMNS}
    columns = {role: name for role, name in named.items() if name is not None}
    if out is not None:
        check_writable(out, others=(log, reading.get("weights")))  # before the work, not after it
    use_cache()
    marks: Any = dict(separator=separator, decimal=decimal, arms=arm or None, columns=columns)
    read = jb.read_log(log, trial=trial, first=first, **marks, **reading)
    settings = {"policy": policy, **given, **({"sigma": list(sigma)} if sigma else {})}
    built = build_collection(settings, read.labels, read.history.num_steps).policy
    found = _find(read, built, str(opening or Opening.forced), tolerance)
    if out is not None:
        with written_whole(out) as temporary:
            temporary.write_text(found.table, encoding="utf-8", newline="")
    if found.logged and as_json:
        typer.echo(report.to_json(report.propensities_document(read, found.ratio, found.policy)))
    elif found.logged:
        report.print_propensities(read, type(built).__name__, found.ratio, found.policy)
    elif as_json:
        typer.echo(report.to_json({"labels": read.labels, "weights": found.weights, "rows": len(found.weights)}))
    elif out is None:
        typer.echo(found.table, nl=False)
    if found.policy is not None and not found.policy.agrees:
        raise typer.Exit(DISAGREE)


def _find(read: Any, policy: Any, opening: str, tolerance: float) -> Any:
    """The exact probabilities, as a table too, and the checks of those that were logged; in float64, as in debias."""
    from jaxbias.analysis.propensities import find_propensities  # here, as it imports JAX

    return find_propensities(read, policy, opening=opening, tolerance=tolerance)
