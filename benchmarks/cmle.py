"""How long `conditional_mle` takes, beside the paper's Algorithm 2 in NumPy; and how time and memory grow with the steps.

    python benchmarks/cmle.py                          # the comparison
    python benchmarks/cmle.py --divergence             # and contrastive divergence in jaxbias, its default and the paper's

The problem: logs of lil' UCB with tau 1, five arms, Normal rewards of sigma 1, every arm pulled once first. Algorithm 2 is
contrastive divergence with the paper's settings. It is written twice in NumPy, to be read and to be fast; from the same random
numbers both give the same estimate. Newton's method and the default of contrastive divergence find the maximum itself, of which
Algorithm 2 stops short, so that it is apart by more than its noise: the distance of the sample means is the scale for that.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from common import finish, machine, parser, print_machine, timed
from simulate import ARMS, MEAN, tables

import jaxbias as jb

POLICY, FAMILY = jb.LilUCB(tau=1.0), jb.Normal(sigma=1.0)
LOGS, NUMPY_LOGS, STEPS, REPEATS = 1_000, 5, 40, 3
DIVERGENCE_LOGS = 200  # of contrastive divergence in jaxbias: enough for its speed, and it is slow
# As NumPy runs it here: all rewards in one proposal, which NumPy does in as few calls as one reward alone.
AS_NUMPY = jb.ContrastiveDivergence.paper(kernel="random_walk", acceptance=(0.2, 0.5))
DIVERGENCE: dict[str, Any] = dict(solver="contrastive_divergence", settings=AS_NUMPY)
DIVERGENCES = {"divergence": None, "paper divergence": jb.ContrastiveDivergence.paper(), "as NumPy": AS_NUMPY}
ITERATIONS, RATE, SAMPLES, TAIL = 600, 0.01, 30, 100  # Algorithm 2 as the paper runs it
AHEAD = 6  # proposals that the tuned NumPy looks at together: of more, too many are thrown away once one is accepted


class Result(NamedTuple):
    """What every implementation returns: the estimate, (logs, arms), and where it is known, its Monte Carlo error over its
    standard error, on average."""

    mean: np.ndarray
    noise: float | None


class Row(NamedTuple):
    """One implementation, timed on its own number of logs: seconds of the clock and of all cores together."""

    name: str
    logs: int
    first: float
    wall: list[float]
    cpu: list[float]
    result: Result


Run = Callable[[jb.History], Result]


def run_jaxbias(history: jb.History, **options: Any) -> Result:
    estimate = jax.block_until_ready(jb.conditional_mle(jax.random.key(1), history, POLICY, FAMILY, **options))
    error = estimate.diagnostics.get("monte_carlo_error")
    noise = None if error is None else float(np.mean(error / estimate.stderr))
    return Result(mean=np.asarray(estimate.mean), noise=noise)


class Density:
    """The log-density of the rewards of one log given its arms, up to a constant. Arms by steps; what the rewards do not
    change is made once, and nothing is allocated."""

    def __init__(self, arms: np.ndarray, dtype: Any):
        self.chosen = np.eye(ARMS, dtype=dtype)[:, arms]
        pulls = np.cumsum(self.chosen, axis=1)[:, ARMS - 1 : -1].astype(int)  # before each step that the policy chose
        self.width, self.inverse = (table.astype(dtype)[pulls] for table in tables(len(arms)))
        self.free = self.chosen[:, ARMS:].copy()
        self.total, self.off = np.empty((ARMS, len(arms)), dtype), np.empty(len(arms), dtype)
        self.before = self.total[:, ARMS - 1 : -1]
        self.index, self.scratch = np.empty(pulls.shape, dtype), np.empty(pulls.shape, dtype)
        self.sums = np.empty(pulls.shape[1], dtype)

    def __call__(self, mean_of_step: np.ndarray, rewards: np.ndarray) -> float:
        np.multiply(self.chosen, rewards, out=self.total)
        np.add.accumulate(self.total, axis=1, out=self.total)
        np.multiply(self.before, self.inverse, out=self.index)
        np.add(self.index, self.width, out=self.index)
        np.exp(self.index, out=self.scratch)  # an index is far below 88, so that nothing overflows
        np.add.reduce(self.scratch, axis=0, out=self.sums)
        np.log(self.sums, out=self.sums)
        np.subtract(rewards, mean_of_step, out=self.off)
        return float(np.vdot(self.index, self.free) - np.add.reduce(self.sums) - self.off.dot(self.off) / 2)


def numpy_chain(
    density: Density, mean_of_step: np.ndarray, rewards: np.ndarray, noise: np.ndarray, gaps: np.ndarray
) -> tuple[np.ndarray, float]:
    """Metropolis from the data: the average over the second half of the samples, and the average acceptance."""
    now, height = rewards, density(mean_of_step, rewards)
    average, acceptance = np.zeros_like(rewards), 0.0
    for number, (move, gap) in enumerate(zip(noise, gaps.tolist(), strict=True)):
        proposal = np.add(now, move, out=move)
        proposed = density(mean_of_step, proposal)
        acceptance += math.exp(min(proposed - height, 0.0))
        if proposed - height > -gap:  # the gap is minus the logarithm of a uniform number
            now, height = proposal, proposed
        if number >= SAMPLES // 2:
            average += now
    return average / (SAMPLES - SAMPLES // 2), acceptance / SAMPLES


def numpy_log(
    seed: int, arms: np.ndarray, rewards: np.ndarray, iterations: int = ITERATIONS, dtype: Any = np.float32
) -> np.ndarray:
    """Algorithm 2 on one log, vectorised over its steps: as one would write it to be read."""
    random, density, step = np.random.Generator(np.random.SFC64(seed)), Density(arms, dtype), first_step(len(arms))
    chosen, rewards = density.chosen, rewards.astype(dtype)
    mean = chosen @ rewards / chosen.sum(axis=1)
    noise, gaps, path = np.empty((SAMPLES, len(arms)), dtype), np.empty(SAMPLES, dtype), np.empty((iterations, ARMS))
    for iteration in range(iterations):
        draw(random, noise, gaps)
        noise *= step
        average, acceptance = numpy_chain(density, mean[arms], rewards, noise, gaps)
        mean = mean + RATE * (chosen @ (rewards - average))
        path[iteration], step = mean, adapt(step, acceptance)
    return path[-TAIL:].mean(axis=0)


def first_step(steps: int) -> float:
    return 2.38 / math.sqrt(steps)


def draw(random: np.random.Generator, noise: np.ndarray, gaps: np.ndarray) -> None:
    """All random numbers of an iteration."""
    random.standard_normal(out=noise, dtype=noise.dtype)
    random.standard_exponential(out=gaps, dtype=gaps.dtype)


def adapt(step: float, acceptance: float) -> float:
    return step * (1.1 if acceptance > 0.5 else 0.9 if acceptance < 0.2 else 1.0)


class Linear(NamedTuple):
    """What makes Algorithm 2 fast on one log. An arm's index is the same until it is pulled again, so there is one to compute
    for each step, not for each step and arm; and it is linear in the rewards, so that it is computed for all proposals of an
    iteration at once, and so is all of the log-density but the logarithms.

    Fields:
        constants: (steps, steps + arms + 1), to be multiplied by the noise of the proposals: how the indices change, how the
            sums of the arms change, and the slope of the log-density at the data, without the logarithms and for means of 0.
        index: after each step, that of its arm, at the data.
        last: (steps, free steps), 1 where a step is the last pull of its arm before a free step.
    """

    constants: np.ndarray
    index: np.ndarray
    last: np.ndarray


def linear(arms: np.ndarray, rewards: np.ndarray, dtype: Any) -> Linear:
    steps, number = len(arms), np.arange(len(arms))
    same = (arms[:, None] == arms) & (number[:, None] >= number)
    pulls = same.sum(axis=1)
    width = tables(steps)[0].astype(float)[pulls]
    running = same / pulls[:, None]
    latest = np.maximum.accumulate(np.where(np.arange(ARMS)[:, None] == arms, number, -1), axis=1)
    latest = latest[:, ARMS - 1 : -1]  # (arms, free steps): the last pull of each arm before each step that the policy chose
    last = (latest[:, None] == number[:, None]).any(axis=0)
    slope = running[latest[arms[ARMS:], number[: steps - ARMS]]].sum(axis=0) - rewards
    constants = np.concatenate([running.T, np.eye(ARMS)[arms], slope[:, None]], axis=1)
    return Linear(*(np.ascontiguousarray(array, dtype) for array in (constants, running @ rewards + width, last)))


class Chain:
    """Metropolis for `tuned_numpy_log`. The proposals are known before it is known which of them are accepted, so some are
    looked at together, as if all of them were to be rejected; those after the first that is accepted are looked at again."""

    def __init__(self, log: Linear):
        self.log, dtype, (steps, free) = log, log.index.dtype, log.last.shape
        self.index, self.sums = np.empty((AHEAD, steps), dtype), np.empty((AHEAD, free), dtype)
        self.ones, self.log_sum = np.ones(free, dtype), np.empty(AHEAD, dtype)
        self.at_data = self.log_sums(np.zeros_like(self.index), log.index)[0]
        kept = np.minimum(SAMPLES - np.arange(SAMPLES), SAMPLES - SAMPLES // 2)
        self.kept = (kept / (SAMPLES - SAMPLES // 2)).tolist()  # the share of the second half that an accepted proposal is in

    def log_sums(self, moves: np.ndarray, index: np.ndarray) -> list[float]:
        """For each move, the sum over free steps of log sum exp(index): the part of the log-density that is not linear."""
        np.add(moves, index, out=self.index)
        np.exp(self.index, out=self.index)
        np.matmul(self.index, self.log.last, out=self.sums)
        np.log(self.sums, out=self.sums)
        return np.matmul(self.sums, self.ones, out=self.log_sum).tolist()

    def run(self, moves: np.ndarray, gains: np.ndarray, products: np.ndarray, gaps: list[float]) -> tuple[list[float], float]:
        """The weight of each proposal in the average over the second half of the samples, and the average acceptance."""
        index, log_sum, number, acceptance, weights = self.log.index, self.at_data, 0, 0.0, [0.0] * SAMPLES
        linear_gains = gains.tolist()
        while number < SAMPLES:
            log_sums = self.log_sums(moves[number : number + AHEAD], index)
            for proposed in log_sums[: SAMPLES - number]:
                here, number = number, number + 1
                change = linear_gains[here] + log_sum - proposed
                acceptance += 1.0 if change >= 0 else math.exp(change)
                if change > -gaps[here]:
                    log_sum, index = proposed, index + moves[here]
                    gains -= products[here]
                    linear_gains, weights[here] = gains.tolist(), self.kept[here]
                    break
        return weights, acceptance / SAMPLES


def tuned_numpy_log(
    seed: int, arms: np.ndarray, rewards: np.ndarray, iterations: int = ITERATIONS, dtype: Any = np.float32
) -> np.ndarray:
    """Algorithm 2 on one log, the same chain from the same random numbers as `numpy_log`, with as little work as possible."""
    random, log = np.random.Generator(np.random.SFC64(seed)), linear(arms, rewards.astype(float), dtype)
    chain, steps, step = Chain(log), len(arms), first_step(len(arms))
    mean = (np.bincount(arms, rewards, ARMS) / np.bincount(arms, minlength=ARMS)).astype(dtype)
    noise, gaps, path = np.empty((SAMPLES, steps), dtype), np.empty(SAMPLES, dtype), np.empty((iterations, ARMS))
    padded, products = np.zeros((SAMPLES + AHEAD, log.constants.shape[1]), dtype), np.empty((SAMPLES, SAMPLES), dtype)
    moves, changes = padded[:, :steps], padded[:SAMPLES]
    sums, slope = changes[:, steps:-1], changes[:, -1]
    for iteration in range(iterations):
        draw(random, noise, gaps)
        noise *= step
        np.matmul(noise, log.constants, out=changes)
        np.matmul(noise, noise.T, out=products)
        gains = slope + sums @ mean - products.diagonal() / 2
        weights, acceptance = chain.run(moves, gains, products, gaps.tolist())
        mean = mean - RATE * (np.array(weights, dtype) @ sums)
        path[iteration], step = mean, adapt(step, acceptance)
    return path[-TAIL:].mean(axis=0)


def run_numpy(history: jb.History, one_log: Callable[..., np.ndarray]) -> Result:
    """One log at a time, in one thread."""
    logs = enumerate(zip(np.asarray(history.arms), np.asarray(history.rewards), strict=True))
    return Result(mean=np.stack([one_log(seed, arms, rewards) for seed, (arms, rewards) in logs]), noise=None)


def simulated(logs: int, steps: int) -> jb.History:
    key, mean = jax.random.key(0), jnp.asarray(MEAN)
    return jb.simulate(key, POLICY, FAMILY, mean, num_steps=steps, num_trials=logs, progress=False)


def implementations(logs: int, numpy_logs: int, divergence: bool) -> dict[str, tuple[Run, int]]:
    """Each with the number of logs it is timed on; Newton's method first."""
    runs: dict[str, tuple[Run, int]] = {
        "newton": (run_jaxbias, logs),
        "newton, 256 paths": (partial(run_jaxbias, num_paths=256), logs),
        "NumPy": (partial(run_numpy, one_log=numpy_log), numpy_logs),
        "tuned NumPy": (partial(run_numpy, one_log=tuned_numpy_log), numpy_logs),
    }
    if divergence:
        size = min(max(DIVERGENCE_LOGS, numpy_logs), logs)
        for name, settings in DIVERGENCES.items():
            runs[name] = (partial(run_jaxbias, solver="contrastive_divergence", settings=settings), size)
    return runs


