"""Which method is recommended, on comparisons that are made up."""

import dataclasses

import numpy as np
import pytest

import jaxbias as jb
from jaxbias.analysis.few_pulls import find_few_pulls
from jaxbias.analysis.findings import Reason, WeightingLoss
from jaxbias.analysis.recommendation import recommend
from jaxbias.estimators.compare import Comparison
from jaxbias.estimators.estimate import Estimate, Status
from jaxbias.policy_fit.check import PolicyFit

PULLS = np.array([40, 10, 3, 0])


def make_estimate(method, converged=(True, True, True, False), **diagnostics):
    mean = np.array([0.3, 0.2, 0.1, np.nan])
    half = np.array([0.1, 0.2, 0.4, np.nan])
    return Estimate(
        method=method,
        mean=mean,
        stderr=half / 2,
        lower=mean - half,
        upper=mean + half,
        status=np.where(converged, Status.CONVERGED, Status.STILL_MOVING),
        diagnostics={name: np.asarray(value) for name, value in diagnostics.items()},
    )


def make_comparison(*methods, **estimates):
    every = {method: make_estimate(method) for method in methods} | estimates
    return Comparison(estimates=every, reasons={}, pulls=PULLS, level=0.95)


def make_fit(verdict="fits"):
    numbers = dict(log_prob=0.0, expected=0.0, deviation=0.0, p_value=1.0, calibration_p_value=1.0)
    rows = dict(simulated=np.zeros(1), calibration=(), choices=1, impossible=0, surprises=())
    return PolicyFit(verdict=verdict, **numbers, **rows)


def test_the_most_preferred_method_that_converged():
    every = ("sample_mean", "data_splitting", "adaptive_weighting", "conditional_mle", "mean_matching", "confidence_sequence")
    found = recommend(make_comparison(*every), jb.Greedy(), make_fit())
    assert (found.method, found.reason, found.corrects) == ("mean_matching", Reason.PREFERRED, True)
    assert found.tried == ("mean_matching", "conditional_mle", "adaptive_weighting", "data_splitting")
    assert (found.least_pulls, found.few_pulls, found.weighting_loss) == (3, (2,), None)
    guarded = recommend(make_comparison(*every, "guarded_shrinkage"), jb.Greedy(), make_fit())
    assert (guarded.method, guarded.tried[:2]) == ("guarded_shrinkage", ("guarded_shrinkage", "mean_matching"))
    apart = make_estimate("mean_matching", converged=(True, False, True, False))
    assert recommend(make_comparison(*every, mean_matching=apart), jb.Greedy(), make_fit()).method == "conditional_mle"


def test_what_propensity_weighting_would_lose():
    weighting = make_estimate("propensity_weighting", effective_sample_size=[39.0, 4.0, 2.0, np.nan])
    found = recommend(make_comparison("mean_matching", propensity_weighting=weighting), jb.Greedy(), make_fit())
    assert found.weighting_loss == WeightingLoss(arm=1, pulls=10, effective=4.0)
    little = make_estimate("propensity_weighting", effective_sample_size=[39.0, 9.9, 3.0, np.nan])
    assert (
        recommend(make_comparison("mean_matching", propensity_weighting=little), jb.Greedy(), make_fit()).weighting_loss is None
    )


@pytest.mark.parametrize(
    ("methods", "fit", "method", "reason", "corrects"),
    [
        (("sample_mean", "mean_matching", "confidence_sequence"), None, "confidence_sequence", Reason.POLICY_UNKNOWN, False),
        (("sample_mean", "batched_ols"), None, "sample_mean", Reason.POLICY_UNKNOWN, False),
        (("sample_mean", "data_splitting"), None, "data_splitting", Reason.POLICY_UNKNOWN, True),
        (("sample_mean", "mean_matching"), "unlikely", "sample_mean", Reason.POLICY_DOES_NOT_FIT, False),
        (("mean_matching",), "impossible", "mean_matching", Reason.POLICY_DOES_NOT_FIT, False),
        (("propensity_weighting", "sample_mean"), "fits", "sample_mean", Reason.NONE_TRIED, False),
    ],
)
def test_without_a_policy_that_can_be_relied_on(methods, fit, method, reason, corrects):
    found = recommend(make_comparison(*methods), jb.Greedy(), None if fit is None else make_fit(fit))
    assert (found.method, found.reason, found.corrects) == (method, reason, corrects)


def test_the_means_of_shrinkage_beside_intervals_that_hold_at_every_step():
    found = lambda *methods, **estimates: recommend(make_comparison(*methods, **estimates), jb.Greedy(), None)
    assert found("confidence_sequence", "shrinkage").means_from == "shrinkage"
    assert found("sample_mean", "shrinkage").means_from is None  # it has means of its own
    assert found("confidence_sequence").means_from is None
    apart = make_estimate("shrinkage", converged=(True, False, True, False))
    assert found("confidence_sequence", shrinkage=apart).means_from is None


def test_where_no_preferred_method_converged():
    apart = {name: make_estimate(name, converged=(False,) * 4) for name in ("mean_matching", "conditional_mle")}
    found = recommend(make_comparison("sample_mean", **apart), jb.Greedy(), make_fit())
    assert (found.method, found.reason) == ("sample_mean", Reason.NONE_CONVERGED)
    assert found.tried == ("mean_matching", "conditional_mle")


def test_nothing_to_correct_where_the_rewards_were_not_looked_at():
    found = recommend(make_comparison("sample_mean", "mean_matching"), jb.Uniform(), make_fit())
    assert (found.method, found.reason, found.corrects) == ("sample_mean", Reason.NOTHING_TO_CORRECT, True)


def test_few_pulls_are_a_finding_of_rewards_of_0_and_1():
    comparison = make_comparison("sample_mean", "confidence_sequence")
    found = find_few_pulls(comparison, jb.Bernoulli())
    assert (found.total, found.weakest, found.pulls, found.rival) == (53, 2, 3, 0)
    assert [bound.arm for bound in found.shown] == [0]  # the lower end of arm 1 is 0
    assert (found.lower, found.upper) == pytest.approx((-0.3, 0.5))
    assert (found.lead_lower, found.lead_upper) == pytest.approx((0.2 - 0.5, 0.4 + 0.3))
    assert find_few_pulls(comparison, jb.Normal()) is None
    assert find_few_pulls(make_comparison("sample_mean"), jb.Bernoulli()) is None
    enough = dataclasses.replace(comparison, pulls=np.array([40, 10, 5, 0]))
    assert find_few_pulls(enough, jb.Bernoulli()) is None
