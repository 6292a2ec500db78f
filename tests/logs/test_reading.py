"""Logs in and out: files nobody here wrote, odd logs that are right, logs that are wrong, and the way there and back."""

import gzip
import io
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import jaxbias as jb
from jaxbias._core.errors import ArgumentError
from jaxbias.logs import Log, files, read_log, to_arviz, write_log
from jaxbias.logs.delimited import ROWS
from jaxbias.logs.errors import LogError, library_name
from jaxbias.logs.notes import Note, NoteKind
from jaxbias.reporting.log_notes import describe_note
from tests.logs.malformed import GOOD, MALFORMED

LOGS = Path(__file__).parent
FRAME = pd.DataFrame({"arm": ["red", "blue", "red"], "reward": [0.1 + 0.2, -1e-300, 2.0]})


def read(text: str | bytes, **options) -> Log:
    return read_log(io.BytesIO(text.encode() if isinstance(text, str) else text), **options)


def summary(log: Log):
    return log.labels, log.history.arms.tolist(), log.history.rewards.tolist()


def assert_frame(log: Log) -> None:
    assert summary(log) == (("blue", "red"), [1, 0, 1], FRAME["reward"].tolist())
    assert log.history.arms.dtype == np.int32
    assert log.history.rewards.dtype == np.float64
    assert (log.history.num_arms, log.history.forced, log.propensity, log.batch, log.notes) == (2, None, None, None, ())


# Files nobody here wrote


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".txt"])
@pytest.mark.parametrize("index", [False, True])
def test_text_that_pandas_wrote(tmp_path, suffix, index):
    FRAME.to_csv(tmp_path / f"log{suffix}", index=index)
    assert_frame(read_log(tmp_path / f"log{suffix}"))
    assert read_log(str(tmp_path / f"log{suffix}")).name == f"log{suffix}"


@pytest.mark.parametrize("options", [{}, {"index": False}, {"row_group_size": 1}, {"compression": "gzip"}])
def test_parquet_that_pandas_wrote(tmp_path, options):
    FRAME.to_parquet(tmp_path / "log.parquet", **options)
    assert_frame(read_log(tmp_path / "log.parquet"))
    assert_frame(read_log((tmp_path / "log.parquet").rename(tmp_path / "log.csv")))  # told by its first bytes


def test_tabs_that_pandas_wrote(tmp_path):
    for name in ("log.tsv", "log.tsv.gz"):
        FRAME.to_csv(tmp_path / name, sep="\t", index=False)
        assert_frame(read_log(tmp_path / name))


def test_data_frames():
    assert_frame(read_log(FRAME))
    assert_frame(read_log(FRAME.astype({"reward": object})))
    assert_frame(read_log(FRAME.convert_dtypes(dtype_backend="pyarrow")))
    assert_frame(read_log(FRAME.rename(columns={"arm": 7, "reward": "x"}), columns={"arm": "7", "reward": "x"}))
    assert read_log(FRAME).name == "the data frame"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("r_plain.csv", {}),
        ("r_row_names.csv", {}),
        ("r_tabs.tsv", {}),
        ("r_semicolons.csv", {"separator": ";", "decimal": ","}),
    ],
)
def test_what_r_wrote(name, options):
    log = read_log(LOGS / name, **options)
    assert summary(log) == (("blue", 'dark, "red"', "red"), [0, 2, 0, 1], [0.3, -1e-20, 1e5, 2.0])
    assert log.history.forced.tolist() == [True, False, False, False]
    np.testing.assert_array_equal(log.propensity, [np.nan, 0.5, 0.333333333333333, 1])
    assert (log.batch.tolist(), log.notes) == ([0, 1, 1, 100000], ())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("r_missing_reward.csv", "column 'reward' in row 4 is 'NA'; it must be a finite number"),
        ("r_short_header.csv", "row 2 has too many fields; row 1 has 5"),
    ],
)
def test_what_r_wrote_and_cannot_be_used(name, message):
    with pytest.raises(ValueError, match=r"^") as caught:
        read_log(LOGS / name)
    assert str(caught.value) == f"{LOGS / name}: {message}"