def compare(runs: dict[str, tuple[Run, int]], history: jb.History, repeats: int) -> list[Row]:
    """Each once, with its compilation, then all in turn, so that what disturbs the machine disturbs all alike."""
    batches = {name: jax.tree.map(lambda leaf, size=size: leaf[:size], history) for name, (_, size) in runs.items()}
    rows = []
    for name, (run, size) in runs.items():
        first, _, result = timed(lambda run=run, name=name: run(batches[name]))
        rows.append(Row(name=name, logs=size, first=first, wall=[], cpu=[], result=result))
    for _ in range(repeats):
        for row in rows:
            wall, cpu, _ = timed(lambda name=row.name: runs[name][0](batches[name]))
            row.wall.append(wall)
            row.cpu.append(cpu)
    return rows


def comparison(rows: list[Row], history: jb.History, numpy_logs: int) -> list[dict[str, Any]]:
    """The comparison as plain numbers; the estimates on the logs that all have, against Newton's method and the sample means."""
    named = {row.name: row for row in rows}
    speeds = {name: row.logs / min(row.wall) for name, row in named.items()}
    newton, sample_mean = named["newton"].result.mean[:numpy_logs], np.asarray(history.statistics.mean)[:numpy_logs]
    return [
        {
            "name": row.name,
            "logs": row.logs,
            "compile": 0.0 if "NumPy" in row.name else row.first - min(row.wall),
            "best": min(row.wall),
            "logs_per_second": speeds[row.name],
            "logs_per_cpu_second": row.logs / min(row.cpu),
            "times_numpy": speeds[row.name] / speeds["NumPy"],
            "times_tuned_numpy": speeds[row.name] / speeds["tuned NumPy"],
            "from_newton": float(np.abs(row.result.mean[:numpy_logs] - newton).mean()),
            "from_sample_mean": float(np.abs(row.result.mean[:numpy_logs] - sample_mean).mean()),
            "noise": row.result.noise,
        }
        for row in rows
    ]


