"""Whether the policy fits the log."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxbias.policy_fit.check import PolicyFit
from jaxbias.reporting.plots.canvas import DASHED, GRID, INK, MUTED, PAPER, SERIES, drawing, new_figure

if TYPE_CHECKING:
    import matplotlib.figure

HEIGHT = 200  # points
BINS = 30
NORMAL = 1.96  # standard errors: a share that the policy explains is within them 19 times in 20


def plot_fit(fit: PolicyFit, labels: Sequence[str] | None = None) -> "matplotlib.figure.Figure":
    """Draws the total log-probability of the log among redrawn choices, and how often an arm of given probability was chosen.

    Arguments:
        fit: from `check_fit`.
        labels: not used; all plots take them.

    >>> import jax, jaxbias as jb
    >>> history = jb.simulate(jax.random.key(0), jb.Greedy(tau=1.0), jb.Normal(), [1.0, 0.0], num_steps=200)
    >>> figure = plot_fit(jb.check_fit(jax.random.key(1), history, jb.Greedy(tau=1.0)))
    >>> [axes.get_xlabel() for axes in figure.axes]
    ['log-probability of all choices', 'probability by the policy']
    """
    del labels
    with drawing():
        figure = new_figure(HEIGHT)
        left, right = figure.subplots(1, 2)
        left.set(title="The log among redraws", xlabel="log-probability of all choices", yticks=[])
        right.set(title="Share that was chosen", xlabel="probability by the policy", xlim=(-0.04, 1.04), ylim=(-0.04, 1.04))
        if fit.choices == 0:
            for axes in (left, right):
                axes.set(xticks=[], yticks=[])
                axes.text(
                    0.5, 0.5, "every pull was forced:\nnothing to check", color=MUTED, transform=axes.transAxes, ha="center"
                )
        else:
            _draw_totals(left, fit)
            _draw_calibration(right, fit)
    return figure


def _draw_totals(axes: Any, fit: PolicyFit) -> None:
    simulated = np.asarray(fit.simulated, np.float64)
    spread = np.ptp(simulated)
    if fit.deviation > 0 and spread > 0:
        axes.hist(simulated, bins=BINS, color=MUTED, alpha=0.45, gid="redraws")
    else:  # nothing is left to chance, so all redraws are the same
        axes.axvline(fit.expected, ymax=0.8, color=MUTED, alpha=0.45, linewidth=8, solid_capstyle="butt", gid="redraws")
        axes.set_xlim(fit.expected - 1, fit.expected + 1)
    at_log = {"color": SERIES[1], "transform": axes.get_xaxis_transform()}
    if np.isfinite(fit.log_prob):
        axes.plot([fit.log_prob] * 2, [0, 0.92], **at_log, linewidth=2, gid="log")
        side = "left" if fit.log_prob < simulated.min() else "right" if fit.log_prob > simulated.max() else "center"
        axes.text(fit.log_prob, 0.94, "the log", **at_log, ha=side)
    else:
        where = {"color": SERIES[1], "transform": axes.transAxes}
        axes.plot([0.02], [0.9], **where, marker="<", markersize=6, linestyle="", gid="log")
        axes.text(0.07, 0.9, "the log: -∞", **where, va="center")
    axes.set_ylim(0, axes.get_ylim()[1] * 1.15)
    axes.locator_params(axis="x", nbins=3 if abs(fit.expected) < 1000 else 2)  # long numbers stand in each other's way


def _draw_calibration(axes: Any, fit: PolicyFit) -> None:
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=DASHED)
    axes.grid(color=GRID)
    predicted, chosen, stderr = (
        np.array([getattr(row, name) for row in fit.calibration]) for name in ("predicted", "chosen", "stderr")
    )
    look = {"color": SERIES[0], "markersize": 4, "linewidth": 1.3, "markeredgecolor": PAPER, "markeredgewidth": 0.5}
    bars = axes.errorbar(predicted, chosen, yerr=NORMAL * stderr, fmt="o", ecolor=SERIES[0], **look)
    bars.lines[0].set_gid("calibration")
    axes.set_xticks([0, 0.5, 1])
    axes.set_yticks([0, 0.5, 1])
    axes.tick_params(labelcolor=INK)