EXCEL = "arm,reward\r\nred,0.5\r\nblau grün,2\r\n"


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (EXCEL.encode("utf-8-sig"), {}),
        (EXCEL.replace(",", "\t").encode("utf-16"), {"separator": "\t"}),
        (EXCEL.replace(",", "\t").encode("utf-16"), {"separator": "\\t"}),
        (b"\xfe\xff" + EXCEL.encode("utf-16-be"), {}),
        (EXCEL.replace(",", ";").replace("0.5", "0,5").encode("utf-8-sig"), {"separator": ";", "decimal": ","}),
        (EXCEL.replace("0.5", '"0,5"').encode("utf-8-sig"), {"decimal": ","}),
        (EXCEL.replace("\r\n", "\r").encode(), {}),
        (EXCEL.strip().encode(), {}),
    ],
)
def test_what_excel_writes(content, options):
    assert summary(read(content, **options)) == (("blau grün", "red"), [1, 0], [0.5, 2.0])


# Logs with something wrong in them


@pytest.mark.parametrize("case", MALFORMED, ids=lambda case: case.id)
def test_malformed(case, tmp_path):
    path = case.make(tmp_path)
    with pytest.raises(ValueError, match=r"^") as caught:
        read_log(path, **case.options)
    assert isinstance(caught.value, ArgumentError)
    assert str(caught.value) == case.message_for(path, library_name)
    assert str(caught.value).isprintable()
    assert "--" not in str(caught.value)  # options are the command line's


def test_an_error_knows_its_column_and_value():
    with pytest.raises(LogError) as caught:
        read("arm,reward,forced\na,1,1\nb,2,maybe\n")
    error = caught.value
    assert (error.argument, error.value) == ("columns.forced", "maybe")
    options = {"columns.forced": "--forced-column"}
    assert error.describe(lambda argument: options[argument]).endswith("; to ignore this column, set --forced-column to ''")
    assert str(error).endswith("; to ignore this column, set columns['forced'] to ''")


def test_file_without_permission(tmp_path, monkeypatch):
    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ValueError, match=r"^log.csv cannot be read \(Permission denied\); it must be a CSV"):
        read_log("log.csv")


@pytest.mark.parametrize("source", [3, None, b"log.csv", "", "a\0b", ["log.csv"]])
def test_sources_that_are_none(source):
    with pytest.raises(ValueError, match=r"^source is .*; it must be a path, '-', an open file or a data frame$"):
        read_log(source)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"columns": {"arms": "x"}},
            "columns has the key 'arms'; the keys it may have are arm, reward, batch, propensity, time, forced, trial, "
            "seen_at, policy_reward, weights",
        ),
        ({"columns": {"arm": ""}}, "columns['arm'] is empty; it must be the name of a column"),
        ({"arms": []}, "arms is []; it must be a list of labels, all different"),
        ({"arms": "ab"}, "arms is 'ab'; it must be a list of labels, all different"),
        ({"first": True}, "first is True; it must be an integer, 1 or more"),
        ({"first": 1.5}, "first is 1.5; it must be an integer, 1 or more"),
    ],
)
def test_options_that_are_wrong(options, message, unchecked):
    with pytest.raises(ValueError, match=r"^") as caught:
        read(GOOD, **options)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"arm": ["a", None], "reward": [1, 2]}, "column 'arm' in row 1 is empty; it must be a label"),
        ({"arm": ["a", "b"], "reward": [1, None]}, "column 'reward' in row 1 is empty; it must be a finite number"),
        ({"arm": ["a", "b"], "reward": [1, [2]]}, "column 'reward' in row 1 is [2]; it must be a finite number"),
        ({"arm": ["a", "b"], "reward": [1, 2j]}, "column 'reward' in row 1 is 2j; it must be a finite number"),
        (
            {"arm": ["a", "b"], "reward": [1, 10**5000]},
            "column 'reward' in row 1 is a number too long to show; it must be a finite number",
        ),
        ({"arm": [["a"], ["b"]], "reward": [1, 2]}, "column 'arm' in row 0 is ['a']; it must be a single label"),
    ],
)
def test_data_frames_that_are_wrong(frame, message):
    frame = pd.DataFrame(frame, dtype=object, index=[5, 6])
    with pytest.raises(ValueError, match=r"^") as caught:
        read_log(frame)
    assert str(caught.value) == f"the data frame: {message}"


