import jax
import jax.numpy as jnp
import numpy as np

import jaxbias as jb


def test_statistics_of_one_and_of_a_batch():
    arms, rewards = jnp.array([[0, 1, 1], [1, 0, 0]]), jnp.array([[1.0, 2.0, 4.0], [5.0, 1.0, 2.0]])
    batch = jb.History(arms=arms, rewards=rewards, num_arms=3)
    np.testing.assert_array_equal(batch.statistics.pulls, [[1, 2, 0], [2, 1, 0]])
    np.testing.assert_array_equal(batch.statistics.mean, [[1.0, 3.0, 0.0], [1.5, 5.0, 0.0]])
    one = jax.tree.map(lambda leaf: leaf[0], batch)
    np.testing.assert_array_equal(one.statistics.mean, [1.0, 3.0, 0.0])
    assert one.num_steps == 3


def test_a_first_pull_is_forced_unless_said_otherwise():
    arms = jnp.array([1, 1, 0, 2, 0])
    history = jb.History(arms=arms, rewards=jnp.zeros(5), num_arms=3)
    np.testing.assert_array_equal(history.forced_steps, [True, False, True, True, False])
    said = jb.History(arms=arms, rewards=jnp.zeros(5), num_arms=3, forced=jnp.zeros(5, bool))
    assert not said.forced_steps.any()


def test_a_simulated_history_has_its_first_pulls_forced():
    history = jb.simulate(jax.random.key(0), jb.Thompson(), jb.Normal(), [0.0, 1.0, 2.0], num_steps=8, num_trials=5)
    np.testing.assert_array_equal(history.forced_steps, np.broadcast_to(np.arange(8) < 3, (5, 8)))
    np.testing.assert_array_equal(history.arms[:, :3], np.broadcast_to(np.arange(3), (5, 3)))


def test_a_million_rows_are_counted():
    arms = jnp.arange(1_000_000) % 200
    statistics = jb.History(arms=arms, rewards=jnp.ones(1_000_000), num_arms=200).statistics
    np.testing.assert_array_equal(statistics.pulls, np.full(200, 5000))
    np.testing.assert_array_equal(statistics.total, np.full(200, 5000.0))
