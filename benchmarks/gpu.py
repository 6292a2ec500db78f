"""How fast the simulation and the estimators are on the device that is there, over a grid of trials, steps and arms.

    python benchmarks/gpu.py                       # minutes on a GPU; on a CPU take --small or --medium
    python benchmarks/gpu.py --small               # seconds

Where the device is no CPU, a process of its own does the same on this machine's CPU, all cores. Numbers go to
benchmarks/output/gpu.json and a plot to gpu.png beside it; --json and --plot say otherwise.

The share of the memory bandwidth is bytes over seconds over the bandwidth measured in the same run, by adding one to an array
much larger than a cache (read once, written once). The bytes of a simulation step are those that the compiled program reads
and writes, by XLA's own count: of a program with the steps less that of one without. Mean matching moves those of the trials
it simulates; Newton's method at least the sums and weights of its paths, read and written once a step. A share above one means
that the data stay in the cache, as chunks are sized for on a CPU. The other rows have no count of bytes.

At the end there is a table in Markdown, the largest size of each kind, to be pasted into an issue. What is expected of it is in
benchmarks/README.md, under "Any device".
"""

import dataclasses
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from common import finish, in_child, machine, parser, peak_memory, print_machine, timed

import jaxbias as jb
from jaxbias._core.chunks import TrialChunks, split_trials, trials_at_once
from jaxbias._core.devices import device_count, on_each_device, trial_mesh
from jaxbias.bias import measured
from jaxbias.simulation.steps import Batching
from jaxbias.simulation.trials import prepare

FAMILY, POLICY, NOISY = jb.Normal(), jb.LilUCB(), jb.LilUCB(tau=1.0)
OUTPUT = Path(__file__).parent / "output"
PATHS = {"newton": 1024, "mean_matching": 2048}  # the defaults of the estimators
INTERVAL_PATHS = {"small": 256}  # of test inversion and evaluate; 1,024 in the others


class Grid(NamedTuple):
    """The sizes that are measured: all combinations."""

    trials: Sequence[int]
    steps: Sequence[int]
    arms: Sequence[int]
    logs: Sequence[int]  # estimated together, of the first of the steps and the first of the arms
    stream: int  # numbers in the array that the bandwidth is measured with, on each device


GRIDS = {
    "small": Grid(trials=(256, 512), steps=(8,), arms=(2,), logs=(4,), stream=2**20),
    "medium": Grid(trials=(10_000, 100_000), steps=(40, 400), arms=(2, 5), logs=(100, 1_000), stream=2**25),
    "full": Grid(
        trials=(10_000, 100_000, 1_000_000), steps=(40, 400, 4_000), arms=(2, 5, 20), logs=(100, 1_000, 10_000), stream=2**28
    ),
}


def means(arms: int) -> jax.Array:
    return jnp.linspace(1, 0.25, arms)


def bandwidth(size: int, repeats: int) -> float:
    """Bytes per second that all devices together read and write."""
    mesh = trial_mesh(len(jax.devices()), ())
    add = jax.jit(on_each_device(lambda part: part + 1, mesh))
    values = add(np.zeros(size * device_count(mesh), np.float32))
    add(values)
    return 2 * values.nbytes / min(timed(lambda: add(values))[0] for _ in range(max(repeats, 3)))


def chunks_of(trials: int, arms: int) -> tuple[Any, TrialChunks]:
    """How `measure_bias` divides so many trials."""
    mesh = trial_mesh(math.ceil(trials / measured.BLOCK), ())
    return mesh, split_trials(trials, None, measured.BLOCK, trials_at_once(arms), device_count(mesh))


def compiled_chunk(trials: int, steps: int, arms: int) -> Any:
    """The program that `measure_bias` runs for each chunk."""
    mesh, chunks = chunks_of(trials, arms)
    root, problem = prepare(jax.random.key(0), POLICY, FAMILY, means(arms), steps, trials)
    firsts = next(chunks.starts(progress=False))
    asked = measured.Asked(trajectory=False, after=None, choose=None)
    options = dict(num_steps=steps, size=chunks.size, batching=Batching(), asked=asked, mesh=mesh)
    return measured._measure_chunk.lower(problem, root, firsts, jnp.uint32(trials), **options).compile()


