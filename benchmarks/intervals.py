"""Coverage and width of the intervals of test inversion; contrasts.py has its p-values.

    python benchmarks/intervals.py                        # 2,000 logs of each cell; half an hour
    python benchmarks/intervals.py --only T=300 --trials 500

The cells are those of the paper's Tables 2 and 3 and of its table of Thompson sampling, without noise and with tau = 1, and some
beyond them. Each is a call of `jb.evaluate`. `least` is the coverage of the arm that is covered least; `low` and `high` are the
shares of intervals below and above the mean; the width is relative to that of the sample mean's interval.
"""

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from common import finish, machine, parser, print_machine, timed
from scipy import stats

import jaxbias as jb

TWO, THREE, FIVE = (1.0, 0.75), (1.0, 0.75, 0.5), (1.0, 0.75, 0.5, 0.38, 0.25)
INDEX = {"lil'UCB": jb.LilUCB, "eps-Greedy": jb.EpsilonGreedy, "Greedy": jb.Greedy}


class Cell(NamedTuple):
    name: str
    policy: Any
    mean: tuple[float, ...]
    num_steps: int
    family: Any = jb.Normal(sigma=1.0)
    design: Mapping[str, Any] = MappingProxyType({})


def paper_cells(tau: float) -> list[Cell]:
    cells = [
        Cell(f"{name} tau={tau:g} T={steps} K={len(mean)}", kind(tau=tau), mean, steps)
        for steps, mean in ((8, TWO), (16, TWO), (20, FIVE), (40, FIVE))
        for name, kind in INDEX.items()
    ]
    sizes = ((24, TWO), (32, TWO), (60, FIVE), (80, FIVE))
    return cells + [Cell(f"Thompson tau={tau:g} T={t} K={len(mean)}", jb.Thompson(tau=tau), mean, t) for t, mean in sizes]


BERNOULLI = jb.Bernoulli()
OTHERS = [
    Cell("lil'UCB T=300 K=3", jb.LilUCB(), THREE, 300),
    Cell("Thompson T=300 K=3", jb.Thompson(), THREE, 300),
    Cell("BetaThompson T=200 Bernoulli 0.3", jb.BetaThompson(), (0.3, 0.35), 200, BERNOULLI),
    Cell("eps-Greedy T=200 Bernoulli 0.3", jb.EpsilonGreedy(), (0.3, 0.35), 200, BERNOULLI),
    Cell("BetaThompson T=200 Bernoulli 0.02", jb.BetaThompson(), (0.02, 0.03, 0.025), 200, BERNOULLI),
    Cell("eps-Greedy T=200 Bernoulli 0.02", jb.EpsilonGreedy(), (0.02, 0.03, 0.025), 200, BERNOULLI),
    Cell("Greedy T=40 K=3 sigma unknown", jb.Greedy(), THREE, 40, design={"assumed": jb.Normal(sigma=None)}),
    Cell("lil'UCB T=40 K=3 sigma unknown", jb.LilUCB(), THREE, 40, design={"assumed": jb.Normal(sigma=None)}),
    Cell("Thompson 10 batches of 50 K=6", jb.Thompson(), (*FIVE, 0.0), 500, design={"batch_size": 50}),
    Cell("Greedy T=60 K=2 stopped", jb.Greedy(), TWO, 60, design={"stop": jb.StopAtDifference(threshold=0.8, first=8)}),
]


def naive(_: Any, history: Any, __: Any, family: Any) -> Any:
    """The sample means; where sigma is estimated, with Student's interval and one sigma for all arms, as test inversion has."""
    plain = jb.sample_mean(history, jb.Normal(sigma=1.0) if family == jb.Normal(sigma=None) else family)
    if family != jb.Normal(sigma=None):
        return plain
    of_arm = jnp.take_along_axis(history.statistics.mean, history.arms, axis=1)
    freedom = history.num_steps - history.num_arms
    sigma = jnp.sqrt(jnp.sum(jnp.square(history.rewards - of_arm), axis=1, keepdims=True) / freedom)
    half = float(stats.t(freedom).ppf(0.975)) * sigma * plain.stderr
    return dataclasses.replace(plain, stderr=sigma * plain.stderr, lower=plain.mean - half, upper=plain.mean + half)


def measure(cell: Cell, trials: int, paths: int) -> dict[str, Any]:
    """One row of the table."""

    def inverted(key: Any, history: Any, policy: Any, family: Any) -> Any:
        ending = {} if "stop" not in cell.design else {"stop": cell.design["stop"]}
        return jb.test_inversion(key, history, policy, family, num_paths=paths, **ending)

    methods: Any = {"sample_mean": naive, "test_inversion": inverted}
    problem = (jax.random.key(11), cell.policy, cell.family, cell.mean, cell.num_steps)
    seconds, _, found = timed(lambda: jb.evaluate(*problem, methods=methods, num_trials=trials, **cell.design))
    ours, plain = found.methods["test_inversion"], found.methods["sample_mean"]
    return {
        "cell": cell.name,
        "coverage": ours.average_coverage,
        "stderr": ours.average_coverage_stderr,
        "least": float(np.min(ours.coverage)),
        "low": float(np.mean(ours.too_low)),
        "high": float(np.mean(ours.too_high)),
        "width": ours.average_width / plain.average_width,
        "naive": plain.average_coverage,
        "usable": float(np.min(ours.usable)),
        "seconds": seconds,
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    words = parser(__doc__, repeats=1)
    words.add_argument("--trials", type=int, default=2000)
    words.add_argument("--paths", type=int, default=1024)
    words.add_argument("--only", default="", help="cells whose name has this in it")
    return words.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options, rows = parse(arguments), []
    print_machine(machine())
    cells = [*paper_cells(0.0), *paper_cells(1.0), *OTHERS]
    for cell in (cell for cell in cells if options.only in cell.name):
        row = measure(cell, options.trials, options.paths)
        rows.append(row)
        print(
            f"{row['cell']:36s} coverage {100 * row['coverage']:5.1f}% +- {100 * row['stderr']:.1f}"
            f"  least {100 * row['least']:5.1f}  low {100 * row['low']:4.1f} high {100 * row['high']:4.1f}"
            f"  width {row['width']:5.3f}  naive {100 * row['naive']:5.1f}%  usable {100 * row['usable']:5.1f}"
            f"  {row['seconds']:.1f} s",
            flush=True,
        )
    finish({"machine": machine(), "trials": options.trials, "rows": rows}, options.json)


if __name__ == "__main__":
    main()
