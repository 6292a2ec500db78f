"""Finished experiments in a folder: a file for each, there whole or not at all, read again by the next run."""

import json
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import jaxbias as jb
from jaxbias.files import written_whole
from jaxbias.paper import experiments
from jaxbias.paper.experiments import Experiment, Figure, Result


def _head(experiment: Experiment, seed: int, trials: int | None) -> dict[str, Any]:
    """What a result must have been made from to be the one that is asked for."""
    words = {"experiment": experiment.text, "seed": seed, "trials": experiment.num_trials(trials)}
    return {**words, "version": jb.__version__, "methods": _methods()}


@cache
def _methods() -> int:
    """A number that changes with what the words of an experiment mean, for those who change it."""
    return zlib.crc32(Path(experiments.__file__).read_bytes())


def path_of(folder: Path, experiment: Experiment) -> Path:
    """Its file."""
    return folder / "cells" / f"{experiment.name}.json"


def save(folder: Path, experiment: Experiment, seed: int, trials: int | None, result: Result) -> None:
    """Writes a finished experiment."""
    figures = {
        name: {"value": np.asarray(value, np.float64).tolist(), "stderr": np.asarray(stderr, np.float64).tolist()}
        for name, (value, stderr) in result.figures.items()
    }
    content = json.dumps({**_head(experiment, seed, trials), "figures": figures}) + "\n"
    with written_whole(path_of(folder, experiment)) as path:
        path.write_text(content)


def load(folder: Path, experiment: Experiment, seed: int, trials: int | None) -> Result | None:
    """A finished experiment; None where there is none, or only one of other trials, another seed or another version."""
    try:
        kept = json.loads(path_of(folder, experiment).read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(kept, dict) or {name: kept.get(name) for name in _head(experiment, seed, trials)} != _head(
        experiment, seed, trials
    ):
        return None
    figures = {name: Figure(np.asarray(one["value"]), np.asarray(one["stderr"])) for name, one in kept["figures"].items()}
    return Result(trials=kept["trials"], figures=figures)
