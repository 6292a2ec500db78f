"""Samples for ArviZ, an optional dependency that no other file imports."""

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxbias._core.errors import ArgumentError


def to_arviz(samples: Mapping[str, Any], sample_stats: Mapping[str, Any] | None = None) -> Any:
    """Samples in ArviZ's own container, for its plots and diagnostics.

    Arguments:
        samples: arrays by name, each (chains, draws, ...); rewards given the arms are (chains, draws, steps).
        sample_stats: statistics of each sample by name, each (chains, draws), such as "diverging".

    Returns:
        An `InferenceData` of ArviZ before 1.0, a `DataTree` since; its groups are "posterior" and "sample_stats".

    >>> import pytest
    >>> _ = pytest.importorskip("arviz")
    >>> data = to_arviz({"rewards": np.zeros((4, 100, 3))}, {"diverging": np.zeros((4, 100), bool)})
    >>> data["posterior"]["rewards"].dims
    ('chain', 'draw', 'rewards_dim_0')
    """
    groups = {"posterior": _arrays("samples", samples), "sample_stats": _arrays("sample_stats", sample_stats or {})}
    shapes = {array.shape[:2] for group in groups.values() for array in group.values()}
    if len(shapes) != 1:
        problem = f"and sample_stats have shapes (chains, draws) {sorted(shapes)}"
        raise ArgumentError(
            "samples", samples, problem=problem, remedy="all arrays must have the same, and there must be one or more"
        )
    from_dict = _from_dict()
    groups = {name: group for name, group in groups.items() if group}
    if "posterior" in inspect.signature(from_dict).parameters:  # before ArviZ 1.0
        return from_dict(**groups)
    return from_dict(groups)


def _arrays(argument: str, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    arrays = {name: np.asarray(value) for name, value in values.items()}
    for name, array in arrays.items():
        if array.ndim < 2:
            raise ArgumentError(
                f"{argument}[{name!r}]",
                array,
                problem=f"has shape {array.shape}",
                remedy="it must have shape (chains, draws, ...)",
            )
    return arrays


def _from_dict() -> Any:
    try:
        from arviz import from_dict  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as error:
        if error.name != "arviz":
            raise
        raise ImportError("to_arviz needs ArviZ; install it with pip install arviz") from error
    return from_dict
