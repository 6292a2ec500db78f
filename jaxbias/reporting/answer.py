"""The answer of an analysis in one sentence that a reader can act on, and what it rests on."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from jaxbias.analysis.findings import Distrust
from jaxbias.analysis.signs import signs_of
from jaxbias.policy_fit.check import Verdict
from jaxbias.reporting.decisions import compare_with_control, contrast_rows
from jaxbias.reporting.formatting import count_pulls, interval, number, p_value
from jaxbias.reporting.labels import join, plain_text, policy_title, quote, shorten

if TYPE_CHECKING:
    from jaxbias.analysis.findings import Analysis

LONGEST = 36  # characters of a label in the answer


def answer_sentence(analysis: "Analysis") -> str:
    """What to do: which arm to choose, that it is too early to choose, or that the figures cannot be used yet."""
    if not analysis.trusted:
        return f"Do not decide from these figures yet: {join(_reasons(analysis))}."
    if analysis.decisions is not None and analysis.decisions.contrasts is not None:
        return _against_control(analysis)
    if analysis.best is None:
        return _without_rivals(analysis)
    return _best_arm(analysis)


def _name(label: str) -> str:
    """A label in quotes, shorter than in other sentences: the answer must be read at once."""
    return quote(shorten(plain_text(label), LONGEST))


def _reasons(analysis: "Analysis") -> list[str]:
    """Why the figures are not to be trusted, each in a clause."""
    clauses = {
        Distrust.POLICY_DOES_NOT_FIT: f"the log does not match the declared policy {policy_title(analysis.policy)}",
        Distrust.NOT_CORRECTED: "the means could not be corrected",
        Distrust.NOT_CONVERGED: "the recommended method did not converge for every arm",
        Distrust.WEIGHTS_OFF: "the pulls do not agree with the logged weights",
    }
    follows = Distrust.POLICY_DOES_NOT_FIT in analysis.distrust  # then nothing could be corrected, which needs no words
    return [clauses[reason] for reason in analysis.distrust if not (follows and reason is Distrust.NOT_CORRECTED)]


def _without_rivals(analysis: "Analysis") -> str:
    """The best estimate, where there are no two arms to compare."""
    mean = np.asarray(analysis.estimate.mean, np.float64)
    if np.isnan(mean).all():
        return "No arm has an estimate, so there is nothing to decide from."
    arm = int(np.nanargmax(mean))
    return (
        f"Only {_name(analysis.labels[arm])} has an estimate, {_estimate(analysis, arm)}, so there is nothing to compare it with."
    )


def _best_arm(analysis: "Analysis") -> str:
    best = analysis.best
    assert best is not None
    first, second = _name(analysis.labels[best.arm]), _name(analysis.labels[best.runner_up])
    margin, between = number(best.margin, best.stderr), interval(best.lower, best.upper, best.stderr)
    if best.is_clear:
        few = "" if analysis.few_pulls is None else f", though {_few(analysis)}"
        return f"Choose {first}: its mean is {_estimate(analysis, best.arm)}, ahead of {second} by {margin} {between}{few}."
    if best.lower > 0:
        others = _name(analysis.labels[best.rivals[0]]) if len(best.rivals) == 1 else f"{len(best.rivals)} other arms"
        return f"No clear winner yet: {first} leads, but {others} cannot be ruled out, so {_collect(analysis)} before you choose."
    lead = f"{first} leads {second} by {margin} {between}".strip()
    return f"No clear winner yet: {lead}, so {_collect(analysis)} before you choose."


def _few(analysis: "Analysis") -> str:
    """The arm with very few pulls."""
    few = analysis.few_pulls
    assert few is not None
    return f"{_name(analysis.labels[few.weakest])} has only {count_pulls(few.pulls)}"


def _collect(analysis: "Analysis") -> str:
    """What to do about a difference that is not clear."""
    few = analysis.few_pulls
    where = "" if few is None else f", above all of {_name(analysis.labels[few.weakest])} ({count_pulls(few.pulls)}),"
    return f"collect more data{where}"


def _against_control(analysis: "Analysis") -> str:
    found, groups = analysis.decisions, compare_with_control(analysis)
    assert found is not None
    assert found.contrasts is not None
    assert found.control is not None
    control = _name(analysis.labels[found.control])
    if len(groups.better):
        mean = np.nan_to_num(np.asarray(analysis.estimate.mean, np.float64), nan=-np.inf)
        arm = max(groups.better, key=lambda arm: mean[arm])
        more = len(groups.better) - 1
        also = "" if not more else f"; {more} other {'arm beats' if more == 1 else 'arms beat'} the control too"
        few = "" if analysis.few_pulls is None else f", though {_few(analysis)}"
        return f"Switch from {control} to {_name(analysis.labels[arm])}: its mean is {_difference(analysis, arm)}{also}{few}."
    if len(groups.worse) and not len(groups.rest):
        return f"Keep {control}: every other arm is shown to be worse."
    difference = np.nan_to_num(np.asarray(found.contrasts.difference, np.float64), nan=-np.inf)
    arm = max(groups.rest, key=lambda arm: difference[arm], default=None)
    if arm is None or not np.isfinite(difference[arm]):
        return f"Keep {control} for now: no arm can be compared with it."
    closest = f"the closest is {_name(analysis.labels[arm])}, {_difference(analysis, arm)}"
    return f"Keep {control} for now: no arm is shown to be better; {closest}."


def _difference(analysis: "Analysis", arm: int) -> str:
    """By how much an arm is above or below the control; the lift where there is one."""
    row = next(row for row in contrast_rows(analysis) if row["arm"] == arm)
    value, ends = (row["lift"], row["lift_ends"]) if row["lift_ends"] else (row["difference"].split(" ± ")[0], row["ends"])
    assert analysis.decisions is not None
    assert analysis.decisions.contrasts is not None
    chance = float(np.asarray(analysis.decisions.contrasts.p_adjusted)[arm])
    said = "" if np.isnan(chance) else f"(adjusted {p_value(chance)})"
    return " ".join(filter(None, [value.lstrip("+-"), "lower" if value.startswith("-") else "higher", ends, said]))


def _estimate(analysis: "Analysis", arm: int) -> str:
    mean, stderr, lower, upper = (float(getattr(analysis.estimate, name)[arm]) for name in ("mean", "stderr", "lower", "upper"))
    return f"{number(mean, stderr)} {interval(lower, upper, stderr)}".strip()


def basis_sentences(analysis: "Analysis") -> list[str]:
    """What the answer rests on: the policy, the method, and how far off the raw means are."""
    return [sentence for sentence in (_policy(analysis), _method(analysis), _raw_means(analysis)) if sentence]


def _policy(analysis: "Analysis") -> str:
    fit, name = analysis.fit, policy_title(analysis.policy)
    if fit is None:
        return (
            "The policy is not known; its logged weights are used."
            if analysis.log.weights is not None
            else "The policy is not known."
        )
    if fit.verdict == Verdict.NOTHING_TO_CHECK:
        return f"Every pull was forced, so {name} could not be checked."
    if fit.doubtful:
        chance = p_value(min(fit.p_value, fit.calibration_p_value))
        return f"The log is unusual for the declared policy {name} ({chance}), so check its settings, batches and delays."
    return f"The log fits the declared policy {name}." if fit.fits else ""


def _method(analysis: "Analysis") -> str:
    recommended = analysis.recommended
    if recommended.method == "sample_mean" and recommended.evaluated is not None:
        logs = f"{recommended.evaluated.num_trials:,} simulated logs like this one"
        return f"The estimates are the raw means, as no method was better on {logs}."
    said = f"The estimates are those of {recommended.method}"
    if recommended.evaluated is not None:
        ratio = f"{recommended.evaluated.error / recommended.evaluated.naive_error:.0%}"
        logs = f"{recommended.evaluated.num_trials:,} simulated logs like this one"
        return f"{said}, whose error was {ratio} of the raw means' on {logs}."
    return f"{said}." if recommended.corrects else f"{said}: its intervals are valid, but its means are not corrected."


def _raw_means(analysis: "Analysis") -> str:
    if analysis.bias is None:
        return ""
    low, high, _ = signs_of(analysis.bias.bias, analysis.bias.stderr)
    if not low and not high:
        return "The raw means of such a log are right on average."
    parts = [_count_means(analysis, arms, word) for arms, word in ((low, "low"), (high, "high")) if arms]
    bias = np.asarray(analysis.bias.bias, np.float64)
    arm = int(np.nanargmax(np.abs(bias)))
    most = number(abs(bias[arm]), float(analysis.estimate.stderr[arm]))
    return f"In such a log {join(parts)} on average, by {most} at most."


def _count_means(analysis: "Analysis", arms: Sequence[int], word: str) -> str:
    total = len(analysis.labels)
    if len(arms) == total:
        return f"every raw mean is too {word}"
    if len(arms) == 1:
        return f"the raw mean of {_name(analysis.labels[arms[0]])} is too {word}"
    return f"{len(arms)} of {total} raw means are too {word}"
