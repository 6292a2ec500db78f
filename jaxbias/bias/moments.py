"""Averages over trials, and their errors, that do not depend on how the trials were chunked and spread.

Each block of trials gives a count, a mean and a sum of squares about that mean; blocks are merged in order in float64 (Chan,
Golub and LeVeque 1979), which loses no digits.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

BLOCK = 256  # trials summed together: a power of two, as the sum is a tree
FEWEST = 16  # trials of a smaller block: fewer take no less time, and each size is a program of its own


class Moments(NamedTuple):
    """Count, mean and sum of squares about the mean, of a block of trials or of all so far."""

    count: Any
    mean: Any
    squares: Any


def block_of(num_trials: int) -> int:
    """The block that so few trials need: the trials that are missing from a whole one would only add zeros to its sums.

    >>> block_of(16), block_of(17), block_of(1000)
    (16, 32, 256)
    """
    return min(BLOCK, max(FEWEST, 1 << (num_trials - 1).bit_length()))


def block_moments(values: Float[Array, "trials features"], counted: Array) -> Moments:
    """Moments of each block of trials, with the sum in place of the mean: counts stay whole numbers."""
    block = min(BLOCK, values.shape[0])  # one smaller block where there are few trials
    values = values.reshape(-1, block, values.shape[1])
    counted = counted.reshape(-1, block, 1)
    count = jnp.sum(counted, axis=1, dtype=jnp.int32)
    total = tree_sum(jnp.where(counted, values, 0))
    divisor = rounded(jnp.broadcast_to(jnp.maximum(count, 1).astype(values.dtype), total.shape))
    deviation = jnp.where(counted, values - rounded(total / divisor)[:, None], 0)
    return Moments(count=count, mean=total, squares=tree_sum(rounded(jnp.square(deviation))))


def rounded(values: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """A barrier, so that the compiler rounds the same way in every program: in some it would merge a product with a sum, or take
    the reciprocal of what many are divided by."""
    return jax.lax.optimization_barrier(values)


def tree_sum(values: Float[Array, "rows summed *features"]) -> Float[Array, "rows *features"]:
    """The sum over the second axis as a tree of additions: an order that no compiler changes, and little rounding."""
    while (length := values.shape[1]) > 1:
        half = length // 2
        pairs = values[:, :half] + values[:, half : 2 * half]
        values = jnp.concatenate([pairs, values[:, 2 * half :]], axis=1)
    return values[:, 0]


def merge_blocks(merged: dict[str, Moments] | None, blocks: dict[str, Moments]) -> dict[str, Moments]:
    """All blocks of a chunk, one after the other, merged into what there was before."""
    result = {}
    for name, moments in blocks.items():
        so_far = merged[name] if merged else Moments(0, 0.0, 0.0)
        for count, summed, squares in zip(*(np.asarray(part, np.float64) for part in moments), strict=True):
            total = so_far.count + count
            share = count / np.maximum(total, 1)
            difference = summed / np.maximum(count, 1) - so_far.mean
            so_far = Moments(
                count=total,
                mean=so_far.mean + share * difference,
                squares=so_far.squares + squares + np.square(difference) * so_far.count * share,
            )
        result[name] = so_far
    return result


def stderr_of(moments: Moments) -> Any:
    """The standard error of the mean; not a number where there is one trial."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.sqrt(moments.squares / (moments.count - 1) / moments.count)
