"""What each result shows of itself, on a terminal and in a notebook. Nothing here needs the extras."""

from functools import singledispatch
from types import SimpleNamespace
from typing import Any

import numpy as np

from jaxbias.analysis.findings import Analysis
from jaxbias.bias.measured import BiasSummary
from jaxbias.estimators.compare import Comparison
from jaxbias.estimators.contrasts import Contrasts
from jaxbias.estimators.estimate import Estimate, Status
from jaxbias.evaluation.figures import THIRDS, Evaluation, MethodFigures
from jaxbias.planning.results import Plan
from jaxbias.reporting.answer import answer_sentence, basis_sentences
from jaxbias.reporting.bias import bias_sentences, source_sentences
from jaxbias.reporting.decisions import signed_lift
from jaxbias.reporting.extremes import describe_rest, shown_arms
from jaxbias.reporting.formatting import NONE, average_count, count, figure, interval, level, number, probability, share_decimals
from jaxbias.reporting.grids import Grid, Shown
from jaxbias.reporting.labels import LONGEST_IN_TABLE, short_names
from jaxbias.reporting.planning import HEADERS, plan_answer, plan_rows, plan_sentences
from jaxbias.reporting.sentences import describe_distrust
from jaxbias.reporting.statuses import WORDS

ERRORS, MONTE_CARLO = "± standard error", "± Monte Carlo standard error"
NO_ESTIMATE = "not estimable"
AVERAGES = ("average_bias", "rms_bias", "average_mse", "average_coverage", "average_width")


@singledispatch
def show(result: Any) -> Shown:
    """The answer, the tables and the notes of a result."""
    raise TypeError(f"{type(result).__name__} has no table of its own")


@show.register
def _(result: Analysis) -> Shown:
    shown, names = shown_arms(result), short_names(result.labels, len(result.labels), LONGEST_IN_TABLE)
    raw, estimate = result.comparison.estimates.get("sample_mean"), result.estimate
    errors, pulls = share_decimals(estimate.stderr), np.asarray(result.comparison.pulls)
    rows = [
        [
            names[arm],
            count(pulls[arm]),
            NONE if raw is None else number(raw.mean[arm], errors[arm]),
            *_estimate_cells(estimate, arm, errors[arm]),
        ]
        for arm in shown
    ]
    header = ["arm", "pulls", "sample mean", "estimate", f"{level(result.comparison.level)} interval"]
    rest = describe_rest(len(names), len(shown), "to_frame()")
    notes = [*(describe_distrust(result) or basis_sentences(result)), rest]
    notes += ["jb.write_report(analysis, 'report.html') writes the evidence; analysis.to_frame() has every method."]
    table = Grid(f"{result.recommended.method} ({ERRORS})", header, rows)
    return Shown(answer_sentence(result), [table], [note for note in notes if note])


@show.register
def _(result: Estimate) -> Shown:
    """Of several logs the averages over them, as each log has a table of its own."""
    logs = np.atleast_2d(result.mean)
    averages = _average(result)
    errors = share_decimals(averages.stderr)
    rows = [[str(arm), *_estimate_cells(averages, arm, errors[arm]), _status(result.status, arm)] for arm in range(logs.shape[1])]
    of_logs = f", averages over {count(len(logs))} logs" if np.ndim(result.mean) == 2 else ""
    return Shown("", [Grid(f"{result.method} ({ERRORS}{of_logs})", ["arm", "estimate", "interval", "status"], rows)])


@show.register
def _(result: Comparison) -> Shown:
    """A row for each method and a column for each arm; of several logs, the averages over them."""
    pulls = np.atleast_2d(result.pulls)
    header = ["", *(f"arm {arm}" for arm in range(pulls.shape[1]))]
    rows = [["pulls", *(f"{one:.10g}" for one in pulls.mean(axis=0))]]
    rows += [[method, *_method_cells(estimate)] for method, estimate in result.estimates.items()]
    of_logs = f", averages over {count(len(pulls))} logs" if np.ndim(result.pulls) == 2 else ""
    title = f"Estimates with {level(result.level)} intervals{of_logs}"
    starred = not all(np.all(estimate.converged) for estimate in result.estimates.values())
    notes = ["* not reliable: see the status of the estimate."] if starred else []
    return Shown("", [Grid(title, header, rows)], notes + _reasons(result.reasons))


@show.register
def _(result: BiasSummary) -> Shown:
    rows = [
        [str(arm), average_count(pulls), figure(bias, error), figure(mse, mse_error)]
        for arm, (pulls, bias, error, mse, mse_error) in enumerate(
            zip(result.pulls, result.bias, result.bias_stderr, result.mse, result.mse_stderr, strict=True)
        )
    ]
    average = figure(result.average_bias, result.average_bias_stderr), figure(result.average_mse, result.average_mse_stderr)
    table = Grid(f"Sample means ({MONTE_CARLO})", ["arm", "average pulls", "bias", "MSE"], [*rows, ["average", "", *average]])
    joint = [[str(low), figure(*one)] for low, one in enumerate(zip(result.joint, result.joint_stderr, strict=True))]
    below = Grid(f"Joint bias ({MONTE_CARLO})", ["arms below their mean", "share of trials"], joint)
    return Shown("", [table, below], [*bias_sentences(result), *source_sentences(result.sources)])


