"""The labels of arms and trials: any text, without the blanks around it."""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxbias.io.checking import MISSING, is_number, refuse
from jaxbias.io.tables import Table
from jaxbias.io.words import Problem, listed, shown

LONGEST = 1000  # characters in a label: what is longer is a quotation mark that did not close
CONTROL = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029]")  # likewise; and terminals obey them


def check_arms(arms: Sequence[Any] | None) -> list[str] | None:
    """The labels that were given for the arms."""
    if arms is None:
        return None
    labels = [] if isinstance(arms, str) else _without_zeros([as_label(arm) for arm in arms])
    if not labels or "" in labels or len(set(labels)) != len(labels):
        given = shown(arms) if isinstance(arms, str) else listed(map(shown, arms))
        raise Problem(f"arms is {given}; allowed: labels that differ")
    return labels


def as_label(value: Any) -> str:
    """How a value of a log is written as a label.

    >>> as_label(" red "), as_label(1.0), as_label(1.5), as_label(True)
    ('red', '1', '1.5', 'True')
    """
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace").strip()
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


def _without_zeros(labels: list[str]) -> list[str]:
    """Where every label is a number, 1.0 is 1: it is what pandas makes of whole numbers when one is missing."""
    if not all(is_number(label) for label in labels):
        return labels
    return [re.sub(r"\.0*$", "", label) for label in labels]


def read_arms(table: Table, arms: list[str] | None) -> tuple[np.ndarray, tuple[str, ...]]:
    """The number of each pull's arm, and the labels by number."""
    codes, values = _used(table.frame["arm"])
    written = [as_label(value) for value in values]
    blanks = sum(isinstance(value, str) and value != label for value, label in zip(values, written, strict=True))
    found = _without_zeros(written) if arms is None or all(map(is_number, arms)) else written

    def refuse_labels(test: Callable[[str], bool], allowed: str) -> None:
        refuse(table, "arm", np.isin(codes, [code for code, label in enumerate(found) if test(label)]), allowed)

    given = frozenset(arms or ())
    refuse(table, "arm", codes < 0, "a label")
    refuse_labels(lambda label: label == "", "a label")
    refuse_labels(lambda label: label in MISSING and label not in given, "a label; --arm says that this is one")
    refuse_labels(lambda label: len(label) > LONGEST, f"a label of at most {LONGEST} characters")
    refuse_labels(lambda label: CONTROL.search(label) is not None, "a label in one line, without control characters")
    if arms is not None:
        refuse_labels(lambda label: label not in given, f"{listed(arms)}, the labels given with --arm")
    labels = arms or _in_order(found, table.keeps_order)
    unused = len(table.frame["arm"].cat.categories) - len(values) if table.keeps_order and arms is None else 0
    table.notes.extend(_label_notes(blanks, unused, labels))
    number = {label: arm for arm, label in enumerate(labels)}
    return np.array([number[label] for label in found], np.int32)[codes], tuple(labels)


def _used(column: Any) -> tuple[np.ndarray, list[Any]]:
    """Which of the values that occur each row has, -1 where it has none, and these values."""
    codes = column.cat.codes.to_numpy()
    used = np.unique(codes[codes >= 0])
    places = np.full(len(column.cat.categories) + 1, -1, np.int32)
    places[used] = np.arange(len(used), dtype=np.int32)
    return places[codes], column.cat.categories[used].tolist()


def _in_order(found: list[str], keeps_order: bool) -> list[str]:
    """Categories as they come, numbers by value, other labels as text."""
    labels = list(dict.fromkeys(found))
    if keeps_order:
        return labels
    if all(is_number(label) for label in labels):
        return sorted(labels, key=lambda label: (float(label), label))
    return sorted(labels)


def _label_notes(blanks: int, unused: int, labels: list[str]) -> list[str]:
    notes = [f"Blanks around {blanks:,} {'label' if blanks == 1 else 'labels'} were removed."] if blanks else []
    if unused:
        notes.append(f"{unused:,} {'category' if unused == 1 else 'categories'} without rows did not become arms.")
    alike = defaultdict(list)
    for label in labels:
        alike[label.casefold()].append(label)
    groups = [group for group in alike.values() if len(group) > 1]
    return notes + [f"Labels {listed(map(shown, group))} differ in letter case alone and are different arms." for group in groups]


def choose_trial(table: Table, trial: Any) -> Table:
    """The rows of one trial."""
    if "trial" not in table.frame:
        if trial is not None:
            allowed = f"none, as {table.name} has no column 'trial'; name it with --trial-column"
            raise Problem(f"trial is {shown(trial)}; allowed: {allowed}")
        return table
    codes, values = _used(table.frame["trial"])
    refuse(table, "trial", codes < 0, "a trial")
    found = _without_zeros([as_label(value) for value in values])
    trials = list(dict.fromkeys(found))
    column = shown(table.written["trial"])
    if trial is None and len(trials) > 1:
        several = f"{table.name} has {len(trials):,} trials in column {column}"
        raise Problem(f"{several}; allowed: one; choose it with --trial, as in --trial {shown(trials[0])}")
    wanted = trials[0] if trial is None else as_label(trial)
    if wanted not in trials:
        raise Problem(f"trial is {shown(trial)}; allowed: one of column {column} in {table.name}: {listed(trials)}")
    chosen = np.isin(codes, [code for code, label in enumerate(found) if label == wanted])
    return table if chosen.all() else table._replace(frame=table.frame[chosen])
