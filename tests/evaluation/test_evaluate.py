"""Evaluation: its figures are those of the estimates, and known truths come out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.estimators.estimate import Estimate, Status
from jaxbias.evaluation.figures import TrueLogs, summarise_estimates

KEY = jax.random.key(0)
PROBLEM = (jb.Greedy(), jb.Normal(sigma=1.0), [1.0, 0.75], 16)


def test_figures_by_hand():
    estimate = Estimate(
        method="sample_mean",
        mean=np.array([[1.0, 0.0], [3.0, np.nan], [2.0, 1.0]]),
        stderr=np.ones((3, 2)),
        lower=np.array([[0.0, -1.0], [2.5, np.nan], [1.0, 0.5]]),
        upper=np.array([[1.5, 1.0], [4.0, np.nan], [3.0, 1.5]]),
        status=np.array([[0, 0], [0, int(Status.NEVER_PULLED)], [0, 0]]),
        diagnostics={},
    )
    pulls = np.array([[1, 3], [2, 0], [3, 1]])
    plain = np.array([[0.0, 0.25], [1.0, np.nan], [3.0, 2.25]])
    logs = TrueLogs(mean=np.array([2.0, 0.25]), pulls=pulls, sample_mean=plain, point=np.zeros(3, int))
    found = summarise_estimates(estimate, logs)
    np.testing.assert_allclose(found.bias, [0.0, 0.25])
    np.testing.assert_allclose(found.mse, [2 / 3, (0.25**2 + 0.75**2) / 2])
    np.testing.assert_allclose(found.coverage, [1 / 3, 0.5])
    np.testing.assert_allclose(found.too_low, [1 / 3, 0])
    np.testing.assert_allclose(found.too_high, [1 / 3, 0.5])
    np.testing.assert_allclose(found.usable, [1, 2 / 3])
    np.testing.assert_allclose(found.bias_stderr, [1 / np.sqrt(3), 0.5])
    np.testing.assert_allclose(found.rms_bias, np.sqrt(0.25**2 / 2))
    np.testing.assert_allclose(found.average_bias, np.mean([(-1 - 0.25) / 2, 1.0, 0.75 / 2]))
    # Least pulls: arm 0 of the first log, and arm 1 of the second, which has no figure.
    np.testing.assert_allclose(found.rmse_by_pulls, [1.0, np.sqrt((1 + 0.75**2) / 2), np.sqrt(0.25**2 / 2)])
    # Squares of the sample mean's errors in the same places: 4; 1 and 4; 1 and 0.
    np.testing.assert_allclose(found.relative_rmse_by_pulls**2, [np.nan, (1 + 0.75**2) / 5, 0.25**2])
    ratio = (1 + 1 + 0.25**2 + 0.75**2) / (4 + 1 + 1 + 4)
    np.testing.assert_allclose(found.relative_rmse**2, ratio)
    by_log = np.array([1 + 0.25**2 - ratio * 4, 1 - ratio, 0.75**2 - ratio * 5])
    np.testing.assert_allclose(found.relative_rmse_stderr, np.sqrt(np.sum(by_log**2)) / 10 / (2 * np.sqrt(ratio)))


def test_thirds_are_among_logs_at_the_same_means():
    """Of two points with three logs each, the arm is pulled more at the second: each has its own thirds."""
    error = np.arange(1.0, 7.0)[:, None]
    ones = np.ones_like(error)
    ends = dict(stderr=ones, lower=error - 1, upper=error + 1, status=np.zeros((6, 1), int), diagnostics={})
    estimate = Estimate(method="sample_mean", mean=error, **ends)
    pulls = np.array([1, 2, 3, 11, 12, 13])[:, None]
    logs = TrueLogs(mean=np.zeros((6, 1)), pulls=pulls, sample_mean=2 * ones, point=np.array([0, 0, 0, 1, 1, 1]))
    found = summarise_estimates(estimate, logs)
    np.testing.assert_allclose(found.rmse_by_pulls**2, [(1 + 16) / 2, (4 + 25) / 2, (9 + 36) / 2])
    np.testing.assert_allclose(found.relative_rmse_by_pulls, found.rmse_by_pulls / 2)
    spread = np.array([16 - 1, 25 - 4, 36 - 9]) / 2  # the standard error of an average of two squares
    np.testing.assert_allclose(found.rmse_by_pulls_stderr, spread / (2 * found.rmse_by_pulls))


def test_the_sample_mean_has_the_bias_that_is_measured():
    found = jb.evaluate(KEY, *PROBLEM, methods=["sample_mean", "data_splitting"], num_trials=2000)
    measured = jb.measure_bias(jax.random.key(1), *PROBLEM, num_trials=100_000)
    for name in ("bias", "mse"):
        ours, stderr = (getattr(found.methods["sample_mean"], f"{name}{end}") for end in ("", "_stderr"))
        assert np.all(np.abs(ours - getattr(measured, name)) < 4 * stderr)
    split = found.methods["data_splitting"]
    assert np.all(np.abs(split.bias) < 4 * split.bias_stderr)
    assert np.all(np.abs(split.coverage - 0.95) < 4 * split.coverage_stderr)
    many, few = found.methods["sample_mean"].rmse_by_pulls[[2, 0]]
    assert many < few  # an arm that was pulled often is known better


def test_functions_of_ones_own_a_frame_and_a_table():
    own = {"half": lambda key, history, policy, family: jb.sample_mean(history, family, level=0.5)}
    found = jb.evaluate(KEY, *PROBLEM, methods=own, num_trials=200)
    assert np.all(np.abs(found.methods["half"].coverage - 0.5) < 0.15)
    frame, figures = found.to_frame(), found.methods["half"]
    assert list(frame["arm"]) == [0, 1]
    np.testing.assert_allclose(frame["rmse_many"], figures.rmse_by_pulls[2])
    np.testing.assert_allclose(frame["relative_rmse_few_stderr"], figures.relative_rmse_by_pulls_stderr[0])
    np.testing.assert_allclose(figures.relative_rmse_by_pulls, 1)  # it is the sample mean
    assert "half" in str(found)
    assert "error, many pulls" in str(found)
    with pytest.raises(jb.ArgumentError, match="num_trials"):
        jb.evaluate(KEY, *PROBLEM, num_trials=1)
    with pytest.raises(jb.ArgumentError, match="choose from"):
        jb.evaluate(KEY, *PROBLEM, methods=["nonsense"])


def test_a_method_of_ones_own_is_a_function(unchecked):
    with pytest.raises(jb.ArgumentError, match="has 1 at 'half'; it must be a function of"):
        jb.evaluate(KEY, *PROBLEM, methods={"half": 1})


def test_what_the_estimators_are_told_may_differ_and_reasons_are_kept():
    options = dict(methods=["sample_mean", "conditional_mle"], num_trials=50, assumed=jb.Normal(sigma=None))
    found = jb.evaluate(KEY, *PROBLEM, **options)
    known = jb.evaluate(KEY, *PROBLEM, methods=["sample_mean"], num_trials=50)
    assert list(found.methods) == ["sample_mean"]
    np.testing.assert_allclose(found.methods["sample_mean"].bias, known.methods["sample_mean"].bias)  # of arms pulled once too
    assert np.any(found.methods["sample_mean"].usable < 1)
    assert found.reasons["conditional_mle"].argument == "policy"
    assert jnp.isfinite(found.methods["sample_mean"].width).all()


def test_which_estimates_count():
    """Of three logs one did not settle: its estimate counts where all finite ones are asked for, and the NaN never does."""
    values = np.array([[1.0], [2.0], [6.0], [np.nan]])
    status = np.array([[0], [0], [int(Status.STILL_MOVING)], [int(Status.NOT_FINITE)]])
    ends = dict(stderr=np.ones((4, 1)), lower=values - 1, upper=values + 1, diagnostics={})
    estimate = Estimate(method="sample_mean", mean=values, status=status, **ends)
    logs = TrueLogs(mean=np.array([1.0]), pulls=np.ones((4, 1), int), sample_mean=values, point=np.zeros(4, int))
    settled, finite = (summarise_estimates(estimate, logs, count) for count in ("converged", "finite"))
    assert (settled.average_bias, finite.average_bias) == (0.5, 2.0)
    assert (float(settled.usable[0]), float(finite.usable[0])) == (0.5, 0.75)
    np.testing.assert_allclose(finite.coverage, [2 / 3])


def test_functions_can_have_held_out_rewards_and_draws():
    own = {"split": lambda key, history, policy, family: jb.data_splitting(history, family, first_shared=True)}
    found = jb.evaluate(KEY, *PROBLEM, methods=own, num_trials=2000, held_out=True).methods["split"]
    history = jb.simulate(jax.random.fold_in(KEY, 0), *PROBLEM, num_trials=2000, held_out=True)
    error = np.asarray(jb.data_splitting(history, first_shared=True).mean, np.float64) - [1.0, 0.75]
    np.testing.assert_allclose(found.bias, error.mean(axis=0))
    recorded = {"draws": lambda key, history, policy, family: jb.sample_mean(history) if history.draws is not None else None}
    problem = (jb.Thompson(), jb.Normal(), [1.0, 0.75], 16)
    assert np.isfinite(jb.evaluate(KEY, *problem, methods=recorded, num_trials=20, keep_draws=True).methods["draws"].bias).all()
