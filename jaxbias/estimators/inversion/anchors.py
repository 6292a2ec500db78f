"""Anchors: the means at which paths are simulated, spread over what the log says about each arm.

Each arm has a few anchors, the quantiles of its mean given the log alone (a flat prior on a scale without ends). Every path
takes one anchor of each arm, each of them equally often and independently of the other arms. So a path serves as a path of a test
of any arm, in which the means of the other arms are not known but spread over their anchors.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import logit, ndtri
from jaxtyping import Array, Float, Int, PRNGKeyArray

from jaxbias.rewards import BaseFamily

ANCHORS = 16  # of each arm: then an interval's end is within half a standard error of one
EDGE = 0.5  # of one pull: how far inside the range the mean of an arm is placed whose rewards were all at its end


class Anchors(NamedTuple):
    """Where the means of the arms may be.

    Fields:
        centre: the sample means, inside the range of the family.
        stderr: of each arm, had the arms been fixed in advance.
        places: the anchors of each arm.
    """

    centre: Float[Array, " arms"]
    stderr: Float[Array, " arms"]
    places: Float[Array, "arms anchors"]


def place_anchors(
    family: BaseFamily, sample_means: Float[Array, " arms"], pulls: Int[Array, " arms"], spread: Float[Array, ""]
) -> Anchors:
    """The anchors of each arm; `spread` is how many times wider than what the log says they lie."""
    count = jnp.maximum(pulls, 1).astype(sample_means.dtype)
    centre = move_inside(family, sample_means, count)
    stderr = jnp.sqrt(family.variance(centre) / count)
    quantiles = ndtri((jnp.arange(ANCHORS, dtype=centre.dtype) + 0.5) / ANCHORS)
    places = _shift(family, centre[:, None], (spread * stderr)[:, None] * quantiles[None])
    return Anchors(centre=centre, stderr=stderr, places=places)


def move_inside(
    family: BaseFamily, mean: Float[Array, "*paths arms"], count: Float[Array, "*paths arms"]
) -> Float[Array, "*paths arms"]:
    """Means at an end of the range, by half a pull inside it."""
    low, high = family.mean_range
    margin = EDGE / (count + 1)
    return jnp.clip(mean, low + margin, high - margin) if family.has_edges else mean


def _shift(family: BaseFamily, mean: Array, move: Array) -> Array:
    """The mean moved on a scale without ends: log-odds, logarithm, or the scale of the means itself."""
    low, high = family.mean_range
    if low == 0 and high == 1:
        return jax.nn.sigmoid(logit(mean) + move / (mean * (1 - mean)))
    return mean * jnp.exp(move / mean) if low == 0 else mean + move


def assign_anchors(key: PRNGKeyArray, anchors: Anchors, num_paths: int) -> Float[Array, "paths arms"]:
    """The means of each path: every anchor of an arm for as many paths, in an order of its own for every arm."""
    keys = jax.random.split(key, anchors.centre.shape[0])
    turn = jnp.arange(num_paths) % anchors.places.shape[1]
    which = jax.vmap(lambda one: jax.random.permutation(one, turn))(keys)
    return jnp.take_along_axis(anchors.places, which, axis=1).T


def draw_nuisance(key: PRNGKeyArray, anchors: Anchors, number: int) -> Float[Array, "draws arms"]:
    """Means of all arms, one anchor of each by chance."""
    which = jax.random.randint(key, (anchors.centre.shape[0], number), 0, ANCHORS)
    return jnp.take_along_axis(anchors.places, which, axis=1).T


def range_of(family: BaseFamily, weights: Float[Array, " arms"]) -> tuple[Any, Any]:
    """The least and the largest value that a contrast of the means can have."""
    low, high = family.mean_range
    # An arm of no weight adds nothing, whatever its range.
    least = jnp.sum(jnp.where(weights == 0, 0, jnp.where(weights > 0, weights * low, weights * high)))
    most = jnp.sum(jnp.where(weights == 0, 0, jnp.where(weights > 0, weights * high, weights * low)))
    return least, most
