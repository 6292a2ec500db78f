"""Each kind of move leaves the distribution of logs as it is: over many simulated logs nothing is other on average after it."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.estimators.unbiased import estimator, grid_chains, own_draws
from jaxbias.estimators.unbiased.exchanges import exchange
from jaxbias.estimators.unbiased.grid import make_grid
from jaxbias.estimators.unbiased.orders import IMPOSSIBLE, Order, Setup, chosen_log_probs, read_log, read_order
from jaxbias.estimators.unbiased.resimulation import couple, insert
from jaxbias.estimators.unbiased.retiming import Size, retime, rewards_of
from jaxbias.history import check_history
from jaxbias.likelihood import statistics_before
from jaxbias.policies import check_policy
from tests.conftest import POLICIES

NUM_STEPS = 24
MOVES = {
    "exchange": exchange,
    "insert": partial(insert, width=NUM_STEPS),
    "couple": partial(couple, width=NUM_STEPS),
    "insert-narrowly": partial(insert, width=7),
    "couple-narrowly": partial(couple, width=7),
}


class LastReward:
    """Remembers the last reward of each arm: its state after a window depends on the order within."""

    def init(self, num_arms):
        return jnp.zeros(num_arms)

    def log_probs(self, state):
        return jax.nn.log_softmax(3 * state)

    def update(self, state, arm, reward):
        return jnp.where(jnp.arange(state.shape[0]) == arm, reward, state)


def looks_of(question, order):
    """What a policy could have left its mark on: rewards before a stay and before a change, and where the arms are."""
    same = order.arms[1:] == order.arms[:-1]
    early = order.arms[: NUM_STEPS // 2] == 0
    first = question.opening.T @ order.rewards
    before_stay = jnp.where(same, order.rewards[:-1], 0)
    others = [same, before_stay, before_stay[: NUM_STEPS // 2], early, jnp.where(early, order.rewards[: NUM_STEPS // 2], 0)]
    return jnp.concatenate([first, first**2, order.rewards[-1:], jnp.stack([jnp.mean(one) for one in others])])


def changes(policy, move, num_trials, sweeps=40, **design):
    """The differences that so many moves make, in standard errors of their average over the logs."""
    policy = check_policy(policy, 2)
    given = (jax.random.key(8), policy, jb.Normal(), [0.3, 0.0], NUM_STEPS, num_trials)
    logs = check_history(jb.simulate(*given, progress=False, **design))
    setup = Setup(policy=policy.for_steps(NUM_STEPS), stop=None, seen=logs.seen_steps)

    def one(key, log):
        question = estimator._ask(log, None)
        start = read_log(setup, question)
        end, _ = jax.lax.scan(lambda order, key: move(key, setup, question, order), start, jax.random.split(key, sweeps))
        return looks_of(question, end) - looks_of(question, start)

    found = np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(9), num_trials), logs), np.float64)
    error = found.std(axis=0) / np.sqrt(num_trials)
    assert (error > 0).any()
    return found.mean(axis=0)[error > 0] / error[error > 0]


def test_an_exchange_preserves_the_logs_of_a_policy_that_remembers_the_order():
    """With windows accepted each on its own, the rewards before a stay are 10 standard errors off."""
    assert np.max(np.abs(changes(LastReward(), exchange, 2000))) < 4


@pytest.mark.slow
@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("name", ["greedy-noisy", "epsilon-greedy", "last-reward"])
def test_every_move_preserves_the_logs(name, move):
    if name == "last-reward" and "narrowly" in move:
        pytest.skip("one window only for a policy with a state of its own")
    assert np.max(np.abs(changes({**POLICIES, "last-reward": LastReward()}[name], MOVES[move], 10_000))) < 4


@pytest.mark.slow
@pytest.mark.parametrize("name", ["greedy", "lil-ucb", "ucb1"])
@pytest.mark.parametrize("move", ["couple", "couple-narrowly"])
def test_couplings_preserve_the_logs_of_policies_without_noise(name, move):
    assert np.max(np.abs(changes(POLICIES[name], MOVES[move], 10_000))) < 4


@pytest.mark.slow
@pytest.mark.parametrize("move", ["exchange", "insert", "couple"])
def test_every_move_preserves_logs_in_batches(move):
    assert np.max(np.abs(changes(POLICIES["greedy-noisy"], MOVES[move], 10_000, batch_size=(1, 1, 6, 6, 10)))) < 4


@pytest.mark.parametrize("sums", [False, True], ids=["sets", "sums"])
def test_relocations_preserve_the_logs_of_thompson_sampling(sums):
    """Alone, from logs with draws given their arms."""
    policy, num_trials, mean = check_policy(jb.Thompson(), 3), 4000, [0.6, 0.3, 0.0]
    logs = check_history(jb.simulate(jax.random.key(8), policy, jb.Normal(), mean, NUM_STEPS, num_trials, progress=False))
    setup = Setup(policy=policy.for_steps(NUM_STEPS), stop=None, seen=None)

    def one(key, log):
        question = estimator._ask(log, jnp.ones(3) if sums else None)
        draws, _ = own_draws._start(jax.random.fold_in(key, 0), setup, question, 1)
        start = own_draws._read(setup, question, question.arms, question.rewards, draws[0])
        keys = jax.random.split(jax.random.fold_in(key, 1), 60)
        end, taken = jax.lax.scan(lambda state, key: own_draws._relocate(key, setup, question, state), start, keys)
        looks = lambda state: jnp.concatenate(
            [looks_of(question, state), jnp.array([jnp.mean(state.draws), jnp.std(state.draws)])]
        )
        return looks(end) - looks(start), jnp.mean(taken)

    found, taken = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(9), num_trials), logs)
    found = np.asarray(found, np.float64)
    error = found.std(axis=0) / np.sqrt(num_trials)
    assert 0.05 < np.mean(taken) < 0.9
    assert np.max(np.abs(found.mean(axis=0)[error > 0] / error[error > 0])) < 4


def times_anew(key, setup, question, grid, state, size):
    """Of an arm at random."""
    which, key = jax.random.split(key)
    arm = jax.random.randint(which, (), 0, len(question.pulls), jnp.int32)
    return retime(key, setup, question, grid, state, arm, size)


def exchanges_given_draws(key, setup, question, grid, state, width):
    draw, key = jax.random.split(key)
    largest = grid_chains.draw_largest(draw, setup, question, grid, state)
    return grid_chains.exchange(key, setup, question, state, largest, width)[0]


GRID_MOVES = {
    "times": partial(times_anew, size=Size(steps=NUM_STEPS, pulls=12, orders=4)),
    "times-narrowly": partial(times_anew, size=Size(steps=9, pulls=3, orders=3)),
    "exchanges": partial(exchanges_given_draws, width=NUM_STEPS),
    "exchanges-narrowly": partial(exchanges_given_draws, width=7),
}


@pytest.mark.parametrize("sums", [False, True], ids=["sets", "sums"])
@pytest.mark.parametrize("name", [name if "times" in name else pytest.param(name, marks=pytest.mark.slow) for name in GRID_MOVES])
def test_moves_on_a_grid_preserve_the_logs_of_thompson_sampling(name, sums):
    policy, num_trials, mean = check_policy(jb.Thompson(), 3), 2000, [0.6, 0.3, 0.0]
    logs = check_history(jb.simulate(jax.random.key(8), policy, jb.Normal(), mean, NUM_STEPS, num_trials, progress=False))
    setup = Setup(policy=policy.for_steps(NUM_STEPS), stop=None, seen=None)

    def one(key, log):
        question = estimator._ask(log, jnp.ones(3) if sums else None)
        grid, start = make_grid(policy, question), grid_chains.start_of(question)
        move = lambda state, key: (GRID_MOVES[name](key, setup, question, grid, state), None)
        end, _ = jax.lax.scan(move, start, jax.random.split(key, 8))

        def looks(state):
            rewards = rewards_of(question, state)
            return looks_of(question, Order(state.arms, rewards, rewards[:, None]))

        return looks(end) - looks(start), jnp.mean(end.by_arm != start.by_arm), jnp.mean(end.arms != start.arms)

    keys = jax.random.split(jax.random.key(9), num_trials)
    found, rewards, arms = jax.jit(lambda *given: jax.lax.map(lambda one_of: one(*one_of), given, batch_size=50))(keys, logs)
    found = np.asarray(found, np.float64)
    error = found.std(axis=0) / np.sqrt(num_trials)
    assert np.mean(rewards) > 0.1
    assert ("times" in name) == (np.mean(arms) > 0.1)
    assert np.max(np.abs(found.mean(axis=0)[error > 0] / error[error > 0])) < 4


def test_a_grid_has_the_probabilities_of_thompson_sampling():
    """Along a log of 1,000 steps: to a few units of float32, with nodes much further apart than the closed form needs."""
    policy = check_policy(jb.Thompson(), 10)
    log = jb.simulate(jax.random.key(5), policy, jb.Normal(), np.linspace(1, 0, 10), 1000, progress=False)
    log = check_history(log)
    question, setup = estimator._ask(log, None), Setup(policy=policy, stop=None, seen=None)
    found = jnp.sum(
        grid_chains.largest_draws(setup, question, make_grid(policy, question), grid_chains.start_of(question)), axis=1
    )
    expected = jax.vmap(policy.log_prob)(statistics_before(log.arms, log.rewards, 10), log.arms)
    np.testing.assert_allclose(jnp.log(found)[10:], expected[10:], rtol=0, atol=3e-5)


def test_a_choice_that_only_rounding_makes_impossible_is_possible(monkeypatch):
    """Greedy pulls the arm that is behind by one unit in the last place; behind by a thousandth, the log is not its own."""
    monkeypatch.setattr(estimator, "MOST_ORDERS", 0)
    arms, rest = [0, 1, 0, 0, 1, 1, 1, 1], [0.9, -1.0, 0.8, 0.7, 0.6, 0.5]
    behind = np.float32(0.7), np.nextafter(np.float32(0.7), np.float32(1))
    rewards = jnp.array([[*behind, *rest], [0.7, 0.701, *rest]], jnp.float32)
    logs = jb.History(arms=jnp.array([arms, arms]), rewards=rewards, num_arms=2)
    found = np.isfinite(jb.unbiased(jax.random.key(1), logs, jb.Greedy(), num_chains=2, num_rounds=20).mean)
    assert found.tolist() == [[True, True], [False, False]]


@pytest.mark.slow
def test_long_logs_of_a_policy_without_noise_are_possible():
    """At T = 3,000 rounding changes a choice in one log of twelve; a changed choice elsewhere is still seen."""
    policy, num_steps = check_policy(jb.LilUCB(), 3), 3000
    logs = jb.simulate(jax.random.key(3), policy, jb.Normal(), [1.0, 0.75, 0.5], num_steps, 200, progress=False)
    setup = Setup(policy=policy.for_steps(num_steps), stop=None, seen=None)

    def possible(log):
        question = estimator._ask(log, None)
        is_possible = lambda question, order: jnp.min(chosen_log_probs(question, order)) > IMPOSSIBLE
        wrong = question._replace(arms=question.arms.at[100].set((question.arms[100] + 1) % 3))
        plain = read_order(setup, question, question.arms, question.rewards)
        return (
            is_possible(question, plain),
            is_possible(question, read_log(setup, question)),
            is_possible(wrong, read_log(setup, wrong)),
        )

    plain, read, wrong = jax.jit(lambda logs: jax.lax.map(possible, logs, batch_size=50))(check_history(logs))
    assert not plain.all()
    assert read.all()
    assert wrong.mean() < 0.05
