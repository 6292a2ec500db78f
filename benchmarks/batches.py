"""Bias and coverage in batches, and under a stopping rule whose sample means are too high.

    python benchmarks/batches.py                      # 1,000 logs in each setting; minutes
    python benchmarks/batches.py --trials 200 --method mean_matching
    python benchmarks/batches.py --stopping           # the rule alone, and the three sources of bias; a minute

Ten batches of 50, six arms, Normal rewards: Thompson and exploration sampling, with independent draws and with shares. Then one
arm that is stopped when its sample mean is high. "Left" is the bias that is left in percent of that of the sample means,
averaged over the arms.
"""

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
from common import finish, machine, measure_quality, naive, parser, print_machine, print_quality

import jaxbias as jb

TRIALS, SIZE, NUMBER = 1_000, 50, 10
MEAN = [1.0, 0.8, 0.6, 0.4, 0.2, 0.0]
POLICIES = {"Thompson": jb.Thompson(), "ExplorationSampling": jb.policies.ExplorationSampling()}
FAMILY = jb.Normal(sigma=1.0)
RULE = jb.StopAtMean(threshold=0.9, arm=0, first=10)
STOPPED_MEAN, STOPPED_STEPS = [0.5, 0.5], 60

BATCHED: dict[str, Any] = {  # as functions of the key, the history, the policy and the family
    "sample_mean": naive,
    "batched_ols": lambda *given: jb.batched_ols(given[1], given[3]),
    "mean_matching": jb.mean_matching,
    "conditional_mle": partial(jb.conditional_mle, num_paths=256),
}
STOPPED: dict[str, Any] = {"sample_mean": naive, "mean_matching": partial(jb.mean_matching, stop=RULE)}


def measure(setting: str, problem: Sequence[Any], trials: int, methods: dict[str, Any], **design: Any) -> list[Any]:
    """A row for each method."""
    rows = []
    for method, estimate_by in methods.items():
        rows.append(measure_quality(setting, method, estimate_by, problem, trials, **design))
        print_quality(rows[-1])
    return rows


def in_batches(trials: int, chosen: Sequence[str]) -> list[Any]:
    rows = []
    for name, policy in POLICIES.items():
        for allocation in ("independent", "shares"):
            methods = {method: by for method, by in BATCHED.items() if method in chosen}
            if allocation == "shares":
                methods.pop("conditional_mle", None)
            problem = (policy, FAMILY, MEAN, SIZE * NUMBER)
            rows += measure(f"{name}, {allocation}", problem, trials, methods, batch_size=SIZE, allocation=allocation)
    return rows


def stopped(trials: int) -> list[Any]:
    problem = (jb.Uniform(), FAMILY, STOPPED_MEAN, STOPPED_STEPS)
    return measure("Uniform, stopped when arm 0 is at 0.9", problem, trials, STOPPED, stop=RULE)


def sources(trials: int) -> dict[str, Any]:
    """Where the bias of the arm that is reported comes from, under Greedy with a rule that stops at a lead."""
    rule = jb.StopAtDifference(threshold=1.0, first=10)
    found = jb.measure_bias(
        jax.random.key(5), jb.Greedy(), FAMILY, [1.0, 0.75, 0.5], 60, 100 * trials, stop=rule, choose="largest", progress=False
    )
    parts = found.sources
    assert parts is not None
    names = ("reported_sampling", "reported_stopping", "choosing", "reported")
    print("\nGreedy, three arms, stopped at a lead of 1; the bias of the largest sample mean by source:")
    for name in names:
        print(f"  {name:18} {getattr(parts, name):8.4f} ± {getattr(parts, f'{name}_stderr'):.4f}")
    return {name: getattr(parts, name) for name in names}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    options = parser(__doc__, 1)
    options.add_argument("--trials", type=int, default=TRIALS)
    options.add_argument("--method", action="append", choices=BATCHED, help="only this one; may be repeated")
    options.add_argument("--stopping", action="store_true", help="without the batches")
    chosen = options.parse_args(arguments)
    if chosen.trials < 2:
        options.error("allowed: --trials 2 or more")
    return chosen


def main(arguments: Sequence[str] | None = None) -> None:
    chosen = parse(arguments)
    found: dict[str, Any] = {"machine": machine(), "trials": chosen.trials}
    print_machine(found["machine"])
    print(f"\n{chosen.trials:,} logs; {NUMBER} batches of {SIZE}, means {MEAN}")
    print_quality(None)
    found["rows"] = [] if chosen.stopping else in_batches(chosen.trials, chosen.method or tuple(BATCHED))
    found["rows"] += stopped(chosen.trials)
    found["sources"] = sources(chosen.trials)
    finish(found, chosen.json)


if __name__ == "__main__":
    main()
