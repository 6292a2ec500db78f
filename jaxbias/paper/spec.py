"""A table or figure of the paper: the printed numbers, the experiments behind them, and what is expected of ours.

A printed number has a Monte Carlo error of its own, which the paper does not give. It is taken from ours: the same experiment
with the paper's number of trials. Two numbers agree where they are within four of their combined standard errors, and half of
the last digit that was printed; but with few trials any two numbers are. So a cell is too noisy to tell where four combined
standard errors are more than half of the figure that it is about: the printed one, or for a percentage the original it is of.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from jaxbias.paper.experiments import Experiment, Result
from jaxbias.paper.summaries import Figure

FAR = 4.0  # combined standard errors: chance does that once in 16,000 cells
HALF = 0.5  # of the figure that a cell is about: what its four standard errors may be at most, to say that it agrees
NOISY = "too noisy"
EXACT = 1e-9  # how far from its bound an exact figure may be: rounding

Read = Callable[..., Figure]
Expectation = Literal["agrees", "at most 0", "is 0", "at least 0", ""]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """One cell of a table.

    Arguments:
        row, column: where it stands.
        experiments: what it is read from.
        read: from their results to the figure.
        paper: the printed number, where there is one.
        digit: the value of its last printed digit.
        expects: what ours must be: a cell that "agrees" and does not is a failure; one that expects nothing may differ.
        why: one sentence on why it may differ from the printed number.
        unit: behind the number.
    """

    row: str
    column: str
    experiments: tuple[Experiment, ...]
    read: Read
    paper: int | float | None = None
    digit: int | float = 0.01
    expects: Expectation = ""
    why: str = ""
    unit: str = ""


class Outcome(NamedTuple):
    """The result of one cell.

    Fields:
        entry: what it is.
        ours, stderr: the figure and its Monte Carlo error.
        sigmas: how far it is from what is expected, in combined standard errors; None where nothing is.
        verdict: "agrees", "differs" where that is explained, "DISAGREES" where it is not, "too noisy" to tell, or nothing.
        trials: the fewest of the experiments behind it.
        resolution: the largest difference to the printed number that could be chance; None where none was printed.
    """

    entry: Entry
    ours: float
    stderr: float
    sigmas: float | None
    verdict: str
    trials: int
    resolution: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spec:
    """One table or figure.

    Arguments:
        name: as it is typed on the command line.
        title: what it is.
        setting: how it was run, in a sentence or two.
        entries: its cells; for a figure, the numbers that summarise it.
        seen: what the cells show, in a sentence or two; explanations are with the cells.
        draw: from the results to a picture.
        drawn: the experiments that are drawn.
    """

    name: str
    title: str
    setting: str
    entries: tuple[Entry, ...]
    seen: str = ""
    draw: Callable[[Mapping[Experiment, Result]], Any] | None = None
    drawn: tuple[Experiment, ...] = ()

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """The experiments to run, each once, in order."""
        return tuple(dict.fromkeys([*self.drawn, *(experiment for entry in self.entries for experiment in entry.experiments)]))


def judge(entry: Entry, results: Mapping[Experiment, Result]) -> Outcome:
    """The cell, with the paper's number and what was expected beside ours."""
    found = [results[experiment] for experiment in entry.experiments]
    ours, stderr = (float(part) for part in entry.read(*found))
    sigmas = resolution = None
    if entry.paper is not None:
        theirs = [result.as_from(experiment.trials) for result, experiment in zip(found, entry.experiments, strict=True)]
        combined = math.hypot(stderr, float(entry.read(*theirs).stderr))
        sigmas = _ratio(max(abs(ours - entry.paper) - entry.digit / 2, 0.0), combined)
        resolution = FAR * combined + entry.digit / 2
    elif entry.expects in BOUNDS:
        sigmas = _ratio(max(BOUNDS[entry.expects](ours), 0.0), stderr)
    trials = min(result.trials for result in found)
    return Outcome(entry, ours, stderr, sigmas, _verdict(entry, ours, sigmas, resolution), trials, resolution)


# How far a figure is on the wrong side of what is expected of it.
BOUNDS: dict[str, Callable[[float], float]] = {
    "at most 0": lambda value: value,
    "is 0": abs,
    "at least 0": lambda value: -value,
}


def _ratio(gap: float, stderr: float) -> float:
    if gap <= EXACT:
        return 0.0
    return gap / stderr if stderr > 0 else math.inf


def _verdict(entry: Entry, ours: float, sigmas: float | None, resolution: float | None) -> str:
    if sigmas is None:
        return ""
    if sigmas <= FAR and not math.isnan(ours):
        return NOISY if resolution is not None and resolution > _largest_resolution(entry) else "agrees"
    return "DISAGREES" if entry.expects else "differs"


def _largest_resolution(entry: Entry) -> float:
    """With which a cell can still tell: half of its figure, and two of the printed digits where that is more."""
    assert entry.paper is not None
    return max(HALF * (100 if entry.unit == "%" else abs(entry.paper)), 2 * entry.digit)


# Ways to read a figure off results.


def figure(name: str, index: Any = None) -> Read:
    """The figure of this name; of an array, the part at `index`."""

    def read(result: Result) -> Figure:
        value, stderr = result.figures[name]
        return Figure(value, stderr) if index is None else Figure(np.asarray(value)[index], np.asarray(stderr)[index])

    return read


def percent(name: str) -> Read:
    """The first result's figure in percent of the second's."""

    def read(result: Result, original: Result) -> Figure:
        (value, stderr), (base, base_stderr) = result.figures[name], original.figures[name]
        share = value / base
        return Figure(100 * share, 100 * math.hypot(stderr, share * base_stderr) / abs(base))

    return read


def in_percent(name: str) -> Read:
    """A share as a percentage."""

    def read(result: Result) -> Figure:
        value, stderr = result.figures[name]
        return Figure(100 * value, 100 * stderr)

    return read


def less(first: Read, second: Read) -> Read:
    """One reading of the first result less another of the second, or of the same one."""

    def read(*results: Result) -> Figure:
        one, other = first(results[0]), second(results[-1])
        return Figure(one.value - other.value, math.hypot(one.stderr, other.stderr))

    return read


def largest_in_errors(name: str, *, size: bool = False) -> Read:
    """The largest of several figures, or the largest in size, in its own standard errors: of zeros, chance makes one or two."""

    def read(result: Result) -> Figure:
        value, stderr = (np.asarray(part) for part in result.figures[name])
        return Figure(float(np.max((np.abs(value) if size else value) / stderr)), 1.0)

    return read
