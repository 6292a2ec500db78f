"""The pictures of the README and of the pages, in docs/pictures:

python docs/make_pictures.py                # all of them, about a minute
python docs/make_pictures.py why-biased     # one
"""

import sys
from pathlib import Path

import jax
import matplotlib
import numpy as np

matplotlib.use("agg")
import matplotlib.pyplot as plt
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.figure import Figure

import jaxbias as jb

FOLDER = Path(__file__).parent / "pictures"
BLUE, ORANGE, GRAY = "#1f6feb", "#d9730d", "#6e7781"
plt.rcParams.update(
    {
        "svg.hashsalt": "jaxbias",  # the same file for the same figures
        "font.size": 11,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "figure.facecolor": "white",
        "savefig.facecolor": "white",
    }
)


def draw_before_after(num_trials: int = 1000) -> None:
    """The average error of each arm's mean in many experiments like the bundled one, before and after the correction."""
    methods = ["sample_mean", "mean_matching"]
    found = jb.evaluate(
        jax.random.key(0), jb.LilUCB(tau=0.2), jb.Normal(), [1.0, 0.75, 0.5], num_steps=60, methods=methods, num_trials=num_trials
    )
    figure, axes = plt.subplots(figsize=(5.6, 3.1), layout="constrained")
    places = np.arange(3)[::-1]
    labels = ("plain averages", "corrected by mean_matching")
    for method, colour, label, shift in zip(methods, (ORANGE, BLUE), labels, (0.13, -0.13), strict=True):
        figures = found.methods[method]
        error = 2 * figures.bias_stderr
        axes.errorbar(figures.bias, places + shift, xerr=error, fmt="o", color=colour, label=label, markersize=8)
        for value, place in zip(figures.bias, places + shift, strict=True):
            axes.annotate(f"{value:+.2f}", (value, place), (0, 7), textcoords="offset points", ha="center", color=colour, size=9)
    axes.axvline(0, color=GRAY, linewidth=1)
    axes.annotate("the truth", (0, 2.45), (4, 0), textcoords="offset points", color=GRAY, size=9)
    axes.set(yticks=places, yticklabels=[f"arm {name}\n(mean {mean:g})" for name, mean in zip("ABC", found.mean, strict=True)])
    under = f"average error of the arm's mean over\n{num_trials:,} simulated experiments (± 2 standard errors)"
    axes.set(ylim=(-0.5, 2.7), xlabel=under)
    axes.legend(loc="lower left", frameon=False, bbox_to_anchor=(-0.15, 1), ncols=2, columnspacing=1.0, handletextpad=0.2)
    save(figure, "before-after.svg")


def draw_bias_by_step(num_trials: int = 20_000) -> None:
    """How the average of the sample mean falls and stays low."""
    figure, axes = plt.subplots(figsize=(7.2, 2.9), layout="constrained")
    policies = {"Greedy": (jb.Greedy(), ORANGE), "lil'UCB": (jb.LilUCB(), BLUE), "equal shares": (jb.Uniform(), GRAY)}
    for name, (policy, colour) in policies.items():
        history = jb.simulate(jax.random.key(0), policy, jb.Normal(), [0.0, 0.0], num_steps=40, num_trials=num_trials)
        mean = running_means(np.asarray(history.arms), np.asarray(history.rewards))
        axes.plot(np.arange(2, 41), mean.mean(axis=0)[1:], color=colour, linewidth=2)
        axes.annotate(name, (40, mean.mean(axis=0)[-1]), (6, 0), textcoords="offset points", color=colour, va="center")
    axes.axhline(0, color=GRAY, linewidth=0.7, linestyle=":")
    axes.set(xlim=(2, 47), xlabel="step", ylabel="average sample mean\n(the truth is 0)")
    save(figure, "bias-by-step.svg")


def running_means(arms: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """The sample mean of the first arm after each step, (trials, steps); 0 before its first pull."""
    first = arms == 0
    return np.cumsum(np.where(first, rewards, 0), axis=1) / np.maximum(np.cumsum(first, axis=1), 1)


def draw_why_biased(num_trials: int = 60, num_steps: int = 40) -> None:
    """Sample means of one arm in many experiments under Greedy, step by step.

    Given up is an arm that is not pulled again in four times as many steps.
    """
    history = jb.simulate(jax.random.key(2), jb.Greedy(), jb.Normal(), [0.0, 0.0], num_steps=4 * num_steps, num_trials=num_trials)
    arms = np.asarray(history.arms)
    mean = running_means(arms, np.asarray(history.rewards))
    last = np.array([np.flatnonzero(row == 0)[-1] for row in arms])  # the last pull of the first arm
    order = np.argsort(np.argsort(mean[:, 1]))
    figure, axes = plt.subplots(figsize=(7.2, 4.0), dpi=80, layout="constrained")
    dots = axes.scatter(order, mean[:, 1], s=34)
    axes.axhline(0, color=GRAY, linewidth=1)
    average = axes.axhline(0, color="black", linewidth=1.5, linestyle="--")
    axes.set(ylim=(-3, 3), xlim=(-2, num_trials + 1), xticks=[], ylabel="sample mean of arm 1 (the truth is 0)")
    axes.set_xlabel("60 experiments, from unlucky to lucky starts", loc="left")
    title = axes.set_title("", loc="left")

    def show(step: int) -> None:
        dots.set_offsets(np.stack([order, mean[:, step]], axis=1))
        dots.set_color([ORANGE if one <= step else BLUE for one in last])
        average.set_ydata([mean[:, step].mean()] * 2)
        title.set_text(f"step {step + 1}: average {mean[:, step].mean():+.2f} (dashed)    orange: given up")

    frames = [1] * 8 + list(range(2, num_steps)) + [num_steps - 1] * 16
    FuncAnimation(figure, show, frames=frames).save(FOLDER / "why-biased.gif", writer=PillowWriter(fps=7))
    plt.close(figure)


def save(figure: Figure, name: str) -> None:
    figure.savefig(FOLDER / name, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    drawings = {"before-after": draw_before_after, "bias-by-step": draw_bias_by_step, "why-biased": draw_why_biased}
    for name in sys.argv[1:] or drawings:
        drawings[name]()


if __name__ == "__main__":
    main()
