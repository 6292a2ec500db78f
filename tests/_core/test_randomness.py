import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jaxbias._core.randomness import _hash, flat_key, flattened, normal, root_words, step_key, trial_words

ONES = 0xFFFFFFFF
PI = (0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344)


@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        ((0, 0), (0, 0), (0x9D1C5EC6, 0x8BD50731)),
        ((ONES, ONES), (ONES, ONES), (0xFD36D048, 0x2D17272C)),
        (*PI, (0xBA3E4725, 0xF27D669E)),
    ],
)
def test_known_answers_of_random123(counter, key, answer):
    words = _hash(jnp.array(key, jnp.uint32), *jnp.array(counter, jnp.uint32))
    assert tuple(map(int, words)) == answer


def test_with_twenty_rounds_it_is_the_hash_of_jax():
    key = jax.random.key(7)
    high, low = _hash(jax.random.key_data(key), jnp.zeros(5, jnp.uint32), jnp.arange(5, dtype=jnp.uint32), rounds=20)
    np.testing.assert_array_equal(high ^ low, jax.random.bits(key, (5,), jnp.uint32))


@pytest.mark.parametrize("shape", [(), (1,), (3,), (5, 7)])
def test_both_words_of_a_hash_are_used(shape):
    key, size = flat_key(jnp.array([3, 4], jnp.uint32)), int(np.prod(shape))
    counters = jnp.arange((size + 1) // 2, dtype=jnp.uint32)
    words = np.concatenate(_hash(jax.random.key_data(key), jnp.zeros_like(counters), counters))
    np.testing.assert_array_equal(jax.random.bits(key, shape, jnp.uint32), words[:size].reshape(shape))


def test_trial_keys_are_the_root_hashed_with_the_number_of_the_trial():
    root = root_words(jax.random.key(1))
    expected = [jax.random.key_data(jax.random.fold_in(flat_key(root), number)) for number in (5, 6, 7)]
    np.testing.assert_array_equal(trial_words(root, jnp.uint32(5), 3).T, jnp.stack(expected))


def test_raw_and_other_kinds_of_keys_are_taken():
    for key in (jax.random.key(3), jax.random.key(3, impl="rbg"), jax.random.PRNGKey(3)):
        assert root_words(key).shape == (2,)
        assert normal(flattened(key), (2, 3), jnp.float32).shape == (2, 3)
        np.testing.assert_array_equal(normal(key, (3,), jnp.float32), jax.random.normal(key, (3,)))


def test_normal_numbers_are_those_of_box_and_muller():
    """Against float64 with the library's sine, cosine and logarithm, from the same words; the odd one out is the last cosine."""
    words = jnp.array([11, 12], jnp.uint32)
    counters = jnp.arange(50_000, dtype=jnp.uint32)
    far, turn = (np.asarray(word).astype(np.float64) for word in _hash(words, jnp.zeros_like(counters), counters))
    distance = np.sqrt(-2 * np.log((far // 2 + 0.5) * 2.0**-31))
    angle = 2 * np.pi * np.where(turn < 2**31, turn, turn - 2**32) * 2.0**-33
    expected = np.concatenate([distance * np.sin(angle), distance * np.cos(angle) * np.where(far % 2 == 0, 1, -1)])
    drawn = normal(flat_key(words), (99_999,), jnp.float32)
    rounding = 1e-6 + 2**-24 / np.tile(distance, 2)  # near 1, where the distance is small, float32 is this coarse
    assert np.all(np.abs(drawn - expected[:-1]) < rounding[:-1])


def test_normal_numbers_are_normal():
    """Four million: the whole distribution, the tails beyond 4, and pairs of one distance, which are independent."""
    drawn = np.asarray(normal(flat_key(jnp.array([5, 6], jnp.uint32)), (4_000_000,), jnp.float32), np.float64)
    assert stats.kstest(drawn, "norm").pvalue > 1e-4
    expected = 4_000_000 * 2 * stats.norm.sf(4)
    assert abs(np.sum(np.abs(drawn) > 4) - expected) < 4 * np.sqrt(expected)
    first, second = drawn.reshape(2, -1)
    for power in (1, 2, 4):
        assert abs(np.corrcoef(np.abs(first) ** power, np.abs(second) ** power)[0, 1]) < 4 / np.sqrt(len(first))
    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / np.sqrt(len(first))


def test_in_float64_they_are_those_of_jax():
    with jax.enable_x64(True):
        key = flat_key(jnp.array([5, 6], jnp.uint32))
        np.testing.assert_array_equal(normal(key, (3,), jnp.float64), jax.random.normal(key, (3,), jnp.float64))


def test_draws_of_neighbouring_steps_are_independent():
    """Correlation of normals at counters one and two apart, over 100,000 trials: 4 standard errors are 0.0126."""
    words = trial_words(root_words(jax.random.key(2)), jnp.uint32(0), 100_000)

    def draws(counter):
        return jax.vmap(lambda pair: normal(step_key(pair, jnp.uint32(counter)), (), jnp.float32), in_axes=1)(words)

    first = draws(0)
    for counter in (1, 2, 3):
        assert abs(float(jnp.mean(first * draws(counter)))) < 4 / np.sqrt(100_000)
