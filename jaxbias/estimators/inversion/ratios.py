"""The ratio of two means by inverting tests: the ratios r at which mean_1 - r mean_2 = 0 is not rejected.

With tests of fixed arms this is Fieller's interval (1954). It is one piece while the second mean is clearly above 0, and where it
is not there is no ratio to speak of.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxbias.estimators.inversion.tails import Contrast, find_ends, tails

FAR = 6.0  # standard errors to where an end is looked for: Fieller's own interval for this many
CLOSEST = 0.02  # of the second mean: the least that is left of it, as a factor, when so many standard errors are taken from it
HALVINGS = 20  # of a bracket that is wide where the second mean is near 0


def find_ratio(contrast: Callable[[Any], Contrast], weights: Float[Array, "2"], chance: Float[Array, "2"]) -> Float[Array, "3"]:
    """The median, the lower and the upper end of the ratio of the mean whose weight is above 0 to the other.

    Not a number where the interval of the second mean includes 0.
    """
    first = weights > 0
    at = lambda ratio: tails(contrast(jnp.where(first, 1, -ratio)), jnp.zeros_like(ratio))
    both, order = contrast(weights), jnp.where(first[0], jnp.arange(2), jnp.arange(1, -1, -1))
    mean, stderr = both.observed.mean[0][order], both.stderr[order]
    positive = mean[1] > 0
    if both.family.mean_range[0] < 0:
        alone = contrast(jnp.where(first, 0, jnp.ones_like(weights)))
        positive &= tails(alone, jnp.zeros_like(chance[0])).above < chance[0]
    safe = jnp.where(positive, mean[1], 1)
    low, high = _bracket(mean[0], safe, stderr)
    if both.family.mean_range[0] >= 0:
        low = jnp.maximum(low, 0)  # the ratio of two means that cannot be negative
    lower, upper, median = find_ends(at, chance, low, mean[0] / safe, high, HALVINGS).places
    found = jnp.stack([median, lower, upper])
    return jnp.where(positive, found, jnp.nan)


def _bracket(first: Array, second: Array, stderr: Float[Array, "2"]) -> tuple[Array, Array]:
    """Where the ends are looked for: the first mean at its farthest over the second at its nearest to 0, and the like."""
    nearest, farthest = jnp.maximum(second - FAR * stderr[1], CLOSEST * second), second + FAR * stderr[1]
    low, high = first - FAR * stderr[0], first + FAR * stderr[0]
    return jnp.minimum(low / nearest, low / farthest), jnp.maximum(high / nearest, high / farthest)
