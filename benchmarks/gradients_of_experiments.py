"""What the gradient of an experiment costs, and how precise it is.

    python benchmarks/gradients_of_experiments.py
    python benchmarks/gradients_of_experiments.py --trials 50000 --json benchmarks/output/gradients.json

For each policy: the time of `measure_gradient` over that of `measure_bias` with the same trials, by the clock and by the seconds
of all cores; and for the derivatives of the average MSE and of the regret in one setting and in the mean of the second arm, their
standard error over the derivative, and the variance that the baseline leaves, over the variance without it.
"""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from common import finish, machine, parser, print_machine, timed

import jaxbias as jb

TRIALS, REPEATS = 200_000, 3
TWO, FIVE = [1.0, 0.75], [1.0, 0.75, 0.5, 0.38, 0.25]
FIGURES = ("average_mse", "regret")


class Case(NamedTuple):
    """An experiment, and the setting that is looked at."""

    policy: Any
    mean: list[float]
    steps: int
    setting: Callable[[Any], Any]
    family: Any = jb.Normal()


CASES = {
    "Greedy, tau": Case(jb.Greedy(tau=1.0), TWO, 16, lambda policy: policy.tau),
    "lil' UCB, tau": Case(jb.LilUCB(tau=1.0), FIVE, 40, lambda policy: policy.tau),
    "lil' UCB, beta": Case(jb.LilUCB(tau=1.0), FIVE, 40, lambda policy: policy.beta),
    "eps-Greedy, epsilon": Case(jb.EpsilonGreedy(), FIVE, 40, lambda policy: policy.epsilon),
    "Thompson, prior_sigma": Case(jb.Thompson(prior_sigma=1.0), TWO, 24, lambda policy: policy.prior_sigma),
    "Thompson, 5 arms": Case(jb.Thompson(prior_sigma=1.0), FIVE, 40, lambda policy: policy.prior_sigma),
    "Thompson, 5 arms, tau": Case(jb.Thompson(prior_sigma=1.0, tau=1.0), FIVE, 40, lambda policy: policy.tau),
    "BetaThompson, 5 arms": Case(
        jb.BetaThompson(), [0.5, 0.4, 0.3, 0.3, 0.2], 40, lambda policy: policy.prior_success, jb.Bernoulli()
    ),
    "Greedy, schedule": Case(
        jb.Greedy(tau=jb.policies.Schedule(jnp.ones(6), num_steps=40)), FIVE, 40, lambda policy: policy.tau.values[2]
    ),
    "Exp3, gamma": Case(jb.Exp3(gamma=0.3), FIVE, 40, lambda policy: policy.gamma),
}


def measure(case: Case, trials: int, repeats: int) -> dict[str, Any]:
    problem = (jax.random.key(0), case.policy, case.family, case.mean, case.steps, trials)
    runs = {
        "simulation": partial(jb.measure_bias, *problem, progress=False),
        "gradient": partial(jb.bias.measure_gradient, *problem, progress=False),
    }
    compile_times = {name: timed(run)[0] for name, run in runs.items()}
    clocks: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            clocks[name].append(timed(run)[:2])
    wall, cpu = ({name: min(pair[which] for pair in pairs) for name, pairs in clocks.items()} for which in (0, 1))
    found, plain = runs["gradient"](), runs["gradient"](baseline=False)
    row: dict[str, Any] = {
        "compile": compile_times["gradient"] - wall["gradient"],
        "simulation": wall["simulation"],
        "times_wall": wall["gradient"] / wall["simulation"],
        "times_cpu": cpu["gradient"] / cpu["simulation"],
    }
    for figure in FIGURES:
        value, error, without = (getattr(part, figure) for part in (found.gradient, found.gradient_stderr, plain.gradient_stderr))
        for name, part in (("setting", lambda one: case.setting(one.policy)), ("mean", lambda one: one.mean[1])):
            row[f"{figure} in {name}"] = float(part(value))
            row[f"{figure} in {name}, relative error"] = float(abs(part(error) / part(value)))
            row[f"{figure} in {name}, variance left"] = float(np.square(part(error) / part(without)))
    return row


def print_rows(rows: dict[str, dict[str, Any]], trials: int) -> None:
    print(f"\n{trials:,} trials. times: the gradient's over the simulation's. error: standard error over the derivative.")
    print("left: the variance with the baseline over that without. In the setting, and in the mean of the second arm.")
    print(f"{'':22} {'seconds':>8} {'times':>6} {'cpu':>6}   " + "   ".join(f"{figure:^31}" for figure in FIGURES))
    print(" " * 48 + "   ".join(f"{'error':>7} {'left':>6}  {'error':>8} {'left':>6} " for _ in FIGURES))
    for name, row in rows.items():
        names = [f"{figure} in {part}" for figure in FIGURES for part in ("setting", "mean")]
        columns = [f"{row[f'{one}, relative error']:8.1%} {row[f'{one}, variance left']:6.2f}" for one in names]
        print(f"{name:22} {row['simulation']:8.3f} {row['times_wall']:6.2f} {row['times_cpu']:6.2f}   " + "  ".join(columns))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    options = parser(__doc__, REPEATS)
    options.add_argument("--trials", type=int, default=TRIALS)
    return options.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    chosen = parse(arguments)
    found: dict[str, Any] = {"machine": machine(), "trials": chosen.trials}
    print_machine(found["machine"])
    found["cases"] = {name: measure(case, chosen.trials, chosen.repeats) for name, case in CASES.items()}
    print_rows(found["cases"], chosen.trials)
    finish(found, chosen.json)


if __name__ == "__main__":
    main()
