"""What `jaxbias debias` prints: the corrected means, every method, and what they mean."""

from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

from jaxbias._core.errors import NameOf
from jaxbias.reporting.extremes import describe_rest, shown_arms
from jaxbias.reporting.formatting import count, figure, interval, level, number
from jaxbias.reporting.terminal.common import add_row, make_console, make_table, print_with_labels, say
from jaxbias.reporting.terminal.evaluation import ERRORS as MONTE_CARLO
from jaxbias.reporting.terminal.evaluation import print_averages, print_by_pulls

if TYPE_CHECKING:
    from jaxbias.analysis.findings import Analysis

ERRORS = "\N{PLUS-MINUS SIGN} standard error"
EVALUATION_TITLE = f"How the methods do on logs simulated at these estimates ({MONTE_CARLO})"
MOST_ARMS = 10  # for which every method is printed; with more arms, only the recommended one and the sample mean


def print_debias(
    analysis: "Analysis", note: str = "", name_of: NameOf = str, all_arms: bool = False, details: bool = False
) -> None:
    """Prints the answer, the corrected means, every arm against the control, and what else the log shows.

    `name_of` says how the reader calls an argument of the library; `all_arms`, whether every one of many arms is printed;
    `details`, whether the estimates of every method follow, and how each does on logs like this one.
    """
    from jaxbias.reporting.answer import answer_sentence  # here, as these modules import JAX
    from jaxbias.reporting.causes import cause_sentences
    from jaxbias.reporting.sentences import sentences

    console, found = make_console(), sentences(analysis, name_of)
    verdict = 1 + len(cause_sentences(analysis.causes))  # sentences about the policy; they come first where it does not fit
    before = 0 if analysis.trusted else verdict
    for sentence in [answer_sentence(analysis), *found[:before]]:
        say(console, sentence)
    shown = shown_arms(analysis, all_arms)
    _print_main(console, analysis, shown)
    where = f"the report and the JSON document, and {name_of('all_arms')} prints them"
    if rest := describe_rest(len(analysis.labels), len(shown), where):
        say(console, rest)
    _print_contrasts(console, analysis, shown)
    for sentence in [*found[before:], *_fitted_sentences(analysis)]:
        say(console, sentence)
    if details:
        _print_details(console, analysis, name_of)
    else:
        said = "prints the estimates of every method, and how each does on logs like this one"
        say(console, f"{name_of('details')} {said}.")
    if note:
        say(console, note)


def _fitted_sentences(analysis: "Analysis") -> list[str]:
    """The settings that were estimated, and reasons for distrust that no other sentence gives."""
    from jaxbias.reporting.sentences import describe_distrust, sentences

    fitted = [
        f"{name} was estimated from the log: {number(value.value)} {interval(value.lower, value.upper)}."
        for name, value in analysis.fitted.items()
    ]
    found = sentences(analysis)
    return fitted + [reason for reason in describe_distrust(analysis) if reason not in found]


def _print_details(console: Console, analysis: "Analysis", name_of: NameOf) -> None:
    """The estimates of every method, which of them are not to be believed, the evaluation, and what does not apply."""
    from jaxbias.reporting.statuses import describe_doubts

    if len(analysis.labels) <= MOST_ARMS:
        _print_methods(console, analysis)
        for doubt in describe_doubts(analysis):
            say(console, f"* Not reliable: {doubt}.")
    else:
        only = f"Of {len(analysis.labels)} arms only the recommended estimate is printed"
        say(console, f"{only}; the report and the JSON document have all methods.")
    if analysis.evaluation is not None:
        print_averages(console, analysis.evaluation, EVALUATION_TITLE)
        print_by_pulls(console, analysis.evaluation)
    for method, why in analysis.comparison.reasons.items():
        say(console, f"{method} does not apply: {why.describe(name_of)}.")


def _print_main(console: Console, analysis: "Analysis", shown: list[int]) -> None:
    corrected = "Corrected" if analysis.recommended.corrects else "Not corrected"
    method = analysis.recommended.method
    title = f"{'Estimates' if method == 'sample_mean' else corrected}: {method}"  # it may be recommended as the best there is
    columns = (
        "arm",
        "pulls",
        "sample\nmean",
        "estimate\n± std. error",
        f"{level(analysis.comparison.level)} interval",
        "bias of sample mean\n± Monte Carlo error",
    )
    columns = columns if analysis.bias is not None else columns[:-1]
    sample_mean, bias = analysis.comparison.estimates.get("sample_mean"), analysis.bias

    def build(names: list[str]) -> Table:
        table = make_table(title, *columns, left=(0,))
        for arm in shown:
            naive = "" if sample_mean is None else number(sample_mean.mean[arm], sample_mean.stderr[arm])
            off = [] if bias is None else [figure(bias.bias[arm], bias.stderr[arm])]
            cells = (count(analysis.comparison.pulls[arm]), naive, *_cells(analysis.estimate, arm), *off)
            add_row(console, table, names[arm], *cells)
        return table

    print_with_labels(console, analysis.labels, build)


def _print_contrasts(console: Console, analysis: "Analysis", shown: Any) -> None:
    from jaxbias.reporting.decisions import contrast_rows

    rows, control = contrast_rows(analysis), analysis.decisions and analysis.decisions.control
    if not rows or control is None:
        return
    columns = ("arm", "difference", f"{level(analysis.comparison.level)} interval", "lift", "interval", "p", "adjusted")

    def build(names: list[str]) -> Table:
        table = make_table(f"Against {names[control]} ({ERRORS})", *columns, left=(0,))
        for row in (row for row in rows if row["arm"] in set(shown)):
            figures = [row[name] for name in ("difference", "ends", "lift", "lift_ends", "p_value", "p_adjusted")]
            add_row(console, table, names[row["arm"]], *figures)
        return table

    print_with_labels(console, analysis.labels, build)


def _print_methods(console: Console, analysis: "Analysis") -> None:
    columns = ("arm", "method", "estimate", f"{level(analysis.comparison.level)} interval", "")

    def build(names: list[str]) -> Table:
        table = make_table(f"Every method (> the recommended one; {ERRORS})", *columns, left=(0, 1, 4), whole=(1,))
        for arm, name in enumerate(names):
            for place, (method, estimate) in enumerate(analysis.comparison.estimates.items()):
                marks = [">"] if method == analysis.recommended.method else []
                marks += [] if bool(np.asarray(estimate.converged)[arm]) else ["*"]
                add_row(console, table, "" if place else name, method, *_cells(estimate, arm), " ".join(marks))
            table.add_section()
        return table

    print_with_labels(console, analysis.labels, build)


def _cells(estimate: Any, arm: int) -> tuple[str, str]:
    """The estimate with its standard error, and its interval."""
    mean, stderr, lower, upper = (float(getattr(estimate, name)[arm]) for name in ("mean", "stderr", "lower", "upper"))
    return figure(mean, stderr), "" if mean != mean else interval(lower, upper, stderr)
