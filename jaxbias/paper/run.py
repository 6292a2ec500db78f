"""Runs the experiments of a list of tables and figures, each once, and continues where an earlier run stopped."""

import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from jaxbias._core.devices import LostProcess, from_first
from jaxbias._core.errors import ArgumentError
from jaxbias._core.kept import make_folder
from jaxbias._core.randomness import key_words
from jaxbias.paper.experiments import Experiment, Result, run_experiment
from jaxbias.paper.figures import FIGURES
from jaxbias.paper.spec import Outcome, Spec, judge
from jaxbias.paper.store import load, save
from jaxbias.paper.tables import TABLES
from jaxbias.paper.theorems import THEOREMS

SPECS = {spec.name: spec for spec in (*TABLES, *FIGURES, *THEOREMS)}
ORDER = ("theorem1", "proposition2", "figure1", *(f"figure2{letter}" for letter in "abcde"), "table1", "figure2f", "table2")
ORDER += ("table3", "table4", "table5", "table6", "table7")  # as the paper goes
# Seconds of each method, for the time left: whatever the size, mostly compilation that some experiments share, and for each
# million steps of logs.
COSTS = {
    "cmle": (5, 80),
    "cmle_given_draws": (20, 30),
    "paper_cmle": (5, 700),
    "paper_cmle_path": (10, 700),
    "paper_cmle_given_draws": (15, 3000),
    "mean_matching": (3, 60),
    "conditions": (5, 0),
}
CHEAP = (1, 0.1)
INDEX_POLICIES = ("lil' UCB", "ε-Greedy", "Greedy")  # one policy with different settings, which share their programs
INTEGRAL = 20  # times as much where the probability of a choice is an integral


class Reproduction(NamedTuple):
    """The tables and figures that were asked for, and their results; `key_words` are the data of the random key."""

    specs: tuple[Spec, ...]
    results: dict[Experiment, Result]
    outcomes: dict[str, tuple[Outcome, ...]]
    key_words: tuple[int, ...]
    trials: int | None

    @property
    def failures(self) -> tuple[tuple[str, Outcome], ...]:
        """The cells that should agree and do not."""
        return tuple((name, one) for name, cells in self.outcomes.items() for one in cells if one.verdict == "DISAGREES")


class Step(NamedTuple):
    """Progress after one experiment: how many of how many are done, and which share of the work."""

    name: str
    done: int
    total: int
    share: float


def reproduce(
    key: PRNGKeyArray,
    names: Sequence[str] = ("all",),
    folder: str | Path = "jaxbias-paper",
    *,
    num_trials: int | None = None,
    jobs: int | None = None,
    progress: Callable[[Step], None] | None = None,
) -> Reproduction:
    """Runs tables and figures of the paper. Finished experiments are kept in the folder and not run again.

    Arguments:
        key: a `jax.random.key`.
        names: of tables and figures, such as "table2" or "figure2e", or "all".
        folder: created if it does not exist; `write_reproduction` adds the tables, the pictures and the page.
        num_trials: in place of the paper's thousand; tables with more trials are scaled by the same factor.
        jobs: experiments at a time; by default one for each core, and one on an accelerator or on several hosts.
        progress: called after each experiment.

    On several hosts, the trials of each experiment are spread over all of them. Only process 0 writes to the folder and returns
    outcomes.
    """
    specs, words = find_specs(names), key_words(key)
    _check_numbers(num_trials, jobs)
    answers = jax.process_index() == 0
    folder = make_folder(folder, "cells") if answers else Path(folder)
    wanted = tuple(dict.fromkeys(experiment for spec in specs for experiment in spec.experiments))
    finished = {one: result for one in wanted if answers and (result := load(folder, one, words, num_trials)) is not None}
    is_left = from_first(np.array([one not in finished for one in wanted]))
    left = [one for one, is_so in zip(wanted, is_left, strict=True) if is_so]
    work, report = Work(wanted, left, num_trials), progress or (lambda _: None)
    report(work.step_after(""))
    for experiment in _run_all(key, left, folder if answers else None, num_trials, jobs or default_jobs()):
        work.add(experiment)
        report(work.step_after(experiment.name))
    if not answers:
        return Reproduction(specs, {}, {}, words, num_trials)
    # Read from the files, so that an interrupted run ends with the same digits as one that was not.
    results = finished | {one: result for one in left if (result := load(folder, one, words, num_trials)) is not None}
    outcomes = {spec.name: tuple(judge(entry, results) for entry in spec.entries) for spec in specs}
    return Reproduction(specs, results, outcomes, words, num_trials)


