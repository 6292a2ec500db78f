"""The command line: words to calls, no mathematics.

JAX is imported inside the commands, so that `--help` answers at once. Bad input is one line on standard error and exit code 2.
"""

import dataclasses
import inspect
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import jaxbias as jb

try:
    import typer
    from typer.main import get_command

    from jaxbias import report
except ModuleNotFoundError as error:
    raise SystemExit(f"jaxbias: {error}; the command line comes with pip install 'jaxbias[cli]'") from error

USAGE_ERROR: Any = typer.BadParameter.__mro__[1]  # click's UsageError, wherever this release of typer keeps it
MEANS = [1.0, 0.75, 0.5, 0.38, 0.25]  # the five arms of the paper's experiments
INTERRUPTED = 130  # what a shell makes of Ctrl-C: 128 and the number of the signal
ARGUMENTS = {  # what the library calls an option, where that is another word
    "num_steps": "--steps",
    "num_trials": "--trials",
    "num_arms": "--arms",
    "num_cases": "--cases",
    "mean": "--mean",
    "family.sigma": "--sigma",
    "policy.sigma": "--policy-sigma (by default --sigma)",
}


class PolicyName(StrEnum):
    """The word for each policy's class."""

    Greedy = "greedy"
    EpsilonGreedy = "epsilon-greedy"
    LilUCB = "lil-ucb"
    UCB1 = "ucb1"
    Thompson = "thompson"
    BetaThompson = "beta-thompson"
    Exp3 = "exp3"
    Uniform = "uniform"


class FamilyName(StrEnum):
    """The word for each family's class."""

    Normal = "normal"
    Bernoulli = "bernoulli"


class Ties(StrEnum):
    """Which of several best arms is pulled."""

    random = "random"
    first = "first"