def bytes_per_step(trials: int, steps: int, arms: int) -> float:
    """What one step of one trial reads and writes: XLA counts the body of a loop once, whatever the number of its rounds."""
    with_steps, without = (_bytes(compiled_chunk(trials, number, arms)) for number in (steps, arms))
    return (with_steps - without) / chunks_of(trials, arms)[1].size


def _bytes(program: Any) -> float:
    return program.cost_analysis()["bytes accessed"]


def program_memory(program: Any) -> float:
    """The memory that a program has on one device, in MB: what goes in, what comes out, and what is between."""
    found = program.memory_analysis()
    return (found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes) / 2**20


def peak() -> float:
    """The most memory in use so far, in MB: of the device where it says so, of this process otherwise."""
    found = jax.devices()[0].memory_stats() or {}
    return found["peak_bytes_in_use"] / 2**20 if "peak_bytes_in_use" in found else peak_memory()


def first_and_best(run: Callable[[], Any], repeats: int) -> tuple[float, float, Any]:
    """Seconds to compile, seconds to run, and the result."""
    first, _, result = timed(run)
    best = min(timed(run)[0] for _ in range(repeats))
    return max(first - best, 0.0), best, result


def simulation(trials: int, steps: int, arms: int, stream: float, repeats: int) -> dict[str, Any]:
    mean = means(arms)

    def run() -> Any:
        return jb.measure_bias(jax.random.key(0), POLICY, FAMILY, mean, steps, trials, progress=False)

    compile_time, best, _ = first_and_best(run, repeats)
    moved = bytes_per_step(trials, steps, arms) * trials * (steps - arms)
    return {
        "what": "simulation",
        **dict(trials=trials, steps=steps, arms=arms, compile=compile_time, seconds=best),
        "steps_per_second": trials * steps / best,
        "program_megabytes": program_memory(compiled_chunk(trials, steps, arms)),
        "peak_megabytes": peak(),
        "share_of_bandwidth": moved / best / stream,
    }


def estimation(name: str, logs: int, steps: int, arms: int, stream: float, repeats: int) -> dict[str, Any]:
    estimator, policy = {"newton": (jb.conditional_mle, NOISY), "mean_matching": (jb.mean_matching, POLICY)}[name]
    history = jb.simulate(jax.random.key(0), policy, FAMILY, means(arms), steps, logs, progress=False)

    def run() -> jb.Estimate:
        return estimator(jax.random.key(1), history, policy, FAMILY)

    compile_time, best, estimate = first_and_best(run, repeats)
    if name == "newton":
        moved = float(np.sum(estimate.diagnostics["rounds"])) * PATHS[name] * steps * 2 * (arms + 1) * 4
    else:
        moved = float(np.sum(estimate.diagnostics["simulated_paths"])) * steps * bytes_per_step(PATHS[name], steps, arms)
    return {
        "what": name,
        **dict(logs=logs, steps=steps, arms=arms, compile=compile_time, seconds=best),
        "logs_per_second": logs / best,
        "converged": float(np.mean(estimate.converged)),
        "peak_megabytes": peak(),
        "share_of_bandwidth": moved / best / stream,
    }


def gradient_of_experiment(trials: int, steps: int, arms: int, repeats: int) -> dict[str, Any]:
    """The derivatives of bias, error and regret in every setting and mean, by the score function."""
    problem = (jax.random.key(0), NOISY, FAMILY, means(arms), steps, trials)
    compile_time, best, _ = first_and_best(lambda: _figures(jb.bias.measure_gradient(*problem, progress=False)), repeats)
    sizes = dict(trials=trials, steps=steps, arms=arms, compile=compile_time, seconds=best)
    return {"what": "gradient, experiment", **sizes, "steps_per_second": trials * steps / best, "peak_megabytes": peak()}


