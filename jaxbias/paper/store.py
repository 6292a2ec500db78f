"""Finished experiments in a folder: one file for each, written whole, and read by the next run."""

import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from jaxbias._core.kept import load_kept, save_kept
from jaxbias._core.version import __version__
from jaxbias.paper.experiments import Experiment, Result
from jaxbias.paper.summaries import Figure

PARTS = ("experiments", "policies", "summaries")  # modules whose code the results depend on, beside the version


def _head(experiment: Experiment, key_words: tuple[int, ...], trials: int | None) -> dict[str, Any]:
    """What identifies a result: it is reused only if all of this is the same."""
    words = {"experiment": experiment.text, "key_words": list(key_words), "trials": experiment.num_trials(trials)}
    return {**words, "version": __version__, "methods": _methods()}


@cache
def _methods() -> int:
    """A number that changes with the code of the experiments, so that old results are not reused."""
    return zlib.crc32(b"".join((Path(__file__).parent / f"{name}.py").read_bytes() for name in PARTS))


def path_of(folder: Path, experiment: Experiment) -> Path:
    """The file of an experiment."""
    return folder / "cells" / f"{experiment.name}.json"


def save(folder: Path, experiment: Experiment, key_words: tuple[int, ...], trials: int | None, result: Result) -> None:
    """Writes a finished experiment."""
    figures = {
        name: {"value": np.asarray(value, np.float64).tolist(), "stderr": np.asarray(stderr, np.float64).tolist()}
        for name, (value, stderr) in result.figures.items()
    }
    save_kept(path_of(folder, experiment), _head(experiment, key_words, trials), {"figures": figures})


def load(folder: Path, experiment: Experiment, key_words: tuple[int, ...], trials: int | None) -> Result | None:
    """A finished experiment; None where there is none with the same number of trials, key and version."""
    kept = load_kept(path_of(folder, experiment), _head(experiment, key_words, trials))
    if kept is None:
        return None
    try:
        figures = {
            name: Figure(*(np.asarray(one[part], float) for part in ("value", "stderr"))) for name, one in kept["figures"].items()
        }
    except (KeyError, TypeError, ValueError, AttributeError):  # damaged: it is run again
        return None
    return Result(trials=kept["trials"], figures=figures)
