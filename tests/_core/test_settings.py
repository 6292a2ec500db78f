"""Settings as pytrees: static or traced as their field says, swept by vmap, and checked where they are used."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import compiled
from jaxbias._core.settings import (
    COUNT,
    POSITIVE,
    always,
    as_float,
    check_settings,
    is_concrete,
    is_zero,
    one_of,
    setting,
    settings,
)

STATE = jb.policies.ArmStatistics(pulls=jnp.array([1, 1]), total=jnp.array([1.0, 0.0]))


@settings
class Example:
    """One setting of each kind."""

    scale: float = setting(default=1.0, allowed=POSITIVE)
    word: str = setting(default="one", allowed=one_of("one", "two"), static=always)
    noise: float = setting(default=0.0, static=is_zero)
    free: float = 5.0


def test_static_and_traced_as_declared():
    leaves = jax.tree.leaves
    assert leaves(Example()) == [1.0, 5.0]
    assert leaves(Example(noise=0)) == [1.0, 5.0]
    assert leaves(Example(scale=2.0, noise=0.5)) == [2.0, 0.5, 5.0]
    assert len(leaves(Example(noise=jnp.zeros(())))) == 3  # an array may be swept, and is traced even at zero
    structures = [jax.tree.structure(one) for one in (Example(), Example(scale=3.0), Example(word="two"), Example(noise=0.5))]
    assert structures[0] == structures[1]
    assert len(set(structures)) == 3


def test_there_and_back():
    for one in (Example(scale=2.0, word="two"), Example(noise=0.5), jb.Greedy(tau=0.5), jb.LilUCB(), jb.Normal(sigma=2.0)):
        leaves, structure = jax.tree.flatten(one)
        assert jax.tree.unflatten(structure, leaves) == one
    doubled = jax.tree.map(lambda leaf: 2 * leaf, Example(scale=2.0, word="two"))
    assert doubled == Example(scale=4.0, word="two", free=10.0)
    with pytest.raises(AttributeError):
        Example().scale = 3.0


def test_what_compiles_again():
    """A new tau above 0 does not; no tau, a schedule and a word are known before compilation."""
    traced = []

    def log_probs(policy, state):
        traced.append(policy)
        return policy.log_probs(state)

    run = compiled(log_probs)
    for tau in (0.5, 0.7, 100.0):
        np.testing.assert_allclose(run(jb.Greedy(tau=tau), STATE), jax.nn.log_softmax(jnp.array([1.0, 0.0]) / tau), rtol=1e-5)
    assert len(traced) == run.cache_size() == 1
    np.testing.assert_array_equal(run(jb.Greedy(), STATE), [0.0, -np.inf])
    run(jb.Greedy(tau=0.0), STATE)
    assert len(traced) == run.cache_size() == 2
    schedule = lambda step: 1.0 / step.astype(float)
    for policy in (jb.Greedy(tau=schedule), jb.Greedy(tau=schedule)):
        np.testing.assert_allclose(run(policy, STATE), jax.nn.log_softmax(jnp.array([2.0, 0.0])), rtol=1e-5)
    assert len(traced) == run.cache_size() == 3
    run(jb.Greedy(tau=0.5, ties="first"), STATE)
    assert len(traced) == run.cache_size() == 4


def test_a_policy_that_is_no_pytree_is_known_by_what_it_is(own_policy):
    """The same object is the same program, another one another."""
    run, state = compiled(lambda policy, state: policy.log_probs(state)), own_policy.init(2)
    run(own_policy, state)
    run(own_policy, state)
    assert run.cache_size() == 1
    run(type(own_policy)(rate=0.1), state)
    assert run.cache_size() == 2


def test_static_arguments_and_defaults():
    @lambda function: compiled(function, static=("times",))
    def multiply(value, times=2, also=1.0):
        assert isinstance(times, int)
        return value * times + also

    assert float(multiply(3.0)) == 7.0
    assert float(multiply(3.0, times=3, also=0.0)) == 9.0
    assert multiply.cache_size() == 2


def test_a_sweep_over_settings_is_a_vmap():
    taus = jnp.array([0.5, 1.0, 2.0])
    policies = jax.vmap(lambda tau: jb.Greedy(tau=tau))(taus)
    assert policies.tau.shape == (3,)
    assert policies.ties == "random"
    one = jax.jit(lambda policy: policy.log_probs(STATE))
    together = jax.jit(jax.vmap(one))(policies)
    np.testing.assert_allclose(together, [one(jb.Greedy(tau=tau)) for tau in (0.5, 1.0, 2.0)], rtol=1e-6)
    families = jb.Normal(sigma=jnp.array([1.0, 2.0]))
    spread = jax.jit(jax.vmap(lambda family: family.log_prob(jnp.zeros(()), jnp.zeros(()))))(families)
    np.testing.assert_allclose(spread[0] - spread[1], np.log(2), rtol=1e-5)


@pytest.mark.parametrize(
    ("subject", "argument", "phrase"),
    [
        (Example(scale=-1.0), "thing.scale", "thing.scale is -1.0; it must be positive and finite"),
        (Example(scale=np.array([1.0, np.inf])), "thing.scale", "positive and finite"),
        (Example(scale="x"), "thing.scale", "thing.scale is 'x'; it must be positive"),
        (Example(word="three"), "thing.word", "thing.word is 'three'; it must be 'one' or 'two'"),
    ],
)
def test_settings_that_are_not_allowed(subject, argument, phrase):
    with pytest.raises(ArgumentError, match=phrase) as error:
        check_settings(subject, "thing")
    assert error.value.argument == argument


@pytest.mark.parametrize(
    "value", [0, -1, 1.5, np.nan, np.inf, -np.inf, 1e300, 2**31, 2**63, 10**20, 10**400, "x", np.array([1, 0])]
)
def test_counts_that_are_not_allowed(value):
    """Infinity, NaN and long integers ended in a warning of NumPy or an OverflowError."""
    with pytest.raises(jb.ArgumentError, match=r"^stop.every is .*; it must be a whole number from 1 to 2,147,483,647$"):
        check_settings(jb.StopAtDifference(threshold=1.0, every=value), "stop")


@pytest.mark.parametrize("value", [1, 2.0, np.int64(3), np.float32(4), 2**31 - 1])
def test_counts_that_are(value):
    check_settings(jb.StopAtDifference(threshold=1.0, every=value), "stop")


def test_settings_that_are():
    check_settings(Example(scale=jnp.array([1.0, 2.0]), free="anything"), "thing")
    check_settings(jb.Greedy(tau=lambda step: 1.0), "thing")  # a schedule is checked by its values, later
    check_settings(object(), "thing")
    assert jax.jit(lambda scale: jnp.asarray(check_settings(Example(scale=scale), "thing") is None))(-1.0)  # traced: not known
    assert [bool(COUNT.test(np.asarray(value))) for value in (1, 3.0, 0, 1.5)] == [True, True, False, False]


def test_one_setting_for_each_arm():
    check_settings(Example(scale=np.ones(3)), "thing", 3)
    check_settings(Example(free=np.ones(7)), "thing", 3)
    with pytest.raises(ArgumentError, match=r"thing.scale has shape \(2,\); it must be one number, or one for each of 3 arms"):
        check_settings(Example(scale=np.ones(2)), "thing", 3)


def test_floats_and_what_is_known(x64):
    assert as_float([1, 2]).dtype == jnp.result_type(float)
    assert as_float(np.ones(2, np.float32)).dtype == jnp.float32
    assert is_concrete((1.0, jnp.ones(2), "word"))
    assert jax.jit(lambda value: jnp.asarray(is_concrete(value)))(1.0).item() is False