def test_bad_value_far_into_a_log_is_found_in_its_row():
    rows = ROWS + 10
    text = "arm,reward\n" + "a,1\n" * rows + "\n" + "a,x\n" + "a,1\n" * 5 + "a,\n"
    with pytest.raises(ValueError, match=f"column 'reward' in row {rows + 3} is 'x'; .*; 1 other row has the same problem$"):
        read(text)


# Notes


@pytest.mark.parametrize(
    ("kind", "values", "sentence"),
    [
        (NoteKind.COLUMN_MATCHED, {"column": " Reward", "name": "reward"}, "Column ' Reward' was read as 'reward'."),
        (NoteKind.EMPTY_ROWS_SKIPPED, {"count": 1}, "1 empty row was skipped."),
        (NoteKind.EMPTY_ROWS_SKIPPED, {"count": 2000}, "2,000 empty rows were skipped."),
        (NoteKind.BLANKS_REMOVED, {"count": 1}, "Blanks around 1 label were removed."),
        (NoteKind.UNUSED_CATEGORIES, {"count": 1}, "1 category has no rows and was left out of the arms."),
        (NoteKind.UNUSED_CATEGORIES, {"count": 2}, "2 categories have no rows and were left out of the arms."),
        (
            NoteKind.LABELS_DIFFER_IN_CASE,
            {"labels": ("Red", "red")},
            "Labels 'Red', 'red' differ only in letter case; they were read as different arms.",
        ),
        (
            NoteKind.LABELS_ALIKE,
            {"labels": ("A", "A\u200b")},
            r"Labels 'A', 'A\u200b' are almost the same; they were read as different arms.",
        ),
        (
            NoteKind.GROUPED_BY_ARM,
            {"rows": 72},
            "The 72 rows have all pulls of one arm, then all of the next, and no column time. If the log was sorted by arm, "
            "put its rows back in the order of the pulls: the corrections depend on it.",
        ),
        (NoteKind.REWARDS_FROM_BOOLEANS, {"count": 3}, "3 rewards were true or false; true was read as 1 and false as 0."),
        (NoteKind.ROWS_SORTED, {"column": "time"}, "The rows were sorted by column 'time'."),
        (NoteKind.FEWER_ROWS, {"rows": 2, "first": 9}, "The log has 2 rows, fewer than the first 9."),
    ],
)
def test_sentences_of_notes(kind, values, sentence):
    assert describe_note(Note(kind, values)) == sentence


# Logs that are odd, and right


def test_one_row():
    assert summary(read("arm,reward\na,1\n")) == (("a",), [0], [1.0])


@pytest.mark.parametrize(
    "label", ["a,b", 'say "a"', "grün 🎲", "<script>alert(1)</script>", "=1+1", "[red]", "-", "None of it", "0x1"]
)
def test_any_label(label, tmp_path):
    frame = pd.DataFrame({"arm": [label, "zz"], "reward": [1.0, 2.0]})
    frame.to_csv(tmp_path / "log.csv", index=False)
    frame.to_parquet(tmp_path / "log.parquet")
    for source in (frame, tmp_path / "log.csv", tmp_path / "log.parquet"):
        assert sorted(read_log(source).labels) == sorted((label, "zz"))
        assert read_log(source, arms=["zz", label]).history.arms.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("written", "labels", "arms"),
    [
        (["10", "9", "-1"], ("-1", "9", "10"), [2, 1, 0]),
        (["10.0", "9.0", "9"], ("9", "10"), [1, 0, 0]),
        (["0.5", "0.25", "1"], ("0.25", "0.5", "1"), [1, 0, 2]),
        (["010", "9", "01"], ("01", "9", "010"), [2, 1, 0]),
        (["10", "9", "b"], ("10", "9", "b"), [0, 1, 2]),
        (["1e3", "9", "10"], ("9", "10", "1e3"), [2, 0, 1]),
        (["true", "false", "true"], ("false", "true"), [1, 0, 1]),
    ],
)
def test_order_of_arms(written, labels, arms):
    log = read("arm,reward\n" + "".join(f"{label},1\n" for label in written))
    assert (log.labels, log.history.arms.tolist()) == (labels, arms)


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        ([2, 1, 10], ("1", "2", "10")),
        ([2.0, 1.0, 10.0], ("1", "2", "10")),
        ([True, False, True], ("False", "True")),
        ([b"y", b"x", b"y"], ("x", "y")),
        (pd.Categorical(["lo", "hi", "lo"], categories=["lo", "hi"]), ("lo", "hi")),
    ],
)
def test_order_of_arms_in_frames(column, labels, tmp_path):
    frame = pd.DataFrame({"arm": column, "reward": [0.0, 0.0, 0.0]})
    assert read_log(frame).labels == labels
    frame.to_parquet(tmp_path / "log.parquet")
    assert read_log(tmp_path / "log.parquet").labels == labels


