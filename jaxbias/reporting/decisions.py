"""Comparisons with the control, the arms that may be the best, and what the policy earned: in words, figures and rows."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jaxbias.reporting.formatting import NONE, figure, interval, level, number, percent, probability
from jaxbias.reporting.labels import join, name_some, quote

if TYPE_CHECKING:
    from jaxbias.analysis.decisions import Decisions
    from jaxbias.analysis.findings import Analysis

FIGURES = ("difference", "lower", "upper", "p_value", "p_adjusted", "lift", "lift_lower", "lift_upper")


def decision_sentences(analysis: "Analysis") -> list[str]:
    """What the log says for a decision."""
    return list(titled_decisions(analysis).values())


def titled_decisions(analysis: "Analysis") -> dict[str, str]:
    """The same, each sentence with what it is about."""
    found = analysis.decisions
    if found is None:
        return {}
    said = {
        "Against the control": _control(analysis, found),
        "Best arm": _best(analysis, found),
        "Policy earnings": _earned(found),
    }
    return {title: sentence for title, sentence in said.items() if sentence}


class AgainstControl(NamedTuple):
    """The arms but the control, by what the tests show."""

    better: list[int]
    worse: list[int]
    rest: list[int]


def compare_with_control(analysis: "Analysis") -> AgainstControl:
    """Which arms are shown to be better or worse than the control; no arm is, where none was named."""
    found = analysis.decisions
    if found is None or found.contrasts is None or found.differs is None:
        return AgainstControl([], [], [])
    shown, difference = found.differs, np.asarray(found.contrasts.difference)
    rest = ~shown & (np.arange(len(difference)) != found.control)
    groups = (shown & (difference > 0), shown & (difference < 0), rest)
    return AgainstControl(*(np.flatnonzero(which).tolist() for which in groups))


def _control(analysis: "Analysis", found: "Decisions") -> str:
    """Which arms are better or worse than the control."""
    if found.contrasts is None or found.control is None:
        return ""
    table, labels = found.contrasts, analysis.labels
    groups = zip(compare_with_control(analysis), ("better", "worse", "not shown to differ"), strict=True)
    parts = [f"{name_some(labels[arm] for arm in which)} {word}" for which, word in groups if which]
    how = "p-values adjusted for several arms, of tests simulated with the policy"
    if not found.simulated:
        how = f"intervals that share the error and hold whatever chose the arms, {_why_not_simulated(analysis)}"
    text = f"Against the control {quote(labels[found.control])}: {'; '.join(parts)} ({how})."
    if found.simulated and np.isnan(np.asarray(table.lift)).all():
        text += f" No lift is given, as the {level(table.level)} interval of the control's mean includes 0."
    return text


def _why_not_simulated(analysis: "Analysis") -> str:
    """Why no test was simulated with the policy."""
    if analysis.fit is None:
        return "as the policy is not known"
    if not analysis.fit.fits:
        return "as the log does not fit the policy"
    if "test_inversion" in analysis.comparison.reasons:
        return "as test_inversion does not apply"
    return "as test_inversion was not run; with it, tests are simulated with the policy, and intervals are narrower"


def _best(analysis: "Analysis", found: "Decisions") -> str:
    """The arms that may be the best, and how likely they are."""
    if found.best_probability is None:
        return ""
    order = np.argsort(-found.best_probability, kind="stable")[:3]  # those that are not numbers last
    known = [arm for arm in order if np.isfinite(found.best_probability[arm])]
    likely = join([f"{quote(analysis.labels[arm])} {percent(float(found.best_probability[arm]))}" for arm in known])
    pulled = int(np.sum(np.asarray(analysis.log.history.statistics.pulls) > 0))
    best = "best arm" if pulled == len(analysis.labels) else "best of the arms that were pulled"
    text = f"The probability to be the {best}, given the log: {likely}."
    kept = _may_be_best(analysis)
    if kept is None:
        return text
    if len(kept) == pulled:
        return f"{text} No arm can be ruled out."
    which = "is" if len(kept) == 1 else "is among"
    return f"{text} With {level(analysis.comparison.level)} confidence the {best} {which} {name_some(kept)}."


def _may_be_best(analysis: "Analysis") -> list[str] | None:
    """The labels of the arms that are not ruled out; None where no tests could be simulated."""
    if analysis.best is None or analysis.decisions is None or analysis.decisions.ahead is None:
        return None
    return [analysis.labels[arm] for arm in sorted({analysis.best.arm, *analysis.best.rivals})]


def _earned(found: "Decisions") -> str:
    """What the policy earned, beside uniform allocation and the best arm."""
    value = found.value
    if value is None:
        return ""
    half = (value.over_uniform_upper - value.over_uniform_lower) / 4
    more = f"{number(value.over_uniform, half)} {interval(value.over_uniform_lower, value.over_uniform_upper, half)}"
    text = f"The policy earned {number(value.earned, half)} a step; that is {more} more than with all arms alike"
    if np.isfinite(value.under_best):
        less = f"{number(value.under_best, half)} {interval(value.under_best_lower, value.under_best_upper, half)}"
        text += f", and {less} less than with the best arm alone"
    return f"{text}."


def _percent(share: float) -> str:
    """A lift in percent, without decimals where it is more than twofold."""
    return f"{100 * share:.0f}%" if abs(share) >= 1 else f"{100 * share:.1f}%"


def signed_lift(share: float) -> str:
    """Such as +45.2% or +188%; a dash where there is none."""
    return NONE if np.isnan(share) else ("+" if share >= 0 else "") + _percent(share)


def contrast_rows(analysis: "Analysis") -> list[dict[str, Any]]:
    """One row for each arm but the control."""
    found = analysis.decisions
    if found is None or found.contrasts is None:
        return []
    table, rows = found.contrasts, []
    for arm in range(len(analysis.labels)):
        if arm == found.control:
            continue
        values = {name: float(np.asarray(getattr(table, name))[arm]) for name in (*FIGURES, "stderr")}
        known = not np.isnan(values["difference"])
        lift = signed_lift(values["lift"])
        ends = "" if np.isnan(values["lift"]) else f"[{_percent(values['lift_lower'])}, {_percent(values['lift_upper'])}]"
        chance = lambda name, values=values: NONE if np.isnan(values[name]) else probability(values[name])
        rows.append(
            {
                "arm": arm,
                "difference": figure(values["difference"], values["stderr"]),
                "ends": interval(values["lower"], values["upper"], values["stderr"]) if known else "",
                "lift": lift,
                "lift_ends": ends,
                "p_value": chance("p_value"),
                "p_adjusted": chance("p_adjusted"),
            }
        )
    return rows


def contrasts_document(analysis: "Analysis") -> list[dict[str, Any]]:
    """The figures by name, with the labels of the arms."""
    found = analysis.decisions
    if found is None or found.contrasts is None or found.control is None:
        return []
    labels, table = analysis.labels, found.contrasts
    return [
        {"arm": label, "control": labels[found.control], **{name: np.asarray(getattr(table, name))[arm] for name in FIGURES}}
        for arm, label in enumerate(labels)
        if arm != found.control
    ]


def decisions_document(analysis: "Analysis") -> dict[str, Any]:
    """The other figures by name."""
    found = analysis.decisions
    if found is None:
        return {"best_probability": None, "may_be_best": None, "value": None}
    probabilities = None if found.best_probability is None else dict(zip(analysis.labels, found.best_probability, strict=True))
    return {
        "best_probability": probabilities,
        "may_be_best": _may_be_best(analysis),
        "value": found.value and found.value._asdict(),
    }
