"""What every picture is drawn on. Only this file imports matplotlib.

A figure is drawn in a few colours, each of which becomes a CSS variable of the page (`COLOURS`), so that one SVG is
right on a light and on a dark background. It is as wide as a phone: there its letters have the size they are drawn with.
"""

import contextlib
import io
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from jaxbias._core.errors import ArgumentError

# Colours that the colour-blind can tell apart (after Okabe and Ito, 2008), darkened to 4.5 : 1 on white as labels have them too.
# None is black, which matplotlib leaves out of an SVG.
INK, MUTED, GRID, PAPER = "#1b1f24", "#59636e", "#d8dde3", "#fefefe"
MORE_SERIES = ("#a33b3b", "#5b6670", "#7a3fa0", "#3d6b1f")  # for methods beyond eight
SERIES = ("#0072b2", "#b84c00", "#007a5a", "#a9527f", "#8a6100", "#4c50a8", "#2b7893", "#666a00", *MORE_SERIES)
COLOURS = {INK: "ink", MUTED: "muted", GRID: "grid", PAPER: "paper", **{value: f"c{i + 1}" for i, value in enumerate(SERIES)}}
STYLE = {
    "svg.fonttype": "none",  # text stays text
    "text.parse_math": False,  # a label may have dollar signs in it
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "legend.frameon": False,
    "legend.fontsize": 10,
}
WIDTH = 360  # points: about the width of a phone
MOST_ARMS = 30  # in one picture
DASHED = (0, (4, 2))


@contextlib.contextmanager
def drawing(**settings: Any) -> Iterator[None]:
    """Sets our style, and restores matplotlib's own settings afterwards."""
    try:
        import matplotlib
    except ModuleNotFoundError as error:
        raise ImportError("drawing needs matplotlib; it comes with pip install 'jaxbias[cli]'") from error
    style: Any = {**STYLE, **settings}
    with matplotlib.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph .* missing")  # the reader's fonts have it, whatever ours do
        yield


def new_figure(height: float | int) -> Any:
    """An empty figure, its height in points."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH / 72, height / 72), layout="constrained")
    vars(figure)["_repr_png_"] = partial(to_png, figure)  # a notebook shows it, whether or not pyplot was imported
    return figure


def to_png(figure: Any) -> bytes:
    """The figure as PNG."""
    file = io.BytesIO()
    with drawing():
        figure.savefig(file, format="png", dpi=144)
    return file.getvalue()


def foremost(weight: np.ndarray) -> tuple[np.ndarray, str]:
    """The arms with the largest weights, in their own order, and a note on how many others there are."""
    arms = np.sort(np.argsort(-weight, kind="stable")[:MOST_ARMS])
    return arms, f"  ({len(weight) - len(arms)} more arms are left out)" if len(arms) < len(weight) else ""


def segments(places: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One line with gaps in it, from low to high at each place: a single path, however many there are."""
    return np.stack([low, high, np.full(len(places), np.nan)], axis=1).ravel(), np.repeat(places, 3)


def arm_axis(axes: Any, words: Sequence[str], places: np.ndarray, group: float) -> None:
    """Lists the arms from top to bottom, every other one on a band."""
    for place in places[1::2]:
        axes.axhspan(place - group / 2, place + group / 2, color=GRID, alpha=0.35, linewidth=0)
    axes.set_yticks(places, words)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(places[-1] + group / 2, places[0] - group / 2)
    axes.grid(axis="x")
    axes.locator_params(axis="x", nbins=6)


def check_one_log(shape: tuple[int, ...], argument: str, field: str) -> None:
    """Refuses several logs at once; `shape` is that of a field of the argument."""
    if len(shape) != 1:
        raise ArgumentError(argument, allowed="of one log, without an axis of trials", problem=f"has {field} of shape {shape}")
