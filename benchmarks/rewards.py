"""Bias and coverage of `conditional_mle` and `mean_matching` for rewards that are not Normal, and how long a long log takes.

    python benchmarks/rewards.py                      # 1,000 logs of 200 steps in each of four settings; minutes
    python benchmarks/rewards.py --trials 200 --steps 0

Bernoulli rewards, T = 200, every arm pulled once first. "Left" is the bias that is left in percent of that of the sample means,
averaged over the arms. Then the seconds of one long log of five arms by particles.
"""

import argparse
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from common import finish, machine, measure_quality, parser, print_machine, print_quality, timed

import jaxbias as jb

TRIALS, STEPS, LONG = 1_000, 200, 5_000
MEANS = ([0.3, 0.35], [0.02, 0.03, 0.025])
POLICIES = {"BetaThompson": jb.BetaThompson(), "EpsilonGreedy(0.1)": jb.EpsilonGreedy(0.1)}
METHODS = {"conditional_mle": jb.conditional_mle, "mean_matching": jb.mean_matching}
FIVE = [0.3, 0.35, 0.25, 0.3, 0.2]


def measure(name: str, mean: Sequence[float], trials: int) -> list[dict[str, Any]]:
    """One row for each method."""
    problem, rows = (POLICIES[name], jb.Bernoulli(), mean, STEPS), []
    for method, estimate_by in METHODS.items():
        rows.append(measure_quality(f"{name}, {'/'.join(map(str, mean))}", method, estimate_by, problem, trials))
        print_quality(rows[-1])
    return rows


def long_log(steps: int) -> dict[str, Any]:
    """One log of five arms, after one run to compile."""
    policy, family = jb.EpsilonGreedy(0.1), jb.Bernoulli()
    history = jb.simulate(jax.random.key(0), policy, family, FIVE, num_steps=steps, progress=False)
    run = lambda: jb.conditional_mle(jax.random.key(1), history, policy, family)
    first, _, _ = timed(run)
    seconds, _, estimate = timed(run)
    share = np.asarray(estimate.diagnostics["monte_carlo_error"] / estimate.stderr)
    rounds = int(estimate.diagnostics["rounds"])
    return {"steps": steps, "first": first, "seconds": seconds, "rounds": rounds, "noise": float(share.max())}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    options = parser(__doc__, 1)
    options.add_argument("--trials", type=int, default=TRIALS)
    options.add_argument("--steps", type=int, default=LONG, help="of the long log; 0 for none")
    chosen = options.parse_args(arguments)
    if chosen.trials < 2 or 0 < chosen.steps < len(FIVE):
        options.error(f"allowed: --trials 2 or more, --steps 0 or {len(FIVE)} or more")
    return chosen


def main(arguments: Sequence[str] | None = None) -> None:
    chosen = parse(arguments)
    found: dict[str, Any] = {"machine": machine(), "trials": chosen.trials}
    print_machine(found["machine"])
    if chosen.steps:
        found["long"] = long_log(chosen.steps)
        long = found["long"]
        print(f"\nOne log of {long['steps']:,} steps, five arms, EpsilonGreedy(0.1), by particles: {long['seconds']:.1f} s")
        print(f"({long['first']:.1f} s with compilation), {long['rounds']} rounds, Monte Carlo error {long['noise']:.3f} of the")
        print("standard error at most.")
    print(f"\n{chosen.trials:,} logs of {STEPS} steps; bias and MSE in percent of those of the sample means")
    print_quality(None)
    found["rows"] = [row for mean in MEANS for name in POLICIES for row in measure(name, mean, chosen.trials)]
    finish(found, chosen.json)


if __name__ == "__main__":
    main()
