"""The averages of a Markov chain, from its rounds."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from jaxbias._core.randomness import flattened


class Chain(NamedTuple):
    """What a half of a chain gave: averages and variances of the arms' openings, and the share of accepted proposals."""

    mean: Float[Array, "*halves arms"]
    variance: Float[Array, "*halves arms"]
    accepted: Float[Array, "*halves"]


def average_rounds(
    key: PRNGKeyArray, start: Any, move: Callable[..., Any], value_of: Callable[..., Any], possible: Array, num_rounds: int
) -> Chain:
    """One chain as two halves: `move` makes a round of a key and a state; NaN where the start is not possible."""
    origin = value_of(start)

    def one_round(carry: Any, key: PRNGKeyArray) -> Any:
        state, total, squares, accepted = carry
        state, taken = move(key, state)
        value = value_of(state) - origin
        return (state, total + value, squares + jnp.square(value), accepted + taken), None

    def half(state: Any, keys: Any) -> tuple[Any, Chain]:
        nothing = jnp.zeros_like(origin)
        (state, total, squares, accepted), _ = jax.lax.scan(one_round, (state, nothing, nothing, nothing[0]), keys)
        mean = total / len(keys)
        found = jnp.where(possible, mean + origin, jnp.nan)
        return state, Chain(found, squares / len(keys) - jnp.square(mean), accepted / len(keys))

    keys = jax.random.split(flattened(key), (2, num_rounds // 2))
    return jax.lax.scan(half, start, keys)[1]