def test_categories_without_rows_are_no_arms():
    column = pd.Categorical(["b", "a"], categories=["c", "b", "a"])
    log = read_log(pd.DataFrame({"arm": column, "reward": [1, 2]}))
    assert (log.labels, log.notes) == (("b", "a"), (Note(NoteKind.UNUSED_CATEGORIES, {"count": 1}),))
    assert read_log(pd.DataFrame({"arm": column, "reward": [1, 2]}), arms=["c", "b", "a"]).history.num_arms == 3


def test_labels_are_what_is_given():
    assert read("arm,reward\n1.0,1\n", arms=["1.0", "control"]).labels == ("1.0", "control")
    assert read("arm,reward\n1.0,1\n", arms=["1", "2"]).labels == ("1", "2")
    assert summary(read("arm,reward\nNA,1\nx,2\n", arms=["x", "NA", "y"])) == (("x", "NA", "y"), [1, 0], [1.0, 2.0])


def test_blanks_and_letter_case_in_labels():
    log = read("arm,reward\n red,1\nred ,2\nred,3\nRed,4\n")
    assert summary(log) == (("Red", "red"), [1, 1, 1, 0], [1.0, 2.0, 3.0, 4.0])
    assert log.notes == (
        Note(NoteKind.BLANKS_REMOVED, {"count": 2}),
        Note(NoteKind.LABELS_DIFFER_IN_CASE, {"labels": ("Red", "red")}),
    )


@pytest.mark.parametrize(
    "labels",
    [("A", "A\u200b"), ("e\u0301", "\xe9"), ("01", "1"), ("a  b", "a b"), ("1.50", "1.5"), ("\uff21", "A")],
    ids=["no width", "accent", "zero", "blanks", "zeros", "wide letter"],
)
def test_labels_that_look_alike_are_noted(labels):
    log = read("arm,reward\n" + "".join(f"{label},1\nother,0\n" for label in labels))
    assert set(labels) < set(log.labels)
    assert [(note.kind, set(note.values["labels"])) for note in log.notes] == [(NoteKind.LABELS_ALIKE, set(labels))]


def test_large_numbers_that_differ_are_not_alike():
    assert read(f"arm,reward\n{10**30},1\n{10**30 + 1},0\n{'9' * 400},1\n1e999,1\n").notes == ()


def test_rows_that_were_sorted_by_arm_are_noted():
    """The order of the rows is the order of the pulls; a table that was sorted by arm has lost it."""
    grouped = "arm,reward\na,1\na,0\na,1\nb,0\nb,1\n"
    assert read(grouped).notes == (Note(NoteKind.GROUPED_BY_ARM, {"rows": 5}),)
    assert read("arm,reward\na,1\nb,0\nb,1\nb,1\n").notes == ()  # greedy from its first choice on
    assert read("arm,reward\na,1\na,0\n").notes == ()
    assert read("arm,reward,time\na,1,1\na,0,2\nb,1,3\nb,0,4\n").notes == ()
    assert read("arm,reward,batch\na,1,1\na,0,1\nb,1,1\nb,0,1\n").notes == ()


