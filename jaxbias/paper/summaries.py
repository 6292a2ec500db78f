"""Figures with their standard errors, from the estimates of many trials."""

from typing import Any, NamedTuple

import numpy as np

from jaxbias.estimators.estimate import Estimate

Figures = dict[str, tuple[Any, Any]]


class Figure(NamedTuple):
    """A number, or an array of them, with its Monte Carlo standard error."""

    value: Any
    stderr: Any


def correlation(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """The correlation of two arrays of shape (trials,), and its standard error."""
    value = float(np.corrcoef(first, second)[0, 1])
    return value, float((1 - value**2) / np.sqrt(len(first) - 1))


def summarise(estimate: Estimate, mean: Any) -> Figures:
    """Bias, MSE and coverage, averaged over arms; trials without a finite estimate of every arm are left out and counted."""
    mean = np.asarray(mean, np.float64)
    error = np.asarray(estimate.mean, np.float64) - mean
    covered = (np.asarray(estimate.lower) <= mean) & (mean <= np.asarray(estimate.upper))
    finite = np.isfinite(error).all(axis=1)
    return {
        "bias": _average(error[finite]),
        "mse": _average(np.square(error[finite])),
        "coverage": _average(covered[finite]),
        "converged": _average(np.asarray(estimate.converged)),
        "finite": _average(finite[:, None]),
    }


def _average(values: np.ndarray) -> tuple[float, float]:
    """Over arms, then over trials."""
    by_trial = values.astype(np.float64).mean(axis=1)
    return float(by_trial.mean()), float(by_trial.std(ddof=1) / np.sqrt(len(by_trial)))
