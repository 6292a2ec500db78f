"""Quantiles, against SciPy, and the intervals made of them: plus and minus, for bounded means, and at the edge of the range."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats

import jaxbias as jb
from jaxbias.estimators.estimate import Estimate, Status
from jaxbias.estimators.intervals import bounded_interval, clip_to_family, edge_interval, normal_quantile, student_quantile, wald

LEVELS = [0.1, 0.5, 0.9, 0.95, 0.99, 0.999]
FREEDOM = np.concatenate([np.arange(1, 131), [1_000, 100_000, 2**30]])


def estimate_of(mean, stderr, level=0.95, freedom=None):
    return wald("sample_mean", mean, stderr, level, jnp.zeros(mean.shape, jnp.int32), {}, freedom)


def test_quantiles_of_the_normal_distribution():
    for level in LEVELS:
        np.testing.assert_allclose(normal_quantile(level), scipy.stats.norm.ppf((1 + level) / 2), rtol=1e-9)


def test_quantiles_of_student(x64):
    """From the table, and beyond it by the expansion."""
    for level in LEVELS:
        expected = scipy.stats.t.ppf((1 + level) / 2, FREEDOM)
        found = student_quantile(level, jnp.asarray(FREEDOM), jnp.result_type(float))
        assert found.dtype == jnp.result_type(float)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        np.testing.assert_allclose(found[:64], expected[:64], rtol=1e-12 if x64 else 1e-6)
        assert np.isnan(student_quantile(level, jnp.array([0, -1]), jnp.float32)).all()


def test_traced_degrees_of_freedom():
    """As inside a compiled estimator, where SciPy's own function cannot be called."""
    traced = jax.jit(lambda freedom: student_quantile(0.95, freedom, jnp.float32))(jnp.asarray(FREEDOM))
    np.testing.assert_allclose(traced, scipy.stats.t.ppf(0.975, FREEDOM), rtol=1e-6)


def test_plus_and_minus():
    mean, stderr = jnp.array([[1.0, 2.0], [3.0, -1.0]]), jnp.array([[0.5, 1.0], [2.0, 0.1]])
    plain, student = estimate_of(mean, stderr, 0.9), estimate_of(mean, stderr, 0.9, freedom=jnp.array([[3, 70], [1, 5]]))
    np.testing.assert_allclose(plain.upper - mean, scipy.stats.norm.ppf(0.95) * stderr, rtol=1e-5)
    np.testing.assert_allclose(mean - plain.lower, scipy.stats.norm.ppf(0.95) * stderr, rtol=1e-5)
    np.testing.assert_allclose(student.upper - mean, scipy.stats.t.ppf(0.95, [[3, 70], [1, 5]]) * stderr, rtol=1e-5)


def test_bounded_means():
    """On the scale of the log-odds, of the logarithm, and of the means themselves."""
    mean, stderr, z = jnp.array([0.2, 0.7]), jnp.array([0.1, 0.05]), 1.959964
    logit, expit = scipy.special.logit, scipy.special.expit
    for ends, sign in zip(bounded_interval(jb.Bernoulli(), mean, stderr, 0.95), (-1, 1), strict=True):
        np.testing.assert_allclose(ends, expit(logit(mean) + sign * z * stderr / (mean * (1 - mean))), rtol=1e-5)
    for ends, sign in zip(bounded_interval(jb.Poisson(), mean, stderr, 0.95), (-1, 1), strict=True):
        np.testing.assert_allclose(ends, mean * np.exp(sign * z * stderr / mean), rtol=1e-5)
    for ends, sign in zip(bounded_interval(jb.Normal(), mean, stderr, 0.95), (-1, 1), strict=True):
        np.testing.assert_allclose(ends, mean + sign * z * stderr, atol=1e-6)


def test_at_the_edge_of_the_range():
    """All failures, all successes, both, and an arm without a pull: at the bound, what was seen has a chance of 5%."""
    observed, pulls = jnp.array([0.0, 1.0, 0.5, 0.0]), jnp.array([4, 3, 2, 0])
    edge = edge_interval(jb.Bernoulli(), observed, pulls, 0.95)
    assert edge.at_edge.tolist() == [True, True, False, False]
    assert (float(edge.lower[0]), float(edge.upper[1])) == (0, 1)
    np.testing.assert_allclose((1 - edge.upper[0]) ** 4, 0.05, rtol=1e-5)
    np.testing.assert_allclose(edge.lower[1] ** 3, 0.05, rtol=1e-5)
    poisson = edge_interval(jb.Poisson(), jnp.array([0.0, 1.0]), jnp.array([3, 3]), 0.95)
    np.testing.assert_allclose(np.exp(-3 * poisson.upper[0]), 0.05, rtol=1e-5)
    assert poisson.at_edge.tolist() == [True, False]
    assert edge_interval(jb.Normal(), observed, pulls, 0.95) is None
    assert edge_interval(jb.Exponential(), observed, pulls, 0.95) is None


def test_the_one_sided_bound_holds_whatever_the_policy():
    """The mean is beyond the bound in 5% of all logs at most, however often the policy went back to an arm that failed."""
    mean, policy = [0.35, 0.5], jb.EpsilonGreedy(epsilon=0.8)
    history = jb.simulate(jax.random.key(5), policy, jb.Bernoulli(), mean, num_steps=16, num_trials=20_000)
    statistics = history.statistics
    edge = edge_interval(jb.Bernoulli(), statistics.mean, statistics.pulls, 0.95)
    missed = np.asarray(edge.at_edge) & ((np.asarray(edge.upper) < mean) | (np.asarray(edge.lower) > mean))
    assert (missed.mean(axis=0) < 0.05).all()
    assert missed.any()  # so that a bound that is too low would be noticed


def test_a_mean_outside_the_range_is_cut_and_not_believed():
    mean, half = jnp.array([1.2, 0.5, jnp.nan]), jnp.array([0.3, 0.7, jnp.nan])
    status = jnp.array([Status.CONVERGED, Status.CONVERGED, Status.NEVER_PULLED], jnp.int32)
    ends = dict(lower=mean - half, upper=mean + half)
    found = clip_to_family(Estimate(method="x", mean=mean, stderr=half, status=status, diagnostics={}, **ends), jb.Bernoulli())
    np.testing.assert_allclose(found.mean, [1.0, 0.5, np.nan])
    np.testing.assert_allclose(found.lower, [0.9, 0.0, np.nan], rtol=1e-6)
    np.testing.assert_allclose(found.upper, [1.0, 1.0, np.nan])
    assert found.status.tolist() == [Status.OUT_OF_RANGE, Status.CONVERGED, Status.NEVER_PULLED]
