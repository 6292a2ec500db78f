"""Influence: the derivative of every method in every reward, and the rows that carry an estimate."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import jaxbias as jb
from jaxbias.analysis.findings import CarriedEstimate
from jaxbias.analysis.influence import find_influence, row_shifts
from jaxbias.estimators.compare import apply_method
from jaxbias.estimators.registry import METHODS
from jaxbias.reporting.documents import debias_document
from jaxbias.reporting.sentences import carried_sentence

KEY, POLICY, FAMILY = jax.random.key(1), jb.Greedy(tau=1.0), jb.Normal()


@pytest.fixture(scope="module")
def histories():
    return jb.simulate(jax.random.key(0), POLICY, FAMILY, [1.0, 0.75], num_steps=8, num_trials=2, held_out=True, batch_size=2)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "test_inversion"])
def test_every_method_against_its_own_derivative(histories, method):
    """And a shift of all rewards moves every estimate by as much, in one log as in many."""
    found = np.asarray(jb.influence(KEY, histories, POLICY, FAMILY, method))
    assert found.shape == (2, 2, 8)
    simulated = method == "bias_corrected"  # whose derivative has the Monte Carlo error of its paths
    np.testing.assert_allclose(found.sum(axis=-1), 1, rtol=0.1 if simulated else 1e-5)

    def mean(by):
        moved = dataclasses.replace(histories, rewards=histories.rewards + by, held_out=histories.held_out + by)
        question = {"history": moved, "policy": POLICY, "family": FAMILY, "key": KEY, "level": 0.95}
        return apply_method(METHODS[method], question).mean

    direction = jax.random.normal(jax.random.key(2), (2, 8))
    tangent = jax.jvp(mean, (jnp.zeros((2, 8)),), (direction,))[1]
    before_the_last_move = 0.01 if method == "mean_matching" else 1e-4  # the J of the diagnostics, as J is curved
    np.testing.assert_allclose(np.einsum("tks,ts->tk", found, direction), tangent, atol=before_the_last_move)


def test_an_estimate_without_a_derivative_says_which_have_one(histories):
    with pytest.raises(jb.ArgumentError, match="mean_matching and bias_corrected have"):
        jb.influence(KEY, histories, POLICY, FAMILY, "test_inversion")


@pytest.mark.parametrize("sigma", [None, "each"])
def test_an_unknown_sigma(histories, sigma):
    one, family = dataclasses.replace(histories.trial(0), held_out=None), jb.Normal(sigma=sigma)
    found = jb.influence(KEY, one, POLICY, family, num_paths=512)
    mean = lambda rewards: jb.mean_matching(KEY, dataclasses.replace(one, rewards=rewards), POLICY, family, num_paths=512).mean
    np.testing.assert_allclose(found, jax.jacrev(mean)(one.rewards), atol=0.01)  # as above


def test_a_method_that_is_not_there(histories):
    with pytest.raises(jb.ArgumentError, match="choose from"):
        jb.influence(KEY, histories, POLICY, FAMILY, "median")
    with pytest.raises(jb.ArgumentError, match="choices are not random"):
        jb.influence(KEY, histories, jb.Greedy(), FAMILY, "adaptive_weighting")


def test_a_shift_is_what_leaving_a_row_out_does():
    """Exactly so for the sample mean."""
    arms, rewards = np.array([0, 0, 1, 0, 2]), np.array([1.0, 2.0, 0.5, 6.0, 3.0])
    log = jb.History(arms=jnp.asarray(arms, jnp.int32), rewards=jnp.asarray(rewards, jnp.float32), num_arms=3)
    moved = np.asarray(jb.influence(KEY, log, None, FAMILY, "sample_mean"))
    shifts = row_shifts(moved, arms, rewards)
    np.testing.assert_allclose(shifts[0, [0, 1, 3]], [3.0 - 4.0, 3.0 - 3.5, 3.0 - 1.5], rtol=1e-6)
    assert np.isnan(shifts[:, [2, 4]]).all()


def test_one_row_that_carries_an_estimate():
    """The only pull of an arm, and an outlier; not an ordinary row."""
    arms = np.array([0, 1, 0, 0, 1, 1, 2, 0, 1, 0, 1])
    rewards = np.array([0.1, 0.2, -0.3, 0.2, 9.0, -0.1, 0.4, 0.3, 0.0, -0.2, 0.1])
    log = jb.History(arms=jnp.asarray(arms, jnp.int32), rewards=jnp.asarray(rewards, jnp.float32), num_arms=3)
    found = find_influence(jb.sample_mean(log, FAMILY), log, FAMILY, None)
    assert [(one.arm, one.row.step, one.alone) for one in found.carried] == [(1, 4, False), (2, 6, True)]
    assert found.rows[0].step == 4
    assert found.rows[0].errors == pytest.approx((9.0 - 0.05) / 5 / np.sqrt(1 / 5), rel=1e-4)
    assert find_influence(jb.batched_ols(dataclasses.replace(log, batch_sizes=(5, 6)), FAMILY), log, FAMILY, None) is None


def test_an_analysis_says_which_rows(histories):
    one = histories.trial(0)
    frame = pd.DataFrame({"arm": ["AB"[arm] for arm in one.arms], "reward": np.asarray(one.rewards)})
    analysis = jb.debias(KEY, frame, POLICY, FAMILY, methods=["sample_mean", "mean_matching"])
    found = analysis.influence
    np.testing.assert_allclose(found.moved.sum(axis=1), 1, rtol=1e-6)
    assert [row.errors for row in found.rows] == sorted((row.errors for row in found.rows), reverse=True)
    document = debias_document(analysis)["influence"]
    assert document["rows"][0]["arm"] in ("A", "B")
    quiet = dataclasses.replace(analysis, influence=found._replace(carried=()))
    assert carried_sentence(quiet) == ""
    row = found.rows[0]._replace(step=2, estimate_of=1, weight=0.7, errors=1.4)
    loud = found._replace(carried=(CarriedEstimate(0, row, alone=True), CarriedEstimate(1, row, alone=False)))
    assert carried_sentence(dataclasses.replace(analysis, influence=loud)) == (
        "One row carries an estimate: that of 'A' moves by 0.700 for each unit of the reward in row 3; the reward in row 3 has "
        "moved that of 'B' by 1.40 standard errors. Check that row."
    )
