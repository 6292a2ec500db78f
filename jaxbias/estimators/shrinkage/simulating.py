"""Where to simulate for an estimate of a log: means inside the family's range, and a family that has its sigma."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxbias.estimators.shrinkage.normal import own_variances, shared_variance
from jaxbias.estimators.shrinkage.posterior import Summary
from jaxbias.rewards import BaseFamily, Normal, UnknownSigma

INSIDE = 0.1  # pulls from the end of the range: where a mean that is estimated at the end is simulated


def family_to_simulate(family: BaseFamily, summary: Summary) -> tuple[BaseFamily, Int[Array, " arms"]]:
    """The family with its sigma, estimated if need be, and the degrees of freedom that the estimate has; 0 if it is known."""
    if not isinstance(family, UnknownSigma):
        return family, jnp.zeros(summary.pulls.shape, jnp.int32)
    own, shared = own_variances(summary), shared_variance(summary)
    variance = own.reward if family.each else jnp.broadcast_to(shared.unit, own.reward.shape)
    within = jnp.sum(jnp.maximum(summary.pulls - 1, 0))
    freedom = own.freedom if family.each else jnp.broadcast_to(within, own.reward.shape)
    return Normal(sigma=jax.lax.stop_gradient(jnp.sqrt(variance))), jnp.asarray(freedom).astype(jnp.int32)


def means_to_simulate(family: BaseFamily, estimate: Float[Array, " arms"], pulls: Array) -> Float[Array, " arms"]:
    """The estimates; an unpulled arm at the average of the others, one at an end of the range a tenth of a pull inside."""
    known = jnp.isfinite(estimate)
    others = jnp.sum(jnp.where(known, estimate, 0)) / jnp.maximum(jnp.sum(known), 1).astype(estimate.dtype)
    low, high = family.mean_range
    margin = INSIDE / jnp.maximum(pulls, 1).astype(estimate.dtype)
    filled = jnp.where(known, estimate, others)
    # A mean that is itself smaller than the margin is inside.
    return jnp.where(filled <= low, low + margin, jnp.where(filled >= high, high - margin, filled))
