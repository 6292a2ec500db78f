"""The columns of a log as pandas series: out of text, out of Parquet, out of a data frame."""

import csv
import io
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxbias.io.columns import REQUIRED, find_columns, matching
from jaxbias.io.sources import Source, Text
from jaxbias.io.words import Problem, shown

SEPARATORS = {";": "semicolons", "\t": "tabs", ",": "commas", "|": "vertical bars"}
ROWS = 250_000  # of a text at once: few enough that a long log with many columns does not fill the memory
FIRST_TEXT_ROW = 2  # as a spreadsheet counts: the header is row 1
LABELS = ("arm", "trial")


class Table(NamedTuple):
    """The columns that are needed; the index of the frame is the row number that messages give."""

    name: str
    frame: Any  # columns: arm, reward, ...; arm and trial are categorical
    written: dict[str, str]  # what the log itself calls them
    keeps_order: bool  # whether the arms have an order of their own, that of the categories
    notes: list[str]


def read_text(source: Source, renames: Mapping[str, str], separator: str, decimal: str) -> Table:
    """CSV and the like, in pieces."""
    head = Text(source).read()
    header = _read_header(source.name, head, separator)
    _check_separator(source.name, head, header, separator, [renames.get(role, role) for role in REQUIRED])
    places, notes = find_columns(source.name, header, renames)
    pieces = _Pieces(places)
    try:
        _read_pieces(Text(source), len(header), separator, decimal, pieces)
    except (ValueError, Warning) as error:
        raise _parser_problem(error, source.name, len(header)) from error
    frame = pieces.join()
    skipped = int(frame.index[-1]) + 1 - FIRST_TEXT_ROW - len(frame) if len(frame) else 0  # those at the end do not count
    notes += [f"{skipped:,} empty {'row was' if skipped == 1 else 'rows were'} skipped."] if skipped else []
    written = {role: header[place] for role, place in places.items()}
    return Table(source.name, frame, written, keeps_order=False, notes=notes)


def _read_header(name: str, head: str, separator: str) -> list[str]:
    if not head.strip():
        raise Problem(f"{name} is empty; allowed: a row of column names, and rows below it")
    try:
        header = next(csv.reader(io.StringIO(head, newline=""), delimiter=separator))
    except csv.Error as error:
        raise Problem(f"{name}: row 1 is not a row of column names; allowed: names such as arm and reward") from error
    if not any(field.strip() for field in header):
        raise Problem(f"{name}: row 1 is empty; allowed: a row of column names")
    return header


def _check_separator(name: str, head: str, header: Sequence[str], separator: str, required: Sequence[str]) -> None:
    """Says so where the columns are there, but between other separators; which decimals go with them is not guessed."""
    if all(matching(header, column) for column in required):
        return
    first, *rest = head.splitlines()
    for other, words in SEPARATORS.items():
        fields = next(csv.reader([first], delimiter=other), [])
        if other == separator or not (
            all(matching(fields, column) for column in required) or (len(header) == 1 and len(fields) > 1)
        ):
            continue
        between, written = re.escape(other), repr(other)
        commas = other != "," and re.search(rf"(?m)(?:^|{between})-?\d+,\d+\s*(?:{between}|$)", "\n".join(rest))
        found = f"{words} between its columns{' and decimal commas in its numbers' if commas else ''}"
        options = f"--separator {written}" + (" --decimal ','" if commas else "")
        raise Problem(f"{name} has {found}; read it with {options}")


class _Pieces:
    """What is kept of the pieces of a text: labels as numbers, so that ten million of them are small."""

    def __init__(self, places: Mapping[str, int]) -> None:
        self.places = places
        self.kept: dict[str, list[Any]] = {role: [] for role in places}
        self.rows: list[Any] = []
        self.codes: dict[str, dict[str, int]] = {role: {} for role in LABELS}

    def add(self, piece: Any) -> None:
        """Takes what is needed from a piece, without its empty rows."""
        empty = piece[self.places["arm"]].isna()
        if empty.any():
            empty &= piece[empty].isna().all(axis=1).reindex(piece.index, fill_value=False)
            piece = piece[~empty]
        self.rows.append(piece.index + FIRST_TEXT_ROW)
        for role, place in self.places.items():
            self.kept[role].append(self._encode(role, piece[place]) if role in LABELS else piece[place])

    def _encode(self, role: str, column: Any) -> Any:
        import pandas as pd

        known = self.codes[role]
        codes, labels = pd.factorize(column)
        table = np.array([*(known.setdefault(str(label), len(known)) for label in labels), -1], np.int32)
        return table[codes]  # a missing label is -1, and so the last

    def join(self) -> Any:
        """All pieces as one frame."""
        import pandas as pd

        rows = self.rows[0].append(self.rows[1:]) if self.rows else pd.RangeIndex(0)
        columns = {}
        for role, kept in self.kept.items():
            if role in LABELS:
                codes = np.concatenate(kept) if kept else np.zeros(0, np.int32)
                columns[role] = pd.Categorical.from_codes(codes, categories=pd.Index(list(self.codes[role]), dtype=object))
            else:
                columns[role] = pd.concat(kept).array if kept else np.zeros(0)
            kept.clear()
        return pd.DataFrame(columns, index=rows, copy=False)


