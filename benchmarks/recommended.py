"""What `debias` recommends, as users get it: its error beside that of the sample means, by how often an arm was pulled.

    python benchmarks/recommended.py                      # 100 logs of each cell; a quarter of an hour
    python benchmarks/recommended.py --only lil --trials 30

For each cell many logs are simulated, and `debias` is asked for each: it evaluates the methods at that log's estimates and
recommends one. The root mean squared error of what it recommends is in percent of the sample means', over all arms and logs and
by thirds of the pulls: within each arm (the logs that pulled it the least, the middle ones, the most), and over all arms and logs
together. Standard errors are over logs. The last column says how often each method was recommended.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas as pd
from common import finish, machine, parser, print_machine

import jaxbias as jb

# Those that are recommended unless another is asked for by name.
CANDIDATES = ("sample_mean", "shrinkage", "mean_matching", "test_inversion", "bias_corrected")
FIVE = (1.0, 0.75, 0.5, 0.38, 0.25)


class Cell(NamedTuple):
    policy: Any
    mean: tuple[float, ...]
    steps: int
    family: Any = jb.Normal(sigma=1.0)


CELLS = {
    "lil'UCB T=16 K=2": Cell(jb.LilUCB(), (1.0, 0.75), 16),
    "lil'UCB T=40 K=5": Cell(jb.LilUCB(), FIVE, 40),
    "Greedy T=40 K=5": Cell(jb.Greedy(), FIVE, 40),
    "Thompson T=80 K=5": Cell(jb.Thompson(), FIVE, 80),
    "lil'UCB T=300 K=3": Cell(jb.LilUCB(), (1.0, 0.75, 0.5), 300),
    "eps-Greedy T=200 Bernoulli": Cell(jb.EpsilonGreedy(), (0.3, 0.35), 200, jb.Bernoulli()),
    "eps-Greedy T=3000 Bernoulli": Cell(jb.EpsilonGreedy(), (0.05, 0.06, 0.055, 0.045), 3000, jb.Bernoulli()),
}


def measure(cell: Cell, trials: int) -> dict[str, Any]:
    """One row of the table."""
    key = jax.random.key(7)
    history = jb.simulate(key, cell.policy, cell.family, cell.mean, cell.steps, trials, progress=False)
    mean, chosen, estimates = np.asarray(cell.mean), Counter(), []
    for number in range(trials):
        one = history.trial(number)
        log = pd.DataFrame({"arm": np.asarray(one.arms).astype(str), "reward": np.asarray(one.rewards, float)})
        options: Any = dict(methods=CANDIDATES, arms=[str(arm) for arm in range(len(mean))])
        analysis = jb.debias(jax.random.fold_in(key, number), log, cell.policy, cell.family, **options)
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
    print(f"{'':28} {'all':>8}  {'within each arm: few, middle, many':36} {'all arms together':36} recommended")
    for name, cell in CELLS.items():
        if chosen.only not in name:
            continue
        row = found["cells"][name] = measure(cell, chosen.trials)
        thirds = [", ".join(map(show, row[kind])) for kind in ("within", "together")]
        print(f"{name:28} {show(row['all']):>8}  {thirds[0]:36} {thirds[1]:36} {row['chosen']}", flush=True)
    finish(found, chosen.json)


if __name__ == "__main__":
    main()
