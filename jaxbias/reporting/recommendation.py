"""Why a method is recommended, in words."""

from collections.abc import Sequence

from jaxbias.analysis.findings import Reason, Recommendation
from jaxbias.estimators.registry import METHODS
from jaxbias.reporting.formatting import count, count_pulls, number, percent, sample_size
from jaxbias.reporting.labels import name_some, quote

WHY_PREFERRED = {
    "guarded_shrinkage": (
        "it moves an arm only as far as its pulls allow: less error than the sample mean wherever it was measured, and about the "
        "same for arms that were pulled often"
    ),
    "mean_matching": "it uses the full policy, and had the smallest error of the methods that do in every setting measured",
    "conditional_mle": "it uses all the policy says; mean_matching did not converge or was not asked for",
    "adaptive_weighting": "it needs the probabilities of the choices alone",
    "data_splitting": "it uses the held-out rewards, which the policy did not see",
}
WEIGHTS_ENOUGH = (
    "it needs only the weights with which the arms were chosen, and the pulls agree with those in the log (chosen by rule: "
    "without a policy that fits, no logs like this one can be simulated to evaluate the methods on)"
)
MATCHING_ALONE = "it needs only the policy: the choices need not be random, nor their probabilities logged"


def describe_reason(recommended: Recommendation, labels: Sequence[str]) -> str:
    """Completes a sentence that ends in "because"."""
    match recommended.reason:
        case Reason.NOTHING_TO_CORRECT:
            return "the arms were chosen without looking at the rewards: nothing to correct"
        case Reason.EVALUATED:
            return "; ".join([_describe_evaluated(recommended), *_describe_pulls(recommended, labels)])
        case Reason.PREFERRED:
            return "; ".join(_describe_preferred(recommended, labels))
        case Reason.WEIGHTS_KNOWN:
            return "; ".join([WEIGHTS_ENOUGH, *_describe_pulls(recommended, labels)])
        case Reason.POLICY_UNKNOWN:
            return f"the policy is not known, and {_without_policy(recommended, 'this method does not use it')}"
        case Reason.POLICY_DOES_NOT_FIT:
            return (
                "the log does not look like the declared policy's, and "
                f"{_without_policy(recommended, 'this method does not use it')}"
            )
        case Reason.NONE_CONVERGED:
            tried = " and ".join(recommended.tried)
            return f"{tried} did not converge for every arm, and {_without_policy(recommended, 'this one needs no policy')}"
        case Reason.NONE_TRIED:
            return (
                "no method that uses the policy was tried or applies, and "
                f"{_without_policy(recommended, 'this one needs no policy')}"
            )


def _without_policy(recommended: Recommendation, otherwise: str) -> str:
    if METHODS[recommended.method].needs_policy:
        return "no method that needs no policy was tried"
    means = f"; its intervals are valid, and the means of {recommended.means_from} have less error than its own"
    return otherwise + (means if recommended.means_from else "")


def _describe_preferred(recommended: Recommendation, labels: Sequence[str]) -> list[str]:
    method = recommended.method
    said = WHY_PREFERRED.get(method, f"it gives {METHODS[method].summary}")
    if method == "mean_matching" and "conditional_mle" not in recommended.tried:
        said = MATCHING_ALONE
    return [said, *_describe_pulls(recommended, labels)]


def _describe_evaluated(recommended: Recommendation) -> str:
    """The figures for which it is recommended."""
    found = recommended.evaluated
    assert found is not None
    logs = f"{count(found.num_trials)} logs simulated at these estimates"
    if recommended.method == "sample_mean":
        which = "whose error is no larger for arms that were pulled often " if "guarded_shrinkage" in recommended.tried else ""
        return f"no method {which}had less error on {logs}"
    guard = " and whose error is no larger for arms that were pulled often" if METHODS[recommended.method].guarded else ""
    return (
        f"on {logs} it had the smallest error of the methods whose intervals cover{guard}: a root mean squared error of "
        f"{number(found.error)} where the sample mean has {number(found.naive_error)}, and intervals that held the mean "
        f"{percent(found.coverage)} of the time"
    )


def _describe_pulls(recommended: Recommendation, labels: Sequence[str]) -> list[str]:
    few = name_some(labels[arm] for arm in recommended.few_pulls)
    caution = f" ({few} too few for more than a wide interval)" if few else ""
    parts = [f"it converged for every arm; the least pulled has {count_pulls(recommended.least_pulls)}{caution}"]
    if (loss := recommended.weighting_loss) is not None:
        pulls = f"the {count_pulls(loss.pulls)} of {quote(labels[loss.arm])}"
        parts.append(f"with propensity weighting {pulls} would count as {sample_size(loss.effective)}")
    return parts
