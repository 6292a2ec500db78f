"""Beta random numbers: their distribution, and that a draw does not depend on what is drawn beside it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jaxbias._core.gammas import beta
from jaxbias._core.randomness import flattened

NUMBER = 100_000


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize(("success", "failure"), [(0.3, 0.5), (0.7, 3.0), (1.0, 1.0), (2.0, 30.0), (50.0, 900.0), (3e3, 6e4)])
def test_the_distribution_is_beta(success, failure, flat):
    key = jax.random.key(1)
    shape = (NUMBER,)
    draws = beta(flattened(key) if flat else key, jnp.full(shape, success), jnp.full(shape, failure))
    draws = np.asarray(draws, np.float64)
    exact = stats.beta(success, failure)
    assert stats.kstest(draws, exact.cdf).pvalue > 1e-3
    assert abs(draws.mean() - exact.mean()) < 4 * exact.std() / np.sqrt(NUMBER)
    assert abs(draws.std() / exact.std() - 1) < 0.02


def test_successes_and_failures_are_independent_of_each_other_and_of_the_other_arms():
    keys = jax.vmap(flattened)(jax.random.split(jax.random.key(2), NUMBER))
    draws = np.asarray(jax.vmap(lambda key: beta(key, jnp.array([0.5, 2.0, 2.0]), jnp.array([0.5, 3.0, 3.0])))(keys))
    assert np.all(np.abs(np.corrcoef(draws.T)[np.triu_indices(3, 1)]) < 4 / np.sqrt(NUMBER))


def test_a_draw_is_the_same_alone_and_among_others():
    keys = jax.vmap(flattened)(jax.random.split(jax.random.key(3), 512))
    parameters = jnp.linspace(0.2, 40.0, 512 * 3).reshape(512, 3)
    together = jax.vmap(beta)(keys, parameters, parameters[::-1])
    for one in (0, 100, 511):
        alone = beta(keys[one], parameters[one], parameters[511 - one])
        np.testing.assert_allclose(together[one], alone, rtol=2e-6)
