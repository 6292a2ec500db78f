"""How long `measure_bias` takes, beside the same simulation in NumPy, numba and C; and how time and memory grow.

    python benchmarks/simulate.py                       # the comparison
    python benchmarks/simulate.py --policies            # and other policies

The problem: lil' UCB, five arms, Normal rewards of sigma 1, every arm pulled once first. All report the bias of each arm's
sample mean with its Monte Carlo standard error, and are checked against each other.
"""

import argparse
import ctypes
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from common import (
    CORES,
    c_compiler,
    finish,
    machine,
    median,
    parser,
    print_machine,
    timed,
)

import jaxbias as jb

try:
    import numba  # pyright: ignore[reportMissingImports]
except ImportError:
    numba = None

MEAN = np.array([1.0, 0.75, 0.5, 0.38, 0.25], np.float32)
ARMS = len(MEAN)
CHUNK = 8192  # trials at once in NumPy: fewer and the calls cost more than the work, more and they leave the cache
TRIALS, STEPS, REPEATS = 100_000, 500, 5
POLICIES = {
    "lil-ucb": jb.LilUCB(),
    "greedy": jb.Greedy(),
    "epsilon-greedy": jb.EpsilonGreedy(),
    "thompson": jb.Thompson(),
    "lil-ucb, tau=1": jb.LilUCB(tau=1.0),
}
IN_C = ("lil-ucb", "greedy", "epsilon-greedy", "thompson")  # in the order of the list in simulate.c


class Measured(NamedTuple):
    """What every implementation returns."""

    bias: np.ndarray
    stderr: np.ndarray


Run = Callable[[int, int], Measured]


class Row(NamedTuple):
    """One implementation, timed: seconds of the clock and of all cores together."""

    name: str
    compile: float
    wall: list[float]
    cpu: list[float]
    measured: Measured


def run_jaxbias(trials: int, steps: int, policy: Any = None) -> Measured:
    policy = jb.LilUCB() if policy is None else policy
    found = jb.measure_bias(
        jax.random.key(0), policy, jb.Normal(), jnp.asarray(MEAN), num_steps=steps, num_trials=trials, progress=False
    )
    return Measured(bias=found.bias, stderr=found.bias_stderr)


