"""Logged weights in words: whether they are right, what they can correct, and what nobody can without the policy."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxbias.analysis.findings import Analysis, Reason
from jaxbias.analysis.recommendation import FEWEST_CHOICES, LARGEST_SHARE, WEIGHTED
from jaxbias.logs import Log
from jaxbias.policy_fit.sample_ratio import SampleRatio
from jaxbias.policy_fit.weights import AgainstPolicy
from jaxbias.reporting.formatting import count, figure, in_errors, number, p_value, percent, probability
from jaxbias.reporting.labels import join, name_some, quote

NOT_GIVEN = "The policy that chose the arms was not given"
DO_NOT_RELY = "Do not rely on results that use the weights."
SEVERAL = 2  # columns that were not used, from which on they may be what a policy looked at


def not_given_sentence(analysis: Analysis) -> str:
    """The first sentence where the policy is not known."""
    if analysis.log.weights is None:
        return f"{NOT_GIVEN}, so the methods that correct for it do not apply."
    return (
        f"{NOT_GIVEN}, but the weights with which it chose them are: adaptive_weighting and propensity_weighting use these, and "
        "the methods that simulate the policy do not apply."
    )


def weights_sentences(analysis: Analysis) -> list[str]:
    """Whether the weights are right, and where the policy is not known what can be done with them or without."""
    found = [ratio_sentence(analysis), policy_sentence(analysis)]
    if analysis.fit is None:
        found += _with_weights(analysis) if analysis.log.weights is not None else _without_weights(analysis)
    return [sentence for sentence in found if sentence]


def ratio_sentence(analysis: Analysis) -> str:
    """Whether the pulls agree with the weights."""
    ratio = analysis.weights and analysis.weights.ratio
    return "" if ratio is None else describe_ratio(ratio, analysis.labels)


def describe_ratio(ratio: SampleRatio, labels: Sequence[str]) -> str:
    """Whether the pulls agree with the weights, from the check alone."""
    if ratio.worst is None:
        return "No pull was left to chance by the logged weights: the log says nothing for or against them."
    worst, name = ratio.arms[ratio.worst], quote(labels[ratio.worst])
    pulls = f"{count(worst.pulls)} of {count(ratio.choices)} choices, where {figure(worst.expected, worst.stderr)} are expected"
    if ratio.agrees:
        return f"The pulls agree with the logged weights ({p_value(ratio.p_value)}); furthest off is {name}, with {pulls}."
    return (
        f"The pulls do not agree with the logged weights ({p_value(ratio.p_value)}): {name} got {pulls}. Rows that are "
        f"missing, or weights other than those in use, do that. {DO_NOT_RELY}"
    )


def policy_sentence(analysis: Analysis) -> str:
    """Whether the weights are the declared policy's probabilities."""
    if analysis.weights is None or analysis.weights.policy is None:
        return ""
    return describe_difference(analysis.weights.policy, analysis.log, type(analysis.policy).__name__)


def describe_difference(found: AgainstPolicy, log: Log, name: str) -> str:
    """Whether the weights are those of the policy with this name, from the check alone."""
    rows, words = f"{count(found.rows)} {_unit(log)}s", "weights" if log.weights is not None else "propensities"
    if found.agrees:
        return f"The logged {words} are those of {name}: the largest difference in {rows} is {probability(found.largest)}."
    first = found.worst[0]
    where = f"in {row_name(log, first.row)} for {quote(log.labels[first.arm])}"
    weight = f"{number(first.logged)} logged, {number(first.exact)} by the policy"
    better = f"the {words} explain" if found.log_prob > found.policy_log_prob else "the policy explains"
    return (
        f"The logged {words} are not those of {name}: {count(found.wrong)} of {rows} are off by more than "
        f"{number(found.tolerance)}; the largest difference is {where} ({weight}), the typical one "
        f"{probability(found.typical)}. The log-probability of the choices is {number(found.log_prob)} by the log and "
        f"{number(found.policy_log_prob)} by the policy: {better} them better."
    )


def _unit(log: Log) -> str:
    by_step = log.weights is None or len(log.weights) == log.history.num_steps
    return "row" if by_step else "period"


def row_name(log: Log, row: int) -> str:
    """What a row of the weights is called: a row of the log, or a period."""
    named = _unit(log) == "period" and log.periods is not None
    return f"period {quote(log.periods[row])}" if named and log.periods else f"{_unit(log)} {count(row + 1)}"


