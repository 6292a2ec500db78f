"""The intervals of test inversion for the estimates of another method."""

import dataclasses
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from jaxbias._core.derivatives import held
from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import compiled
from jaxbias.estimators.estimate import Estimate
from jaxbias.estimators.intervals import normal_quantile
from jaxbias.estimators.inversion.estimator import test_inversion
from jaxbias.estimators.inversion.question import can_invert
from jaxbias.history import History
from jaxbias.rewards import BaseFamily

Interval = Literal["inversion", "delta"]
INTERVALS = ("inversion", "delta")
ENOUGH_PATHS = 2048  # for an interval, however many the estimate itself has: an end is then known to 0.02 standard errors
PURPOSE = 17  # folded into the key: other random numbers than those of the estimate


def check_interval(interval: str) -> None:
    """Refuses a kind of interval that there is not."""
    if interval not in INTERVALS:
        raise ArgumentError("interval", interval, " or ".join(map(repr, INTERVALS)))


def with_inverted_interval(
    key: PRNGKeyArray,
    estimate: Estimate,
    history: History,
    policy: Any,
    family: BaseFamily,
    level: float,
    num_paths: int,
    **ending: Any,
) -> Estimate:
    """The estimate with the interval of test inversion, widened to hold the estimate itself, and the standard error it implies.

    Where test inversion does not apply to the family, or has no interval for an arm, the estimate keeps its own. An interval has
    no derivative of its own: it moves with the mean.
    """
    if not can_invert(family):
        return estimate
    fixed: Any = held((history, policy, family))
    options: Any = dict(level=level, num_paths=min(num_paths, ENOUGH_PATHS), **ending)
    inverted = test_inversion(jax.random.fold_in(key, PURPOSE), *fixed, **options)
    return with_interval_of(inverted, estimate, level)


@partial(compiled, static=("level",))
def with_interval_of(inverted: Estimate, estimate: Estimate, level: float) -> Estimate:
    """The estimate with an interval of test inversion that is there already."""
    mean = jax.lax.stop_gradient(estimate.mean)
    known = inverted.converged & jnp.isfinite(mean)
    lower, upper = jnp.minimum(inverted.lower, mean) - mean, jnp.maximum(inverted.upper, mean) - mean
    stderr = (upper - lower) / (2 * normal_quantile(level))
    pick = lambda new, old: jnp.where(known, new, old)
    return dataclasses.replace(
        estimate,
        stderr=pick(stderr, estimate.stderr),
        lower=pick(estimate.mean + jax.lax.stop_gradient(lower), estimate.lower),
        upper=pick(estimate.mean + jax.lax.stop_gradient(upper), estimate.upper),
        diagnostics={**estimate.diagnostics, "inverted": known, "interval_error": inverted.diagnostics["monte_carlo_error"]},
    )
