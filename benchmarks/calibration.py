"""Coverage of every interval method over random experiments.

    python benchmarks/calibration.py --settings 200 --file benchmarks/output/calibration.jsonl     # run, or go on with a run
    python benchmarks/calibration.py --settings 200 --file benchmarks/output/calibration.jsonl --table
    python benchmarks/calibration.py --file again.jsonl --only 17 --logs 1000                      # one setting, more logs

Setting i is drawn from seed i (`draw`) and is a call of `jb.evaluate`. Most settings find their programs compiled.
A line is a setting. The conditional MLE of 0/1 rewards compiles for every grid of successes: only the shortest logs of two arms
have it.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import jaxbias as jb

INDEX = {"greedy": jb.Greedy, "epsilon-greedy": jb.EpsilonGreedy, "lil-ucb": jb.LilUCB, "ucb1": jb.UCB1}
FAMILIES = ("normal", "normal, sigma unknown", "bernoulli")
STEPS, ARMS, BATCHES = (16, 40, 100), (2, 3, 5), 4
SHAPES = 16
# Mean matching, the bias-corrected estimates and guarded shrinkage have the intervals of test inversion.
METHODS = ("sample_mean", "propensity_weighting", "adaptive_weighting", "batched_ols", "confidence_sequence", "shrinkage")
METHODS += ("test_inversion", "conditional_mle")
CLEAR = 3.0  # standard errors by which the coverage of one setting is under its level
FEWEST = 0.5  # share of usable estimates, below which a setting says little about a method


class Setting(NamedTuple):
    """One random experiment."""

    seed: int
    policy: str
    family: str
    tau: float
    num_steps: int
    batch_size: int | None
    mean: tuple[float, ...]

    @property
    def name(self) -> str:
        """In a few words."""
        noise = f" tau={self.tau:.2f}" if self.tau else ""
        batches = f", batches of {self.batch_size}" if self.batch_size else ""
        means = " ".join(f"{mean:.2f}" for mean in self.mean)
        return f"{self.policy}{noise}, {self.family}, T={self.num_steps}{batches}, means {means}"


def draw(seed: int) -> Setting:
    """A setting; what is compiled is one of sixteen shapes, which are drawn too.

    Of a shape: policies and families alike often; half without noise; a quarter in four batches. Of a setting: tau from 0.1 to 2
    (log-uniform); means of Normal rewards (sigma 1) are Normal with a spread from 0 to 1, rates are uniform from 0.1 to 0.9.
    """
    shape, rng = np.random.default_rng([0, seed % SHAPES]), np.random.default_rng([1, seed])
    family, policy = str(shape.choice(FAMILIES)), str(shape.choice([*INDEX, "thompson"]))
    noisy = shape.random() < 0.5 and policy != "thompson"
    num_steps, num_arms, batched = int(shape.choice(STEPS)), int(shape.choice(ARMS)), shape.random() < 0.25
    tau = float(np.exp(rng.uniform(np.log(0.1), np.log(2)))) if noisy else 0.0
    spread, normal, rates = rng.uniform(0, 1), rng.standard_normal(num_arms), rng.uniform(0.1, 0.9, num_arms)
    mean = tuple(map(float, rates if family == "bernoulli" else spread * normal))
    return Setting(seed, policy, family, tau, num_steps, num_steps // BATCHES if batched else None, mean)


def measure(setting: Setting, logs: int, paths: int) -> dict[str, Any]:
    """Coverage of each method that applies, in this experiment."""
    binary = setting.family == "bernoulli"
    family = jb.Bernoulli() if binary else jb.Normal(sigma=1.0)
    told = jb.Normal(sigma=None) if "unknown" in setting.family else family
    thompson = jb.BetaThompson() if binary else jb.Thompson()
    policy = thompson if setting.policy == "thompson" else INDEX[setting.policy](tau=setting.tau)
    began = time.process_time()
    many_grids = binary and (setting.num_steps, len(setting.mean)) != (STEPS[0], ARMS[0])
    absent = {"batched_ols": not setting.batch_size, "conditional_mle": many_grids}
    methods = [name for name in METHODS if not absent.get(name)]
    options: Any = dict(methods=methods, num_trials=logs, num_paths=paths, assumed=told, batch_size=setting.batch_size)
    found = jb.evaluate(jax.random.key(setting.seed), policy, family, setting.mean, setting.num_steps, **options)
    figures = {name: _figures(one) for name, one in found.methods.items()}
    return {**setting._asdict(), "logs": logs, "seconds": time.process_time() - began, "methods": figures}


def _figures(found: Any) -> dict[str, Any]:
    number = lambda value: None if np.isnan(value) else float(value)
    return {
        "coverage": number(found.average_coverage),
        "stderr": number(found.average_coverage_stderr),
        "least": number(np.min(found.coverage)),
        "too_low": number(np.mean(found.too_low)),
        "too_high": number(np.mean(found.too_high)),
        "usable": float(np.mean(found.usable)),
    }


def run(seeds: Sequence[int], path: Path, logs: int, paths: int) -> None:
    """Measures the settings that the file does not have yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    done = {row["seed"] for row in read(path)}
    for seed in seeds:
        if seed not in done:
            row = measure(draw(seed), logs, paths)
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{seed:4d} {row['seconds']:6.1f} s  {draw(seed).name}", flush=True)


