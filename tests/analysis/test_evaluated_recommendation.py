"""The recommendation by evaluation: on evaluations that are made up, and on one log from end to end."""

import jax
import numpy as np
import pandas as pd
import pytest

import jaxbias as jb
from jaxbias.analysis import limits
from jaxbias.analysis.findings import Reason
from jaxbias.analysis.recommendation import best_evaluated, to_evaluate
from jaxbias.estimators.compare import Comparison
from jaxbias.estimators.estimate import Estimate, Status
from jaxbias.evaluation import Evaluation, MethodFigures
from jaxbias.reporting.documents import debias_document, to_json
from jaxbias.reporting.recommendation import describe_reason


def make_figures(mse=1.0, coverage=0.95, bias=0.1, well_pulled=0.5, usable=1.0):
    two = dict.fromkeys(("bias", "mse", "coverage", "width", "too_low", "too_high"), 0.0)
    two |= {"bias": bias, "mse": mse, "coverage": coverage}
    arrays = {name: np.full(2, value) for name, value in two.items()}
    arrays |= {f"{name}_stderr": np.full(2, 0.001) for name in two}
    averages = {f"average_{name}": two[name] for name in ("bias", "mse", "coverage", "width")}
    averages |= {f"{name}_stderr": 0.001 for name in list(averages)}
    by_pulls = dict(rmse_by_pulls=np.array([1.0, 0.7, well_pulled]), rmse_by_pulls_stderr=np.full(3, 0.001))
    by_pulls |= {f"relative_{name}": value * (2 if name == "rmse_by_pulls" else 1) for name, value in by_pulls.items()}
    by_pulls |= dict(relative_rmse=1.0, relative_rmse_stderr=0.001)
    rms = dict(rms_bias=bias, rms_bias_stderr=0.001)
    return MethodFigures(**arrays, **averages, **by_pulls, **rms, usable=np.full(2, usable))


def best_of(converged=(), **methods):
    methods = {"sample_mean": make_figures(mse=2.0), **methods}
    ones, zeros = np.ones(2), np.zeros(2)
    estimates = {
        name: Estimate(method=name, mean=zeros, stderr=ones, lower=-ones, upper=ones, status=zeros.astype(int), diagnostics={})
        for name in methods
    }
    for name in converged:  # those that did not converge
        broken = estimates[name]
        estimates[name] = Estimate(**{**vars(broken), "status": np.array([0, int(Status.STILL_MOVING)])})
    pulls = np.array([9, 5])
    comparison = Comparison(estimates=estimates, reasons={}, pulls=pulls, level=0.95)
    evaluation = Evaluation(methods=methods, reasons={}, mean=zeros, pulls=pulls, num_trials=200, level=0.95)
    return best_evaluated(comparison, evaluation)


@pytest.mark.parametrize(
    ("better", "expected"),
    [
        (dict(mse=0.5), "test_inversion"),
        (dict(mse=1.5), "mean_matching"),
        (dict(mse=0.5, coverage=0.9), "mean_matching"),  # its intervals do not cover
        (dict(mse=0.5, bias=0.2), "mean_matching"),  # more biased than the sample mean
        (dict(mse=0.5, well_pulled=0.6), "mean_matching"),  # worse for arms that were pulled often
        (dict(mse=0.5, usable=0.5), "mean_matching"),  # fails too often
    ],
)
def test_the_least_error_among_those_that_can_be_believed(better, expected):
    assert best_of(mean_matching=make_figures(mse=1.0), test_inversion=make_figures(**better)) == expected


@pytest.mark.parametrize(
    ("guarded", "expected"),
    [
        (dict(mse=1.0), "guarded_shrinkage"),  # before shrinkage, which has less error on the simulated logs
        (dict(mse=2.5), "sample_mean"),  # which is guarded too
        (dict(mse=1.0, coverage=0.9), "shrinkage"),
        (dict(mse=1.0, well_pulled=0.6), "shrinkage"),
    ],
)
def test_a_guarded_method_goes_before_the_others_if_it_can_be_believed(guarded, expected):
    assert best_of(shrinkage=make_figures(mse=0.1), guarded_shrinkage=make_figures(**guarded)) == expected


