"""Which column of a log is which."""

from collections.abc import Mapping, Sequence

from jaxbias.io.words import Problem, listed, shown

REQUIRED = ("arm", "reward")
OPTIONAL = ("batch", "propensity", "time", "forced", "trial")


def check_renames(columns: Mapping[str, str] | None) -> dict[str, str]:
    """The names that were given for columns, by what they are."""
    columns = dict(columns or {})
    for role, name in columns.items():
        if role not in REQUIRED + OPTIONAL:
            raise Problem(f"columns has {shown(role)}; allowed: {listed(REQUIRED + OPTIONAL)}")
        if not isinstance(name, str) or (name == "" and role in REQUIRED):
            raise Problem(f"{option(role)} is {shown(name)}; allowed: the name of a column")
    return columns


def option(role: str) -> str:
    """The option of the command line that names this column."""
    return f"--{role}-column"


def find_columns(name: str, header: Sequence[str], renames: Mapping[str, str]) -> tuple[dict[str, int], list[str]]:
    """Where each column is: its exact name, or else the name without blanks around it and in any letter case; and notes."""
    found, notes = {}, []
    for role in REQUIRED + OPTIONAL:
        wanted = renames.get(role, role)
        matches = matching(header, wanted) if wanted else []
        if not matches and role == "time" and role not in renames:
            matches = matching(header, wanted := "step")
        if len(matches) > 1:
            raise _ambiguous(name, [header[match] for match in matches], role)
        if matches:
            found[role] = matches[0]
            written = header[matches[0]]
            notes += [f"Column {shown(written)} was read as {shown(wanted)}."] if written != wanted else []
        elif role in REQUIRED or (role in renames and wanted):
            raise _absent(name, header, role, wanted, role in renames)
    for role, place in found.items():
        shared = [other for other in found if found[other] == place and other != role]
        if shared:
            raise Problem(f"column {shown(header[place])} of {name} is named as {role} and as {shared[0]}; allowed: one of them")
    return found, notes


def matching(header: Sequence[str], wanted: str) -> list[int]:
    """The places of a name in the header."""
    exact = [place for place, name in enumerate(header) if name == wanted]
    return exact or [place for place, name in enumerate(header) if name.strip().casefold() == wanted.strip().casefold()]


def _ambiguous(name: str, matches: list[str], role: str) -> Problem:
    if len(set(matches)) == 1:
        return Problem(f"{name} has {len(matches)} columns {shown(matches[0])}; allowed: one")
    several = listed(shown(match) for match in matches)
    return Problem(f"{name} has several columns for {role!r}: {several}; allowed: one; name it with {option(role)}")


def _absent(name: str, header: Sequence[str], role: str, wanted: str, renamed: bool) -> Problem:
    has = f"{name} has no column {shown(wanted)}; it has: {listed(filter(str.strip, header))}"
    return Problem(f"{has}; allowed with {option(role)}: one of them" if renamed else f"{has}; name it with {option(role)}")
