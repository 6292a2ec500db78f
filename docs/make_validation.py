"""The tables of the validation pages, by `jb.evaluate`: `python docs/make_validation.py` measures them and writes the pages.

    python docs/make_validation.py                          # measure what is not in figures.json yet, then write every page
    python docs/make_validation.py --again                  # measure everything again: up to four minutes a cell
    python docs/make_validation.py --again --only shrinkage # one method
    python docs/make_validation.py --write                  # write the pages from figures.json, measure nothing

A page is written by hand except for what is between the two comments `<!-- figures -->` and `<!-- end of figures -->`.
"""

import argparse
import json
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import jaxbias as jb
from jaxbias.estimators.registry import METHODS, Cost

FOLDER = Path(__file__).parent / "validation"
FIGURES = FOLDER / "figures.json"
FIVE = (1.0, 0.75, 0.5, 0.38, 0.25)
THREE = (1.0, 0.75, 0.5)
NUM_TRIALS = {Cost.SUMS: 2000, Cost.REPLAY: 2000, Cost.SIMULATION: 200, Cost.WEIGHTED_PATHS: 200}
OWN_TRIALS = {"unbiased": 40}  # its Markov chains take seconds for each log
SHOWN = {  # figures, the factor they are shown with, and their decimals
    "average_bias": (1, 3),
    "rms_bias": (1, 3),
    "relative_rmse": (100, 0),
    "average_coverage": (100, 1),
    "average_width": (1, 3),
}


class Cell(NamedTuple):
    """One experiment in which every method is judged.

    Fields:
        title: of its row.
        policy, family, mean, num_steps: the experiment.
        options: more of them, as `jb.evaluate` takes them.
        declared: the policy that the methods are told, if that is a wrong one.
    """

    title: str
    policy: Any
    family: Any
    mean: tuple[float, ...]
    num_steps: int
    options: Mapping[str, Any] = {}
    declared: Any = None


CELLS = {
    "lil-ucb": Cell("lil'UCB, 40 steps, 5 arms", jb.LilUCB(), jb.Normal(), FIVE, 40),
    "greedy-noise": Cell("Greedy with noise (tau = 1), 40 steps, 5 arms", jb.Greedy(tau=1.0), jb.Normal(), FIVE, 40),
    "thompson": Cell("Thompson, 100 steps, 3 arms", jb.Thompson(), jb.Normal(), THREE, 100),
    "clicks": Cell("epsilon-Greedy on 0/1 rewards, 200 steps, 2 arms", jb.EpsilonGreedy(), jb.Bernoulli(), (0.35, 0.3), 200),
    "batches": Cell("Thompson, 10 batches of 20, 3 arms", jb.Thompson(), jb.Normal(), THREE, 200, {"batch_size": 20}),
    "wrong": Cell("Greedy, declared as Thompson, 40 steps, 3 arms", jb.Greedy(), jb.Normal(), THREE, 40, declared=jb.Thompson()),
}


def main() -> None:
    arguments = read_arguments()
    figures = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    if not arguments.write:
        jb.use_all_cores()
        for name in METHODS:
            for cell in CELLS:
                wanted = name in (arguments.only or METHODS) and cell in (arguments.cell or CELLS)
                if wanted and (arguments.again or name not in figures.get(cell, {})):
                    figures.setdefault(cell, {})[name] = measure(cell, name, arguments.trials)
                    print(cell, name, figures[cell][name], flush=True)
                    FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    for name in METHODS:
        write_page(name, figures)
    fill(FOLDER / "index.md", "all figures", overview(figures))


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=METHODS, help="this method; may be repeated")
    parser.add_argument("--cell", action="append", choices=CELLS, help="this experiment; may be repeated")
    parser.add_argument("--again", action="store_true", help="measure again what figures.json has")
    parser.add_argument("--write", action="store_true", help="measure nothing")
    parser.add_argument("--trials", type=int, help="logs for each figure, in place of the script's own numbers")
    return parser.parse_args()


