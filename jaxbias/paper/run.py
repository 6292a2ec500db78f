"""Runs what a list of tables and figures needs, each experiment once, and goes on where an earlier run stopped."""

import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from jaxbias.devices import LostProcess, from_first
from jaxbias.paper.experiments import Experiment, Result, run_experiment
from jaxbias.paper.figures import FIGURES
from jaxbias.paper.spec import Outcome, Spec, judge
from jaxbias.paper.store import load, save
from jaxbias.paper.tables import TABLES
from jaxbias.paper.theorems import THEOREMS

SPECS = {spec.name: spec for spec in (*TABLES, *FIGURES, *THEOREMS)}
ORDER = ("theorem1", "proposition2", "figure1", *(f"figure2{letter}" for letter in "abcde"), "table1", "figure2f", "table2")
ORDER += ("table3", "table4", "table5", "table6", "table7")  # as the paper goes
# Seconds of each method, for the time left: whatever the size, mostly compilation, and for each million steps of logs.
COSTS = {
    "cmle": (15, 80),
    "cmle_given_draws": (20, 30),
    "paper_cmle": (10, 1500),
    "paper_cmle_path": (10, 1500),
    "paper_cmle_given_draws": (15, 7500),
    "mean_matching": (10, 120),
    "conditions": (8, 0),
}
CHEAP = (4, 0.1)
AT_ONCE = 16  # experiments until what was compiled for them is forgotten
INTEGRAL = 60  # times as much where the probability of a choice is an integral


class Reproduction(NamedTuple):
    """The tables and figures that were asked for, and what came out."""

    specs: tuple[Spec, ...]
    results: dict[Experiment, Result]
    outcomes: dict[str, tuple[Outcome, ...]]
    seed: int
    trials: int | None

    @property
    def failures(self) -> tuple[tuple[str, Outcome], ...]:
        """Cells that should agree and do not."""
        return tuple((name, one) for name, cells in self.outcomes.items() for one in cells if one.verdict == "DISAGREES")


class Step(NamedTuple):
    """One experiment done: how many of how many, and how much of the work."""

    name: str
    done: int
    total: int
    share: float


def reproduce(
    names: Sequence[str] = ("all",),
    folder: str | Path = "jaxbias-paper",
    *,
    trials: int | None = None,
    seed: int = 0,
    jobs: int | None = None,
    progress: Callable[[Step], None] | None = None,
) -> Reproduction:
    """Runs tables and figures of the paper. Finished experiments are kept in the folder and not run again.

    Arguments:
        names: of tables and figures, such as "table2" or "figure2e", or "all".
        folder: made where there is none; `write_reproduction` adds the tables, the pictures and the page.
        trials: in place of the paper's thousand; the tables that have more trials are scaled alike.
        seed: another seed gives other random numbers.
        jobs: experiments at a time; by default one for each core, on an accelerator or several hosts one.
        progress: called after each experiment.

    On several hosts, each experiment's trials are spread over all of them; the folder and the outcomes are those of process 0.
    """
    specs = find_specs(names)
    if trials is not None and trials < 1:
        raise ValueError(f"trials is {trials}; allowed: 1 or more")
    alone = jax.process_count() == 1
    if jobs is not None and (jobs < 1 or (jobs > 1 and not alone)):
        raise ValueError(f"jobs is {jobs}; allowed: {'1 or more' if alone else '1, on several hosts'}")
    answers = jax.process_index() == 0
    folder = make_folder(folder) if answers else Path(folder)
    wanted = tuple(dict.fromkeys(experiment for spec in specs for experiment in spec.experiments))
    results = {one: found for one in wanted if answers and (found := load(folder, one, seed, trials)) is not None}
    is_left = from_first(np.array([one not in results for one in wanted]))
    left = sorted((one for one, is_so in zip(wanted, is_left, strict=True) if is_so), key=lambda one: -cost(one, trials))
    work = sum(cost(one, trials) for one in wanted)
    done, tell = work - sum(cost(one, trials) for one in left), progress or (lambda _: None)
    tell(Step("", len(wanted) - len(left), len(wanted), done / work))
    for count, experiment in enumerate(_run_all(left, folder if answers else None, seed, trials, jobs or default_jobs()), 1):
        done += cost(experiment, trials)
        tell(Step(experiment.name, len(wanted) - len(left) + count, len(wanted), done / work))
    if not answers:
        return Reproduction(specs, {}, {}, seed, trials)
    # As they are in the files, so that a run that was interrupted ends with the same digits as one that was not.
    results |= {one: found for one in left if (found := load(folder, one, seed, trials)) is not None}
    outcomes = {spec.name: tuple(judge(entry, results) for entry in spec.entries) for spec in specs}
    return Reproduction(specs, results, outcomes, seed, trials)


