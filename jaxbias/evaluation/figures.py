"""The figures of a method over many simulated logs: bias, mean squared error, coverage and width, with Monte Carlo errors."""

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jaxbias._core.errors import ArgumentError
from jaxbias.estimators.estimate import Estimate

if TYPE_CHECKING:
    import pandas

THIRDS = ("few", "middle", "many")  # pulls of an arm, over the logs


class MethodFigures(NamedTuple):
    """How one method does. Arrays have one figure for each arm; every figure has a Monte Carlo standard error.

    Fields:
        bias: the average error of the estimates.
        mse: their mean squared error.
        coverage: the share of intervals that hold the mean.
        width: of the intervals, on average.
        too_low, too_high: the share of intervals that lie below, or above, the mean.
        average_bias, average_mse, average_coverage, average_width: over arms.
        rms_bias: the root of the average over arms of bias^2, as an average of biases hides opposite signs.
        rmse_by_pulls: the root mean squared error in the third of the logs that pulled an arm the least, the middle third, and
            the third that pulled it the most, over all arms.
        usable: the share of estimates that exist and have converged; only these count.
    """

    bias: np.ndarray
    bias_stderr: np.ndarray
    mse: np.ndarray
    mse_stderr: np.ndarray
    coverage: np.ndarray
    coverage_stderr: np.ndarray
    width: np.ndarray
    width_stderr: np.ndarray
    too_low: np.ndarray
    too_low_stderr: np.ndarray
    too_high: np.ndarray
    too_high_stderr: np.ndarray
    average_bias: float
    average_bias_stderr: float
    average_mse: float
    average_mse_stderr: float
    average_coverage: float
    average_coverage_stderr: float
    average_width: float
    average_width_stderr: float
    rms_bias: float
    rms_bias_stderr: float
    rmse_by_pulls: np.ndarray
    rmse_by_pulls_stderr: np.ndarray
    usable: np.ndarray


def summarise_estimates(estimate: Estimate, mean: np.ndarray, pulls: np.ndarray) -> MethodFigures:
    """The figures of estimates of many logs, (trials, arms), whose true means are known."""
    values, lower, upper = (np.asarray(part, np.float64) for part in (estimate.mean, estimate.lower, estimate.upper))
    usable = np.asarray(estimate.converged) & np.isfinite(values)
    error = np.where(usable, values - mean, np.nan)
    bounded = usable & np.isfinite(lower) & np.isfinite(upper)
    by_name = {
        "bias": error,
        "mse": error**2,
        "coverage": np.where(bounded, (lower <= mean) & (mean <= upper), np.nan),
        "width": np.where(bounded, upper - lower, np.nan),
        "too_low": np.where(bounded, upper < mean, np.nan),
        "too_high": np.where(bounded, lower > mean, np.nan),
    }
    figures: dict[str, Any] = {}
    for name, each in by_name.items():
        figures[name], figures[f"{name}_stderr"] = _mean(each)
        if name in ("bias", "mse", "coverage", "width"):
            figures[f"average_{name}"], figures[f"average_{name}_stderr"] = map(float, _mean(_average_over_arms(each)))
    figures["rms_bias"], figures["rms_bias_stderr"] = _root_mean_square(figures["bias"], figures["bias_stderr"])
    by_pulls, by_pulls_stderr = _by_pulls(error, pulls)
    return MethodFigures(**figures, rmse_by_pulls=by_pulls, rmse_by_pulls_stderr=by_pulls_stderr, usable=usable.mean(axis=0))


def _mean(each: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The average over the logs of what exists, and its standard error; NaN where nothing does."""
    number = np.sum(np.isfinite(each), axis=0)
    known = np.where(number > 0, number, 1)
    average = np.where(number > 0, np.nansum(each, axis=0) / known, np.nan)
    squares = np.nansum((each - average) ** 2, axis=0)
    spread = np.sqrt(squares / np.maximum(number - 1, 1))
    return average, np.where(number > 1, spread / np.sqrt(known), np.nan)


def _average_over_arms(each: np.ndarray) -> np.ndarray:
    """Of each log, over the arms that have a figure."""
    number = np.sum(np.isfinite(each), axis=1)
    return np.where(number > 0, np.nansum(each, axis=1) / np.maximum(number, 1), np.nan)


def _root_mean_square(bias: np.ndarray, stderr: np.ndarray) -> tuple[float, float]:
    """Over arms, and its standard error by the delta method."""
    known = np.isfinite(bias)
    if not known.any():
        return np.nan, np.nan
    root = float(np.sqrt(np.mean(bias[known] ** 2)))
    error = np.sqrt(np.sum((bias[known] * stderr[known]) ** 2)) / (known.sum() * root) if root > 0 else np.nan
    return root, float(error)


def _by_pulls(error: np.ndarray, pulls: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The root mean squared error by thirds of the logs, in the order of how often they pulled the arm."""
    order = np.argsort(pulls, axis=0, kind="stable")
    squares = np.take_along_axis(error**2, order, axis=0)
    thirds = np.array_split(squares, len(THIRDS), axis=0)
    figures = [_mean(part.reshape(-1)) for part in thirds]
    roots = np.array([np.sqrt(mean) for mean, _ in figures])
    return roots, np.array([stderr for _, stderr in figures]) / (2 * np.where(roots > 0, roots, np.nan))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation:
    """How methods do in an experiment; printed, it is a table of averages over arms.

    Fields:
        methods: the figures of each, by name.
        reasons: by the name of each method that does not apply, the error that says why not.
        mean: the true mean of each arm.
        pulls: of each arm on average.
        num_trials: how many logs were simulated.
        level: of the intervals.
    """

    methods: dict[str, MethodFigures]
    reasons: dict[str, ArgumentError]
    mean: np.ndarray
    pulls: np.ndarray
    num_trials: int
    level: float

    def to_frame(self) -> "pandas.DataFrame":
        """One row for each method and arm, as a pandas data frame; needs pandas."""
        import pandas

        names = [name for name in MethodFigures._fields if not name.startswith(("average", "rms"))]
        rows = [
            {"method": method, "arm": arm, "mean": self.mean[arm]} | {name: float(getattr(figures, name)[arm]) for name in names}
            for method, figures in self.methods.items()
            for arm in range(len(self.mean))
        ]
        return pandas.DataFrame(rows)

    def __str__(self) -> str:
        """The table, with Monte Carlo standard errors in brackets."""
        header = ["", "bias", "root mean square bias", "MSE", "coverage", "width"]
        rows = [header, *([method, *_cells(figures)] for method, figures in self.methods.items())]
        widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        notes = [f"Averages over arms, of {self.num_trials} logs; intervals of {100 * self.level:g}%."]
        notes += [f"{method} does not apply: {reason}" for method, reason in self.reasons.items()]
        return "\n".join([*lines, "", *notes])


def _cells(figures: MethodFigures) -> list[str]:
    names = ("average_bias", "rms_bias", "average_mse", "average_coverage", "average_width")
    return [f"{getattr(figures, name):.4f} ({getattr(figures, f'{name}_stderr'):.4f})" for name in names]
