"""Rewards that come late, and rewards that the policy did not learn from: bias and coverage, and what the delays cost.

    python benchmarks/late_rewards.py                    # 500 logs in each setting; minutes
    python benchmarks/late_rewards.py --only delays      # or: second, speed

Delays: 100 steps of three arms, each reward ten steps late; the intervals of test inversion that follow the delay, beside those
that take every reward as seen at once. Second: 100 steps; the policy learns from X, the means are of Y. Speed: the simulation
with a delay of ten, beside the one without and the one in batches of ten, in the same process.
"""

import argparse
import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxbias as jb
from jaxbias.analysis.two_rewards import estimate_second_reward

NUM_STEPS, DELAY, MEAN = 100, 10, [1.0, 0.75, 0.5]
RATES = [0.5, 0.4, 0.3]  # of clicks
POLICIES = {"Thompson": jb.Thompson(), "lil'UCB": jb.LilUCB(tau=0.5), "Greedy": jb.Greedy()}


def with_error(values: Any, center: Any = 0.0) -> str:
    """The average of each column less its centre, with its standard error."""
    values = np.asarray(values, float) - center
    ok = np.isfinite(values)
    average = np.nanmean(values, axis=0)
    error = np.nanstd(values, axis=0) / np.sqrt(ok.sum(axis=0))
    return "  ".join(f"{one:+.3f} ± {off:.3f}" for one, off in zip(average, error, strict=True))


def report(name: str, estimate: Any, mean: Any) -> None:
    """Bias and coverage of each arm."""
    inside = (np.asarray(estimate.lower) <= mean) & (np.asarray(mean) <= np.asarray(estimate.upper))
    known = np.isfinite(np.asarray(estimate.lower))
    inside = np.where(known, inside, np.nan)
    without = "  ".join(f"{100 * share:.0f}%" for share in 1 - known.mean(axis=0))
    bias = with_error(estimate.mean, np.asarray(mean))
    print(f"  {name:28} bias {bias}   coverage {with_error(inside)}   without an interval {without}", flush=True)


def delays(trials: int, num_paths: int) -> None:
    """Test inversion with the delay, and without it."""
    for name, policy in POLICIES.items():
        print(f"{name}, Normal rewards, a delay of {DELAY}, {trials} logs")
        history = jb.simulate(jax.random.key(0), policy, jb.Normal(), MEAN, NUM_STEPS, trials, delay=DELAY)
        ignored = dataclasses.replace(history, seen_at=None)
        report("sample_mean", jb.sample_mean(history, jb.Normal()), MEAN)
        for label, log in (("test_inversion", history), ("test_inversion, delay ignored", ignored)):
            report(label, jb.test_inversion(jax.random.key(1), log, policy, jb.Normal(), num_paths=num_paths), MEAN)


def second(trials: int, num_paths: int) -> None:
    """Clicks to revenue, and a Normal pair."""
    generator = np.random.default_rng(0)
    shape = (trials, NUM_STEPS)
    cases = {
        "Normal pairs, correlation 0.8": (jb.Greedy(tau=1.0), jb.Normal(), MEAN),
        "clicks of 0 and 1 to revenue": (jb.BetaThompson(), jb.Bernoulli(), RATES),
    }
    for name, (policy, family, mean) in cases.items():
        history = jb.simulate(jax.random.key(2), policy, family, mean, NUM_STEPS, trials)
        first, arms = np.asarray(history.rewards, float), np.asarray(history.arms)
        if isinstance(family, jb.Bernoulli):
            price = np.array([10.0, 12.0, 15.0])
            rewards, truth = first * generator.gamma(2.0, price[arms] / 2), price * np.asarray(mean)
        else:
            rewards = 2 + 0.8 * (first - np.asarray(mean)[arms]) + 0.6 * generator.normal(size=shape)
            truth = np.full(3, 2.0)
        both = dataclasses.replace(history, rewards=jnp.asarray(rewards, jnp.float32), policy_rewards=history.rewards)
        print(f"{name}, {trials} logs")
        report("sample_mean", jb.sample_mean(both), truth)
        found = jb.test_inversion(jax.random.key(3), history, policy, family, num_paths=num_paths)
        report("test_inversion, by the line", transferred(found, both), truth)
        if isinstance(family, jb.Normal):  # of Thompson sampling it takes long
            matched = jb.mean_matching(jax.random.key(4), history, policy, family, interval="delta", num_paths=num_paths)
            report("mean_matching, by the line", transferred(matched, both), truth)
        report("adaptive_weighting", jb.adaptive_weighting(both, policy), truth)


def transferred(estimate: Any, history: Any) -> Any:
    """Of every log."""
    logs = history.arms.shape[0]
    of = lambda tree, log: jax.tree.map(lambda leaf: leaf[log], tree)
    plain = dataclasses.replace(estimate, diagnostics={})
    found = [estimate_second_reward(of(plain, log), of(history, log)) for log in range(logs)]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *found)


def speed(trials: int, _: int) -> None:
    """Seconds of a million steps, the best of five."""
    designs: dict[str, Any] = {"no delay": {}, "batches of 10": {"batch_size": 10}, "a delay of 10": {"delay": DELAY}}
    designs["delays from 0 to 20, out of order"] = {"delay": np.random.default_rng(0).integers(0, 21, NUM_STEPS).tolist()}
    for name, policy in POLICIES.items():
        taken = {}
        for design, options in designs.items():
            run = lambda options=options, policy=policy: jb.measure_bias(
                jax.random.key(0), policy, jb.Normal(), MEAN, NUM_STEPS, 20 * trials, progress=False, **options
            )
            run()
            taken[design] = min(_seconds(run) for _ in range(5))
        base = taken["no delay"]
        print(f"{name}: " + ", ".join(f"{design} {value / base:.2f}" for design, value in taken.items()), flush=True)


def _seconds(run: Any) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def main(words: Sequence[str] | None = None) -> None:
    """Prints the tables."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--trials", type=int, default=500, help="logs in each setting")
    arguments.add_argument("--paths", type=int, default=1024, help="paths of each test inversion")
    arguments.add_argument("--only", choices=["delays", "second", "speed"])
    given = arguments.parse_args(words)
    for name, part in {"delays": delays, "second": second, "speed": speed}.items():
        if given.only in (None, name):
            part(given.trials, given.paths)


if __name__ == "__main__":
    main()
