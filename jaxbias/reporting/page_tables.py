"""The tables of the report as rows of text."""

import math
from typing import Any

import numpy as np

from jaxbias.analysis.findings import Analysis
from jaxbias.estimators.estimate import Estimate
from jaxbias.reporting.decisions import compare_with_control, contrast_rows
from jaxbias.reporting.extremes import shown_arms
from jaxbias.reporting.formatting import count, count_pulls, figure, given, interval, number, p_value, probability, share_decimals
from jaxbias.reporting.plots.answer import raw_means
from jaxbias.reporting.statuses import describe_status


def main_table(analysis: Analysis) -> dict[str, Any]:
    """Each arm with its recommended estimate, its raw mean and its lift over the control; of many arms, `others` are in between.

    Where no arm has a lift, the difference to the control takes its place.
    """
    pulls, raw, errors = np.asarray(analysis.comparison.pulls), raw_means(analysis), share_decimals(analysis.estimate.stderr)
    compared = {row["arm"]: row for row in contrast_rows(analysis)}
    lifts = any(row["lift_ends"] for row in compared.values())
    rows = [
        {
            "arm": arm,
            "pulls": count_pulls(pulls[arm]),
            "estimate": _cell(analysis.estimate, arm, errors[arm]),
            "raw": number(raw[arm], errors[arm]),
            **_against(analysis, arm, compared.get(arm), lifts),
        }
        for arm in shown_arms(analysis, all_arms=True)
    ]
    shown = shown_arms(analysis)
    parts = {"rows": [row for row in rows if row["arm"] in shown], "others": [row for row in rows if row["arm"] not in shown]}
    return {"shown": shown, "against": "lift" if lifts else "difference", **parts}


def _against(analysis: Analysis, arm: int, row: dict[str, Any] | None, lifts: bool) -> dict[str, str]:
    """The lift or the difference to the control, its p-value, and what that shows."""
    if row is None:
        return {"verdict": "control", "lift": "", "lift_ends": "", "p_value": ""}
    groups = compare_with_control(analysis)
    verdict = "better" if arm in groups.better else "worse" if arm in groups.worse else ""
    difference = row["difference"].split(" ± ")[0]
    value, ends = (row["lift"], row["lift_ends"]) if lifts else (difference, row["ends"])
    assert analysis.decisions is not None
    assert analysis.decisions.contrasts is not None
    chance = float(np.asarray(analysis.decisions.contrasts.p_adjusted)[arm])
    said = "" if math.isnan(chance) else p_value(chance)
    return {"verdict": verdict, "lift": value, "lift_ends": ends, "p_value": said}


def methods_table(analysis: Analysis) -> dict[str, Any]:
    """The recommended estimate, then every other."""
    estimates, errors = analysis.comparison.estimates, share_decimals(analysis.estimate.stderr)
    methods = list(dict.fromkeys([analysis.recommended.method, *estimates]))
    rows = [
        {"arm": arm, "cells": [_cell(estimates[method], arm, errors[arm]) for method in methods]} for arm in shown_arms(analysis)
    ]
    return {"methods": methods, "rows": rows}


def _cell(estimate: Estimate, arm: int, stderr: float) -> dict[str, Any]:
    """An estimate with its interval, and whether it gets a star."""
    mean, lower, upper = (float(part[arm]) for part in (estimate.mean, estimate.lower, estimate.upper))
    return {
        "method": estimate.method,
        "mean": number(mean, stderr),
        "ends": "" if math.isnan(mean) else interval(lower, upper, stderr),
        "doubtful": not bool(np.asarray(estimate.converged)[arm]),
    }


def evaluation_table(analysis: Analysis) -> list[list[str]]:
    """How each method does on logs simulated at the estimates: bias, error, coverage and width, over all arms."""
    if analysis.evaluation is None:
        return []
    averages = ("average_bias", "rms_bias", "average_mse", "average_width")
    return [
        [
            name,
            *(figure(getattr(figures, one), getattr(figures, f"{one}_stderr")) for one in averages),
            figure(100 * figures.average_coverage, 100 * figures.average_coverage_stderr, unit="%"),
            figure(100 * figures.relative_rmse_by_pulls[-1], 100 * figures.relative_rmse_by_pulls_stderr[-1], unit="%"),
        ]
        for name, figures in analysis.evaluation.methods.items()
    ]


def calibration_table(analysis: Analysis) -> list[list[str]]:
    """How often arms were chosen, by the probability that the policy gave them."""
    rows = analysis.fit.calibration if analysis.fit is not None else ()
    return [
        [
            f"{given(row.low)} to {given(row.high)}",
            count(row.count),
            number(row.predicted, row.stderr),
            figure(row.chosen, row.stderr),
        ]
        for row in rows
    ]


def surprise_table(analysis: Analysis) -> list[dict[str, Any]]:
    """The least likely choices, with steps counted from 1."""
    surprises = analysis.fit.surprises if analysis.fit is not None else ()
    return [
        {
            "step": count(surprise.step + 1),
            "arm": surprise.arm,
            "probability": probability(surprise.probability),
            "likeliest_arm": surprise.likeliest_arm,
            "likeliest_probability": probability(surprise.likeliest_probability),
        }
        for surprise in surprises
    ]


def influence_table(analysis: Analysis) -> list[dict[str, Any]]:
    """The rows that move the estimates most, counted from 1."""
    rows = () if analysis.influence is None else analysis.influence.rows
    errors = share_decimals(analysis.estimate.stderr)
    return [
        {
            "step": count(row.step + 1),
            "arm": row.arm,
            "reward": number(row.reward),
            "estimate_of": row.estimate_of,
            "weight": number(row.weight, 0.01),
            "shift": number(row.shift, errors[row.estimate_of]),
            "errors": number(row.errors, 0.1),
        }
        for row in rows
    ]


def bias_table(analysis: Analysis) -> list[list[str]]:
    """The mean at which each bias was simulated, and the bias."""
    bias = analysis.bias
    if bias is None:
        return []
    mean_errors, errors = share_decimals(analysis.estimate.stderr), share_decimals(bias.stderr)
    return [
        [number(bias.mean[arm], mean_errors[arm]), figure(value, bias.stderr[arm], errors[arm])]
        for arm, value in enumerate(bias.bias)
    ]


def diagnostics_table(analysis: Analysis, method: str) -> dict[str, Any]:
    """The diagnostics of a method: single numbers, and numbers of each arm."""
    estimate, num_arms = analysis.comparison.estimates[method], len(analysis.labels)
    values = {name: np.asarray(value) for name, value in estimate.diagnostics.items() if name not in ("status", "pulls")}
    columns = {"standard error": [number(error, error) for error in np.asarray(estimate.stderr)]}
    columns |= {_words(name): [_value(part) for part in value] for name, value in values.items() if value.shape == (num_arms,)}
    converged = bool(np.all(estimate.converged))
    if not converged:  # otherwise one sentence says it
        columns = {"status": [describe_status(analysis, method, arm) for arm in range(num_arms)], **columns}
    return {
        "method": method,
        "single": {_words(name): _value(value) for name, value in values.items() if value.ndim == 0},
        "converged": converged,
        "columns": list(columns),
        "rows": list(zip(*columns.values(), strict=True)),
    }


def _words(name: str) -> str:
    return name.replace("_", " ")


def _value(value: Any) -> str:
    if np.issubdtype(value.dtype, np.bool_):
        return "yes" if value else "no"
    return count(value) if np.issubdtype(value.dtype, np.integer) else number(value)
