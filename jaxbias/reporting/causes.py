"""The likely causes of a misfit as sentences, with what to give in addition."""

from collections.abc import Sequence

from jaxbias._core.errors import NameOf
from jaxbias.policy_fit.alternatives import Cause
from jaxbias.policy_fit.causes import LikelyCause
from jaxbias.reporting.formatting import count, number, p_value
from jaxbias.reporting.labels import join, quote

MOST_OTHERS = 2  # causes that are listed after the likeliest one
CALLED = {"policy.sigma": "policy_sigma"}  # settings with another name where there is also the family's


def cause_sentences(causes: Sequence[LikelyCause], name_of: NameOf = str) -> list[str]:
    """The likeliest cause, and in a second sentence the next ones."""
    if not causes:
        return []
    first, *others = causes
    others = [cause for cause in others if cause.settings][:MOST_OTHERS]
    listed = [f"{_options(cause, name_of)} (by {_gain(cause)})" for cause in others]
    return [describe_cause(first, name_of), *([f"Less likely: {join(listed)}."] if listed else [])]


def describe_cause(cause: LikelyCause, name_of: NameOf = str) -> str:
    """One cause.

    >>> found = LikelyCause(
    ...     cause=Cause.BATCHES,
    ...     settings={"batch_size": 100},
    ...     gain=512.0,
    ...     fits=True,
    ...     impossible=0,
    ...     declared_impossible=0,
    ...     choices=4000,
    ... )
    >>> describe_cause(found, lambda argument: {"batch_size": "--batch-size"}[argument])
    'The choices fit if the policy was updated only every 100 rows (log-likelihood higher by 512): add --batch-size 100.'
    """
    said = "The choices fit" if cause.fits else "The choices fit better, but not well,"
    why = f"log-likelihood higher by {_gain(cause)}"
    if cause.declared_impossible:
        never = f"{count(cause.impossible)} are impossible, not {count(cause.declared_impossible)}"
        why = f"of {count(cause.choices)} choices {never}"
    if cause.cause is Cause.CONTEXT:
        return f"{said} if the policy looked at column {quote(cause.column or '')} ({why}). {_advice(cause, name_of)}"
    return f"{said} if {_supposed(cause)} ({why}): {_advice(cause, name_of)}"


def _gain(cause: LikelyCause) -> str:
    return count(round(cause.gain))


def _supposed(cause: LikelyCause) -> str:
    """What is supposed, in words."""
    values = [number(value) for value in cause.settings.values()]
    names = [setting.removeprefix("policy.").replace("_", " ") for setting in cause.settings]
    match cause.cause:
        case Cause.BATCHES:
            return f"the policy was updated only every {count(cause.settings['batch_size'])} rows"
        case Cause.DELAY if "delay" in cause.settings:
            return f"its rewards came {_plural(cause.settings['delay'], 'row')} late"
        case Cause.DELAY:
            return f"its rewards came {_plural(cause.settings['delay_in_batches'], 'batch', 'batches')} late"
        case Cause.WARM_UP:
            return f"the first {_plural(cause.settings['warm_up'], 'row')} were allocated equally"
        case Cause.FLOOR:
            return f"every arm had a probability of {values[0]} or more"
        case _:
            return f"the policy had another {join([f'{name}, {value}' for name, value in zip(names, values, strict=True)])}"


def _plural(value: int, one: str, many: str = "") -> str:
    return f"{count(value)} {one if value == 1 else many or one + 's'}"


def _advice(cause: LikelyCause, name_of: NameOf) -> str:
    if cause.cause is Cause.CONTEXT:
        column, trial = name_of("columns.trial"), name_of("trial")
        tested = "" if cause.p_value is None else f" given the policy's probabilities ({p_value(cause.p_value)})"
        return (
            f"It predicts the choices{tested}. Unless it was only known after them, analyse the rows of each value by "
            f"themselves, with {column} {quote(cause.column or '')} and {trial}."
        )
    if "delay_in_batches" in cause.settings:
        return "add a column with the time at which each reward was seen."
    return f"add {_options(cause, name_of)}."


def _options(cause: LikelyCause, name_of: NameOf) -> str:
    """What to type, or in Python what to set."""
    said = []
    for setting, value in cause.settings.items():
        option = name_of(CALLED.get(setting, setting))
        written = f"{value:g}"
        said.append(f"{option} {written}" if option.startswith("-") else f"{option}={written}")
    return " ".join(said)
