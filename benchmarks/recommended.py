"""What `debias` recommends, as users get it: its error beside that of the sample means, by how often an arm was pulled.

    python benchmarks/recommended.py                      # 100 logs of each cell; hours
    python benchmarks/recommended.py --only "tau=0 T=40" --trials 30

The cells are those of `intervals.py`, and eps-Greedy with 4 arms, Bernoulli rewards and 3,000 steps. Most of the time of a cell
of few logs is compiling; the logs of the stopped cell differ in length, and each is compiled for.

For each cell many logs are simulated, and `debias` is asked for each: it evaluates the methods at that log's estimates and
recommends one. The root mean squared error of what it recommends is in percent of the sample means', over all arms and logs and
by thirds of the pulls: within each arm (the logs that pulled it the least, the middle ones, the most), and over all arms and logs
together. Standard errors are over logs. The last column says how often each method was recommended.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pandas as pd
from common import finish, machine, parser, print_machine
from intervals import BERNOULLI, OTHERS, Cell, paper_cells

import jaxbias as jb

# Those that are recommended unless another is asked for by name.
CANDIDATES = ("sample_mean", "shrinkage", "mean_matching", "test_inversion", "guarded_shrinkage")
RATES = {"0.05": (0.05, 0.06, 0.055, 0.045), "0.3": (0.3, 0.32, 0.28, 0.25)}
LONG = [Cell(f"eps-Greedy T=3000 Bernoulli {name}", jb.EpsilonGreedy(), rates, 3000, BERNOULLI) for name, rates in RATES.items()]
CELLS = [*paper_cells(0.0), *paper_cells(1.0), *OTHERS, *LONG]


def measure(cell: Cell, trials: int) -> dict[str, Any]:
    """One row of the table."""
    key, stop = jax.random.key(7), cell.design.get("stop")
    design: Any = {name: value for name, value in cell.design.items() if name in ("stop", "batch_size")}
    history = jb.simulate(key, cell.policy, cell.family, cell.mean, cell.num_steps, trials, progress=False, **design)
    mean, chosen, estimates = np.asarray(cell.mean), Counter(), []
    asked: Any = dict(methods=CANDIDATES, arms=[str(arm) for arm in range(len(mean))])
    if stop is not None:
        asked |= dict(stop=stop, num_steps=cell.num_steps)
    for number in range(trials):
        family = cell.design.get("assumed", cell.family)
        log = to_frame(history.trial(number), cell.design.get("batch_size"))
        analysis = jb.debias(jax.random.fold_in(key, number), log, cell.policy, family, **asked)
        method = analysis.recommended.method
        chosen[method] += 1
        estimates.append(np.asarray(analysis.comparison.estimates[method].mean, float))
    ours, plain = np.square(np.stack(estimates) - mean), np.square(np.asarray(history.statistics.mean, float) - mean)
    pulls = np.asarray(history.statistics.pulls)
    within = np.argsort(np.argsort(pulls, axis=0, kind="stable"), axis=0) * 3 // trials
    together = np.argsort(np.argsort(pulls.ravel(), kind="stable")).reshape(pulls.shape) * 3 // pulls.size
    row: dict[str, Any] = {"all": relative(ours, plain, np.ones(pulls.shape, bool)), "chosen": dict(chosen)}
    for name, third in (("within", within), ("together", together)):
        row[name] = [relative(ours, plain, third == place) for place in range(3)]
    return row


def to_frame(one: jb.History, batch_size: int | None) -> pd.DataFrame:
    """One log as `debias` reads it."""
    rows = {"arm": np.asarray(one.arms).astype(str), "reward": np.asarray(one.rewards, float)}
    if batch_size is not None:
        rows["batch"] = np.arange(one.num_steps) // batch_size
    return pd.DataFrame(rows)


def relative(ours: np.ndarray, plain: np.ndarray, where: np.ndarray) -> tuple[float, float]:
    """The ratio of the root mean squares in percent, and its standard error over logs."""
    mine, theirs = (np.sum(square * where, axis=1) for square in (ours, plain))
    share = mine.sum() / theirs.sum()
    error = np.std(mine - share * theirs) * np.sqrt(len(mine)) / theirs.sum()
    return 100 * float(np.sqrt(share)), 100 * float(error / (2 * np.sqrt(share)))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    options = parser(__doc__, repeats=1)
    options.add_argument("--trials", type=int, default=100)
    options.add_argument("--only", default="", help="cells whose name has this in it")
    return options.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    chosen = parse(arguments)
    found: dict[str, Any] = {"machine": machine(), "trials": chosen.trials, "cells": {}}
    print_machine(found["machine"])
    show = lambda pair: f"{pair[0]:.0f} ± {pair[1]:.0f}"
    print(f"{'':36} {'all':>8}  {'within each arm: few, middle, many':36} {'all arms together':36} recommended")
    for cell in (cell for cell in CELLS if chosen.only in cell.name):
        row = found["cells"][cell.name] = measure(cell, chosen.trials)
        thirds = [", ".join(map(show, row[kind])) for kind in ("within", "together")]
        print(f"{cell.name:36} {show(row['all']):>8}  {thirds[0]:36} {thirds[1]:36} {row['chosen']}", flush=True)
    finish(found, chosen.json)


if __name__ == "__main__":
    main()
