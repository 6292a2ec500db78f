"""How long a gradient of an estimate takes, beside the estimate itself.

    python benchmarks/gradients.py                # 1,000 logs of 40 steps, five arms

The logs are of lil' UCB with tau = 1, Normal rewards of sigma 1. The gradient in the rewards is that of the sum of all means: the
estimate and a product with a matrix. The gradient in tau and sigma takes one more set of samples.
"""

import argparse
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from common import finish, machine, median, parser, print_machine, timed
from simulate import ARMS, MEAN

import jaxbias as jb

LOGS, STEPS, REPEATS = 1_000, 40, 5
METHODS: dict[str, Callable[..., jb.Estimate]] = {"conditional_mle": jb.conditional_mle, "mean_matching": jb.mean_matching}


def compare(method: str, logs: int, steps: int, repeats: int) -> dict[str, float]:
    """Seconds of the estimate, of its gradient in the rewards, and of that in tau and sigma: medians of runs in turn."""
    history = jb.simulate(
        jax.random.key(0), jb.LilUCB(tau=1.0), jb.Normal(), MEAN, num_steps=steps, num_trials=logs, progress=False
    )

    def total(rewards: jax.Array, settings: jax.Array) -> jax.Array:
        changed = dataclasses.replace(history, rewards=rewards)
        policy, family = jb.LilUCB(tau=settings[0]), jb.Normal(sigma=settings[1])
        mean = METHODS[method](jax.random.key(1), changed, policy, family).mean
        return jnp.sum(jnp.where(jnp.isfinite(mean), mean, 0))

    settings = jnp.ones(2)
    runs = {
        "estimate": lambda: total(history.rewards, settings),
        "in_rewards": lambda: jax.grad(total)(history.rewards, settings),
        "in_settings": lambda: jax.grad(total, 1)(history.rewards, settings),
    }
    for run in runs.values():
        timed(run)
    seconds = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            seconds[name].append(timed(run)[0])
    found = {name: median(values) for name, values in seconds.items()}
    ratios = {f"{name}_ratio": found[name] / found["estimate"] for name in ("in_rewards", "in_settings")}
    return {**found, **ratios, "shift_error": float(jnp.nanmax(jnp.abs(shift(method, history) - 1)))}


def shift(method: str, history: jb.History) -> jax.Array:
    """By how much a shift of all rewards moves each estimate: by as much."""

    def mean(by: jax.Array) -> jax.Array:
        changed = dataclasses.replace(history, rewards=history.rewards + by)
        return METHODS[method](jax.random.key(1), changed, jb.LilUCB(tau=1.0), jb.Normal()).mean

    return jax.jvp(mean, (jnp.zeros(()),), (jnp.ones(()),))[1]


def print_comparison(method: str, found: dict[str, float]) -> None:
    print(f"\n{method}:")
    print(f"  estimate                   {found['estimate']:8.3f} s")
    print(f"  gradient in all rewards    {found['in_rewards']:8.3f} s, {found['in_rewards_ratio']:.2f} times the estimate")
    print(f"  gradient in tau and sigma  {found['in_settings']:8.3f} s, {found['in_settings_ratio']:.2f} times the estimate")
    print(f"  a shift of all rewards moves every estimate by 1, but for {found['shift_error']:.1e}")


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
    found: dict[str, Any] = {"machine": machine(), "logs": chosen.logs, "steps": chosen.steps}
    print_machine(found["machine"])
    print(f"\n{chosen.logs:,} logs of {chosen.steps} steps, {ARMS} arms, lil' UCB with tau = 1")
    for method in METHODS:
        found[method] = compare(method, chosen.logs, chosen.steps, chosen.repeats)
        print_comparison(method, found[method])
    finish(found, chosen.json)


if __name__ == "__main__":
    main()
