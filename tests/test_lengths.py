"""A new length is not a new program: padded logs give the same answers, and nothing is compiled for the next length."""

import dataclasses

import jax
import numpy as np
import pytest

import jaxbias as jb
from jaxbias._core import maps, programs
from jaxbias._core.lengths import padded_length, scan_up_to
from jaxbias.history import History, without_padding
from jaxbias.simulation.paths import Design

NORMAL = ("sample_mean", "propensity_weighting", "adaptive_weighting", "confidence_sequence", "shrinkage", "mean_matching")
SIMULATED = ("conditional_mle", "test_inversion", "bias_corrected")
CASES = {
    "normal": (jb.LilUCB(tau=1.0), jb.Normal(sigma=1.0), [1.0, 0.5, 0.0], NORMAL + SIMULATED),
    "bernoulli": (jb.BetaThompson(), jb.Bernoulli(), [0.5, 0.3], NORMAL + SIMULATED),
    "sigma": (jb.LilUCB(tau=1.0), jb.Normal(sigma=None), [1.0, 0.5], NORMAL + SIMULATED),
}
SIZES = {"num_paths": 128, "interval_paths": 128}


def make_log(policy, family, mean, num_steps):
    simulated = jb.Normal() if family == jb.Normal(sigma=None) else family
    return jb.simulate(jax.random.key(0), policy, simulated, mean, num_steps, progress=False)


@pytest.mark.parametrize("case", [pytest.param(name, marks=() if name == "normal" else pytest.mark.slow) for name in CASES])
def test_padded_logs_give_the_same_estimates(case, monkeypatch):
    policy, family, mean, methods = CASES[case]
    with jax.enable_x64(True):
        history = make_log(policy, family, mean, 45)
        assert history.padded().num_steps > history.num_steps
        padded = jb.compare(jax.random.key(1), history, policy, family, methods=methods, **SIZES)
        for kind in (History, Design):
            monkeypatch.setattr(kind, "padded", lambda self: self)
        plain = jb.compare(jax.random.key(1), history, policy, family, methods=methods, **SIZES)
    assert set(padded.estimates) == set(plain.estimates) == set(methods)
    for name, estimate in plain.estimates.items():
        other = padded.estimates[name]
        for field in ("mean", "stderr", "lower", "upper", "status"):
            np.testing.assert_allclose(getattr(other, field), getattr(estimate, field), rtol=1e-6, err_msg=f"{name} {field}")
        for field, value in estimate.diagnostics.items():
            np.testing.assert_allclose(other.diagnostics[field], value, rtol=1e-5, atol=1e-6, err_msg=f"{name} {field}")


def test_nothing_is_compiled_for_a_new_length(compilations):
    jax.clear_caches()  # a process near the kernel's limit of maps forgets programs on its own, also between the two logs
    policy, family, mean, methods = CASES["normal"]
    logs = [make_log(policy, family, mean, steps) for steps in (40, 53)]
    for number, log in enumerate(logs):
        before = len(compilations)
        jb.compare(jax.random.key(1), log, policy, family, methods=methods, **SIZES)
        jb.check_fit(jax.random.key(2), log, policy)
        jb.bias.bias_at(jax.random.key(3), log, policy, family, mean, num_trials=128)
        jb.influence(jax.random.key(4), log, policy, family, method="sample_mean")
        assert number == 0 or len(compilations) == before


def test_few_lengths_for_all_logs():
    lengths = {padded_length(steps) for steps in np.unique(np.geomspace(20, 1_000_000, 5000).astype(int)).tolist()}
    assert len(lengths) <= 12
    assert all(steps <= padded_length(steps) <= max(64, 2.6 * steps) for steps in range(1, 5000))


def test_a_padded_history_says_where_it_ends():
    history = jb.History(arms=np.array([0, 1, 1]), rewards=np.array([0.5, 1.0, 2.0], np.float32), num_arms=2)
    longer = history.padded()
    assert longer.is_padded
    assert longer.beyond_end.sum() == longer.num_steps - 3
    np.testing.assert_array_equal(longer.statistics.pulls, history.statistics.pulls)
    np.testing.assert_array_equal(longer.statistics.total, history.statistics.total)
    np.testing.assert_array_equal(without_padding(longer).rewards, history.rewards)
    batched = dataclasses.replace(history, batch_sizes=(2, 1))
    assert batched.padded() is batched


def test_scan_up_to_is_scan_of_the_first_steps():
    body = lambda carry, step: (carry + step, carry * step)
    steps = np.arange(1.0, 9.0, dtype=np.float32)
    carry, kept = jax.jit(lambda length: scan_up_to(body, np.float32(0), steps, length))(5)
    expected, of_each = jax.lax.scan(body, np.float32(0), steps[:5])
    assert carry == expected
    np.testing.assert_array_equal(kept, np.append(of_each, np.zeros(3)))


def test_programs_are_forgotten_before_the_limit_of_maps(monkeypatch):
    crowding = maps.Crowding()
    monkeypatch.setattr(programs, "CROWDING", crowding)
    forgotten = []
    monkeypatch.setattr(jax, "clear_caches", lambda: forgotten.append(True))
    history = jb.History(arms=np.array([0, 1, 1]), rewards=np.array([0.5, 1.0, 2.0]), num_arms=2)
    crowding.most = 10**9
    crowding.made = maps.PROGRAMS_BETWEEN
    jb.sample_mean(history)
    assert not forgotten
    crowding.most, crowding.made = 10, maps.PROGRAMS_BETWEEN  # every process has more maps than ten
    found = jb.sample_mean(history)
    assert forgotten == [True]
    assert found.mean.tolist() == [0.5, 1.5]
    assert crowding.made < maps.PROGRAMS_BETWEEN


@pytest.mark.slow
def test_maps_level_off_over_many_lengths():
    policy, family, mean, _ = CASES["normal"]
    counts = []
    for steps in range(30, 60):
        jb.debias(jax.random.key(1), _frame(make_log(policy, family, mean, steps)), policy, family)
        counts.append(maps.memory_maps())
    assert counts[-1] - counts[5] < 400  # 1,750 for each log before logs were padded


def _frame(history):
    import pandas

    return pandas.DataFrame({"arm": np.asarray(history.arms), "reward": np.asarray(history.rewards)})