class Work:
    """How much of the work is done, in seconds as `cost` estimates them."""

    def __init__(self, wanted: Sequence[Experiment], left: Sequence[Experiment], trials: int | None) -> None:
        self.trials, self.total, self.done = trials, len(wanted), len(wanted) - len(left)
        self.seconds = sum(cost(one, trials) for one in wanted)
        self.seconds_done = self.seconds - sum(cost(one, trials) for one in left)

    def add(self, experiment: Experiment) -> None:
        """One more experiment is done."""
        self.done += 1
        self.seconds_done += cost(experiment, self.trials)

    def step_after(self, name: str) -> Step:
        """What to report after the experiment of this name."""
        return Step(name, self.done, self.total, self.seconds_done / self.seconds)


def _check_numbers(trials: int | None, jobs: int | None) -> None:
    if trials is not None and trials < 1:
        raise ArgumentError("num_trials", trials, "1 or more")
    alone = jax.process_count() == 1
    if jobs is not None and (jobs < 1 or (jobs > 1 and not alone)):
        raise ArgumentError("jobs", jobs, "1 or more" if alone else "1 on several hosts")


def find_specs(names: Sequence[str]) -> tuple[Spec, ...]:
    """The specs of these names, in the order of the paper."""
    choices = f"choose from all, {', '.join(ORDER)}"
    for name in names:
        if name != "all" and name not in SPECS:
            raise ArgumentError("names", names, problem=f"has {name!r}", remedy=choices)
    if not names:
        raise ArgumentError("names", names, problem="is empty", remedy=choices)
    return tuple(SPECS[name] for name in ORDER if name in names or "all" in names)


def default_jobs() -> int:
    """One for each core, as an experiment mostly uses one core; one on an accelerator, or on several hosts."""
    alone = jax.default_backend() == "cpu" and jax.process_count() == 1
    return len(os.sched_getaffinity(0)) if alone and hasattr(os, "sched_getaffinity") else 1


def cost(experiment: Experiment, trials: int | None) -> float:
    """About how many seconds it takes."""
    fixed, by_step = COSTS.get(experiment.method, CHEAP)
    steps = experiment.num_trials(trials) * experiment.steps / 1e6
    integral = experiment.policy == "TS" and experiment.method == "cmle" and len(experiment.mean) > 2
    return fixed + by_step * steps * (INTEGRAL if integral else 1)


def share_programs(experiments: Sequence[Experiment], trials: int | None) -> list[list[Experiment]]:
    """Groups of experiments that run the same compiled programs, the longest first: a thread takes a group, and compiles once."""
    groups: dict[tuple[Any, ...], list[Experiment]] = {}
    for one in experiments:
        policy = "index" if one.policy in INDEX_POLICIES else one.policy
        groups.setdefault((one.method, policy, len(one.mean)), []).append(one)
    return sorted(groups.values(), key=lambda group: -sum(cost(one, trials) for one in group))


def _run_all(
    key: PRNGKeyArray, left: Sequence[Experiment], folder: Path | None, trials: int | None, jobs: int
) -> Iterator[Experiment]:
    """Yields each experiment once it is done and written, in threads that end with the process."""
    waiting: queue.SimpleQueue[list[Experiment]] = queue.SimpleQueue()
    finished: queue.SimpleQueue[tuple[Experiment, BaseException | None]] = queue.SimpleQueue()
    for group in share_programs(left, trials):
        waiting.put(group)

    def work() -> None:
        while True:
            try:
                group = waiting.get_nowait()
            except queue.Empty:
                return
            for experiment in group:
                try:
                    result = run_experiment(key, experiment, trials)
                    if folder is not None:
                        save(folder, experiment, key_words(key), trials, result)
                    finished.put((experiment, None))
                except BaseException as error:  # raised again by the caller
                    finished.put((experiment, error))
                    return

    for _ in range(jobs):
        threading.Thread(target=work, daemon=True).start()
    for _ in left:
        experiment, error = finished.get()
        if isinstance(error, LostProcess):
            raise error
        if error is not None:
            raise RuntimeError(f"{experiment.name} failed") from error
        yield experiment