def measure(cell_name: str, name: str, trials: int | None) -> dict[str, Any]:
    """The figures of one method in one experiment, or why there are none."""
    cell, method = CELLS[cell_name], METHODS[name]
    if cell.declared is not None and not method.needs_policy and name != "sample_mean":  # which is there for comparison
        return {"reason": "does not use the policy"}
    num_trials = trials or OWN_TRIALS.get(name) or NUM_TRIALS[method.cost]
    methods: Any = [name] if cell.declared is None or not method.needs_policy else {name: with_policy(name, cell.declared)}
    key = jax.random.fold_in(jax.random.key(22), zlib.crc32(cell_name.encode()))  # every method has the same logs
    try:
        experiment = cell.policy, cell.family, jnp.array(cell.mean), cell.num_steps
        found = jb.evaluate(key, *experiment, methods=methods, num_trials=num_trials, **cell.options)
    except jb.ArgumentError as error:
        return {"reason": shorten(str(error))}
    one = found.methods[name]
    values = {figure: [float(getattr(one, figure)), float(getattr(one, f"{figure}_stderr"))] for figure in SHOWN}
    return {"trials": num_trials, **values, "usable": float(one.usable.mean())}


def shorten(reason: str) -> str:
    """Why a method does not apply, in the words of a table."""
    known = {"choices are not random": "these choices are not random", "batch_sizes is None": "there are no batches"}
    return "does not apply: " + next((words for part, words in known.items() if part in reason), reason)


def with_policy(name: str, policy: Any) -> Callable[..., jb.Estimate]:
    """The method as it is called by someone who takes another policy for the one that ran."""
    method = METHODS[name]

    def call(key: Any, history: jb.History, _: Any, family: Any) -> jb.Estimate:
        given = {"key": key, "history": history, "policy": policy, "family": family}
        return method.function(**{word: given[word] for word in method.takes if word in given}, **method.options)

    return call


def write_page(name: str, figures: dict[str, Any]) -> None:
    """Puts the table between the two comments of the method's page."""
    fill(FOLDER / f"{name}.md", "figures", table(name, figures))


def fill(path: Path, name: str, text: str) -> None:
    """Replaces what is between `<!-- name -->` and `<!-- end of name -->`."""
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, _, rest = path.read_text().partition(start)
    path.write_text(before + start + text + end + rest.partition(end)[2])


def overview(figures: dict[str, Any]) -> str:
    """Error of every method in every experiment, in percent of the sample means'."""
    cells = {name: cell for name, cell in CELLS.items() if cell.declared is None}
    head = "\nRoot mean squared error in percent of the sample means' / coverage of 95% intervals in percent.\n"
    head += "A dash: the method does not apply there (its page says why), or has no interval.\n\n"
    head += "| method | " + " | ".join(cell.title for cell in cells.values()) + " |\n|---|" + "--:|" * len(cells) + "\n"
    lines = [
        f"| [`{name}`]({name}.md) | " + " | ".join(in_short(figures.get(cell, {}).get(name)) for cell in cells) + " |\n"
        for name in METHODS
    ]
    return head + "".join(lines) + "\n"


def in_short(found: dict[str, Any] | None) -> str:
    """Error and coverage; a dash where the method does not apply."""
    if found is None or "reason" in found:
        return "-"
    coverage = found["average_coverage"][0]
    return f"{100 * found['relative_rmse'][0]:.0f} / " + ("-" if coverage != coverage else f"{100 * coverage:.1f}")


def table(name: str, figures: dict[str, Any]) -> str:
    """One row for each experiment. Errors are one Monte Carlo standard error."""
    head = "| experiment | logs | average bias | bias by arm (rms) | error, % of sample mean's | coverage, % | width |\n"
    rows = [row(cell, figures.get(cell_name, {}).get(name)) for cell_name, cell in CELLS.items()]
    return "\n" + head + "|---|--:|--:|--:|--:|--:|--:|\n" + "".join(one for one in rows if one) + "\n"


def row(cell: Cell, found: dict[str, Any] | None) -> str:
    """The figures, or the reason why there are none."""
    if found is None or (cell.declared is not None and "reason" in found):
        return ""
    if "reason" in found:
        return f"| {cell.title} | | {found['reason'].replace('|', '/')} | | | | |\n"
    cells = [with_error(scale * found[name][0], scale * found[name][1], places) for name, (scale, places) in SHOWN.items()]
    logs = f"{found['trials']:,}" + ("" if found["usable"] > 0.995 else f" ({100 * found['usable']:.0f}% usable)")
    return f"| {cell.title} | {logs} | " + " | ".join(cells) + " |\n"


def with_error(value: float, stderr: float, digits: int) -> str:
    """Such as -0.123 ± 0.004; a dash where there is no figure."""
    if value != value:
        return "-"
    return f"{value:.{digits}f}" if stderr != stderr else f"{value:.{digits}f} ± {max(stderr, 10**-digits):.{digits}f}"


if __name__ == "__main__":
    main()
