"""Logged weights: in columns of the log, in a second file by period, with counts; and what is wrong with them."""

import io
import re

import numpy as np
import pandas as pd
import pytest

import jaxbias as jb
from jaxbias.logs.errors import LogError, library_name
from jaxbias.logs.notes import NoteKind
from jaxbias.reporting.log_notes import describe_note
from tests.logs.malformed_weights import CASES

FRAME = pd.DataFrame(
    {
        "arm": ["A", "B", "A", "B"],
        "reward": [1.0, 0.5, 0.0, 1.5],
        "p_A": [np.nan, np.nan, 0.25, 0.4],
        "p_B": [np.nan, np.nan, 0.75, 0.6],
    }
)
BATCHES = pd.DataFrame({"arm": list("ABABAB"), "reward": [1.0, 0.5, 0.0, 1.5, 2.0, 1.0], "batch": [1, 1, 2, 2, 7, 7]})
BY_PERIOD = pd.DataFrame({"period": [1, 2, 7], "A": [0.5, 0.3, 0.2], "B": [0.5, 0.7, 0.8]})
WEIGHTS = [[0.5, 0.5], [0.3, 0.7], [0.2, 0.8]]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_malformed(case, tmp_path):
    _, content, second, options, message = case
    (tmp_path / "log.csv").write_bytes(content)
    if second is not None:
        options = {**options, "weights": tmp_path / "weights.csv"}
        if isinstance(second, bytes):
            (tmp_path / "weights.csv").write_bytes(second)
    with pytest.raises(LogError) as caught:
        jb.read_log(tmp_path / "log.csv", **options)
    expected = re.sub("<([a-z._]+)>", lambda found: library_name(found[1]), message)
    expected = expected.replace("{name}", str(tmp_path / "log.csv")).replace("{weights}", str(tmp_path / "weights.csv"))
    assert str(caught.value) == expected


def test_columns_of_the_log(tmp_path):
    FRAME.to_csv(tmp_path / "log.csv", index=False)
    FRAME.to_parquet(tmp_path / "log.parquet", index=False)
    for source in (FRAME, tmp_path / "log.csv", tmp_path / "log.parquet"):
        log = jb.read_log(source)
        np.testing.assert_array_equal(log.weights, FRAME[["p_A", "p_B"]])
        np.testing.assert_array_equal(log.recorded, log.weights)
        assert (log.history.forced.tolist(), log.notes) == ([True, True, False, False], ())


def test_rows_keep_their_weights_when_they_are_sorted():
    log = jb.read_log(FRAME.assign(time=[1, 2, 4, 3]))
    assert log.weights[2:].tolist() == [[0.4, 0.6], [0.25, 0.75]]
    assert jb.read_log(FRAME.assign(time=[1, 2, 4, 3]), first=3).weights.shape == (3, 2)


def test_names_of_the_columns():
    renamed = FRAME.rename(columns={"p_A": "PROB_a", "p_B": "prob_B"})
    assert jb.read_log(renamed).weights is None
    assert jb.read_log(renamed, columns={"weights": "prob_"}).weights[2].tolist() == [0.25, 0.75]
    assert jb.read_log(FRAME, columns={"weights": ""}).weights is None
    numbers = FRAME.assign(arm=[1.0, 2.0, 1.0, 2.0]).rename(columns={"p_A": "p_1", "p_B": "p_2"})
    assert jb.read_log(numbers).weights[2].tolist() == [0.25, 0.75]
    unpulled = FRAME.assign(p_C=[np.nan, np.nan, 0.0, 0.0])
    assert jb.read_log(unpulled, arms=["A", "B", "C"]).weights.shape == (4, 3)
    other = jb.read_log(FRAME.rename(columns={"p_A": "p_value", "p_B": "p_other"}))
    assert (other.weights, other.notes[0].kind) == (None, NoteKind.WEIGHTS_NOT_READ)
    assert "'p_value', 'p_other' were not read as weights" in describe_note(other.notes[0])
    assert jb.read_log(FRAME.drop(columns="p_B").rename(columns={"p_A": "p_value"})).notes == ()


def test_weights_with_few_digits_are_scaled_to_sum_to_one():
    log = jb.read_log(FRAME.assign(p_A=[0.333] * 4, p_B=[0.6665] * 4))
    np.testing.assert_allclose(log.weights.sum(axis=1), 1, rtol=1e-12)


def test_which_pulls_were_forced():
    chosen = jb.read_log(FRAME.assign(p_A=[0.5, 0.5, 0.25, 0.4], p_B=[0.5, 0.5, 0.75, 0.6]))
    assert not chosen.history.forced.any()
    assert describe_note(chosen.notes[0]) == "2 of the first pulls have weights, and count as choices, not as forced."
    certain = jb.read_log(FRAME.assign(p_A=[1, 0, 0.25, 0.4], p_B=[0, 1, 0.75, 0.6]))
    assert certain.history.forced.tolist() == [True, True, False, False]
    marked = jb.read_log(FRAME.assign(forced=[1, 1, 0, 1], p_A=[0.5, 0.5, 0.25, 1], p_B=[0.5, 0.5, 0.75, 0]))
    assert marked.history.forced.tolist() == [True, True, False, True]  # the last pulls B, which has weight 0


