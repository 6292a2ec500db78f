"""Logs of many different lengths corrected in one process: what is compiled, how long it takes, memory and memory maps.

    python benchmarks/lengths.py                                  # 200 logs of 20 to 2,000 steps
    python benchmarks/lengths.py --logs 300 --longest 3000

The lengths are all different, in a random order. Then lengths that were seen before are corrected again, for comparison.
"""

import collections
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pandas
from common import finish, machine, parser, peak_memory, print_machine, timed

import jaxbias as jb
from jaxbias._core.maps import memory_maps

POLICY, FAMILY, MEAN = jb.LilUCB(tau=1.0), jb.Normal(sigma=1.0), [1.0, 0.75, 0.5]
SHORTEST, FIRST, AGAIN = 20, 20, 10  # steps; logs after which everything should be compiled; lengths that are repeated


class Compilations:
    """Counts what XLA compiles, by the name of the function."""

    def __init__(self) -> None:
        self.count: collections.Counter[str] = collections.Counter()
        jax.monitoring.register_event_duration_secs_listener(self._add)

    def _add(self, event: str, _: float, **more: Any) -> None:
        if event.endswith("backend_compile_duration"):
            self.count[str(more.get("fun_name"))] += 1


def make_rows(longest: int) -> tuple[np.ndarray, np.ndarray]:
    """One long log, of which the others are the first rows."""
    history = jb.simulate(jax.random.key(0), POLICY, FAMILY, MEAN, longest, progress=False)
    return np.asarray(history.arms), np.asarray(history.rewards)


def measure(lengths: Sequence[int], rows: tuple[np.ndarray, np.ndarray], compilations: Compilations) -> list[dict[str, Any]]:
    """A line for each log."""
    found = []
    for number, length in enumerate(lengths):
        before = compilations.count.total()
        frame = pandas.DataFrame({"arm": rows[0][:length], "reward": rows[1][:length]})
        clock, processor, _ = timed(lambda frame=frame: jb.debias(jax.random.key(1), frame, POLICY, FAMILY).recommended.method)
        compiled = compilations.count.total() - before
        line = dict(steps=length, seconds=clock, processor=processor, compiled=compiled, maps=memory_maps(), peak=peak_memory())
        found.append(line)
        print(f"{number + 1:4} {length:6} steps {clock:8.2f} s {processor:8.2f} s of processor time", end=" ")
        print(f"{compiled:4} compiled {line['maps']:6} maps {line['peak']:8.0f} MB", flush=True)
    return found


def summary(new: list[dict[str, Any]], again: list[dict[str, Any]]) -> dict[str, float]:
    """Processor time of a log after the first ones, of repeated lengths, and what the last logs added."""
    late = new[FIRST:] or new
    middle = new[len(new) // 2]
    return {
        "seconds_of_late_logs": float(np.median([line["processor"] for line in late])),
        "seconds_of_repeated_lengths": float(np.median([line["processor"] for line in again])),
        "compiled_in_all": float(sum(line["compiled"] for line in new)),
        "compiled_in_second_half": float(sum(line["compiled"] for line in new[len(new) // 2 :])),
        "maps_added_in_second_half": float(new[-1]["maps"] - middle["maps"]),
        "megabytes_added_in_second_half": float(new[-1]["peak"] - middle["peak"]),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_argument("--logs", type=int, default=200)
    options.add_argument("--longest", type=int, default=2000, help="steps")
    chosen = options.parse_args(arguments)
    if not 2 <= chosen.logs <= chosen.longest - SHORTEST + 1:
        options.error(f"allowed: --logs from 2 to the number of lengths from {SHORTEST} to --longest")
    lengths = np.random.default_rng(0).choice(np.arange(SHORTEST, chosen.longest + 1), chosen.logs, replace=False).tolist()
    compilations, rows = Compilations(), make_rows(chosen.longest)
    found: dict[str, Any] = {"machine": machine(), "logs": measure(lengths, rows, compilations)}
    found["again"] = measure(lengths[-AGAIN:], rows, compilations)
    found["summary"] = summary(found["logs"], found["again"])
    print_machine(found["machine"])
    for name, value in found["summary"].items():
        print(f"{name.replace('_', ' '):32} {value:10.2f}")
    finish(found, chosen.json)


if __name__ == "__main__":
    main()
