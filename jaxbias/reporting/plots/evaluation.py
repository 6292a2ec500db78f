"""How methods do in an evaluation: bias of each arm, error relative to the sample mean's, coverage."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxbias.analysis.findings import Analysis
from jaxbias.evaluation.figures import THIRDS, Evaluation
from jaxbias.reporting.labels import short_names
from jaxbias.reporting.plots.accepting import part_of
from jaxbias.reporting.plots.canvas import MUTED, PAPER, arm_axis, drawing, foremost, new_figure, segments
from jaxbias.reporting.plots.estimates import mark_of

if TYPE_CHECKING:
    import matplotlib.figure

ERRORS = 2.0  # Monte Carlo standard errors to each side: a line that does not reach a value is evidence against it
PITCH, ROW, HEAD = 9.0, 17.0, 44.0  # points: of a method within an arm, of a method alone, and of the title and axis of a panel
LEGEND = 13  # points of a row of two methods
THIRD_MARKS = ("<", "|", ">")  # few, middle, many pulls


def plot_evaluation(evaluation: Evaluation | Analysis, labels: Sequence[str] | None = None) -> "matplotlib.figure.Figure":
    """Draws the bias of every method and arm, the root mean squared error over that of the sample mean, and the coverage.

    Lines are two Monte Carlo standard errors to each side.

    Arguments:
        evaluation: from `evaluate`, or an analysis; if it has more than 30 arms, those that are pulled most are drawn.
        labels: the labels of the arms; by default those of the analysis.

    >>> import jax, jaxbias as jb
    >>> found = jb.evaluate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.75], 16, methods=["sample_mean"], num_trials=50)
    >>> [axes.get_xlabel() for axes in plot_evaluation(found).axes]
    ['bias', "percent of the sample mean's error", 'percent of intervals']
    """
    evaluation, labels = part_of(evaluation, "evaluation", Evaluation, labels)
    names, methods = short_names(labels, len(evaluation.mean)), list(evaluation.methods)
    arms, left_out = foremost(np.asarray(evaluation.pulls))
    group = len(methods) * PITCH + 8
    heights = [HEAD + group * len(arms), HEAD + ROW * len(methods), HEAD + ROW * len(methods)]
    with drawing():
        figure = new_figure(sum(heights) + LEGEND * (len(methods) // 2 + 1))
        bias, error, coverage = figure.subplots(3, 1, height_ratios=heights)
        _draw_bias(bias, evaluation, [names[arm] for arm in arms], arms, group)
        bias.set(title="Bias of each arm", xlabel=f"bias{left_out}")
        _draw_errors(error, evaluation)
        error.set(title="Root mean squared error: < few, | middle, > many pulls", xlabel="percent of the sample mean's error")
        _draw_coverage(coverage, evaluation)
        coverage.set(title=f"Coverage of {100 * evaluation.level:g}% intervals", xlabel="percent of intervals")
        handles = [bias.plot([], [], linestyle="", label=method, **_look(method))[0] for method in methods]
        figure.legend(handles=handles, loc="outside upper left", ncols=2, handlelength=1.8, columnspacing=1.2, borderpad=0)
    return figure


def _look(method: str) -> dict[str, Any]:
    mark, colour = mark_of(method)
    return {"marker": mark, "markersize": 6, "color": colour, "markeredgecolor": PAPER, "markeredgewidth": 0.6}


def _draw_points(axes: Any, method: str, values: np.ndarray, errors: np.ndarray, places: np.ndarray, word: str) -> None:
    """Figures with their Monte Carlo errors."""
    off = ERRORS * np.nan_to_num(errors)
    axes.plot(*segments(places, values - off, values + off), color=_look(method)["color"], linewidth=1.4)
    axes.plot(values, places, linestyle="", gid=f"{word} {method}", **_look(method))


def _draw_bias(axes: Any, evaluation: Evaluation, names: list[str], arms: np.ndarray, group: float) -> None:
    tops = group * np.arange(len(arms))
    arm_axis(axes, names, tops + group / 2, group)
    axes.axvline(0, color=MUTED, linewidth=1.2)
    for row, (method, figures) in enumerate(evaluation.methods.items()):
        places = tops + PITCH * (row + 0.5) + 4
        _draw_points(axes, method, figures.bias[arms], figures.bias_stderr[arms], places, "bias")


def _method_axis(axes: Any, methods: Sequence[str], at: float) -> np.ndarray:
    places = np.arange(len(methods), dtype=float)
    arm_axis(axes, list(methods), places, 1.0)
    axes.axvline(at, color=MUTED, linewidth=1.2)
    return places


def _draw_errors(axes: Any, evaluation: Evaluation) -> None:
    places = _method_axis(axes, list(evaluation.methods), 100.0)
    for place, (method, figures) in zip(places, evaluation.methods.items(), strict=True):
        at = np.array([place])
        for mark, third, value in zip(THIRD_MARKS, THIRDS, figures.relative_rmse_by_pulls, strict=True):
            look = {"marker": mark, "markersize": 6, "color": _look(method)["color"], "markerfacecolor": PAPER}
            axes.plot([100 * value], at, linestyle="", gid=f"{third} {method}", **look)
        share, error = (np.array([100 * one]) for one in (figures.relative_rmse, figures.relative_rmse_stderr))
        _draw_points(axes, method, share, error, at, "error")


def _draw_coverage(axes: Any, evaluation: Evaluation) -> None:
    places = _method_axis(axes, list(evaluation.methods), 100 * evaluation.level)
    for place, (method, figures) in zip(places, evaluation.methods.items(), strict=True):
        share, error = (np.array([100 * one]) for one in (figures.average_coverage, figures.average_coverage_stderr))
        _draw_points(axes, method, share, error, np.array([place]), "coverage")
