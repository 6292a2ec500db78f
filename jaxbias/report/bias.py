"""What `jaxbias simulate` prints."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from jaxbias.files import PLACE, can_be_written
from jaxbias.report.common import figure, make_console, make_table, say

if TYPE_CHECKING:
    from jaxbias.bias import BiasSummary
    from jaxbias.sources import BiasSources

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
LOG_TRIALS = 1000  # trials in a log unless told otherwise: enough for every estimator, small enough to open
CLEAR = 3  # standard errors from 0 before a sign is called a finding: chance does that once in 370 times


def bias_document(summary: "BiasSummary") -> dict[str, Any]:
    """The figures of a summary by name."""
    return {name: value for name, value in summary._asdict().items() if value is not None}


def print_bias(summary: "BiasSummary", mean: Sequence[float], note: str = "") -> None:
    """Prints the bias of every arm, the joint bias, what they say, and a note."""
    console = make_console()
    table = make_table("Sample means", "arm", "mean", "average pulls", "bias", "MSE")
    columns = (summary.pulls, summary.bias, summary.bias_stderr, summary.mse, summary.mse_stderr)
    for arm, (pulls, *figures) in enumerate(zip(*columns, strict=True)):
        table.add_row(str(arm), f"{mean[arm]:g}", f"{pulls:.2f}", *_two_figures(console, *figures))
    table.add_section()
    average = (summary.average_bias, summary.average_bias_stderr, summary.average_mse, summary.average_mse_stderr)
    table.add_row("average", "", "", *_two_figures(console, *average))
    console.print(table)
    joint = make_table("Joint bias", "arms below their mean", "share of trials")
    for count, (share, stderr) in enumerate(zip(summary.joint, summary.joint_stderr, strict=True)):
        joint.add_row(str(count), figure(console, share, stderr))
    console.print(joint)
    if summary.sources is not None:
        _print_sources(console, summary.sources)
    for sentence in filter(None, [*_bias_sentences(summary), *_source_sentences(summary.sources), note]):
        say(console, sentence)


def _print_sources(console: Console, sources: "BiasSources") -> None:
    table = make_table("Where the bias comes from", "arm", "sampling", "stopping", "reported in")
    columns = (sources.sampling, sources.sampling_stderr, sources.stopping, sources.stopping_stderr)
    for arm, figures in enumerate(zip(*columns, strict=True)):
        share = "" if sources.chosen is None else f"{sources.chosen[arm]:.1%}"
        table.add_row(str(arm), *_two_figures(console, *figures), share)
    console.print(table)


def _source_sentences(sources: "BiasSources | None") -> list[str]:
    """The signs of the sources, as the numbers have them."""
    if sources is None or sources.reported is None:
        return []
    parts = (
        ("sampling", sources.reported_sampling, sources.reported_sampling_stderr),
        ("stopping", sources.reported_stopping, sources.reported_stopping_stderr),
        ("choosing", sources.choosing, sources.choosing_stderr),
    )
    said = [f"{name} {_signed(value, stderr)}" for name, value, stderr in parts]
    whole = _signed(sources.reported, sources.reported_stderr)
    return [f"The sample mean that is reported is off by {whole} on average: {', '.join(said[:-1])} and {said[-1]}."]


def _signed(value: float | None, stderr: float | None) -> str:
    """A part, or that it is none that can be told from 0."""
    assert value is not None
    assert stderr is not None
    return f"{figure(None, value, stderr)}" + ("" if abs(value) > CLEAR * stderr else " (not clear of 0)")


def _two_figures(console: Console, bias: float, bias_stderr: float, mse: float, mse_stderr: float) -> tuple[str, str]:
    return figure(console, bias, bias_stderr), figure(console, mse, mse_stderr)


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


def count_logged(out: Path | None, log_trials: int | None, trials: int) -> int:
    """How many trials go to the log, once it is known that it can be written."""
    if out is None:
        if log_trials is not None:
            raise ValueError("--log-trials is given without --out; allowed: both")
        return 0
    if not out.name.endswith(SUFFIXES):
        raise ValueError(f"--out is {str(out)!r}; allowed: a file that ends in {', '.join(SUFFIXES)}")
    if not can_be_written(out):
        raise ValueError(f"--out is {str(out)!r}; allowed: {PLACE}")
    if log_trials is not None and not 1 <= log_trials <= trials:
        raise ValueError(f"--log-trials is {log_trials}; allowed: 1 to {trials}, the number of --trials")
    return min(LOG_TRIALS, trials) if log_trials is None else log_trials
