"""What remains of log Gamma beside Stirling's formula, against the standard library."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxbias._core.binomial import stirling_error


@pytest.mark.parametrize(("x64", "tolerance"), [(True, 2e-11), (False, 5e-6)])
def test_stirling_error_is_that_of_log_gamma(x64, tolerance):
    values = np.concatenate([np.logspace(-3, 1, 200), np.linspace(7.9, 8.1, 21), [20.0, 100.0]])
    stirling = lambda x: (x - 0.5) * math.log(x) - x + math.log(2 * math.pi) / 2
    with jax.enable_x64(x64):
        given = jnp.asarray(values)
        exact = [math.lgamma(x) - stirling(x) for x in np.asarray(given, np.float64)]
        np.testing.assert_allclose(stirling_error(given), exact, atol=tolerance, rtol=0)
