"""`jaxbias debias` and `jaxbias examples`: from a log to a corrected estimate."""

import shlex
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

import jaxbias as jb
from jaxbias._core.errors import ArgumentError
from jaxbias._core.files import check_writable
from jaxbias.cli.app import TYPED, app
from jaxbias.cli.errors import option_names
from jaxbias.cli.options import Json, Preset, Seed, make_key, with_fitted_policy_options, with_reading_options, with_stop_options
from jaxbias.cli.starting import start_jax
from jaxbias.cli.waiting import show_progress
from jaxbias.estimators.registry import METHODS
from jaxbias.examples import DEFAULT, list_examples, load_example
from jaxbias.naming.building import settings_of
from jaxbias.naming.collection import build_collection
from jaxbias.naming.config import read_config, write_config
from jaxbias.naming.names import Allocation, FamilyName, Opening, PolicyName
from jaxbias.naming.presets import with_preset
from jaxbias.naming.settings import (
    COLUMNS,
    DESCRIPTIONS,
    ESTIMATE,
    ESTIMATE_EACH,
    POLICY_SETTINGS,
    READING_SETTINGS,
)
from jaxbias.reporting import terminal as report

NOT_TRUSTED = 1  # exit code: there is an estimate, but it cannot be trusted
TINY = 1e-3  # seconds that are left of a budget which reading the log has spent


Method: Any = StrEnum("Method", [(name, name) for name in METHODS])  # what --method takes


