"""Every method's estimate of every arm, with its interval."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jax.typing import ArrayLike

from jaxbias.analysis.findings import Analysis
from jaxbias.estimators.compare import Comparison
from jaxbias.estimators.estimate import Estimate
from jaxbias.estimators.registry import METHODS
from jaxbias.reporting.formatting import count_pulls
from jaxbias.reporting.labels import short_names
from jaxbias.reporting.plots.accepting import comparison_of
from jaxbias.reporting.plots.canvas import (
    DASHED,
    INK,
    MUTED,
    PAPER,
    SERIES,
    arm_axis,
    check_one_log,
    drawing,
    foremost,
    new_figure,
    segments,
)

if TYPE_CHECKING:
    import matplotlib.figure

# Markers and colours that distinguish the methods, in the order of the registry. A new method gets the next ones.
METHOD_MARKERS = ("o", "P", "v", "^", "D", "s", "p", "X", "h", "*", "d", "H", "<", ">")
METHOD_COLOURS = tuple(SERIES[place] for place in (1, 4, 3, 2, 5, 0, 7, 6, 8, 9, 10, 11))
PITCH = (5.0, 11.0)  # points from one line to the next: at least, at most
HEIGHT = 700  # points that the lines share, where they are many: what a page of paper has


def mark_of(method: str) -> tuple[str, str]:
    """The marker and the colour of a method; methods that are not in the registry share one."""
    place = list(METHODS).index(method) if method in METHODS else len(METHODS)
    return METHOD_MARKERS[place % len(METHOD_MARKERS)], METHOD_COLOURS[place % len(METHOD_COLOURS)]


def plot_estimates(
    comparison: Comparison | Analysis | Estimate,
    labels: Sequence[str] | None = None,
    *,
    recommended: str | None = None,
    truth: ArrayLike | Sequence[float] | None = None,
) -> "matplotlib.figure.Figure":
    """Draws every estimate of every arm with its interval; hollow where it is not to be believed.

    Arguments:
        comparison: of one log, an analysis of it, or one estimate; if it has more than 30 arms, the most pulled are drawn.
        labels: the labels of the arms; by default those of the analysis.
        recommended: the method that is drawn first and thick; by default that of the analysis.
        truth: (arms,), the true means, where they are known.

    >>> import jax, jaxbias as jb
    >>> history = jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.75], num_steps=16)
    >>> comparison = jb.compare(jax.random.key(1), history, None, jb.Normal())
    >>> figure = plot_estimates(comparison, ["red", "blue"], recommended="sample_mean")
    >>> figure.axes[0].get_xlabel()
    'mean reward'
    """
    comparison, labels, chosen = comparison_of(comparison, labels)
    recommended = recommended or chosen
    check_one_log(np.shape(comparison.pulls), "comparison", "pulls")
    pulls = np.asarray(comparison.pulls)
    names = short_names(labels, len(pulls))
    arms, left_out = foremost(pulls)
    methods = sorted(comparison.estimates, key=lambda method: method != recommended)
    ends = {method: _ends(comparison.estimates[method], arms) for method in methods}
    pitch = float(np.clip(HEIGHT / (len(arms) * len(methods)), *PITCH))
    group = len(methods) * pitch + 8
    words = [f"{names[arm]}\n{count_pulls(pulls[arm])}" if group > 24 and pulls.any() else names[arm] for arm in arms]
    with drawing():
        figure = new_figure(len(arms) * group + 60 + 13 * (len(methods) // 2 + 1))
        axes, tops = figure.subplots(), group * np.arange(len(arms))
        arm_axis(axes, words, tops + group / 2, group)
        axes.set(xlim=_limits(list(ends.values()), recommended in methods), xlabel=f"mean reward{left_out}")
        for row, method in enumerate(methods):
            believed = np.asarray(comparison.estimates[method].converged)[arms]
            _draw(axes, method, tops + pitch * (row + 0.5) + 4, ends[method], believed, thick=method == recommended)
        _draw_the_rest(axes, tops, group, list(ends.values()), None if truth is None else np.asarray(truth, np.float64)[arms])
        _add_legend(figure, axes, methods, recommended, comparison, truth is not None)
    return figure


def _ends(estimate: Estimate, arms: np.ndarray) -> np.ndarray:
    """Mean, lower and upper, (3, arms), and none of them where there is no mean."""
    values = np.stack([np.asarray(part, np.float64)[arms] for part in (estimate.mean, estimate.lower, estimate.upper)])
    return np.where(np.isfinite(values[0]), values, np.nan)


def _limits(all_ends: list[np.ndarray], recommended: bool) -> tuple[float, float]:
    """The range of the axis: all intervals of the recommended method, and at most as much again for the others, so that one
    outlier does not shrink all the rest."""
    ends = np.concatenate([part.ravel() for part in all_ends])
    inner = all_ends[0].ravel() if recommended else ends
    inner, ends = inner[np.isfinite(inner)], ends[np.isfinite(ends)]
    if not len(inner):
        return 0.0, 1.0
    margin = (inner.max() - inner.min()) / 2
    low, high = max(inner.min() - margin, ends.min()), min(inner.max() + margin, ends.max())
    edge = 0.04 * (high - low) or max(abs(low), 1.0) / 2
    return float(low - edge), float(high + edge)


def _draw(axes: Any, method: str, places: np.ndarray, ends: np.ndarray, believed: np.ndarray, thick: bool) -> None:
    (mark, colour), (mean, low, high), (left, right) = mark_of(method), ends, axes.get_xlim()
    line = {"color": colour, "linewidth": 2.8 if thick else 1.3, "solid_capstyle": "butt"}
    axes.plot(*segments(places, np.clip(low, left, right), np.clip(high, left, right)), **line, gid=f"interval {method}")
    for here, face, word in ((believed, colour, "believed"), (~believed, PAPER, "doubtful")):
        if np.any(here & np.isfinite(mean)):
            look = {"marker": mark, "markersize": _size(mark, thick), "markerfacecolor": face}
            edge = {"markeredgecolor": PAPER, "markeredgewidth": 0.7} if word == "believed" else {"markeredgecolor": colour}
            axes.plot(mean[here], places[here], linestyle="", **look, **edge, gid=f"{word} {method}")
    for beyond, arrow, limit in ((low < left, "<", left), (high > right, ">", right)):
        if beyond.any():
            look = {"marker": arrow, "markersize": 4, "color": colour, "clip_on": False}
            axes.plot(np.full(beyond.sum(), limit), places[beyond], linestyle="", **look, gid=f"{arrow} {method}")


def _size(mark: str, thick: bool) -> float:
    return (8.5 if thick else 6.5) + (1.0 if mark in "PX" else 0.0)  # crosses have less ink


def _draw_the_rest(axes: Any, tops: np.ndarray, group: float, all_ends: list[np.ndarray], truth: np.ndarray | None) -> None:
    """The arms without any estimate, and the truth."""
    for top in tops[np.all([np.isnan(ends[0]) for ends in all_ends], axis=0)]:
        axes.text(np.mean(axes.get_xlim()), top + group / 2, "no estimate", color=MUTED, ha="center", va="center")
    if truth is not None:
        along, across = segments(truth, tops + 2, tops + group - 2)
        axes.plot(across, along, color=INK, linewidth=1.2, linestyle=DASHED, gid="truth")


def _add_legend(figure: Any, axes: Any, methods: list[str], recommended: str | None, comparison: Comparison, truth: bool) -> None:
    handles = []
    for method in methods:
        (mark, colour), first = mark_of(method), method == recommended
        look = {"marker": mark, "markersize": _size(mark, first), "linewidth": 2.8 if first else 1.3, "color": colour}
        look |= {"markeredgecolor": PAPER, "markeredgewidth": 0.7}
        handles += axes.plot([], [], **look, label=f"{method} (recommended)" if first else method)
    if not all(np.all(comparison.estimates[method].converged) for method in methods):
        hollow = {"marker": "o", "markersize": 5, "color": MUTED, "markerfacecolor": PAPER, "linestyle": ""}
        handles += axes.plot([], [], **hollow, label="hollow: doubtful")
    if truth:
        handles += axes.plot([], [], color=INK, linewidth=1.2, linestyle=DASHED, label="true mean")
    figure.legend(handles=handles, loc="outside upper left", ncols=2, handlelength=1.8, columnspacing=1.2, borderpad=0)
