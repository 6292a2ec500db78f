"""What a log of successes and failures can show that has very few pulls of some arm."""

from typing import Any

import numpy as np

from jaxbias.analysis.findings import FewPulls, LowerBound
from jaxbias.analysis.recommendation import FEW_PULLS
from jaxbias.estimators.compare import Comparison
from jaxbias.rewards import Bernoulli


def find_few_pulls(comparison: Comparison, family: Any) -> FewPulls | None:
    """By the intervals of `confidence_sequence`, which hold whatever chose the arms; None where no arm has few pulls."""
    pulls, safe = np.asarray(comparison.pulls), comparison.estimates.get("confidence_sequence")
    few = np.flatnonzero((pulls > 0) & (pulls < FEW_PULLS))
    if not len(few) or safe is None or not isinstance(family, Bernoulli):
        return None
    lower, upper = np.asarray(safe.lower, np.float64), np.asarray(safe.upper, np.float64)
    known = [int(arm) for arm in np.flatnonzero(pulls >= FEW_PULLS) if lower[arm] > 0]
    weakest = int(few[np.argmin(pulls[few])])
    rival = known[int(np.argmax(pulls[known]))] if known else None
    lead = (np.nan, np.nan) if rival is None else (lower[rival] - upper[weakest], upper[rival] - lower[weakest])
    return FewPulls(
        total=int(pulls.sum()),
        shown=tuple(LowerBound(arm, float(lower[arm])) for arm in known),
        weakest=weakest,
        pulls=int(pulls[weakest]),
        lower=float(lower[weakest]),
        upper=float(upper[weakest]),
        rival=rival,
        lead_lower=float(lead[0]),
        lead_upper=float(lead[1]),
    )
