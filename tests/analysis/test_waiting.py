"""The time left of an analysis, and what a budget has room for."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias._core.errors import ArgumentError
from jaxbias.analysis import limits
from jaxbias.analysis.waiting import Clock, Stage, by_worth, expected_seconds

BATCHED = jb.History(arms=jnp.arange(400) % 4, rewards=jnp.zeros(400), num_arms=4, batch_sizes=(100,) * 4)
SINGLE = jb.History(arms=jnp.arange(400) % 4, rewards=jnp.zeros(400), num_arms=4)
BETA = (jb.BetaThompson(), jb.Bernoulli())


def test_the_clock_learns_how_fast_the_machine_is():
    time, said = [0.0], []
    clock = Clock(said.append, None, now=lambda: time[0])
    clock.start(Stage.READING)
    clock.plan({"shrinkage": 100.0, "mean_matching": 100.0})
    clock.start("shrinkage")
    time[0] = 50.0
    clock.start("mean_matching")
    assert said == ["reading the log", "shrinkage", "mean_matching"]
    assert np.isnan(said[0].left)
    assert said[1].left == 200
    assert said[2].elapsed == 50
    assert said[2].left == pytest.approx(100 * 55 / 105)


def test_a_budget_has_room_for_sums_and_for_what_ends_in_time():
    clock = Clock(None, 20.0, now=lambda: 0.0)
    clock.plan({"confidence_sequence": 50.0, "mean_matching": 19.0, "conditional_mle": 21.0, Stage.EVALUATING: 30.0})
    assert clock.has_room("confidence_sequence")
    assert clock.has_room("mean_matching")
    with pytest.raises(ArgumentError, match="budget leaves no time: 20 s"):
        clock.start("conditional_mle")
    assert not clock.has_room(Stage.EVALUATING)
    assert clock.left_out == ["conditional_mle", "evaluating the methods"]


def test_worth():
    named = ["conditional_mle", "propensity_weighting", "bias_corrected", "shrinkage", "mean_matching", "sample_mean"]
    assert by_worth([*named, "guarded_shrinkage"])[2] == "guarded_shrinkage"
    ranked = by_worth(named)
    assert ranked[:2] == ["shrinkage", "sample_mean"]
    assert ranked[2:] == ["mean_matching", "conditional_mle", "bias_corrected", "propensity_weighting"]


def test_a_batched_log_costs_its_batches_and_not_its_rows():
    assert limits.looks_of(BATCHED, *BETA) == 4
    assert limits.looks_of(SINGLE, *BETA) == 400
    ten_times = jb.History(arms=jnp.arange(4000) % 4, rewards=jnp.zeros(4000), num_arms=4, batch_sizes=(1000,) * 4)
    assert limits.path_cost(ten_times, *BETA) == limits.path_cost(BATCHED, *BETA)
    assert limits.path_cost(SINGLE, *BETA) == 400 * 24  # six times as long for each arm as an index
    assert limits.path_cost(BATCHED, jb.Greedy(), jb.Normal()) >= 4  # a policy that draws nothing costs something too
    seconds = expected_seconds(BATCHED, *BETA, ["sample_mean", "mean_matching"], fits=True, evaluate=False)
    assert list(seconds) == ["sample_mean", "mean_matching", Stage.SIMULATING]
    assert seconds["mean_matching"] > seconds["sample_mean"]


def test_simulations_that_cannot_help_are_left_out_where_they_take_long(monkeypatch):
    assert limits.too_slow(SINGLE, jb.Uniform(), jb.Normal()) == {}
    monkeypatch.setattr(limits, "LITTLE_WORK", 1)
    found = limits.too_slow(SINGLE, jb.Uniform(), jb.Normal())
    assert {"mean_matching", "test_inversion", "bias_corrected", "conditional_mle"} <= set(found)
    assert str(found["mean_matching"]).startswith("simulations have nothing to correct")
    monkeypatch.setattr(limits, "MOST_WORK", 1)
    assert "take several minutes" in str(limits.too_slow(SINGLE, jb.LilUCB(), jb.Normal())["mean_matching"])
    assert limits.bias_trials(SINGLE, jb.LilUCB(), jb.Normal()) == 0


def test_paths_that_would_fill_the_memory_are_not_weighted():
    wide = jb.History(arms=jnp.arange(20_000) % 500, rewards=jnp.zeros(20_000), num_arms=500)
    reason = str(limits.too_slow(wide, jb.LilUCB(), jb.Normal())["conditional_mle"])
    assert reason.startswith("rows times arms is 10,000,000; it must be at most 262,144")
    clicks = str(limits.too_slow(wide, jb.LilUCB(), jb.Bernoulli())["conditional_mle"])
    assert clicks.startswith("rows times arms is 10,000,000; it must be at most 65,536")
