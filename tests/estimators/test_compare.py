"""The estimators side by side."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.estimators.compare import apply_method
from jaxbias.estimators.registry import METHODS, Method, Need

ALL = [name for name, method in METHODS.items() if method.by_default and name != "batched_ols"]  # which needs batches


@pytest.fixture(scope="module")
def noisy():
    policy = jb.EpsilonGreedy(tau=1.0)
    history = jb.simulate(jax.random.key(0), policy, jb.Normal(), [1.0, 0.5], 20, held_out=True)
    return history, policy, jb.compare(jax.random.key(1), history, policy, jb.Normal())


def test_all_that_apply(noisy):
    history, policy, table = noisy
    assert list(table.estimates) == ALL
    assert not table.reasons
    again = jb.mean_matching(jax.random.fold_in(jax.random.key(1), 5), history, policy, jb.Normal())
    np.testing.assert_array_equal(table.estimates["mean_matching"].mean, again.mean)


def test_the_table_as_text(noisy):
    table = str(noisy[2])
    lines = table.splitlines()
    assert "95%" in table
    mean = float(noisy[2].estimates["mean_matching"].mean[0])
    assert any("mean_matching" in line and f"{mean:.2f}" in line for line in lines)
    assert all(any(name in line for line in lines) for name in ALL)


def test_the_table_as_a_frame(noisy):
    frame = noisy[2].to_frame()
    assert list(frame.columns) == ["method", "arm", "pulls", "mean", "stderr", "lower", "upper", "converged"]
    assert len(frame) == 2 * len(ALL)
    row = frame[(frame.method == "sample_mean") & (frame.arm == 1)].iloc[0]
    np.testing.assert_allclose(row["mean"], noisy[0].statistics.mean[1], rtol=1e-6)


def test_what_does_not_apply_says_why():
    history = jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.5], 12, 3)
    table = jb.compare(jax.random.key(1), history, jb.Greedy(), jb.Normal())
    random = [name for name in ALL if Need.RANDOM_CHOICES in METHODS[name].needs]
    assert list(table.estimates) == [name for name in ALL if name not in ("data_splitting", *random)]
    assert "it must be one with random choices" in str(table.reasons["conditional_mle"])
    assert "held_out" in str(table.reasons["data_splitting"])
    assert "conditional_mle does not apply: " in str(table)
    assert "averages over 3 logs" in str(table)
    frame = table.to_frame()
    assert next(iter(frame.columns)) == "trial"
    assert len(frame) == 6 * len(table.estimates)


class Waiting:
    """Two functions and no variance: what the page on families of one's own begins with."""

    def sample(self, key, mean):
        return mean * jax.random.exponential(key)

    def log_prob(self, reward, mean):
        return -reward / mean - jnp.log(mean)


def test_methods_that_need_a_variance_are_left_out_of_a_family_without_one():
    history = jb.simulate(jax.random.key(0), jb.Greedy(), Waiting(), [2.0, 1.0], num_steps=12)
    shrinking = ("shrinkage", "bias_corrected", "guarded_shrinkage")
    found = jb.compare(jax.random.key(1), history, jb.Greedy(), Waiting(), methods=("sample_mean", *shrinking))
    assert list(found.estimates) == ["sample_mean"]
    words = "family is an object of class Waiting; it must be a reward family with a method variance(mean), for shrinkage"
    assert {name: str(error) for name, error in found.reasons.items()} == dict.fromkeys(shrinking, words)


def test_an_arm_never_pulled_is_not_estimable():
    history = jb.History(arms=jnp.array([0, 0, 0]), rewards=jnp.array([0.5, 0.2, 0.1]), num_arms=2)
    table = jb.compare(jax.random.key(1), history, jb.Greedy(tau=1.0), jb.Normal(), methods=["sample_mean", "mean_matching"])
    assert str(table).count("not estimable") == 2


def test_bad_input_is_named():
    history = jb.History(arms=jnp.array([0, 0]), rewards=jnp.array([0.5, jnp.nan]), num_arms=2)
    with pytest.raises(jb.ArgumentError, match=r"history\.rewards is nan at step 1"):
        jb.compare(jax.random.key(1), history, jb.Greedy(), jb.Normal())
    with pytest.raises(jb.ArgumentError, match="methods has 'magic'; choose from sample_mean, "):
        jb.compare(jax.random.key(1), history, jb.Greedy(), jb.Normal(), methods=["magic"])


@pytest.mark.slow
def test_rewards_of_0_and_1_have_a_conditional_likelihood_too():
    policy, family = jb.EpsilonGreedy(), jb.Bernoulli()
    history = jb.simulate(jax.random.key(0), policy, family, [0.3, 0.6], num_steps=20)
    table = jb.compare(jax.random.key(1), history, policy, family, methods=["sample_mean", "conditional_mle"])
    assert list(table.estimates) == ["sample_mean", "conditional_mle"]


@pytest.mark.parametrize(
    ("name", "asked", "taken"), [("bias_corrected", 4096, 2048), ("bias_corrected", 512, 512), ("mean_matching", 4096, 4096)]
)
def test_no_more_paths_than_matter(name, asked, taken, monkeypatch):
    used = []

    def function(history, num_paths, **_):
        used.append(num_paths)
        return jb.sample_mean(history)

    monkeypatch.setattr(Method, "function", property(lambda _: function))
    history = jb.History(arms=np.array([0, 1]), rewards=np.array([0.0, 1.0], np.float32), num_arms=2)
    apply_method(METHODS[name], {"history": history, "policy": jb.Greedy(), "family": jb.Normal(), "num_paths": asked})
    assert used == [taken]
