"""Beta posteriors in tables, against the integral state by state, and against themselves: the arms' chances add up to one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta

import jaxbias as jb
from jaxbias.policies.thompson import ArmStatistics

CASES = [(jb.BetaThompson(), (0, 1, 1, 0, 1, 1, 1)), (jb.BetaThompson(0.5, 2.0), (0, 1, 2, 2, 1, 2, 0))]


def tables_after(policy, arms, num_arms):
    pulls = np.zeros(num_arms, int)
    tables = policy.tables(num_arms, len(arms), policy.table_nodes(len(arms)), jnp.result_type(float))
    after = jax.jit(lambda tables, arm, pulls: tables.after(arm, pulls))  # one program for every step
    for arm in arms:
        tables = after(tables, jnp.int32(arm), jnp.int32(pulls[arm]))
        pulls[arm] += 1
    return tables, pulls


@pytest.mark.parametrize(("policy", "arms"), CASES, ids=["two", "three"])
def test_equal_the_integral_of_every_state(policy, arms, x64):
    num_arms = max(arms) + 1
    pulls = np.bincount(arms)
    order = np.arange(num_arms)[::-1]
    shape = tuple((pulls[order] + 1).tolist())
    successes = np.indices(shape).reshape(num_arms, -1)[np.argsort(order)]
    states = ArmStatistics(
        jnp.broadcast_to(jnp.asarray(pulls, jnp.int32), successes.T.shape), jnp.asarray(successes.T, jnp.result_type(float))
    )

    @jax.jit
    def all_three():
        tables, _ = tables_after(policy, arms, num_arms)
        by_grid = [tables.grid_log_prob(arm, shape, jnp.asarray(order, jnp.int32)) for arm in range(num_arms)]
        by_state = [tables.log_prob_at(arm, jnp.asarray(successes, jnp.int32)) for arm in range(num_arms)]
        return jax.vmap(policy.log_probs)(states), by_grid, by_state

    expected, by_grid, by_state = all_three()
    np.testing.assert_allclose(np.stack(by_grid, axis=1), expected, atol=1e-4)
    np.testing.assert_allclose(np.stack(by_state, axis=1), expected, atol=1e-4)
    np.testing.assert_allclose(np.exp(by_grid).sum(axis=0), 1, rtol=1e-11 if x64 else 1e-5)


def test_equal_scipy_to_nine_digits():
    with jax.enable_x64(True):
        policy = jb.BetaThompson(1.0, 2.0)
        successes = jnp.array([[3, 12], [7, 10]], jnp.int32)
        found = tables_after(policy, [0, 1] * 20, 2)[0].log_prob_at(0, successes)
        for place, (first, second) in enumerate([(3, 7), (12, 10)]):
            own, other = (beta(1 + count, 2 + 20 - count) for count in (first, second))
            expected = quad(lambda x, own=own, other=other: own.pdf(x) * other.cdf(x), 0, 1, epsabs=1e-13, epsrel=1e-12)[0]
            np.testing.assert_allclose(np.exp(found[place]), expected, rtol=1e-9)
