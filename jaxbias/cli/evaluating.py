"""`jaxbias evaluate`: how the methods do in an experiment that is simulated many times."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import jaxbias as jb
from jaxbias.cli.app import app
from jaxbias.cli.errors import option_names
from jaxbias.cli.options import (
    Json,
    Policy,
    Preset,
    Seed,
    Sigma,
    choose_policy,
    make_key,
    with_policy_options,
    with_stop_options,
)
from jaxbias.cli.simulating import build_problem
from jaxbias.cli.starting import start_jax
from jaxbias.estimators.registry import METHODS
from jaxbias.naming.around import check_warm_up_ends
from jaxbias.naming.building import build_stop, settings_of
from jaxbias.naming.names import Allocation, FamilyName
from jaxbias.reporting import terminal as report
from jaxbias.reporting.pictures import check_picture, write_picture

Method = Annotated[
    list[str] | None,
    typer.Option(help=f"A method to evaluate; once for each (all that apply). One of: {', '.join(METHODS)}.", metavar="NAME"),
]
MEANS = [1.0, 0.75]  # the first two arms of the paper's experiments


@app.command(epilog="Example: jaxbias evaluate --policy greedy --mean 1.0 --mean 0.75 --steps 16 --method mean_matching")
@with_policy_options
@with_stop_options
def evaluate(
    given: dict[str, Any],
    stopping: dict[str, Any],
    policy: Policy = None,
    preset: Preset = None,
    mean: Annotated[list[float], typer.Option(help="Mean reward of an arm; once for each arm.")] = MEANS,
    steps: Annotated[int, typer.Option(help="Pulls per trial, the first of each arm included.")] = 16,
    trials: Annotated[int, typer.Option(help="How many logs are simulated.")] = 1000,
    method: Method = None,
    family: Annotated[
        FamilyName | None, typer.Option(help="Distribution of the rewards (normal, or bernoulli if the policy needs it).")
    ] = None,
    sigma: Sigma = None,
    unknown_sigma: Annotated[bool, typer.Option("--unknown-sigma", help="The methods have to estimate sigma.")] = False,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    batch_size: Annotated[
        list[int] | None, typer.Option(help="Choices made at once; give it once, or once for each batch.")
    ] = None,
    allocation: Annotated[Allocation | None, typer.Option(help="How a batch is divided among the arms (independent).")] = None,
    paths: Annotated[int, typer.Option(help="Paths simulated for each log by the methods that simulate.")] = 1024,
    seed: Seed = 0,
    as_json: Json = False,
    out: Annotated[
        Path | None, typer.Option("--plot", help="Also draw it: a .png or .svg file.", metavar="FILE", show_default=False)
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on standard error.")] = False,
) -> None:
    """Measure bias, error, coverage and width of each method in a simulated experiment."""
    if out is not None:
        check_picture(out)  # before the work, not after it
    policy, given = choose_policy(policy, preset, given)
    check_warm_up_ends(given, steps, "the pulls per trial")
    built, rewards, means = build_problem(policy, given, family, sigma, mean)
    start_jax()
    rule = build_stop(stopping, [str(arm) for arm in range(len(mean))])
    sizes = batch_size[0] if batch_size and len(batch_size) == 1 else batch_size or None
    told: dict[str, Any] = {"assumed": jb.Normal(sigma=None)} if unknown_sigma else {}
    shown = sys.stderr.isatty() and not quiet
    found = jb.evaluate(
        make_key(seed),
        built,
        rewards,
        means,
        steps,
        methods=method or None,
        num_trials=trials,
        level=level,
        batch_size=sizes,
        allocation="independent" if allocation is None else str(allocation),  # pyright: ignore[reportArgumentType]
        stop=rule,
        num_paths=paths,
        progress=(lambda name: print(f"{name} ...", file=sys.stderr)) if shown else None,
        **told,
    )
    name_of = option_names(None)
    if out is not None:
        write_picture(jb.plots.plot_evaluation(found), out, title="How the methods do")
    if as_json:
        settings = settings_of(policy, built, rewards)
        settings |= {"mean": mean, "steps": steps, "trials": trials, "seed": seed, "version": jb.__version__, **stopping}
        typer.echo(report.to_json({**report.evaluation_document(found, name_of), "settings": settings}))
    else:
        report.print_evaluation(found, {name: why.describe(name_of) for name, why in found.reasons.items()})
