"""The columns of CSV, TSV and the like."""

import csv
import io
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxbias._core.errors import Words
from jaxbias.logs.columns import LABELS, Columns
from jaxbias.logs.errors import LogError, quote
from jaxbias.logs.files import RawFile, Text
from jaxbias.logs.header import Finder, positions
from jaxbias.logs.notes import Note, NoteKind
from jaxbias.logs.unused import LOOKED_AT, unused_columns

SEPARATORS = {";": "semicolons", "\t": "tabs", ",": "commas", "|": "vertical bars"}
ROWS = 250_000  # parsed at once, so that the unused columns of a long log do not fill the memory
NAMES_NEEDED = "the names of the columns, such as arm and reward"
ROWS_NEEDED = "a row of column names, and one row for each pull below it"
FIRST_ROW = 2  # as in a spreadsheet, where the column names are row 1


def read_text(file: RawFile, wanted: Finder, separator: str, decimal: str) -> Columns:
    """The needed columns of a text, which is parsed piece by piece."""
    head = Text(file).read()
    header = _read_header(file.name, head, separator)
    _check_separator(file.name, head, header, separator, wanted.required)
    places, notes = wanted.find(file.name, header)
    pieces = _Pieces(places)
    try:
        _read_pieces(Text(file), len(header), separator, decimal, pieces)
    except (ValueError, Warning) as error:
        raise _parser_error(error, file.name, len(header)) from error
    frame = pieces.join()
    skipped = int(frame.index[-1]) + 1 - FIRST_ROW - len(frame) if len(frame) else 0  # empty rows at the end are not counted
    notes += [Note(NoteKind.EMPTY_ROWS_SKIPPED, {"count": skipped})] if skipped else []
    names = {role: header[place] for role, place in places.items()}
    unused = () if pieces.head is None else unused_columns(pieces.head, header, list(places.values()))
    return Columns(file.name, frame, names, arms_are_ordered=False, notes=notes, unused=unused)


def _read_header(name: str, head: str, separator: str) -> list[str]:
    if not head.strip():
        raise LogError(subject=name, problem="is empty", remedy=f"it must have {ROWS_NEEDED}")
    try:
        header = next(csv.reader(io.StringIO(head, newline=""), delimiter=separator))
    except csv.Error as error:
        raise LogError(subject=f"{name}: row 1", problem="cannot be read", remedy=f"it must have {NAMES_NEEDED}") from error
    if not any(field.strip() for field in header):
        raise LogError(subject=f"{name}: row 1", problem="is empty", remedy=f"it must have {NAMES_NEEDED}")
    return header


def _check_separator(name: str, head: str, header: Sequence[str], separator: str, required: Sequence[str]) -> None:
    """Refuses a text whose columns have another separator, and says which; nothing is guessed silently."""
    if all(positions(header, column) for column in required):
        return
    first, *rest = head.splitlines()
    for other, words in SEPARATORS.items():
        fields = next(csv.reader([first], delimiter=other), [])
        if other == separator or not (
            all(positions(fields, column) for column in required) or (len(header) == 1 and len(fields) > 1)
        ):
            continue
        between = re.escape(other)
        commas = other != "," and re.search(rf"(?m)(?:^|{between})-?\d+,\d+\s*(?:{between}|$)", "\n".join(rest))
        found = f"{words} between its columns{' and decimal commas in its numbers' if commas else ''}"
        raise LogError("separator", separator, subject=name, problem=f"has {found}", remedy=_set_marks(other, bool(commas)))


def _set_marks(separator: str, commas: bool) -> Words:
    decimal = lambda name_of: f" and {name_of('decimal')} to ','" if commas else ""
    return lambda name_of: f"set {name_of('separator')} to {separator!r}{decimal(name_of)}"


class _Pieces:
    """The needed columns of the pieces read so far; labels are kept as numbers, to save memory."""

    def __init__(self, places: Mapping[str, int]) -> None:
        self.places = places
        self.kept: dict[str, list[Any]] = {role: [] for role in places}
        self.rows: list[Any] = []
        self.codes: dict[str, dict[str, int]] = {role: {} for role in LABELS}
        self.head: Any = None  # the first rows, with all columns

    def add(self, piece: Any) -> None:
        """Keeps the needed columns of a piece, without its empty rows."""
        if self.head is None:
            self.head = piece.iloc[:LOOKED_AT].copy()
        empty = piece[self.places["arm"]].isna()
        if empty.any():
            empty &= piece[empty].isna().all(axis=1).reindex(piece.index, fill_value=False)
            piece = piece[~empty]
        self.rows.append(piece.index + FIRST_ROW)
        for role, place in self.places.items():
            self.kept[role].append(self._encode(role, piece[place]) if role in LABELS else piece[place])

    def _encode(self, role: str, column: Any) -> Any:
        import pandas as pd

        known = self.codes[role]
        codes, labels = pd.factorize(column)
        numbers = np.array([*(known.setdefault(str(label), len(known)) for label in labels), -1], np.int32)
        return numbers[codes]  # the code of a missing label is -1, and so picks the last

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
    exact: dict[str, Any] = {} if version >= (3, 1) else {"float_precision": "round_trip"}  # the default since 3.1
    options: dict[str, Any] = {
        "sep": separator,
        "decimal": decimal,
        "header": 0,
        "names": range(width),  # by position, because pandas renames duplicate names
        "index_col": False,  # otherwise a row that is too long shifts all columns
        "dtype": {pieces.places[role]: str for role in LABELS if role in pieces.places},
        "skip_blank_lines": False,  # they count in row numbers
        "keep_default_na": False,  # "NA" may be a label, and messages show what was there
        "na_values": [""],
        "low_memory": False,
        "chunksize": ROWS,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # raised where the first row is too long
        with pd.read_csv(text, **options, **exact) as reader:  # pyright: ignore
            for piece in reader:
                pieces.add(piece)


def _parser_error(error: Exception, name: str, width: int) -> LogError:
    """What pandas reports about a text, as one of our errors; pandas has no other way to tell than its sentences."""
    if isinstance(error, LogError):
        return error
    said = str(error)
    if isinstance(error, Warning):
        said = "line 2, saw too many"
    if found := re.search(r"line (\d+), saw ([\w ]+)", said):
        row, fields = found.groups()
        return LogError(subject=f"{name}: row {row}", problem=f"has {fields} fields", remedy=f"row 1 has {width}")
    if found := re.search(r"EOF inside string starting at row (\d+)", said):
        row = int(found[1]) + 1
        return LogError(subject=f"{name}: row {row}", problem="has a quotation mark that is never closed")
    return LogError(subject=name, problem=f"cannot be parsed ({quote(' '.join(said.split()))})", allowed="CSV or TSV")
