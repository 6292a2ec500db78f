"""`jaxbias plan`: what policies earn and teach in experiments of different lengths, and how long one must be."""

import dataclasses
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

import jaxbias as jb
from jaxbias._core.errors import ArgumentError
from jaxbias._core.files import check_writable
from jaxbias.cli.app import TYPED, app
from jaxbias.cli.options import Json, Seed, Sigma, make_key, refuse_fit, with_policy_options
from jaxbias.cli.reproducing import show_progress
from jaxbias.cli.starting import start_jax
from jaxbias.naming.building import ASSUMES_SIGMA, build_family, build_policy, setting_name, settings_of
from jaxbias.naming.names import Allocation, FamilyName, PolicyName
from jaxbias.reporting import terminal as report
from jaxbias.reporting.pictures import check_picture, write_picture


@app.command(
    epilog="Example: jaxbias plan --policy beta-thompson --policy uniform --mean 0.05 --mean 0.06 --half-width 0.01. "
    "With --out an interrupted run continues where it stopped."
)
@with_policy_options
def plan(
    given: dict[str, Any],
    policy: Annotated[list[PolicyName], typer.Option(help="What chooses the arms; once for each policy.")],
    mean: Annotated[list[float] | None, typer.Option(help="Mean reward of an arm; once for each arm.")] = None,
    prior: Annotated[
        Path | None, typer.Option(help="Draws from a prior over the means: a CSV file, one row of means each.", metavar="CSV")
    ] = None,
    steps: Annotated[list[int] | None, typer.Option(help="Pulls per trial; once for each length.")] = None,
    half_width: Annotated[float | None, typer.Option(help="Find the steps for this half-width of the difference.")] = None,
    power: Annotated[float | None, typer.Option(help="Find the steps for this power.")] = None,
    control: Annotated[
        int | None, typer.Option(help="The arm that the best of the others is compared with (the second best arm).")
    ] = None,
    family: Annotated[
        FamilyName | None, typer.Option(help="Distribution of the rewards (normal, or bernoulli if a policy needs it).")
    ] = None,
    sigma: Sigma = None,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    trials: Annotated[int, typer.Option(help="Logs simulated for each design.")] = 256,
    paths: Annotated[int, typer.Option(help="Paths for each log; logs at the same means share 16 times as many.")] = 128,
    batch_size: Annotated[int | None, typer.Option(help="Choices made at once.")] = None,
    allocation: Annotated[Allocation | None, typer.Option(help="How a batch is divided among the arms (independent).")] = None,
    max_steps: Annotated[int, typer.Option(help="The most steps that are tried for a goal.")] = 100_000,
    seed: Seed = 0,
    as_json: Json = False,
    page: Annotated[Path | None, typer.Option("--report", help="Also write an HTML page.", metavar="FILE.html")] = None,
    plot: Annotated[Path | None, typer.Option(help="Also draw it: a .png or .svg file.", metavar="FILE")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder that keeps finished designs.", metavar="DIR")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on standard error.")] = False,
) -> None:
    """Plan an experiment: regret, bias, precision and power of designs, and the steps that a goal needs."""
    _check_files(page, plot, prior)
    means = _read_means(mean, prior)
    built, rewards = build_policies(policy, given, family, sigma, len(means if prior is None else means[0]))
    start_jax()
    asked: Any = dict(
        half_width=half_width, power=power, control=control, level=level, batch_size=batch_size, max_steps=max_steps
    )
    with show_progress(quiet, "designs") as progress:
        found = jb.plan(
            make_key(seed),
            built,
            rewards,
            means,
            steps or (),
            num_trials=trials,
            num_paths=paths,
            allocation="independent" if allocation is None else str(allocation),  # pyright: ignore[reportArgumentType]
            folder=out,
            progress=progress,
            **asked,
        )
    if plot is not None:
        write_picture(jb.plots.plot_plan(found), plot, title="What each policy earns and teaches")
    if page is not None:
        jb.reporting.write_plan(found, page, command=shlex.join(["jaxbias", *TYPED.get()]))
    if as_json:
        settings = {"policies": [settings_of(name, one) for name, one in zip(policy, built.values(), strict=True)]}
        settings |= {"family": settings_of(None, None, rewards), "mean": means, "trials": trials, "paths": paths, "seed": seed}
        typer.echo(report.to_json({**report.plan_document(found), "settings": {**settings, "version": jb.__version__}}))
    else:
        report.print_plan(found, f"The page is in {page}." if page else "")


def _check_files(page: Path | None, plot: Path | None, prior: Path | None) -> None:
    """Before the work, not after it."""
    if page is not None:
        check_writable(page, "report", (plot, prior))
    if plot is not None:
        try:
            check_picture(plot)
        except ArgumentError as error:
            raise error.renamed({"out": "plot"}) from error  # --out is the folder here


def _read_means(mean: list[float] | None, prior: Path | None) -> list[Any]:
    """The means, or rows of them."""
    if bool(mean) == (prior is not None):
        problem = "is not given" if prior is None else lambda name: f"and {name('prior')} are both given"
        raise ArgumentError("mean", mean, problem=problem, remedy=lambda name: f"give {name('mean')} or {name('prior')}")
    if prior is None:
        return list(mean or [])
    import numpy as np

    try:
        rows = np.loadtxt(prior, delimiter=",", ndmin=2)
    except (OSError, ValueError) as error:
        raise ArgumentError("prior", str(prior), "a CSV file of numbers alone, one row of means each") from error
    return rows.tolist()


def build_policies(
    names: list[PolicyName], given: dict[str, Any], family: FamilyName | None, sigma: Any, num_arms: int
) -> tuple[dict[str, Any], Any]:
    """The policies by name, each with those of the settings that it has, and the family that suits them all."""
    refuse_fit(given)
    for name in names:
        if names.count(name) > 1:
            raise ArgumentError("policy", str(name), problem=f"{name} is given twice", remedy="give each policy once")
    family = FamilyName.Bernoulli if family is None and any(_unit_rewards(name) for name in names) else family
    rewards = next(iter([build_family(name, family, sigma, num_arms) for name in names]))  # all of them are asked
    unused, built = set(given), {}
    for name in names:
        own = {setting: value for setting, value in given.items() if setting in _settings(name)}
        unused -= set(own)
        if name in ASSUMES_SIGMA and sigma:
            own = {"policy_sigma": sigma, **own}
        built[str(name)] = build_policy(name, own, num_arms)
    for setting in sorted(unused):
        raise ArgumentError(setting, given[setting], problem="is not a setting of these policies", remedy="leave it out")
    return built, rewards


def _policy_class(name: PolicyName) -> Any:
    from jaxbias import policies

    return getattr(policies, name.name)


def _settings(name: PolicyName) -> set[str]:
    return {setting_name(field.name) for field in dataclasses.fields(_policy_class(name))}


def _unit_rewards(name: PolicyName) -> bool:
    return _policy_class(name).unit_rewards
