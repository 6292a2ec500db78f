"""The sample means over the steps, and which arms were chosen when."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxbias.estimators.estimate import Estimate
from jaxbias.history import History
from jaxbias.reporting.labels import short_names
from jaxbias.reporting.plots.canvas import (
    DASHED,
    GRID,
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

POINTS = 300  # of a line, at most: about as many as it has points of width; each is a step, so two corners
EVERY = 300  # steps up to which every choice is drawn; of a longer log, the share of each arm in windows
WINDOWS = 80
LEAST = 0.12  # of a row's height: what the smallest share is drawn as, to be seen at all
ROW = 13  # points of height of an arm's choices


def plot_running_means(
    history: History, labels: Sequence[str] | None = None, *, estimate: Estimate | None = None
) -> "matplotlib.figure.Figure":
    """Draws the sample mean of each arm over the steps, and below it which arms were chosen when.

    Arguments:
        history: one log of any length; the 30 most pulled arms are drawn, and the eight most pulled in colour.
        labels: the labels of the arms.
        estimate: drawn at the right with its intervals, if it is given.

    >>> import jax, jaxbias as jb
    >>> history = jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.75], num_steps=16)
    >>> [axes.get_ylabel() for axes in plot_running_means(history).axes]
    ['sample mean so far', '']
    """
    check_one_log(np.shape(history.arms), "history", "arms")
    chosen, rewards = np.asarray(history.arms), np.asarray(history.rewards, np.float64)
    pulls = np.bincount(chosen, minlength=history.num_arms)
    ends = None if history.order_known else np.cumsum(history.batch_sizes or ())  # of counts, only what was there after a period
    names, (arms, left_out) = short_names(labels, history.num_arms), foremost(pulls)
    looks = _looks(arms, pulls)
    with drawing():
        figure = new_figure(230 + ROW * len(arms))
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[180, ROW * len(arms)])
        for arm in arms:
            _draw_mean(above, np.flatnonzero(chosen == arm), rewards, {**looks[arm], "gid": f"arm {arm}"}, ends)
        if estimate is not None:
            _draw_estimate(above, estimate, [arm for arm, look in looks.items() if look["color"] != MUTED], looks, len(chosen))
        arm_axis(below, [names[arm] for arm in arms], np.arange(len(arms), dtype=float), 1.0)
        _draw_choices(below, chosen, arms, looks, ends)
        above.set_ylabel("sample mean so far")
        above.grid(axis="y")
        below.grid(visible=False)
        ticks = below.xaxis.get_major_locator().tick_values(1, len(chosen))
        below.set_xticks(sorted({max(int(tick), 1) for tick in ticks if tick <= len(chosen)}))  # no step 0, none after the last
        below.set_xlabel(f"step{left_out}")
    return figure


def _looks(arms: np.ndarray, pulls: np.ndarray) -> dict[int, dict[str, Any]]:
    """Colours for the most pulled arms, half of them dashed; grey for the others."""
    looks = {int(arm): {"color": MUTED, "linewidth": 0.8, "alpha": 0.5} for arm in arms}
    most = np.sort(arms[np.argsort(-pulls[arms], kind="stable")[: len(SERIES)]])
    for place, arm in enumerate(most):
        dashes = DASHED if place >= len(SERIES) // 2 else "-"
        looks[int(arm)] = {"color": SERIES[place], "linewidth": 1.5, "linestyle": dashes}
    return looks


def _draw_mean(axes: Any, steps: np.ndarray, rewards: np.ndarray, look: dict[str, Any], ends: np.ndarray | None) -> None:
    """Draws a line that changes where its arm was pulled, or after each period, and continues to the end."""
    if not len(steps):
        return
    means = np.cumsum(rewards[steps]) / np.arange(1, len(steps) + 1)
    start = {"drawstyle": "steps-post", "marker": ".", "markersize": 3, "markevery": [0]}  # one pull alone is a point
    kept = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), POINTS)).round().astype(int))
    if ends is not None:
        pulled = np.searchsorted(steps, ends)
        ends, kept = ends[pulled > 0], pulled[pulled > 0] - 1
    at = steps[kept] + 1 if ends is None else ends  # steps are counted from 1
    axes.plot(np.append(at, len(rewards)), np.append(means[kept], means[-1]), **start, **look)


def _draw_estimate(axes: Any, estimate: Estimate, arms: list[int], looks: dict[int, dict[str, Any]], steps: int) -> None:
    """Draws the estimates to the right of the last step; for wide intervals the axis grows by at most half on each side."""
    mean, lower, upper = (np.asarray(part, np.float64)[arms] for part in (estimate.mean, estimate.lower, estimate.upper))
    low, high = axes.get_ylim()
    low, high = np.nanmin([low, *mean]), np.nanmax([high, *mean])
    margin = (high - low) / 2
    low, high = np.nanmin([low, *np.maximum(lower, low - margin)]), np.nanmax([high, *np.minimum(upper, high + margin)])
    axes.set_ylim(low - 0.03 * margin, high + 0.03 * margin)
    for place, arm in enumerate(arms):
        where, colour = [steps * (1.03 + 0.025 * place)], looks[arm]["color"]
        ends = np.clip([lower[place], upper[place]], low - margin, high + margin)
        axes.plot(where * 2, ends, color=colour, linewidth=1.3, gid=f"interval {arm}")
        face = colour if bool(np.asarray(estimate.converged)[arm]) else PAPER
        look = {"marker": "D", "markersize": 4.5, "markeredgecolor": colour, "markerfacecolor": face}
        axes.plot(where, mean[[place]], linestyle="", **look, gid=f"estimate {arm}")
    axes.axvline(steps * 1.01, color=GRID, linewidth=0.8)
    axes.text(steps * (1.03 + 0.0125 * (len(arms) - 1)), 1.02, "estimate", transform=axes.get_xaxis_transform(), ha="center")


def _draw_choices(
    axes: Any, chosen: np.ndarray, arms: np.ndarray, looks: dict[int, dict[str, Any]], ends: np.ndarray | None
) -> None:
    """Draws a stroke for every choice; for a long log, or counts, the filled height of a window is the share of the arm in it."""
    edges = np.unique(np.linspace(0, len(chosen), WINDOWS + 1).round().astype(int)) if ends is None else np.append(0, ends)
    for row, (arm, tick) in enumerate(zip(arms, axes.get_yticklabels(), strict=True)):
        tick.set_color(looks[arm]["color"])
        steps = np.flatnonzero(chosen == arm)
        if len(chosen) <= EVERY and ends is None:
            across, along = segments(steps + 1.0, np.full(len(steps), row - 0.38), np.full(len(steps), row + 0.38))
            width = float(np.clip(230 / len(chosen), 0.6, 3))
            axes.plot(along, across, color=looks[arm]["color"], linewidth=width, solid_capstyle="butt", gid=f"choices {arm}")
        else:
            share = np.histogram(steps, edges)[0] / np.diff(edges)
            height = np.where(share > 0, np.maximum(share, LEAST), 0)
            look = {"color": looks[arm]["color"], "fill": True, "gid": f"choices {arm}"}
            axes.stairs(row + 0.42 - 0.84 * height, edges + 1, baseline=row + 0.42, **look)
