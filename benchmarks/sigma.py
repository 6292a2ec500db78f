"""Bias left and coverage where sigma is not known, beside the same where it is.

    python benchmarks/sigma.py                    # 1,000 logs of each policy

Logs of 40 steps, three arms (1.0, 0.75, 0.5), Normal rewards of sigma 1, every arm pulled once first. Bias is the average over
arms; what is left of it is in percent of that of the sample means of the policy without noise (as in the paper's tables), and of
the sample means of the same logs. Coverage is of 95% intervals, over all arms of all logs; standard errors are over logs. Only
estimates that have converged count.
"""

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from common import finish, machine, naive, parser, print_machine, timed

import jaxbias as jb

MEAN, STEPS, LOGS = np.array([1.0, 0.75, 0.5]), 40, 1_000
FAMILIES = {"known": jb.Normal(sigma=1.0), "one": jb.Normal(sigma=None), "each": jb.Normal(sigma="each")}
METHODS: dict[str, Any] = {
    "conditional_mle": partial(jb.conditional_mle, num_paths=256),
    "mean_matching": partial(jb.mean_matching, num_paths=1024),
}
POLICIES = {  # with the noise that the logs have, without it, and the methods that apply
    "Greedy, tau 1": (jb.Greedy(tau=1.0), jb.Greedy(), tuple(METHODS)),
    "lil' UCB, tau 1": (jb.LilUCB(tau=1.0), jb.LilUCB(), tuple(METHODS)),
    "eps-Greedy, tau 1": (jb.EpsilonGreedy(epsilon=0.1, tau=1.0), jb.EpsilonGreedy(epsilon=0.1), tuple(METHODS)),
    "Greedy, tau 0": (jb.Greedy(), jb.Greedy(), ("mean_matching",)),
}


def measure(policy: Any, original: float, method: str, sigma: str, logs: int) -> dict[str, Any]:
    """One row: what a method leaves of the bias of these logs, and how often its intervals cover."""
    kept: list[jb.Estimate] = []

    def estimate_by(*given: Any) -> jb.Estimate:
        kept.append(METHODS[method](*given))
        return kept[0]

    methods: Any = {"sample_mean": naive, method: estimate_by}
    problem = (jax.random.key(7), policy, FAMILIES["known"], MEAN, STEPS)
    seconds, _, found = timed(lambda: jb.evaluate(*problem, methods=methods, num_trials=logs, assumed=FAMILIES[sigma]))
    own, ours = found.methods["sample_mean"], found.methods[method]
    return {
        "method": method,
        "sigma": sigma,
        "original": original,
        "sample_mean": {"value": own.average_bias, "stderr": own.average_bias_stderr},
        "bias": {"value": ours.average_bias, "stderr": ours.average_bias_stderr},
        "left": 100 * ours.average_bias / original,
        "left_of_own": 100 * ours.average_bias / own.average_bias,
        "coverage": {"value": ours.average_coverage, "stderr": ours.average_coverage_stderr},
        "width": ours.average_width,
        "sigma_found": float(np.nanmean(kept[0].diagnostics.get("sigma", 1.0))),
        "converged": float(np.mean(ours.usable)),
        "seconds": seconds,
    }


def print_row(row: dict[str, Any]) -> None:
    bias, own, cover = row["bias"], row["sample_mean"], row["coverage"]
    print(
        f"  {row['method']:<16}{row['sigma']:<6} {row['original']:+.3f}   {own['value']:+.3f} ± {own['stderr']:.3f}   "
        f"{bias['value']:+.4f} ± {bias['stderr']:.4f} {row['left']:6.1f}% {row['left_of_own']:6.1f}%   "
        f"{100 * cover['value']:5.1f} ± {100 * cover['stderr']:.1f}%  {row['width']:6.2f}  {row['sigma_found']:.3f}  "
        f"{100 * row['converged']:5.1f}%",
        flush=True,
    )


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    options = parser(__doc__, 1)
    options.add_argument("--trials", type=int, default=LOGS, help="logs of each policy")
    options.add_argument("--policy", action="append", choices=POLICIES, help="only this one; may be repeated")
    chosen = options.parse_args(arguments)
    if chosen.trials < 2:
        options.error("allowed: --trials 2 or more")
    return chosen


def main(arguments: Sequence[str] | None = None) -> None:
    chosen = parse(arguments)
    found: dict[str, Any] = {"machine": machine(), "trials": chosen.trials, "rows": {}}
    print_machine(found["machine"])
    print(
        f"\n{chosen.trials:,} logs of {STEPS} steps, means {MEAN.tolist()}, sigma 1; sigma known, one for all, one for each arm:"
    )
    print(
        "                  sigma  bias of sample means       corrected          left of it   coverage      width  sigma  believed"
    )
    print("                         no noise   of these logs                      no noise  own")
    for name in chosen.policy or POLICIES:
        policy, quiet, methods = POLICIES[name]
        original = float(
            np.mean(jb.measure_bias(jax.random.key(3), quiet, FAMILIES["known"], MEAN, STEPS, 100_000, progress=False).bias)
        )
        print(name, flush=True)
        found["rows"][name] = [
            measure(policy, original, method, sigma, chosen.trials) for method in methods for sigma in FAMILIES
        ]
        for row in found["rows"][name]:
            print_row(row)
    finish(found, chosen.json)


if __name__ == "__main__":
    main()
