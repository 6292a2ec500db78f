"""Acceptance of `jaxbias debias` by the processor time of real and simulated logs, run by hand.

    pip download obp==0.4.1 --no-deps -d FOLDER    # the sample of the Open Bandit Dataset is inside
    python benchmarks/waiting.py FOLDER/obp-0.4.1-py3-none-any.whl

Each log is analysed by the command line in a process of its own, with an empty cache and again with a full one.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

COLUMNS = ("--arm-column", "item_id", "--reward-column", "click", "--time-column", "timestamp")
CAMPAIGNS = {"men": 34, "all": 80}  # arms
MEMBER = "obp/dataset/obd/bts/{0}/{0}.csv"


def run(words: list[str], cache: Path) -> tuple[float, float, int]:
    """Processor seconds, seconds and exit code of one command."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    environment = {**os.environ, "JAXBIAS_CACHE": str(cache)}
    done = subprocess.run([sys.executable, "-m", "jaxbias", *words], env=environment, stdout=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, time.monotonic() - began, done.returncode


def simulated(folder: Path) -> dict[str, list[str]]:
    """Logs that the command line makes: batches of Bernoulli Thompson sampling, a million rows, and 500 arms."""
    beta = ["--policy", "beta-thompson"]
    means = [word for mean in (0.10, 0.12, 0.09, 0.13) for word in ("--mean", str(mean))]
    many = [word for arm in range(500) for word in ("--mean", str(arm / 500))]
    made = {
        "batches": [*beta, *means, "--steps", "5000", "--batch-size", "250"],
        "million": ["--policy", "uniform", "--family", "bernoulli", *means, "--steps", "1000000"],
        "arms": ["--policy", "uniform", *many, "--steps", "20000"],
    }
    for name, words in made.items():
        once = ["--trials", "1", "--out", str(folder / f"{name}.csv"), "--quiet", "--json"]
        run(["simulate", *words, *once], folder / "cache-simulate")
    return {name: [str(folder / f"{name}.csv"), *words[:2]] for name, words in made.items()}


def main(words: Sequence[str] | None = None) -> None:
    """Prints a line for each log."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", nargs="?", type=Path, help="the wheel of obp 0.4.1")
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        logs = simulated(folder)
        if given.wheel is not None:
            with zipfile.ZipFile(given.wheel) as wheel:
                for campaign, arms in CAMPAIGNS.items():
                    file = Path(wheel.extract(MEMBER.format(campaign), folder))
                    logs[f"obp {campaign}, {arms} arms"] = [str(file), "--policy", "beta-thompson", *COLUMNS]
        for log, words in logs.items():
            for state in ("empty", "full"):
                spent, seconds, code = run(["debias", *words, "--quiet"], folder / f"cache-{log.split()[0]}")
                print(f"{log:20} {state} cache: {spent:6.1f} s of processor time, {seconds:6.1f} s, exit code {code}", flush=True)


if __name__ == "__main__":
    main()
