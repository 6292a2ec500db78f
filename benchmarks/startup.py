"""How long the first call takes: imports, compilation and run, in fresh processes, without and with JAX's persistent cache.

    python benchmarks/startup.py

Every process imports JAX, then jaxbias, then everything that jaxbias has, and makes each call twice: the first compiles. The
processes without a cache, with an empty one and with the one that left are started in turn, --repeats times; the best counts.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

LOGS, STEPS, TRIALS = 10, 40, 100_000
MEAN = [1.0, 0.75, 0.5, 0.38, 0.25]
IMPORTS = ("import jax", "import jaxbias", "its simulation", "all of jaxbias")
CALLS = ("measure_bias", "simulate", "conditional_mle", "mean_matching")


def clock(seconds: dict[str, float], name: str, run: Callable[[], Any]) -> Any:
    """Runs and notes how long it took."""
    start = time.perf_counter()
    result = run()
    seconds[name] = time.perf_counter() - start
    return result


def child(trials: int) -> dict[str, float]:
    """The seconds of everything that a fresh process does."""
    from importlib import import_module

    begin, seconds = time.perf_counter(), {}
    jax = clock(seconds, IMPORTS[0], lambda: import_module("jax"))
    jb = clock(seconds, IMPORTS[1], lambda: import_module("jaxbias"))
    clock(seconds, IMPORTS[2], lambda: jb.measure_bias)
    clock(seconds, IMPORTS[3], lambda: [getattr(jb, name) for name in jb.__all__])
    jb.use_all_cores()
    key, policy, family = clock(seconds, "start JAX", lambda: (jax.random.key(0), jb.LilUCB(tau=1.0), jb.Normal()))
    problem = (key, policy, family, MEAN, STEPS)
    history = jb.simulate(*problem, LOGS + 1, progress=False)
    calls = {
        "measure_bias": lambda: jb.measure_bias(*problem, trials, progress=False),
        "simulate": lambda: jb.simulate(*problem, LOGS, progress=False),
        "conditional_mle": lambda: jb.conditional_mle(key, history, policy, family),
        "mean_matching": lambda: jb.mean_matching(key, history, policy, family),
    }
    for name, call in calls.items():
        for suffix in ("", ", again"):
            clock(seconds, f"{name}{suffix}", lambda call=call: jax.block_until_ready(call()))
    return {**seconds, "everything": time.perf_counter() - begin}


def measure(trials: int, repeats: int) -> dict[str, dict[str, float]]:
    """The best seconds of each step, by what the process found in its cache."""
    from common import in_child

    runs: dict[str, list[dict[str, float]]] = {"no cache": [], "empty cache": [], "full cache": []}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as directory:
            cache = {
                "JAX_COMPILATION_CACHE_DIR": directory,
                "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
                "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
            }
            for name, settings in zip(runs, ({"JAX_ENABLE_COMPILATION_CACHE": "false"}, cache, cache), strict=True):
                runs[name].append(json.loads(in_child(__file__, "--child", f"--trials={trials}", **settings)))
    return {name: {step: min(run[step] for run in found) for step in found[0]} for name, found in runs.items()}


def summary(found: dict[str, dict[str, float]]) -> dict[str, float]:
    """What jaxbias adds to the import of JAX, and what the cache leaves of the time of a start."""
    bare, again = found["no cache"], found["full cache"]
    first_calls = [sum(run[name] for name in CALLS) for run in (bare, again)]
    return {
        "added_by_import": bare["import jaxbias"],
        "added_by_all_of_it": sum(bare[name] for name in IMPORTS[1:]),
        "cache_leaves": again["everything"] / bare["everything"],
        "cache_leaves_of_first_calls": first_calls[1] / first_calls[0],
    }


def print_found(found: dict[str, dict[str, float]], figures: dict[str, float]) -> None:
    print(f"\n{'seconds':24} {'no cache':>12} {'empty cache':>12} {'full cache':>12}")
    for step in found["no cache"]:
        print(f"{step:24} " + " ".join(f"{run[step]:12.3f}" for run in found.values()))
    bare, whole = figures["added_by_import"], figures["added_by_all_of_it"]
    print(f"\n`import jaxbias` adds {bare:.3f} s to `import jax`; with all of its names, {whole:.3f} s.")
    leaves = f"{figures['cache_leaves']:.2f} of everything, {figures['cache_leaves_of_first_calls']:.2f} of the first calls"
    print(f"With what an earlier process compiled, a process takes {leaves}.")


def main(arguments: Sequence[str] | None = None) -> None:
    if "--child" in (sys.argv if arguments is None else arguments):
        print(json.dumps(child(int(sys.argv[-1].partition("=")[2]))))
        return
    from common import finish, machine, parser, print_machine

    options = parser(__doc__, repeats=3)
    options.add_argument("--trials", type=int, default=TRIALS, help="of measure_bias")
    chosen = options.parse_args(arguments)
    if min(chosen.repeats, chosen.trials) < 1:
        options.error("allowed: --repeats and --trials 1 or more")
    found: dict[str, Any] = {"machine": machine(), "seconds": measure(chosen.trials, chosen.repeats)}
    found["summary"] = summary(found["seconds"])
    print_machine(found["machine"])
    print_found(found["seconds"], found["summary"])
    finish(found, chosen.json)


if __name__ == "__main__":
    main()