@pytest.mark.parametrize("margin", [-1, 1])
def test_every_limit_has_its_monte_carlo_error(margin):
    """Figures that are just inside or outside of two standard errors of each limit."""
    step = margin * 1e-4
    limits = [
        dict(coverage=0.94 - 0.002 + step),  # on average a point below the level
        dict(bias=0.1 + 0.002 - step),  # that of the sample mean
        dict(well_pulled=(1.02 + 0.002 - step) / 2),
        dict(usable=0.9 + step),
    ]
    expected = "shrinkage" if margin > 0 else "sample_mean"
    for limit in limits:
        assert best_of(shrinkage=make_figures(mse=0.1, **limit)) == expected, limit


@pytest.mark.parametrize(("second", "expected"), [(0.9181, "shrinkage"), (0.9179, "sample_mean")])
def test_each_arm_has_a_limit_of_its_own(second, expected):
    """Three points below the level, less two standard errors; the average stays as it is."""
    figures = make_figures(mse=0.1)._replace(coverage=np.array([0.99, second]))
    assert best_of(shrinkage=figures) == expected


def test_without_the_sample_mean_there_is_nothing_to_compare_with():
    ones = np.ones(2)
    estimate = Estimate(method="shrinkage", mean=ones, stderr=ones, lower=-ones, upper=ones, status=0 * ones, diagnostics={})
    comparison = Comparison(estimates={"shrinkage": estimate}, reasons={}, pulls=np.array([9, 5]), level=0.95)
    known = dict(reasons={}, mean=ones, pulls=comparison.pulls, num_trials=200, level=0.95)
    assert best_evaluated(comparison, Evaluation(methods={"shrinkage": make_figures()}, **known)) is None


def test_methods_that_weight_paths_are_evaluated_where_they_are_named():
    ones = np.ones(2)
    make = lambda name, status=0: Estimate(
        method=name, mean=ones, stderr=ones, lower=-ones, upper=ones, status=np.array([0, status]), diagnostics={}
    )
    names = ("sample_mean", "propensity_weighting", "conditional_mle", "conditional_posterior", "shrinkage", "guarded_shrinkage")
    estimates = {name: make(name) for name in names} | {"mean_matching": make("mean_matching", int(Status.STILL_MOVING))}
    comparison = Comparison(estimates=estimates, reasons={}, pulls=np.array([9, 5]), level=0.95)
    assert set(to_evaluate(comparison)) == {"sample_mean", "shrinkage", "guarded_shrinkage"}
    named = to_evaluate(comparison, ["conditional_mle", "conditional_posterior", "propensity_weighting"])
    assert set(named) == {"sample_mean", "shrinkage", "guarded_shrinkage", "conditional_mle", "conditional_posterior"}
    unpulled = Comparison(estimates=estimates, reasons={}, pulls=np.array([9, 0]), level=0.95)
    assert "mean_matching" in to_evaluate(unpulled)  # an arm without a pull need not converge


def test_what_did_not_converge_is_not_recommended_and_no_method_may_be_better():
    assert best_of(["bias_corrected"], bias_corrected=make_figures(mse=0.1)) == "sample_mean"
    assert best_of(mean_matching=make_figures(mse=3.0)) == "sample_mean"
    bad = make_figures(mse=2.0, coverage=0.8)
    assert best_of(sample_mean=bad, mean_matching=make_figures(coverage=0.8)) is None


def test_a_log_is_evaluated_and_the_reason_says_so(monkeypatch):
    monkeypatch.setattr(limits, "EVALUATED_LOGS", (50, 60))
    history = jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.5], num_steps=16)
    frame = pd.DataFrame({"arm": history.arms, "reward": history.rewards})
    methods = ["sample_mean", "shrinkage", "mean_matching", "test_inversion"]
    found = jb.debias(jax.random.key(1), frame, jb.Greedy(), jb.Normal(sigma=1.0), methods=methods)
    assert found.evaluation is not None
    assert set(found.evaluation.methods) == set(methods)
    assert found.evaluation.num_trials == 60
    assert found.recommended.reason is Reason.EVALUATED
    errors = {name: figures.average_mse for name, figures in found.evaluation.methods.items()}
    assert found.recommended.evaluated.error == pytest.approx(np.sqrt(errors[found.recommended.method]))
    assert "on 60 logs simulated at these estimates" in describe_reason(found.recommended, found.labels)
    assert '"evaluation": {"methods": {"sample_mean"' in to_json(debias_document(found))
    assert "How does each method do on logs like this one?" in jb.reporting.render_report(found)
    without = jb.debias(jax.random.key(1), frame, jb.Greedy(), jb.Normal(sigma=1.0), methods=methods, evaluate=False)
    assert (without.evaluation, without.recommended.reason) == (None, Reason.PREFERRED)
