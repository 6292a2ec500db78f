"""Counts give what the single pulls with the same batches give; what needs the order of the pulls refuses them."""

import jax
import numpy as np
import pandas as pd
import pytest

import jaxbias as jb
from jaxbias._core.errors import ArgumentError
from tests.simulation.test_whole_batches import SIZES

KEY = jax.random.key(0)
DETERMINISTIC = ("sample_mean", "propensity_weighting", "adaptive_weighting", "batched_ols", "confidence_sequence", "shrinkage")
SIMULATED = ("mean_matching", "bias_corrected", "test_inversion")
FAMILIES = {
    "normal": (jb.EpsilonGreedy(epsilon=0.4), jb.Normal(sigma=None), [1.0, 0.5, 0.0]),
    "bernoulli": (jb.BetaThompson(), jb.Bernoulli(), [0.5, 0.4, 0.3]),
}


def make_pair(name):
    """A log of pulls in ten batches, and the counts of it."""
    policy, family, mean = FAMILIES[name]
    simulated = jb.Normal(sigma=1.0) if name == "normal" else family
    rows = jb.simulate(KEY, policy, simulated, mean, num_steps=sum(SIZES), batch_size=SIZES)
    rows = jb.History(arms=rows.arms, rewards=rows.rewards, num_arms=3, batch_sizes=SIZES)  # the first batch is forced
    frame = pd.DataFrame({"arm": np.asarray(rows.arms), "reward": np.asarray(rows.rewards, float)})
    frame["period"], frame["square"] = np.repeat(np.arange(len(SIZES)), SIZES), frame.reward**2
    cells = frame.groupby(["period", "arm"]).agg(pulls=("reward", "size"), sum=("reward", "sum"), squares=("square", "sum"))
    return rows, cells.reset_index(), policy, family


def from_cells(cells, name):
    table = lambda column: cells.pivot(index="period", columns="arm", values=column).fillna(0).to_numpy()
    if name == "bernoulli":
        return jb.History.from_counts(table("pulls"), successes=table("sum"))
    return jb.History.from_counts(table("pulls"), table("sum"), squares=table("squares"))


@pytest.mark.parametrize("name", FAMILIES)
def test_counts_equal_rows(name):
    with jax.enable_x64(True):
        rows, cells, policy, family = make_pair(name)
        counts = from_cells(cells, name)
        tables = [jb.compare(KEY, log, policy, family, methods=DETERMINISTIC) for log in (rows, counts)]
        assert tables[0].reasons == tables[1].reasons == {}
        for method in DETERMINISTIC:
            for field in ("mean", "stderr", "lower", "upper"):
                values = [np.asarray(getattr(table.estimates[method], field)) for table in tables]
                np.testing.assert_allclose(values[1], values[0], atol=1e-6, err_msg=f"{method} {field}")
        fits = [jb.check_fit(KEY, log, policy) for log in (rows, counts)]
        assert fits[1].log_prob == pytest.approx(fits[0].log_prob, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_counts_equal_rows_by_simulation(name):
    with jax.enable_x64(True):
        rows, cells, policy, family = make_pair(name)
        logs = (rows, from_cells(cells, name))
        tables = [jb.compare(KEY, log, policy, family, methods=SIMULATED, num_paths=512) for log in logs]
        for method in SIMULATED:
            one, other = (table.estimates[method] for table in tables)
            assert (np.abs(one.mean - other.mean) < 0.1 * np.asarray(one.stderr)).all(), method


def test_what_needs_the_order_refuses():
    counts = jb.History.from_counts([[5, 5], [2, 8]], successes=[[1, 2], [1, 3]])
    policy, family = jb.BetaThompson(), jb.Bernoulli()
    calls = {
        "unbiased": lambda: jb.unbiased(KEY, counts, policy, family),
        "trajectory": lambda: jb.confidence_sequence(counts, family, trajectory=True),
        "bounds": lambda: jb.confidence_sequence(counts, family, bounds=(0.0, 1.0)),
        "two_point": lambda: jb.adaptive_weighting(counts, policy, family, scheme="two_point"),
        "influence": lambda: jb.influence(KEY, counts, None, family, "sample_mean"),
    }
    for name, call in calls.items():
        with pytest.raises(ArgumentError, match="history has counts; it must be one pull a row for"):
            print(name, call())
    table = jb.compare(KEY, counts, policy, family, methods=("sample_mean", "unbiased"))
    assert list(table.estimates) == ["sample_mean"]
    assert "one pull a row" in str(table.reasons["unbiased"])


def test_sums_without_squares_need_sigma():
    counts = jb.History.from_counts([[5, 5], [2, 8]], [[1.5, 2.5], [1.0, 3.0]])
    assert not counts.squares_known
    known = jb.sample_mean(counts, jb.Normal(sigma=2.0))
    np.testing.assert_allclose(known.stderr, 2 / np.sqrt([7, 13]), rtol=1e-6)
    for family in (None, jb.Normal(sigma=None)):
        with pytest.raises(ArgumentError, match="no sums of squares to estimate it from"):
            jb.sample_mean(counts, family)
    for method in (jb.propensity_weighting, jb.adaptive_weighting):
        with pytest.raises(ArgumentError, match="counts without sums of squares"):
            method(counts, jb.EpsilonGreedy(), jb.Normal(sigma=2.0))
    with pytest.raises(ArgumentError, match="cannot give"):
        jb.sample_mean(counts, jb.Bernoulli())


@pytest.mark.parametrize("squares", [[[4.1, 2.0]], [[9.0, 2.0]]])
def test_one_pull_has_the_square_of_its_reward(squares):
    with pytest.raises(ArgumentError, match=r"the square of the only reward, where there is one pull"):
        jb.History.from_counts([[1, 3]], [[2.0, 1.0]], squares=squares)
    assert jb.History.from_counts([[1, 3]], [[2.0, 1.0]], squares=[[4.0, 2.0]]).num_steps == 4
