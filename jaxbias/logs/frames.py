"""Tables in memory as data frames of pandas."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from jaxbias.logs.errors import LogError

TABLES = "a data frame of pandas or Polars, a table of Arrow, a dictionary of columns, or records of NumPy"


def as_frame(source: Any) -> pd.DataFrame | None:
    """The table as a data frame; None where it is no table, such as a path or an open file."""
    if isinstance(source, pd.DataFrame):
        return source
    try:
        if isinstance(source, Mapping):
            return pd.DataFrame({name: _column(values) for name, values in source.items()})
        if isinstance(source, np.ndarray) and source.dtype.names:
            return pd.DataFrame({name: _column(source[name]) for name in source.dtype.names})
        if hasattr(source, "to_pandas") and not hasattr(source, "read"):
            return source.to_pandas()
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise LogError(
            "source", source, TABLES, subject="the log", problem=f"is a table that cannot be read ({reason})"
        ) from error
    return None


def _column(values: Any) -> Any:
    """One dimension, with the numbers of JAX as those of NumPy."""
    array = values if isinstance(values, list | tuple | pd.Series | pd.Index) else np.asarray(values)
    if isinstance(array, np.ndarray) and array.ndim != 1:
        raise ValueError(f"a column has shape {array.shape}")
    return array