@pytest.mark.parametrize("path", ["https://example.com/log.csv", "s3://bucket/log.csv", "FILE:///tmp/log.csv"])
def test_an_address_is_no_file(path):
    with pytest.raises(LogError, match="is an address on the network; download it and give the path of the file, or -"):
        jb.read_log(path)


def test_standard_input_that_is_closed_is_empty(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(LogError, match=r"^standard input is empty"):
        jb.read_log("-")


def test_names_of_columns():
    log = read("ARM , Reward,arm\nx,1,a\ny,2,b\n")
    assert (log.labels, log.notes) == (("a", "b"), (Note(NoteKind.COLUMN_MATCHED, {"column": " Reward", "name": "reward"}),))
    log = read("ARM , Reward,arm\nx,1,a\ny,2,b\n", columns={"arm": "ARM "})
    assert log.labels == ("x", "y")


@pytest.mark.parametrize("name", ["time", "step", "TIME"])
@pytest.mark.parametrize(
    "times",
    [
        ["3", "1", "1", "2"],
        ["0.3", "-1e3", "-1e3", "2e-1"],
        ["2024-02-01", "2024-01-30", "2024-01-30", "2024-01-31"],
        ["2024-01-31T12:00:00+01:00", "2024-01-31 10:30", "2024-01-31 10:30", "2024-01-31T10:45:00Z"],
        ["1700000000000000003", "1700000000000000001", "1700000000000000001", "1700000000000000002"],
    ],
)
def test_order_of_time(name, times):
    text = f"arm,reward,{name}\n" + "".join(
        f"{arm},{place},{time}\n" for place, (arm, time) in enumerate(zip("abca", times, strict=True))
    )
    log = read(text)
    assert log.history.rewards.tolist() == [1, 2, 3, 0]
    assert log.notes[-1] == Note(NoteKind.ROWS_SORTED, {"column": name})
    assert read(text, first=2).history.rewards.tolist() == [1, 2]
    assert read(text, columns={"time": ""}).history.rewards.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "times",
    [
        pd.DatetimeIndex(["2024-02-01", "2024-01-01"], tz="Europe/Berlin"),
        pd.to_timedelta([2, 1], "s"),
        pd.DatetimeIndex(["2024-02-01", "2024-01-01"]).date,
        pd.Categorical([2, 1]),
        pd.array([2, 1], "Int64"),
    ],
)
def test_order_of_time_in_frames(times):
    frame = pd.DataFrame({"arm": ["a", "b"], "reward": [1.0, 2.0], "time": times})
    assert read_log(frame).history.rewards.tolist() == [2.0, 1.0]
    assert read_log(frame.set_index("time")).history.rewards.tolist() == [2.0, 1.0]


def test_rows_in_order_have_no_note():
    assert read("arm,reward,time\na,1,1\na,2,1\na,3,2\n").notes == ()


def test_rows_of_the_same_time_stay_as_they_are():
    log = read("arm,reward,time\n" + "".join(f"a,{row},{1 - row % 2}\n" for row in range(1000)))
    assert log.history.rewards.tolist() == [*range(1, 1000, 2), *range(0, 1000, 2)]


def test_time_goes_before_step():
    assert read("arm,reward,step,time\na,1,1,2\na,2,2,1\n").history.rewards.tolist() == [2, 1]


def test_trial():
    text = "trial,step,arm,reward\n1,1,b,1\n0,0,a,2\n1,0,a,3\n"
    for trial in ("1", 1, 1.0):
        assert summary(read(text, trial=trial)) == (("a", "b"), [0, 1], [3.0, 1.0])
    assert summary(read(text, trial="0")) == (("a",), [0], [2.0])
    assert summary(read("trial,arm,reward\nx,a,1\nx,b,2\n")) == (("a", "b"), [0, 1], [1.0, 2.0])


def test_first():
    assert summary(read(GOOD, first=1)) == (("a",), [0], [1.0])
    assert summary(read(GOOD, first=1, arms=["a", "b"])) == (("a", "b"), [0], [1.0])
    assert read(GOOD, first=9).notes == (Note(NoteKind.FEWER_ROWS, {"rows": 2, "first": 9}),)