def of_logs(name: str, logs: int, steps: int, arms: int, paths: int, repeats: int) -> dict[str, Any]:
    """Test inversion; the derivative of mean matching in all rewards; `evaluate`, which simulates the logs and estimates them."""
    mean, key = means(arms), jax.random.key(1)
    history = jb.simulate(jax.random.key(0), POLICY, FAMILY, mean, steps, logs, progress=False)

    def matched(rewards: jax.Array) -> jax.Array:
        moved = dataclasses.replace(history, rewards=rewards)
        return jnp.sum(jb.mean_matching(key, moved, POLICY, FAMILY, num_paths=paths, interval="delta").mean)

    options: Any = dict(methods=["sample_mean", "mean_matching"], num_trials=logs, num_paths=paths)
    run: dict[str, Callable[[], Any]] = {
        "test_inversion": lambda: jb.test_inversion(key, history, POLICY, FAMILY, num_paths=paths).mean,
        "gradient, matching": lambda: jax.grad(matched)(history.rewards),
        "evaluate": lambda: jb.evaluate(key, POLICY, FAMILY, mean, steps, **options).methods["mean_matching"].bias,
    }
    compile_time, best, _ = first_and_best(run[name], repeats)
    sizes = dict(logs=logs, steps=steps, arms=arms, compile=compile_time, seconds=best)
    return {"what": name, **sizes, "logs_per_second": logs / best, "peak_megabytes": peak()}


def _figures(found: Any) -> list[Any]:
    """The numbers of a result, whose other fields are words."""
    return [leaf for leaf in jax.tree.leaves(vars(found) if hasattr(found, "__dict__") else found) if hasattr(leaf, "dtype")]


def measure(size: str, repeats: int) -> dict[str, Any]:
    """The whole grid on this process's devices, the small sizes first."""
    grid, paths = GRIDS[size], INTERVAL_PATHS.get(size, 1024)
    stream = bandwidth(grid.stream, repeats)
    cells = [(trials, steps, arms) for trials in grid.trials for steps in grid.steps for arms in grid.arms]
    rows = [simulation(*cell, stream, repeats) for cell in cells]
    steps, arms = grid.steps[0], grid.arms[-1]
    rows += [estimation(name, logs, steps, arms, stream, repeats) for name in PATHS for logs in grid.logs]
    names = ("test_inversion", "evaluate", "gradient, matching")
    rows += [of_logs(name, logs, steps, arms, paths, repeats) for name in names for logs in grid.logs]
    rows += [gradient_of_experiment(trials, steps, arms, repeats) for trials in grid.trials]
    return {"machine": machine(), "gigabytes_per_second": stream / 1e9, "rows": rows}


