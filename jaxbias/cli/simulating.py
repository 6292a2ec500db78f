"""`jaxbias simulate` and `jaxbias check`: what a policy does."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import jaxbias as jb
from jaxbias import report
from jaxbias.cli.app import app
from jaxbias.cli.cache import use_cache
from jaxbias.cli.options import (
    Json,
    Numbers,
    Policy,
    Seed,
    Sigma,
    make_key,
    refuse_fit,
    with_policy_options,
    with_stop_options,
)
from jaxbias.cli.processes import Processes, spread_over, with_process_options
from jaxbias.naming import Allocation, FamilyName, PolicyName, build_family, build_policy, build_stop, describe

MEANS = [1.0, 0.75, 0.5, 0.38, 0.25]  # the five arms of the paper's experiments


@app.command(epilog="Example: jaxbias simulate --policy greedy --mean 1.0 --mean 0.75 --steps 16 --out log.csv")
@with_policy_options
@with_stop_options
@with_process_options
def simulate(
    given: dict[str, Any],
    stopping: dict[str, Any],
    processes: Processes | None,
    policy: Policy = PolicyName.LilUCB,
    mean: Annotated[list[float], typer.Option(help="Mean reward of an arm; once for each arm.")] = MEANS,
    steps: Annotated[int, typer.Option(help="Pulls per trial, the first of each arm included.")] = 100,
    trials: Annotated[int, typer.Option(help="How many independent trials.")] = 100_000,
    family: Annotated[FamilyName | None, typer.Option(help="Rewards (normal; bernoulli where the policy needs it).")] = None,
    sigma: Sigma = None,
    batch_size: Annotated[list[int] | None, typer.Option(help="Arms chosen at once; once, or once for each batch.")] = None,
    allocation: Annotated[Allocation | None, typer.Option(help="How a batch is shared out (independent).")] = None,
    choose: Annotated[bool, typer.Option("--choose-largest", help="Also the bias of the largest sample mean.")] = False,
    seed: Seed = 0,
    as_json: Json = False,
    out: Annotated[Path | None, typer.Option(help="Also write a log: .csv, .tsv, .csv.gz or .parquet.", metavar="LOG")] = None,
    log_trials: Annotated[int | None, typer.Option(help="Trials in the log: the first 1000, or this many.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Measure how wrong the sample means are on average under a policy."""
    logged = report.count_logged(out, log_trials, trials)
    problem = _build_problem(policy, given, family, sigma, mean)
    use_cache()
    rule = build_stop(stopping, [str(arm) for arm in range(len(mean))])
    sizes = batch_size[0] if batch_size and len(batch_size) == 1 else batch_size or None
    run: dict[str, Any] = {"num_steps": steps, "progress": sys.stderr.isatty() and not quiet}
    asked = {"batch_size": sizes, "allocation": allocation and str(allocation), "stop": rule}
    run |= {name: value for name, value in asked.items() if value is not None}
    with spread_over(processes) as answers:
        reported: dict[str, Any] = {"choose": "largest"} if choose else {}
        summary = jb.measure_bias(make_key(seed), *problem, num_trials=trials, **run, **reported)
        history = jb.simulate(make_key(seed), *problem, num_trials=logged, **run) if out else None
        if not answers:
            return
        if out and history:
            jb.write_log(history, out)
        if as_json:
            settings = describe(policy, *problem[:2])
            settings |= {"mean": mean, "steps": steps, "trials": trials, "seed": seed, "version": jb.__version__, **stopping}
            settings |= {} if sizes is None else {"batch_size": sizes, "allocation": run.get("allocation", "independent")}
            typer.echo(report.to_json({**report.bias_document(summary), "settings": settings}))
        else:
            report.print_bias(summary, mean, note=f"The first {logged:,} trials are in {out}." if out else "")


@app.command(epilog="Example: jaxbias check --policy epsilon-greedy --epsilon 0.2")
@with_policy_options
def check(
    given: dict[str, Any],
    policy: Policy = PolicyName.LilUCB,
    arms: Annotated[int, typer.Option(help="How many arms.")] = 3,
    cases: Annotated[int, typer.Option(help="Pairs of histories tried for each condition.")] = 10_000,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Search for histories in which a policy breaks Exploit or IIO, the conditions for sample means to be too low."""
    refuse_fit(given)
    built = build_policy(policy, given, arms)
    use_cache()
    search: dict[str, Any] = {"num_arms": arms, "num_cases": cases, "seed": seed}
    results = [jb.check_exploit(built, **search)]
    results += [jb.check_iio(built, form=form, **search) for form in ("conditional", "pathwise")]
    if as_json:
        settings = {**describe(policy, built), "arms": arms, "cases": cases, "seed": seed, "version": jb.__version__}
        typer.echo(report.to_json({"conditions": results, "settings": settings}))
    else:
        report.print_checks(results)


def _build_problem(
    policy: PolicyName, given: dict[str, Any], family: FamilyName | None, sigma: Numbers, mean: list[float]
) -> tuple[Any, Any, list[float]]:
    """The policy, the family and the means that the words describe."""
    refuse_fit(given)
    rewards = build_family(policy, family, sigma, len(mean))
    if policy in (PolicyName.Thompson, PolicyName.ExplorationSampling) and sigma:
        given = {"policy_sigma": sigma, **given}
    return build_policy(policy, given, len(mean)), rewards, mean