def find_specs(names: Sequence[str]) -> tuple[Spec, ...]:
    """The specs of these names, in the order of the paper."""
    for name in names:
        if name != "all" and name not in SPECS:
            raise ValueError(f"names has {name!r}; allowed: all, {', '.join(ORDER)}")
    if not names:
        raise ValueError(f"names is empty; allowed: all, {', '.join(ORDER)}")
    return tuple(SPECS[name] for name in ORDER if name in names or "all" in names)


def make_folder(folder: str | Path) -> Path:
    """The folder, with a place for the cells."""
    folder = Path(folder)
    try:
        (folder / "cells").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"folder is {str(folder)!r}: {error.strerror}; allowed: one that can be written to") from error
    if not os.access(folder / "cells", os.W_OK):
        raise ValueError(f"folder is {str(folder)!r}, which cannot be written to; allowed: one that can")
    return folder


def default_jobs() -> int:
    """One for each core, as most of an experiment's time is spent in one; an accelerator, or several hosts, do one at a time."""
    alone = jax.default_backend() == "cpu" and jax.process_count() == 1
    return len(os.sched_getaffinity(0)) if alone and hasattr(os, "sched_getaffinity") else 1


def cost(experiment: Experiment, trials: int | None) -> float:
    """About how many seconds it takes."""
    fixed, by_step = COSTS.get(experiment.method, CHEAP)
    steps = experiment.num_trials(trials) * experiment.steps / 1e6
    integral = experiment.policy == "TS" and experiment.method == "cmle" and len(experiment.mean) > 2
    return fixed + by_step * steps * (INTEGRAL if integral else 1)


def _run_all(left: Sequence[Experiment], folder: Path | None, seed: int, trials: int | None, jobs: int) -> Iterator[Experiment]:
    """Yields each experiment once it is done and written. What was compiled is forgotten now and then: a process may have 65,000
    memory maps, and a hundred experiments have more."""
    for first in range(0, len(left), AT_ONCE):
        yield from _run_some(left[first : first + AT_ONCE], folder, seed, trials, jobs)
        jax.clear_caches()


def _run_some(some: Sequence[Experiment], folder: Path | None, seed: int, trials: int | None, jobs: int) -> Iterator[Experiment]:
    """Several at a time, in threads that do not outlive the caller."""
    waiting: queue.SimpleQueue[Experiment] = queue.SimpleQueue()
    finished: queue.SimpleQueue[tuple[Experiment, BaseException | None]] = queue.SimpleQueue()
    for experiment in some:
        waiting.put(experiment)

    def work() -> None:
        while True:
            try:
                experiment = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                result = run_experiment(experiment, seed, trials)
                if folder is not None:
                    save(folder, experiment, seed, trials, result)
                finished.put((experiment, None))
            except BaseException as error:  # it is raised again by who waits
                finished.put((experiment, error))
                return

    for _ in range(min(jobs, len(some))):
        threading.Thread(target=work, daemon=True).start()
    for _ in some:
        experiment, error = finished.get()
        if isinstance(error, LostProcess):
            raise error
        if error is not None:
            raise RuntimeError(f"{experiment.name} failed") from error
        yield experiment
