"""Which method to believe for a log."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxbias.analysis.findings import EvaluatedChoice, Reason, Recommendation, WeightingLoss
from jaxbias.estimators.compare import Comparison
from jaxbias.estimators.estimate import Estimate
from jaxbias.estimators.registry import FALLBACKS, METHODS, PREFERRED, Cost
from jaxbias.evaluation import Evaluation, MethodFigures
from jaxbias.policies import complete_policy
from jaxbias.policy_fit.check import PolicyFit
from jaxbias.policy_fit.weights import WeightsCheck

# With a bias of both signs, and less error than those that correct.
SHRINKING = ("shrinkage", "conditional_posterior", "guarded_shrinkage")
ALMOST_ALL = 0.95  # of an arm's pulls: weights that keep more than that lose nothing worth reporting
CLEAR = 2  # Monte Carlo standard errors: what an evaluation may be off by
SHORT, SHORT_OF_AN_ARM = 0.01, 0.03  # of the level: intervals that cover less often than that, on average and for one arm, do not
WELL_PULLED = 1.02  # times the error of the sample mean for arms that were pulled often: no correction there without evidence
USABLE = 0.9  # of the estimates: a method that fails more often is not one to recommend
WEIGHTED = "adaptive_weighting"  # the method that logged weights are enough for
# Its 95% intervals covered 94% where no pull had more than this share of the variance of an arm's estimate, 90% up to one half
# and 86% beyond; and 91 to 95% with so many choices of the arm, 82% with fewer (Thompson, epsilon-greedy, 2,400 logs).
LARGEST_SHARE, FEWEST_CHOICES = 0.3, 10
FEW_PULLS = 5  # with fewer, the interval of an arm says little


def recommend(
    comparison: Comparison,
    policy: Any,
    fit: PolicyFit | None,
    evaluation: Evaluation | None = None,
    weights: WeightsCheck | None = None,
) -> Recommendation:
    """The method to believe for this log, among those in the comparison: by its evaluation, or else by what it assumes.

    Without a policy that fits there is no simulator, and so no evaluation: then by rule, `adaptive_weighting` where the logged
    weights agree with the pulls and are enough for it, and otherwise the method that assumes the least.
    """
    estimates = comparison.estimates
    if fit is None or not fit.fits:
        if weights is not None and weights_carry(comparison, weights):
            return _described(comparison, WEIGHTED, Reason.WEIGHTS_KNOWN, (WEIGHTED,))
        return _without_policy(comparison, Reason.POLICY_UNKNOWN if fit is None else Reason.POLICY_DOES_NOT_FIT)
    if not complete_policy(policy).is_adaptive and "sample_mean" in estimates:
        return Recommendation("sample_mean", corrects=True, reason=Reason.NOTHING_TO_CORRECT)
    if evaluation is not None and (best := best_evaluated(comparison, evaluation)) is not None:
        return _evaluated(comparison, evaluation, best)
    tried = tuple(method.name for method in PREFERRED if method.name in estimates)
    for method in tried:
        if converged_for_all(estimates[method], comparison.pulls):
            return _described(comparison, method, Reason.PREFERRED, tried)
    return _without_policy(comparison, Reason.NONE_CONVERGED if tried else Reason.NONE_TRIED, tried)


def weights_carry(comparison: Comparison, weights: WeightsCheck) -> bool:
    """Whether the logged weights are enough for `adaptive_weighting`: they agree with the pulls, and many pulls carry each mean.

    For every arm that was pulled it must have converged, with enough pulls that were chosen, and no pull may have a large share
    of the variance: where it has, the Normal interval covers too rarely.
    """
    estimate = comparison.estimates.get(WEIGHTED)
    if estimate is None or weights.ratio is None or not weights.ratio.agrees:
        return False
    if not converged_for_all(estimate, comparison.pulls):
        return False
    pulled = np.asarray(comparison.pulls) > 0
    chosen, share = (np.asarray(estimate.diagnostics[name])[pulled] for name in ("free_pulls", "largest_share"))
    return bool(np.all(chosen >= FEWEST_CHOICES) and not np.any(share > LARGEST_SHARE))  # of counts the share is not known


def uses_wrong_weights(recommended: Recommendation, weights: WeightsCheck | None) -> bool:
    """Whether the recommended method uses logged weights with which the pulls do not agree."""
    return weights is not None and not weights.fits_pulls and "propensities" in METHODS[recommended.method].takes


def to_evaluate(comparison: Comparison, named: Sequence[str] = ()) -> list[str]:
    """The methods that could be recommended: they gave an estimate of every arm, by correcting or by shrinking.

    Those that weight thousands of paths are evaluated only where they were asked for by name: for hundreds of logs they take
    longer than all others together, and had more error than `mean_matching` wherever they were measured.
    """
    able = [name for name, method in METHODS.items() if method.corrects or name in ("sample_mean", *SHRINKING)]
    fast = [name for name in able if name in named or METHODS[name].cost is not Cost.WEIGHTED_PATHS]
    estimates = comparison.estimates
    return [name for name in fast if name in estimates and converged_for_all(estimates[name], comparison.pulls)]


def best_evaluated(comparison: Comparison, evaluation: Evaluation) -> str | None:
    """The method with the least error among those that can be believed; None where there is none.

    Its intervals must cover, and it may be neither more biased than the sample mean nor have more error for arms that were pulled
    often: each up to its Monte Carlo error. The last is not enough: logs are evaluated at the estimates of this one, and where
    the arms look alike by chance, shrinkage looks better than it is for a bad arm that was pulled often. So a guarded method,
    and the sample mean, go before the others.
    """
    naive = evaluation.methods.get("sample_mean")
    candidates = to_evaluate(comparison, tuple(evaluation.methods))
    if naive is None:
        return None

    def is_good(figures: MethodFigures) -> bool:
        covered = figures.coverage + CLEAR * figures.coverage_stderr
        average = figures.average_coverage + CLEAR * figures.average_coverage_stderr
        covers = average >= evaluation.level - SHORT and bool(np.all(covered >= evaluation.level - SHORT_OF_AN_ARM))
        no_bias = figures.rms_bias <= naive.rms_bias + CLEAR * naive.rms_bias_stderr
        well_pulled, error = figures.relative_rmse_by_pulls[-1], figures.relative_rmse_by_pulls_stderr[-1]
        no_worse = well_pulled <= WELL_PULLED + CLEAR * error
        return bool(figures.usable.min() >= USABLE and covers and no_bias and no_worse)

    good = [name for name in candidates if name in evaluation.methods and is_good(evaluation.methods[name])]
    guarded = [name for name in good if METHODS[name].guarded]
    choice = guarded if set(guarded) - {"sample_mean"} else good
    return min(choice, key=lambda name: evaluation.methods[name].average_mse, default=None)


def _evaluated(comparison: Comparison, evaluation: Evaluation, method: str) -> Recommendation:
    figures, naive = evaluation.methods[method], evaluation.methods["sample_mean"]
    choice = EvaluatedChoice(
        float(np.sqrt(figures.average_mse)), float(np.sqrt(naive.average_mse)), figures.average_coverage, evaluation.num_trials
    )
    return _described(comparison, method, Reason.EVALUATED, tuple(evaluation.methods))._replace(evaluated=choice)


def converged_for_all(estimate: Estimate, pulls: np.ndarray) -> bool:
    """Whether the method converged for every arm that was pulled."""
    return bool(np.all(np.asarray(estimate.converged)[pulls > 0]))


def _described(comparison: Comparison, method: str, reason: Reason, tried: tuple[str, ...]) -> Recommendation:
    pulls = comparison.pulls
    return Recommendation(
        method,
        corrects=True,
        reason=reason,
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
    corrects = method.corrects and not method.needs_policy
    shrunken = comparison.estimates.get("shrinkage")
    take = method.holds_at_every_step and shrunken is not None and converged_for_all(shrunken, comparison.pulls)
    means_from = "shrinkage" if take else None
    return Recommendation(method.name, corrects=corrects, reason=reason, tried=tuple(tried), means_from=means_from)