@pytest.mark.parametrize("prefix", ["", "p_"])
def test_a_file_by_period(prefix, tmp_path):
    wide = BY_PERIOD.rename(columns={"A": f"{prefix}A", "B": f"{prefix}B"})
    long = BY_PERIOD.melt("period", var_name="arm", value_name="weight").sample(frac=1, random_state=0)
    wide.to_csv(tmp_path / "wide.csv", index=False)
    long.to_parquet(tmp_path / "long.parquet", index=False)
    for weights in (wide, long, wide[::-1], tmp_path / "wide.csv", tmp_path / "long.parquet"):
        log = jb.read_log(BATCHES, weights=weights)
        assert log.weights.tolist() == WEIGHTS
        assert log.recorded.tolist() == np.repeat(WEIGHTS, 2, axis=0).tolist()
    later = jb.read_log(BATCHES, weights=wide[1:])  # the first period was forced
    assert later.history.forced.tolist() == [True, True, False, False, False, False]
    assert jb.read_log(BATCHES, weights=wide, first=4).weights.tolist() == WEIGHTS[:2]


@pytest.mark.parametrize(
    ("times", "unit", "periods"),
    [
        (["2024-01-01 10:00", "2024-01-01 11:00", "2024-01-02", "2024-01-02", "2024-01-03", "2024-01-03"], "day", None),
        (["2024-01-01", "2024-01-03", "2024-01-08", "2024-01-09", "2024-01-20", "2024-01-21"], "week", [1, 8, 15]),
    ],
)
def test_a_file_by_date(times, unit, periods):
    frame = BATCHES.drop(columns="batch").assign(time=times)
    dates = [f"2024-01-{day:02}" for day in periods or (1, 2, 3)]
    log = jb.read_log(frame, batch_by=unit, weights=BY_PERIOD.assign(period=dates))
    assert log.weights.tolist() == WEIGHTS
    text = BATCHES.assign(batch=[time[:10] for time in times]) if unit == "day" else None
    if text is not None:
        stamps = BY_PERIOD.assign(period=pd.to_datetime(dates))
        assert jb.read_log(text, weights=stamps).weights.tolist() == WEIGHTS


def test_counts_with_weights():
    rows = ["2024-01-02,A,20,2", "2024-01-01,A,50,5", "2024-01-01,B,50,9", "2024-01-02,B,80,15", "2024-01-03,B,0,0"]
    header, weight = "day,arm,users,conversions", ["0.3", "0.5", "0.5", "0.7", "1"]
    wide = {"0.3": "0.3,0.7", "0.5": "0.5,0.5", "0.7": "0.3,0.7", "1": "0,1"}
    read = lambda lines, **options: jb.read_log(io.StringIO("\n".join(lines)), counts=True, **options)
    by_row = read([f"{header},weight", *(f"{row},{part}" for row, part in zip(rows, weight, strict=True))])
    by_arm = read([f"{header},p_A,p_B", *(f"{row},{wide[part]}" for row, part in zip(rows, weight, strict=True))])
    second = "day,A,B\n2024-01-03,0,1\n2024-01-02,0.3,0.7\n2024-01-01,0.5,0.5\n"  # also of a period without pulls
    by_file = read([header, *rows], weights=io.StringIO(second))
    for log in (by_row, by_arm, by_file):
        assert log.weights.tolist() == WEIGHTS[:2]
        assert log.recorded.shape == (200, 2)
        assert not log.history.forced.any()
        estimate = jb.adaptive_weighting(log.history, family=jb.Bernoulli(), propensities=log.weights)
        assert estimate.converged.all()


def test_columns_that_were_not_used():
    steps = np.arange(40)
    extra = dict(user_id=steps % 7, userName=steps, session=steps % 3, age=steps / 3, country=["x", "y"] * 20, constant=1)
    frame = pd.DataFrame(
        {"arm": ["A", "B"] * 20, "reward": steps * 0.1, **extra, "signup_date": ["2024-01-01", "2024-01-02"] * 20}
    )
    assert jb.read_log(frame).unused == ("age", "country")
    assert jb.read_log(io.StringIO(frame.to_csv(index=True))).unused == ("age", "country")
    buffer = io.BytesIO()
    frame.assign(several=[[1, 2]] * 40).to_parquet(buffer)
    assert jb.read_log(io.BytesIO(buffer.getvalue())).unused == ("age", "country")
