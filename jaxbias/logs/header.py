"""Which column of a log holds what."""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from jaxbias._core.errors import NameOf
from jaxbias.logs.errors import LogError, join_names, quote
from jaxbias.logs.notes import Note, NoteKind

REQUIRED = ("arm", "reward")
OPTIONAL = ("batch", "propensity", "time", "forced", "trial", "seen_at", "policy_reward")
NEEDED_OF_COUNTS = ("arm", "pulls", "sum", "successes")  # one of the last two
OPTIONAL_OF_COUNTS = ("squares", "period", "forced", "trial", "weight")
WEIGHTS = "weights"  # the key for how the names of columns of weights begin: p_A, p_B, ...
PREFIX = "p_"
WEIGHT_OF = "weight of "  # how the role of such a column begins; the rest of its name follows
SYNONYMS = {  # in exports of counts; blanks and dashes are read as underscores
    "pulls": (
        *("users", "impressions", "visitors", "visits", "sessions", "views", "exposures", "samples", "participants"),
        *("n", "count", "num_pulls"),
    ),
    "sum": ("total", "reward", "rewards", "revenue", "reward_sum", "sum_reward", "sum_rewards", "total_reward"),
    "successes": ("conversions", "clicks", "success", "converted", "purchases", "orders", "signups"),
    "squares": ("sum_of_squares", "sum_squares", "sumsq", "sum_sq", "sum_of_squared_rewards"),
    "period": ("date", "day", "week", "month", "hour", "batch", "time", "step"),
    "weight": ("propensity", "allocation_probability"),
}
UNUSED = "unused "  # begins the role of a column that has none
CLUSTER_NAMES = (  # of columns whose repeated values are the same person or thing; blanks and dashes are read as underscores
    *("user", "user_id", "userid", "visitor_id", "customer", "customer_id", "patient", "patient_id", "participant"),
    *("participant_id", "subject", "subject_id", "account", "account_id", "cookie", "device_id", "client_id", "member_id"),
)
OTHER_NAMES = {"reward": "sum", "batch": "period", "time": "period"}  # of roles, where a log of pulls has the first


@runtime_checkable
class Finder(Protocol):
    """Finds the columns of a file by its header."""

    @property
    def required(self) -> list[str]:
        """The names without which it is no such file."""
        ...

    def find(self, file: str, header: Sequence[str]) -> tuple[dict[str, int], list[Note]]:
        """The position of each column, and notes."""
        ...


class Wanted(NamedTuple):
    """Which columns are looked for.

    Fields:
        renames: names given for columns, by role.
        counts: whether the rows are counts; None where nobody said, so that columns which suggest it are kept too.
        unused: whether to find the columns that have no role, too, each with the role of `UNUSED` and its name.
    """

    renames: Mapping[str, str]
    counts: bool | None = None
    unused: bool = False

    @property
    def required(self) -> list[str]:
        """The names without which it is no such log."""
        return [self.renames.get(role, role) for role in (("arm",) if self.counts else REQUIRED)]

    def find(self, file: str, header: Sequence[str]) -> tuple[dict[str, int], list[Note]]:
        """The position of each column, and notes."""
        if self.counts:
            found, notes = find_count_columns(file, header, self.renames)
        else:
            found, notes = find_columns(file, header, self.renames)
            found |= find_suspects(header, found) if self.counts is None else {}
        found |= find_weight_columns(file, header, self.renames.get(WEIGHTS, PREFIX), found)
        if self.unused:
            places = [place for place, name in enumerate(header) if name.strip() and place not in found.values()]
            found |= {UNUSED + header[place]: place for place in places}
        return found, notes


def check_renames(columns: Mapping[str, str] | None, counts: bool = False) -> dict[str, str]:
    """The names given for columns, by role."""
    columns = dict(columns or {})
    if counts:
        columns = {OTHER_NAMES.get(role, role): name for role, name in columns.items()}
    allowed = (*(NEEDED_OF_COUNTS + OPTIONAL_OF_COUNTS if counts else REQUIRED + OPTIONAL), WEIGHTS)
    for role, name in columns.items():
        if role in NEEDED_OF_COUNTS + OPTIONAL_OF_COUNTS and role not in allowed:
            remedy = lambda name_of: f"give {name_of('counts')} if a row is what an arm got in a period"
            raise LogError(f"columns.{role}", name, problem=f"is {quote(name)}, and the log is not read as counts", remedy=remedy)
        if role not in allowed:
            known = join_names(allowed)
            raise LogError("columns", columns, problem=f"has the key {quote(role)}", remedy=f"the keys it may have are {known}")
        if not isinstance(name, str) or (name == "" and role in REQUIRED + NEEDED_OF_COUNTS):
            raise LogError(f"columns.{role}", name, "the name of a column", problem=f"is {quote(name)}")
    return columns


def find_columns(file: str, header: Sequence[str], renames: Mapping[str, str]) -> tuple[dict[str, int], list[Note]]:
    """The position of each column, and notes.

    A column is found by its exact name, or else without blanks around it and in any letter case.
    """
    found, notes = {}, []
    for role in (*REQUIRED, *OPTIONAL, *(["cluster"] if "cluster" in renames else [])):
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


