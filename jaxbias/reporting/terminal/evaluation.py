"""What `jaxbias evaluate` prints."""

from typing import TYPE_CHECKING

from rich.console import Console

from jaxbias.reporting.formatting import count, figure, given, level, percent
from jaxbias.reporting.terminal.common import add_row, make_console, make_table, say

if TYPE_CHECKING:
    from jaxbias.evaluation import Evaluation

MISSES = "interval too low, too high"
ERRORS = "\N{PLUS-MINUS SIGN} Monte Carlo standard error"
BY_PULLS = f"Root mean squared error by pulls, in percent of the sample mean's ({ERRORS})"
WHOLE = 10.0  # an error of this size is printed without decimals
THIRDS = ("few", "middle", "many")  # as in `evaluation/figures.py`, which imports JAX
AVERAGES = ("average_bias", "rms_bias", "average_mse", "average_width")


def print_evaluation(evaluation: "Evaluation", reasons: dict[str, str]) -> None:
    """Prints the averages over arms of each method, then the figures of every arm, and which methods do not apply."""
    console, coverage = make_console(), f"coverage of {level(evaluation.level)}"
    print_averages(console, evaluation, f"Averages over arms ({ERRORS})")
    print_by_pulls(console, evaluation)
    arms = make_table(f"Every arm ({ERRORS})", "method", "arm", "mean", "bias", "MSE", coverage, MISSES, left=(0,), whole=(0,))
    for name, figures in evaluation.methods.items():
        for arm, mean in enumerate(evaluation.mean):
            two = (figure(getattr(figures, one)[arm], getattr(figures, f"{one}_stderr")[arm]) for one in ("bias", "mse"))
            covered = _percent(figures.coverage[arm], figures.coverage_stderr[arm])
            missed = f"{percent(figures.too_low[arm])}, {percent(figures.too_high[arm])}"
            add_row(console, arms, name if arm == 0 else "", str(arm), given(float(mean)), *two, covered, missed)
        arms.add_section()
    console.print(arms)
    say(console, f"{count(evaluation.num_trials)} simulated logs.")
    for name, reason in reasons.items():
        say(console, f"{name} does not apply: {reason}")


def print_averages(console: Console, evaluation: "Evaluation", title: str) -> None:
    """The averages over arms of each method."""
    headers = ("method", "bias", "RMS bias", "MSE", "width", f"coverage of {level(evaluation.level)}")
    table = make_table(title, *headers, left=(0,), whole=(0,))
    for name, figures in evaluation.methods.items():
        averages = (figure(getattr(figures, one), getattr(figures, f"{one}_stderr")) for one in AVERAGES)
        covered = _percent(figures.average_coverage, figures.average_coverage_stderr)
        add_row(console, table, name, *averages, covered)
    console.print(table)


def print_by_pulls(console: Console, evaluation: "Evaluation") -> None:
    """The error of each method by how often an arm was pulled."""
    headers = ("method", *(f"{third} pulls" for third in THIRDS), "all")
    table = make_table(BY_PULLS, *headers, left=(0,), whole=(0,))
    for name, figures in evaluation.methods.items():
        thirds = zip(figures.relative_rmse_by_pulls, figures.relative_rmse_by_pulls_stderr, strict=True)
        whole = (figures.relative_rmse, figures.relative_rmse_stderr)
        add_row(console, table, name, *(figure(100 * one, 100 * error, WHOLE, unit="%") for one, error in (*thirds, whole)))
    console.print(table)


def _percent(share: float, stderr: float) -> str:
    return figure(100 * share, 100 * stderr, unit="%")
