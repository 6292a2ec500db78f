"""Which method to believe for a log."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxbias.analysis.findings import Reason, Recommendation, WeightingLoss
from jaxbias.estimators.compare import Comparison
from jaxbias.estimators.estimate import Estimate
from jaxbias.estimators.registry import FALLBACKS, METHODS, PREFERRED
from jaxbias.policies import complete_policy
from jaxbias.policy_fit.check import PolicyFit

ALMOST_ALL = 0.95  # of an arm's pulls: weights that keep more than that lose nothing worth reporting
FEW_PULLS = 5  # with fewer, the interval of an arm says little


def recommend(comparison: Comparison, policy: Any, fit: PolicyFit | None) -> Recommendation:
    """The method to believe for this log, among those in the comparison."""
    estimates = comparison.estimates
    if fit is None:
        return _without_policy(comparison, Reason.POLICY_UNKNOWN)
    if not fit.fits:
        return _without_policy(comparison, Reason.POLICY_DOES_NOT_FIT)
    if not complete_policy(policy).is_adaptive and "sample_mean" in estimates:
        return Recommendation("sample_mean", corrects=True, reason=Reason.NOTHING_TO_CORRECT)
    tried = tuple(method.name for method in PREFERRED if method.name in estimates)
    for method in tried:
        if converged_for_all(estimates[method], comparison.pulls):
            return _preferred(comparison, method, tried)
    return _without_policy(comparison, Reason.NONE_CONVERGED if tried else Reason.NONE_TRIED, tried)


def converged_for_all(estimate: Estimate, pulls: np.ndarray) -> bool:
    """Whether the method converged for every arm that was pulled."""
    return bool(np.all(np.asarray(estimate.converged)[pulls > 0]))


def _preferred(comparison: Comparison, method: str, tried: tuple[str, ...]) -> Recommendation:
    pulls = comparison.pulls
    return Recommendation(
        method,
        corrects=True,
        reason=Reason.PREFERRED,
        tried=tried,
        least_pulls=int(pulls[pulls > 0].min()),
        few_pulls=tuple(np.flatnonzero((pulls > 0) & (pulls < FEW_PULLS)).tolist()),
        weighting_loss=_weighting_loss(comparison),
    )


def _weighting_loss(comparison: Comparison) -> WeightingLoss | None:
    weighting = comparison.estimates.get("propensity_weighting")
    if weighting is None:
        return None
    arms = np.flatnonzero(comparison.pulls > 0)
    pulls, effective = comparison.pulls[arms], np.asarray(weighting.diagnostics["effective_sample_size"])[arms]
    worst = int(np.argmin(effective / pulls))
    if not effective[worst] < ALMOST_ALL * pulls[worst]:
        return None
    return WeightingLoss(int(arms[worst]), int(pulls[worst]), float(effective[worst]))


def _without_policy(comparison: Comparison, reason: Reason, tried: Sequence[str] = ()) -> Recommendation:
    usable = [one.name for one in FALLBACKS if one.name in comparison.estimates] or list(comparison.estimates)
    method = METHODS[usable[0]]
    return Recommendation(method.name, corrects=method.corrects and not method.needs_policy, reason=reason, tried=tuple(tried))
