"""The labels of arms and trials: any text, without blanks around it."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from jaxbias._core.errors import ArgumentError, Words
from jaxbias.logs.columns import Columns
from jaxbias.logs.errors import LogError, join_names, quote
from jaxbias.logs.notes import Note, NoteKind
from jaxbias.logs.numbers import MISSING, is_number
from jaxbias.logs.values import refuse_rows

LONGEST = 1000  # characters in a label: beyond, a quotation mark was probably not closed
CONTROL = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029]")  # likewise, and a terminal would obey them


def check_arms(arms: Sequence[Any] | None) -> list[str] | None:
    """The labels given for the arms."""
    if arms is None:
        return None
    labels = [] if isinstance(arms, str) else _without_zeros([as_label(arm) for arm in arms])
    if not labels or "" in labels or len(set(labels)) != len(labels):
        raise ArgumentError("arms", arms if isinstance(arms, str) else list(arms), "a list of labels, all different")
    return labels


def as_label(value: Any) -> str:
    """A value of a log as a label.

    >>> as_label(" red "), as_label(1.0), as_label(1.5), as_label(True)
    ('red', '1', '1.5', 'True')
    """
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace").strip()
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


def _without_zeros(labels: list[str]) -> list[str]:
    """If every label is a number, 1.0 becomes 1: pandas writes integers so when one is missing."""
    if not all(is_number(label) for label in labels):
        return labels
    return [re.sub(r"\.0*$", "", label) for label in labels]


def read_arms(columns: Columns, arms: list[str] | None) -> tuple[np.ndarray, tuple[str, ...]]:
    """The number of each pull's arm, and the labels by number."""
    codes, values = _used(columns.frame["arm"])
    written = [as_label(value) for value in values]
    blanks = sum(isinstance(value, str) and value != label for value, label in zip(values, written, strict=True))
    found = _without_zeros(written) if arms is None or all(map(is_number, arms)) else written

    def refuse_labels(test: Callable[[str], bool], allowed: Words, remedy: Words = "") -> None:
        wrong = np.isin(codes, [code for code, label in enumerate(found) if test(label)])
        refuse_rows(columns, "arm", wrong, allowed, remedy)

    given = frozenset(arms or ())
    refuse_rows(columns, "arm", codes < 0, "a label")
    refuse_labels(lambda label: label == "", "a label")
    is_label = lambda name_of: f"if this is a label, give all labels with {name_of('arms')}"
    refuse_labels(lambda label: label in MISSING and label not in given, "a label", is_label)
    refuse_labels(lambda label: len(label) > LONGEST, f"a label of at most {LONGEST} characters")
    refuse_labels(lambda label: CONTROL.search(label) is not None, "a label on one line, without control characters")
    if arms is not None:
        refuse_labels(lambda label: label not in given, lambda name_of: f"one of {name_of('arms')}: {join_names(arms)}")
    labels = arms or _in_order(found, columns.arms_are_ordered)
    unused = len(columns.frame["arm"].cat.categories) - len(values) if columns.arms_are_ordered and arms is None else 0
    columns.notes.extend(_label_notes(blanks, unused, labels))
    number = {label: arm for arm, label in enumerate(labels)}
    return np.array([number[label] for label in found], np.int32)[codes], tuple(labels)


def _used(column: Any) -> tuple[np.ndarray, list[Any]]:
    """The values that occur, and which of them each row has (-1 where it has none)."""
    codes = column.cat.codes.to_numpy()
    used = np.unique(codes[codes >= 0])
    places = np.full(len(column.cat.categories) + 1, -1, np.int32)
    places[used] = np.arange(len(used), dtype=np.int32)
    return places[codes], column.cat.categories[used].tolist()


def _in_order(found: list[str], arms_are_ordered: bool) -> list[str]:
    """Categories in their order, numbers by value, other labels alphabetically."""
    labels = list(dict.fromkeys(found))
    if arms_are_ordered:
        return labels
    if all(is_number(label) for label in labels):
        return sorted(labels, key=lambda label: (float(label), label))
    return sorted(labels)


def _label_notes(blanks: int, unused: int, labels: list[str]) -> list[Note]:
    notes = [Note(NoteKind.BLANKS_REMOVED, {"count": blanks})] if blanks else []
    notes += [Note(NoteKind.UNUSED_CATEGORIES, {"count": unused})] if unused else []
    alike = defaultdict(list)
    for label in labels:
        alike[_look(label)].append(label)
    for group in alike.values():
        if len(group) > 1:
            only_case = len({label.casefold() for label in group}) == 1
            kind = NoteKind.LABELS_DIFFER_IN_CASE if only_case else NoteKind.LABELS_ALIKE
            notes.append(Note(kind, {"labels": tuple(group)}))
    return notes


def _look(label: str) -> Any:
    """What a reader sees of a label: in one letter case, accents composed, without characters of no width; a number by its value.

    >>> _look("A\u200b  b") == _look("a b"), _look("e\u0301") == _look("\xe9"), _look("01") == _look("1")
    (True, True, True)
    """
    if label.isascii():
        is_plain = is_number(label) and label.lstrip("+-").replace(".", "").isdigit()  # exact, with any number of digits
        return Decimal(label) if is_plain else " ".join(label.split()).casefold()
    shown = "".join(char for char in unicodedata.normalize("NFKC", label) if unicodedata.category(char) != "Cf")
    return " ".join(shown.split()).casefold()


def choose_trial(columns: Columns, trial: Any) -> Columns:
    """The rows of one trial."""
    if "trial" not in columns.frame:
        if trial is not None:
            problem = f"is {quote(trial)}, but {columns.file} has no column 'trial'"
            raise LogError("trial", trial, problem=problem, remedy=lambda name_of: f"name it with {name_of('columns.trial')}")
        return columns
    codes, values = _used(columns.frame["trial"])
    refuse_rows(columns, "trial", codes < 0, "the label of a trial")
    found = _without_zeros([as_label(value) for value in values])
    trials = list(dict.fromkeys(found))
    column = quote(columns.names["trial"])
    if trial is None and len(trials) > 1:
        choose = lambda name_of: f"choose one with {name_of('trial')}, such as {quote(trials[0])}"
        problem = f"has {len(trials):,} trials in column {column}"
        raise LogError("trial", trial, subject=columns.file, problem=problem, remedy=choose)
    wanted = trials[0] if trial is None else as_label(trial)
    if wanted not in trials:
        allowed = f"one of the trials in column {column} of {columns.file}: {join_names(trials)}"
        raise LogError("trial", trial, allowed, problem=f"is {quote(trial)}")
    chosen = np.isin(codes, [code for code, label in enumerate(found) if label == wanted])
    return columns if chosen.all() else columns._replace(frame=columns.frame[chosen])
