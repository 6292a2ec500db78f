"""What `jaxbias debias` prints: for a person a table and what it means, for a program everything."""

from typing import TYPE_CHECKING, Any

from rich.console import Console

from jaxbias.report.common import figure, make_console, make_table, say

if TYPE_CHECKING:
    from jaxbias.analysis import Analysis

MOST_ARMS = 10  # of which every method is printed; of more, the recommended one and the sample mean


def debias_document(analysis: "Analysis") -> dict[str, Any]:
    """All figures by name."""
    found, fit, best = analysis.bias, analysis.fit, analysis.best
    labels = analysis.labels
    return {
        "log": {"name": analysis.log.name, "rows": analysis.log.history.num_steps},
        "arms": [_arm_document(analysis, arm) for arm in range(len(labels))],
        "recommended": analysis.recommended._asdict(),
        "best": best and {**best._asdict(), "arm": labels[best.arm], "runner_up": labels[best.runner_up], "clear": best.is_clear},
        "bias_trials": found and found.num_trials,
        "fit": fit and {**_fit_document(fit, labels), "fits": fit.fits},
        "fitted": {name: value._asdict() for name, value in analysis.fitted.items()},
        "not_applicable": analysis.table.reasons,
        "level": analysis.table.level,
        "trusted": analysis.trusted,
        "warnings": list(analysis.warnings),
        "sentences": _sentences(analysis),
    }


def _sentences(analysis: "Analysis") -> list[str]:
    from jaxbias.advice import sentences  # here, as it brings JAX with it

    return sentences(analysis)


def _arm_document(analysis: "Analysis", arm: int) -> dict[str, Any]:
    figures = ("mean", "stderr", "lower", "upper", "converged")
    estimates = {
        method: {**{name: getattr(estimate, name)[arm] for name in figures}, "status": analysis.status(method, arm)}
        for method, estimate in analysis.table.estimates.items()
    }
    document = {"arm": analysis.labels[arm], "pulls": analysis.table.pulls[arm], "estimates": estimates}
    if analysis.bias is not None:
        document |= {"bias": analysis.bias.bias[arm], "bias_stderr": analysis.bias.stderr[arm]}
    return document


def _fit_document(fit: Any, labels: tuple[str, ...]) -> dict[str, Any]:
    named = {"arm", "likeliest_arm"}
    surprises = [
        {name: labels[value] if name in named else value for name, value in surprise._asdict().items()}
        for surprise in fit.surprises
    ]
    document = {name: value for name, value in fit._asdict().items() if name != "simulated"}
    return {**document, "surprises": surprises}


def print_debias(analysis: "Analysis", note: str = "") -> None:
    """Prints whether the policy fits, the corrected means, what every method says, and what it all means."""
    console = make_console()
    sentences = _sentences(analysis)
    say(console, sentences[0])
    _print_main(console, analysis)
    if len(analysis.labels) <= MOST_ARMS:
        _print_methods(console, analysis)
        for sentence in _doubts(analysis):
            say(console, sentence)
    else:
        say(
            console,
            f"Of {len(analysis.labels)} arms only the recommended estimate is printed; --json and --report have all.",
        )
    for name, fitted in analysis.fitted.items():
        say(console, f"{name} was estimated from the log: {fitted.value:.4g} [{fitted.lower:.4g}, {fitted.upper:.4g}].")
    for sentence in filter(None, [*sentences[1:], *_reasons(analysis), note]):
        say(console, sentence)


def _print_main(console: Console, analysis: "Analysis") -> None:
    level = f"{100 * analysis.table.level:g}%"
    title = f"{'Corrected' if analysis.recommended.corrects else 'Not corrected'}: {analysis.recommended.method}"
    table = make_table(title, "arm", "pulls", "sample mean", "estimate", f"{level} interval", "bias of the sample mean")
    table.columns[0].justify = "left"
    sample_mean = analysis.table.estimates.get("sample_mean")
    for arm, label in enumerate(analysis.labels):
        naive = "" if sample_mean is None else _number(sample_mean.mean[arm], sample_mean.stderr[arm])
        mean, interval = _cells(console, analysis.estimate, arm)
        bias = "" if analysis.bias is None else _figure(console, analysis.bias.bias[arm], analysis.bias.stderr[arm])
        table.add_row(_shown(label), f"{analysis.table.pulls[arm]:,}", naive, mean, interval, bias)
    console.print(table)


def _print_methods(console: Console, analysis: "Analysis") -> None:
    table = make_table(
        "Every method (> the recommended one)", "arm", "method", "estimate", f"{100 * analysis.table.level:g}% interval", ""
    )
    for column in (0, 1, 4):
        table.columns[column].justify = "left"
    table.columns[1].no_wrap = True
    for arm, label in enumerate(analysis.labels):
        for number, (method, estimate) in enumerate(analysis.table.estimates.items()):
            marks = [">"] if method == analysis.recommended.method else []
            marks += ["*"] if analysis.status(method, arm) != "converged" else []
            table.add_row("" if number else _shown(label), method, *_cells(console, estimate, arm), " ".join(marks))
        table.add_section()
    console.print(table)


def _doubts(analysis: "Analysis") -> list[str]:
    """Which figures of which method are not to be believed, and why."""
    why: dict[tuple[str, str], list[str]] = {}
    for method in analysis.table.estimates:
        for arm, label in enumerate(analysis.labels):
            status = analysis.status(method, arm)
            if status != "converged":
                why.setdefault((method, status), []).append(_shown(label))
    return [f"* {method} of {', '.join(labels)} is not to be believed: {status}." for (method, status), labels in why.items()]


def _cells(console: Console, estimate: Any, arm: int) -> tuple[str, str]:
    mean, stderr, lower, upper = (float(getattr(estimate, name)[arm]) for name in ("mean", "stderr", "lower", "upper"))
    if mean != mean:
        return "", ""
    interval = f"[{_number(lower, stderr)}, {_number(upper, stderr)}]" if lower <= upper else ""
    return _figure(console, mean, stderr), interval


def _figure(console: Console, value: Any, stderr: Any) -> str:
    value, stderr = float(value), float(stderr)
    return "" if value != value else figure(console, value, stderr)


def _number(value: Any, stderr: Any) -> str:
    """With as many decimals as the estimate has beside its standard error."""
    value = float(value)
    return "" if value != value else figure(None, value, float(stderr)).split(" ")[0]


def _shown(label: str) -> str:
    """A label on one line, and not too long for a table."""
    text = label if label.isprintable() else repr(label)
    return text if len(text) <= 40 else f"{text[:39]}…"


def _reasons(analysis: "Analysis") -> list[str]:
    return [f"{method} does not apply: {reason}." for method, reason in analysis.table.reasons.items()]
