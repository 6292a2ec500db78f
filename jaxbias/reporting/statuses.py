"""The status of an estimate in words."""

import numpy as np

from jaxbias.analysis.findings import Analysis
from jaxbias.estimators.estimate import Status
from jaxbias.reporting.labels import name_some, quote

WORDS = {
    Status.CONVERGED: "converged",
    Status.NOT_FINITE: "not finite",
    Status.STILL_MOVING: "the mean was still moving when the search ended",
    Status.TOO_FEW_SAMPLES: "too few effective samples",
    Status.IMPRECISE: "the Monte Carlo error is above a quarter of the standard error",
    Status.CHAINS_APART: "the chains disagree: r_hat is above 1.05",
    Status.AT_EDGE: "at the edge of what the family allows",
    Status.NEVER_PULLED: "never pulled",
    Status.PULLED_ONCE: "pulled once, which is too few to estimate its sigma",
    Status.OUT_OF_RANGE: "its mean would be outside the range of the family",
    Status.TOO_FEW_PULLS: "too few pulls",
    Status.NO_SPREAD: "its standard error is 0",
}


def describe_status(analysis: Analysis, method: str, arm: int) -> str:
    """Whether the figures of this arm can be believed, and if not, why."""
    return WORDS[analysis.status(method, arm)]


def describe_doubts(analysis: Analysis, only: str | None = None) -> list[str]:
    """Which figures of every method, or of one, cannot be believed, and why: one phrase for each method and status."""
    groups: dict[tuple[str, str], list[str]] = {}
    for method, estimate in analysis.comparison.estimates.items():
        if only not in (None, method):
            continue
        for arm in np.flatnonzero(~np.asarray(estimate.converged)):
            groups.setdefault((method, describe_status(analysis, method, int(arm))), []).append(analysis.labels[arm])
    return [f"{method} of {name_some(labels)} ({status})" for (method, status), labels in groups.items()]


def doubt_sentence(analysis: Analysis) -> str:
    """The arms whose recommended figures cannot be believed, and why; nothing where there are none."""
    doubtful = [
        f"{quote(analysis.labels[arm])} ({describe_status(analysis, analysis.recommended.method, int(arm))})"
        for arm in np.flatnonzero(~np.asarray(analysis.estimate.converged))
    ]
    return f"Not reliable: {', '.join(doubtful)}." if doubtful else ""
