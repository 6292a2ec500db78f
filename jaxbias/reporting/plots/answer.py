"""The one picture of an analysis: the recommended estimates with their intervals, and the raw means."""

from typing import TYPE_CHECKING, Any

import numpy as np

from jaxbias.analysis.findings import Analysis
from jaxbias.reporting.extremes import shown_arms
from jaxbias.reporting.formatting import level
from jaxbias.reporting.labels import short_names
from jaxbias.reporting.plots.canvas import DASHED, MUTED, SERIES, arm_axis, drawing, new_figure, segments

if TYPE_CHECKING:
    import matplotlib.figure

ROW = 24  # points
LEGEND = 40  # points above and below the rows, for the legend and the axis
WIDE = 1.5  # spans of the means by which an interval may go beyond them on the axis, so that the others can still be read


def plot_answer(analysis: Analysis) -> "matplotlib.figure.Figure":
    """Draws the recommended estimate of each arm with its interval, and the raw mean beside it.

    Arguments:
        analysis: from `debias`; if it has more than 20 arms, the best and the worst are drawn, as in the table of the report.

    >>> import jax, jaxbias as jb
    >>> log, policy, family = jb.examples.load_example("ecmo").load()
    >>> found = jb.debias(jax.random.key(0), log, policy, family, methods=["sample_mean"], evaluate=False)
    >>> plot_answer(found).axes[0].get_xlabel()
    'mean reward'
    """
    arms = np.array(shown_arms(analysis))
    names = short_names(analysis.labels, len(analysis.labels))
    mean, lower, upper = (
        np.asarray(part, np.float64)[arms] for part in (analysis.estimate.mean, analysis.estimate.lower, analysis.estimate.upper)
    )
    places, raw = np.arange(len(arms), dtype=float), raw_means(analysis)[arms]
    with drawing():
        figure = new_figure(2 * LEGEND + ROW * len(arms))
        axes = figure.subplots()
        arm_axis(axes, [names[arm] for arm in arms], places, 1.0)
        axes.set_xlim(*_limits(mean, raw, lower, upper))
        ends = level(analysis.comparison.level)
        axes.plot(*segments(places, lower, upper), color=SERIES[0], linewidth=2.5, solid_capstyle="butt", gid="interval")
        axes.plot(mean, places, marker="o", markersize=6, color=SERIES[0], linestyle="", zorder=3, gid="estimate")
        axes.plot([], [], marker="o", markersize=6, color=SERIES[0], linewidth=2.5, label=f"estimate, {ends} interval")
        ring: Any = {"linestyle": "", "marker": "o", "markersize": 9, "color": MUTED, "markerfacecolor": "none"}
        axes.plot(raw, places, **ring, markeredgewidth=1.2, label="raw mean", gid="raw mean", zorder=4)
        _draw_control(axes, analysis)
        axes.set_xlabel("mean reward")
        figure.legend(loc="outside upper left", ncols=3, handlelength=1.8, columnspacing=1.2, borderpad=0)
    return figure


def _draw_control(axes: Any, analysis: Analysis) -> None:
    """A line at the estimate of the control, where there is one."""
    control = analysis.decisions and analysis.decisions.control
    if control is not None:
        at = float(analysis.estimate.mean[control])
        axes.axvline(at, color=MUTED, linewidth=1, linestyle=DASHED, label="control", gid="control", zorder=1)


def _limits(mean: np.ndarray, raw: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> tuple[float, float]:
    """The range of the axis: every mean, and intervals that are not much wider than the range of the means."""
    known = np.concatenate([mean, raw])
    known = known[np.isfinite(known)]
    low, high = (known.min(), known.max()) if len(known) else (0.0, 1.0)
    widths = (upper - lower)[np.isfinite(upper - lower)]
    reach = WIDE * max(high - low, float(np.median(widths)) if len(widths) else 0.0)
    low = np.nanmin([low, *np.maximum(np.where(np.isfinite(lower), lower, np.nan), low - reach)])
    high = np.nanmax([high, *np.minimum(np.where(np.isfinite(upper), upper, np.nan), high + reach)])
    margin = 0.06 * (high - low) or 0.5
    return float(low - margin), float(high + margin)


def raw_means(analysis: Analysis) -> np.ndarray:
    """The sample mean of each arm, also where that method was not asked for; not a number for an arm that was never pulled."""
    if "sample_mean" in analysis.comparison.estimates:
        return np.asarray(analysis.comparison.estimates["sample_mean"].mean, np.float64)
    arms, rewards = np.asarray(analysis.log.history.arms), np.asarray(analysis.log.history.rewards, np.float64)
    means = [rewards[arms == arm].mean() if np.any(arms == arm) else np.nan for arm in range(len(analysis.labels))]
    return np.array(means)
