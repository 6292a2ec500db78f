"""Random bits for simulation: JAX's threefry, bit for bit, in a form that the compiler can fuse.

On CPU, `jax.random` compiles the hash as a loop of its own, which XLA cannot merge with the arithmetic around it. Written out,
the same hash is several times faster inside a simulation step. `flat_key` makes a key whose `jax.random` functions use it.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.random import define_prng_impl
from jaxtyping import Array, Int, PRNGKeyArray, UInt

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))  # Salmon et al. (2011), table 2, for two words of 32 bits
_PARITY = 0x1BD11BDA


def _hash(
    key: UInt[Array, "2"], high: UInt[Array, "*shape"], low: UInt[Array, "*shape"]
) -> tuple[UInt[Array, "*shape"], UInt[Array, "*shape"]]:
    """Threefry-2x32 with 20 rounds of the counter (high, low)."""
    words = (key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(_PARITY))
    high, low = high + words[0], low + words[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            high = high + low
            low = high ^ ((low << jnp.uint32(rotation)) | (low >> jnp.uint32(32 - rotation)))
        high = high + words[(group + 1) % 3]
        low = low + words[(group + 2) % 3] + jnp.uint32(group + 1)
    return high, low


def _counters(shape: tuple[int, ...]) -> tuple[UInt[Array, "*shape"], UInt[Array, "*shape"]]:
    size = math.prod(shape)
    if size >= 2**32:
        raise ValueError(f"shape is {shape}; allowed: fewer than {2**32} random numbers at once")
    return jnp.zeros(shape, jnp.uint32), jnp.arange(size, dtype=jnp.uint32).reshape(shape)


def _random_bits(key: UInt[Array, "2"], bit_width: int, shape: tuple[int, ...]) -> UInt[Array, "*shape"]:
    high, low = _hash(key, *_counters(shape))
    if bit_width == 64:
        return (high.astype(jnp.uint64) << jnp.uint64(32)) | low.astype(jnp.uint64)
    return (high ^ low).astype({8: jnp.uint8, 16: jnp.uint16, 32: jnp.uint32}[bit_width])


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
    """A key with the same bits whose functions compile well; one that is not JAX's threefry, as it is."""
    typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    is_threefry = typed and str(jax.random.key_impl(key)) == "threefry2x32" and jax.config.jax_threefry_partitionable  # pyright: ignore
    return flat_key(jax.random.key_data(key)) if is_threefry else key


def root_words(key: PRNGKeyArray) -> UInt[Array, "2"]:
    """Two words drawn from a key of any kind, typed or raw: the root of a simulation."""
    if not jnp.issubdtype(jnp.asarray(key).dtype, jax.dtypes.prng_key):
        key = jax.random.wrap_key_data(jnp.asarray(key))
    return jax.random.bits(key, (2,), jnp.uint32)


def trial_words(root: UInt[Array, "2"], first: UInt[Array, ""], size: int) -> UInt[Array, "2 size"]:
    """The words of the keys of trials first, first + 1, ...: the root folded with the trial's number."""
    numbers = first.astype(jnp.uint32) + jnp.arange(size, dtype=jnp.uint32)
    return jnp.stack(_hash(root, jnp.zeros_like(numbers), numbers))


def step_key(words: UInt[Array, "2"], counter: Int[Array, ""] | UInt[Array, ""]) -> PRNGKeyArray:
    """The key of one draw: the trial's key plus a counter.

    Threefry makes unrelated bits of neighbouring keys, so one hash per draw is enough where `fold_in` would take two.
    """
    return flat_key(jnp.stack([words[0], words[1] + counter.astype(jnp.uint32)]))
