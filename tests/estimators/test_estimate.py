"""What every estimator returns: which status comes first, and which of them are relied on."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxbias as jb
from jaxbias.estimators.estimate import first_status, status_by_pulls

RELIABLE = {jb.Status.CONVERGED, jb.Status.AT_EDGE}


def test_the_first_status_that_is_true_is_given():
    first, second = jnp.array([False, True, False, True]), jnp.array([False, False, True, True])
    found = first_status({jb.Status.STILL_MOVING: first, jb.Status.NOT_FINITE: second})
    assert found.dtype == jnp.int32
    assert [jb.Status(int(number)) for number in found] == [
        jb.Status.CONVERGED,
        jb.Status.STILL_MOVING,
        jb.Status.NOT_FINITE,
        jb.Status.STILL_MOVING,
    ]


def test_averages_over_pulls():
    """In the order in which they are asked: no pull, too few, not finite, no spread."""
    pulls = jnp.array([0, 1, 5, 5, 5, 5, 2])
    mean = jnp.array([jnp.nan, 1.0, 1.0, jnp.inf, 1.0, 1.0, 1.0])
    stderr = jnp.array([jnp.nan, jnp.nan, jnp.nan, 1.0, 0.0, 0.5, 0.5])
    kinds = jb.Status
    expected = [kinds.NEVER_PULLED, kinds.TOO_FEW_PULLS, kinds.TOO_FEW_PULLS, kinds.NOT_FINITE, kinds.NO_SPREAD]
    assert status_by_pulls(pulls, mean, stderr).tolist() == [*expected, kinds.CONVERGED, kinds.CONVERGED]
    assert status_by_pulls(pulls, mean, stderr, fewest=3).tolist() == [*expected, kinds.CONVERGED, kinds.TOO_FEW_PULLS]


def test_which_figures_are_reliable():
    """Those that converged, and those at the edge of the range; also inside jit, and for several logs."""
    status = jnp.array([int(status) for status in jb.Status], jnp.int32)
    nothing = jnp.zeros(status.shape)
    estimate = jb.Estimate(
        method="sample_mean", mean=nothing, stderr=nothing, lower=nothing, upper=nothing, status=status, diagnostics={}
    )
    expected = [status in RELIABLE for status in jb.Status]
    assert estimate.converged.tolist() == expected
    assert jax.jit(lambda estimate: estimate.converged)(estimate).tolist() == expected
    many = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), estimate)
    np.testing.assert_array_equal(many.converged, [expected, expected])
    assert many.method == "sample_mean"