def find_count_columns(file: str, header: Sequence[str], renames: Mapping[str, str]) -> tuple[dict[str, int], list[Note]]:
    """The position of each column of counts, and notes: by its name, or else by a synonym."""
    found, notes = {}, []
    for role in NEEDED_OF_COUNTS + OPTIONAL_OF_COUNTS:
        name = renames.get(role, role)
        matches = positions(header, name) if name else []
        if not matches and role not in renames:
            matches = synonym_positions(header, role)
        other = {"sum": "successes", "successes": "sum"}.get(role)
        if other in renames and role not in renames:
            continue
        if len(matches) > 1:
            raise _ambiguous(file, [header[match] for match in matches], role)
        if matches:
            found[role] = matches[0]
            column = header[matches[0]]
            notes += [Note(NoteKind.COLUMN_MATCHED, {"column": column, "name": name})] if column != name else []
        elif (role in renames and name) or role == "arm":
            raise _absent(file, header, role, name, counts=True)
    _check_count_columns(file, header, found)
    _refuse_shared(file, header, found)
    return found, notes


def find_weight_columns(file: str, header: Sequence[str], prefix: str, used: Mapping[str, int]) -> dict[str, int]:
    """The columns whose names begin like those of weights, by role; none where the beginning is empty."""
    found: dict[str, int] = {}
    for place, column in enumerate(header):
        name = column.strip()
        if not prefix or place in used.values() or not name.casefold().startswith(prefix.casefold()) or name == prefix:
            continue
        role = WEIGHT_OF + name[len(prefix) :]
        if role in found:
            raise _ambiguous(file, [header[found[role]], column], WEIGHTS)
        found[role] = place
    return found


def _check_count_columns(file: str, header: Sequence[str], found: Mapping[str, int]) -> None:
    """One column of pulls, and one of sums or of successes."""
    listed = f"its columns are {join_names(filter(str.strip, header))}"
    rows = lambda name: f"name it with {name('columns.pulls')}, or if each row is one pull, leave out {name('counts')}"
    if "pulls" not in found:
        raise LogError("columns.pulls", subject=file, problem=f"has no column 'pulls'; {listed}", remedy=rows)
    both = lambda name: f"choose one with {name('columns.successes')} or {name('columns.sum')}"
    if "sum" in found and "successes" in found:
        columns = f"successes in column {quote(header[found['successes']])} and sums in column {quote(header[found['sum']])}"
        raise LogError("columns.sum", subject=file, problem=f"has {columns}", remedy=both)
    if "sum" not in found and "successes" not in found:
        problem = f"has no column 'successes' and no column 'sum'; {listed}"
        raise LogError("columns.successes", subject=file, problem=problem, remedy=both)


def synonym_positions(header: Sequence[str], role: str) -> list[int]:
    """Where the header has another word for a column of counts."""
    plain = [re.sub(r"[ \-]+", "_", column.strip().casefold()) for column in header]
    return [place for place, column in enumerate(plain) if column in SYNONYMS.get(role, ())]


def find_suspects(header: Sequence[str], used: Mapping[str, int]) -> dict[str, int]:
    """Columns that a log of pulls has no use for and counts have: pulls, and periods where there is no batch or time."""
    suspects = {}
    pulls = [*positions(header, "pulls"), *synonym_positions(header, "pulls")]
    free = [place for place in pulls if place not in used.values()]
    if free:
        suspects["suspect_pulls"] = free[0]
    periods = [*positions(header, "period"), *synonym_positions(header, "period")]
    free = [place for place in periods if place not in used.values()]
    if free and not {"batch", "time"} & set(used):
        suspects["suspect_period"] = free[0]
    written = [re.sub(r"[\s-]+", "_", column.strip().casefold()) for column in header]
    free = [place for place, name in enumerate(written) if name in CLUSTER_NAMES and place not in used.values()]
    if free and "cluster" not in used:
        suspects["suspect_cluster"] = free[0]
    return suspects


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


def _absent(file: str, header: Sequence[str], role: str, wanted: str, counts: bool = False) -> LogError:
    pulls = [] if counts else [*positions(header, "pulls"), *synonym_positions(header, "pulls")]

    def remedy(name: NameOf) -> str:
        choose = f"choose one of them with {name(role if role == 'cluster' else f'columns.{role}')}"
        if pulls and role == "reward":
            return f"if {quote(header[pulls[0]])} counts pulls, give {name('counts')}, or {choose}"
        if pulls and role == "arm" and not positions(header, "reward"):
            return f"{choose}, and if {quote(header[pulls[0]])} counts pulls, give {name('counts')} too"
        return choose

    return LogError(
        role if role == "cluster" else f"columns.{role}",
        wanted,
        subject=file,
        problem=f"has no column {quote(wanted)}; its columns are {join_names(filter(str.strip, header))}",
        remedy=remedy,
    )
