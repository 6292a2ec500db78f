"""`jaxbias debias` and `jaxbias examples`: from a log to a corrected estimate."""

import dataclasses
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

import jaxbias as jb
from jaxbias import report
from jaxbias.cli.app import TYPED, app
from jaxbias.cli.cache import use_cache
from jaxbias.cli.options import (
    POLICY_SETTINGS,
    STOP_SETTINGS,
    Json,
    Seed,
    make_key,
    with_policy_options,
    with_stop_options,
)
from jaxbias.config import COLUMNS, read_config, write_config
from jaxbias.examples import DEFAULT, list_examples, load_example
from jaxbias.files import PLACE, can_be_written
from jaxbias.naming import (
    ESTIMATED,
    FIT,
    Allocation,
    FamilyName,
    Opening,
    PolicyName,
    build_family,
    build_policy,
    build_stop,
    describe,
)

NOT_TRUSTED = 1  # exit code: estimated, but not to be trusted
ESTIMATE = "estimate"  # in place of a sigma: as without one


class Method(StrEnum):
    """The estimators by name."""

    sample_mean = "sample_mean"
    data_splitting = "data_splitting"
    propensity_weighting = "propensity_weighting"
    adaptive_weighting = "adaptive_weighting"
    conditional_mle = "conditional_mle"
    mean_matching = "mean_matching"
    batched_ols = "batched_ols"
    confidence_sequence = "confidence_sequence"


def _number_or_estimate(text: str) -> Any:
    try:
        return text if text in ESTIMATED else float(text)
    except ValueError as error:
        words = " nor ".join(repr(word) for word in ESTIMATED)
        raise typer.BadParameter(f"{text!r} is neither a number nor {words}") from error


def _of_log(text: str, *names: str, **options: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel="The log", show_default=False, **options)


def _column(role: str) -> Any:
    return Annotated[str | None, _of_log(f"Name of its column '{role}'.", f"--{role}-column", metavar="NAME")]


Example = Annotated[str | None, typer.Option(help="A log that comes with jaxbias; see `jaxbias examples`.", metavar="NAME")]
SigmaOrEstimate = Annotated[
    list[Any] | None,
    typer.Option(
        help="Standard deviation of normal rewards; once, or once for each arm. estimate (as without it): one from the log; "
        "estimate-each: one for each arm.",
        parser=_number_or_estimate,
        metavar="FLOAT|estimate|estimate-each",
        show_default=False,
    ),
]


