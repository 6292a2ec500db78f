"""Does the drift check find a change, and only then? The regression against NumPy, and levels under adaptive policies."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import jaxbias as jb
from jaxbias._core.randomness import root_words, trial_words
from jaxbias.analysis.drift import (
    Slopes,
    _judge,
    _simulate,
    _slopes,
    _slopes_of_batches,
    _times,
    check_drift,
    find_drift,
)
from jaxbias.reporting.documents import debias_document
from jaxbias.reporting.drift import drift_document, drift_sentence
from jaxbias.reporting.page import render_report
from jaxbias.simulation.batches import BatchSums
from jaxbias.simulation.paths import design_of, simulate_logs

MEAN, STEPS = np.array([1.0, 0.75, 0.5]), 200
POLICIES = {"lil-ucb": jb.LilUCB(), "thompson": jb.Thompson(), "greedy": jb.Greedy()}


def drifting_logs(policy, number, change):
    """Logs in which every mean rises by `change` from the first step to the last; the policy sees the rewards as they are."""

    def one(key):
        def step(state, place):
            choice, reward_key = jax.random.split(jax.random.fold_in(key, place))
            arm = jnp.where(place < len(MEAN), place, policy.sample(choice, state)).astype(jnp.int32)
            mean = jnp.asarray(MEAN, jnp.float32)[arm] + change * place.astype(jnp.float32) / (STEPS - 1)
            reward = mean + jax.random.normal(reward_key)
            return policy.update(state, arm, reward), (arm, reward)

        return jax.lax.scan(step, policy.init(len(MEAN)), jnp.arange(STEPS))[1]

    arms, rewards = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(3), number))
    return [jb.History(arms=arms[row], rewards=rewards[row], num_arms=len(MEAN)) for row in range(number)]


def p_values(policy, logs, num_trials=511):
    found = []
    for number, log in enumerate(logs):
        mean = jb.shrinkage(log, jb.Normal()).mean
        key = jax.random.fold_in(jax.random.key(7), number)
        found.append(check_drift(key, log, policy, jb.Normal(), mean, num_trials=num_trials).overall)
    return np.array(found)


def test_slopes_are_those_of_least_squares():
    rng = np.random.default_rng(0)
    arms, rewards = rng.integers(0, 3, 60), rng.normal(size=60)
    time = _times(None, 60)
    found = _slopes(jnp.asarray(arms), jnp.asarray(rewards, jnp.float32), jnp.asarray(time, jnp.float32), 4)
    for arm in range(3):
        slope = np.polyfit(time[arms == arm], rewards[arms == arm], 1)[0]
        assert found.cross[arm] / found.squares[arm] == pytest.approx(slope, rel=1e-3)
    assert (float(found.cross[3]), float(found.squares[3])) == (0, 0)
    np.testing.assert_allclose(_times((2, 1, 3), 6) * 5, [0, 0, 2, 3, 3, 3])
    assert _times((2, 2), 6)[-1] == pytest.approx(2 / 5)  # beyond the log, where a rule stopped it


def test_the_p_value_is_the_rank_among_simulated_logs():
    """One arm: with 99 simulated statistics 1 to 99 and the log's at 200, no other is as extreme."""
    simulated = Slopes(cross=np.arange(1.0, 100)[:, None], squares=np.ones((99, 1)))
    found = _judge(Slopes(cross=np.array([200.0]), squares=np.ones(1)), simulated, np.ones(1))
    assert (found.overall, found.p_value[0], found.num_trials) == (0.01, 0.02, 99)
    middle = _judge(Slopes(cross=np.array([50.5]), squares=np.ones(1)), simulated, np.ones(1))
    assert middle.overall > 0.9
    assert (middle.change[0], middle.common_stderr) == (50.5, 1.0)


def test_a_change_is_found_and_none_is_not():
    policy = POLICIES["thompson"]
    assert np.mean(p_values(policy, drifting_logs(policy, 8, 1.5)) < 0.05) > 0.6
    assert np.mean(p_values(policy, drifting_logs(policy, 8, 0.0)) < 0.05) < 0.3


