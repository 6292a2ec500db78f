"""From a match to an estimate: standard errors by the delta method, intervals, and the status of each arm."""

import dataclasses
from functools import partial
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from jaxbias._core.jit import compiled
from jaxbias.estimators.estimate import Estimate, Status, first_status
from jaxbias.estimators.intervals import EdgeInterval, clip_to_family, edge_interval, normal_quantile, wald
from jaxbias.estimators.mean_matching.matching import Match
from jaxbias.estimators.sigma import Spread, first_doubt, sigma_figures, sigma_of_arm
from jaxbias.policies import ArmStatistics
from jaxbias.rewards import BaseFamily, UnknownSigma

STILL = 0.1  # in standard errors: a last move as small as this leaves nothing


@partial(compiled, static=("level",))
def from_match(found: Match, family: BaseFamily, statistics: ArmStatistics, level: float) -> Estimate:
    """The means, with one-sided intervals for the arms whose rewards were all at one end."""
    stderr, status, diagnostics = _figures(found)
    estimate = clip_to_family(wald("mean_matching", found.mean, stderr, level, status, diagnostics), family)
    edge = edge_interval(family, statistics.mean, statistics.pulls, level)
    return estimate if edge is None else _at_edge(estimate, edge, level)


@partial(compiled, static=("num_arms", "level"))
def from_match_with_sigma(found: Match, spread: Spread, family: UnknownSigma, num_arms: int, level: float) -> Estimate:
    """The figures of means and log sigma as an estimate of the means, with Student's intervals and sigma in the diagnostics."""
    stderr, status, figures = _figures(found)
    of_arm, arms, sigmas = sigma_of_arm(family, num_arms), (..., slice(None, num_arms)), (..., slice(num_arms, None))
    known = spread.is_free[..., of_arm]
    covariance = figures["covariance"][..., :num_arms, :num_arms]
    covariance = jnp.where(known[..., :, None] & known[..., None, :], covariance, jnp.nan)
    of_arms = {name: figures[name][arms] for name in ("monte_carlo_error", "last_move")}
    diagnostics = {**figures, **of_arms, "covariance": covariance}
    diagnostics |= sigma_figures(family, found.mean[sigmas], stderr[sigmas], spread)
    status = first_doubt(status[arms], status[sigmas], spread, of_arm)
    error, freedom = jnp.where(known, stderr[arms], jnp.nan), spread.freedom[..., of_arm]
    return wald("mean_matching", found.mean[arms], error, level, status, diagnostics, freedom)


def _figures(found: Match) -> tuple[Array, Array, dict[str, Any]]:
    """Standard errors, status and diagnostics of whatever was matched."""
    stderr = jnp.sqrt(jnp.diagonal(found.covariance, axis1=-2, axis2=-1))
    status = first_status(
        {
            Status.NOT_FINITE: ~(jnp.isfinite(found.mean) & jnp.isfinite(stderr)),
            Status.OUT_OF_RANGE: found.out_of_range,
            Status.STILL_MOVING: jnp.abs(found.move) > STILL * stderr,
        }
    )
    diagnostics = {
        "covariance": found.covariance,
        "monte_carlo_error": found.monte_carlo_error,
        "last_move": found.move,
        "rounds": found.rounds,
        "simulated_paths": found.paths,
    }
    return stderr, status, diagnostics


def _at_edge(estimate: Estimate, edge: EdgeInterval, level: float) -> Estimate:
    """With one-sided intervals for the arms whose rewards were all at one end, which hold under any policy."""
    pick = lambda there, elsewhere: jnp.where(edge.at_edge, there, elsewhere)
    stderr = (edge.upper - edge.lower) / normal_quantile(level)
    return dataclasses.replace(
        estimate,
        stderr=pick(stderr, estimate.stderr),
        lower=pick(edge.lower, estimate.lower),
        upper=pick(edge.upper, estimate.upper),
        status=pick(jnp.int32(Status.AT_EDGE), estimate.status),
    )
