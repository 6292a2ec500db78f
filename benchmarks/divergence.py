"""How close contrastive divergence comes to the maximum that Newton's method finds.

    python benchmarks/divergence.py                     # 200 logs of each cell; some minutes
    python benchmarks/divergence.py --seed 7 --logs 100

For each cell the root mean square, over logs and arms, of the difference of the two estimates in standard errors, with its own
error over logs; and what the Monte Carlo errors that both report say it should be.
"""

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from common import finish, machine, parser, print_machine, timed

import jaxbias as jb

TWO, FIVE = (1.0, 0.75), (1.0, 0.75, 0.5, 0.38, 0.25)


class Cell(NamedTuple):
    policy: Any
    mean: tuple[float, ...]
    steps: int


CELLS = {
    "Greedy T=16 K=2": Cell(jb.Greedy(tau=1.0), TWO, 16),
    "lil'UCB T=40 K=5": Cell(jb.LilUCB(tau=1.0), FIVE, 40),
    "lil'UCB T=16 K=2": Cell(jb.LilUCB(tau=1.0), TWO, 16),
    "Greedy T=40 K=5": Cell(jb.Greedy(tau=1.0), FIVE, 40),
    "eps-Greedy T=20 K=5": Cell(jb.EpsilonGreedy(tau=1.0), FIVE, 20),
}


def measure(cell: Cell, logs: int, seed: int) -> dict[str, float]:
    """One row of the table."""
    history = jb.simulate(jax.random.key(seed), cell.policy, jb.Normal(sigma=1.0), cell.mean, cell.steps, logs, progress=False)
    problem = (history, cell.policy, jb.Normal(sigma=1.0))
    newton = jb.conditional_mle(jax.random.key(seed + 1), *problem)
    seconds, _, walked = timed(lambda: jb.conditional_mle(jax.random.key(seed + 2), *problem, solver="contrastive_divergence"))
    usable = (np.asarray(newton.converged) & np.asarray(walked.converged)).all(axis=1)
    squared = np.square((np.asarray(walked.mean) - np.asarray(newton.mean)) / np.asarray(newton.stderr))[usable]
    per_log = squared.mean(axis=1)
    rms = float(np.sqrt(per_log.mean()))
    own = [np.asarray(one.diagnostics["monte_carlo_error"])[usable] for one in (newton, walked)]
    reported = (np.square(own[0]) + np.square(own[1])) / np.square(np.asarray(newton.stderr))[usable]
    return {
        "rms": rms,
        "stderr": float(per_log.std() / np.sqrt(len(per_log)) / (2 * rms)),
        "reported": float(np.sqrt(np.mean(reported))),
        "usable": float(usable.mean()),
        "seconds": seconds,
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    options = parser(__doc__, repeats=1)
    options.add_argument("--logs", type=int, default=200)
    options.add_argument("--seed", type=int, default=2026)
    return options.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    chosen = parse(arguments)
    found: dict[str, Any] = {"machine": machine(), "logs": chosen.logs, "seed": chosen.seed, "cells": {}}
    print_machine(found["machine"])
    for name, cell in CELLS.items():
        row = found["cells"][name] = measure(cell, chosen.logs, chosen.seed)
        print(
            f"{name:22s} difference {100 * row['rms']:5.2f}% +- {100 * row['stderr']:.2f} of a standard error"
            f"  (reported errors: {100 * row['reported']:.2f}%)  usable {100 * row['usable']:.0f}%  {row['seconds']:.1f} s",
            flush=True,
        )
    finish(found, chosen.json)


if __name__ == "__main__":
    main()
