"""The tables of the report as rows of text."""

import math
from typing import Any

import numpy as np

from jaxbias.analysis.findings import Analysis
from jaxbias.estimators.estimate import Estimate
from jaxbias.reporting.extremes import shown_arms
from jaxbias.reporting.formatting import NONE, count, figure, given, interval, number, probability, share_decimals
from jaxbias.reporting.statuses import describe_status


def main_table(analysis: Analysis) -> dict[str, Any]:
    """Arm, pulls, the sample mean, the recommended estimate, then the others; of many arms, `others` are those in between."""
    estimates, pulls = analysis.comparison.estimates, np.asarray(analysis.comparison.pulls)
    methods = list(dict.fromkeys(["sample_mean", analysis.recommended.method, *estimates]))
    errors, rows = share_decimals(analysis.estimate.stderr), []
    for arm in shown_arms(analysis, all_arms=True):
        cells = [_cell(estimates[method], arm, errors[arm]) for method in methods if method in estimates]
        if "sample_mean" not in estimates:  # it is shown even if it was not asked for
            cells.insert(0, _sample_mean_cell(analysis, arm, errors[arm]))
        rows.append({"arm": arm, "pulls": count(pulls[arm]), "cells": cells})
    shown = shown_arms(analysis)
    parts = {"rows": [row for row in rows if row["arm"] in shown], "others": [row for row in rows if row["arm"] not in shown]}
    return {"methods": methods, "shown": shown, **parts}


def _cell(estimate: Estimate, arm: int, stderr: float) -> dict[str, Any]:
    """An estimate with its interval, and whether it gets a star."""
    mean, lower, upper = (float(part[arm]) for part in (estimate.mean, estimate.lower, estimate.upper))
    return {
        "method": estimate.method,
        "mean": number(mean, stderr),
        "ends": "" if math.isnan(mean) else interval(lower, upper, stderr),
        "doubtful": not bool(np.asarray(estimate.converged)[arm]),
    }


def _sample_mean_cell(analysis: Analysis, arm: int, stderr: float) -> dict[str, Any]:
    history = analysis.log.history
    rewards = np.asarray(history.rewards, np.float64)[np.asarray(history.arms) == arm]
    mean = number(rewards.mean(), stderr) if len(rewards) else NONE
    return {"method": "sample_mean", "mean": mean, "ends": "", "doubtful": False}


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
