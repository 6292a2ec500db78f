"""What the benchmarks share: clocks, memory, what machine this is, processes of their own, and how a run ends."""

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np

import jaxbias as jb

Result = TypeVar("Result")

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

jb.use_all_cores()  # as the command line does; nothing where JAX is running, or JAX_NUM_CPU_DEVICES says otherwise


def timed(run: Callable[[], Result]) -> tuple[float, float, Result]:
    """Seconds of the clock, seconds of all cores together, and what was computed."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = jax.block_until_ready(run())
    return time.perf_counter() - wall, time.process_time() - cpu, result


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """The slope of log time against log size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def peak_memory() -> float:
    """The most memory this process has used, in MB.

    On Linux, `ru_maxrss` starts at what the parent had when it started us, so the kernel's own mark of this program comes first.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 1024
    unit = 2**20 if sys.platform == "darwin" else 2**10  # macOS counts bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def in_child(script: str, *arguments: str, **environment: str) -> str:
    """What a benchmark prints in a fresh process, whose memory, compilations and devices are its own."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    settings = {**os.environ, "PYTHONPATH": path, **environment}
    return subprocess.run(
        [sys.executable, script, *arguments], env=settings, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def c_compiler() -> str | None:
    return shutil.which(os.environ.get("CC", "cc"))


def machine() -> dict[str, Any]:
    compiler = c_compiler()
    output = compiler and subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    return {
        "processor": processor(),
        "cores": CORES,
        "device": jax.devices()[0].device_kind,
        "devices": len(jax.devices()),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "versions": dict(filter(None, map(installed, ("jax", "jaxlib", "numpy", "numba")))),
        "compiler": output.splitlines()[0] if output else None,
    }


def installed(name: str) -> tuple[str, str] | None:
    try:
        return name, version(name)
    except PackageNotFoundError:
        return None


def processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def print_machine(found: dict[str, Any]) -> None:
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    devices = f"JAX on {found['devices']} x {found['device']}"
    print(f"{found['processor']}, {found['cores']} cores; {devices}; load at the start {found['load']:.2f}")
    print(f"Python {found['python']}, {versions}; {found['compiler'] or 'no C compiler'}")


def parser(description: str | None, repeats: int) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    made = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    made.add_argument("--repeats", type=int, default=repeats, help="timed runs of each, after one to warm up")
    made.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers there")
    return made


def finish(found: dict[str, Any], path: Path | None) -> None:
    """The load at the end, and the numbers as JSON where they were asked for."""
    found["load_at_the_end"] = os.getloadavg()[0]
    print(f"\nLoad at the end: {found['load_at_the_end']:.2f}")
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=2) + "\n")


def naive(*given: Any) -> jb.Estimate:
    """The sample mean as a method of `evaluate`, which gives it the key, the history, the policy and the family."""
    return jb.sample_mean(given[1], given[3])


def measure_quality(setting: str, method: str, estimate_by: Any, problem: Sequence[Any], trials: int, **design: Any) -> Any:
    """A row on how good an estimate is over many logs, against the sample means: bias, MSE, coverage; with their errors."""
    methods = {"sample_mean": naive, method: estimate_by}
    options: Any = dict(methods=methods, num_trials=trials, **design)
    given: Any = (jax.random.key(11), *problem)
    seconds, _, found = timed(lambda: jb.evaluate(*given, **options))
    original, ours = found.methods["sample_mean"], found.methods[method]
    bias = original.average_bias
    return {
        "setting": setting,
        "method": method,
        "seconds": seconds,
        "bias": bias,
        "bias_stderr": original.average_bias_stderr,
        "left": 100 * ours.average_bias / bias,
        "left_stderr": 100 * ours.average_bias_stderr / abs(bias),
        "mse": 100 * ours.relative_rmse**2,
        "coverage": 100 * ours.average_coverage,
        "coverage_stderr": 100 * ours.average_coverage_stderr,
        "converged": 100 * float(np.mean(ours.usable)),
    }


def print_quality(row: dict[str, Any] | None) -> None:
    """A row of the table, or its head."""
    columns = "{:38} {:>17} {:16} {:>14} {:>6} {:>12} {:>6} {:>8}"
    if row is None:
        print(columns.format("setting", "original bias", "method", "% bias left", "% MSE", "coverage", "conv.", "seconds"))
        return
    print(
        columns.format(
            row["setting"],
            f"{row['bias']:.4f} ± {row['bias_stderr']:.4f}",
            row["method"],
            f"{row['left']:.0f} ± {row['left_stderr']:.0f}",
            f"{row['mse']:.0f}",
            f"{row['coverage']:.1f} ± {row['coverage_stderr']:.1f}",
            f"{row['converged']:.1f}",
            f"{row['seconds']:.1f}",
        ),
        flush=True,
    )
