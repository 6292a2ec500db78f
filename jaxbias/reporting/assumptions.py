"""What was assumed and what reading decided, in words."""

from collections.abc import Sequence

from jaxbias.analysis.findings import Analysis, Assumed, Assumption
from jaxbias.reporting.formatting import interval, number
from jaxbias.reporting.labels import MOST_NAMED, quote
from jaxbias.reporting.log_notes import describe_note


def warnings_of(analysis: Analysis) -> list[str]:
    """A sentence for each decision that reading the log took, and for each assumption of the analysis."""
    notes = [describe_note(note) for note in analysis.log.notes]
    return notes + [describe_assumption(assumption, analysis.labels) for assumption in analysis.assumptions]


def describe_assumption(assumption: Assumption, labels: Sequence[str]) -> str:
    """One assumption as a sentence."""
    if assumption.of_reward:
        return f"Of the reward of the question: {describe_assumption(assumption._replace(of_reward=False), labels)}"
    match assumption.kind:
        case Assumed.BERNOULLI:
            return "The family was not given; every reward is 0 or 1, so Bernoulli."
        case Assumed.NORMAL:
            return "The family was not given; Normal was assumed."
        case Assumed.SIGMA_ESTIMATED:
            said = f"{_not_given(assumption)}; {assumption.method} estimated it together with the means"
            return f"{said}: {_list(assumption, labels)}."
        case Assumed.SIGMA_WITHIN_ARMS:
            said = f"{_not_given(assumption)}; {_list(assumption, labels)} is the standard deviation within arms"
            taken_by = " and ".join(assumption.taken_by)
            return f"{said}, which {taken_by} takes as known." if taken_by else f"{said}."


def _not_given(assumption: Assumption) -> str:
    return f"sigma was not given{', and each arm has its own' if assumption.each else ''}"


def _list(assumption: Assumption, labels: Sequence[str]) -> str:
    """One sigma, or one with the label of each arm; with its interval where there is one."""
    sigma, lower, upper = assumption.sigma, assumption.lower, assumption.upper
    assert sigma is not None
    said = [number(value) for value in sigma]
    if lower is not None and upper is not None:
        ends = [interval(low, high) for low, high in zip(lower, upper, strict=True)]
        said = [" ".join(filter(None, parts)) for parts in zip(said, ends, strict=True)]
    if len(said) == 1:
        return said[0]
    named = [f"{value} ({quote(label)})" for value, label in zip(said, labels, strict=True)]
    more = [f"{len(named) - MOST_NAMED} more"] if len(named) > MOST_NAMED else []
    return ", ".join([*named[:MOST_NAMED], *more])
