"""How long `mean_matching` takes, beside the bare simulation of as many trials; and how its time grows with the steps.

    python benchmarks/matching.py                 # 1,000 logs of 40 steps
    python benchmarks/matching.py --growth        # and one log of up to 100,000 steps

The logs are of lil' UCB without noise, five arms, Normal rewards of sigma 1, every arm pulled once first. The baseline is
`measure_bias` on as many trials, of as many steps, as mean matching says it simulated.
"""

import argparse
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from cmle import LADDER_MEAN, STEP_LADDER
from common import exponent, finish, machine, parser, print_machine, timed
from simulate import ARMS, MEAN

import jaxbias as jb

POLICY, FAMILY = jb.LilUCB(), jb.Normal(sigma=1.0)
LOGS, STEPS, REPEATS = 1_000, 40, 3
LADDER_POLICY = jb.Greedy(tau=1.0)


def fit(history: jb.History, policy: Any) -> jb.Estimate:
    return jax.block_until_ready(jb.mean_matching(jax.random.key(1), history, policy, FAMILY))


def compare(logs: int, steps: int, repeats: int) -> dict[str, float]:
    """Seconds for all logs, and for the bare simulation of the trials that took."""
    history = jb.simulate(jax.random.key(0), POLICY, FAMILY, MEAN, num_steps=steps, num_trials=logs, progress=False)
    first, _, estimate = timed(lambda: fit(history, POLICY))
    trials = int(np.sum(estimate.diagnostics["simulated_trials"]))

    def simulate() -> jb.BiasSummary:
        return jb.measure_bias(jax.random.key(2), POLICY, FAMILY, MEAN, num_steps=steps, num_trials=trials, progress=False)

    simulate()
    pairs = [(timed(lambda: fit(history, POLICY)), timed(simulate)) for _ in range(repeats)]
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


def growth(ladder: Sequence[int], repeats: int) -> dict[str, Any]:
    """Seconds for one log against its steps, with the fitted exponent."""
    rows = []
    for steps in ladder:
        mean = jnp.asarray(LADDER_MEAN, jnp.result_type(float))
        history = jb.simulate(jax.random.key(0), LADDER_POLICY, FAMILY, mean, num_steps=steps, progress=False)
        first, _, estimate = timed(lambda history=history: fit(history, LADDER_POLICY))
        best = min(timed(lambda history=history: fit(history, LADDER_POLICY))[0] for _ in range(repeats))
        trials = int(estimate.diagnostics["simulated_trials"])
        converged = float(np.mean(estimate.converged))
        rows.append({"steps": steps, "seconds": best, "compile": first - best, "trials": trials, "converged": converged})
    by_trial = [row["seconds"] / row["trials"] for row in rows]
    return {"rows": rows, "exponent": exponent(ladder, by_trial), "exponent_last": exponent(ladder[-2:], by_trial[-2:])}


def print_comparison(found: dict[str, float], steps: int) -> None:
    print(f"\nlil' UCB without noise, {found['logs']:,} logs of {steps:,} steps, all together:")
    print(f"  mean_matching  {found['seconds']:8.3f} s, and {found['compile']:.1f} s to compile")
    print(f"  simulation     {found['simulation_seconds']:8.3f} s for the same {found['trials']:,} trials, by measure_bias")
    print(f"  ratio          {found['times_simulation']:8.2f}")
    print(f"  Monte Carlo error over standard error {found['noise']:.4f}, converged {found['converged']:.4f}")


def print_growth(found: dict[str, Any]) -> None:
    print("\nOne log of Greedy with tau 1, ten arms. converged: the share of the arms.")
    print(f"{'Steps':>9} {'seconds':>9} {'compile':>9} {'trials':>9} {'converged':>9}")
    for row in found["rows"]:
        print("{steps:>9,} {seconds:>9.3f} {compile:>9.2f} {trials:>9,} {converged:>9.2f}".format(**row))
    last = f"{found['exponent_last']:.2f} at its end"
    print(f"Time for a simulated trial grows as steps to the power {found['exponent']:.2f} over the whole range, {last}.")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    options = parser(__doc__, REPEATS)
    options.add_argument("--logs", type=int, default=LOGS)
    options.add_argument("--steps", type=int, default=STEPS)
    options.add_argument("--growth", action="store_true", help="also time against the steps of one log")
    options.add_argument("--longest", type=int, default=STEP_LADDER[-1], help="where that ends")
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
    if chosen.growth:
        found["growth"] = growth([steps for steps in STEP_LADDER if steps <= chosen.longest], chosen.repeats)
        print_growth(found["growth"])
    finish(found, chosen.json)


if __name__ == "__main__":
    main()
