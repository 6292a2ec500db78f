"""Binomial and multinomial numbers, drawn exactly and along vectors.

One uniform number is inverted from the most likely value outwards (Kemp 1986): a round tries the next value below and the next
above. `jax.random.binomial` rejects, which in vectors takes as many rounds as the unluckiest needs, each with four logarithms.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, Float, PRNGKeyArray

SERIES_FROM = 8.0  # from here on Stirling's series is right to 1e-8
HALF_LOG_TWO_PI = 0.9189385332046727


def stirling_error(value: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log Gamma(x) less Stirling's (x - 1/2) log x - x + log(2 pi) / 2, for x above 0; nothing large cancels."""
    large = jnp.maximum(value, SERIES_FROM)
    square = jnp.square(large)
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / square) / square) / square) / large
    small = jnp.minimum(value, SERIES_FROM)
    exact = gammaln(small) - (small - 0.5) * jnp.log(small) + small - HALF_LOG_TWO_PI
    return jnp.where(value < SERIES_FROM, exact, series)


def binomial(key: PRNGKeyArray, count: Float[Array, "*shape"], chance: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """How many of `count` trials succeed, each with this chance.

    >>> import jax, jax.numpy as jnp
    >>> drawn = binomial(jax.random.key(0), jnp.array([0.0, 5.0, 5.0]), jnp.array([0.5, 0.0, 1.0]))
    >>> drawn.tolist()
    [0.0, 0.0, 5.0]
    """
    uniform = jax.random.uniform(key, jnp.shape(count), count.dtype)
    return _invert(uniform, count, jnp.clip(chance, 0, 1))


def _invert(uniform: Float[Array, "*shape"], count: Float[Array, "*shape"], chance: Float[Array, "*shape"]) -> Any:
    """The value at which the probabilities, added from the most likely value outwards, exceed the uniform number."""
    tiny = jnp.finfo(chance.dtype).tiny
    odds = jnp.maximum(chance, tiny) / jnp.maximum(1 - chance, tiny)
    mode = jnp.clip(jnp.floor((count + 1) * chance), 0, count)
    peak = _peak(mode, count, chance)
    left = uniform - peak

    def unfinished(state: Any) -> Array:
        distance, _, _, _, found = state
        return jnp.any(found < 0) & (distance <= jnp.max(count))

    def next_values(state: Any) -> Any:
        distance, left, below, above, found = state
        below = below * jnp.maximum(mode - distance + 1, 0) / ((count - mode + distance) * odds)
        above = above * jnp.maximum(count - mode - distance + 1, 0) * odds / (mode + distance)
        after_below = left - below
        after_above = after_below - above
        value = jnp.where(after_below < 0, mode - distance, mode + distance)
        hit = (found < 0) & (after_above < 0)
        return distance + 1, after_above, below, above, jnp.where(hit, value, found)

    start = (jnp.ones((), count.dtype), left, peak, peak, jnp.where(left < 0, mode, -1))
    found = jax.lax.while_loop(unfinished, next_values, start)[-1]
    return jnp.where(found < 0, mode, found)  # what rounding has left over


def _peak(mode: Float[Array, "*shape"], count: Float[Array, "*shape"], chance: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The probability of the most likely value, by Loader's saddle-point form (2000)."""
    rest, other = count - mode, 1 - chance
    inside = (mode > 0) & (rest > 0)
    some, more = jnp.where(inside, mode, 1), jnp.where(inside, rest, 1)
    whole, share = some + more, jnp.where(inside, chance, 0.5)
    off = some - whole * share
    deviance = -some * jnp.log1p(-off / some) - more * jnp.log1p(off / more)
    errors = stirling_error(whole) - stirling_error(some) - stirling_error(more)
    scale = jnp.sqrt(whole / (2 * math.pi * some * more))
    safe = lambda value: jnp.maximum(value, jnp.finfo(value.dtype).tiny)
    at_end = jnp.where(mode > 0, count * jnp.log(safe(chance)), count * jnp.log1p(-jnp.minimum(chance, 1 - safe(other))))
    return jnp.where(inside, scale * jnp.exp(errors - deviance), jnp.exp(jnp.where(count > 0, at_end, 0)))


def multinomial(key: PRNGKeyArray, count: Float[Array, ""], chances: Float[Array, " kinds"]) -> Float[Array, " kinds"]:
    """How many of `count` trials are of each kind: halves of the kinds are told apart first, then quarters, and so on.

    >>> import jax, jax.numpy as jnp
    >>> float(multinomial(jax.random.key(0), jnp.array(10.0), jnp.array([0.2, 0.5, 0.3])).sum())
    10.0
    """
    kinds = chances.shape[0]
    levels = max(math.ceil(math.log2(kinds)), 0)
    sums = [jnp.pad(chances, (0, 2**levels - kinds))]
    for _ in range(levels):
        sums.append(sums[-1].reshape(-1, 2).sum(axis=1))
    numbers = count[None]
    for level in range(levels):
        pairs = sums[levels - level - 1].reshape(-1, 2)
        total = pairs.sum(axis=1)
        first = binomial(jax.random.fold_in(key, level), numbers, pairs[:, 0] / jnp.where(total > 0, total, 1))
        numbers = jnp.stack([first, numbers - first], axis=1).reshape(-1)
    return numbers[:kinds]
