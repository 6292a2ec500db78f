"""Bias of the unbiased estimate, arm by arm, with its standard error, and its mean squared error against the sample means'.

    python benchmarks/unbiased.py                            # 200 logs of each cell, four short chains each; a quarter of an hour
    python benchmarks/unbiased.py --only T=16 --trials 2000
    python benchmarks/unbiased.py --sums                     # of Normal rewards given their sums
    python benchmarks/unbiased.py --long --trials 3          # one log of 1,000 steps and 10 arms at a time: time and mixing

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


LONG_MEANS, LONG_STEPS = tuple(np.linspace(1, 0, 10).tolist()), 1000
LONG = {
    "Greedy tau=1": jb.Greedy(tau=1.0),
    "lil'UCB": jb.LilUCB(),
    "lil'UCB tau=1": jb.LilUCB(tau=1.0),
    "eps-Greedy": jb.EpsilonGreedy(),
    "Thompson": jb.Thompson(),
}


def measure_long(name: str, number: int, sums: bool) -> dict[str, Any]:
    """One long log with the default chains: seconds, of which the first log's have compiling in them, and how they mix."""
    key, family = jax.random.fold_in(jax.random.key(11), number), jb.Normal(sigma=1.0)
    log = jb.simulate(key, LONG[name], family, LONG_MEANS, LONG_STEPS, progress=False)
    clock, processor, found = timed(lambda: jb.unbiased(jax.random.key(1), log, LONG[name], family if sums else None))
    diagnostics = {name: np.asarray(value) for name, value in found.diagnostics.items()}
    return {
        "cell": f"{name}, log {number}",
        "clock": clock,
        "processor": processor,
        "r_hat": float(diagnostics["r_hat"].max()),
        "effective": float(diagnostics["effective_sample_size"].min()),
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    words = parser(__doc__, repeats=1)
    words.add_argument("--trials", type=int, default=200)
    words.add_argument("--chains", type=int, default=4)
    words.add_argument("--rounds", type=int, default=20)
    words.add_argument("--only", default="", help="cells whose name has this in it")
    words.add_argument("--sums", action="store_true", help="Normal rewards given their sums")
    words.add_argument("--long", action="store_true", help="logs of 1,000 steps and 10 arms, --trials of each policy")
    return words.parse_args(arguments)


def show_long(options: argparse.Namespace) -> list[dict[str, Any]]:
    """A line for each long log."""
    rows = []
    for name in (name for name in LONG if options.only in name):
        for number in range(options.trials):
            row = measure_long(name, number, options.sums)
            rows.append(row)
            mixing = f"largest R-hat {row['r_hat']:.3f}, least effective sample size {row['effective']:.0f}"
            print(f"{row['cell']:24s} {row['clock']:6.1f} s, {row['processor']:6.1f} s of processor time  {mixing}", flush=True)
    return rows


def show_cells(options: argparse.Namespace) -> list[dict[str, Any]]:
    """A line for each cell."""
    rows = []
    print(f"{options.trials} logs of each cell, {options.chains} chains of {options.rounds} rounds")
    for cell in (cell for cell in (*paper_cells(0.0), *paper_cells(1.0), *OTHERS) if options.only in cell.name):
        row = measure(cell, options.trials, options.chains, options.rounds, options.sums)
        rows.append(row)
        arms = "  ".join(f"{bias:+.3f} ± {error:.3f}" for bias, error in zip(row["bias"], row["stderr"], strict=True))
        print(
            f"{row['cell']:34s} worst {row['worst']:4.1f} errors  MSE {row['mse']:4.0f}%  {row['seconds']:5.1f} s  {arms}",
            flush=True,
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    print_machine(machine())
    rows = show_long(options) if options.long else show_cells(options)
    finish({"machine": machine(), "trials": options.trials, "rows": rows}, options.json)


if __name__ == "__main__":
    main()
