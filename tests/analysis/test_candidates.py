"""What is simulated to evaluate the candidates: at whose means, with which sigma, for which methods."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.analysis import candidates
from jaxbias.analysis.limits import EVALUATION_PATHS
from jaxbias.estimators.compare import Comparison
from jaxbias.estimators.estimate import Estimate
from jaxbias.evaluation import Evaluation

KEY = jax.random.key(0)
LOG = jb.History(arms=jnp.array([0, 1, 0, 0, 1]), rewards=jnp.array([1.0, 0.0, 1.0, 1.0, 0.0]), num_arms=2)


@pytest.fixture
def asked(monkeypatch):
    """The arguments of the evaluation, which is not run."""
    calls, nothing = [], Evaluation(methods={}, reasons={}, mean=np.zeros(2), pulls=np.ones(2), num_trials=0, level=0.9)

    def evaluate_like(*given, **named):
        calls.append((given, named))
        return nothing

    monkeypatch.setattr(candidates, "evaluate_like", evaluate_like)
    return calls


def make_comparison(means, level=0.9, **diagnostics):
    make = lambda name, mean: Estimate(
        method=name, mean=np.array(mean), stderr=None, lower=None, upper=None, status=None, diagnostics=diagnostics
    )
    estimates = {name: make(name, mean) for name, mean in means.items()}
    return Comparison(estimates=estimates, reasons={}, pulls=np.array([3, 2]), level=level)


def test_logs_are_simulated_at_the_estimates_of_each_method_inside_the_range(asked):
    comparison = make_comparison({"sample_mean": [1.0, 0.0], "shrinkage": [0.8, 0.3], "data_splitting": [0.5, 0.5]})
    rule = jb.StopAtDifference(threshold=1.0)
    given = (KEY, LOG, jb.Greedy(), jb.Bernoulli(), comparison, ["shrinkage", "sample_mean"], 60)
    candidates.evaluate_candidates(*given, stop=rule, num_steps=9)
    ((key, log, policy, family, points), named) = asked[0]
    assert (key is KEY, log is LOG, policy, family) == (True, True, jb.Greedy(), jb.Bernoulli())
    half = [0.5 / 4, 0.5 / 3]  # of a pull more than each arm had
    np.testing.assert_allclose(points, [[0.8, 0.3], [1 - half[0], half[1]]])
    assert named["methods"] == ["sample_mean", "shrinkage"]  # each once, and the sample mean in any case
    assert (named["num_trials"], named["level"], named["num_paths"]) == (60, 0.9, EVALUATION_PATHS)
    assert (named["stop"], named["num_steps"], named["assumed"]) == (rule, 9, jb.Bernoulli())


def test_normal_means_have_no_range_and_the_sample_mean_is_evaluated_too(asked):
    comparison = make_comparison({"shrinkage": [9.0, -9.0]})
    candidates.evaluate_candidates(KEY, LOG, jb.Greedy(), jb.Normal(sigma=2.0), comparison, ["shrinkage"], 60)
    (given, named) = asked[0]
    np.testing.assert_array_equal(given[4], [[9.0, -9.0]])
    assert named["methods"] == ["sample_mean", "shrinkage"]


def test_a_sigma_that_is_not_known_is_simulated_at_its_estimate(asked):
    family = jb.rewards.UnknownSigma()
    rewards = jnp.array([1.0, 0.0, 2.0, 3.0, 1.0])
    log = jb.History(arms=LOG.arms, rewards=rewards, num_arms=2)
    within = make_comparison({"mean_matching": [2.0, 0.5], "shrinkage": [1.5, 0.7]})
    methods = ["mean_matching", "shrinkage"]
    candidates.evaluate_candidates(KEY, log, jb.Greedy(), family, within, methods, 60)
    expected = np.sqrt((1 + 0 + 1 + 0.25 + 0.25) / 3)  # squares within arms over the degrees of freedom
    assert float(asked[0][0][3].sigma) == pytest.approx(expected, rel=1e-5)
    assert asked[0][1]["assumed"] is family
    own = make_comparison({"mean_matching": [2.0, 0.5], "shrinkage": [1.5, 0.7]}, sigma=np.float64(3.0))
    candidates.evaluate_candidates(KEY, log, jb.Greedy(), family, own, methods, 60)
    assert float(asked[1][0][3].sigma) == 3.0
