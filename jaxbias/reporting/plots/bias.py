"""The estimated bias of each arm's sample mean."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from jaxbias.analysis.findings import Analysis
from jaxbias.analysis.signs import CLEAR
from jaxbias.bias.at_given_means import ArmBias
from jaxbias.bias.measured import BiasSummary
from jaxbias.estimators.estimate import Status
from jaxbias.reporting.labels import short_names
from jaxbias.reporting.plots.accepting import bias_of
from jaxbias.reporting.plots.canvas import MUTED, SERIES, arm_axis, drawing, foremost, new_figure, segments
from jaxbias.reporting.statuses import WORDS

if TYPE_CHECKING:
    import matplotlib.figure

ROW = 18  # points


def plot_bias(bias: ArmBias | BiasSummary | Analysis, labels: Sequence[str] | None = None) -> "matplotlib.figure.Figure":
    """Draws the estimated bias of every arm: thick for one, thin for three Monte Carlo standard errors to each side.

    Arguments:
        bias: from `measure_bias` or `bias_at`, or an analysis; of more than 30 arms, those with the largest bias are drawn.
        labels: the labels of the arms; by default those of the analysis.

    >>> import jax, jaxbias as jb
    >>> history = jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.75], num_steps=16)
    >>> found = jb.bias.bias_at(jax.random.key(1), history, jb.Greedy(), jb.Normal(), [1.0, 0.75])
    >>> len(plot_bias(found).axes)
    1
    """
    bias, labels = bias_of(bias, labels)
    names = short_names(labels, len(bias.bias))
    arms, left_out = foremost(np.nan_to_num(np.abs(bias.bias), nan=-1.0))
    value, stderr = bias.bias[arms], np.nan_to_num(bias.stderr[arms])
    places = np.arange(len(arms), dtype=float)
    with drawing():
        figure = new_figure(56 + ROW * len(arms))
        axes = figure.subplots()
        arm_axis(axes, [names[arm] for arm in arms], places, 1.0)
        axes.axvline(0, color=MUTED, linewidth=1.2)
        ends = segments(places, value - CLEAR * stderr, value + CLEAR * stderr)
        axes.plot(*ends, color=SERIES[0], linewidth=1.2, gid="three")
        axes.plot(*segments(places, value - stderr, value + stderr), color=SERIES[0], linewidth=3.5, gid="one")
        for side in (-CLEAR, CLEAR):
            axes.plot(value + side * stderr, places, linestyle="", marker="|", markersize=7, color=SERIES[0])
        axes.plot(value, places, linestyle="", marker="o", markersize=5, color=SERIES[0], gid="bias")
        for place in places[~np.isfinite(value)]:
            axes.text(
                0.5,
                place,
                WORDS[Status.NEVER_PULLED],
                color=MUTED,
                transform=axes.get_yaxis_transform(),
                ha="center",
                va="center",
            )
        axes.set_xlabel(f"estimated bias of the sample mean{left_out}")
        axes.margins(x=0.08)
    return figure