@app.command(
    epilog="Example: jaxbias debias log.csv --policy thompson --sigma 1.5 --report report.html. Exit code: 0; 1 where the "
    "estimate is not to be trusted (it has not converged, or the policy does not fit the log); 2 for bad input."
)
@with_policy_options
@with_stop_options
def debias(
    given: dict[str, Any],
    stopping: dict[str, Any],
    log: Annotated[str | None, typer.Argument(help="CSV, TSV, Parquet, also .gz; - for standard input.", metavar="[LOG]")] = None,
    policy: Annotated[PolicyName | None, typer.Option(help="What chose the arms; without it, little can be corrected.")] = None,
    family: Annotated[FamilyName | None, typer.Option(help="Rewards (bernoulli where all are 0 or 1, else normal).")] = None,
    sigma: SigmaOrEstimate = None,
    method: Annotated[list[Method] | None, typer.Option(help="An estimator to try (all); may be repeated.")] = None,
    level: Annotated[float | None, typer.Option(help="Of the intervals (0.95).", show_default=False)] = None,
    example: Example = None,
    seed: Seed = 0,
    as_json: Json = False,
    out: Annotated[Path | None, typer.Option("--report", help="Also write a page for a browser.", metavar="FILE.html")] = None,
    config: Annotated[Path | None, typer.Option(help="Read settings that are not given here.", metavar="FILE.toml")] = None,
    save_config: Annotated[Path | None, typer.Option(help="Write the settings to a file.", metavar="FILE.toml")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Nothing on standard error but errors.")] = False,
    arm: Annotated[list[str] | None, _of_log("Label of an arm; once for each, in order, also of those never pulled.")] = None,
    opening: Annotated[Opening | None, _of_log("Whether the first pull of each arm was forced (forced) or chosen.")] = None,
    allocation: Annotated[Allocation | None, _of_log("How its batches were shared out (independent).")] = None,
    max_steps: Annotated[int | None, _of_log("Rows it could have had, where a rule could stop it (as many as it has).")] = None,
    first: Annotated[int | None, _of_log("Only so many rows, the first.")] = None,
    trial: Annotated[str | None, _of_log("Which trial, where the log has several.")] = None,
    separator: Annotated[str | None, _of_log("Between the columns of a text file (comma; tab in a .tsv).")] = None,
    decimal: Annotated[str | None, _of_log("The sign before the decimals (point).")] = None,
    arm_column: _column("arm") = None,  # pyright: ignore  (what typer reads)
    reward_column: _column("reward") = None,  # pyright: ignore
    batch_column: _column("batch") = None,  # pyright: ignore
    propensity_column: _column("propensity") = None,  # pyright: ignore
    time_column: _column("time") = None,  # pyright: ignore
    forced_column: _column("forced") = None,  # pyright: ignore
    trial_column: _column("trial") = None,  # pyright: ignore
) -> None:
    """Correct the sample means of a log; without LOG, of an example."""
    options = locals()
    columns = {role: options[f"{role}_column"] for role in COLUMNS if options[f"{role}_column"] is not None}
    words = dict(policy=policy, family=family, sigma=sigma, method=method, level=level, opening=opening, arms=arm)
    words |= dict(separator=separator, decimal=decimal, columns=columns, allocation=allocation, max_steps=max_steps, **stopping)
    source, beside = _source(log, example, config)
    settings = _merge(beside, given, {name: value for name, value in words.items() if value not in (None, [], {})})
    _check_writable({"--report": out, "--save-config": save_config})
    with _progress(quiet) as tell:
        tell("loading JAX")
        use_cache()
        read = jb.read_log(source, trial=trial, first=first, **_reading(settings))
        analysis = _analyse(read, settings, seed, tell)
    if save_config is not None:
        write_config(save_config, _saved(settings))
    if out is not None:
        jb.write_report(analysis, out, command=shlex.join(["jaxbias", *TYPED.get()]))
    _answer(analysis, settings, as_json, quiet, out)
    if not analysis.trusted:
        raise typer.Exit(NOT_TRUSTED)


def _source(log: str | None, example: str | None, config: Path | None) -> tuple[Any, dict[str, Any]]:
    """What to read, and the settings beside it."""
    beside = {} if config is None else read_config(config)
    if log == "":
        raise ValueError("LOG is empty; allowed: a path, or - for standard input")
    if log is not None:
        if example is not None:
            raise ValueError(f"--example is {example!r} and LOG is {log!r}; allowed: one of them")
        return log, beside
    names = [known.name for known in list_examples()]
    if example is not None and example not in names:
        raise ValueError(f"--example is {example!r}; allowed: {', '.join(names)}")
    found = load_example(example or DEFAULT)
    return found.path, {**found.settings, **beside}


def _merge(beside: dict[str, Any], given: dict[str, Any], words: dict[str, Any]) -> dict[str, Any]:
    """The settings of the file, and over them what was typed; another policy leaves the file's settings of the policy out."""
    kept = {name: value for name, value in beside.items() if name not in ("title", "description", "source")}
    if "policy" in words and words["policy"] != beside.get("policy"):
        kept = {name: value for name, value in kept.items() if name not in POLICY_SETTINGS}
    columns = {**kept.get("columns", {}), **words.pop("columns", {})}
    return {**kept, **words, **given, **({"columns": columns} if columns else {})}


def _reading(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: settings[name] for name in ("columns", "separator", "decimal", "arms") if name in settings}


def _analyse(log: Any, settings: dict[str, Any], seed: int, tell: Any) -> Any:
    """The call that the settings say."""
    name, num_arms = settings.get("policy"), log.history.num_arms
    of_policy = {setting: settings[setting] for setting in POLICY_SETTINGS if setting in settings}
    sigma = settings.get("sigma") or [ESTIMATE]
    for word in ESTIMATED:
        if word in sigma and len(sigma) > 1:
            raise ValueError(f"--sigma is {word!r} and a number; allowed: one or the other")
    known = None if isinstance(sigma[0], str) else sigma
    if name is None and of_policy:
        raise ValueError(f"--{next(iter(of_policy))} is given without --policy; allowed: both")
    if name in (PolicyName.Thompson, PolicyName.ExplorationSampling) and known:
        of_policy = {"policy_sigma": known, **of_policy}
    policy = None if name is None else build_policy(name, of_policy, num_arms)
    if of_policy.get("epsilon") == FIT and name is not PolicyName.EpsilonGreedy:
        raise ValueError(f"--epsilon is 'fit' and --policy is {name}; allowed: fit of --tau, or of --epsilon with epsilon-greedy")
    analysis = jb.debias(
        make_key(seed),
        log,
        policy,
        _family(settings, ESTIMATED.get(sigma[0], sigma), num_arms),
        level=settings.get("level", 0.95),
        fit=[setting for setting, value in of_policy.items() if value == FIT],
        opening=settings.get("opening", "forced"),
        allocation=str(settings.get("allocation", "independent")),  # pyright: ignore  (a word of Allocation)
        **_ending(settings, log),
        progress=tell,
        methods=[str(method) for method in settings["method"]] if "method" in settings else None,
    )
    return dataclasses.replace(analysis, seed=seed)


def _ending(settings: dict[str, Any], log: Any) -> dict[str, Any]:
    """The rule that could stop the experiment, and how many rows it could have had."""
    rule = build_stop({name: settings[name] for name in STOP_SETTINGS if name in settings}, log.labels)
    rows, most = log.history.num_steps, settings.get("max_steps")
    if most is not None and (rule is None or most < rows):
        allowed = f"{rows}, the rows of the log, or more, and only with --stop-difference or --stop-mean"
        raise ValueError(f"--max-steps is {most:g}; allowed: {allowed}")
    return {"stop": rule, "num_steps": most and int(most)}


def _family(settings: dict[str, Any], sigma: Any, num_arms: int) -> Any:
    """The family that was asked for; None where it is to be told from the rewards."""
    family = settings.get("family")
    if family is None and sigma is None:
        return None
    if family is FamilyName.Normal and sigma is None:
        build_family(settings.get("policy"), family, None, num_arms)  # refused where the policy has none of it
        return jb.Normal(sigma=None)
    return build_family(settings.get("policy"), family, sigma, num_arms)


def _saved(settings: dict[str, Any]) -> dict[str, Any]:
    """What a file keeps: one number as a number."""
    return {name: value for name, value in settings.items() if value != [ESTIMATE]}


def _check_writable(files: dict[str, Path | None]) -> None:
    """Before the work, not after it."""
    for option, out in files.items():
        if out is not None and not can_be_written(out):
            raise ValueError(f"{option} is {str(out)!r}; allowed: {PLACE}")


@contextmanager
def _progress(quiet: bool) -> Iterator[Any]:
    """A line on a terminal that says what is being done."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True, highlight=False).status("reading the log") as status:
        yield lambda words: status.update(words)


def _answer(analysis: Any, settings: dict[str, Any], as_json: bool, quiet: bool, out: Path | None) -> None:
    if not quiet:
        for warning in analysis.warnings:
            print(f"jaxbias: {warning}", file=sys.stderr)
    if as_json:
        run = {**describe(settings.get("policy"), analysis.policy, analysis.family), "seed": analysis.seed}
        typer.echo(report.to_json({**report.debias_document(analysis), "settings": {**run, "version": jb.__version__}}))
    else:
        report.print_debias(analysis, note=f"The report is in {out}." if out else "")


@app.command(epilog="Example: jaxbias debias --example ecmo")
def examples(as_json: Json = False) -> None:
    """List the logs that come with jaxbias."""
    found = list_examples()
    if as_json:
        words = ("name", "title", "description", "source")
        typer.echo(report.to_json({"examples": [{word: getattr(one, word) for word in words} for one in found]}))
    else:
        report.print_examples(found)