def tables(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """The width of the lil' UCB interval (beta 1, epsilon 0.01, delta 0.005) and 1 / pulls, by pulls."""
    pulls = np.maximum(np.arange(steps + 1), 1)
    width = 2 * (1 + np.sqrt(0.01)) * np.sqrt(2 * 1.01 * np.log(np.log(1.01 * pulls) / 0.005) / pulls)
    return width.astype(np.float32), (1 / pulls).astype(np.float32)


def from_sums(total: np.ndarray, square: np.ndarray, trials: int) -> Measured:
    """The bias and its standard error from the sums of errors and squared errors."""
    bias = total / trials
    return Measured(bias=bias, stderr=np.sqrt((square / trials - bias**2) / max(trials - 1, 1)))


def run_numpy(trials: int, steps: int) -> Measured:
    """One thread; vectorised over all trials at once, the index by its formula: as one would write it to be read."""
    random = np.random.default_rng(0)
    rows, mean = np.arange(trials), MEAN.astype(np.float64)
    total, pulls = random.normal(mean, 1.0, (trials, ARMS)), np.ones((trials, ARMS))
    for _ in range(ARMS, steps):
        width = 2 * (1 + np.sqrt(0.01)) * np.sqrt(2 * 1.01 * np.log(np.log(1.01 * pulls) / 0.005) / pulls)
        arm = np.argmax(total / pulls + width, axis=1)
        total[rows, arm] += random.normal(mean[arm])
        pulls[rows, arm] += 1
    error = (total / pulls - mean).T
    return from_sums(error.sum(axis=1), np.square(error).sum(axis=1), trials)


def run_tuned_numpy(trials: int, steps: int) -> Measured:
    """One thread; vectorised over chunks of trials, float32, tables, only the arm that moved, nothing allocated."""
    random = np.random.Generator(np.random.SFC64(0))
    total, square = np.zeros(ARMS), np.zeros(ARMS)
    for first in range(0, trials, CHUNK):
        error = numpy_chunk(random, min(CHUNK, trials - first), steps)
        total += error.sum(axis=1)
        square += np.square(error).sum(axis=1)
    return from_sums(total, square, trials)


def numpy_chunk(random: np.random.Generator, trials: int, steps: int) -> np.ndarray:
    """The errors of a chunk, (arms, trials). Only the arm that moved is read and written, at `place`; nothing is allocated."""
    width, inverse = tables(steps)
    total = MEAN[:, None] + random.standard_normal((ARMS, trials), np.float32)
    pulls, index = np.ones((ARMS, trials), np.intp), total + width[1]
    flat_total, flat_pulls, flat_index = total.reshape(-1), pulls.reshape(-1), index.reshape(-1)
    best, value, looked_up = np.empty((3, trials), np.float32)
    arm, place, count = np.empty((3, trials), np.intp)
    is_best, candidate = np.empty((ARMS, trials), bool), np.empty((ARMS, trials), np.uint8)
    small, column = np.empty(trials, np.uint8), np.arange(trials)
    numbers = np.arange(ARMS, dtype=np.uint8)[:, None]
    for _ in range(ARMS, steps):
        # argmax over arms; `np.argmax` runs one number at a time here, these four along the machine's vectors
        np.maximum.reduce(index, axis=0, out=best)
        np.equal(index, best, out=is_best)
        np.multiply(is_best.view(np.uint8), numbers, out=candidate)
        np.maximum.reduce(candidate, axis=0, out=small)
        np.copyto(arm, small)
        np.multiply(arm, trials, out=place)
        place += column
        random.standard_normal(out=value, dtype=np.float32)
        value += MEAN.take(arm, out=looked_up, mode="clip")  # "clip" is the mode that does not copy `out`
        value += flat_total.take(place, out=looked_up, mode="clip")
        flat_total[place] = value
        flat_pulls.take(place, out=count, mode="clip")
        count += 1
        flat_pulls[place] = count
        value *= inverse.take(count, out=looked_up, mode="clip")
        value += width.take(count, out=looked_up, mode="clip")
        flat_index[place] = value
    return total.astype(np.float64) / pulls - MEAN[:, None]


def run_numba(trials: int, steps: int) -> Measured:
    """One thread; a loop over trials and steps."""
    random = np.random.Generator(np.random.SFC64(1))
    total, square = numba_loop()(random, MEAN, *tables(steps), trials, steps)
    return from_sums(total, square, trials)


@cache
def numba_loop() -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    assert numba is not None

    @numba.njit
    def loop(random, mean, width, inverse, trials, steps):
        errors, squares = np.zeros(ARMS), np.zeros(ARMS)
        total, index, pulls = np.empty(ARMS, np.float32), np.empty(ARMS, np.float32), np.empty(ARMS, np.int32)
        for _ in range(trials):
            for k in range(ARMS):
                total[k] = mean[k] + random.standard_normal(dtype=np.float32)
                index[k] = total[k] + width[1]
                pulls[k] = 1
            for _ in range(ARMS, steps):
                arm, best = 0, index[0]
                for k in range(1, ARMS):
                    if index[k] > best:
                        arm, best = k, index[k]
                total[arm] += mean[arm] + random.standard_normal(dtype=np.float32)
                pulls[arm] += 1
                index[arm] = total[arm] * inverse[pulls[arm]] + width[pulls[arm]]
            for k in range(ARMS):
                error = total[k] / np.float64(pulls[k]) - mean[k]
                errors[k] += error
                squares[k] += error * error
        return errors, squares

    return loop


def c_tables(policy: str, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """By pulls: what a sum is multiplied by, and the width of the policy, as `simulate.c` says."""
    width, inverse = tables(steps)
    if policy != "thompson":
        return inverse, width
    thompson = POLICIES["thompson"]
    precision = thompson.prior_sigma**-2.0 + np.arange(steps + 1) / thompson.sigma**2
    return (1 / (precision * thompson.sigma**2)).astype(np.float32), (precision**-0.5).astype(np.float32)


def run_c(trials: int, steps: int, policy: str = "lil-ucb", threads: int = CORES) -> Measured:
    """One thread per core; a policy of `IN_C`, with its default settings."""
    library = c_library()
    sums = np.zeros((-(-trials // library.block_size()), 2, ARMS))
    arrays = [array.ctypes.data_as(ctypes.c_void_p) for array in (MEAN, *c_tables(policy, steps), sums)]
    sizes = ctypes.c_long(trials), ctypes.c_long(steps), ctypes.c_float(POLICIES["epsilon-greedy"].epsilon)
    library.simulate(ctypes.c_int(IN_C.index(policy)), *sizes, *arrays, ctypes.c_int(threads))
    total, square = sums.sum(axis=0)
    return from_sums(total, square, trials)


@cache
def c_library() -> ctypes.CDLL:
    """simulate.c, compiled for this machine into a directory that is gone once it is loaded."""
    compiler = c_compiler()
    assert compiler is not None
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory) / "simulate.so"
        source = Path(__file__).with_suffix(".c")
        flags = ["-O3", "-march=native", "-shared", "-fPIC", "-pthread", f"-DARMS={ARMS}"]
        subprocess.run([compiler, *flags, str(source), "-o", str(target), "-lm"], check=True)
        library = ctypes.CDLL(str(target))
    library.block_size.restype = ctypes.c_long
    return library


def implementations() -> dict[str, Run]:
    """Those that can run here; jaxbias first."""
    runs: dict[str, Run] = {"jaxbias": run_jaxbias, "NumPy": run_numpy, "tuned NumPy": run_tuned_numpy}
    if numba is not None:
        runs["numba"] = run_numba
    if c_compiler() is not None:
        runs["C"] = run_c
    return runs


def compare(runs: dict[str, Run], trials: int, steps: int, repeats: int) -> list[Row]:
    """Each warmed up, then all in turn, so that what disturbs the machine disturbs all alike.

    A first call with one trial has next to nothing to do but compile.
    """
    rows = []
    for name, run in runs.items():
        compile_time, _, _ = timed(lambda run=run: run(1, steps))
        rows.append(Row(name=name, compile=compile_time, wall=[], cpu=[], measured=run(trials, steps)))
    for _ in range(repeats):
        for row in rows:
            wall, cpu, _ = timed(lambda run=runs[row.name]: run(trials, steps))
            row.wall.append(wall)
            row.cpu.append(cpu)
    return rows


def distance(one: Measured, other: Measured) -> float:
    """The largest difference between two biases, in combined standard errors."""
    return float(np.max(np.abs(one.bias - other.bias) / np.hypot(one.stderr, other.stderr)))


def comparison(rows: list[Row], trials: int, steps: int) -> list[dict[str, Any]]:
    """The comparison as plain numbers; jaxbias is the first row."""
    ours = rows[0]
    return [
        {
            "name": row.name,
            "compile": row.compile,
            "best": min(row.wall),
            "median": median(row.wall),
            "cpu": min(row.cpu),
            "steps_per_second": trials * steps / min(row.wall),
            "jaxbias_takes": min(ours.wall) / min(row.wall),
            "jaxbias_takes_median": median(ours.wall) / median(row.wall),
            "jaxbias_takes_cpu": min(ours.cpu) / min(row.cpu),
            "bias": row.measured.bias.tolist(),
            "bias_stderr": row.measured.stderr.tolist(),
            "distance": distance(ours.measured, row.measured),
        }
        for row in rows
    ]


def policy_runs() -> dict[str, Run]:
    """jaxbias under each policy, and where there is a compiler the loops in C."""
    runs: dict[str, Run] = {name: partial(run_jaxbias, policy=policy) for name, policy in POLICIES.items()}
    if c_compiler() is not None:
        runs |= {f"{name}, C": partial(run_c, policy=name) for name in IN_C}
    return runs


def policy_speeds(trials: int, steps: int, repeats: int) -> dict[str, dict[str, float]]:
    """Steps per second under each policy, by the clock and by the seconds of all cores together; beside C, the share of its
    speed in both, and how far the two biases are apart."""
    rows = {row.name: row for row in compare(policy_runs(), trials, steps, repeats)}
    speeds = {}
    for name in POLICIES:
        ours, theirs = rows[name], rows.get(f"{name}, C")
        wall, cpu = min(ours.wall), min(ours.cpu)
        speeds[name] = {"steps_per_second": trials * steps / wall, "steps_per_cpu_second": trials * steps / cpu}
        if theirs is not None:
            speeds[name]["share_of_c"] = min(theirs.wall) / wall
            speeds[name]["share_of_c_cpu"] = min(theirs.cpu) / cpu
            speeds[name]["distance"] = distance(ours.measured, theirs.measured)
    return speeds


def print_comparison(rows: list[dict[str, Any]], trials: int, steps: int) -> None:
    threads = {"jaxbias": str(len(jax.devices())), "NumPy": "1", "tuned NumPy": "1", "numba": "1", "C": str(CORES)}
    print(f"\nlil' UCB, {trials:,} trials of {steps:,} steps. Seconds; cpu: of all cores together, best.")
    print("jaxbias takes: its time over the other's, for the best, the median and the cpu seconds.")
    head = f"{'':8} {'threads':>7} {'compile':>8} {'best':>8} {'median':>8} {'cpu':>8} {'Msteps/s':>9}"
    print(f"{head}   {'jaxbias takes':<20} {'bias of each arm':<41} {'apart':>6}")
    for row in rows:
        times = " ".join(f"{row[name]:8.3f}" for name in ("compile", "best", "median", "cpu"))
        ratios = " ".join(f"{row[name]:6.2f}" for name in ("jaxbias_takes", "jaxbias_takes_median", "jaxbias_takes_cpu"))
        bias = " ".join(f"{value:8.4f}" for value in row["bias"])
        speed = f"{row['steps_per_second'] / 1e6:9.1f}"
        print(f"{row['name']:8} {threads[row['name']]:>7} {times} {speed}  {ratios}  {bias} {row['distance']:6.2f}")
    print("apart: the largest difference from jaxbias's bias, in combined standard errors.")


def print_policies(speeds: dict[str, dict[str, float]]) -> None:
    print("\njaxbias under each policy; of C: its speed over that of the loop in C, by the clock and by the cpu seconds.")
    print(f"{'Policy':16} {'Msteps/s':>9} {'per cpu s':>10} {'of C':>6} {'cpu':>6} {'apart':>6}")
    for name, speed in speeds.items():
        beside = " ".join(f"{speed[part]:6.2f}" for part in ("share_of_c", "share_of_c_cpu", "distance") if part in speed)
        print(f"{name:16} {speed['steps_per_second'] / 1e6:9.1f} {speed['steps_per_cpu_second'] / 1e6:10.1f} {beside}".rstrip())


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    options = parser(__doc__, REPEATS)
    options.add_argument("--trials", type=int, default=TRIALS)
    options.add_argument("--steps", type=int, default=STEPS)
    options.add_argument("--policies", action="store_true", help="also other policies, beside C")
    chosen = options.parse_args(arguments)
    if chosen.steps < ARMS or min(chosen.trials, chosen.repeats) < 1:
        options.error(f"allowed: --steps {ARMS} or more, --trials and --repeats 1 or more")
    return chosen


def main(arguments: Sequence[str] | None = None) -> None:
    chosen = parse(arguments)
    found: dict[str, Any] = {"machine": machine(), "trials": chosen.trials, "steps": chosen.steps}
    print_machine(found["machine"])
    rows = compare(implementations(), chosen.trials, chosen.steps, chosen.repeats)
    found["comparison"] = comparison(rows, chosen.trials, chosen.steps)
    print_comparison(found["comparison"], chosen.trials, chosen.steps)
    if chosen.policies:
        found["policies"] = policy_speeds(chosen.trials, chosen.steps, chosen.repeats)
        print_policies(found["policies"])
    finish(found, chosen.json)


if __name__ == "__main__":
    main()
