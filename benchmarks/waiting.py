"""What users wait for: whole commands, each in a process of its own, with an empty cache of programs and with a full one.

    python benchmarks/waiting.py                                   # everything that the library makes itself
    python benchmarks/waiting.py --only example --repeats 5 --before /path/to/another/checkout
    pip download obp==0.4.1 --no-deps -d FOLDER                    # the sample of the Open Bandit Dataset is inside
    python benchmarks/waiting.py FOLDER/obp-0.4.1-py3-none-any.whl --only obp

Seconds by the clock, of all cores together, and the peak of memory; of several runs the best. `bare JAX` imports JAX and computes
three zeros, which no command can be faster than.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from common import finish, machine, parser, print_machine

TREE = Path(__file__).parents[1]
BARE = "import jax; jax.numpy.zeros(3).block_until_ready()"
COMPARE = """
import jax, jaxbias as jb
jb.use_all_cores()
jb.use_cache()
policy, family = jb.LilUCB(tau=1.0), jb.Normal(sigma=1.0)
history = jb.simulate(jax.random.key(0), policy, family, [1.0, 0.75, 0.5], num_steps=40, progress=False)
print(jb.compare(jax.random.key(1), history, policy, family))
"""
BETA = ["--policy", "beta-thompson"]
RATES = [word for rate in (0.10, 0.12, 0.09, 0.13) for word in ("--mean", str(rate))]
MEANS = [word for mean in (1.0, 0.75, 0.5, 0.38, 0.25) for word in ("--mean", str(mean))]
MANY = [word for arm in range(500) for word in ("--mean", str(arm / 500))]
LOGS = {  # what is simulated for each log
    "batches": [*BETA, *RATES, "--steps", "5000", "--batch-size", "250"],
    "million": ["--policy", "uniform", "--family", "bernoulli", *RATES, "--steps", "1000000"],
    "arms": ["--policy", "uniform", *MANY, "--steps", "20000"],
    "control": ["--policy", "epsilon-greedy", *MEANS, "--steps", "100000"],
}
PLAN = [*BETA, "--mean", "0.05", "--mean", "0.06", "--half-width", "0.01"]
COLUMNS = ("--arm-column", "item_id", "--reward-column", "click", "--time-column", "timestamp")
CAMPAIGNS = {"men": 34, "all": 80}  # arms
MEMBER = "obp/dataset/obd/bts/{0}/{0}.csv"


def run(command: Sequence[str], cache: Path, tree: Path = TREE) -> dict[str, float]:
    """What one process takes, and its exit code."""
    environment = {**os.environ, "JAXBIAS_CACHE": str(cache), "PYTHONPATH": str(tree)}
    began = time.monotonic()
    child = subprocess.Popen([sys.executable, *command], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - began
    return dict(seconds=seconds, processor=used.ru_utime + used.ru_stime, peak=used.ru_maxrss / 1024, code=child.returncode)


def command(*words: str) -> list[str]:
    """Of the command line."""
    return ["-m", "jaxbias", *words, "--quiet"]


def commands(folder: Path, wheel: Path | None, only: str) -> dict[str, list[str]]:
    """What is timed, by name; the logs are written first."""
    found = {"bare JAX": ["-c", BARE], "example": command("debias"), "compare": ["-c", COMPARE]}
    for name, words in LOGS.items():
        path = str(folder / f"{name}.csv")
        control = ["--control", "0"] if name == "control" else []
        found[name] = command("debias", path, *words[:2], *control)
        if any(only in one for one in (name, "counts" if name == "batches" else name)):
            run(command("simulate", *words, "--trials", "1", "--out", path, "--json"), folder / "cache-simulate")
    if "batches" in found and (folder / "batches.csv").exists():
        write_counts(folder / "batches.csv", folder / "counts.csv")
    found["counts"] = command("debias", str(folder / "counts.csv"), "--counts", *BETA)
    found["plan"] = command("plan", *PLAN)
    if wheel is not None:
        with zipfile.ZipFile(wheel) as content:
            for campaign, arms in CAMPAIGNS.items():
                file = content.extract(MEMBER.format(campaign), folder)
                found[f"obp {campaign}, {arms} arms"] = command("debias", file, *BETA, *COLUMNS)
    return {name: words for name, words in found.items() if only in name or name == "bare JAX"}


def write_counts(log: Path, path: Path) -> None:
    """The log of batches as a platform would export it: pulls and successes of each arm and batch."""
    frame = pandas.read_csv(log)
    counted = frame.groupby(["batch", "arm"]).reward.agg(["size", "sum"]).reset_index()
    counted.columns = ["period", "arm", "pulls", "successes"]
    counted.astype({"successes": np.int64}).to_csv(path, index=False)


def measure(name: str, words: Sequence[str], tree: Path, folder: Path, repeats: int) -> dict[str, dict[str, float]]:
    """With an empty cache once, and with the one that left `repeats` times."""
    cache = folder / f"cache-{name.replace(' ', '-')}-{tree.name}"
    empty = run(words, cache, tree)
    full = [run(words, cache, tree) for _ in range(repeats)]
    return {"empty": empty, "full": {figure: min(one[figure] for one in full) for figure in empty}}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    options = parser(__doc__, repeats=1)
    options.add_argument("wheel", nargs="?", type=Path, help="the wheel of obp 0.4.1")
    options.add_argument("--only", default="", help="commands whose name has this in it")
    options.add_argument("--before", type=Path, metavar="CHECKOUT", help="another checkout, in turn with this one")
    return options.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a line for each command, cache and checkout."""
    chosen = parse(arguments)
    found: dict[str, Any] = {"machine": machine(), "commands": {}}
    print_machine(found["machine"])
    trees = {"now": TREE} | ({"before": chosen.before.resolve()} if chosen.before else {})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for log, words in commands(folder, chosen.wheel, chosen.only).items():
            found["commands"][log] = {when: measure(log, words, tree, folder, chosen.repeats) for when, tree in trees.items()}
            for when, states in found["commands"][log].items():
                for state, one in states.items():
                    times = f"{one['seconds']:7.2f} s, {one['processor']:7.2f} s of processor time, {one['peak']:6.0f} MB"
                    print(f"{log:20} {when:6} {state:5} cache: {times}, exit code {one['code']:.0f}", flush=True)
    finish(found, chosen.json)


if __name__ == "__main__":
    main()