def _read_pieces(text: Text, width: int, separator: str, decimal: str, pieces: _Pieces) -> None:
    import pandas as pd

    version = tuple(map(int, pd.__version__.split(".")[:2]))
    exact: dict[str, Any] = {} if version >= (3, 1) else {"float_precision": "round_trip"}  # since 3.1 it always is
    options: dict[str, Any] = {
        "sep": separator,
        "decimal": decimal,
        "header": 0,
        "names": range(width),  # by place, as pandas renames columns that have the same name
        "index_col": False,  # or a row that is too long would shift all columns
        "dtype": {pieces.places[role]: str for role in LABELS if role in pieces.places},
        "skip_blank_lines": False,  # they count in row numbers
        "keep_default_na": False,  # "NA" may be a label, and messages show what was there
        "na_values": [""],
        "low_memory": False,
        "chunksize": ROWS,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # the first row is too long
        with pd.read_csv(text, **options, **exact) as reader:  # pyright: ignore
            for piece in reader:
                pieces.add(piece)


def _parser_problem(error: Exception, name: str, width: int) -> Problem:
    """What pandas says about a text, in our words."""
    if isinstance(error, Problem):
        return error
    said = str(error)
    if isinstance(error, Warning):
        said = "line 2, saw too many"
    if found := re.search(r"line (\d+), saw ([\w ]+)", said):
        row, fields = found.groups()
        return Problem(f"{name}: row {row} has {fields} fields; allowed: {width}, as many as row 1 has")
    if found := re.search(r"EOF inside string starting at row (\d+)", said):
        return Problem(f"{name}: a quotation mark opens in row {int(found[1]) + 1} and never closes; allowed: marks in pairs")
    return Problem(f"{name} is not a table that can be read ({shown(' '.join(said.split()))}); allowed: CSV or TSV")


def read_parquet(source: Source, renames: Mapping[str, str]) -> Table:
    """Parquet; only the columns that are needed are read."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise ImportError("reading Parquet needs pyarrow; it comes with pip install 'jaxbias[cli]'") from error
    try:
        source.file.seek(0)
        schema = pq.read_schema(source.file)
        places, notes = find_columns(source.name, schema.names, renames)
        written = {role: schema.names[place] for role, place in places.items()}
        for role, column in written.items():
            if pa.types.is_nested(schema.types[places[role]]):
                kind = shown(str(schema.types[places[role]]))
                raise Problem(f"{source.name}: column {shown(column)} is of type {kind}; allowed: one value in each row")
        dictionaries = [column for role, column in written.items() if role in LABELS]
        source.file.seek(0)
        file = pq.ParquetFile(source.file, read_dictionary=dictionaries)
        frame = file.read(columns=list(written.values())).to_pandas(ignore_metadata=True, split_blocks=True, self_destruct=True)
    except Problem:
        raise
    except (pa.ArrowException, ValueError, OSError) as error:
        raise Problem(f"{source.name} is a damaged Parquet file, or not one; allowed: a whole one") from error
    table = _by_role(source.name, frame[list(written.values())], written, notes)
    return table._replace(keeps_order=pa.types.is_dictionary(schema.types[places["arm"]]))


def read_frame(frame: Any, renames: Mapping[str, str]) -> Table:
    """A data frame; an index that has a name is a column too."""
    name = "the data frame"
    if frame.index.nlevels == 1 and frame.index.name is not None and frame.index.name not in frame.columns:
        frame = frame.reset_index()
    header = [str(column) for column in frame.columns]
    places, notes = find_columns(name, header, renames)
    written = {role: header[place] for role, place in places.items()}
    return _by_role(name, frame.iloc[:, list(places.values())], written, notes)


def _by_role(name: str, frame: Any, written: dict[str, str], notes: list[str]) -> Table:
    import pandas as pd

    frame = frame.set_axis(list(written), axis=1).reset_index(drop=True)
    keeps_order = isinstance(frame["arm"].dtype, pd.CategoricalDtype)
    for role in LABELS:
        if role in frame and not isinstance(frame[role].dtype, pd.CategoricalDtype):
            try:
                codes, labels = pd.factorize(frame[role])
            except TypeError as error:
                value = frame[role].iloc[0]
                allowed = "one label in each row"
                raise Problem(f"{name}: column {shown(written[role])} in row 0 is {shown(value)}; allowed: {allowed}") from error
            frame[role] = pd.Categorical.from_codes(codes, categories=pd.Index(labels, dtype=object))
    return Table(name, frame, written, keeps_order, notes)
