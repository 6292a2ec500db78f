"""From simulated estimates to the corrected one: bias, its derivative, standard errors and intervals."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxbias._core.jit import compiled
from jaxbias.estimators.estimate import Estimate, Status, first_status
from jaxbias.estimators.intervals import bounded_interval, edge_interval, normal_quantile, student_quantile
from jaxbias.history import History
from jaxbias.rewards import BaseFamily, UnknownSigma

FARTHEST = 0.9  # of the way from the estimate to the end of the family's range: no correction goes beyond it
PRECISE = 0.25  # of the standard error: a larger Monte Carlo error is reported


class Corrected(NamedTuple):
    """Of each log."""

    mean: Float[Array, "*trials arms"]
    covariance: Float[Array, "*trials arms arms"]
    estimate: Float[Array, "*trials arms"]
    bias: Float[Array, "*trials arms"]
    monte_carlo_error: Float[Array, "*trials arms"]
    out_of_range: Bool[Array, "*trials arms"]
    freedom: Int[Array, "*trials arms"]


def take_off(
    family: BaseFamily,
    estimate: Array,
    start: Array,
    simulated: tuple[Array, Array],
    freedom: Array,
) -> Corrected:
    """From the estimates of the paths and their scores to the corrected estimate of one log."""
    of_paths, score = simulated
    size, num_arms = of_paths.shape
    known = jnp.isfinite(of_paths)
    share = jnp.maximum(jnp.mean(known.astype(start.dtype), axis=0), 1 / size)
    average = jnp.mean(jnp.where(known, of_paths, 0), axis=0) / share
    centred = jnp.where(known, of_paths - average[None], 0) / share[None]
    off = jnp.mean(score, axis=0)
    centred_score = score - off[None]
    derivative = centred.T @ centred_score / (size - 1)
    information = centred_score.T @ centred_score / (size - 1)
    identity = jnp.eye(num_arms, dtype=start.dtype)
    ridge = jnp.finfo(start.dtype).eps * jnp.max(jnp.diag(information)) * num_arms
    owed = jnp.linalg.solve(information + ridge * identity, derivative.T).T  # of each estimate on the scores
    owed = jnp.where((share == 1)[:, None], owed, 0)  # given that an arm was pulled, its score is not zero on average
    rest = centred - centred_score @ owed.T
    bias = average - owed @ off - start
    slope = 2 * identity - derivative
    # The value of the estimate less the bias, with the derivative of both.
    known_estimate = jnp.where(jnp.isfinite(estimate), estimate, 0)
    moved = slope @ (known_estimate - jax.lax.stop_gradient(known_estimate))
    whole = jax.lax.stop_gradient(estimate - bias) + moved
    low, high = family.mean_range
    lowest = estimate - FARTHEST * (estimate - low) if low > -jnp.inf else -jnp.inf
    highest = estimate + FARTHEST * (high - estimate) if high < jnp.inf else jnp.inf
    mean = jnp.clip(whole, lowest, highest)
    spread = centred * share[None] / jnp.sqrt(share)[None]
    covariance = slope @ (spread.T @ spread / (size - 1)) @ slope.T
    error = jnp.sqrt(jnp.mean(jnp.square(rest), axis=0) / size)
    return Corrected(mean, covariance, estimate, bias, error, mean != whole, freedom)


@partial(compiled, static=("level",), pads=("history",))
def to_estimate(found: Corrected, family: BaseFamily, history: History, level: float) -> Estimate:
    """The corrected means with intervals, one-sided for the arms whose rewards were all at one end of the range."""
    statistics = history.statistics
    stderr = jnp.sqrt(jnp.diagonal(found.covariance, axis1=-2, axis2=-1))
    stderr = jnp.where(jnp.isfinite(found.mean), stderr, jnp.nan)
    lower, upper = bounded_interval(family, found.mean, stderr, level)
    if isinstance(family, UnknownSigma):
        half = stderr * student_quantile(level, found.freedom, stderr.dtype)
        lower, upper = found.mean - half, found.mean + half
    status = first_status(
        {
            Status.NEVER_PULLED: statistics.pulls == 0,
            Status.NOT_FINITE: ~(jnp.isfinite(found.mean) & jnp.isfinite(stderr)),
            Status.OUT_OF_RANGE: found.out_of_range,
            Status.IMPRECISE: found.monte_carlo_error > PRECISE * stderr,
        }
    )
    edge = edge_interval(family, statistics.mean, statistics.pulls, level)
    if edge is not None:
        pick = lambda there, elsewhere: jnp.where(edge.at_edge, there, elsewhere)
        stderr = pick((edge.upper - edge.lower) / normal_quantile(level), stderr)
        lower, upper, status = pick(edge.lower, lower), pick(edge.upper, upper), pick(jnp.int32(Status.AT_EDGE), status)
        lower, upper = jnp.minimum(lower, found.mean), jnp.maximum(upper, found.mean)
    diagnostics = {
        "estimate": found.estimate,
        "bias": found.bias,
        "monte_carlo_error": found.monte_carlo_error,
        "covariance": found.covariance,
    }
    ends = dict(lower=lower, upper=upper)
    return Estimate(method="bias_corrected", mean=found.mean, stderr=stderr, status=status, diagnostics=diagnostics, **ends)