@pytest.mark.parametrize("words", [("true", "false"), ("TRUE", "FALSE"), ("True", "False"), ("TRUE", "0"), ("1", "False")])
def test_truths(words):
    log = read("arm,reward,forced\n" + "".join(f"a,{word},{word}\n" for word in words))
    assert log.history.rewards.tolist() == [1.0, 0.0]
    assert log.history.forced.tolist() == [True, False]
    assert log.notes == (Note(NoteKind.REWARDS_FROM_BOOLEANS, {"count": sum(word.isalpha() for word in words)}),)


def test_propensity_may_be_missing_where_a_pull_was_forced():
    rows = "arm,reward,propensity,forced\na,1,,1\nb,2,NA,true\na,3,0.25,0\na,4,,1\n"
    np.testing.assert_array_equal(read(rows).propensity, [np.nan, np.nan, 0.25, np.nan])
    rows = "arm,reward,propensity\na,1,\nb,2,\na,3,1\n"
    np.testing.assert_array_equal(read(rows).propensity, [np.nan, np.nan, 1])


def test_batch():
    log = read("arm,reward,batch\na,1,0\na,2,0.0\na,3,7\n")
    assert log.batch.tolist() == [0, 0, 7]
    assert log.batch.dtype == np.int64


def test_empty_rows():
    assert read("arm,reward\na,1\n\n,\n").notes == ()
    assert read("arm,reward\n\na,1\n,\nb,2\n\n").notes == (Note(NoteKind.EMPTY_ROWS_SKIPPED, {"count": 2}),)
    with pytest.raises(ValueError, match="column 'arm' in row 3 is empty"):
        read("arm,reward,user\na,1,x\n,,y\n")


def test_fields_that_are_empty_and_too_many():
    assert summary(read("arm,reward\na,1,\nb,2,\n")) == (("a", "b"), [0, 1], [1.0, 2.0])


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_standard_input(monkeypatch, pack):
    stream = types.SimpleNamespace(buffer=io.BytesIO(pack(GOOD)))
    monkeypatch.setattr(sys, "stdin", stream)
    log = read_log("-")
    assert (summary(log), log.name) == ((("a", "b"), [0, 1], [1.0, 2.0]), "standard input")


def test_parquet_in_standard_input(monkeypatch):
    stream = io.BytesIO()
    FRAME.to_parquet(stream)
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(stream.getvalue())))
    assert_frame(read_log("-"))


def test_open_files(tmp_path):
    (tmp_path / "log.csv").write_bytes(GOOD)
    for mode in ("r", "rb"):
        with (tmp_path / "log.csv").open(mode) as file:
            log = read_log(file)
        assert (log.labels, log.name) == (("a", "b"), "log.csv")
    assert read_log(io.StringIO(GOOD.decode())).name == "the open file"


def test_gzip_is_told_by_its_first_bytes(tmp_path):
    (tmp_path / "log.csv").write_bytes(gzip.compress(GOOD))
    (tmp_path / "log.csv.gz").write_bytes(GOOD)
    assert read_log(tmp_path / "log.csv").labels == read_log(tmp_path / "log.csv.gz").labels == ("a", "b")


def test_letters_cut_between_blocks():
    text = "arm,reward\n" + "é🎲,1\n" * 100_000
    assert summary(read(text))[0] == ("é🎲",)


def test_reading_leaves_the_frame_alone():
    frame = FRAME.assign(time=[2, 1, 0])
    log = read_log(frame)
    log.history.rewards[:] = 7
    pd.testing.assert_frame_equal(frame, FRAME.assign(time=[2, 1, 0]))


# There and back


def hard_rewards(shape):
    """Numbers of every size, with all their bits."""
    bits = np.random.default_rng(0).integers(0, 2**64, np.prod(shape), np.uint64).view(np.float64)
    special = np.array([0.1 + 0.2, 5e-324, np.finfo(float).max, np.finfo(float).tiny, -0.0, 1 / 3])
    return np.where(np.isfinite(bits), bits, np.resize(special, bits.shape)).reshape(shape)


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet"])
@pytest.mark.parametrize("labels", [None, ["x", "o,;\"'", "ü"]])
def test_there_and_back_is_the_same_bits(tmp_path, suffix, labels):
    history = jb.History(arms=np.arange(3000) * 7 % 3, rewards=hard_rewards(3000), num_arms=3)
    write_log(history, tmp_path / f"log{suffix}", labels)
    log = read_log(tmp_path / f"log{suffix}", arms=labels)
    assert log.labels == tuple(labels or ("0", "1", "2"))
    np.testing.assert_array_equal(log.history.arms, history.arms)
    np.testing.assert_array_equal(log.history.rewards.view(np.int64), history.rewards.view(np.int64))
    assert log.notes == ()


