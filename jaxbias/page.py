"""One log and all that was found out about it, as a page: one file, which needs no network, no scripts and no other file."""

import dataclasses
import math
import platform
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

import jaxbias as jb
from jaxbias.advice import NEEDS_NO_POLICY, count_pulls, doubt_sentence, fit_sentence, name_some, sentences
from jaxbias.analysis import Analysis
from jaxbias.estimators import Estimate
from jaxbias.files import written_whole
from jaxbias.plots import plot_bias, plot_estimates, plot_fit, plot_running_means, to_svg
from jaxbias.plots.canvas import plain_text, short_names

ALIKE = 10  # times: standard errors that differ by less share their decimals, which is one digit too many at most
NONE = "\N{EN DASH}"  # a figure that there is not


def write_report(analysis: Analysis, out: str | Path, *, command: str | None = None) -> None:
    """Writes the page; the file is there whole or not at all.

    Arguments:
        analysis: from `debias`.
        out: the file.
        command: what was typed to get it, for those who want to repeat it.
    """
    out = Path(out)
    with written_whole(out) as temporary:
        temporary.write_text(render_report(analysis, command), encoding="utf-8", newline="\n")


def render_template(template: str, **values: Any) -> str:
    """A page of the package, with everything that is put into it escaped."""
    try:
        import jinja2
    except ModuleNotFoundError as error:
        raise ImportError("writing a report needs jinja2; it comes with pip install 'jaxbias[cli]'") from error
    folder = resources.files("jaxbias") / "templates"
    loader = jinja2.FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8"))
    options: dict[str, Any] = dict(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return jinja2.Environment(loader=loader, autoescape=True, **options).get_template(template).render(**values)


def render_report(analysis: Analysis, command: str | None = None) -> str:
    """The page as text; the same analysis gives the same text."""
    reasons = _reasons(analysis)
    return render_template(
        "report.html",
        name=plain_text(analysis.log.name),
        analysis=analysis,
        labels=[plain_text(label) for label in analysis.labels],
        short_labels=short_names(analysis.labels, len(analysis.labels)),
        level=f"{100 * analysis.table.level:g}%",
        reasons=reasons,
        verdict=[sentence for sentence in map(plain_text, sentences(analysis)) if sentence not in reasons],
        assumed=[note for note in map(plain_text, analysis.warnings) if note not in reasons],
        main=_main_table(analysis),
        doubts=_doubts(analysis),
        misled=_misled(analysis),
        calibration=_calibration_table(analysis),
        calibration_p_value="" if analysis.fit is None else _p_value(analysis.fit.calibration_p_value),
        surprises=_surprise_table(analysis),
        bias=_bias_table(analysis),
        diagnostics=[_diagnostics(analysis, method) for method in analysis.table.estimates],
        repeat=_repeat(analysis, command),
        **_pictures(analysis),
    )


def _reasons(analysis: Analysis) -> list[str]:
    """Why the figures are not to be trusted; none where they are."""
    if analysis.trusted:
        return []
    misfit = fit_sentence(analysis) if analysis.fit is not None and not analysis.fit.fits else ""
    uncorrected = "" if analysis.recommended.corrects else f"The means of {analysis.recommended.method} are not corrected."
    grave = [warning for warning in analysis.warnings if "not to be trusted" in warning]  # the others are mere notes
    said = [misfit, uncorrected, doubt_sentence(analysis), *grave]
    return [plain_text(sentence) for sentence in said if sentence]


def _pictures(analysis: Analysis) -> dict[str, Any]:
    """The figures as SVG; what is marked safe here is all that the page does not escape."""
    from markupsafe import Markup

    labels, fit, bias = analysis.labels, analysis.fit, analysis.bias
    forest = plot_estimates(analysis.table, labels, recommended=analysis.recommended.method)
    running = plot_running_means(analysis.log.history, labels, estimate=analysis.estimate)
    drawn = {
        "forest": (forest, "Estimates of every method with their intervals, arm by arm"),
        "running": (running, "The sample mean of each arm over the steps, and which arm was chosen when"),
        "fit_picture": (fit and plot_fit(fit), "The log's log-probability among redraws, and the calibration of the policy"),
        "bias_picture": (bias and plot_bias(bias, labels), "The estimated bias of each sample mean, with its Monte Carlo error"),
    }
    return {name: figure and Markup(to_svg(figure, title=title, salt=name)) for name, (figure, title) in drawn.items()}


def decimals(stderr: float) -> int | None:
    """How many decimals a figure deserves: as many as give its standard error two digits; None where it has none."""
    if not (math.isfinite(stderr) and stderr > 0):
        return None
    return max(1 - math.floor(math.log10(stderr)), 0)


def number(value: Any, stderr: Any = math.nan) -> str:
    """A figure with the digits that its standard error deserves, or four.

    >>> number(0.98765, 0.0321), number(1234567.8, 450.0), number(1.2e-9, 3.4e-10), number(2 / 3), number(float("-inf"))
    ('0.988', '1,234,568', '1.20e-09', '0.6667', '-∞')
    """
    value, places = float(value), decimals(float(stderr))
    if math.isnan(value):
        return NONE
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if places is None or (value == 0 and places > 6):
        return f"{value:.4g}"
    if places > 6:  # so small that decimals are mostly zeros
        return f"{value:.{max(places + math.floor(math.log10(abs(value))), 0)}e}"
    return f"{value:,.{places}f}"


def _shared(errors: Any) -> np.ndarray:
    """The standard errors by which figures are rounded: where they are much alike the least of them, so that columns line up."""
    errors = np.asarray(errors, np.float64)
    usable = errors[np.isfinite(errors) & (errors > 0)]
    alike = len(usable) and usable.max() <= ALIKE * usable.min()
    return np.full(len(errors), usable.min()) if alike else errors


def _main_table(analysis: Analysis) -> dict[str, Any]:
    """Arm, pulls, the sample mean, the recommended estimate, then the others."""
    estimates, first = analysis.table.estimates, analysis.recommended.method
    methods = list(dict.fromkeys(["sample_mean", first, *estimates]))
    history, pulls = analysis.log.history, np.asarray(analysis.table.pulls)
    total = np.bincount(np.asarray(history.arms), np.asarray(history.rewards, np.float64), minlength=len(pulls))
    errors, rows = _shared(analysis.estimate.stderr), []
    for arm, count in enumerate(pulls):
        cells = [_cell(estimates[method], arm, errors[arm]) for method in methods if method in estimates]
        if "sample_mean" not in estimates:  # it was not asked for, and is told all the same
            mean = number(total[arm] / count, errors[arm]) if count else NONE
            cells.insert(0, {"method": "sample_mean", "mean": mean, "ends": "", "doubtful": False})
        rows.append({"arm": arm, "pulls": f"{count:,}", "cells": cells})
    return {"methods": methods, "rows": rows}


def _cell(estimate: Estimate, arm: int, stderr: float) -> dict[str, Any]:
    """An estimate with its interval, and whether it gets a star."""
    mean, low, high = (float(part[arm]) for part in (estimate.mean, estimate.lower, estimate.upper))
    has_ends = not any(map(math.isnan, (mean, low, high)))
    return {
        "method": estimate.method,
        "mean": number(mean, stderr),
        "ends": f"[{number(low, stderr)}, {number(high, stderr)}]" if has_ends else "",
        "doubtful": not bool(np.asarray(estimate.converged)[arm]),
    }


def _doubts(analysis: Analysis) -> list[str]:
    """What the stars mean: by method and reason, the arms."""
    groups: dict[tuple[str, str], list[str]] = {}
    for method, estimate in analysis.table.estimates.items():
        for arm in np.flatnonzero(~np.asarray(estimate.converged)):
            groups.setdefault((method, analysis.status(method, int(arm))), []).append(analysis.labels[arm])
    return [plain_text(f"{method}: {status}, for {name_some(labels)}.") for (method, status), labels in groups.items()]


def _misled(analysis: Analysis) -> list[str]:
    """The methods that rely on a policy that does not fit."""
    if analysis.fit is None or analysis.fit.fits:
        return []
    own = ("propensity_weighting",) if analysis.log.propensity is not None else ()  # it weighs by what the log recorded
    return [method for method in analysis.table.estimates if method not in (*NEEDS_NO_POLICY, *own)]


def _calibration_table(analysis: Analysis) -> list[list[str]]:
    rows = analysis.fit.calibration if analysis.fit is not None else ()
    return [
        [
            f"{row.low:g} to {row.high:g}",
            f"{row.count:,}",
            number(row.predicted, row.stderr),
            _figure(row.chosen, row.stderr, row.stderr),
        ]
        for row in rows
    ]


def _surprise_table(analysis: Analysis) -> list[dict[str, Any]]:
    """The least likely choices, with steps counted from 1."""
    surprises = analysis.fit.surprises if analysis.fit is not None else ()
    return [
        {**surprise._asdict(), "step": f"{surprise.step + 1:,}"}
        | {name: f"{getattr(surprise, name):.2g}" for name in ("probability", "likeliest_probability")}
        for surprise in surprises
    ]


def _bias_table(analysis: Analysis) -> list[list[str]]:
    found = analysis.bias
    if found is None:
        return []
    mean_errors, errors = _shared(analysis.estimate.stderr), _shared(found.stderr)
    return [
        [number(found.mean[arm], mean_errors[arm]), _figure(bias, found.stderr[arm], errors[arm])]
        for arm, bias in enumerate(found.bias)
    ]


def _figure(value: float, stderr: float, shared: float) -> str:
    return NONE if math.isnan(value) else f"{number(value, shared)} ± {number(stderr, shared)}"


def _p_value(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}"


def _diagnostics(analysis: Analysis, method: str) -> dict[str, Any]:
    """What a method says about how it went: single numbers, and numbers of each arm."""
    estimate, num_arms = analysis.table.estimates[method], len(analysis.labels)
    values = {name: np.asarray(value) for name, value in estimate.diagnostics.items() if name not in ("status", "pulls")}
    by_arm = {name: value for name, value in values.items() if value.shape == (num_arms,)}
    columns = {"standard error": [number(error, error) for error in np.asarray(estimate.stderr)]}
    columns |= {_words(name): [_plain(part) for part in value] for name, value in by_arm.items()}
    converged = bool(np.all(estimate.converged))
    if not converged:  # otherwise one sentence says it
        columns = {"status": [analysis.status(method, arm) for arm in range(num_arms)], **columns}
    return {
        "method": method,
        "single": {_words(name): _plain(value) for name, value in values.items() if value.ndim == 0},
        "converged": converged,
        "columns": list(columns),
        "rows": list(zip(*columns.values(), strict=True)),
    }


def _words(name: str) -> str:
    return name.replace("_", " ")


def _plain(value: Any) -> str:
    if np.issubdtype(value.dtype, np.bool_):
        return "yes" if value else "no"
    return f"{int(value):,}" if np.issubdtype(value.dtype, np.integer) else number(value)


def _repeat(analysis: Analysis, command: str | None) -> dict[str, str]:
    """What is needed to get the same figures again."""
    import jax

    fitted = {
        f"{name} (estimated)": f"{value.value:.6g} [{value.lower:.4g}, {value.upper:.4g}]"
        for name, value in analysis.fitted.items()
    }
    said = {
        "command": "" if command is None else plain_text(command),
        "seed": "" if analysis.seed is None else str(analysis.seed),
        "log": f"{plain_text(analysis.log.name)}, {count_pulls(analysis.log.history.num_steps)}, arms: {len(analysis.labels)}",
        "policy": "not given" if analysis.policy is None else _settings(analysis.policy),
        **fitted,
        "family": _settings(analysis.family),
        "level of the intervals": f"{analysis.table.level:g}",
        "methods tried": ", ".join([*analysis.table.estimates, *analysis.table.reasons]),
        "jaxbias": jb.__version__,
        "jax": f"{jax.__version__} on {jax.default_backend()}, in float64",
        "Python": f"{platform.python_version()} on {platform.platform()}",
    }
    return {name: text for name, text in said.items() if text}


def _settings(thing: Any) -> str:
    """A policy or family with its settings, and no address in memory."""
    if dataclasses.is_dataclass(thing):
        values = {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}
    else:
        values = dict(getattr(thing, "__dict__", {}))
    return plain_text(f"{type(thing).__name__}({', '.join(f'{name}={_setting(value)}' for name, value in values.items())})")


def _setting(value: Any) -> str:
    if callable(value):
        return getattr(value, "__qualname__", type(value).__name__)
    if hasattr(value, "tolist"):
        value = value.tolist()
    return repr(value) if isinstance(value, str | int | float | list | tuple | bool | None) else type(value).__name__
