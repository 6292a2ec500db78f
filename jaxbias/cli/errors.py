"""Arguments of the library as options of the command line, for messages."""

import difflib
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from jaxbias._core.errors import NameOf
from jaxbias.estimators.registry import METHODS
from jaxbias.naming.building import setting_name
from jaxbias.naming.names import Allocation, BatchBy, FamilyName, Opening, PolicyName, Ties
from jaxbias.naming.presets import PresetName

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
ALIKE = 0.75  # of the letters of two names, for one to be a slip of the other; "binomial" and "normal" have 0.71
CHOICES: dict[str, Iterable[str]] = {  # the names that an option takes
    "policy": PolicyName,
    "preset": PresetName,
    "family": FamilyName,
    "method": METHODS,
    "allocation": Allocation,
    "opening": Opening,
    "ties": Ties,
    "batch_by": BatchBy,
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


def suggest_name(parameter: Any, arguments: Sequence[str]) -> str:
    """For an option that takes one of several names, the name that was probably meant; "" if there is none like it."""
    names = {_bare(name): str(name) for name in CHOICES.get(getattr(parameter, "name", ""), ())}
    for typed in _typed(parameter.opts, arguments) if names else ():
        if typed not in names.values():
            found = difflib.get_close_matches(_bare(typed), names, n=1, cutoff=ALIKE)
            return f" Did you mean {names[found[0]]}?" if found else ""
    return ""


def _bare(name: str) -> str:
    return re.sub("[-_ ]", "", name.lower())


def _typed(options: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """What was typed for an option: the word after it, or after its equals sign."""
    after = [word for option, word in pairwise(arguments) if option in options]
    return after + [value for option, _, value in (word.partition("=") for word in arguments) if option in options and value]
