"""What a test of two arms may assume of a third: its size wherever the third arm is, and its power.

    python benchmarks/nuisance.py                 # three arms, 150 steps, 10,000 logs of each cell; a minute of processor time

The statistic is the z-statistic of the first two arms. Where they are equal, its distribution depends on how far the third arm is
from them, d. A p-value averages the tail over what a rule says of d, given the log:

    flat     N(d observed, its variance): what `contrasts` does
    plug     d as observed
    shrunk   N(0, A) as the prior of d, A = max(0, d^2 - its variance)
    equal    d = 0: the z-test with the cut-off of size 5% where all arms are equal
    worst    the largest tail over the same values as `flat`

`size` is at third arms so many times `ahead` away from the two; `power` is where the second arm is better by `ahead` (and then by
twice that) than the two others.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from common import finish, machine, parser, print_machine
from scipy.special import ndtri

import jaxbias as jb

POLICIES = {"Greedy": jb.Greedy(), "eps-Greedy": jb.EpsilonGreedy(), "Thompson": jb.Thompson(), "lil'UCB": jb.LilUCB()}
ARMS, STEPS = 3, 150
AHEAD = 4 * np.sqrt(ARMS / STEPS)
PLACES = (-4, -2, -1, -0.5, 0, 0.5, 1, 2)  # of the third arm, times AHEAD
GRID = np.concatenate([np.arange(-4, -1, 0.25), np.arange(-1, 1, 0.1), np.arange(1, 4.01, 0.25)])  # d, where tails are known
CUTS = np.linspace(0, 5, 501)
DRAWS = ndtri((np.arange(32) + 0.5) / 32)  # quantiles of what is said of d


def simulate(policy: Any, mean: Sequence[float], key: int, trials: int) -> tuple[np.ndarray, np.ndarray]:
    """The pulls and sample means of each log."""
    history = jb.simulate(jax.random.key(key), policy, jb.Normal(sigma=1.0), mean, STEPS, trials, progress=False)
    return np.asarray(history.statistics.pulls, float), np.asarray(history.statistics.mean, float)


def z_statistic(pulls: np.ndarray, mean: np.ndarray) -> np.ndarray:
    return np.abs(mean[:, 1] - mean[:, 0]) / np.sqrt(1 / pulls[:, 0] + 1 / pulls[:, 1])


def known_tails(policy: Any, trials: int) -> np.ndarray:
    """P(|z| above each cut) at each d of the grid."""
    each = [np.sort(z_statistic(*simulate(policy, [0.5, 0.5, 0.5 + d], 100 + at, trials))) for at, d in enumerate(GRID)]
    return np.array([1 - np.searchsorted(z, CUTS) / trials for z in each])


def p_values(tails: np.ndarray, pulls: np.ndarray, mean: np.ndarray) -> dict[str, np.ndarray]:
    """Of each rule."""
    z = np.clip(np.round(z_statistic(pulls, mean) * 100).astype(int), 0, 500)[:, None]
    both = pulls[:, 0] + pulls[:, 1]
    observed = (mean[:, 2] - np.sum(pulls[:, :2] * mean[:, :2], axis=1) / both)[:, None]
    variance = (1 / pulls[:, 2] + 1 / both)[:, None]

    def tail(d: np.ndarray) -> np.ndarray:
        at = np.clip(np.searchsorted(GRID, d), 1, len(GRID) - 1)
        share = np.clip((d - GRID[at - 1]) / (GRID[at] - GRID[at - 1]), 0, 1)
        return (1 - share) * tails[at - 1, z] + share * tails[at, z]

    prior = np.maximum(0, observed**2 - variance)
    kept = prior / (prior + variance)
    spread = tail(observed + np.sqrt(variance) * DRAWS)
    shrunk = tail(kept * observed + np.sqrt(kept * variance) * DRAWS)
    equal = tail(np.zeros_like(observed))
    each = {"flat": spread, "plug": tail(observed), "shrunk": shrunk, "equal": equal}
    return {name: values.mean(axis=1) for name, values in each.items()} | {"worst": spread.max(axis=1)}


def measure(policy: Any, trials: int) -> dict[str, dict[str, list[float]]]:
    """Size and power of every rule, in percent."""
    tails = known_tails(policy, trials)
    cells = {"size": [[0.5, 0.5, 0.5 + place * AHEAD] for place in PLACES]}
    cells["power"] = [[0.5, 0.5 + times * AHEAD, 0.5] for times in (1, 2)]
    found: dict[str, dict[str, list[float]]] = {}
    for key, (figure, means) in enumerate(cells.items()):
        for mean in means:
            for name, p in p_values(tails, *simulate(policy, mean, key, trials)).items():
                found.setdefault(name, {}).setdefault(figure, []).append(100 * float(np.mean(p < 0.05)))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    words = parser(__doc__, repeats=1)
    words.add_argument("--trials", type=int, default=10_000)
    options, rows = words.parse_args(arguments), {}
    print_machine(machine())
    for policy, own in POLICIES.items():
        rows[policy] = measure(own, options.trials)
        for name, figures in rows[policy].items():
            text = "  ".join(f"{figure} " + " ".join(f"{share:5.1f}" for share in figures[figure]) for figure in figures)
            print(f"{policy:10s} {name:7s} {text}", flush=True)
    finish({"machine": machine(), "trials": options.trials, "places": PLACES, "rows": rows}, options.json)


if __name__ == "__main__":
    main()
