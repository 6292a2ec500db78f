"""How long `mean_matching` takes, beside the bare simulation of as many trials.

    python benchmarks/matching.py                 # 1,000 logs of 40 steps

The logs are of lil' UCB without noise, five arms, Normal rewards of sigma 1, every arm pulled once first. The baseline is
`measure_bias` on as many trials, of as many steps, as mean matching says it simulated.
"""

import argparse
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from common import finish, machine, parser, print_machine, timed
from simulate import ARMS, MEAN

import jaxbias as jb

POLICY, FAMILY = jb.LilUCB(), jb.Normal(sigma=1.0)
LOGS, STEPS, REPEATS = 1_000, 40, 3


def fit(history: jb.History) -> jb.Estimate:
    return jax.block_until_ready(jb.mean_matching(jax.random.key(1), history, POLICY, FAMILY, interval="delta"))


def compare(logs: int, steps: int, repeats: int) -> dict[str, float]:
    """Seconds for all logs, and for the bare simulation of the trials that took."""
    history = jb.simulate(jax.random.key(0), POLICY, FAMILY, MEAN, num_steps=steps, num_trials=logs, progress=False)
    first, _, estimate = timed(lambda: fit(history))
    trials = int(np.sum(estimate.diagnostics["simulated_paths"]))

    def simulate() -> jb.bias.BiasSummary:
        return jb.measure_bias(jax.random.key(2), POLICY, FAMILY, MEAN, num_steps=steps, num_trials=trials, progress=False)

    simulate()
    pairs = [(timed(lambda: fit(history)), timed(simulate)) for _ in range(repeats)]
    matching, bare = (min(pair[which][0] for pair in pairs) for which in (0, 1))
    return {
        "logs": logs,
        "compile": first - matching,
        "seconds": matching,
        "trials": trials,
        "simulation_seconds": bare,
        "times_simulation": matching / bare,
        "noise": float(np.mean(estimate.diagnostics["monte_carlo_error"] / estimate.stderr)),
        "converged": float(np.mean(estimate.converged)),
    }


def print_comparison(found: dict[str, float], steps: int) -> None:
    print(f"\nlil' UCB without noise, {found['logs']:,} logs of {steps:,} steps, all together:")
    print(f"  mean_matching  {found['seconds']:8.3f} s, and {found['compile']:.1f} s to compile")
    print(f"  simulation     {found['simulation_seconds']:8.3f} s for the same {found['trials']:,} trials, by measure_bias")
    print(f"  ratio          {found['times_simulation']:8.2f}")
    print(f"  Monte Carlo error over standard error {found['noise']:.4f}, converged {found['converged']:.4f}")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    options = parser(__doc__, REPEATS)
    options.add_argument("--logs", type=int, default=LOGS)
    options.add_argument("--steps", type=int, default=STEPS)
    chosen = options.parse_args(arguments)
    if chosen.steps <= ARMS or chosen.repeats < 1 or chosen.logs < 1:
        options.error(f"allowed: --steps {ARMS + 1} or more, --repeats and --logs 1 or more")
    return chosen


def main(arguments: Sequence[str] | None = None) -> None:
    chosen = parse(arguments)
    found: dict[str, Any] = {"machine": machine(), "steps": chosen.steps}
    print_machine(found["machine"])
    found["comparison"] = compare(chosen.logs, chosen.steps, chosen.repeats)
    print_comparison(found["comparison"], chosen.steps)
    finish(found, chosen.json)


if __name__ == "__main__":
    main()
