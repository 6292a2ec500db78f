"""How likely paths would have been at other means than those they were simulated at.

Given the policy, the likelihood of a path in the mean of an arm is that of its rewards alone, and in an exponential family a
function of their sum S and number N:

    log p(mean) - log p(centre) = (eta(mean) - eta(centre)) (S - N centre) - N D(centre, mean)

with eta the natural parameter and D the divergence of one reward. A path was simulated at one of several anchors; its weight
counts all of them, whichever it was (the balance heuristic of Veach and Guibas, 1995), so that no weight is large at a
candidate among the anchors.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxbias.estimators.inversion.anchors import Anchors
from jaxbias.rewards import BaseFamily, Normal


def log_ratio(
    family: BaseFamily,
    mean: Float[Array, " arms"],
    centre: Float[Array, " arms"],
    count: Float[Array, "paths arms"],
    residual: Float[Array, "paths arms"],
    reward: Float[Array, ""],
) -> Float[Array, "paths arms"]:
    """log p(mean) - log p(centre) of each path and arm; `residual` is S - N centre, `reward` any that the family can give."""
    if isinstance(family, Normal):
        variance = family.variance(centre)
        slope, divergence = (mean - centre) / variance, jnp.square(mean - centre) / (2 * variance)
    else:
        slope = family.natural(mean) - family.natural(centre)
        rewards = jnp.broadcast_to(reward, mean.shape)
        divergence = family.log_prob(rewards, centre) - family.log_prob(rewards, mean) + slope * (rewards - centre)
    return slope[None] * residual - divergence[None] * count


def log_mixture(
    family: BaseFamily,
    anchors: Anchors,
    count: Float[Array, "paths arms"],
    residual: Float[Array, "paths arms"],
    reward: Float[Array, ""],
) -> Float[Array, "paths arms"]:
    """The logarithm of the average over the anchors of each arm of p(anchor) / p(centre)."""

    def add(total: Array, place: Float[Array, " arms"]) -> tuple[Array, None]:
        return jnp.logaddexp(total, log_ratio(family, place, anchors.centre, count, residual, reward)), None

    nothing = jnp.full_like(residual, -jnp.inf)
    total, _ = jax.lax.scan(add, nothing, anchors.places.T)  # one anchor after another: 16 times less memory
    return total - jnp.log(jnp.asarray(anchors.places.shape[1], residual.dtype))
