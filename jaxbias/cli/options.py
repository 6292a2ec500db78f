"""Options that several commands share."""

import copy
import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, get_args

import typer

from jaxbias._core.errors import ArgumentError
from jaxbias.naming.names import BatchBy, PolicyName, Ties
from jaxbias.naming.presets import PresetName, with_preset
from jaxbias.naming.settings import FIT

Number = float | None
Numbers = list[float] | None
Policy = Annotated[PolicyName | None, typer.Option(help="What chooses the arms (lil-ucb).", show_default=False)]
Preset = Annotated[
    PresetName | None,
    typer.Option(
        help="In place of a policy, the defaults of a tool; `jaxbias presets` lists them.", metavar="NAME", show_default=False
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of the random numbers.", callback=lambda seed: _check_seed(seed))]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Sigma = Annotated[Numbers, typer.Option(help="Standard deviation of normal rewards (1); give it once, or once for each arm.")]


def _check_seed(seed: int) -> int:
    """A callback, as the help would show the whole range."""
    if not 0 <= seed < 2**32:
        raise typer.BadParameter(f"{seed} is not from 0 to {2**32 - 1}")
    return seed


def _setting(text: str, **options: Any) -> Any:
    return typer.Option(help=text, rich_help_panel="Settings of the policy", show_default=False, **options)


def _around(text: str, **options: Any) -> Any:
    panel = "What the platform adds, in this order"
    return typer.Option(help=text, rich_help_panel=panel, show_default=False, **options)


def number_or_fit(text: str) -> Any:
    """A number, or the word for estimating it from the log."""
    if text == FIT:
        return text
    try:
        return float(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is neither a number nor '{FIT}'") from error


def _number_or_fit(text: str) -> Any:
    return _setting(text, parser=number_or_fit, metavar="NUMBER|fit")


def _policy_options(
    tau: Annotated[Any, _number_or_fit("Scale of the Gumbel noise (0); fit estimates it.")] = None,
    ties: Annotated[Ties | None, _setting("Which of several best arms is pulled (random).")] = None,
    epsilon: Annotated[
        Any,
        _number_or_fit("epsilon-greedy: probability of exploring (0.1); fit estimates it. lil-ucb: its epsilon (0.01)."),
    ] = None,
    beta: Annotated[Number, _setting("lil-ucb: its beta (1).")] = None,
    delta: Annotated[Number, _setting("lil-ucb: its delta (0.005).")] = None,
    gamma: Annotated[Number, _setting("exp3: share of uniform exploration and learning rate (0.1).")] = None,
    c: Annotated[Number, _setting("kl-ucb: its c (0).")] = None,
    least_pulls: Annotated[Number, _setting("growthbook: pulls of every arm before the weights change (100).")] = None,
    prior_mean: Annotated[
        Numbers, _setting("thompson, exploration-sampling: prior mean (0); give it once, or once for each arm.")
    ] = None,
    prior_sigma: Annotated[
        Numbers, _setting("thompson, exploration-sampling: prior standard deviation (5); once or for each arm.")
    ] = None,
    policy_sigma: Annotated[
        Numbers, _setting("thompson, exploration-sampling: assumed sigma of the rewards (--sigma, or 1); once or for each arm.")
    ] = None,
    prior_success: Annotated[
        Numbers, _setting("beta-thompson, beta-exploration-sampling: successes in the prior (1); once or for each arm.")
    ] = None,
    prior_failure: Annotated[
        Numbers, _setting("beta-thompson, beta-exploration-sampling: failures in the prior (1); once or for each arm.")
    ] = None,
    balls: Annotated[Numbers, _setting("play-the-winner: balls of each arm at the start (1); once or for each arm.")] = None,
    added: Annotated[Numbers, _setting("play-the-winner: balls added after a pull (1); once or for each arm.")] = None,
    top_two: Annotated[
        Number,
        _around("thompson, beta-thompson: top-two sampling, which keeps the best draw with this probability.", metavar="BETA"),
    ] = None,
    floor: Annotated[
        Any,
        _around("The least probability of every arm; fit estimates it.", parser=number_or_fit, metavar="NUMBER|fit"),
    ] = None,
    warm_up: Annotated[
        int | None, _around("Pulls at the start, over all arms, in which every arm was equally likely.", metavar="PULLS")
    ] = None,
) -> dict[str, Any]:
    return {name: value for name, value in locals().items() if value not in (None, [])}


def _rule(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel="A rule that stops the experiment", show_default=False)


def _stop_options(
    stop_difference: Annotated[Number, _rule("Stop when the largest sample mean exceeds the second largest by this.")] = None,
    stop_mean: Annotated[Number, _rule("Stop when the sample mean of --stop-arm is at least this.")] = None,
    stop_arm: Annotated[str | None, _rule("The arm whose sample mean is compared (the first).")] = None,
    stop_first: Annotated[int | None, _rule("Number of pulls before the first look (1).")] = None,
    stop_every: Annotated[int | None, _rule("Number of pulls between looks (1).")] = None,
) -> dict[str, Any]:
    return {name: value for name, value in locals().items() if value is not None}


def _of_log(text: str, *names: str, **options: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel="Counts, batches and delays", show_default=False, **options)


def _column_of(role: str, holds: str) -> Any:
    return Annotated[str | None, _of_log(f"Counts: name of the column with {holds}.", f"--{role}-column", metavar="NAME")]


def _reading_options(
    counts: Annotated[
        bool | None,
        _of_log("Each row has the pulls of an arm in a period, and their successes or the sum of their rewards."),
    ] = None,
    batch_by: Annotated[BatchBy | None, _of_log("Make a batch of the pulls of each hour, day, week or month.")] = None,
    delay: Annotated[
        int | None, _of_log("How many rows late the policy saw each reward (0), if the log has no column seen_at.")
    ] = None,
    seen_at_column: Annotated[
        str | None,
        _of_log("Name of the column with the time or step at which the reward had arrived.", "--seen-at-column", metavar="NAME"),
    ] = None,
    policy_reward_column: Annotated[
        str | None,
        _of_log("Name of the column that the policy learned from, if not the reward.", "--policy-reward", metavar="NAME"),
    ] = None,
    cluster: Annotated[
        str | None,
        _of_log("Column with the user of each row; if the rewards of a user are alike, intervals get wider.", metavar="NAME"),
    ] = None,
    pulls_column: _column_of("pulls", "the pulls, such as users or impressions") = None,  # pyright: ignore  (what typer reads)
    sum_column: _column_of("sum", "the sum of the rewards") = None,  # pyright: ignore
    successes_column: _column_of("successes", "the successes, such as conversions or clicks") = None,  # pyright: ignore
    squares_column: _column_of("squares", "the sum of the squared rewards") = None,  # pyright: ignore
    period_column: _column_of("period", "the period: a number, a date or a label") = None,  # pyright: ignore
    weight_column: _column_of("weight", "the probability of the row's arm") = None,  # pyright: ignore
    weights_column: Annotated[
        str | None,
        _of_log(
            "How names of columns with weights begin, before the arm's label (p_).",
            "--weights-prefix",
            metavar="TEXT",
        ),
    ] = None,
    weights: Annotated[
        str | None,
        _of_log(
            "File with the probability of each arm by period: a column period, and one column for each arm (or arm and weight).",
            metavar="FILE",
        ),
    ] = None,
) -> dict[str, Any]:
    used = {name: value for name, value in locals().items() if value is not None}
    return {name: str(value) if isinstance(value, BatchBy) else value for name, value in used.items()}


def with_reading_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of `_reading_options`; it receives those that were used as `reading`."""
    return _with_options(command, "reading", _reading_options)


def with_fitted_policy_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of `_policy_options`; it receives those that were used as `given`."""
    return _with_options(command, "given", _policy_options)


def with_policy_options(command: Callable[..., None]) -> Callable[..., None]:
    """The same for a command that estimates no setting: the word fit is not in its help, and `refuse_fit` explains it."""
    return _with_options(command, "given", _policy_options, _without_fit)


def _without_fit(parameter: inspect.Parameter) -> inspect.Parameter:
    kind, option = get_args(parameter.annotation)
    if option.metavar != "NUMBER|fit":
        return parameter
    plain = copy.copy(option)
    plain.metavar, plain.help = "NUMBER", option.help.replace("; fit estimates it", "")
    return parameter.replace(annotation=Annotated[kind, plain])


def with_stop_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of `_stop_options`; it receives those that were used as `stopping`."""
    return _with_options(command, "stopping", _stop_options)


def _with_options(
    command: Callable[..., None],
    name: str,
    options_of: Callable[..., dict[str, Any]],
    changed: Callable[[inspect.Parameter], inspect.Parameter] = lambda parameter: parameter,
) -> Callable[..., None]:
    shared = {option: changed(parameter) for option, parameter in inspect.signature(options_of).parameters.items()}
    own = [parameter for parameter in inspect.signature(command).parameters.values() if parameter.name != name]

    @wraps(command)
    def run(**options: Any) -> None:
        used = options_of(**{option: options.pop(option) for option in shared})
        command(**{name: used}, **options)

    run.__signature__ = inspect.Signature([*own, *shared.values()])  # pyright: ignore  (what typer reads)
    return run


def choose_policy(
    policy: PolicyName | None, preset: PresetName | None, given: dict[str, Any]
) -> tuple[PolicyName, dict[str, Any]]:
    """The policy and its settings, of a preset or as they were typed."""
    if preset is None:
        return policy or PolicyName.LilUCB, given
    settings = with_preset({"policy": policy, **given, "preset": preset})
    return settings.pop("policy"), settings


def refuse_fit(given: dict[str, Any]) -> None:
    """Refuses the word fit: without a log there is nothing to fit."""
    for name, value in given.items():
        if value == FIT:
            raise ArgumentError(name, value, "a number", remedy="only debias has a log to fit it to")


def make_key(seed: int) -> Any:
    """The random key of a seed."""
    import jax

    return jax.random.key(seed)
