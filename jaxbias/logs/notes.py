"""What reading a log decided, as values; `jaxbias.reporting.log_notes` has the sentences."""

import enum
from typing import Any, NamedTuple


class NoteKind(enum.StrEnum):
    """What was decided; beside each, the values of its note."""

    COLUMN_MATCHED = "column_matched"  # column, name: the column was read as the one called `name`
    EMPTY_ROWS_SKIPPED = "empty_rows_skipped"  # count
    BLANKS_REMOVED = "blanks_removed"  # count: labels that had blanks around them
    UNUSED_CATEGORIES = "unused_categories"  # count: categories without rows, which are not arms
    LABELS_DIFFER_IN_CASE = "labels_differ_in_case"  # labels: different arms
    LABELS_ALIKE = "labels_alike"  # labels: different arms, but for characters that do not show, blanks, or zeros of a number
    GROUPED_BY_ARM = "grouped_by_arm"  # rows: all pulls of one arm, then all of the next, in rows without a time
    REWARDS_FROM_BOOLEANS = "rewards_from_booleans"  # count: true or false, read as 1 and 0
    ROWS_SORTED = "rows_sorted"  # column: of the times
    BATCHES_BY = "batches_by"  # unit, count: batches made of the times
    COUNTS_READ = "counts_read"  # pulls, periods
    ONE_PERIOD = "one_period"  # pulls: counts without periods
    WEIGHTS_NOT_READ = "weights_not_read"  # columns: named like weights, but of no arm
    WEIGHTS_SAY_CHOSEN = "weights_say_chosen"  # count: first pulls that count as choices, as they have weights
    NEVER_SEEN = "never_seen"  # count: rewards that never arrived while arms were chosen
    IDS_REPEAT = "ids_repeat"  # column, ids, rows: a column that looks like users repeats, and no cluster was named
    FEWER_ROWS = "fewer_rows"  # rows, first: the log has fewer rows than were asked for


class Note(NamedTuple):
    """One decision.

    >>> Note(NoteKind.ROWS_SORTED, {"column": "time"}).values["column"]
    'time'
    """

    kind: NoteKind
    values: dict[str, Any]
