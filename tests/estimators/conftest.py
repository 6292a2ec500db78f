"""What the tests of several estimators share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxbias.likelihood import selection_log_probs


@pytest.fixture(scope="session")
def maximum():
    return quadrature_maximum


def quadrature_maximum(policy, arms, rewards, sigma, points=16):
    """The maximum of the conditional likelihood: Newton on score and information from Gauss-Hermite quadrature, in NumPy."""
    size, forced = len(arms), jnp.asarray([arm not in arms[:step] for step, arm in enumerate(arms)])
    nodes, weights = np.polynomial.hermite_e.hermegauss(points)
    nodes = np.stack(np.meshgrid(*[nodes] * size, indexing="ij"), axis=-1).reshape(-1, size) * np.asarray(sigma)[arms]
    weights = np.prod(np.stack(np.meshgrid(*[weights] * size, indexing="ij"), axis=-1).reshape(-1, size), axis=1)
    traced = jnp.asarray(arms, jnp.int32)
    log_probs = jax.jit(jax.vmap(lambda rewards: jnp.sum(selection_log_probs(policy, traced, rewards, forced, len(sigma)))))
    chosen = (arms[:, None] == np.arange(len(sigma))) / np.square(sigma)
    mean = np.array([rewards[arm == arms].mean() for arm in range(len(sigma))])
    for _ in range(12):
        values = nodes + mean[arms]
        weight = weights * np.exp(np.asarray(log_probs(jnp.asarray(values, float)), float))
        weight = weight / weight.sum()
        statistic = values @ chosen
        average = weight @ statistic
        information = (statistic - average).T @ (weight[:, None] * (statistic - average))
        mean = mean + np.linalg.solve(information, rewards @ chosen - average)
    return mean
