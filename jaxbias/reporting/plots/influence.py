"""How far each row of a log has moved an estimate."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jax.typing import ArrayLike

from jaxbias._core.errors import ArgumentError
from jaxbias.analysis.influence import row_shifts
from jaxbias.estimators.estimate import Estimate
from jaxbias.history import History
from jaxbias.reporting.labels import short_names
from jaxbias.reporting.plots.canvas import DASHED, GRID, MUTED, SERIES, check_one_log, drawing, foremost, new_figure, segments

if TYPE_CHECKING:
    import matplotlib.figure

ROW = 46  # points of height of an arm's strip
MOST_STROKES = 600  # of one arm, the largest: more than the picture has points of width


def plot_influence(
    influence: ArrayLike, history: History, estimate: Estimate, labels: Sequence[str] | None = None
) -> "matplotlib.figure.Figure":
    """Draws for each arm how far the rows of the log have moved its estimate, in its standard errors.

    A stroke is a row: how far the estimate is from what it would be with the average of the other rows of that row's arm in its
    place. It is thick for rows of the arm itself, and thin for those of other arms.

    Arguments:
        influence: (arms, steps), from `influence`.
        history: the log it is of; if it has more than 30 arms, the most pulled are drawn.
        estimate: whose standard errors are the unit.
        labels: the labels of the arms.

    >>> import jax, jaxbias as jb
    >>> history = jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.75], num_steps=16)
    >>> estimate = jb.sample_mean(history, jb.Normal())
    >>> moved = jb.influence(jax.random.key(1), history, None, jb.Normal(), "sample_mean")
    >>> len(plot_influence(moved, history, estimate).axes)
    2
    """
    check_one_log(np.shape(history.arms), "history", "arms")
    chosen, rewards = np.asarray(history.arms), np.asarray(history.rewards, np.float64)
    moved, stderr = np.asarray(influence, np.float64), np.asarray(estimate.stderr, np.float64)
    if moved.shape != (history.num_arms, len(chosen)):
        allowed = f"of shape {(history.num_arms, len(chosen))}, one for each arm and step"
        raise ArgumentError("influence", moved, allowed, problem=f"has shape {moved.shape}")
    errors = np.nan_to_num(row_shifts(moved, chosen, rewards) / np.where(stderr > 0, stderr, np.nan)[:, None])
    arms, left_out = foremost(np.bincount(chosen, minlength=history.num_arms))
    names, far = short_names(labels, history.num_arms), 1.08 * max(float(np.abs(errors[arms]).max()), 1.0)
    with drawing():
        figure = new_figure(60 + ROW * len(arms))
        strips = figure.subplots(len(arms), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for arm, axes in zip(arms, strips, strict=True):
            _draw(axes, errors[arm], chosen == arm)
            axes.set(ylim=(-far, far), xlim=(0, len(chosen) + 1))
            axes.set_ylabel(names[arm], rotation=0, ha="right", va="center")
        strips[-1].set_xlabel(f"step{left_out}")
        strips[-1].locator_params(axis="x", integer=True)
        strips[0].set_title("shift by each row, in standard errors")
    return figure


def _draw(axes: Any, errors: np.ndarray, own: np.ndarray) -> None:
    """One arm: a stroke for each row, and lines at one standard error."""
    for place in (-1, 1):
        axes.axhline(place, color=MUTED, linewidth=0.7, linestyle=DASHED)
    axes.axhline(0, color=GRID, linewidth=0.8)
    thin = {"color": MUTED, "linewidth": 0.7, "alpha": 0.6, "gid": "others"}
    for which, look in ((~own, thin), (own, {"color": SERIES[0], "linewidth": 1.8, "gid": "own"})):
        steps = np.flatnonzero(which & (errors != 0))
        steps = np.sort(steps[np.argsort(-np.abs(errors[steps]), kind="stable")[:MOST_STROKES]])
        ends, places = segments(steps + 1.0, np.zeros(len(steps)), errors[steps])
        axes.plot(places, ends, solid_capstyle="butt", **look)
