"""What stands beside each question of the report while its evidence is folded: the answer in a few words."""

import numpy as np

from jaxbias.analysis.findings import Analysis
from jaxbias.policy_fit.check import Verdict
from jaxbias.reporting.decisions import compare_with_control
from jaxbias.reporting.drift import ALARM
from jaxbias.reporting.formatting import number, p_value, percent


def short_answers(analysis: Analysis) -> dict[str, str]:
    """By the name that the template has for each."""
    return {
        "fit_short": _fit(analysis),
        "ratio_short": _ratio(analysis),
        "evaluation_short": _evaluation(analysis),
        "contrasts_short": _contrasts(analysis),
        "bias_short": _bias(analysis),
        "moving_short": _moving(analysis),
        "drift_short": "" if analysis.drift is None else _drift(analysis.drift.overall),
        "converged_short": _converged(analysis),
    }


def _fit(analysis: Analysis) -> str:
    fit = analysis.fit
    if fit is None:
        return "Not known: no policy was given"
    if fit.verdict == Verdict.NOTHING_TO_CHECK:
        return "Not known: every pull was forced"
    if fit.verdict == Verdict.IMPOSSIBLE:
        return "No: it never makes some of these choices"
    word = "Unusual" if fit.doubtful else "Yes" if fit.fits else "No"
    return f"{word} ({p_value(fit.p_value if word == 'Yes' else min(fit.p_value, fit.calibration_p_value))})"


def _ratio(analysis: Analysis) -> str:
    ratio = None if analysis.weights is None else analysis.weights.ratio
    if ratio is None or ratio.worst is None:
        return ""
    return f"{'Yes' if ratio.agrees else 'No'} ({p_value(ratio.p_value)})"


def _evaluation(analysis: Analysis) -> str:
    found = analysis.recommended.evaluated
    if found is None:
        return "Not measured"
    if analysis.recommended.method == "sample_mean":
        return "No method was better than the raw means"
    return f"{analysis.recommended.method} has {found.error / found.naive_error:.0%} of the raw means' error"


def _contrasts(analysis: Analysis) -> str:
    words = ("better", "worse", "not shown to differ")
    counts = zip(compare_with_control(analysis), words, strict=True)
    return ", ".join(f"{len(arms)} {word}" for arms, word in counts if arms)


def _bias(analysis: Analysis) -> str:
    if analysis.bias is None:
        return "Not estimated"
    bias = np.asarray(analysis.bias.bias, np.float64)
    if np.isnan(bias).all():
        return "Not estimated"
    arm = int(np.nanargmax(np.abs(bias)))
    word = "low" if bias[arm] < 0 else "high"
    return f"Too {word} by {number(abs(bias[arm]), analysis.estimate.stderr[arm])} at most, on average"


def _moving(analysis: Analysis) -> str:
    carried = 0 if analysis.influence is None else len(analysis.influence.carried)
    return f"One row carries {carried} of the estimates" if carried else "No row carries an estimate alone"


def _drift(chance: float) -> str:
    return f"{'No clear sign' if chance > ALARM else 'Yes'} ({p_value(chance)})"


def _converged(analysis: Analysis) -> str:
    estimates = analysis.comparison.estimates.values()
    share = np.mean([np.asarray(estimate.converged, bool) for estimate in estimates])
    return "Yes" if share == 1 else f"{percent(float(share))} of the estimates did"
