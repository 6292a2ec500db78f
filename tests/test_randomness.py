import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxbias.randomness import flat_key, flattened, root_words, step_key, trial_words


@pytest.mark.parametrize("shape", [(), (3,), (5, 7)])
def test_the_bits_are_those_of_jax(shape, x64):
    words = jax.random.key_data(jax.random.key(7))
    theirs, ours = jax.random.wrap_key_data(words), flat_key(words)
    for draw in (
        lambda key: jax.random.bits(key, shape, jnp.uint32),
        lambda key: jax.random.normal(key, shape),
        lambda key: jax.random.uniform(jax.random.fold_in(key, 3), shape),
        lambda key: jax.random.key_data(jax.random.split(key, 4)),
    ):
        np.testing.assert_array_equal(draw(theirs), draw(ours))


def test_trial_keys_are_the_root_folded_with_the_number_of_the_trial():
    root = root_words(jax.random.key(1))
    expected = [jax.random.key_data(jax.random.fold_in(jax.random.wrap_key_data(root), number)) for number in (5, 6, 7)]
    np.testing.assert_array_equal(trial_words(root, jnp.uint32(5), 3).T, jnp.stack(expected))


def test_raw_and_other_kinds_of_keys_are_taken():
    assert root_words(jax.random.PRNGKey(0)).shape == (2,)
    assert root_words(jax.random.key(0, impl="rbg")).shape == (2,)


def test_a_key_made_flat_has_the_same_bits_and_other_kinds_stay():
    for key in (jax.random.key(3), jax.random.key(3, impl="rbg"), jax.random.PRNGKey(3)):
        np.testing.assert_array_equal(jax.random.normal(flattened(key), (3, 5)), jax.random.normal(key, (3, 5)))
    assert flattened(jax.random.key(3)).dtype != jax.random.key(3).dtype


def test_draws_of_neighbouring_steps_are_independent():
    """Correlation of normals at counters one and two apart, over 100,000 trials: 4 standard errors are 0.0126."""
    words = trial_words(root_words(jax.random.key(2)), jnp.uint32(0), 100_000)

    def draws(counter):
        return jax.vmap(lambda pair: jax.random.normal(step_key(pair, jnp.uint32(counter))), in_axes=1)(words)

    first = draws(0)
    for counter in (1, 2, 3):
        assert abs(float(jnp.mean(first * draws(counter)))) < 4 / np.sqrt(100_000)