def _with_weights(analysis: Analysis) -> list[str]:
    can = (
        "If the logged weights are the probabilities with which the arms were chosen, adaptive_weighting corrects the means, "
        "whatever the policy looked at. Its intervals are valid in a long log in which no arm's weights come close to zero, and "
        "those of confidence_sequence in any log whose policy looked at nothing but past pulls and rewards."
    )
    cannot = (
        "Without the policy no log like this one can be simulated, so the methods were not evaluated, the method was chosen by "
        "rule, and the bias of the sample means is not known."
    )
    return [can, cannot, _why_not_weighted(analysis), _context_sentence(analysis, "breaks confidence_sequence and shrinkage")]


def _why_not_weighted(analysis: Analysis) -> str:
    """Why `adaptive_weighting` is not recommended although there are weights."""
    estimate = analysis.comparison.estimates.get(WEIGHTED)
    if analysis.recommended.reason is Reason.WEIGHTS_KNOWN or estimate is None or analysis.weights is None:
        return ""
    if not analysis.weights.fits_pulls:
        return f"{WEIGHTED} is not recommended, as the pulls do not agree with the weights."
    pulled = np.asarray(analysis.comparison.pulls) > 0
    chosen, share = (np.asarray(estimate.diagnostics[name]) for name in ("free_pulls", "largest_share"))
    reasons = {
        "did not converge for": pulled & ~np.asarray(estimate.converged),
        f"has fewer than {FEWEST_CHOICES} choices of": pulled & (chosen < FEWEST_CHOICES),
        f"has more than {percent(LARGEST_SHARE)} of the variance from one pull of": pulled & (share > LARGEST_SHARE),
    }
    said = [
        f"{words} {name_some(analysis.labels[arm] for arm in np.flatnonzero(arms))}"
        for words, arms in reasons.items()
        if arms.any()
    ]
    return f"{WEIGHTED} is not recommended, as it {join(said)}." if said else ""


def _without_weights(analysis: Analysis) -> list[str]:
    assumed = (
        "Without the policy and without its weights no method corrects the means. You can still use shrinkage, whose means "
        "have less error than the sample means, and confidence_sequence, whose intervals hold at every step. Both assume that an "
        "arm's rewards have one mean throughout, and that the policy looked at nothing but past pulls and rewards."
    )
    recorded = ""
    if analysis.log.propensity is not None:
        recorded = (
            "The log has the probability of the pulled arm only, which propensity_weighting uses; with those of every arm (a "
            "column p_ and its label for each) adaptive_weighting would apply, whose means are corrected."
        )
    return [assumed, recorded, _context_sentence(analysis, "breaks both")]


def _context_sentence(analysis: Analysis, breaks: str) -> str:
    """That columns which were not used may be what the policy looked at."""
    unused = analysis.log.unused
    if len(unused) < SEVERAL:
        return ""
    return (
        f"Columns {name_some(unused)} were not used. If the policy looked at them, or at anything else such as a user's context, "
        f"that {breaks}."
    )


def weights_document(analysis: Analysis) -> dict[str, Any] | None:
    """The checks of the weights, for programs."""
    if analysis.weights is None:
        return None
    ratio, policy = analysis.weights
    return {
        "ratio": ratio and ratio_document(ratio, analysis.labels),
        "policy": policy and difference_document(policy, analysis.log),
    }


def ratio_document(ratio: SampleRatio, labels: Sequence[str]) -> dict[str, Any]:
    """The check against the pulls, for programs."""
    arms = [{"arm": label, **one._asdict(), "errors": one.errors} for label, one in zip(labels, ratio.arms, strict=True)]
    worst = None if ratio.worst is None else labels[ratio.worst]
    return {**ratio._asdict(), "arms": arms, "worst": worst, "agrees": ratio.agrees}


def difference_document(found: AgainstPolicy, log: Log) -> dict[str, Any]:
    """The check against a policy, for programs."""
    worst = [{**one._asdict(), "arm": log.labels[one.arm], "where": row_name(log, one.row)} for one in found.worst]
    return {**found._asdict(), "worst": worst, "agrees": found.agrees}


def ratio_table(analysis: Analysis) -> list[dict[str, Any]]:
    """Pulls and what the weights say, arm by arm."""
    ratio = analysis.weights and analysis.weights.ratio
    if ratio is None:
        return []
    return [
        {
            "arm": arm,
            "pulls": count(one.pulls),
            "expected": figure(one.expected, one.stderr),
            "errors": in_errors(one.errors) if one.stderr > 0 else "",
        }
        for arm, one in enumerate(ratio.arms)
    ]


def wrong_weights_table(analysis: Analysis) -> list[dict[str, Any]]:
    """The weights that are furthest from the policy's probabilities."""
    policy = None if analysis.weights is None else analysis.weights.policy
    return [
        {"where": row_name(analysis.log, one.row), "arm": one.arm, "logged": number(one.logged), "exact": number(one.exact)}
        for one in (() if policy is None else policy.worst)
    ]
