"""Bias, error, coverage and width of the estimates: shrinkage, its bias taken off, mean matching, and the unbiased estimate.

    python benchmarks/estimates.py                           # 2,000 logs in each of four settings, tau = 0; minutes
    python benchmarks/estimates.py --scale 3 --method shrinkage --method bias_corrected
    python benchmarks/estimates.py --settings more           # settings beyond the paper's
    python benchmarks/estimates.py --settings random --method conditional_mle --method conditional_posterior
    python benchmarks/estimates.py --settings pulls --method shrinkage --method guarded_shrinkage --trials 500

Normal rewards with sigma 1 and the paper's means (times --scale), every arm pulled once first. The average bias left, the root
mean square of the biases left of the arms, and the mean squared error are in percent of those of the sample means; so is the root
mean squared error by thirds of the pulls that an arm got. The width is relative to the sample means' interval. --settings
random are those of the conditional likelihood, whose choices were random.
"""

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import numpy as np
from common import finish, machine, naive, parser, print_machine, timed

import jaxbias as jb

TWO, FIVE = (1.0, 0.75), (1.0, 0.75, 0.5, 0.38, 0.25)
ONE_OF_TWENTY = (1.0, *(0.0 for _ in range(19)))


class Setting(NamedTuple):
    name: str
    policy: Any
    mean: tuple[float, ...]
    num_steps: int
    family: Any = jb.Normal()
    design: Mapping[str, Any] = MappingProxyType({})


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
    "pulls": (
        Setting("lil'UCB T=300 K=3", jb.LilUCB(), (1.0, 0.75, 0.5), 300),
        Setting("Thompson T=300 K=3", jb.Thompson(), (1.0, 0.75, 0.5), 300),
        Setting("BetaThompson T=200, Bernoulli 0.3", jb.BetaThompson(), (0.3, 0.35), 200, jb.Bernoulli()),
        Setting("eps-Greedy T=200, Bernoulli 0.02", jb.EpsilonGreedy(0.1), (0.02, 0.03, 0.025), 200, jb.Bernoulli()),
        Setting("Thompson, 10 batches of 50", jb.Thompson(), (*FIVE, 0.0), 500, design={"batch_size": 50}),
        Setting("eps-Greedy T=3000, Bernoulli 0.3", jb.EpsilonGreedy(0.1), (0.30, 0.35, 0.32, 0.28), 3000, jb.Bernoulli()),
        Setting("eps-Greedy T=3000, Bernoulli 0.05", jb.EpsilonGreedy(0.1), (0.05, 0.06, 0.055, 0.045), 3000, jb.Bernoulli()),
    ),
}
METHODS = (
    "shrinkage",
    "bias_corrected",
    "guarded_shrinkage",
    "mean_matching",
    "unbiased",
    "unbiased_sums",
    "conditional_mle",
    "conditional_posterior",
)


def methods_of(names: Sequence[str], setting: Setting, num_paths: int, num_rounds: int) -> dict[str, Any]:
    """The sample mean and these methods, as functions for `evaluate`."""
    chains: Any = dict(num_chains=8, num_rounds=num_rounds)
    by_orders = None if isinstance(setting.family, jb.Normal) else setting.family
    known = {
        "shrinkage": lambda *given: jb.shrinkage(given[1], given[3]),
        "bias_corrected": partial(jb.bias_corrected, num_paths=num_paths),
        "guarded_shrinkage": partial(jb.guarded_shrinkage, num_paths=num_paths),
        "mean_matching": partial(jb.mean_matching, num_paths=num_paths),
        "unbiased": lambda *given: jb.unbiased(given[0], given[1], given[2], by_orders, **chains),
        "unbiased_sums": partial(jb.unbiased, **chains),
        "conditional_mle": partial(jb.conditional_mle, num_paths=num_paths),
        "conditional_posterior": partial(jb.conditional_mle, prior="hierarchical", num_paths=num_paths),
    }
    return {"sample_mean": naive, **{name: known[name] for name in names}}


def measure(setting: Setting, method: str, scale: float, trials: int, num_paths: int, num_rounds: int) -> dict[str, Any]:
    """One row of the table."""
    mean = np.asarray(setting.mean) * scale
    family = jb.Normal() if isinstance(setting.family, jb.Normal) else setting.family
    problem = (jax.random.key(5), setting.policy, family, mean, setting.num_steps)
    methods = methods_of([method], setting, num_paths, num_rounds)
    options: Any = dict(methods=methods, num_trials=trials, assumed=setting.family, **setting.design)
    seconds, _, found = timed(lambda: jb.evaluate(*problem, **options))
    original, ours = found.methods["sample_mean"], found.methods[method]
    bias, error = original.average_bias, ours.relative_rmse
    return {
        "setting": setting.name,
        "method": method,
        "seconds": seconds,
        "bias": bias,
        "left": 100 * ours.average_bias / bias,
        "left_stderr": 100 * ours.average_bias_stderr / abs(bias),
        "rms_left": 100 * ours.rms_bias / original.rms_bias,
        "mse": 100 * error**2,
        "mse_stderr": 200 * error * ours.relative_rmse_stderr,
        "by_pulls": (100 * ours.relative_rmse_by_pulls).tolist(),
        "by_pulls_stderr": (100 * ours.relative_rmse_by_pulls_stderr).tolist(),
        "coverage": 100 * ours.average_coverage,
        "least_coverage": 100 * float(np.min(ours.coverage)),
        "width": ours.average_width / original.average_width,
        "converged": 100 * float(np.mean(ours.usable)),
        "bias_by_arm": ours.bias.tolist(),
        "bias_by_arm_stderr": ours.bias_stderr.tolist(),
        "original_by_arm": original.bias.tolist(),
    }


def print_row(row: dict[str, Any] | None) -> None:
    columns = "{:34} {:14} {:>11} {:>4} {:>8} {:>27} {:>15} {:>5} {:>6} {:>7}  {}"
    if row is None:
        heads = (
            "% bias left",
            "rms",
            "% MSE",
            "% RMSE few, middle, many",
            "coverage, least",
            "width",
            "conv.",
            "seconds",
            "by arm",
        )
        print(columns.format("setting", "method", *heads))
        return
    left, mse = f"{row['left']:.0f} ± {row['left_stderr']:.0f}", f"{row['mse']:.0f} ± {row['mse_stderr']:.0f}"
    pulls = " ".join(f"{one:.0f} ± {error:.0f}" for one, error in zip(row["by_pulls"], row["by_pulls_stderr"], strict=True))
    coverage = f"{row['coverage']:.1f}, {row['least_coverage']:.1f}"
    numbers = (f"{row['rms_left']:.0f}", mse, pulls, coverage, f"{row['width']:.2f}", f"{row['converged']:.1f}")
    by_arm = " ".join(f"{bias:.3f}" for bias in row["bias_by_arm"][:5])
    print(columns.format(row["setting"], row["method"], left, *numbers, f"{row['seconds']:.1f}", by_arm), flush=True)


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
        for method in chosen.method or METHODS[:4]:
            if chosen.only is None or number in chosen.only:
                found["rows"].append(measure(setting, method, chosen.scale, chosen.trials, chosen.paths, chosen.rounds))
                print_row(found["rows"][-1])
    finish(found, chosen.json)


if __name__ == "__main__":
    main()