def summary(runs: dict[str, dict[str, Any]]) -> str:
    """A table in Markdown: the last row of each kind and number of steps and arms, on each device, and how many times as fast."""
    (device, found), *others = runs.items()
    head = ["what", "trials or logs", "steps", "arms", "compile, s", f"{device}, s", "per second", "MB"]
    lines = [[*head, *(part for name, _ in others for part in (f"{name}, s", "times as fast"))]]
    lines.append(["---"] * len(lines[0]))
    for place, row in enumerate(found["rows"]):
        kind = (row["what"], row["steps"], row["arms"])
        if kind in ((later["what"], later["steps"], later["arms"]) for later in found["rows"][place + 1 :]):
            continue
        sizes = [row["what"], f"{row.get('trials', row.get('logs')):,}", f"{row['steps']:,}", str(row["arms"])]
        times = [f"{row['compile']:.1f}", f"{row['seconds']:.4f}", _speed(row).strip(), f"{row['peak_megabytes']:.0f}"]
        beside = [other["rows"][place]["seconds"] for _, other in others]
        lines.append(
            sizes + times + [cell for seconds in beside for cell in (f"{seconds:.4f}", f"{seconds / row['seconds']:.1f}")]
        )
    about = found["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    title = f"{about['devices']} x {about['device']}, {about['processor']}, {versions}; {found['gigabytes_per_second']:.0f} GB/s"
    return "\n".join([title, "", *(f"| {' | '.join(line)} |" for line in lines)])


def _speed(row: dict[str, Any]) -> str:
    return f"{row['steps_per_second'] / 1e6:9.1f} Msteps" if "trials" in row else f"{row['logs_per_second']:11.1f} logs"


def measure_on_cpu(size: str, repeats: int) -> dict[str, Any]:
    return json.loads(in_child(__file__, f"--{size}", f"--repeats={repeats}", "--print-json", JAX_PLATFORMS="cpu"))


def print_rows(found: dict[str, Any]) -> None:
    print_machine(found["machine"])
    print(f"Memory bandwidth {found['gigabytes_per_second']:.1f} GB/s. MB: the most in use so far. share: of the bandwidth.")
    print(
        f"{'':20} {'trials':>9} {'steps':>6} {'arms':>5} {'compile':>8} {'seconds':>9} {'per second':>16} {'MB':>7} {'share':>6}"
    )
    for row in found["rows"]:
        sizes = f"{row.get('trials', row.get('logs')):9,} {row['steps']:6,} {row['arms']:5}"
        times = f"{row['compile']:8.2f} {row['seconds']:9.4f}"
        share = f"{row['share_of_bandwidth']:6.2f}" if "share_of_bandwidth" in row else ""
        print(f"{row['what']:20} {sizes} {times} {_speed(row):>16} {row['peak_megabytes']:7.0f} {share}")


def draw(runs: dict[str, dict[str, Any]], path: Path) -> None:
    """Steps per second against trials, a line for each number of steps and arms; logs per second against logs."""
    from matplotlib.figure import Figure  # without a window system

    figure = Figure(figsize=(11, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    for (device, found), style in zip(runs.items(), ("-", "--"), strict=False):
        _lines(left, device, style, [row for row in found["rows"] if "trials" in row], "trials", "steps_per_second")
        _lines(right, device, style, [row for row in found["rows"] if "logs" in row], "logs", "logs_per_second")
    left.set(xlabel="trials", ylabel="steps per second", xscale="log", yscale="log", title="measure_bias, lil' UCB")
    right.set(xlabel="logs together", ylabel="logs per second", xscale="log", yscale="log", title="estimators")
    for axes in (left, right):
        axes.legend(fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def _lines(axes: Any, device: str, style: str, rows: list[dict[str, Any]], along: str, value: str) -> None:
    for what, steps, arms in sorted({(row["what"], row["steps"], row["arms"]) for row in rows}):
        line = [row for row in rows if (row["what"], row["steps"], row["arms"]) == (what, steps, arms)]
        name = "" if what == "simulation" else f"{what}, "
        label = f"{device}: {name}{steps:,} steps, {arms} arms"
        axes.plot([row[along] for row in line], [row[value] for row in line], style, marker="o", markersize=3, label=label)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, repeats=3)
    options.set_defaults(json=OUTPUT / "gpu.json", size="full")
    for size in GRIDS:
        options.add_argument(f"--{size}", action="store_const", const=size, dest="size", help=f"sizes: {GRIDS[size]}")
    options.add_argument("--plot", type=Path, metavar="FILE", default=OUTPUT / "gpu.png", help="where the plot goes")
    options.add_argument("--print-json", action="store_true", help="print the numbers as JSON and nothing else")
    chosen = options.parse_args(arguments)
    if chosen.repeats < 1:
        options.error("allowed: --repeats 1 or more")
    runs = {jax.devices()[0].device_kind: measure(chosen.size, chosen.repeats)}
    if chosen.print_json:
        print(json.dumps(next(iter(runs.values()))))
        return
    if jax.devices()[0].platform != "cpu":
        runs["cpu"] = measure_on_cpu(chosen.size, chosen.repeats)
    for found in runs.values():
        print_rows(found)
    print(f"\nTo paste into an issue:\n\n{summary(runs)}")
    draw(runs, chosen.plot)
    finish({"runs": runs}, chosen.json)


if __name__ == "__main__":
    main()