def _number_or_estimate(text: str) -> Any:
    try:
        return text if text in (ESTIMATE, ESTIMATE_EACH) else float(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a number, {ESTIMATE!r} or {ESTIMATE_EACH!r}") from error


HOLDS = {  # what each column holds, for the help
    "arm": "the arm",
    "reward": "the reward",
    "batch": "the batch: a number, a date or a label in order of time",
    "propensity": "the probability of the pulled arm",
    "time": "the time",
    "forced": "whether the pull was forced",
    "trial": "the trial",
}


def _of_time(text: str, *names: str, **options: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel="Time and progress", **options)


def _of_log(text: str, *names: str, **options: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel="The log", show_default=False, **options)


def _column(role: str) -> Any:
    return Annotated[str | None, _of_log(f"Name of the column that holds {HOLDS[role]}.", f"--{role}-column", metavar="NAME")]


Example = Annotated[str | None, typer.Option(help="An example log; `jaxbias examples` lists them.", metavar="NAME")]
SigmaOrEstimate = Annotated[
    list[Any] | None,
    typer.Option(
        help="Standard deviation of normal rewards; give it once, or once for each arm. Or estimate (the default): estimated "
        "from the log, one for all arms; or estimate-each: one for each arm.",
        parser=_number_or_estimate,
        metavar="NUMBER",
        show_default=False,
    ),
]


@app.command(
    epilog="Example: jaxbias debias log.csv --policy thompson --sigma 1.5 --report report.html. Exit code: 0; 1 if the "
    "estimate cannot be trusted (it has not converged, or the policy does not fit the log); 2 for bad input."
)
@with_fitted_policy_options
@with_stop_options
@with_reading_options
def debias(
    given: dict[str, Any],
    stopping: dict[str, Any],
    reading: dict[str, Any],
    log: Annotated[
        str | None, typer.Argument(help="A CSV, TSV or Parquet file, plain or gzipped; - for standard input.", metavar="LOG")
    ] = None,
    policy: Annotated[
        PolicyName | None, typer.Option(help="The policy that chose the arms; few methods can do without it.")
    ] = None,
    preset: Preset = None,
    family: Annotated[
        FamilyName | None, typer.Option(help="Distribution of the rewards (bernoulli if all are 0 or 1, else normal).")
    ] = None,
    sigma: SigmaOrEstimate = None,
    method: Annotated[list[Method] | None, typer.Option(help="A method to try (all); may be repeated.")] = None,  # pyright: ignore
    level: Annotated[float | None, typer.Option(help="Confidence level of the intervals (0.95).", show_default=False)] = None,
    control: Annotated[
        str | None, typer.Option(help="Label of the arm that every other one is compared with.", metavar="LABEL")
    ] = None,
    example: Example = None,
    seed: Seed = 0,
    as_json: Json = False,
    out: Annotated[Path | None, typer.Option("--report", help="Also write an HTML report.", metavar="FILE.html")] = None,
    config: Annotated[
        Path | None, typer.Option(help="Read settings from a file; options take precedence.", metavar="FILE.toml")
    ] = None,
    save_config: Annotated[
        Path | None, typer.Option(help="Write the settings to a file for --config.", metavar="FILE.toml")
    ] = None,
    evaluated: Annotated[
        bool,
        _of_time(
            "Recommend by how the methods do on logs simulated like this one (evaluate).",
            "--evaluate/--no-evaluate",
            show_default=False,
        ),
    ] = True,
    quiet: Annotated[bool, _of_time("Print only errors on standard error.", "--quiet")] = False,
    budget: Annotated[
        float | None,
        _of_time("Seconds to spend on the methods, the most useful first (no limit).", min=0, show_default=False),
    ] = None,
    details: Annotated[
        bool, typer.Option("--details", help="Also print every method, and how each does on logs like this one.")
    ] = False,
    all_arms: Annotated[bool, typer.Option("--all-arms", help="Print every arm and not only the best and worst.")] = False,
    arm: Annotated[list[str] | None, _of_log("Label of an arm; once for each arm in order, including arms never pulled.")] = None,
    opening: Annotated[Opening | None, _of_log("Whether the first pull of each arm was forced (forced) or chosen.")] = None,
    allocation: Annotated[Allocation | None, _of_log("How batches were divided among the arms (independent).")] = None,
    batch_size: Annotated[
        int | None, _of_log("How many rows were chosen at once, where the log has no column of batches.")
    ] = None,
    max_steps: Annotated[int | None, _of_log("Rows it could have had if no rule had stopped it (as many as it has).")] = None,
    first: Annotated[int | None, _of_log("Read only this many rows, the first ones.")] = None,
    trial: Annotated[str | None, _of_log("Which trial to read, if the log has several.")] = None,
    separator: Annotated[str | None, _of_log("Separator of the columns in a text file (comma; tab in a .tsv).")] = None,
    decimal: Annotated[str | None, _of_log("Decimal mark, . or , (.).")] = None,
    arm_column: _column("arm") = None,  # pyright: ignore  (what typer reads)
    reward_column: _column("reward") = None,  # pyright: ignore
    batch_column: _column("batch") = None,  # pyright: ignore
    propensity_column: _column("propensity") = None,  # pyright: ignore
    time_column: _column("time") = None,  # pyright: ignore
    forced_column: _column("forced") = None,  # pyright: ignore
    trial_column: _column("trial") = None,  # pyright: ignore
) -> None:
    """Correct the sample means of a log, or without LOG those of an example."""
    options = locals()
    named = {role: options.get(f"{role}_column", reading.pop(f"{role}_column", None)) for role in COLUMNS}
    columns = {role: name for role, name in named.items() if name is not None}
    typed = dict(
        policy=policy, family=family, sigma=sigma, method=method, level=level, opening=opening, arms=arm, control=control
    )
    typed |= dict(separator=separator, decimal=decimal, columns=columns, allocation=allocation, max_steps=max_steps)
    typed |= dict(preset=preset, batch_size=batch_size) | reading
    source, from_file = _find_log(log, example, config)
    settings = _merge(
        from_file, {**{name: value for name, value in typed.items() if value not in (None, [], {})}, **stopping, **given}
    )
    used = (source, settings.get("weights"))  # files that are read
    if save_config is not None:
        check_writable(save_config, "save_config", used)  # before the work, not after it
    if out is not None:
        check_writable(out, others=(*used, config, save_config))
    began = time.monotonic()
    with show_progress(quiet) as progress:
        progress("loading JAX")
        start_jax()
        chosen = {name: settings[name] for name in READING_SETTINGS if name in settings}
        read = jb.read_log(source, trial=trial, first=first, **chosen)
        rest = None if budget is None else max(budget - (time.monotonic() - began), TINY)
        analysis = _analyse(read, settings, seed, evaluated, progress, rest)
    if save_config is not None:
        write_config(save_config, {name: value for name, value in settings.items() if value != [ESTIMATE]})
    if out is not None:
        jb.write_report(analysis, out, command=shlex.join(["jaxbias", *TYPED.get()]))
    if not quiet:
        _warn(analysis)
    if as_json:
        run = {
            **settings_of(with_preset(settings).get("policy"), analysis.policy, analysis.family),
            "seed": seed,
            "version": jb.__version__,
        }
        typer.echo(report.to_json({**report.debias_document(analysis, option_names(None)), "settings": run}))
    else:
        report.print_debias(analysis, f"The report is in {out}." if out else "", option_names(None), all_arms, details)
    if not analysis.trusted:
        raise typer.Exit(NOT_TRUSTED)


def _find_log(log: str | None, example: str | None, config: Path | None) -> tuple[Any, dict[str, Any]]:
    """What to read, and the settings that come with it."""
    settings = {} if config is None else read_config(config)
    if log == "":
        raise ArgumentError("source", log, "a path, or - for standard input", problem="is empty")
    if log is None:
        found = load_example(example or DEFAULT)
        return found.path, {**found.settings, **settings}
    if example is not None:
        problem = lambda name_of: f"is {example!r} and {name_of('source')} is {log!r}"
        raise ArgumentError("name", example, problem=problem, remedy="give one of them")
    return log, settings


def _merge(from_file: dict[str, Any], typed: dict[str, Any]) -> dict[str, Any]:
    """The settings of a file, replaced by those typed; a typed policy replaces all the file's settings of its policy."""
    kept = {name: value for name, value in from_file.items() if name not in DESCRIPTIONS}
    if "preset" in typed or ("policy" in typed and typed["policy"] != from_file.get("policy")):
        kept = {name: value for name, value in kept.items() if name not in ("policy", "preset", *POLICY_SETTINGS)}
    columns = {**kept.get("columns", {}), **typed.get("columns", {})}
    return {**kept, **typed, **({"columns": columns} if columns else {})}


def _analyse(log: Any, settings: dict[str, Any], seed: int, evaluated: bool, progress: Any, budget: float | None) -> Any:
    """The call of `jaxbias.debias` that the settings describe."""
    design = build_collection(settings, log.labels, log.history.num_steps)
    methods = [str(method) for method in settings["method"]] if "method" in settings else None
    level = settings.get("level", 0.95)
    asked: Any = dict(level=level, methods=methods, evaluate=evaluated, progress=progress, budget=budget)
    asked |= dict(control=settings.get("control"))
    return jb.debias(make_key(seed), log, **asked, **design._asdict())


def _warn(analysis: Any) -> None:
    """What reading the log decided and what the analysis assumed, on standard error."""
    from jaxbias.reporting.assumptions import warnings_of  # here, because it imports JAX

    for warning in warnings_of(analysis):
        print(f"jaxbias: {warning}", file=sys.stderr)


@app.command(epilog="Example: jaxbias debias --example ecmo")
def examples(as_json: Json = False) -> None:
    """List the example logs that come with jaxbias."""
    found = list_examples()
    if as_json:
        words = ("name", "title", "description", "source")
        typer.echo(report.to_json({"examples": [{word: getattr(one, word) for word in words} for one in found]}))
    else:
        report.print_examples(found)
