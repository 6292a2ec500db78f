"""Comparisons with a control: how often a p-value is below 5% where no arm differs, and where one is better.

    python benchmarks/contrasts.py --paths 512            # 2,000 logs of each cell: about 20 minutes of processor time
    python benchmarks/contrasts.py --only K=2 --trials 500

`size` is the share of p-values below 5% where all means are equal, over arms and logs; `z-test` that of the plain test of two
sample means. `any` is the share of logs in which some adjusted p-value is below 5%. `power` is the share for the second arm where
it is better by `ahead`, `others` that of logs in which, next to it, an arm that does not differ has an adjusted p-value below 5%.

Beside the power are those of two z-tests with simulated cut-offs, on the same logs. `valid`: the cut-off with which it rejects 5%
at most whatever the mean of the pair and the means of the other arms are, among those of `nulls`. `equal`: the cut-off with
which it rejects 5% where all arms are equal; `elsewhere` is the most it then rejects at another null. Nobody knows the means of
the other arms, so that a test with this cut-off has no size of 5%. Both need the true means to be simulated; `power` does not.

`bound` is the power of the most powerful test of one of the nulls, the pair at the better mean, against the means of the cell and
those with the pair exchanged (Neyman and Pearson). It knows all of these means. No test that treats the two arms alike and
rejects at most 5% at that null has more power.

The p-values are those of `jb.contrasts` with `max_rounds=1`, without its intervals.
"""

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from common import finish, machine, parser, print_machine, timed

import jaxbias as jb
from jaxbias.estimators.contrasts.adjusting import holm, largest_statistic, one_p_value
from jaxbias.estimators.inversion.question import ask, invert, weigh
from jaxbias.estimators.inversion.tilting import log_ratio

NORMAL, BERNOULLI = jb.Normal(sigma=1.0), jb.Bernoulli()
POLICIES = (
    ("Greedy", jb.Greedy(), NORMAL, 0.5),
    ("eps-Greedy", jb.EpsilonGreedy(), NORMAL, 0.5),
    ("lil'UCB", jb.LilUCB(), NORMAL, 0.5),
    ("Thompson", jb.Thompson(), NORMAL, 0.5),
    ("BetaThompson", jb.BetaThompson(), BERNOULLI, 0.3),
)
SIZES = ((2, 50), (3, 150), (6, 300), (2, 500), (3, 500), (6, 500))
CUT_OFF_LOGS = 100_000  # of each cut-off of the z-test: an error of 0.2 points of power; with 20,000 it was 1 in one cell
TWO_SIDED = 1.959964  # the cut-off of the plain z-test


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
    question = ask(history, cell.policy, cell.family, paths, None, None)
    arms = len(cell.mean)
    weighted = weigh(np.eye(arms)[1:] - np.eye(arms)[:1], question.history)
    tails = invert(jax.random.key(1), question, weighted, None, 0.0, max_rounds=1).null_tails
    assert tails is not None
    plain = one_p_value(tails[..., 0], tails[..., 1], "two-sided")
    together = largest_statistic(jax.random.key(2), question, weighted, plain, "two-sided") if arms > 2 else plain
    return {name: np.asarray(p) for name, p in (("plain", plain), ("max-t", together), ("holm", holm(plain)))}


def nulls(cell: Cell) -> list[tuple[float, ...]]:
    """Means at which the first two arms do not differ, the others being equal, better or worse: the one of the cell first."""
    level, others = cell.mean[0], len(cell.mean) - 2
    lowest = cell.family.mean_range[0] + 0.02
    pairs = [level, level + cell.ahead / 2, level + cell.ahead]
    rest = [level, level - cell.ahead, level + cell.ahead] if others else [level]
    return [(pair, pair, *(max(other, lowest),) * others) for pair in pairs for other in rest]


def cut_offs(cell: Cell) -> tuple[float, float, float]:
    """Of the z-test: valid at every null; of size 5% where all arms are equal; and the largest size of that at any null."""
    simulated = [np.abs(z_statistics(logs(cell, mean, 13, CUT_OFF_LOGS), cell.family)[:, 0]) for mean in nulls(cell)]
    each = [float(np.quantile(z, 0.95)) for z in simulated]
    return max(each), each[0], max(float(np.mean(z > each[0])) for z in simulated)


def best_power(cell: Cell) -> float:
    """Of the likelihood ratio of two points, with the alternative and its mirror image taken together."""
    low, rest = cell.mean[0], cell.mean[2:]
    high = low + cell.ahead
    null, apart, mirrored = (high, high, *rest), (low, high, *rest), (high, low, *rest)

    def ratio(mean: Sequence[float], key: int) -> np.ndarray:
        found = logs(cell, mean, key, CUT_OFF_LOGS).statistics
        each = [_log_ratio(cell.family, found, other, null) for other in (apart, mirrored)]
        return np.logaddexp(*each)

    return float(np.mean(ratio(apart, 14) > np.quantile(ratio(null, 15), 0.95)))


def _log_ratio(family: Any, found: Any, mean: Sequence[float], null: Sequence[float]) -> np.ndarray:
    """log p(mean) - log p(null) of each log, from its pulls and sums."""
    here, there = jnp.asarray(mean), jnp.asarray(null)
    residual = found.total - found.pulls * there[None]
    return np.asarray(log_ratio(family, here, there, found.pulls, residual, jnp.ones(())), float).sum(axis=1)


def measure(cell: Cell, trials: int, paths: int) -> dict[str, Any]:
    """One row of the table."""
    better = (cell.mean[0], cell.mean[1] + cell.ahead, *cell.mean[2:])
    null, other = logs(cell, cell.mean, 11, trials), logs(cell, better, 12, trials)
    valid, equal, elsewhere = cut_offs(cell)
    _, seconds, (at_null, apart) = timed(lambda: (tests(cell, null, paths), tests(cell, other, paths)))
    z_null, z_other = np.abs(z_statistics(null, cell.family)), np.abs(z_statistics(other, cell.family))
    found = (apart["plain"][:, 0] < 0.05).astype(float)
    shares = {
        "size": np.mean(at_null["plain"] < 0.05, axis=1),
        "z-test": np.mean(z_null > TWO_SIDED, axis=1),
        "any max-t": np.any(at_null["max-t"] < 0.05, axis=1),
        "any holm": np.any(at_null["holm"] < 0.05, axis=1),
        "power": found,
        "valid": z_other[:, 0] > valid,
        "more than valid": found - (z_other[:, 0] > valid),
        "equal": z_other[:, 0] > equal,
        "more than equal": found - (z_other[:, 0] > equal),
        "others max-t": np.any(apart["max-t"][:, 1:] < 0.05, axis=1),
        "others holm": np.any(apart["holm"][:, 1:] < 0.05, axis=1),
    }
    figures = {name: (float(np.mean(share)), float(np.std(share) / np.sqrt(trials))) for name, share in shares.items()}
    known = {"cell": cell.name, "ahead": cell.ahead, "elsewhere": elsewhere, "bound": best_power(cell), "seconds": seconds}
    return {**known, **figures}


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
        ends = f"elsewhere {100 * row['elsewhere']:.1f}  bound {100 * row['bound']:.1f}  ahead {row['ahead']:.2f}"
        print(f"{row['cell']:24s} {text}  {ends}  {row['seconds']:.0f} s of processor time", flush=True)
    finish({"machine": machine(), "trials": options.trials, "rows": rows}, options.json)


if __name__ == "__main__":
    main()
