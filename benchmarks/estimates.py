"""Bias, error, coverage and width of the estimates: shrinkage, its bias taken off, mean matching, and the unbiased estimate.

    python benchmarks/estimates.py                           # 2,000 logs in each of four settings, tau = 0; minutes
    python benchmarks/estimates.py --scale 3 --method shrinkage --method bias_corrected
    python benchmarks/estimates.py --settings more           # settings beyond the paper's
    python benchmarks/estimates.py --settings random --method conditional_mle --method conditional_posterior

Normal rewards with sigma 1 and the paper's means (times --scale), every arm pulled once first. The average bias left, the root
mean square of the biases left of the arms, and the mean squared error are in percent of those of the sample means; the width is
relative to the sample means' interval. --settings random are those of the conditional likelihood, whose choices were random.
"""

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from common import finish, machine, parser, print_machine, timed

import jaxbias as jb

TWO, FIVE = (1.0, 0.75), (1.0, 0.75, 0.5, 0.38, 0.25)
ONE_OF_TWENTY = (1.0, *(0.0 for _ in range(19)))


class Setting(NamedTuple):
    name: str
    policy: Any
    mean: tuple[float, ...]
    num_steps: int
    family: Any = jb.Normal()


SETTINGS = {
    "paper": (
        Setting("lil'UCB T=16 K=2", jb.LilUCB(), TWO, 16),
        Setting("lil'UCB T=40 K=5", jb.LilUCB(), FIVE, 40),
        Setting("Greedy T=40 K=5", jb.Greedy(), FIVE, 40),
        Setting("Thompson T=80 K=5", jb.Thompson(), FIVE, 80),
    ),
    "more": (
        Setting("eps-Greedy T=40 K=5", jb.EpsilonGreedy(0.1), FIVE, 40),
        Setting("lil'UCB T=40 K=5, equal means", jb.LilUCB(), (0.5,) * 5, 40),
        Setting("lil'UCB T=200 K=20, one good arm", jb.LilUCB(), ONE_OF_TWENTY, 200),
        Setting("Greedy T=200 K=20, one good arm", jb.Greedy(), ONE_OF_TWENTY, 200),
        Setting("lil'UCB T=200 K=20, evenly spread", jb.LilUCB(), tuple(np.linspace(0, 2, 20).tolist()), 200),
        Setting("lil'UCB T=1000 K=3", jb.LilUCB(), (1.0, 0.75, 0.5), 1000),
        Setting("Thompson T=300 K=3", jb.Thompson(), (1.0, 0.75, 0.5), 300),
        Setting("Greedy T=40 K=5, sigma unknown", jb.Greedy(), FIVE, 40, jb.Normal(sigma=None)),
        Setting("eps-Greedy T=200, Bernoulli", jb.EpsilonGreedy(0.1), (0.3, 0.35), 200, jb.Bernoulli()),
        Setting("BetaThompson T=200, Bernoulli", jb.BetaThompson(), (0.02, 0.03, 0.025), 200, jb.Bernoulli()),
    ),
    "random": (
        Setting("Greedy tau=1 T=16 K=2", jb.Greedy(tau=1.0), TWO, 16),
        Setting("lil'UCB tau=1 T=16 K=2", jb.LilUCB(tau=1.0), TWO, 16),
        Setting("Greedy tau=1 T=40 K=5", jb.Greedy(tau=1.0), FIVE, 40),
        Setting("lil'UCB tau=1 T=40 K=5", jb.LilUCB(tau=1.0), FIVE, 40),
        Setting("Thompson T=24 K=2", jb.Thompson(), TWO, 24),
        Setting("Thompson T=32 K=2", jb.Thompson(), TWO, 32),
        Setting("Thompson T=60 K=5", jb.Thompson(), FIVE, 60),
        Setting("Thompson T=80 K=5", jb.Thompson(), FIVE, 80),
        Setting("eps-Greedy T=200, 0.3/0.35", jb.EpsilonGreedy(0.1), (0.3, 0.35), 200, jb.Bernoulli()),
        Setting("BetaThompson T=200, 0.3/0.35", jb.BetaThompson(), (0.3, 0.35), 200, jb.Bernoulli()),
        Setting("eps-Greedy T=200, 0.02/0.03/0.025", jb.EpsilonGreedy(0.1), (0.02, 0.03, 0.025), 200, jb.Bernoulli()),
        Setting("BetaThompson T=200, 0.02/0.03/0.025", jb.BetaThompson(), (0.02, 0.03, 0.025), 200, jb.Bernoulli()),
    ),
}
METHODS = (
    "shrinkage",
    "bias_corrected",
    "mean_matching",
    "unbiased",
    "unbiased_sums",
    "conditional_mle",
    "conditional_posterior",
)


FIGURES = (("left", 0), ("mse", 0), ("coverage", 1))  # with their digits


def estimate(method: str, history: jb.History, setting: Setting, num_paths: int, num_rounds: int) -> Any:
    key, given = jax.random.key(1), (history, setting.policy, setting.family)
    if method == "shrinkage":
        return jb.shrinkage(history, setting.family)
    if method in ("unbiased", "unbiased_sums"):
        family = None if method == "unbiased" and isinstance(setting.family, jb.Normal) else setting.family
        return jb.unbiased(key, *given[:2], family, num_chains=8, num_rounds=num_rounds)
    return getattr(jb, method)(key, *given, num_paths=num_paths)


