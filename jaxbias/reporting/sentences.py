"""The findings about a log as sentences, in the order in which a reader needs them."""

import numpy as np

from jaxbias._core.errors import NameOf
from jaxbias.analysis.findings import Analysis, Checked, Distrust
from jaxbias.analysis.signs import CLEAR, signs_of
from jaxbias.estimators.estimate import Status
from jaxbias.policy_fit.check import PolicyFit, Verdict
from jaxbias.reporting.causes import cause_sentences
from jaxbias.reporting.clusters import cluster_sentence
from jaxbias.reporting.decisions import titled_decisions
from jaxbias.reporting.drift import drift_sentence
from jaxbias.reporting.formatting import count, count_pulls, figure, interval, level, number, p_value, probability, unit_mean
from jaxbias.reporting.labels import MOST_NAMED, join, name_arms, name_some, policy_title, quote
from jaxbias.reporting.late_and_second import delay_sentence, policy_reward_sentence
from jaxbias.reporting.recommendation import describe_reason
from jaxbias.reporting.statuses import doubt_sentence
from jaxbias.reporting.weights import DO_NOT_RELY, not_given_sentence, ratio_sentence, weights_sentences

NOT_TRUSTED = "Do not rely on results that use the policy."
CHECK_THE_POLICY = "Check the policy's settings, and whether choices were made in batches or rewards came late."


def sentences(analysis: Analysis, name_of: NameOf = str) -> list[str]:
    """What the analysis found; `name_of` says how the reader calls an argument of the library."""
    return [sentence for said in titled_sentences(analysis, name_of).values() for sentence in said]


def titled_sentences(analysis: Analysis, name_of: NameOf = str) -> dict[str, list[str]]:
    """The same, by what the sentences are about."""
    found = {
        "Policy": [fit_sentence(analysis)],
        "Likely cause": cause_sentences(analysis.causes, name_of),
        "Late rewards": [delay_sentence(analysis)],
        "Two rewards": [policy_reward_sentence(analysis)],
        "Method": [recommendation_sentence(analysis)],
        "Lead": [best_sentence(analysis)],
        **{title: [sentence] for title, sentence in titled_decisions(analysis).items()},
        "Bias of raw means": [bias_sentence(analysis)],
        "Logged weights": weights_sentences(analysis),
        "Rewards at one end": [edge_sentence(analysis)],
        "Not reliable": [doubt_sentence(analysis)],
        "Influential rows": [carried_sentence(analysis)],
        "Few pulls": [few_sentence(analysis)],
        "Change over time": [drift_sentence(analysis)],
        "Clusters": [cluster_sentence(analysis)],
        "Left out": [budget_sentence(analysis)],
    }
    return {title: kept for title, said in found.items() if (kept := [sentence for sentence in said if sentence])}


def budget_sentence(analysis: Analysis) -> str:
    """What a budget of time had no room for."""
    return f"The budget left no time for: {join(list(analysis.left_out))}." if analysis.left_out else ""


def describe_distrust(analysis: Analysis) -> list[str]:
    """Why the recommended figures are not to be trusted; nothing where they are."""
    words = {
        Distrust.POLICY_DOES_NOT_FIT: fit_sentence,
        Distrust.NOT_CORRECTED: lambda analysis: f"The means of {analysis.recommended.method} are not corrected.",
        Distrust.NOT_CONVERGED: doubt_sentence,
        Distrust.WEIGHTS_OFF: lambda analysis: ratio_sentence(analysis) or DO_NOT_RELY,
    }
    return [words[reason](analysis) for reason in analysis.distrust]


def fit_sentence(analysis: Analysis | Checked) -> str:
    """Whether the log can come from the policy."""
    fit, name = analysis.fit, policy_title(analysis.policy)
    if fit is None:
        assert isinstance(analysis, Analysis)  # what was checked has a policy
        return not_given_sentence(analysis)
    if fit.verdict == Verdict.NOTHING_TO_CHECK:
        return f"Every pull was forced: the log says nothing for or against {name}."
    if fit.verdict == Verdict.IMPOSSIBLE:
        return _impossible_sentence(analysis, fit, name)
    total = f"the log-probability of its {count(fit.choices)} choices is {number(fit.log_prob, fit.deviation)}"
    total = f"{total}, where {figure(fit.expected, fit.deviation)} is expected"
    if fit.verdict == Verdict.UNLIKELY:
        return (
            f"The log does not look like {name}'s: {total}, and its choices differ from the policy's in a way "
            f"that has a probability of at most {probability(max(min(fit.p_value, fit.calibration_p_value), 1e-12))} by chance. "
            f"{NOT_TRUSTED}"
        )
    if fit.deviation == 0:
        return f"The choices are those of {name}, every one of {count(fit.choices)}."
    if fit.doubtful:
        chance = p_value(min(fit.p_value, fit.calibration_p_value))
        return f"The choices are unusual for {name}, though possible ({chance}): {total}. {CHECK_THE_POLICY}"
    return f"The choices fit {name}: {total} ({p_value(fit.p_value)})."


