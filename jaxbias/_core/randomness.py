"""Random bits for simulation: threefry as in JAX, with fewer rounds, written so that XLA can fuse it and every bit is used.

On CPU, `jax.random` compiles the hash as a loop of its own, which XLA cannot merge with the arithmetic around it, and of the two
words that it makes it keeps one. Written out, and with both, it is several times faster inside a simulation step. Thirteen rounds
in place of twenty: the fewest for which Random123, the library of its authors (Salmon et al., 2011), publishes known answers.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import define_prng_impl
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt

from jaxbias._core.errors import ArgumentError

ROUNDS = 13
_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)  # Salmon et al. (2011), table 2, for two words of 32 bits
_PARITY = 0x1BD11BDA
# sin(2 pi x) / x and cos(2 pi x) for x from -1/4 to 1/4, in powers of x^2: minimax to 5e-8, less than float32 rounds by.
_SINE = (6.2831855, -41.341682, 81.602486, -76.581398, 39.761616)
_COSINE = (0.99999994, -19.739172, 64.934593, -85.240334, 56.242382)


def _hash(
    key: UInt[Array, "2"], high: UInt[Array, "*shape"], low: UInt[Array, "*shape"], rounds: int = ROUNDS
) -> tuple[UInt[Array, "*shape"], UInt[Array, "*shape"]]:
    """Threefry-2x32 of the counter (high, low)."""
    words = (key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(_PARITY))
    high, low = high + words[0], low + words[1]
    for number in range(rounds):
        rotation = _ROTATIONS[number % 8]
        high = high + low
        low = high ^ ((low << jnp.uint32(rotation)) | (low >> jnp.uint32(32 - rotation)))
        if number % 4 == 3:
            group = number // 4 + 1
            high = high + words[group % 3]
            low = low + words[(group + 1) % 3] + jnp.uint32(group)
    return high, low


def _counters(shape: tuple[int, ...]) -> tuple[UInt[Array, "*shape"], UInt[Array, "*shape"]]:
    size = math.prod(shape)
    if size >= 2**32:
        raise ArgumentError("shape", shape, f"smaller: at most {2**32 - 1} random numbers at once")
    return jnp.zeros(shape, jnp.uint32), jnp.arange(size, dtype=jnp.uint32).reshape(shape)


def _random_bits(key: UInt[Array, "2"], bit_width: int, shape: tuple[int, ...]) -> UInt[Array, "*shape"]:
    if bit_width == 64:
        high, low = _hash(key, *_counters(shape))
        return (high.astype(jnp.uint64) << jnp.uint64(32)) | low.astype(jnp.uint64)
    return _fill(shape, *_pairs(key, shape)).astype({8: jnp.uint8, 16: jnp.uint16, 32: jnp.uint32}[bit_width])


def _pairs(key: UInt[Array, "2"], shape: tuple[int, ...]) -> tuple[UInt[Array, " pairs"], UInt[Array, " pairs"]]:
    """As many pairs of words as an array of this shape needs."""
    return _hash(key, *_counters(((math.prod(shape) + 1) // 2,)))


def _fill(shape: tuple[int, ...], first: Array, second: Array) -> Array:
    """An array with the members of the pairs, all first ones first."""
    size = math.prod(shape)
    return (first if size == 1 else jnp.concatenate([first, second])[:size]).reshape(shape)


def _split(key: UInt[Array, "2"], shape: tuple[int, ...]) -> UInt[Array, "*shape 2"]:
    return jnp.stack(_hash(key, *_counters(shape)), axis=-1)


def _fold_in(key: UInt[Array, "2"], data: Any) -> UInt[Array, "2"]:
    return jnp.stack(_hash(key, jnp.uint32(0), jnp.asarray(data).astype(jnp.uint32)))


def _seed(seed: Int[Array, ""] | UInt[Array, ""]) -> UInt[Array, "2"]:
    return jax.random.key_data(jax.random.key(seed, impl="threefry2x32"))


_FLAT = define_prng_impl(
    key_shape=(2,), seed=_seed, split=_split, random_bits=_random_bits, fold_in=_fold_in, name="flat_threefry", tag="flat"
)


def flat_key(words: UInt[Array, "*keys 2"]) -> PRNGKeyArray:
    """The key with these two words, for use with `jax.random`."""
    return jax.random.wrap_key_data(words, impl=_FLAT)


def flattened(key: PRNGKeyArray) -> PRNGKeyArray:
    """A key made from this one whose functions compile well."""
    return flat_key(root_words(key))


def normal(key: PRNGKeyArray, shape: tuple[int, ...], dtype: Any) -> Float[Array, "*shape"]:
    """Standard normal numbers; those of a flat key in float32 by Box and Muller's method, two for each pair of words.

    One word gives the distance from the origin, the other and a bit that is left the direction: half a turn and a side.
    """
    if dtype != jnp.float32 or not _is_typed(key) or jax.random.key_impl(key) != _FLAT:
        return jax.random.normal(key, shape, dtype)
    far, turn = _pairs(jax.random.key_data(key), shape)
    distance = jnp.sqrt(-2 * jnp.log(_signed(far >> 1) * jnp.float32(2**-31) + jnp.float32(2**-32)))
    part = _signed(turn) * jnp.float32(2**-33)
    sine, cosine = part * _polynomial(_SINE, part * part), _polynomial(_COSINE, part * part)
    return _fill(shape, distance * sine, distance * jnp.where(far & 1 == 0, cosine, -cosine))


def _signed(word: UInt[Array, "*shape"]) -> Float[Array, "*shape"]:
    """A word as a number from -2^31 to 2^31: CPUs convert signed integers to floats quickly, but not unsigned ones."""
    return jax.lax.bitcast_convert_type(word, jnp.int32).astype(jnp.float32)


def _polynomial(coefficients: tuple[float, ...], at: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    value = jnp.full_like(at, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * at + jnp.float32(coefficient)
    return value


def root_words(key: PRNGKeyArray) -> UInt[Array, "2"]:
    """Two words drawn from a key of any kind, typed or raw: the root of a simulation."""
    if not _is_typed(key):
        key = jax.random.wrap_key_data(jnp.asarray(key))
    return jax.random.bits(key, (2,), jnp.uint32)


def _is_typed(key: Any) -> bool:
    return jnp.issubdtype(jnp.asarray(key).dtype, jax.dtypes.prng_key)


def trial_words(root: UInt[Array, "2"], first: UInt[Array, ""], size: int) -> UInt[Array, "2 size"]:
    """The words of the keys of trials first, first + 1, ...: the root folded with the trial's number."""
    numbers = first.astype(jnp.uint32) + jnp.arange(size, dtype=jnp.uint32)
    return jnp.stack(_hash(root, jnp.zeros_like(numbers), numbers))


def step_key(words: UInt[Array, "2"], counter: Int[Array, ""] | UInt[Array, ""]) -> PRNGKeyArray:
    """The key of one draw: the trial's key plus a counter.

    Threefry makes unrelated bits of neighbouring keys, so one hash per draw is enough where `fold_in` would take two.
    """
    return flat_key(jnp.stack([words[0], words[1] + counter.astype(jnp.uint32)]))


def key_words(key: PRNGKeyArray) -> tuple[int, ...]:
    """The data of a random key.

    >>> import jax
    >>> key_words(jax.random.key(7))
    (0, 7)
    """
    return tuple(np.asarray(jax.random.key_data(key)).ravel().tolist())
