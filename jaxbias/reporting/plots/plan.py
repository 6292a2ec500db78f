"""What each policy earns against what it teaches: regret per step and the half-width of the interval of a difference."""

from typing import TYPE_CHECKING

import numpy as np

from jaxbias.planning.results import Design, Plan
from jaxbias.reporting.formatting import count
from jaxbias.reporting.plots.canvas import DASHED, MUTED, PAPER, SERIES, drawing, new_figure

if TYPE_CHECKING:
    import matplotlib.figure

HEIGHT = 260  # points
ROW = 14  # points of a row of the legend


def plot_plan(plan: Plan) -> "matplotlib.figure.Figure":
    """Draws a curve for each policy, from its shortest design to its longest; lines are two Monte Carlo standard errors.

    Regret per step is on the horizontal axis, the half-width on the vertical one: the lower left corner earns and teaches.

    Arguments:
        plan: from `plan`.

    >>> import jax, jaxbias as jb
    >>> options = dict(num_steps=[20], num_trials=32, num_paths=128)
    >>> found = jb.plan(jax.random.key(0), {"greedy": jb.Greedy()}, jb.Normal(), [1.0, 0.0], **options)
    >>> plot_plan(found).axes[0].get_xlabel()
    'regret per step'
    """
    policies = list(dict.fromkeys(design.policy for design in plan.designs))
    with drawing():
        figure = new_figure(HEIGHT + ROW * (len(policies) // 2 + 1))
        axes = figure.subplots()
        for place, policy in enumerate(policies):
            colour = SERIES[place % len(SERIES)]
            _draw(axes, policy, [design for design in plan.designs if design.policy == policy], colour)
        for target in plan.targets:
            if target.figure == "half_width":
                axes.axhline(target.goal, color=MUTED, linewidth=1, linestyle=DASHED, zorder=0)
        axes.set(xlabel="regret per step", ylabel="half-width of the difference")
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
        axes.margins(x=0.15)
        axes.grid()
        axes.locator_params(axis="x", nbins=6)
        if policies:
            figure.legend(loc="outside upper left", ncols=2, handlelength=1.8, columnspacing=1.2, borderpad=0)
    return figure


def _draw(axes: "matplotlib.axes.Axes", policy: str, designs: list[Design], colour: str) -> None:  # pyright: ignore
    """The designs of one policy, each with its number of steps."""
    values = np.array([[one.regret / one.steps, one.half_width] for one in designs])
    errors = 2 * np.nan_to_num([[one.regret_stderr / one.steps, one.half_width_stderr] for one in designs])
    axes.errorbar(*values.T, xerr=errors[:, 0], yerr=errors[:, 1], color=colour, linestyle="", linewidth=1.2)
    look = {"marker": "o", "markersize": 6, "markeredgecolor": PAPER, "markeredgewidth": 0.6}
    axes.plot(*values.T, color=colour, label=policy, gid=f"policy {policy}", **look)
    for design, (regret, half_width) in zip(designs, values, strict=True):
        if np.isfinite(half_width):
            axes.annotate(count(design.steps), (regret, half_width), (5, 4), textcoords="offset points", color=colour, size=9)
