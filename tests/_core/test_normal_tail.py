"""The tail of the Normal distribution against SciPy's scaled complementary error function."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erfcx
from scipy.special import log_ndtr as reference

from jaxbias._core.normal_tail import FAR, hazard, log_ndtr, log_ndtr_near


@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-5), ("float64", 1e-12)])
def test_value_and_derivatives(dtype, error):
    """Far down, around the place where the way changes, and up to where nothing is left."""
    with jax.enable_x64(dtype == "float64"):
        value = np.concatenate([-np.geomspace(1e4, 8, 50), FAR + np.linspace(-1e-3, 1e-3, 7), np.linspace(-8, 5, 201)])
        exact = np.sqrt(2 / np.pi) / erfcx(-value / np.sqrt(2))
        slope = exact * (-value - exact)
        given = jnp.asarray(value, dtype)
        np.testing.assert_allclose(log_ndtr(given[value > -1e3]), reference(value[value > -1e3]), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(jax.vmap(jax.grad(log_ndtr))(given), exact, rtol=error)
        second = jax.vmap(jax.grad(jax.grad(log_ndtr)))(given)
        np.testing.assert_allclose(second[value > -100], slope[value > -100], rtol=0.01)
        assert np.isfinite(hazard(jnp.asarray([-1e30, 1e30], dtype))).all()


def test_the_faster_one_near_zero():
    with jax.enable_x64(True):
        value = np.linspace(FAR, 40, 2001)
        near, slope = jax.vmap(jax.value_and_grad(log_ndtr_near))(jnp.asarray(value))
        np.testing.assert_allclose(near, reference(value), atol=1e-8)
        np.testing.assert_allclose(slope, np.sqrt(2 / np.pi) / erfcx(-value / np.sqrt(2)), atol=1e-7)
