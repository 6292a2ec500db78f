"""`jaxbias simulate` and `jaxbias check`: the bias under a policy, and the conditions for its sign."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import jaxbias as jb
from jaxbias._core.cache import use_cache
from jaxbias._core.errors import ArgumentError
from jaxbias.cli.app import app
from jaxbias.cli.options import (
    Json,
    Numbers,
    Policy,
    Preset,
    Seed,
    Sigma,
    choose_policy,
    make_key,
    refuse_fit,
    with_policy_options,
    with_stop_options,
)
from jaxbias.cli.processes import Processes, spread_over, with_process_options
from jaxbias.logs.writing import check_log_path, write_log
from jaxbias.naming.around import check_warm_up_ends
from jaxbias.naming.building import ASSUMES_SIGMA, build_family, build_policy, build_stop, settings_of
from jaxbias.naming.names import Allocation, FamilyName, PolicyName
from jaxbias.reporting import terminal as report

MEANS = [1.0, 0.75, 0.5, 0.38, 0.25]  # the five arms of the paper's experiments
LOG_TRIALS = 1000  # trials in a log by default: enough for every estimator, small enough to open


@app.command(epilog="Example: jaxbias simulate --policy greedy --mean 1.0 --mean 0.75 --steps 16 --out log.csv")
@with_policy_options
@with_stop_options
@with_process_options
def simulate(
    given: dict[str, Any],
    stopping: dict[str, Any],
    processes: Processes | None,
    policy: Policy = None,
    preset: Preset = None,
    mean: Annotated[list[float], typer.Option(help="Mean reward of an arm; once for each arm.")] = MEANS,
    steps: Annotated[int, typer.Option(help="Pulls per trial, the first of each arm included.")] = 100,
    trials: Annotated[int, typer.Option(help="How many independent trials.")] = 100_000,
    family: Annotated[
        FamilyName | None, typer.Option(help="Distribution of the rewards (normal, or bernoulli if the policy needs it).")
    ] = None,
    sigma: Sigma = None,
    batch_size: Annotated[
        list[int] | None, typer.Option(help="Choices made at once; give it once, or once for each batch.")
    ] = None,
    allocation: Annotated[Allocation | None, typer.Option(help="How a batch is divided among the arms (independent).")] = None,
    delay: Annotated[int | None, typer.Option(help="How many steps late the policy sees each reward (0).")] = None,
    choose: Annotated[bool, typer.Option("--choose-largest", help="Also measure the bias of the largest sample mean.")] = False,
    seed: Seed = 0,
    as_json: Json = False,
    out: Annotated[Path | None, typer.Option(help="Also write a log: .csv, .tsv, .csv.gz or .parquet.", metavar="LOG")] = None,
    log_trials: Annotated[int | None, typer.Option(help="How many trials the log has (the first 1000).")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Measure the bias of the sample means under a policy."""
    logged = _count_logged(out, log_trials, trials)
    policy, given = choose_policy(policy, preset, given)
    check_warm_up_ends(given, steps, "the pulls per trial")
    problem = build_problem(policy, given, family, sigma, mean)
    use_cache()
    rule = build_stop(stopping, [str(arm) for arm in range(len(mean))])
    sizes = batch_size[0] if batch_size and len(batch_size) == 1 else batch_size or None
    run: dict[str, Any] = {"num_steps": steps, "progress": sys.stderr.isatty() and not quiet}
    asked = {"batch_size": sizes, "allocation": allocation and str(allocation), "stop": rule, "delay": delay}
    run |= {name: value for name, value in asked.items() if value is not None}
    with spread_over(processes) as answers:
        reported: dict[str, Any] = {"choose": "largest"} if choose else {}
        summary = jb.measure_bias(make_key(seed), *problem, num_trials=trials, **run, **reported)
        history = jb.simulate(make_key(seed), *problem, num_trials=logged, **run) if out else None
        if not answers:
            return
        if out and history:
            write_log(history, out)
        if as_json:
            settings = settings_of(policy, *problem[:2])
            settings |= {"mean": mean, "steps": steps, "trials": trials, "seed": seed, "version": jb.__version__, **stopping}
            settings |= {} if sizes is None else {"batch_size": sizes, "allocation": run.get("allocation", "independent")}
            settings |= {} if delay is None else {"delay": delay}
            typer.echo(report.to_json({**report.bias_document(summary), "settings": settings}))
        else:
            report.print_bias(summary, mean, note=f"The first {logged:,} trials are in {out}." if out else "")


@app.command(epilog="Example: jaxbias check --policy epsilon-greedy --epsilon 0.2")
@with_policy_options
def check(
    given: dict[str, Any],
    policy: Policy = None,
    preset: Preset = None,
    arms: Annotated[int, typer.Option(help="How many arms.")] = 3,
    cases: Annotated[int, typer.Option(help="Pairs of histories to try for each condition.")] = 10_000,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Search for histories that violate Exploit or IIO, the conditions under which sample means are too low on average."""
    policy, given = choose_policy(policy, preset, given)
    refuse_fit(given)
    built = build_policy(policy, given, arms)
    use_cache()
    from jaxbias.bias import check_exploit, check_iio

    key = make_key(seed)
    search: dict[str, Any] = {"num_arms": arms, "num_cases": cases}
    results = [check_exploit(key, built, **search)]
    results += [check_iio(key, built, form=form, **search) for form in ("conditional", "pathwise")]
    if as_json:
        settings = {**settings_of(policy, built), "arms": arms, "cases": cases, "seed": seed, "version": jb.__version__}
        typer.echo(report.to_json({"conditions": report.checks_document(results), "settings": settings}))
    else:
        report.print_checks(results)


def _count_logged(out: Path | None, log_trials: int | None, trials: int) -> int:
    """How many trials are written to the log; refuses a log that cannot be written, before the work."""
    if out is None:
        if log_trials is not None:
            problem = lambda name_of: f"is given without {name_of('out')}"
            raise ArgumentError("log_trials", log_trials, problem=problem, remedy="give both")
        return 0
    check_log_path(out)
    if log_trials is not None and not 1 <= log_trials <= trials:
        raise ArgumentError(
            "log_trials", log_trials, lambda name_of: f"from 1 to {trials}, the number of {name_of('num_trials')}"
        )
    return min(LOG_TRIALS, trials) if log_trials is None else log_trials


def build_problem(
    policy: PolicyName, given: dict[str, Any], family: FamilyName | None, sigma: Numbers, mean: list[float]
) -> tuple[Any, Any, list[float]]:
    """The policy, the family and the means."""
    refuse_fit(given)
    rewards = build_family(policy, family, sigma, len(mean))
    if policy in ASSUMES_SIGMA and sigma:
        given = {"policy_sigma": sigma, **given}
    return build_policy(policy, given, len(mean)), rewards, mean
