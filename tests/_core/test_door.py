"""Wrong kinds of arguments at the public functions: our own error, with the argument's name and what to do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.policies.noise import Schedule

KEY = jax.random.key(0)
ARMS, REWARDS = np.array([0, 1, 0, 1] * 3), np.array([0.0, 1.0, 1.0, 0.0] * 3)
HISTORY = jb.History(arms=ARMS, rewards=REWARDS, num_arms=2)
POLICY, FAMILY, MEAN = jb.Greedy(tau=1.0), jb.Normal(), [1.0, 0.0]
FRAME = {"arm": ARMS, "reward": REWARDS}


def history(**fields):
    return jb.History(**{"arms": ARMS, "rewards": REWARDS, "num_arms": 2, **fields})


def of_arms(number):
    changed = history()
    object.__setattr__(changed, "num_arms", number)  # the constructor is checked in the tests, and only there
    return changed


def simulate(key=KEY, policy=POLICY, family=FAMILY, mean=MEAN, num_steps=4, **options):
    return jb.simulate(key, policy, family, mean, num_steps, **options)


WITH_KEY = {
    "simulate": simulate,
    "measure_bias": lambda key: jb.measure_bias(key, POLICY, FAMILY, MEAN, 4, 16),
    "mean_matching": lambda key: jb.mean_matching(key, HISTORY, POLICY, FAMILY),
    "conditional_mle": lambda key: jb.conditional_mle(key, HISTORY, POLICY, FAMILY),
    "bias_corrected": lambda key: jb.bias_corrected(key, HISTORY, POLICY, FAMILY),
    "unbiased": lambda key: jb.unbiased(key, HISTORY, POLICY),
    "test_inversion": lambda key: jb.test_inversion(key, HISTORY, POLICY, FAMILY),
    "compare": lambda key: jb.compare(key, HISTORY, POLICY, FAMILY),
    "contrasts": lambda key: jb.contrasts(key, HISTORY, POLICY, FAMILY, control=0),
    "check_fit": lambda key: jb.check_fit(key, HISTORY, POLICY),
    "debias": lambda key: jb.debias(key, FRAME, POLICY),
    "evaluate": lambda key: jb.evaluate(key, POLICY, FAMILY, MEAN, num_steps=4),
    "plan": lambda key: jb.plan(key, {"greedy": POLICY}, FAMILY, MEAN, num_steps=[4]),
}


@pytest.mark.parametrize(
    "key", [0, None, "a", jnp.zeros(3), jax.random.split(KEY, 3)], ids=["int", "None", "str", "floats", "keys"]
)
@pytest.mark.parametrize("name", WITH_KEY)
def test_a_key_is_one_random_key(name, key):
    with pytest.raises(jb.ArgumentError, match=r"^key .*; it must be one random key, such as jax.random.key\(0\)$"):
        WITH_KEY[name](key)


def test_a_raw_key_is_a_key():
    assert simulate(jax.random.PRNGKey(0)).arms.shape == (4,)


@pytest.mark.parametrize("history", [(ARMS, REWARDS), None, "log.csv", {}], ids=["tuple", "None", "str", "dict"])
@pytest.mark.parametrize(
    "call",
    [
        jb.sample_mean,
        lambda history: jb.mean_matching(KEY, history, POLICY, FAMILY),
        lambda history: jb.propensity_weighting(history, POLICY),
        lambda history: jb.confidence_sequence(history, FAMILY),
        lambda history: jb.log_density(history, POLICY, FAMILY, MEAN),
        lambda history: jb.compare(KEY, history, POLICY, FAMILY),
        lambda history: jb.check_fit(KEY, history, POLICY),
    ],
)
def test_a_history_is_a_history(call, history):
    with pytest.raises(jb.ArgumentError, match=rf"^history is of type {type(history).__name__}; it must be a History"):
        call(history)


CASES = {
    "a level that is a string": (lambda: jb.sample_mean(HISTORY, level="0.95"), "level is '0.95'; it must be a number above 0"),
    "no level": (lambda: jb.sample_mean(HISTORY, level=None), "level is None; it must be a number above 0 and below 1"),
    "two levels": (lambda: jb.sample_mean(HISTORY, level=np.array([0.9, 0.95])), "it must be a number above 0 and below 1"),
    "a level that is NaN": (lambda: jb.sample_mean(HISTORY, level=float("nan")), "level is nan; it must be above 0"),
    "a level near 0": (
        lambda: jb.confidence_sequence(HISTORY, FAMILY, level=1e-300),
        "level is 1e-300; it must be from 0.000001",
    ),
    "a level near 1": (lambda: jb.sample_mean(HISTORY, level=1 - 1e-15), "it must be from 0.000001 to 0.999999999999"),
    "a family that is a class": (lambda: jb.sample_mean(HISTORY, jb.Normal), "family is <class"),
    "a family that is a word": (lambda: simulate(family="normal"), "family is 'normal'; it must be an object with sample"),
    "steps that are a float": (lambda: simulate(num_steps=4.0), "num_steps is 4.0; it must be a whole number"),
    "steps that are a string": (lambda: simulate(num_steps="4"), "num_steps is '4'; it must be a whole number"),
    "steps that are True": (lambda: simulate(num_steps=True), "num_steps is True; it must be a whole number"),
    "trials that are a float": (lambda: simulate(num_trials=2.5), "num_trials is 2.5; it must be a whole number"),
    "no trials": (lambda: jb.measure_bias(KEY, POLICY, FAMILY, MEAN, 4, None), "num_trials is None; it must be a whole number"),
    "paths that are a float": (
        lambda: jb.mean_matching(KEY, HISTORY, POLICY, FAMILY, num_paths=9.5),
        "num_paths is 9.5; it must",
    ),
    "means that are strings": (lambda: simulate(mean=["1", "0"]), "mean is ['1', '0']; it must be numbers, one for each arm"),
    "no means": (lambda: simulate(mean=None), "mean is None; it must be numbers, one for each arm"),
    "means of different shapes": (lambda: simulate(mean=[1.0, [2.0, 3.0]]), "it must be numbers, one for each arm"),
    "complex means": (lambda: simulate(mean=[1j, 0]), "mean is [1j, 0]; it must be numbers, one for each arm"),
    "a rule of no argument": (lambda: simulate(stop=lambda: True), "stop raises TypeError:"),
    "a rule of two arguments": (lambda: simulate(stop=lambda pulls, total: True), "stop raises TypeError:"),
    "a rule that raises": (lambda: simulate(stop=lambda statistics: statistics.means), "stop raises AttributeError:"),
    "a rule that is a word": (lambda: simulate(stop="x"), "stop is 'x'; it must be a function from pulls and sums"),
    "a rule that is a class": (lambda: simulate(stop=jb.StopAtDifference), "it must be a function from pulls and sums"),
    "a complex setting": (lambda: simulate(policy=jb.Greedy(tau=1j)), "policy.tau is 1j; it must be 0 or more, and finite"),
    "a chooser of no argument": (
        lambda: jb.measure_bias(KEY, POLICY, FAMILY, MEAN, 4, 16, choose=lambda: 0),
        "choose raises TypeError:",
    ),
    "a schedule that is NaN": (
        lambda: simulate(policy=jb.Greedy(tau=lambda step: jnp.where(step < 0, 1.0, jnp.nan))),
        "policy.tau is nan at step 1",
    ),
    "a schedule that turns negative": (
        lambda: simulate(policy=jb.Greedy(tau=lambda step: 2.0 - step.astype(float))),
        "policy.tau is -1 at step 3",
    ),
    "a schedule of no argument": (lambda: simulate(policy=jb.Greedy(tau=lambda: 1.0)), "policy.tau raises TypeError for a step"),
    "a schedule of arrays": (
        lambda: simulate(policy=jb.Greedy(tau=lambda step: jnp.ones(2))),
        "policy.tau returns an array of shape (2,)",
    ),
    "knots that are NaN": (
        lambda: jb.mean_matching(KEY, HISTORY, jb.Floored(jb.Greedy(tau=Schedule(np.array([np.nan, 1.0]), 12))), FAMILY),
        "policy.tau is nan at step 1",
    ),
    "a negative length": (lambda: jb.sample_mean(history(lengths=-1)), "history.lengths is -1; it must be whole numbers from 1"),
    "a length beyond the steps": (lambda: jb.sample_mean(history(lengths=50)), "history.lengths is 50; it must be whole numbers"),
    "half a step": (lambda: jb.sample_mean(history(lengths=3.5)), "history.lengths is 3.5; it must be whole numbers"),
    "lengths of another shape": (lambda: jb.sample_mean(history(lengths=np.array([3, 4]))), "history.lengths has shape (2,)"),
    "arms beyond 2^32": (lambda: jb.sample_mean(history(arms=ARMS + 2**32)), "history.arms is 4294967296 at step 0; it must be"),
    "too many arms": (lambda: jb.sample_mean(history(num_arms=2**33)), "history.num_arms is 8589934592; it must be a whole"),
    "arms that are a float": (
        lambda: jb.sample_mean(of_arms(2.0)),
        "history.num_arms is 2.0; it must be a whole number",
    ),
    "complex rewards": (lambda: jb.sample_mean(history(rewards=REWARDS + 1j)), "it must be real numbers"),
    "rewards that are words": (lambda: jb.sample_mean(history(rewards=["x"] * 12)), "it must be real numbers"),
    "forced twice": (lambda: jb.sample_mean(history(forced=np.array([2] + [0] * 11))), "it must be True or False for each step"),
    "forced of another shape": (lambda: jb.sample_mean(history(forced=np.array([True]))), "history.forced has shape (1,)"),
    "a table of different lengths": (
        lambda: jb.read_log({"arm": ["a"], "reward": [0.0, 1.0]}),
        "the log is a table that cannot be read (All arrays must be of the same length)",
    ),
    "a column of two dimensions": (lambda: jb.read_log({"arm": np.zeros((2, 2)), "reward": [0, 1]}), "a column has shape (2, 2)"),
}


@pytest.mark.parametrize("name", CASES)
def test_our_words_and_not_pythons(name):
    call, words = CASES[name]
    with pytest.raises(jb.ArgumentError) as refused:
        call()
    assert words in str(refused.value)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int32])
def test_integers_of_64_bits_keep_their_values(dtype):
    """JAX cuts them to their last 32 bits: rewards of 3 billion were -1.3 billion, and of 2^62, 0."""
    large = 3_000_000_000 if dtype != np.int32 else 2_000_000_000
    found = jb.sample_mean(history(rewards=np.full(12, large, dtype)))
    np.testing.assert_allclose(found.mean, [large, large], rtol=1e-6)


def test_means_of_64_bits_keep_their_values():
    with pytest.raises(jb.ArgumentError, match=r"^mean is .*, and float32 cannot hold rewards so far from 0"):
        simulate(mean=np.array([2**40, 2**40]))


def test_a_schedule_is_looked_at_within_the_trial_alone():
    """A schedule that would be negative after the last step is none that is wrong."""
    assert simulate(policy=jb.Greedy(tau=lambda step: 4.0 - step.astype(float))).arms.shape == (4,)


@pytest.mark.parametrize("kind", ["dictionary", "jax", "records", "polars", "arrow"])
def test_tables_in_memory_are_logs(kind):
    import pandas as pd

    expected = jb.read_log(pd.DataFrame(FRAME))
    if kind in ("polars", "arrow"):
        library = pytest.importorskip({"polars": "polars", "arrow": "pyarrow"}[kind])
        table = library.DataFrame(FRAME) if kind == "polars" else library.table(FRAME)
    else:
        records = pd.DataFrame(FRAME).to_records(index=False)
        table = {"dictionary": FRAME, "records": records, "jax": {name: jnp.asarray(values) for name, values in FRAME.items()}}[
            kind
        ]
    found = jb.read_log(table)
    assert found.labels == expected.labels
    np.testing.assert_array_equal(found.history.arms, expected.history.arms)
    np.testing.assert_array_equal(found.history.rewards, expected.history.rewards)


@pytest.mark.parametrize("tau", [1e-3, 1e-6])
def test_hardly_any_noise_names_the_method_that_needs_none(tau):
    with pytest.raises(jb.ArgumentError, match=r"whose choices are hardly random: .* mean_matching does not need it"):
        jb.conditional_mle(KEY, HISTORY, jb.Greedy(tau=tau), FAMILY)


@pytest.mark.parametrize("value", [5e-324, 1e-300, 1e300, 1e308])
@pytest.mark.parametrize("setting", ["prior_sigma", "sigma", "tau"])
def test_settings_at_the_ends_of_floating_point(setting, value):
    with pytest.raises(
        jb.ArgumentError, match=rf"^policy.{setting} is .*; it must be 0, or from 9e-13 to 1e\+12 in size, in float32"
    ):
        simulate(policy=jb.Thompson(**{setting: value}))
    with (
        jax.enable_x64(True),
        pytest.raises(jb.ArgumentError, match=r"it must be 0, or from 6e-76 to 2e\+75 in size, in float64$"),
    ):
        simulate(policy=jb.Thompson(**{setting: value}))


def test_a_prior_mean_may_be_tiny():
    assert simulate(policy=jb.Thompson(prior_mean=1e-300)).arms.shape == (4,)
