"""Counts and batches as they are exported: synonyms, dates, labels, rows in any order."""

import io

import numpy as np
import pandas as pd
import pytest

import jaxbias as jb
from jaxbias.logs.notes import NoteKind
from jaxbias.reporting.log_notes import describe_note

ROWS = ("2024-01-02,a,20,2", "2024-01-01,a,50,5", "2024-01-01,b,50,9", "2024-01-02,b,80,15", "2024-01-03,b,0,0")
EXPORT = "\n".join(["Date,arm,Users,Conversions", *ROWS])


def read(text, **options):
    return jb.read_log(io.StringIO(text), **options)


def test_an_export_of_users_and_conversions():
    log = read(EXPORT, counts=True)
    history = log.history
    assert (log.labels, log.periods, history.batch_sizes) == (("a", "b"), ("2024-01-01", "2024-01-02"), (100, 100))
    assert history.statistics.pulls.tolist() == [70, 130]
    assert history.statistics.total.tolist() == [7.0, 24.0]
    assert (history.order_known, history.squares_known) == (False, True)
    assert history.forced_steps[:100].all()
    assert not history.forced_steps[100:].any()
    assert np.bincount(log.batch).tolist() == [100, 100]
    notes = " ".join(map(describe_note, log.notes))
    assert "Column 'Users' was read as 'pulls'." in notes
    assert "200 pulls in 2 periods were read from counts." in notes
    frame = pd.read_csv(io.StringIO(EXPORT), parse_dates=["Date"])
    assert jb.read_log(frame, counts=True).periods == log.periods


def test_sums_and_squares_are_kept_exactly():
    generator = np.random.default_rng(0)
    rewards = {(period, arm): generator.normal(size=size) for period, arm, size in [(0, 0, 1), (0, 1, 6), (1, 0, 3), (1, 1, 40)]}
    figures = {cell: (len(values), float(values.sum()), float((values**2).sum())) for cell, values in rewards.items()}
    lines = [",".join(map(repr, (*cell, *found))) for cell, found in figures.items()]
    history = read("\n".join(["period,arm,n,total,sum of squares", *lines]), counts=True).history
    batch = np.repeat([0, 1], history.batch_sizes)
    for (period, arm), values in rewards.items():
        mine = history.rewards[(batch == period) & (history.arms == arm)]
        assert len(mine) == len(values)
        np.testing.assert_allclose([mine.sum(), (mine**2).sum()], [values.sum(), (values**2).sum()], rtol=1e-12)


def test_counts_without_periods_are_one_batch_and_say_so():
    log = read("arm,impressions,clicks\na,50,5\nb,50,9\n", counts=True)
    assert log.history.batch_sizes == (100,)
    assert log.notes[-1].kind is NoteKind.ONE_PERIOD
    assert "nothing inside it can have been adaptive" in describe_note(log.notes[-1])


def test_pulls_that_look_like_counts_can_be_read_as_pulls():
    text = "batch,arm,reward\n0,a,512\n0,b,498\n1,a,207\n1,b,803\n"
    assert read(text, counts=False).history.rewards.tolist() == [512, 498, 207, 803]
    usual = "n,arm,reward\n1,a,0.5\n2,b,1.5\n3,a,2.5\n"  # a row number is no count
    assert read(usual).history.num_steps == 3


@pytest.mark.parametrize(
    ("column", "periods"),
    [
        (["2024-01-01", "2024-01-01", "2024-01-02"], ("2024-01-01", "2024-01-02")),
        (["31/01/2024", "31/01/2024", "01/02/2024"], ("31/01/2024", "01/02/2024")),
        (["morning", "morning", "evening"], ("morning", "evening")),
    ],
)
def test_batches_of_dates_and_labels(column, periods):
    log = jb.read_log(pd.DataFrame({"arm": ["a", "b", "a"], "reward": [0.5, 1.0, 1.5], "batch": column}))
    assert (log.batch.tolist(), log.history.batch_sizes, log.periods) == ([0, 0, 1], (2, 1), periods)


@pytest.mark.parametrize(
    ("unit", "batch", "first"),
    [
        ("hour", [0, 1, 2, 3], "2024-01-30 09:00"),
        ("day", [0, 0, 1, 2], "2024-01-30"),
        ("week", [0, 0, 0, 1], "week of 2024-01-29"),
        ("month", [0, 0, 0, 1], "2024-01"),
    ],
)
def test_batches_by_truncated_timestamps(unit, batch, first):
    times = ["2024-01-30 09:30", "2024-01-30 10:00", "2024-01-31 00:00", "2024-02-07 23:59"]
    log = jb.read_log(pd.DataFrame({"arm": list("abab"), "reward": [0.5, 1, 2, 3], "time": times}), batch_by=unit)
    assert (log.batch.tolist(), log.periods[0]) == (batch, first)
    assert log.notes[-1].kind is NoteKind.BATCHES_BY


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_unit_is_refused():
    with pytest.raises(ValueError, match="batch_by is 'year'; it must be one of hour, day, week, month"):
        read("arm,reward,time\na,1,2024-01-01\n", batch_by="year")
