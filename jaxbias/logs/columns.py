"""The columns of a log, by what they hold."""

from typing import Any, NamedTuple

from jaxbias.logs.errors import LogError, quote
from jaxbias.logs.header import Finder
from jaxbias.logs.notes import Note
from jaxbias.logs.unused import unused_columns

DATA_FRAME = "the data frame"  # its name in messages
LABELS = ("arm", "trial", "cluster", "suspect_cluster")  # columns of labels


class Columns(NamedTuple):
    """The columns that are needed; the index of the frame is the row number in messages.

    Fields:
        file: its name in messages.
        frame: columns arm, reward, ...; arm and trial are categorical.
        names: what the log itself calls each of them.
        arms_are_ordered: whether the log has an order of the arms, that of its categories.
        notes: what reading decided so far.
        unused: the names of other columns that vary and are no ids.
    """

    file: str
    frame: Any
    names: dict[str, str]
    arms_are_ordered: bool
    notes: list[Note]
    unused: tuple[str, ...] = ()


def read_frame(frame: Any, wanted: Finder) -> Columns:
    """A data frame; a named index counts as a column."""
    if frame.index.nlevels == 1 and frame.index.name is not None and frame.index.name not in frame.columns:
        frame = frame.reset_index()
    header = [str(column) for column in frame.columns]
    places, notes = wanted.find(DATA_FRAME, header)
    names = {role: header[place] for role, place in places.items()}
    columns = columns_by_role(DATA_FRAME, frame.iloc[:, list(places.values())], names, notes)
    return columns._replace(unused=unused_columns(frame, header, list(places.values())))


def columns_by_role(file: str, frame: Any, names: dict[str, str], notes: list[Note]) -> Columns:
    """The columns of a frame under the names of their roles, with labels as categories."""
    import pandas as pd

    frame = frame.set_axis(list(names), axis=1).reset_index(drop=True)
    arms_are_ordered = isinstance(frame["arm"].dtype, pd.CategoricalDtype)
    for role in LABELS:
        if role in frame and not isinstance(frame[role].dtype, pd.CategoricalDtype):
            try:
                codes, labels = pd.factorize(frame[role])
            except TypeError as error:
                where, value = f"{file}: column {quote(names[role])} in row 0", frame[role].iloc[0]
                raise LogError(f"columns.{role}", value, "a single label", subject=where, problem=f"is {quote(value)}") from error
            frame[role] = pd.Categorical.from_codes(codes, categories=pd.Index(labels, dtype=object))
    return Columns(file, frame, names, arms_are_ordered, notes)
