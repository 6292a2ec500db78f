"""Arguments of the library as options of the command line, for messages."""

from typing import Any

from jaxbias._core.errors import NameOf
from jaxbias.naming.building import setting_name

PARAMETERS = {  # of the library, and what the commands call them; the first that the command has
    "num_steps": ("steps", "max_steps"),
    "num_trials": ("trials",),
    "num_arms": ("arms",),
    "num_cases": ("cases",),
    "arms": ("arm",),
    "methods": ("method",),
    "key": ("seed",),
    "folder": ("out",),
    "policies": ("policy",),
    "num_paths": ("paths",),
    "name": ("example",),
    "source": ("log",),
    "history.allocation": ("allocation",),
    "columns.policy_reward": ("policy_reward_column", "policy_reward"),
    "history.seen_at": ("delay",),
}
PHRASES = {  # where one argument is no single option
    "policy.sigma": "--policy-sigma (by default --sigma)",
    "stop.threshold": "--stop-difference or --stop-mean",
    "history.rewards": "the reward",
    "history.arms": "the arm",
    "history.batch_sizes": "the batch",
    "history.held_out": "the held-out reward",
    "history.draws": "the recorded draw",
    "history": "the log",
    "history.num_arms": "the number of arms",
    "propensities": "the propensity",
    "columns.weights": "--weights-prefix",
    "stop": "the stopping rule",
}


def option_names(command: Any) -> NameOf:
    """How a command calls an argument of the library; `command` is click's, or None.

    >>> option_of = option_names(None)
    >>> option_of("policy.tau"), option_of("columns.reward"), option_of("stop_first"), option_of("history.rewards")
    ('--tau', '--reward-column', '--stop-first', 'the reward')
    """
    options = {parameter.name: _written(parameter) for parameter in getattr(command, "params", ())}

    def option_of(argument: str) -> str:
        if argument in PHRASES:
            return PHRASES[argument]
        names = PARAMETERS.get(argument, (_parameter(argument),))
        return next((options[name] for name in names if name in options), _as_option(names[0]))

    return option_of


def _written(parameter: Any) -> str:
    """An option as it is typed, or the placeholder of an argument in the help."""
    name: str = parameter.opts[0]
    return name if name.startswith("-") else (parameter.metavar or name.upper()).strip("[].")


def _parameter(argument: str) -> str:
    """The parameter of a command for an argument with a dot, such as "family.sigma"."""
    owner, dot, name = argument.partition(".")
    if not dot:
        return argument
    if owner == "columns":
        return f"{name}_column"
    if owner == "stop":
        return f"stop_{name}"
    if owner == "policy":
        return setting_name(name)
    return name if owner == "family" else argument


def _as_option(name: str) -> str:
    return name if "." in name else f"--{name.replace('_', '-')}"