def measure(setting: Setting, method: str, scale: float, trials: int, num_paths: int, num_rounds: int) -> dict[str, Any]:
    """One row of the table."""
    mean = np.asarray(setting.mean) * scale
    family = jb.Normal() if isinstance(setting.family, jb.Normal) else setting.family
    history = jb.simulate(
        jax.random.key(5),
        setting.policy,
        family,
        jnp.asarray(mean, jnp.float32),
        num_steps=setting.num_steps,
        num_trials=trials,
        progress=False,
    )
    naive = jb.sample_mean(history, setting.family)
    seconds, _, found = timed(lambda: estimate(method, history, setting, num_paths, num_rounds))
    original, off = (np.asarray(one.mean, float) - mean for one in (naive, found))
    width, naive_width = (np.asarray(one.upper - one.lower, float) for one in (found, naive))
    inside = (np.asarray(found.lower) <= mean) & (np.asarray(found.upper) >= mean)
    bias, rms = original.mean(), np.sqrt(np.square(original.mean(axis=0)).mean())
    finite = np.isfinite(naive_width) & np.isfinite(width)
    squares, original_squares = np.square(off), np.square(original)
    share = squares.mean() / original_squares.mean()
    apart = squares.mean(axis=1) - share * original_squares.mean(axis=1)  # for the standard error of a ratio
    return {
        "setting": setting.name,
        "method": method,
        "seconds": seconds,
        "bias": bias,
        "left": 100 * off.mean() / bias,
        "left_stderr": 100 * off.mean(axis=1).std() / np.sqrt(trials) / abs(bias),
        "rms_left": 100 * np.sqrt(np.square(off.mean(axis=0)).mean()) / rms,
        "mse": 100 * share,
        "mse_stderr": 100 * apart.std() / np.sqrt(trials) / original_squares.mean(),
        "mse_by_arm": (100 * squares.mean(axis=0) / original_squares.mean(axis=0)).tolist(),
        "coverage": 100 * inside.mean(),
        "coverage_stderr": 100 * inside.mean(axis=1).std() / np.sqrt(trials),
        "coverage_by_arm": (100 * inside.mean(axis=0)).tolist(),
        "least_coverage": 100 * inside.mean(axis=0).min(),
        "width": width[finite].mean() / naive_width[finite].mean(),
        "converged": 100 * float(np.mean(found.converged)),
        "bias_by_arm": off.mean(axis=0).tolist(),
        "bias_by_arm_stderr": (off.std(axis=0) / np.sqrt(trials)).tolist(),
        "original_by_arm": original.mean(axis=0).tolist(),
    }


def print_row(row: dict[str, Any] | None) -> None:
    columns = "{:35} {:21} {:>12} {:>5} {:>11} {:>18} {:>6} {:>6} {:>8}  {}"
    if row is None:
        names = ("setting", "method", "% bias left", "rms", "% MSE", "coverage, least", "width", "conv.", "seconds")
        print(columns.format(*names, "bias and % MSE by arm"))
        return
    by_arm = " ".join(f"{bias:.3f}" for bias in row["bias_by_arm"][:5])
    by_arm += ", " + " ".join(f"{mse:.0f}" for mse in row["mse_by_arm"][:5])
    left, mse, coverage = (f"{row[name]:.{digits}f} ± {row[f'{name}_stderr']:.{digits}f}" for name, digits in FIGURES)
    numbers = (f"{row['rms_left']:.0f}", mse, f"{coverage}, {row['least_coverage']:.1f}", f"{row['width']:.2f}")
    last = (f"{row['converged']:.1f}", f"{row['seconds']:.1f}", by_arm)
    print(columns.format(row["setting"], row["method"], left, *numbers, *last), flush=True)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    options = parser(__doc__, 1)
    options.add_argument("--trials", type=int, default=2_000)
    options.add_argument("--paths", type=int, default=512)
    options.add_argument("--rounds", type=int, default=200, help="of each of eight chains, for the unbiased estimates")
    options.add_argument("--scale", type=float, default=1.0, help="of the means")
    options.add_argument("--settings", choices=SETTINGS, default="paper")
    options.add_argument(
        "--method", action="append", choices=METHODS, help="several are allowed; all but the unbiased without it"
    )
    options.add_argument("--only", type=int, action="append", help="the number of a setting, from 0; several are allowed")
    chosen = options.parse_args(arguments)
    if chosen.trials < 2:
        options.error("allowed: --trials 2 or more")
    return chosen


def main(arguments: Sequence[str] | None = None) -> None:
    chosen = parse(arguments)
    found: dict[str, Any] = {"machine": machine(), "trials": chosen.trials, "scale": chosen.scale}
    print_machine(found["machine"])
    print(f"\n{chosen.trials:,} logs in each setting, means times {chosen.scale:g}, {chosen.paths} paths")
    print_row(None)
    found["rows"] = []
    for number, setting in enumerate(SETTINGS[chosen.settings]):
        for method in chosen.method or METHODS[:3]:
            if chosen.only is None or number in chosen.only:
                found["rows"].append(measure(setting, method, chosen.scale, chosen.trials, chosen.paths, chosen.rounds))
                print_row(found["rows"][-1])
    finish(found, chosen.json)


if __name__ == "__main__":
    main()
