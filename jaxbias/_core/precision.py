"""Sums of long logs in float32, and rewards that it cannot carry."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxbias._core.errors import ArgumentError

BLOCK = 4096  # rewards summed one after the other: 12 of the 24 bits of a float32 are left for the sum of one block
# Rounding costs a mean about eps max|reward|, and its standard error is sigma / sqrt(n). The loss in standard errors,
# sqrt(n) eps max|reward| / sigma, may be an eighth.
CARRIED = 2.0**-3


def sum_by_arm(arms: Int[Array, " steps"], values: Float[Array, " steps"], num_arms: int) -> Float[Array, " arms"]:
    """The sum of each arm's values: of many steps by blocks, as a sum of ones in float32 stops growing at 2^24."""
    if arms.shape[0] <= BLOCK:
        return jnp.zeros(num_arms, values.dtype).at[arms].add(values)
    blocks = -(-arms.shape[0] // BLOCK)
    place = jnp.arange(arms.shape[0]) // BLOCK * num_arms + arms
    sums = jnp.zeros(blocks * num_arms, values.dtype).at[place].add(values).reshape(blocks, num_arms)
    while sums.shape[0] > 1:
        half = sums.shape[0] // 2
        sums = jnp.concatenate([sums[:half] + sums[half : 2 * half], sums[2 * half :]])
    return sums[0]


def check_carried(arms: np.ndarray, given: Any, rewards: jax.Array, num_arms: int) -> None:
    """Refuses rewards that vary so little beside their size that their type loses it.

    Arguments:
        arms, rewards: as they are used, (steps,) or (trials, steps).
        given: the rewards as they were given, which may have more digits.
    """
    eps = float(jnp.finfo(rewards.dtype).eps)
    values = np.asarray(given, np.float64)
    peak, steps = float(np.abs(values).max(initial=0.0)), values.shape[-1]
    if peak <= 1 or rewards.dtype == jnp.float64:  # shares and 0/1 rewards, whose sums are exact or nearly so
        return
    deviation = deviation_within(arms, values, num_arms)
    if 0 < deviation < eps / CARRIED * steps**0.5 * peak:
        problem = f"are up to {peak:g} and vary by {deviation:.2g} within an arm, which {rewards.dtype.name} cannot carry"
        remedy = "subtract a constant from all of them, or use float64 (jax.config.update('jax_enable_x64', True))"
        raise ArgumentError("history.rewards", given, problem=problem, remedy=remedy)


def deviation_within(arms: np.ndarray, values: np.ndarray, num_arms: int) -> float:
    """The standard deviation of the rewards around the means of their arms, of all trials together; exactly 0 if all alike."""
    group = (np.arange(values.size // values.shape[-1])[:, None] * num_arms + np.atleast_2d(arms)).ravel()
    pulls, flat = np.bincount(group), values.ravel()
    some = np.zeros(pulls.size)
    some[group] = flat
    flat = flat - some[group]  # from one of the arm's rewards, or the mean of equal ones is off by its rounding
    mean = np.bincount(group, weights=flat) / np.maximum(pulls, 1)
    free = flat.size - np.count_nonzero(pulls)
    return float(np.sqrt(np.sum(np.square(flat - mean[group])) / max(free, 1)))
