"""The analysis of one log as a page: a single file that needs no network, no scripts and no other file."""

import re
from pathlib import Path
from typing import Any

from jaxbias._core.files import written_whole
from jaxbias.analysis.findings import Analysis
from jaxbias.reporting.answer import answer_sentence, basis_sentences
from jaxbias.reporting.assumptions import warnings_of
from jaxbias.reporting.causes import cause_sentences
from jaxbias.reporting.decisions import contrast_rows
from jaxbias.reporting.drift import drift_table
from jaxbias.reporting.formatting import count, level, p_value
from jaxbias.reporting.labels import LONGEST_IN_TABLE, plain_text, short_names
from jaxbias.reporting.page_answers import short_answers
from jaxbias.reporting.page_tables import (
    bias_table,
    calibration_table,
    diagnostics_table,
    evaluation_table,
    influence_table,
    main_table,
    methods_table,
    surprise_table,
)
from jaxbias.reporting.plots import (
    plot_answer,
    plot_bias,
    plot_contrasts,
    plot_estimates,
    plot_fit,
    plot_influence,
    plot_running_means,
    to_svg,
)
from jaxbias.reporting.provenance import describe_provenance
from jaxbias.reporting.sentences import describe_distrust, fit_sentence, recommendation_sentence, titled_sentences
from jaxbias.reporting.statuses import describe_doubts
from jaxbias.reporting.templating import render_template
from jaxbias.reporting.weights import ratio_table, wrong_weights_table

ASIDES = re.compile(r"(\[[^][a-zA-Z]*\]|\(adjusted p[^)]*\))")  # intervals and p-values in the answer


def write_report(analysis: Analysis, out: str | Path, *, command: str | None = None) -> None:
    """Writes the page; if anything goes wrong, no file is written and an older one stays.

    Arguments:
        analysis: from `debias`.
        out: the file.
        command: what was typed to get it, for readers who want to repeat it.
    """
    out = Path(out)
    with written_whole(out) as temporary:
        temporary.write_text(render_report(analysis, command), encoding="utf-8", newline="\n")


def render_report(analysis: Analysis, command: str | None = None) -> str:
    """The page as text; the same analysis gives the same text."""
    return render_template(
        "report.html",
        analysis=analysis,
        labels=_plain_texts(analysis.labels),
        table_labels=short_names(analysis.labels, len(analysis.labels), LONGEST_IN_TABLE),
        short_labels=short_names(analysis.labels, len(analysis.labels)),
        level=level(analysis.comparison.level),
        repeat=describe_provenance(analysis, command),
        **_words(analysis),
        **_tables(analysis),
        **_pictures(analysis),
    )


def _words(analysis: Analysis) -> dict[str, Any]:
    """The answer, what it rests on, the other findings, and the short answers of the evidence."""
    distrust, causes, fits = describe_distrust(analysis), cause_sentences(analysis.causes), fit_sentence(analysis)
    recommendation = recommendation_sentence(analysis)
    elsewhere = {*distrust, fits, recommendation, *(() if analysis.trusted else causes)}
    findings = {
        title: [sentence for sentence in said if sentence not in elsewhere] for title, said in titled_sentences(analysis).items()
    }
    num_arms = len(analysis.labels)
    return {
        "name": plain_text(analysis.log.name),
        "rows": f"{count(analysis.log.history.num_steps)} pulls",
        "arms": f"{count(num_arms)} arm{'' if num_arms == 1 else 's'}",
        "answer": _with_asides(plain_text(answer_sentence(analysis))),
        "basis": _plain_texts(basis_sentences(analysis)),
        "reasons": _plain_texts([*distrust, *causes]),
        "findings": {title: _plain_texts(kept) for title, kept in findings.items() if kept},
        "assumed": _plain_texts(warnings_of(analysis)),
        "fit_sentence": plain_text(fits),
        "recommendation": plain_text(recommendation),
        "doubts": _plain_texts(describe_doubts(analysis)),
        "doubts_of_recommended": _plain_texts(describe_doubts(analysis, only=analysis.recommended.method)),
        **{name: plain_text(words) if words else "" for name, words in short_answers(analysis).items()},
    }


def _tables(analysis: Analysis) -> dict[str, Any]:
    """The rows of every table, and the figures of their captions."""
    return {
        "main": main_table(analysis),
        "methods": methods_table(analysis),
        "contrasts": contrast_rows(analysis),
        "tested": bool(analysis.decisions and analysis.decisions.contrasts is not None and analysis.decisions.simulated),
        "evaluation": evaluation_table(analysis),
        "evaluated": "" if analysis.evaluation is None else count(analysis.evaluation.num_trials),
        "calibration": calibration_table(analysis),
        "calibration_p_value": "" if analysis.fit is None else p_value(analysis.fit.calibration_p_value),
        "surprises": surprise_table(analysis),
        "bias": bias_table(analysis),
        "bias_trials": "" if analysis.bias is None else count(analysis.bias.num_trials),
        "ratio": ratio_table(analysis),
        "wrong_weights": wrong_weights_table(analysis),
        "moving": influence_table(analysis),
        "diagnostics": [diagnostics_table(analysis, method) for method in analysis.comparison.estimates],
        "drift": drift_table(analysis),
    }


def _with_asides(text: str) -> list[tuple[str, bool]]:
    """The parts of a sentence, and whether each is an interval or a p-value, which the page shows in lighter letters."""
    return [(part, number % 2 == 1) for number, part in enumerate(ASIDES.split(text)) if part]


def _plain_texts(texts: Any) -> list[str]:
    return [plain_text(text) for text in texts]


def _pictures(analysis: Analysis) -> dict[str, Any]:
    """The figures as SVG. They are marked safe, and nothing else on the page is left unescaped."""
    from markupsafe import Markup

    labels, fit, bias, moved = analysis.labels, analysis.fit, analysis.bias, analysis.influence
    answer = f"Estimates with their intervals, and raw means, as in the table of estimates. {answer_sentence(analysis)}"
    forest = plot_estimates(analysis.comparison, labels, recommended=analysis.recommended.method)
    compared = analysis.decisions and analysis.decisions.contrasts
    running = plot_running_means(analysis.log.history, labels, estimate=analysis.estimate)
    drawn = {
        "answer_picture": (plot_answer(analysis), answer),
        "forest": (forest, "Estimates of every method with their intervals, arm by arm"),
        "contrast_picture": (
            compared and plot_contrasts(compared, labels),
            "The difference of each arm to the control with its interval, and zero",
        ),
        "running": (running, "The sample mean of each arm over the steps, and which arm was chosen when"),
        "fit_picture": (fit and plot_fit(fit), "The log's log-probability among redraws, and the calibration of the policy"),
        "influence_picture": (
            moved and plot_influence(moved.moved, analysis.log.history, analysis.estimate, labels),
            "How far each row of the log has moved each estimate, in standard errors",
        ),
        "bias_picture": (bias and plot_bias(bias, labels), "The estimated bias of each sample mean, with its Monte Carlo error"),
    }
    return {name: figure and Markup(to_svg(figure, title=title, salt=name)) for name, (figure, title) in drawn.items()}
