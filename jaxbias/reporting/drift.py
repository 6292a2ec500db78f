"""Whether the means change over time, in words, figures and rows."""

from typing import TYPE_CHECKING, Any

import numpy as np

from jaxbias.reporting.formatting import NONE, figure, p_value, probability
from jaxbias.reporting.labels import quote

if TYPE_CHECKING:
    from jaxbias.analysis.drift import Drift
    from jaxbias.analysis.findings import Analysis

ALARM = 0.05  # the p-value from which on the change is pointed out


def drift_sentence(analysis: "Analysis") -> str:
    """Whether the rewards change over time beyond chance; nothing where that was not checked."""
    drift = analysis.drift
    if drift is None:
        return ""
    if drift.overall > ALARM:
        return f"There is no clear sign that the means change over time ({p_value(drift.overall)})."
    arm = int(np.nanargmin(drift.p_value))
    common, own = figure(drift.common, drift.common_stderr), figure(drift.change[arm], drift.stderr[arm])
    return (
        f"The rewards change over time beyond chance ({p_value(drift.overall)}): from the first row to the last by "
        f"{common} in all arms together, and by {own} in {quote(analysis.labels[arm])}. "
        "An estimate is then an average over the time in which its arm was pulled, "
        "and a difference between arms may be one between times."
    )


def drift_table(analysis: "Analysis") -> list[list[str]]:
    """The change of each arm and its p-value."""
    drift = analysis.drift
    if drift is None:
        return []
    return [
        [figure(change, stderr), NONE if np.isnan(one) else probability(one)]
        for change, stderr, one in zip(drift.change, drift.stderr, drift.p_value, strict=True)
    ]


def drift_document(drift: "Drift", labels: tuple[str, ...]) -> dict[str, Any]:
    """The figures by name, with the labels of the arms."""
    arms = [
        {"arm": label, "change": drift.change[arm], "stderr": drift.stderr[arm], "p_value": drift.p_value[arm]}
        for arm, label in enumerate(labels)
    ]
    common = {"change": drift.common, "stderr": drift.common_stderr}
    return {"p_value": drift.overall, "common": common, "arms": arms, "trials": drift.num_trials}
