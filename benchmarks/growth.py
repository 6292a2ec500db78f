"""How time grows with trials, steps and arms, for the simulation, the conditional MLE and mean matching, and memory with trials.

    python benchmarks/growth.py                                 # some minutes
    python benchmarks/growth.py --small                         # a check that it runs
    python benchmarks/growth.py --large                         # up to a million steps of one log, and 100,000 logs
    JAX_NUM_CPU_DEVICES=1 python benchmarks/growth.py --large --only "mean_matching, steps"      # one ladder, one device

Exponents are fitted to the last three sizes of each ladder: below, the start of each kernel is most of the time. Mean matching of
one log simulates it as often as it needs to, which differs from log to log: its seconds are those of a million simulated trials.
A plot goes to benchmarks/output/.
"""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from common import exponent, finish, in_child, machine, parser, peak_memory, print_machine, timed

import jaxbias as jb

OUTPUT = Path(__file__).parent / "output"
FITTED = 3  # sizes at the end of a ladder
LONG = 60  # seconds of a run that is not repeated
FAMILY = jb.Normal(sigma=1.0)


class Size(NamedTuple):
    """Of one run; of an estimator, trials are logs."""

    trials: int
    steps: int
    arms: int


class Ladder(NamedTuple):
    """One tool at sizes of which one part grows."""

    tool: str
    over: str
    base: Size
    sizes: tuple[int, ...]


def powers(first: int, last: int) -> tuple[int, ...]:
    return tuple(10**power for power in range(first, last + 1))


MANY_ARMS = (2, 5, 20, 50, 200)
LADDERS = (
    Ladder("simulate", "trials", Size(0, 100, 5), powers(3, 7)),
    Ladder("simulate", "steps", Size(1024, 0, 5), powers(2, 6)),
    Ladder("simulate", "arms", Size(10_000, 1000, 0), MANY_ARMS),
    Ladder("conditional_mle", "trials", Size(0, 40, 5), powers(1, 4)),
    Ladder("conditional_mle", "steps", Size(1, 0, 5), powers(2, 5)),
    Ladder("conditional_mle", "arms", Size(1, 1000, 0), MANY_ARMS),
    Ladder("mean_matching", "trials", Size(0, 40, 5), powers(1, 4)),
    Ladder("mean_matching", "steps", Size(1, 0, 5), powers(2, 5)),
    Ladder("mean_matching", "arms", Size(1, 1000, 0), MANY_ARMS),
)


def means(arms: int) -> np.ndarray:
    return np.linspace(1.0, 0.25, arms)


def prepare(tool: str, size: Size) -> Callable[[], Any]:
    """The call that is timed: lil' UCB, with noise where the conditional MLE needs it."""
    policy = jb.LilUCB(tau=1.0) if tool == "conditional_mle" else jb.LilUCB()
    problem = (policy, FAMILY, means(size.arms), size.steps, size.trials)
    if tool == "simulate":
        return partial(jb.measure_bias, jax.random.key(0), *problem, progress=False)
    history = jb.simulate(jax.random.key(0), *problem, progress=False)
    return partial(getattr(jb, tool), jax.random.key(1), history, policy, FAMILY)


def climb(ladder: Ladder, repeats: int) -> dict[str, Any]:
    """Seconds at each size, and the exponent at the end."""
    seconds = []
    for size in ladder.sizes:
        run = prepare(ladder.tool, ladder.base._replace(**{ladder.over: size}))
        took, result = seconds_of(run, repeats)
        seconds.append(took * (1e6 / simulated_paths(result) if counts_trials(ladder) else 1))
        jax.clear_caches()  # a process may have only so many memory maps, and every size is compiled anew
    fitted = exponent(ladder.sizes[-FITTED:], seconds[-FITTED:])
    return {**ladder._asdict(), "base": ladder.base._asdict(), "seconds": seconds, "exponent": fitted}


