"""Figures with their standard errors."""

from typing import Any, NamedTuple

import numpy as np

Figures = dict[str, tuple[Any, Any]]


class Figure(NamedTuple):
    """A number, or an array of them, with its Monte Carlo standard error."""

    value: Any
    stderr: Any


def correlation(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """The correlation of two arrays of shape (trials,), and its standard error."""
    value = float(np.corrcoef(first, second)[0, 1])
    return value, float((1 - value**2) / np.sqrt(len(first) - 1))