def print_comparison(rows: list[dict[str, Any]], steps: int, numpy_logs: int) -> None:
    print(f"\nlil' UCB with tau 1, logs of {steps:,} steps. compile: the first call less the best. NumPy: one thread.")
    print("times: the speed over that of the two in NumPy, by the clock. noise: Monte Carlo error over standard error.")
    print(f"from: mean distance of the estimate from Newton's and from the sample means, on {numpy_logs} logs.")
    head = f"{'':17} {'logs':>5} {'compile':>8} {'best':>8} {'logs/s':>8} {'per cpu s':>9} {'times':>8} {'tuned':>8}"
    print(f"{head} {'from newton':>12} {'sample mean':>12} {'noise':>7}")
    for row in rows:
        times = f"{row['compile']:8.2f} {row['best']:8.3f} {row['logs_per_second']:8.1f} {row['logs_per_cpu_second']:9.1f}"
        ratios = f"{row['times_numpy']:8.1f} {row['times_tuned_numpy']:8.1f}"
        noise = "" if row["noise"] is None else f"{row['noise']:7.4f}"
        distances = f"{row['from_newton']:12.4f} {row['from_sample_mean']:12.4f}"
        print(f"{row['name']:17} {row['logs']:5,} {times} {ratios} {distances} {noise}")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    options = parser(__doc__, REPEATS)
    options.add_argument("--logs", type=int, default=LOGS)
    options.add_argument("--steps", type=int, default=STEPS)
    options.add_argument("--numpy-logs", type=int, default=NUMPY_LOGS, help="logs that NumPy is timed on, one at a time")
    options.add_argument("--divergence", action="store_true", help=f"also contrastive divergence, on {DIVERGENCE_LOGS} logs")
    chosen = options.parse_args(arguments)
    if chosen.steps <= ARMS or chosen.repeats < 1 or not 1 <= chosen.numpy_logs <= chosen.logs:
        options.error(
            f"allowed: --steps {ARMS + 1} or more, --repeats and --numpy-logs 1 or more, --logs no fewer than --numpy-logs"
        )
    return chosen


def main(arguments: Sequence[str] | None = None) -> None:
    chosen = parse(arguments)
    found: dict[str, Any] = {"machine": machine(), "logs": chosen.logs, "steps": chosen.steps}
    print_machine(found["machine"])
    history = simulated(chosen.logs, chosen.steps)
    rows = compare(implementations(chosen.logs, chosen.numpy_logs, chosen.divergence), history, chosen.repeats)
    found["comparison"] = comparison(rows, history, chosen.numpy_logs)
    print_comparison(found["comparison"], chosen.steps, chosen.numpy_logs)
    finish(found, chosen.json)


if __name__ == "__main__":
    main()
