"""What the commands print and write: tables for people, JSON for programs, logs for the next tool."""

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from jaxbias.bias import BiasSummary
    from jaxbias.conditions import CheckResult, Counterexample
    from jaxbias.history import History

SUFFIXES = (".csv", ".csv.gz", ".parquet")
LOG_TRIALS = 1000  # trials in a log unless told otherwise: enough for every estimator, small enough to open
CLEAR = 3  # standard errors from 0 before a sign is called a finding: chance does that once in 370 times


def to_json(document: Any) -> str:
    """One JSON document; what is not a finite number is null."""
    return json.dumps(_plain(document), allow_nan=False)


def _plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def bias_document(summary: "BiasSummary") -> dict[str, Any]:
    """The figures of a summary by name."""
    return {name: value for name, value in summary._asdict().items() if value is not None}


def print_bias(summary: "BiasSummary", mean: Sequence[float], note: str = "") -> None:
    """Prints the bias of every arm, the joint bias, what they say, and a note."""
    console = _console()
    table = _table("Sample means", "arm", "mean", "average pulls", "bias", "MSE")
    columns = (summary.pulls, summary.bias, summary.bias_stderr, summary.mse, summary.mse_stderr)
    for arm, (pulls, *figures) in enumerate(zip(*columns, strict=True)):
        table.add_row(str(arm), f"{mean[arm]:g}", f"{pulls:.2f}", *_two_figures(console, *figures))
    table.add_section()
    average = (summary.average_bias, summary.average_bias_stderr, summary.average_mse, summary.average_mse_stderr)
    table.add_row("average", "", "", *_two_figures(console, *average))
    console.print(table)
    joint = _table("Joint bias", "arms below their mean", "share of trials")
    for count, (share, stderr) in enumerate(zip(summary.joint, summary.joint_stderr, strict=True)):
        joint.add_row(str(count), _figure(console, share, stderr))
    console.print(joint)
    for sentence in filter(None, [*_bias_sentences(summary), note]):
        _say(console, sentence)


def _two_figures(console: Console, bias: float, bias_stderr: float, mse: float, mse_stderr: float) -> tuple[str, str]:
    return _figure(console, bias, bias_stderr), _figure(console, mse, mse_stderr)


def _bias_sentences(summary: "BiasSummary") -> list[str]:
    """What the figures say, and no more."""
    if summary.num_trials < 2:
        return ["One trial has no standard error: more are needed to tell a bias from chance."]
    arms = range(len(summary.bias))
    low = [arm for arm in arms if summary.bias[arm] < -CLEAR * summary.bias_stderr[arm]]
    high = [arm for arm in arms if summary.bias[arm] > CLEAR * summary.bias_stderr[arm]]
    rest = [arm for arm in arms if arm not in low + high]
    groups = (
        (low, f"too low by more than {CLEAR} standard errors"),
        (high, f"too high by more than {CLEAR} standard errors"),
        (rest, f"within {CLEAR} standard errors of right"),
    )
    found = "; ".join(f"{_name_arms(group, len(arms))} {what}" for group, what in groups if group)
    return [
        f"On average over {summary.num_trials:,} trials, {found}.",
        f"In {summary.joint[-1]:.1%} of trials every sample mean came out below its mean; in {summary.joint[0]:.1%} none did.",
    ]


def _name_arms(group: list[int], num_arms: int) -> str:
    if len(group) == num_arms:
        return "the sample mean of every arm is"
    if len(group) == 1:
        return f"the sample mean of arm {group[0]} is"
    return f"the sample means of arms {', '.join(map(str, group[:-1]))} and {group[-1]} are"


def print_checks(results: Sequence["CheckResult"]) -> None:
    """Prints which conditions hold, and a counterexample to each that fails."""
    console = _console()
    table = _table("Conditions", "condition", "verdict", "cases tried")
    for result in results:
        table.add_row(result.condition, "holds" if result.holds else "fails", f"{result.num_cases:,}")
    console.print(table)
    for result in results:
        if result.counterexample is not None:
            _print_counterexample(console, result.condition, result.counterexample)
    if any(result.holds for result in results):
        _say(console, "A condition that holds is one to which no counterexample was found among the cases tried.")


def _print_counterexample(console: Console, condition: str, example: "Counterexample") -> None:
    table = _table(f"A counterexample to {condition}", "step", "arm", "one reward", "other reward")
    for step, (arm, *rewards) in enumerate(zip(example.arms, example.rewards, example.other_rewards, strict=True)):
        table.add_row(str(step), str(arm), *(f"{reward:.4g}" for reward in rewards))
    table.add_section()
    table.add_row("next", "chosen", str(example.chosen), str(example.other_chosen))
    table.add_row("", "probability", *(f"{value:.4f}" for value in (example.probability, example.other_probability)))
    console.print(table)
    _say(console, f"Seed {example.seed}: {example.explanation}.\n")


def count_logged(out: Path | None, log_trials: int | None, trials: int) -> int:
    """How many trials go to the log, once it is known that it can be written."""
    if out is None:
        if log_trials is not None:
            raise ValueError("--log-trials is given without --out; allowed: both")
        return 0
    if not out.name.endswith(SUFFIXES):
        raise ValueError(f"--out is {str(out)!r}; allowed: a file that ends in {', '.join(SUFFIXES)}")
    if out.is_dir() or not (out.parent.is_dir() and os.access(out.parent, os.W_OK)):
        raise ValueError(f"--out is {str(out)!r}; allowed: a file in a folder that exists and can be written to")
    if log_trials is not None and not 1 <= log_trials <= trials:
        raise ValueError(f"--log-trials is {log_trials}; allowed: 1 to {trials}, the number of --trials")
    return min(LOG_TRIALS, trials) if log_trials is None else log_trials


def write_log(history: "History", out: Path) -> None:
    """Writes trial, step, arm and reward, one pull a row; the file is there whole or not at all."""
    import numpy as np
    import pandas as pd

    arms, rewards = np.asarray(history.arms), np.asarray(history.rewards)
    trial, step = np.indices(arms.shape)
    frame = pd.DataFrame({"trial": trial.ravel(), "step": step.ravel(), "arm": arms.ravel(), "reward": rewards.ravel()})
    temporary = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        with temporary.open("xb") as file:
            _write_frame(frame, file, out.name)
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)


def _write_frame(frame: Any, file: Any, name: str) -> None:
    # Neither the time nor the temporary name goes into the archive: the same log is the same bytes.
    gzip = {"method": "gzip", "mtime": 0, "filename": ""}
    if name.endswith(".parquet"):
        frame.to_parquet(file, index=False)
    else:
        frame.to_csv(file, index=False, mode="wb", compression=gzip if name.endswith(".gz") else None)


def _console() -> Console:
    return Console(highlight=False, markup=False)


def _say(console: Console, sentence: str) -> None:
    console.print(sentence, soft_wrap=not console.is_terminal)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _figure(console: Console, value: float, stderr: float) -> str:
    """A figure with as many decimals as give its standard error two digits."""
    if not (math.isfinite(stderr) and stderr > 0):
        return f"{value:.4f}"
    decimals = min(max(1 - math.floor(math.log10(stderr)), 0), 8)
    sign = "+/-" if console.options.ascii_only else "±"
    return f"{value:.{decimals}f} {sign} {stderr:.{decimals}f}"
