"""The figures as pictures."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxbias.paper.experiments import Experiment, Result
from jaxbias.reporting.formatting import given
from jaxbias.reporting.plots.canvas import MUTED, SERIES, drawing, new_figure

Results = Mapping[Experiment, Result]
HEIGHT = 240  # points


def heat_maps(results: Results, experiments: tuple[Experiment, ...]) -> Any:
    """The bias of arm 1 over both means; each map on its own scale, as in the paper."""
    with drawing():
        figure = new_figure(HEIGHT)
        for axes, experiment in zip(figure.subplots(1, len(experiments)), experiments, strict=True):
            bias = np.asarray(results[experiment].figures["bias"].value)[..., 0]
            image = axes.imshow(bias, origin="lower", extent=(0, 1, 0, 1), vmax=0.0, cmap="viridis", interpolation="none")
            axes.set_title(f"T = {experiment.steps}")
            axes.set_xlabel("mean of arm 2")
            axes.set_ylabel("mean of arm 1")
            figure.colorbar(image, ax=axes, orientation="horizontal", ticks=np.linspace(bias.min(), 0, 3), format="%.3f")
    return figure


def curves(results: Results, experiment: Experiment) -> Any:
    """The bias of every arm after each step, with a band of two standard errors."""
    value, stderr = (np.asarray(part) for part in results[experiment].figures["bias"])
    steps = np.arange(1, len(value) + 1)
    with drawing():
        figure = new_figure(HEIGHT)
        axes = figure.subplots()
        for arm, mean in enumerate(experiment.mean):
            axes.fill_between(
                steps, value[:, arm] - 2 * stderr[:, arm], value[:, arm] + 2 * stderr[:, arm], color=SERIES[arm], alpha=0.25, lw=0
            )
            axes.plot(steps, value[:, arm], color=SERIES[arm], label=f"mean {given(mean)}", gid=f"arm {arm}")
        _finish(axes, "step", "bias of the sample mean")
    return figure


def scatter(results: Results, experiment: Experiment) -> Any:
    """A point for each trial."""
    figures = results[experiment].figures
    with drawing():
        figure = new_figure(HEIGHT)
        axes = figure.subplots()
        axes.plot(figures["error"].value, figures["pulls"].value, ".", markersize=3, alpha=0.5, color=SERIES[0], gid="trials")
        axes.axvline(0, color=MUTED, linewidth=1)
        axes.set_xlabel("sample mean less mean, after 100 steps")
        axes.set_ylabel(f"pulls from then to step {experiment.steps}")
        axes.grid()
    return figure


def convergence(results: Results, experiment: Experiment) -> Any:
    """The bias of every arm over the iterations."""
    value = np.asarray(results[experiment].figures["bias"].value)
    with drawing():
        figure = new_figure(HEIGHT)
        axes = figure.subplots()
        for arm, mean in enumerate(experiment.mean):
            axes.plot(
                np.arange(1, len(value) + 1), value[:, arm], color=SERIES[arm], label=f"mean {given(mean)}", gid=f"arm {arm}"
            )
        _finish(axes, "iteration", "bias of the estimate")
    return figure


def _finish(axes: Any, across: str, up: str) -> None:
    axes.axhline(0, color=MUTED, linewidth=1)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.grid()
    axes.legend(loc="best")