def read(path: Path) -> list[dict[str, Any]]:
    """The settings that were measured."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(rows: list[dict[str, Any]], worst: int) -> str:
    """Coverage of each method over all settings, and the settings in which it is clearly too low."""
    lines = ["| method | settings | coverage, % | missed low / high, % | clearly under 95% | lowest | usable, % |"]
    lines.append("|---|--:|--:|--:|--:|--:|--:|")
    listed = []
    for name in METHODS:
        had = [(row, row["methods"][name]) for row in rows if name in row["methods"]]
        usable = [(row, one) for row, one in had if one["coverage"] is not None and one["usable"] >= FEWEST]
        if not usable:
            continue
        average = lambda key, of=usable: 100 * float(np.mean([one[key] for _, one in of]))
        error = 100 * np.std([one["coverage"] for _, one in usable], ddof=1) / np.sqrt(len(usable))
        under = [(row, one) for row, one in usable if 0.95 - one["coverage"] > CLEAR * _error(one, row)]
        lowest = 100 * min(one["coverage"] for _, one in usable)
        lines.append(
            f"| `{name}` | {len(usable)} | {average('coverage'):.1f} ± {error:.1f} | {average('too_low'):.1f} / "
            f"{average('too_high'):.1f} | {len(under)} | {lowest:.0f} | {100 * np.mean([one['usable'] for _, one in had]):.0f} |"
        )
        for row, one in sorted(under, key=lambda pair: pair[1]["coverage"])[:worst]:
            figures = f"{100 * one['coverage']:.1f} ± {100 * _error(one, row):.1f}"
            listed.append(f"| `{name}` | {figures} | {_setting(row).name} ({row['seed']}) |")
    return "\n".join([*lines, "", "| method | coverage, % | setting (seed) |", "|---|--:|---|", *listed])


def _setting(row: dict[str, Any]) -> Setting:
    return Setting(**{name: row[name] for name in Setting._fields})


def _error(one: dict[str, Any], row: dict[str, Any]) -> float:
    """The measured standard error, or that of 95% where it is larger: the former is zero where every interval holds the mean."""
    return max(one["stderr"], float(np.sqrt(0.95 * 0.05 / (row["logs"] * len(row["mean"])))))


def main(arguments: Sequence[str] | None = None) -> None:
    """Reads the arguments, runs what is missing, prints the table."""
    words = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    words.add_argument("--settings", type=int, default=200, help="how many")
    words.add_argument("--only", type=int, nargs="*", help="seeds of some settings")
    words.add_argument("--logs", type=int, default=100, help="of each setting")
    words.add_argument("--paths", type=int, default=512, help="simulated for each log")
    words.add_argument("--file", type=Path, required=True, help="the measured settings, one in a line")
    words.add_argument("--table", action="store_true", help="only print the table of what was measured")
    words.add_argument("--worst", type=int, default=3, help="settings to list for each method")
    chosen = words.parse_args(arguments)
    if not chosen.table:
        jb.use_cache()
        run(chosen.only or range(chosen.settings), chosen.file, chosen.logs, chosen.paths)
    print(table(read(chosen.file), chosen.worst))


if __name__ == "__main__":
    main()