@pytest.mark.parametrize("label", ["=1+1", "+cmd|' /C calc'!A0", "-2", "@SUM(A1)", "\t=1"])
def test_labels_that_a_spreadsheet_takes_for_formulas_are_written_as_they_are(label, tmp_path):
    """A log is data to be read back, and a changed label would be another arm; `write_log` says so."""
    history = jb.History(arms=np.array([0, 1, 0]), rewards=np.array([1.0, 2.0, 3.0]), num_arms=2)
    write_log(history, tmp_path / "log.csv", labels=[label, "plain"])
    assert set(read_log(tmp_path / "log.csv").labels) == {label.strip(), "plain"}


def test_trials_there_and_back(tmp_path):
    history = jb.History(arms=np.array([[0, 1], [1, 0]]), rewards=hard_rewards((2, 2)), num_arms=2)
    write_log(history, tmp_path / "log.csv")
    assert (tmp_path / "log.csv").read_text().splitlines()[0] == "trial,step,arm,reward"
    for trial in range(2):
        log = read_log(tmp_path / "log.csv", trial=trial)
        assert log.history.arms.tolist() == history.arms[trial].tolist()
        assert log.history.rewards.tolist() == history.rewards[trial].tolist()


def test_one_history_has_no_column_of_trials(tmp_path):
    write_log(jb.History(arms=np.array([1]), rewards=np.array([2.5]), num_arms=2), tmp_path / "log.tsv", ["a", "b"])
    assert (tmp_path / "log.tsv").read_bytes() == b"step\tarm\treward\n0\tb\t2.5\n"


def test_same_log_is_the_same_bytes_with_the_rights_of_a_new_file(tmp_path):
    history = jb.History(arms=np.array([1, 0]), rewards=np.array([2.5, 1]), num_arms=2)
    for name in ("one.csv.gz", "two.csv.gz"):
        write_log(history, tmp_path / name)
    (tmp_path / "new").touch()
    content = (tmp_path / "one.csv.gz").read_bytes()
    assert content == (tmp_path / "two.csv.gz").read_bytes()
    assert content[3:8] == bytes(5)  # no name and no time in the head of the archive
    assert (tmp_path / "one.csv.gz").stat().st_mode == (tmp_path / "new").stat().st_mode


def test_log_that_cannot_be_finished_leaves_the_old_one(tmp_path, monkeypatch):
    def fail(*arguments, **options):
        raise OSError("No space left on device")

    (tmp_path / "log.csv").write_text("old")
    monkeypatch.setattr(pd.DataFrame, "to_csv", fail)
    with pytest.raises(OSError, match="No space left"):
        write_log(jb.History(arms=np.array([0]), rewards=np.array([1.0]), num_arms=1), tmp_path / "log.csv")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("log.csv", "old")]


def test_what_cannot_be_written(tmp_path):
    history = jb.History(arms=np.array([0, 1]), rewards=np.array([1.0, 2.0]), num_arms=2)
    with pytest.raises(
        ValueError, match=r"^out is '.*log.xlsx'; it must be a file that ends in .csv, .csv.gz, .tsv, .tsv.gz, .parquet$"
    ):
        write_log(history, tmp_path / "log.xlsx")
    for labels in (["a"], ["a", "a"]):
        with pytest.raises(ValueError, match=r"^labels is \['a'.*; it must be 2 different labels, one for each arm$"):
            write_log(history, tmp_path / "log.csv", labels)


# Size


