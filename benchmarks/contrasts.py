"""Comparisons with a control: how often a p-value is below 5% where no arm differs, and where one is better.

    python benchmarks/contrasts.py                        # 2,000 logs of each cell; an hour
    python benchmarks/contrasts.py --only K=2 --trials 500

`size` is the share of p-values below 5% where all means are equal, over arms and logs; `z-test` that of the plain test of two
sample means. `any` is the share of logs in which some adjusted p-value is below 5%. `power` is the share for the second arm where
it is better by `ahead`; `corrected` that of the z-test, on the same logs, with the cut-off at which its size here is 5%, which
nobody knows outside a simulation. `others` is the share of logs in which, next to the better arm, some arm that does not differ
has an adjusted p-value below 5%.
"""

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from common import finish, machine, parser, print_machine, timed

import jaxbias as jb
from jaxbias.estimators.contrasts.adjusting import holm

NORMAL, BERNOULLI = jb.Normal(sigma=1.0), jb.Bernoulli()
POLICIES = (
    ("Greedy", jb.Greedy(), NORMAL, 0.5),
    ("eps-Greedy", jb.EpsilonGreedy(), NORMAL, 0.5),
    ("lil'UCB", jb.LilUCB(), NORMAL, 0.5),
    ("Thompson", jb.Thompson(), NORMAL, 0.5),
    ("BetaThompson", jb.BetaThompson(), BERNOULLI, 0.3),
)
SIZES = ((2, 50), (3, 150), (6, 300), (2, 500))
CUT_OFF_LOGS = 40_000  # from which the cut-off of the z-test comes


class Cell(NamedTuple):
    name: str
    policy: Any
    family: Any
    mean: tuple[float, ...]
    num_steps: int
    ahead: float


CELLS = [
    Cell(f"{name} K={arms} T={steps}", policy, family, (level,) * arms, steps, _ahead)
    for name, policy, family, level in POLICIES
    for arms, steps in SIZES
    for _ahead in [(4.0 if family is NORMAL else 1.8) * float(np.sqrt(arms / steps))]
]


def z_statistics(history: Any, family: Any) -> np.ndarray:
    """Of each arm against the first, as if the arms had been fixed; not a number counts as no difference."""
    plain = jb.sample_mean(history, family)
    mean, stderr = np.asarray(plain.mean), np.asarray(plain.stderr)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.nan_to_num((mean[:, 1:] - mean[:, :1]) / np.hypot(stderr[:, 1:], stderr[:, :1]))


def logs(cell: Cell, mean: Sequence[float], key: int, trials: int) -> Any:
    return jb.simulate(jax.random.key(key), cell.policy, cell.family, mean, cell.num_steps, trials, progress=False)


def tests(cell: Cell, history: Any, paths: int) -> dict[str, np.ndarray]:
    """The p-values of each arm against the first: plain, and adjusted in both ways."""
    found = jb.contrasts(jax.random.key(1), history, cell.policy, cell.family, control=0, num_paths=paths)
    plain = np.asarray(found.p_value)[:, 1:]
    by_holm = np.asarray(holm(found.p_value))[:, 1:]
    return {"plain": plain, "max-t": np.asarray(found.p_adjusted)[:, 1:], "holm": by_holm}


def measure(cell: Cell, trials: int, paths: int) -> dict[str, Any]:
    """One row of the table."""
    better = (cell.mean[0], cell.mean[1] + cell.ahead, *cell.mean[2:])
    null, other = logs(cell, cell.mean, 11, trials), logs(cell, better, 12, trials)
    cut_off = np.quantile(np.abs(z_statistics(logs(cell, cell.mean, 13, CUT_OFF_LOGS), cell.family)[:, 0]), 0.95)
    seconds, _, at_null = timed(lambda: tests(cell, null, paths))
    apart = tests(cell, other, paths)
    z_null, z_other = np.abs(z_statistics(null, cell.family)), np.abs(z_statistics(other, cell.family))
    shares = {
        "size": np.mean(at_null["plain"] < 0.05, axis=1),
        "z-test": np.mean(z_null > 1.959964, axis=1),
        "any max-t": np.any(at_null["max-t"] < 0.05, axis=1),
        "any holm": np.any(at_null["holm"] < 0.05, axis=1),
        "power": apart["plain"][:, 0] < 0.05,
        "corrected": z_other[:, 0] > cut_off,
        "more": (apart["plain"][:, 0] < 0.05).astype(float) - (z_other[:, 0] > cut_off),
        "others max-t": np.any(apart["max-t"][:, 1:] < 0.05, axis=1),
        "others holm": np.any(apart["holm"][:, 1:] < 0.05, axis=1),
    }
    figures = {name: (float(np.mean(share)), float(np.std(share) / np.sqrt(trials))) for name, share in shares.items()}
    return {"cell": cell.name, "ahead": cell.ahead, "seconds": seconds, **figures}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    words = parser(__doc__, repeats=1)
    words.add_argument("--trials", type=int, default=2000)
    words.add_argument("--paths", type=int, default=1024)
    words.add_argument("--only", default="", help="cells whose name has this in it")
    return words.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options, rows = parse(arguments), []
    print_machine(machine())
    for cell in (cell for cell in CELLS if options.only in cell.name):
        row = measure(cell, options.trials, options.paths)
        rows.append(row)
        figures = [name for name, value in row.items() if isinstance(value, tuple)]
        text = "  ".join(f"{name} {100 * row[name][0]:.1f}+-{100 * row[name][1]:.1f}" for name in figures)
        print(f"{row['cell']:24s} {text}  ahead {row['ahead']:.2f}  {row['seconds']:.0f} s", flush=True)
    finish({"machine": machine(), "trials": options.trials, "rows": rows}, options.json)


if __name__ == "__main__":
    main()