def _impossible_sentence(analysis: Analysis | Checked, fit: PolicyFit, name: str) -> str:
    if analysis.log.history.allocation == "shares":
        return (
            f"The log cannot come from {name} by shares: in batches with {count(fit.impossible)} of its {count(fit.choices)} "
            f"choices an arm is off its share by one pull or more. {NOT_TRUSTED}"
        )
    first = fit.surprises[0]
    where = f"at step {count(first.step + 1)}" if analysis.log.history.order_known else f"in {_period(analysis, first.step)}"
    return (
        f"The log cannot come from {name}: {where} it pulls {quote(analysis.labels[first.arm])}, which "
        f"{name} never does there, and so at {count(fit.impossible)} of {count(fit.choices)} choices. {NOT_TRUSTED}"
    )


def _period(analysis: Analysis | Checked, step: int) -> str:
    """What the period of a step is called."""
    sizes, names = analysis.log.history.batch_sizes, analysis.log.periods
    number = int(np.searchsorted(np.cumsum(sizes or ()), step, side="right"))
    return f"period {quote(names[number])}" if names is not None else f"period {count(number + 1)}"


def recommendation_sentence(analysis: Analysis) -> str:
    """The recommended method, and why."""
    recommended = analysis.recommended
    return f"Recommended: {recommended.method}, because {describe_reason(recommended, analysis.labels)}."


def _said_of_control(analysis: Analysis) -> bool:
    """Whether the margin is the difference to the control, which has a sentence of its own, and another point estimate."""
    best, found = analysis.best, analysis.decisions
    return best is not None and found is not None and found.contrasts is not None and best.runner_up == found.control


def best_sentence(analysis: Analysis) -> str:
    """The best arm and its margin."""
    best, estimate = analysis.best, analysis.estimate
    if best is None or _said_of_control(analysis):
        return ""
    first, second = quote(analysis.labels[best.arm]), quote(analysis.labels[best.runner_up])
    enough = "enough" if best.runner_up not in best.rivals else "not enough"
    where = "is above 0" if best.lower > 0 else "includes 0"
    if best.lower > 0 and best.runner_up in best.rivals:
        where += ", but several arms are compared"
    margin = f"{number(best.margin, best.stderr)} {interval(best.lower, best.upper, best.stderr)}".strip()
    return (
        f"{first} has the largest estimate, {number(estimate.mean[best.arm], estimate.stderr[best.arm])}, ahead of {second} by "
        f"{margin}, {enough} to call it better (the {level(analysis.comparison.level)} interval of the difference {where})."
    )


def bias_sentence(analysis: Analysis) -> str:
    """Which sample means are off on average, if the recommended estimates are right."""
    if analysis.bias is None:
        return ""
    words = ("too low", "too high", f"within {CLEAR} standard errors of right")
    groups = zip(signs_of(analysis.bias.bias, analysis.bias.stderr), words, strict=True)
    parts = [f"{word} for {name_arms(analysis.labels, arms)}" for arms, word in groups if arms]
    return (
        f"If these estimates are right, the sample mean of such a log is on average {'; '.join(parts)} "
        f"(from {count(analysis.bias.num_trials)} simulated logs)."
    )


def edge_sentence(analysis: Analysis) -> str:
    """The arms whose rewards were all at one end of their range."""
    at_edge = np.flatnonzero(np.asarray(analysis.estimate.status) == Status.AT_EDGE)
    if not len(at_edge):
        return ""
    names = name_some(analysis.labels[arm] for arm in at_edge)
    return (
        f"The rewards of {names} are all at one end of their range: the estimate is near that end, and the interval is one-sided."
    )


def carried_sentence(analysis: Analysis) -> str:
    """The estimates that one row carries."""
    carried = () if analysis.influence is None else analysis.influence.carried
    parts = []
    for one in carried[:MOST_NAMED]:
        name, row = quote(analysis.labels[one.arm]), f"row {count(one.row.step + 1)}"
        if one.alone:
            parts.append(f"that of {name} moves by {number(abs(one.row.weight), 0.01)} for each unit of the reward in {row}")
        else:
            parts.append(f"the reward in {row} has moved that of {name} by {number(one.row.errors, 0.1)} standard errors")
    more = f"; so it is for {count(len(carried) - MOST_NAMED)} more" if len(carried) > MOST_NAMED else ""
    return f"One row carries an estimate: {'; '.join(parts)}{more}. Check that row." if parts else ""


def few_sentence(analysis: Analysis) -> str:
    """What a log of 0 and 1 with very few pulls of some arm can show, and what no method can get from it."""
    few, labels = analysis.few_pulls, analysis.labels
    if few is None:
        return ""
    weakest = quote(labels[few.weakest])
    can = [f"the mean of {quote(labels[arm])} is above {unit_mean(lower)}" for arm, lower in few.shown[:MOST_NAMED]]
    can.append(f"that of {weakest}, with {count_pulls(few.pulls)}, between {unit_mean(few.lower)} and {unit_mean(few.upper)}")
    if few.rival is not None:
        lead = f"{unit_mean(few.lead_lower)} and {unit_mean(few.lead_upper)}"
        can.append(f"the lead of {quote(labels[few.rival])} over it between {lead}")
    text = f"What {count_pulls(few.total)} show whatever chose the arms: {join(can)} ({level(analysis.comparison.level)} each). "
    if analysis.best is not None and analysis.best.is_clear:
        text += "To say more, the answer relies on the policy: on how often it would make such a log if the arms were alike. "
    moved = f"One reward of {weakest} the other way would move its sample mean by {unit_mean(1 / few.pulls)}"
    return f"{text}{moved}: more pulls of it would help."