@show.register
def _(result: Evaluation) -> Shown:
    header = ["", "bias", "root mean square bias", "MSE", "coverage", "width", *(f"error, {third} pulls" for third in THIRDS)]
    rows = [[method, *_evaluation_cells(figures)] for method, figures in result.methods.items()]
    notes = ["The error by pulls is the root mean squared error over that of the sample mean."]
    logs = f"{count(result.num_trials)} logs; intervals of {level(result.level)}"
    title = f"Averages over arms, of {logs} ({MONTE_CARLO})"
    return Shown("", [Grid(title, header, rows)], notes + _reasons(result.reasons))


@show.register
def _(result: Contrasts) -> Shown:
    """Of several logs, the averages over them."""
    names = ("difference", "stderr", "lower", "upper", "p_value", "p_adjusted", "lift")
    figures = {name: np.atleast_2d(getattr(result, name)).astype(float).mean(axis=0) for name in names}
    arms, controls = (np.atleast_2d(part)[0].tolist() for part in (result.arm, result.control))
    places = [place for place in range(len(arms)) if arms[place] != controls[place]]
    rows = [
        _contrast_row(str(arms[place]), controls[place], {name: float(figures[name][place]) for name in names})
        for place in places
    ]
    logs = f", averages over {count(np.shape(result.difference)[0])} logs" if np.ndim(result.difference) == 2 else ""
    title = f"Differences ({ERRORS}; p-values adjusted by {result.adjust}{logs})"
    header = ["arm", "against", "difference", f"{level(result.level)} interval", "p", "adjusted", "lift"]
    return Shown("", [Grid(title, header, rows)])


@show.register
def _(result: Plan) -> Shown:
    answer = plan_answer(result)
    notes = [sentence for sentence in plan_sentences(result) if sentence != answer]
    return Shown(answer, [Grid(f"Designs ({MONTE_CARLO})", HEADERS, plan_rows(result))], notes)


def _contrast_row(arm: str, control: int, row: dict[str, float]) -> list[str]:
    chances = [NONE if np.isnan(row[name]) else probability(row[name]) for name in ("p_value", "p_adjusted")]
    against, lift = "best" if control < 0 else str(control), signed_lift(row["lift"])
    ends = interval(row["lower"], row["upper"], row["stderr"])
    return [arm, against, figure(row["difference"], row["stderr"]), ends, *chances, lift]


def _average(estimate: Estimate) -> Any:
    """The figures of an estimate, averaged over its logs."""
    names = ("mean", "stderr", "lower", "upper")
    return SimpleNamespace(**{name: np.atleast_2d(getattr(estimate, name)).astype(float).mean(axis=0) for name in names})


def _estimate_cells(estimate: Any, arm: int, stderr: float) -> list[str]:
    mean, error, lower, upper = (float(getattr(estimate, name)[arm]) for name in ("mean", "stderr", "lower", "upper"))
    return [NO_ESTIMATE, ""] if np.isnan(mean) else [figure(mean, error, stderr), interval(lower, upper, stderr)]


def _status(status: Any, arm: int) -> str:
    found = np.atleast_2d(status)[:, arm]
    wrong = found[(found != Status.CONVERGED) & (found != Status.AT_EDGE)]
    return WORDS[Status(int(found[0]))] if len(found) == 1 else "converged" if not len(wrong) else f"{len(wrong)} not converged"


def _method_cells(estimate: Estimate) -> list[str]:
    averages, doubtful = _average(estimate), ~np.atleast_2d(estimate.converged)
    cells = []
    for arm, mean in enumerate(averages.mean):
        between = interval(averages.lower[arm], averages.upper[arm], averages.stderr[arm])
        mark = "*" if doubtful[:, arm].any() else ""
        cells.append(NO_ESTIMATE if np.isnan(mean) else f"{number(mean, averages.stderr[arm])} {between}{mark}")
    return cells


def _evaluation_cells(figures: MethodFigures) -> list[str]:
    averages = [figure(getattr(figures, name), getattr(figures, f"{name}_stderr")) for name in AVERAGES]
    by_pulls = zip(figures.relative_rmse_by_pulls, figures.relative_rmse_by_pulls_stderr, strict=True)
    return averages + [figure(100 * value, 100 * error, 10.0, unit="%") for value, error in by_pulls]


def _reasons(reasons: dict[str, Any]) -> list[str]:
    return [f"{method} does not apply: {reason}." for method, reason in reasons.items()]