app = typer.Typer(
    help="Measure and remove the bias of adaptively collected data.",
    epilog="Example: jaxbias simulate --policy greedy --mean 1.0 --mean 0.75 --steps 16",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _setting(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel="Settings of the policy", show_default=False)


Number = float | None
Numbers = list[float] | None
Policy = Annotated[PolicyName, typer.Option(help="What chooses the arms.")]
Seed = Annotated[int, typer.Option(help="Another seed gives other random numbers.", min=0, max=2**32 - 1)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


def _policy_options(
    tau: Annotated[Number, _setting("Scale of the Gumbel noise (0).")] = None,
    ties: Annotated[Ties | None, _setting("Which of several best arms is pulled (random).")] = None,
    epsilon: Annotated[Number, _setting("epsilon-greedy: probability of exploring (0.1). lil-ucb: its epsilon (0.01).")] = None,
    beta: Annotated[Number, _setting("lil-ucb: its beta (1).")] = None,
    delta: Annotated[Number, _setting("lil-ucb: its delta (0.005).")] = None,
    gamma: Annotated[Number, _setting("exp3: share of uniform exploration, and rate of learning (0.1).")] = None,
    prior_mean: Annotated[Numbers, _setting("thompson: mean of the prior (0); once, or once for each arm.")] = None,
    prior_sigma: Annotated[Numbers, _setting("thompson: standard deviation of the prior (5); likewise.")] = None,
    policy_sigma: Annotated[Numbers, _setting("thompson: the sigma of rewards it assumes (--sigma, or 1); likewise.")] = None,
    prior_success: Annotated[Numbers, _setting("beta-thompson: successes in the prior (1); likewise.")] = None,
    prior_failure: Annotated[Numbers, _setting("beta-thompson: failures in the prior (1); likewise.")] = None,
) -> dict[str, Any]:
    return {name: value for name, value in locals().items() if value not in (None, [])}


def _with_policy_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of `_policy_options`; it receives those that were used as `given`."""
    shared = inspect.signature(_policy_options).parameters
    own = [parameter for parameter in inspect.signature(command).parameters.values() if parameter.name != "given"]

    @wraps(command)
    def run(**options: Any) -> None:
        given = _policy_options(**{name: options.pop(name) for name in shared})
        command(given=given, **options)

    run.__signature__ = inspect.Signature([*own, *shared.values()])  # pyright: ignore  (what typer reads)
    return run


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"jaxbias {jb.__version__}")
        raise typer.Exit
    return wanted


Version = Annotated[bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)]


@app.callback()
def _common(version: Version = False) -> None:
    del version  # its own callback has answered


@app.command(epilog="Example: jaxbias simulate --policy greedy --mean 1.0 --mean 0.75 --steps 16 --out log.csv")
@_with_policy_options
def simulate(
    given: dict[str, Any],
    policy: Policy = PolicyName.LilUCB,
    mean: Annotated[list[float], typer.Option(help="Mean reward of an arm; once for each arm.")] = MEANS,
    steps: Annotated[int, typer.Option(help="Pulls per trial, the first of each arm included.")] = 100,
    trials: Annotated[int, typer.Option(help="How many independent trials.")] = 100_000,
    family: Annotated[FamilyName | None, typer.Option(help="Rewards (normal; for beta-thompson, bernoulli).")] = None,
    sigma: Annotated[Numbers, typer.Option(help="Standard deviation of normal rewards (1); once, or once for each arm.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
    out: Annotated[Path | None, typer.Option(help="Also write a log: .csv, .csv.gz or .parquet.", metavar="LOG")] = None,
    log_trials: Annotated[int | None, typer.Option(help="Trials in the log: the first 1000, or this many.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Measure how wrong the sample means are on average under a policy."""
    logged = report.count_logged(out, log_trials, trials)
    problem = _build_problem(policy, given, family, sigma, mean)
    run: dict[str, Any] = {"num_steps": steps, "progress": sys.stderr.isatty() and not quiet}
    summary = jb.measure_bias(_key(seed), *problem, num_trials=trials, **run)
    if out is not None:
        report.write_log(jb.simulate(_key(seed), *problem, num_trials=logged, **run), out)
    if as_json:
        settings = _describe(policy, *problem, steps=steps, trials=trials, seed=seed)
        typer.echo(report.to_json({**report.bias_document(summary), "settings": settings}))
    else:
        report.print_bias(summary, mean, note=f"The first {logged:,} trials are in {out}." if out else "")


@app.command(epilog="Example: jaxbias check --policy epsilon-greedy --epsilon 0.2")
@_with_policy_options
def check(
    given: dict[str, Any],
    policy: Policy = PolicyName.LilUCB,
    arms: Annotated[int, typer.Option(help="How many arms.")] = 3,
    cases: Annotated[int, typer.Option(help="Pairs of histories tried for each condition.")] = 10_000,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Search for histories in which a policy breaks Exploit or IIO, the conditions for sample means to be too low."""
    built = _build_policy(policy, given, arms)
    search: dict[str, Any] = {"num_arms": arms, "num_cases": cases, "seed": seed}
    results = [jb.check_exploit(built, **search)]
    results += [jb.check_iio(built, form=form, **search) for form in ("conditional", "pathwise")]
    if as_json:
        settings = _describe(policy, built, arms=arms, cases=cases, seed=seed)
        typer.echo(report.to_json({"conditions": results, "settings": settings}))
    else:
        report.print_checks(results)


def _key(seed: int) -> Any:
    import jax

    return jax.random.key(seed)


def _build_problem(
    policy: PolicyName, given: dict[str, Any], family: FamilyName | None, sigma: Numbers, mean: list[float]
) -> tuple[Any, Any, list[float]]:
    """The policy, the family and the means that the words describe."""
    rewards = _build_family(policy, family, sigma, len(mean))
    if policy is PolicyName.Thompson and sigma:
        given = {"policy_sigma": sigma, **given}
    return _build_policy(policy, given, len(mean)), rewards, mean


def _build_family(policy: PolicyName, family: FamilyName | None, sigma: Numbers, num_arms: int) -> Any:
    """The family that was asked for, or the one that suits the policy."""
    unit_rewards = getattr(getattr(jb, policy.name), "unit_rewards", False)
    if family is None:
        family = FamilyName.Bernoulli if unit_rewards else FamilyName.Normal
    if family is FamilyName.Normal and unit_rewards:
        raise ValueError(f"--family is normal; allowed with {policy}: bernoulli")
    if family is FamilyName.Bernoulli and sigma:
        raise ValueError("--sigma is not an option of bernoulli rewards; allowed: none")
    settings = {"sigma": _per_arm("--sigma", sigma, num_arms)} if sigma else {}
    return getattr(jb, family.name)(**settings)


def _build_policy(policy: PolicyName, given: dict[str, Any], num_arms: int) -> Any:
    """The policy with the settings that were given, each of which must be one of its own."""
    kind = getattr(jb, policy.name)
    fields = {_option_name(field.name): field.name for field in dataclasses.fields(kind)}
    for name in given:
        if name not in fields:
            has = ", ".join(map(_as_option, fields)) or "none"
            raise ValueError(f"{_as_option(name)} is not an option of {policy}; allowed: {has}")
    return kind(**{fields[name]: _per_arm(_as_option(name), value, num_arms) for name, value in given.items()})


def _per_arm(option: str, value: Any, num_arms: int) -> Any:
    """One number as it is, or one for each arm as an array; words as plain words."""
    if not isinstance(value, list):
        return str(value) if isinstance(value, StrEnum) else value
    if len(value) == 1:
        return value[0]
    if len(value) != num_arms:
        raise ValueError(f"{option} is given {len(value)} times; allowed: once, or once for each of {num_arms} arms")
    import numpy as np

    return np.asarray(value)


def _describe(name: PolicyName, policy: Any, family: Any = None, mean: Any = None, **options: int) -> dict[str, Any]:
    """Every setting of a run under the name of its option, the defaults too."""
    settings = {"policy": name, **{_option_name(field): value for field, value in vars(policy).items()}}
    if family is not None:
        settings |= {"family": FamilyName[type(family).__name__], **vars(family), "mean": mean}
    return {**settings, **options, "version": jb.__version__}


def _option_name(field: str) -> str:
    return "policy_sigma" if field == "sigma" else field


def _as_option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = get_command(app).main(arguments or ["--help"], prog_name="jaxbias", standalone_mode=False)
    except USAGE_ERROR as error:
        return _complain(error.format_message().replace("Value error, ", ""), code=2)
    except ValueError as error:
        return _complain(_in_options(str(error)), code=2)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except OSError as error:
        return _complain(str(error), code=1)
    return _complain("interrupted", code) if code == INTERRUPTED else code or 0


def _in_options(message: str) -> str:
    """The library's message with its argument, the first word, as the option that was typed."""
    argument, _, rest = message.partition(" ")
    if argument.startswith("policy.") and rest.startswith("is "):
        argument = ARGUMENTS.get(argument, _as_option(argument.removeprefix("policy.")))
    return f"{ARGUMENTS.get(argument, argument)} {rest}"


def _complain(message: str, code: int) -> int:
    print(f"jaxbias: {' '.join(message.split())}", file=sys.stderr)
    return code
