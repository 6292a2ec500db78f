"""How long the probability that Thompson sampling pulls an arm takes, beside a checkout from before.

    python benchmarks/thompson.py                                      # this checkout
    python benchmarks/thompson.py --before /path/to/another/checkout   # and the ratio to that one, in the same run

Microseconds for each state, of many at once, with Normal posteriors, with Gumbel noise, and with Beta posteriors; and seconds of
`conditional_mle` without the draws, for some logs of five arms. Each checkout runs in a process of its own.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from common import finish, in_child, machine, parser, print_machine, timed

import jaxbias as jb

LOGS, STEPS, REPEATS, STATES = 20, 60, 3, 64
MEAN = [1.0, 0.75, 0.5, 0.38, 0.25]
POLICIES = {"Normal": jb.Thompson(), "Normal, tau 1": jb.Thompson(tau=1.0), "Beta": jb.BetaThompson()}


def microseconds(policy: Any, arms: int, states: int, repeats: int) -> float:
    """Of one state among many, by the processor's clock."""
    random = np.random.default_rng(0)
    pulls = np.exp(random.uniform(0, np.log(300), arms)).astype(int) + 1
    total = jnp.asarray(random.binomial(pulls, 0.4, (states, arms)), jnp.float32)
    pulls = jnp.asarray(pulls, jnp.int32)
    run = jax.jit(jax.vmap(lambda total: policy.log_probs(jb.policies.ArmStatistics(pulls, total))))
    timed(lambda: run(total))
    return min(timed(lambda: run(total))[1] for _ in range(repeats)) / states * 1e6


def estimate_seconds(tau: float, logs: int, steps: int, repeats: int) -> float:
    """Of all logs together, by the processor's clock."""
    policy, family = jb.Thompson(tau=tau), jb.Normal()
    history = jb.simulate(jax.random.key(0), policy, family, MEAN, num_steps=steps, num_trials=logs)
    run = lambda: jb.conditional_mle(jax.random.key(1), history, policy, family).mean
    timed(run)
    return min(timed(run)[1] for _ in range(repeats))


def measure(chosen: argparse.Namespace) -> dict[str, float]:
    found = {
        f"{name}, {arms} arms: us": microseconds(policy, arms, chosen.states, chosen.repeats)
        for name, policy in POLICIES.items()
        for arms in chosen.arms
    }
    for tau in (0.0, 1.0) if chosen.logs else ():
        found[f"conditional_mle, tau {tau:g}: s"] = estimate_seconds(tau, chosen.logs, chosen.steps, chosen.repeats)
    return found


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    options = parser(__doc__, REPEATS)
    options.add_argument("--before", metavar="CHECKOUT", help="another checkout, run with the same sizes")
    options.add_argument("--arms", type=int, nargs="+", default=[5, 34])
    options.add_argument("--states", type=int, default=STATES)
    options.add_argument("--logs", type=int, default=LOGS, help="of conditional_mle; 0 leaves it out")
    options.add_argument("--steps", type=int, default=STEPS)
    options.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return options.parse_args(arguments)


def measure_other(chosen: argparse.Namespace) -> dict[str, float]:
    """The same in a process that imports the other checkout."""
    sizes = ["--arms", *map(str, chosen.arms)]
    sizes += [f"--{name}={getattr(chosen, name)}" for name in ("states", "logs", "steps", "repeats")]
    path = os.pathsep.join([chosen.before, os.path.dirname(__file__)])
    return json.loads(in_child(__file__, "--child", *sizes, PYTHONPATH=path).splitlines()[-1])


def main(arguments: Sequence[str] | None = None) -> None:
    chosen = parse(arguments)
    if chosen.child:
        print(json.dumps(measure(chosen)))
        return
    found: dict[str, Any] = {"machine": machine(), "now": measure(chosen)}
    print_machine(found["machine"])
    if chosen.before:
        found["before"] = measure_other(chosen)
        found["ratio"] = {name: found["before"][name] / value for name, value in found["now"].items()}
    for name, value in found["now"].items():
        then = f" {found['before'][name]:12.1f} before, {found['ratio'][name]:7.1f} times as long" if chosen.before else ""
        print(f"{name:28} {value:12.2f}{then}")
    finish(found, chosen.json)


if __name__ == "__main__":
    main(sys.argv[1:])
