"""What `jaxbias simulate` prints."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from jaxbias.reporting.bias import bias_sentences, source_sentences
from jaxbias.reporting.formatting import average_count, figure, given, percent
from jaxbias.reporting.terminal.common import add_row, make_console, make_table, say
from jaxbias.reporting.terminal.evaluation import ERRORS

if TYPE_CHECKING:
    from jaxbias.bias.measured import BiasSummary
    from jaxbias.bias.sources import BiasSources


def print_bias(summary: "BiasSummary", mean: Sequence[float], note: str = "") -> None:
    """Prints the bias of every arm, the joint bias, what they mean, and a note."""
    console = make_console()
    table = make_table(f"Sample means ({ERRORS})", "arm", "mean", "average pulls", "bias", "MSE")
    columns = (summary.pulls, summary.bias, summary.bias_stderr, summary.mse, summary.mse_stderr)
    for arm, (pulls, *figures) in enumerate(zip(*columns, strict=True)):
        add_row(console, table, str(arm), given(mean[arm]), average_count(pulls), *_two_figures(*figures))
    table.add_section()
    average = (summary.average_bias, summary.average_bias_stderr, summary.average_mse, summary.average_mse_stderr)
    add_row(console, table, "average", "", "", *_two_figures(*average))
    console.print(table)
    joint = make_table(f"Joint bias ({ERRORS})", "arms below their mean", "share of trials")
    for low, (share, stderr) in enumerate(zip(summary.joint, summary.joint_stderr, strict=True)):
        add_row(console, joint, str(low), figure(share, stderr))
    console.print(joint)
    if summary.sources is not None:
        _print_sources(console, summary.sources)
    for sentence in filter(None, [*bias_sentences(summary), *source_sentences(summary.sources), note]):
        say(console, sentence)


def _two_figures(bias: float, bias_stderr: float, mse: float, mse_stderr: float) -> tuple[str, str]:
    return figure(bias, bias_stderr), figure(mse, mse_stderr)


def _print_sources(console: Console, sources: "BiasSources") -> None:
    table = make_table(f"Where the bias comes from ({ERRORS})", "arm", "sampling", "stopping", "reported in")
    columns = (sources.sampling, sources.sampling_stderr, sources.stopping, sources.stopping_stderr)
    for arm, figures in enumerate(zip(*columns, strict=True)):
        share = "" if sources.chosen is None else percent(sources.chosen[arm])
        add_row(console, table, str(arm), *_two_figures(*figures), share)
    console.print(table)