def test_in_an_analysis_with_its_sentence_and_document():
    policy = POLICIES["thompson"]
    log = drifting_logs(policy, 1, 3.0)[0]
    frame = pd.DataFrame({"arm": np.array(["A", "B", "C"])[np.asarray(log.arms)], "reward": np.asarray(log.rewards)})
    methods = ["sample_mean", "shrinkage"]
    analysis = jb.debias(jax.random.key(0), frame, policy, jb.Normal(), methods=methods, evaluate=False)
    assert analysis.drift is not None
    assert analysis.drift.overall < 0.05
    assert "change over time beyond chance" in drift_sentence(analysis)
    document = drift_document(analysis.drift, analysis.labels)
    assert document["common"]["change"] == pytest.approx(3.0, abs=4 * document["common"]["stderr"])
    assert [one["arm"] for one in document["arms"]] == ["A", "B", "C"]
    assert 'id="drift"' in render_report(analysis)
    assert debias_document(analysis)["drift"] == document
    short = jb.simulate(jax.random.key(0), policy, jb.Normal(), MEAN, num_steps=50)
    assert find_drift(jax.random.key(0), short, policy, jb.Normal(), MEAN, True) is None
    assert find_drift(jax.random.key(0), log, None, jb.Normal(), MEAN, False) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_false_alarms_under_adaptive_policies(name):
    """300 logs without a change: 5% of alarms, within 3 standard errors."""
    share = np.mean(p_values(POLICIES[name], drifting_logs(POLICIES[name], 300, 0.0), 255) <= 0.05)
    assert share < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)


def test_sums_of_batches_give_the_slopes_of_their_rows():
    rng = np.random.default_rng(1)
    sizes, mean = (3, 4, 5, 8), np.array([2.0, 3.0, 5.0])
    batch = np.repeat(np.arange(4), sizes)
    arms, rewards = rng.integers(0, 3, (6, 20)), 4 + rng.normal(size=(6, 20))
    pulls, total = np.zeros((6, 4, 3)), np.zeros((6, 4, 3))
    for path in range(6):
        np.add.at(pulls[path], (batch, arms[path]), 1)
        np.add.at(total[path], (batch, arms[path]), rewards[path])
    time = _times(sizes, 20)
    starts = np.cumsum([0, *sizes[:-1]])
    with jax.enable_x64(True):
        found = _slopes_of_batches(
            BatchSums(jnp.asarray(pulls), jnp.asarray(total)), jnp.asarray(time[starts]), jnp.asarray(mean)
        )
        for path in range(6):
            rows = _slopes(jnp.asarray(arms[path]), jnp.asarray(rewards[path]), jnp.asarray(time), 3)
            np.testing.assert_allclose(found.squares[path], rows.squares, rtol=1e-9)
            np.testing.assert_allclose(found.cross[path], rows.cross, rtol=1e-9)


@pytest.mark.parametrize("sizes", [(50,) * 4, (30, 60, 110)])
def test_whole_batches_have_the_slopes_of_their_steps(sizes):
    """On average, within Monte Carlo error: the same simulation, by whole batches and step by step."""
    mean, policy = jnp.asarray([0.5, 0.3]), jb.BetaThompson()
    log = jb.simulate(jax.random.key(0), policy, jb.Bernoulli(), [0.5, 0.3], num_steps=200, batch_size=list(sizes))
    design, root = design_of(log), root_words(jax.random.key(1))
    time = jnp.asarray(_times(sizes, 200), jnp.float32)
    whole = _simulate(policy, jb.Bernoulli(), mean, design, time, root, size=1000, chunks=2)
    logs = simulate_logs(
        trial_words(root, jnp.uint32(7), 2000), policy, jb.Bernoulli(), jnp.broadcast_to(mean, (2000, 2)), design
    )
    steps = jax.vmap(lambda arms, rewards: _slopes(arms, rewards, time, 2))(logs.arms, logs.rewards)
    for ours, theirs in zip(whole, steps, strict=True):
        for power in (1, 2):
            ours_to, theirs_to = (np.asarray(part, float) ** power for part in (ours, theirs))
            error = np.sqrt((ours_to.var(axis=0) + theirs_to.var(axis=0)) / 2000)
            assert np.all(np.abs(ours_to.mean(axis=0) - theirs_to.mean(axis=0)) < 4 * error)
