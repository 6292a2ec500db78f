"""The unbiased estimate: over all logs its expectation is the means; the chains agree with the enumeration."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.bias import exact_distribution

KEY = jax.random.key(1)


def log_with(pulls, successes):
    """A log with these pulls and successes, in any order, after one forced pull of each arm in turn."""
    rewards = [[1.0] * one + [0.0] * (number - one) for number, one in zip(pulls, successes, strict=True)]
    opening = [(arm, rewards[arm].pop()) for arm in range(len(pulls))]
    rest = [(arm, reward) for arm, left in enumerate(rewards) for reward in left]
    return zip(*(opening + rest), strict=True)


def logs_of(ends):
    """One log for each end of a trial."""
    columns = [list(log_with(*end)) for end in zip(ends.pulls, ends.successes, strict=True)]
    arms, rewards = (np.array(values) for values in zip(*columns, strict=True))
    return jb.History(arms=jnp.asarray(arms, jnp.int32), rewards=jnp.asarray(rewards), num_arms=ends.pulls.shape[1])


@pytest.mark.parametrize(
    ("name", "mean", "num_steps"),
    [
        *((name, (0.7, 0.4), 6) for name in ("greedy", "thompson", "exp3")),
        *(
            pytest.param(name, mean, 8, marks=pytest.mark.slow)
            for name, mean in itertools.product(POLICIES, ((0.7, 0.4), (0.7, 0.4, 0.15)))
        ),
    ],
)
def test_the_expectation_over_all_logs_is_the_means(name, mean, num_steps):
    """Bernoulli rewards: every end of a trial, with its probability."""
    policy = POLICIES[name]
    with jax.enable_x64(True):
        ends = exact_distribution(policy, np.array(mean), num_steps)
        estimate = jb.unbiased(KEY, logs_of(ends), policy, jb.Bernoulli())
        assert (np.asarray(estimate.diagnostics["orders"]) > 0).all()
        possible = ends.probability > 0
        np.testing.assert_allclose(ends.probability[possible] @ np.asarray(estimate.mean)[possible], mean, rtol=0, atol=1e-10)
