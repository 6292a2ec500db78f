"""The column of users, or of other clusters whose rewards may be alike."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxbias._core.errors import ArgumentError
from jaxbias.logs.columns import Columns
from jaxbias.logs.notes import Note, NoteKind
from jaxbias.logs.values import refuse_rows

FEW_REPEATS = 0.01  # of the rows: below, that a user comes twice changes no interval visibly


def with_cluster(renames: Mapping[str, str], cluster: Any, counts: bool | None) -> dict[str, str]:
    """The names of columns with that of the clusters."""
    if cluster is None:
        return dict(renames)
    if not isinstance(cluster, str) or not cluster.strip():
        raise ArgumentError("cluster", cluster, "the name of a column")
    if counts:
        raise ArgumentError("cluster", cluster, lambda name: f"left out with {name('counts')}, whose rows are no single pulls")
    return {**renames, "cluster": cluster}


def read_cluster(columns: Columns) -> np.ndarray | None:
    """The number of each row's cluster; None where no column of them was named, with a note where one should have been."""
    frame = columns.frame
    if "cluster" in frame:
        codes = frame["cluster"].cat.codes.to_numpy()
        refuse_rows(columns, "cluster", codes < 0, "a label")
        return np.unique(codes, return_inverse=True)[1].astype(np.int32)
    if "suspect_cluster" in frame:
        ids, rows = int(frame["suspect_cluster"].nunique()), len(frame)
        if ids > 1 and rows - ids > FEW_REPEATS * rows:
            values = {"column": columns.names["suspect_cluster"], "ids": ids, "rows": rows}
            columns.notes.append(Note(NoteKind.IDS_REPEAT, values))
    return None
