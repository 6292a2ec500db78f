"""Differences of arms with their intervals, and 0."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from jaxbias.analysis.findings import Analysis
from jaxbias.estimators.contrasts import Contrasts
from jaxbias.reporting.labels import short_names
from jaxbias.reporting.plots.accepting import part_of
from jaxbias.reporting.plots.canvas import (
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

ROW = 22  # points


def plot_contrasts(contrasts: Contrasts | Analysis, labels: Sequence[str] | None = None) -> "matplotlib.figure.Figure":
    """Draws the difference of every arm to its control with its interval; filled where the adjusted p-value is small.

    Arguments:
        contrasts: of one log, or an analysis with a control; of more than 30, those with the largest differences are drawn.
        labels: the labels of the arms; by default those of the analysis.

    >>> import jax, jaxbias as jb
    >>> history = jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.75], num_steps=16)
    >>> found = jb.contrasts(jax.random.key(1), history, jb.Greedy(), jb.Normal(), num_paths=256)
    >>> plot_contrasts(found, ["red", "blue"]).axes[0].get_xlabel()
    'difference to red'
    """
    contrasts, labels = part_of(contrasts, "contrasts", Contrasts, labels, inside="decisions")
    check_one_log(np.shape(contrasts.difference), "contrasts", "difference")
    arms, controls = np.asarray(contrasts.arm), np.asarray(contrasts.control)
    there = np.flatnonzero(arms != controls)
    names = short_names(labels, int(max(arms.max(), controls.max())) + 1)
    few, left_out = foremost(np.nan_to_num(np.abs(np.asarray(contrasts.difference, np.float64)[there]), nan=-1.0))
    chosen = there[few]
    figures = (contrasts.difference, contrasts.lower, contrasts.upper, contrasts.p_adjusted)
    value, low, high, p_adjusted = (np.asarray(part, np.float64)[chosen] for part in figures)
    one = len(set(controls.tolist())) == 1
    against = {True: "the best of the others", False: names[max(int(controls[0]), 0)]}[bool(controls[0] < 0)]
    words = [names[arms[place]] if one else f"{names[arms[place]]} - {names[controls[place]]}" for place in chosen]
    places = np.arange(len(chosen), dtype=float)
    with drawing():
        figure = new_figure(56 + ROW * len(chosen))
        axes = figure.subplots()
        arm_axis(axes, words, places, 1.0)
        axes.axvline(0, color=MUTED, linewidth=1.4, gid="zero")
        axes.plot(*segments(places, low, high), color=SERIES[0], linewidth=2.2, gid="interval")
        clear = p_adjusted < 1 - contrasts.level
        for which, face in ((clear, SERIES[0]), (~clear, PAPER)):
            look = {"linestyle": "", "marker": "o", "markersize": 6, "color": SERIES[0], "markerfacecolor": face}
            axes.plot(value[which], places[which], **look)
        axes.set_xlabel(f"difference to {against}{left_out}" if one else f"difference{left_out}")
        axes.margins(x=0.08)
    return figure
