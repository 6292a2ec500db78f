"""Bias of the unbiased estimate, arm by arm, with its standard error, and its mean squared error against the sample means'.

    python benchmarks/unbiased.py                            # 200 logs of each cell, four short chains each; a quarter of an hour
    python benchmarks/unbiased.py --only T=16 --trials 2000
    python benchmarks/unbiased.py --sums                     # of Normal rewards given their sums

The cells are those of `intervals.py`. The chains start in equilibrium, so that short ones leave no bias and only add to the
error. The logs of the stopped cell differ in length, and each length is compiled for: some minutes.
"""

import argparse
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from common import finish, machine, parser, print_machine, timed
from intervals import OTHERS, Cell, paper_cells

import jaxbias as jb


def measure(cell: Cell, trials: int, chains: int, rounds: int, sums: bool) -> dict[str, Any]:
    """One row of the table."""
    design: Any = {name: value for name, value in cell.design.items() if name in ("batch_size", "stop")}
    rule = {name: value for name, value in design.items() if name == "stop"}
    problem = (jax.random.key(11), cell.policy, cell.family, cell.mean, cell.num_steps, trials)
    logs = jb.simulate(*problem, progress=False, **design)
    family = cell.family if sums or not isinstance(cell.family, jb.Normal) else None
    given = (jax.random.key(1), logs, cell.policy, family)
    seconds, _, found = timed(lambda: jb.unbiased(*given, num_chains=chains, num_rounds=rounds, **rule))
    off = np.asarray(found.mean, np.float64) - cell.mean
    plain = np.asarray(logs.statistics.mean, np.float64) - cell.mean
    stderr = off.std(axis=0, ddof=1) / np.sqrt(trials)
    return {
        "cell": cell.name,
        "bias": off.mean(axis=0).tolist(),
        "stderr": stderr.tolist(),
        "worst": float(np.max(np.abs(off.mean(axis=0)) / stderr)),
        "naive": plain.mean(axis=0).tolist(),
        "mse": float(100 * np.square(off).mean() / np.square(plain).mean()),
        "seconds": seconds,
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    words = parser(__doc__, repeats=1)
    words.add_argument("--trials", type=int, default=200)
    words.add_argument("--chains", type=int, default=4)
    words.add_argument("--rounds", type=int, default=20)
    words.add_argument("--only", default="", help="cells whose name has this in it")
    words.add_argument("--sums", action="store_true", help="Normal rewards given their sums")
    return words.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options, rows = parse(arguments), []
    print_machine(machine())
    print(f"{options.trials} logs of each cell, {options.chains} chains of {options.rounds} rounds")
    for cell in (cell for cell in (*paper_cells(0.0), *paper_cells(1.0), *OTHERS) if options.only in cell.name):
        row = measure(cell, options.trials, options.chains, options.rounds, options.sums)
        rows.append(row)
        arms = "  ".join(f"{bias:+.3f} ± {error:.3f}" for bias, error in zip(row["bias"], row["stderr"], strict=True))
        print(
            f"{row['cell']:34s} worst {row['worst']:4.1f} errors  MSE {row['mse']:4.0f}%  {row['seconds']:5.1f} s  {arms}",
            flush=True,
        )
    finish({"machine": machine(), "trials": options.trials, "rows": rows}, options.json)


if __name__ == "__main__":
    main()