def seconds_of(run: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """The best of several runs after a first, which compiles; or the first, where compiling is little of it."""
    first, _, result = timed(run)
    return (first, result) if first > LONG else (min(timed(run)[0] for _ in range(repeats)), result)


def counts_trials(ladder: Ladder) -> bool:
    return ladder.tool == "mean_matching" and ladder.over != "trials"


def simulated_paths(estimate: Any) -> float:
    return float(np.sum(estimate.diagnostics["simulated_paths"]))


def memory(trials: Sequence[int]) -> dict[str, list[float]]:
    """The peak of memory, in MB, of fresh processes that measure the bias over so many trials."""
    found = [float(in_child(__file__, f"--peak-memory={count}")) for count in trials]
    return {"trials": list(trials), "megabytes": found}


def show(found: dict[str, Any]) -> None:
    fixed = ", ".join(f"{value:,} {name}" for name, value in found["base"].items() if name != found["over"])
    print(f"\n{found['tool']}, {fixed}: time grows as {found['over']} to the power {found['exponent']:.2f} at the end")
    print("  ".join(f"{size:,}: {seconds:.3g} s" for size, seconds in zip(found["sizes"], found["seconds"], strict=True)))


def draw(ladders: Sequence[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.4), layout="constrained")
    for axes, over in zip(figure.subplots(1, 3, sharey=True), ("trials", "steps", "arms"), strict=True):
        for found in (one for one in ladders if one["over"] == over):
            axes.loglog(found["sizes"], found["seconds"], marker="o", label=f"{found['tool']}: {found['exponent']:.2f}")
        axes.set_xlabel(over)
        axes.grid(alpha=0.4)
        axes.legend(title="exponent at the end", fontsize=8, title_fontsize=8)
    figure.axes[0].set_ylabel("seconds")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=144)
    print(f"\nPlot: {path}")


def chosen_ladders(small: bool, large: bool) -> tuple[Ladder, ...]:
    if small:
        return tuple(ladder._replace(sizes=ladder.sizes[:2]) for ladder in LADDERS)
    return tuple(map(lengthened, LADDERS)) if large else LADDERS


def lengthened(ladder: Ladder) -> Ladder:
    """A ladder of steps or logs with the largest size that is asked for."""
    longest = {"steps": 10**6, "trials": 10**5}.get(ladder.over, 0)
    return ladder if ladder.sizes[-1] >= longest else ladder._replace(sizes=(*ladder.sizes, longest))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    options = parser(__doc__, repeats=2)
    options.add_argument("--small", action="store_true", help="the first two sizes of each ladder")
    options.add_argument("--large", action="store_true", help="a million steps and 100,000 logs for the estimators too")
    options.add_argument("--only", default="", help='ladders whose name, such as "simulate, steps", has this in it; no plot')
    options.add_argument("--plot", type=Path, default=OUTPUT / "growth.png", metavar="FILE")
    options.add_argument("--peak-memory", type=int, help=argparse.SUPPRESS)
    return options.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    chosen = parse(arguments)
    if chosen.peak_memory:
        prepare("simulate", Size(chosen.peak_memory, 100, 5))()
        print(peak_memory())
        return
    found: dict[str, Any] = {"machine": machine(), "ladders": []}
    print_machine(found["machine"])
    ladders = chosen_ladders(chosen.small, chosen.large)
    for ladder in (one for one in ladders if chosen.only in f"{one.tool}, {one.over}"):
        found["ladders"].append(climb(ladder, chosen.repeats))
        show(found["ladders"][-1])
    if not chosen.only:
        found["memory"] = memory(powers(3, 4) if chosen.small else (10**3, 10**5, 10**7))
        print("\nPeak memory:", "  ".join(f"{n:,} trials: {mb:.0f} MB" for n, mb in zip(*found["memory"].values(), strict=True)))
        draw(found["ladders"], chosen.plot)
    finish(found, chosen.json)


if __name__ == "__main__":
    main()
