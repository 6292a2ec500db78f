"""Options that several commands share, and how the words in them become numbers."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from jaxbias.naming import FIT, PolicyName, Ties

Number = float | None
Numbers = list[float] | None
Policy = Annotated[PolicyName, typer.Option(help="What chooses the arms.")]
Seed = Annotated[int, typer.Option(help="Another seed gives other random numbers.", min=0, max=2**32 - 1)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Sigma = Annotated[Numbers, typer.Option(help="Standard deviation of normal rewards (1); once, or once for each arm.")]


def _setting(text: str, **options: Any) -> Any:
    return typer.Option(help=text, rich_help_panel="Settings of the policy", show_default=False, **options)


def number_or_fit(text: str) -> Any:
    """A number, or the word that has it estimated from the log."""
    if text == FIT:
        return text
    try:
        return float(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is neither a number nor '{FIT}'") from error


def _number_or_fit(text: str) -> Any:
    return _setting(text, parser=number_or_fit, metavar="FLOAT|fit")


def _policy_options(
    tau: Annotated[Any, _number_or_fit("Scale of the Gumbel noise (0). debias: fit, to estimate it.")] = None,
    ties: Annotated[Ties | None, _setting("Which of several best arms is pulled (random).")] = None,
    epsilon: Annotated[
        Any, _number_or_fit("epsilon-greedy: probability of exploring (0.1); debias: or fit. lil-ucb: its epsilon (0.01).")
    ] = None,
    beta: Annotated[Number, _setting("lil-ucb: its beta (1).")] = None,
    delta: Annotated[Number, _setting("lil-ucb: its delta (0.005).")] = None,
    gamma: Annotated[Number, _setting("exp3: share of uniform exploration, and rate of learning (0.1).")] = None,
    prior_mean: Annotated[
        Numbers, _setting("thompson, exploration-sampling: mean of the prior (0); once, or once for each arm.")
    ] = None,
    prior_sigma: Annotated[Numbers, _setting("The same: standard deviation of the prior (5); likewise.")] = None,
    policy_sigma: Annotated[Numbers, _setting("The same: the sigma of rewards it assumes (--sigma, or 1); likewise.")] = None,
    prior_success: Annotated[
        Numbers, _setting("beta-thompson, beta-exploration-sampling: successes in the prior (1); likewise.")
    ] = None,
    prior_failure: Annotated[Numbers, _setting("The same: failures in the prior (1); likewise.")] = None,
    balls: Annotated[Numbers, _setting("play-the-winner: balls of each arm at the start (1); likewise.")] = None,
    added: Annotated[Numbers, _setting("play-the-winner: balls added after a pull (1); likewise.")] = None,
) -> dict[str, Any]:
    return {name: value for name, value in locals().items() if value not in (None, [])}


POLICY_SETTINGS = tuple(inspect.signature(_policy_options).parameters)


def _rule(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel="A rule that stops the experiment", show_default=False)


def _stop_options(
    stop_difference: Annotated[Number, _rule("Stop when the largest sample mean is ahead of the next by this.")] = None,
    stop_mean: Annotated[Number, _rule("Stop when the sample mean of --stop-arm is at least this.")] = None,
    stop_arm: Annotated[str | None, _rule("Whose sample mean (the first arm's).")] = None,
    stop_first: Annotated[int | None, _rule("No look before so many pulls (1).")] = None,
    stop_every: Annotated[int | None, _rule("From then on a look every so many pulls (1).")] = None,
) -> dict[str, Any]:
    return {name: value for name, value in locals().items() if value is not None}


STOP_SETTINGS = tuple(inspect.signature(_stop_options).parameters)


def with_policy_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of `_policy_options`; it receives those that were used as `given`."""
    return _with_options(command, "given", _policy_options)


def with_stop_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of `_stop_options`; it receives those that were used as `stopping`."""
    return _with_options(command, "stopping", _stop_options)


def _with_options(command: Callable[..., None], name: str, options_of: Callable[..., dict[str, Any]]) -> Callable[..., None]:
    shared = inspect.signature(options_of).parameters
    own = [parameter for parameter in inspect.signature(command).parameters.values() if parameter.name != name]

    @wraps(command)
    def run(**options: Any) -> None:
        used = options_of(**{name: options.pop(name) for name in shared})
        command(**{name: used}, **options)

    run.__signature__ = inspect.Signature([*own, *shared.values()])  # pyright: ignore  (what typer reads)
    return run


def refuse_fit(given: dict[str, Any]) -> None:
    """A setting cannot be estimated where there is no log."""
    for name, value in given.items():
        if value == FIT:
            raise ValueError(f"--{name} is 'fit'; allowed: a number (only debias has a log to fit it to)")


def make_key(seed: int) -> Any:
    """The key of a seed."""
    import jax

    return jax.random.key(seed)
