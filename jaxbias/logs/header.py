"""Which column of a log holds what."""

import itertools
from collections.abc import Mapping, Sequence

from jaxbias.logs.errors import LogError, join_names, quote
from jaxbias.logs.notes import Note, NoteKind

REQUIRED = ("arm", "reward")
OPTIONAL = ("batch", "propensity", "time", "forced", "trial")


def check_renames(columns: Mapping[str, str] | None) -> dict[str, str]:
    """The names given for columns, by role."""
    columns = dict(columns or {})
    for role, name in columns.items():
        if role not in REQUIRED + OPTIONAL:
            known = join_names(REQUIRED + OPTIONAL)
            raise LogError("columns", columns, problem=f"has the key {quote(role)}", remedy=f"the keys it may have are {known}")
        if not isinstance(name, str) or (name == "" and role in REQUIRED):
            raise LogError(f"columns.{role}", name, "the name of a column", problem=f"is {quote(name)}")
    return columns


def find_columns(file: str, header: Sequence[str], renames: Mapping[str, str]) -> tuple[dict[str, int], list[Note]]:
    """The position of each column, and notes.

    A column is found by its exact name, or else without blanks around it and in any letter case.
    """
    found, notes = {}, []
    for role in REQUIRED + OPTIONAL:
        name = renames.get(role, role)
        matches = positions(header, name) if name else []
        if not matches and role == "time" and role not in renames:
            matches = positions(header, name := "step")
        if len(matches) > 1:
            raise _ambiguous(file, [header[match] for match in matches], role)
        if matches:
            found[role] = matches[0]
            column = header[matches[0]]
            notes += [Note(NoteKind.COLUMN_MATCHED, {"column": column, "name": name})] if column != name else []
        elif role in REQUIRED or (role in renames and name):
            raise _absent(file, header, role, name)
    _refuse_shared(file, header, found)
    return found, notes


def positions(header: Sequence[str], name: str) -> list[int]:
    """Where a name is in the header."""
    exact = [place for place, column in enumerate(header) if column == name]
    return exact or [place for place, column in enumerate(header) if column.strip().casefold() == name.strip().casefold()]


def _refuse_shared(file: str, header: Sequence[str], found: Mapping[str, int]) -> None:
    for role, other in itertools.combinations(found, 2):
        if found[role] == found[other]:
            raise _shared(file, header[found[role]], role, other)


def _shared(file: str, column: str, role: str, other: str) -> LogError:
    return LogError(
        f"columns.{role}",
        column,
        subject=f"{file}: column {quote(column)}",
        problem=f"is used for {role} and for {other}",
        remedy=lambda name: f"change {name(f'columns.{role}')} or {name(f'columns.{other}')}",
    )


def _ambiguous(file: str, matches: list[str], role: str) -> LogError:
    if len(set(matches)) == 1:
        return LogError(subject=file, problem=f"has {len(matches)} columns named {quote(matches[0])}", remedy="keep one of them")
    several = join_names(map(quote, matches))
    return LogError(
        f"columns.{role}",
        subject=file,
        problem=f"has several columns for {role!r}: {several}",
        remedy=lambda name: f"choose one with {name(f'columns.{role}')}",
    )


def _absent(file: str, header: Sequence[str], role: str, wanted: str) -> LogError:
    return LogError(
        f"columns.{role}",
        wanted,
        subject=file,
        problem=f"has no column {quote(wanted)}; its columns are {join_names(filter(str.strip, header))}",
        remedy=lambda name: f"choose one of them with {name(f'columns.{role}')}",
    )