@pytest.mark.slow
def test_ten_million_rows(tmp_path):
    rows = 10_000_000
    arms = np.arange(rows, dtype=np.int8) % 5
    column = pd.Categorical.from_codes(arms, categories=["e", "d", "c", "b", "a"])
    rewards = np.arange(rows) / 7
    pd.DataFrame({"arm": column, "reward": rewards}).to_parquet(tmp_path / "log.parquet", index=False, compression=None)
    log = read_log(tmp_path / "log.parquet")
    assert log.labels == ("e", "d", "c", "b", "a")
    np.testing.assert_array_equal(log.history.arms, arms)
    np.testing.assert_array_equal(log.history.rewards, rewards)


def test_a_million_rows_of_text():
    rows = 4 * ROWS
    text = "arm,reward\n" + "red,0.1\nblue,-2.5\n" * (rows // 2)
    log = read(text)
    assert log.labels == ("blue", "red")
    assert log.history.rewards[:: rows - 1].tolist() == [0.1, -2.5]
    assert log.history.arms.sum() == rows // 2


# ArviZ


@pytest.fixture
def arviz():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # before 1.0 it warns of 1.0
        return pytest.importorskip("arviz")


def test_arviz(arviz):
    rewards = np.random.default_rng(0).standard_normal((4, 100, 3))
    data = to_arviz({"rewards": rewards, "total": rewards.sum(-1)}, {"diverging": np.zeros((4, 100), bool)})
    assert data["posterior"]["rewards"].dims == ("chain", "draw", "rewards_dim_0")
    np.testing.assert_array_equal(data["posterior"]["rewards"], rewards)
    assert data["posterior"]["total"].dims == data["sample_stats"]["diverging"].dims == ("chain", "draw")
    assert "sample_stats" not in to_arviz({"rewards": rewards})


@pytest.mark.parametrize("old", [True, False])
def test_both_ways_of_arviz(monkeypatch, old):
    before = lambda posterior=None, *, sample_stats=None: ("InferenceData", posterior, sample_stats)
    since = lambda data, *, name=None: ("DataTree", data["posterior"], data["sample_stats"])
    monkeypatch.setitem(sys.modules, "arviz", types.SimpleNamespace(from_dict=before if old else since))
    kind, samples, stats = to_arviz({"x": [[1.0, 2.0]]}, {"diverging": [[False, True]]})
    assert kind == ("InferenceData" if old else "DataTree")
    assert (samples["x"].tolist(), stats["diverging"].tolist()) == ([[1.0, 2.0]], [[False, True]])


def test_without_arviz(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"^to_arviz needs ArviZ; install it with pip install arviz$"):
        to_arviz({"rewards": np.zeros((2, 3))})


@pytest.mark.parametrize(
    ("samples", "stats", "message"),
    [
        ({"x": np.zeros(3)}, None, r"samples\['x'\] has shape \(3,\); it must have shape \(chains, draws, ...\)"),
        (
            {"x": np.zeros((2, 3))},
            {"y": np.zeros((2, 4))},
            r"samples and sample_stats have shapes \(chains, draws\) .*; all arrays must have the same, .*",
        ),
        ({}, None, r"samples and sample_stats have shapes \(chains, draws\) \[\]; .*"),
    ],
)
def test_samples_of_the_wrong_shape(samples, stats, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        to_arviz(samples, stats)


@pytest.mark.parametrize("damaged", [False, True], ids=["whole", "damaged"])
def test_a_file_that_is_written_to_while_it_is_read(damaged, tmp_path, monkeypatch):
    """A row is added, or half of one: neither a log nor a complaint about the half."""
    path = tmp_path / "log.csv"
    path.write_text("arm,reward\na,1\nb,0\n")
    read, more = files.Text.read, ['"a' if damaged else "a,1\n"]

    def read_and_write(text, size=-1):
        found = read(text, size)
        if found and more:  # once: a file that grows with every look has no end
            with path.open("a") as file:
                file.write(more.pop())
        return found

    monkeypatch.setattr(files.Text, "read", read_and_write)
    with pytest.raises(LogError, match=r"log.csv was changed while it was read; copy it and read the copy, or try again when"):
        jb.read_log(path)
    monkeypatch.undo()
    path.write_text("arm,reward\na,1\nb,0\n")
    assert jb.read_log(path).history.num_steps == 2
