"""The error of `guarded_shrinkage`, which `debias` recommends, by how often an arm was pulled: many logs of every cell.

    python benchmarks/by_pulls.py                                  # 1,000 logs of each cell; some minutes
    python benchmarks/by_pulls.py --method shrinkage --only Thompson

The cells are those of `recommended.py`, which runs the whole of `debias` on a few logs; here each is a call of `jb.evaluate`.
Root mean squared errors in percent of the sample means', over all arms and logs, and in the thirds of the logs that pulled an arm
the least, the middle, and the most.
"""

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
from common import finish, machine, naive, parser, print_machine
from recommended import CELLS

import jaxbias as jb

METHODS: dict[str, Any] = {
    "guarded_shrinkage": lambda paths: partial(jb.guarded_shrinkage, num_paths=paths, interval="delta"),
    "bias_corrected": lambda paths: partial(jb.bias_corrected, num_paths=paths, interval="delta"),
    "shrinkage": lambda _: lambda *given: jb.shrinkage(given[1], given[3]),
}


def measure(cell: Any, method: str, trials: int, paths: int) -> dict[str, Any]:
    """One row of the table."""
    design, rule = dict(cell.design), {name: cell.design[name] for name in ("stop",) if name in cell.design}
    own = METHODS[method](paths)
    if rule and method != "shrinkage":
        own = partial(own, num_steps=cell.num_steps, **rule)
    problem = (jax.random.key(23), cell.policy, cell.family, cell.mean, cell.num_steps)
    found = jb.evaluate(*problem, methods={"sample_mean": naive, method: own}, num_trials=trials, **design)
    ours, plain = found.methods[method], found.methods["sample_mean"]
    return {
        "all": (ours.relative_rmse, ours.relative_rmse_stderr),
        "thirds": list(zip(ours.relative_rmse_by_pulls.tolist(), ours.relative_rmse_by_pulls_stderr.tolist(), strict=True)),
        "rms_bias": ours.rms_bias / plain.rms_bias,
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    options = parser(__doc__, repeats=1)
    options.add_argument("--trials", type=int, default=1000)
    options.add_argument("--paths", type=int, default=256)
    options.add_argument("--method", choices=METHODS, default="guarded_shrinkage")
    options.add_argument("--only", default="", help="cells whose name has this in it")
    return options.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    chosen = parse(arguments)
    found: dict[str, Any] = {"machine": machine(), "trials": chosen.trials, "method": chosen.method, "cells": {}}
    print_machine(found["machine"])
    show = lambda pair: f"{100 * pair[0]:.1f} ± {100 * pair[1]:.1f}"
    print(f"{chosen.method:36} {'all':>12}   {'few, middle, many pulls':44} RMS bias left")
    for cell in (cell for cell in CELLS if chosen.only in cell.name):
        row = found["cells"][cell.name] = measure(cell, chosen.method, chosen.trials, chosen.paths)
        print(
            f"{cell.name:36} {show(row['all']):>12}   {', '.join(map(show, row['thirds'])):44} {100 * row['rms_bias']:.0f}%",
            flush=True,
        )
    finish(found, chosen.json)


if __name__ == "__main__":
    main()
