"""From fits to estimates: standard errors from the information, intervals, and the status of each arm.

Where sigma is not known: the maximum likelihood sigma is too small, by the root of (pulls - arms) / pulls where nothing was
adaptive. The standard errors of the means are made larger by as much, and the quantiles are those of t with pulls - arms degrees
of freedom; with one sigma for each arm, with its own pulls - 1. An arm pulled once then has no interval: for the sake of the
others its sigma is that within all arms together.
"""

import dataclasses
from functools import partial

import jax.numpy as jnp
from jaxtyping import Array, Bool

from jaxbias._core.jit import compiled
from jaxbias.estimators.conditional_mle.chain_samples import ChainSummary
from jaxbias.estimators.conditional_mle.contrastive_divergence import Fit
from jaxbias.estimators.conditional_mle.newton import NEAR, BoundedFit, NewtonFit
from jaxbias.estimators.estimate import Estimate, Status, first_status
from jaxbias.estimators.intervals import wald
from jaxbias.estimators.sigma import Spread, first_doubt, sigma_figures, sigma_of_arm
from jaxbias.rewards import UnknownSigma

ENOUGH_SAMPLES = 100  # effective samples below which a covariance of several arms is not reliable
EXACT = 1e-3  # a Monte Carlo error below this share of the standard error is none, however few the samples
LARGEST_R_HAT = 1.05  # of chains that have met: beyond it they still disagree about where the rewards are
STILL = 0.25  # in standard errors: iterates that drift less have settled, and a Monte Carlo error below it is small enough


@partial(compiled, static=("level",))
def from_newton(fit: NewtonFit, level: float) -> Estimate:
    """An arm has converged where its mean stopped moving, and enough samples, that agree, say where."""
    stderr = jnp.sqrt(jnp.diagonal(fit.covariance, axis1=-2, axis2=-1))
    moving = (jnp.abs(fit.move) > NEAR * stderr) | (jnp.abs(fit.rest) > jnp.maximum(0.01 * stderr, fit.monte_carlo_error))
    few = (fit.effective < ENOUGH_SAMPLES)[..., None] & (fit.monte_carlo_error > EXACT * stderr)
    apart = jnp.zeros_like(few) if fit.chains is None else jnp.broadcast_to(_apart(fit.chains)[..., None], few.shape)
    status = first_status(
        {
            Status.NOT_FINITE: ~(jnp.isfinite(fit.mean) & jnp.isfinite(stderr)),
            Status.STILL_MOVING: moving,
            Status.TOO_FEW_SAMPLES: few,
            Status.IMPRECISE: ~(fit.monte_carlo_error < STILL * stderr),
            Status.CHAINS_APART: apart,
        }
    )
    diagnostics = {
        "covariance": fit.covariance,
        "monte_carlo_error": fit.monte_carlo_error,
        "effective_samples": fit.effective,
        "rounds": fit.rounds,
        "last_move": fit.move,
        "log_normaliser": fit.log_normaliser,
    }
    if fit.chains is not None:
        diagnostics.pop("log_normaliser")  # chains do not determine it
        diagnostics |= {name: value for name, value in fit.chains._asdict().items() if name != "effective_sample_size"}
    return wald("conditional_mle", fit.mean, stderr, level, status, diagnostics)


@partial(compiled, static=("level",))
def from_divergence(fit: Fit, covariance: Array, level: float) -> Estimate:
    """Standard errors from the information at the estimate; an arm has converged where its iterates have stopped drifting."""
    stderr = jnp.sqrt(jnp.diagonal(covariance, axis1=-2, axis2=-1))
    diagnostics = {name: value for name, value in fit._asdict().items() if name != "mean" and value is not None}
    error = fit.monte_carlo_error
    status = first_status(
        {
            Status.NOT_FINITE: ~(jnp.isfinite(fit.mean) & jnp.isfinite(stderr)),
            Status.STILL_MOVING: ~(jnp.abs(fit.drift) < STILL * stderr),
            Status.IMPRECISE: jnp.zeros_like(stderr, bool) if error is None else ~(error < STILL * stderr),
        }
    )
    return wald("conditional_mle", fit.mean, stderr, level, status, diagnostics)


@partial(compiled, static=("level",))
def from_bounded(fit: BoundedFit, level: float) -> Estimate:
    """With the intervals of the fit. An estimate at the edge of the range is reliable, and its status says where it is."""
    estimate = from_newton(fit.newton, level)
    status = jnp.where(fit.at_edge & estimate.converged, jnp.int32(Status.AT_EDGE), estimate.status)
    return dataclasses.replace(estimate, lower=fit.ends[..., 0], upper=fit.ends[..., 1], status=status)


@partial(compiled, static=("num_arms", "level"))
def from_sigma(fit: NewtonFit, spread: Spread, family: UnknownSigma, num_arms: int, level: float) -> Estimate:
    """The fit of means and log sigma as an estimate of the means, with Student's intervals and sigma among the diagnostics."""
    joint = from_newton(fit, level)
    of_arm = sigma_of_arm(family, num_arms)
    arms, sigmas = (..., slice(None, num_arms)), (..., slice(num_arms, None))
    figures = joint.diagnostics
    status = first_doubt(joint.status[arms], joint.status[sigmas], spread, of_arm)
    larger = jnp.sqrt(spread.pulls.astype(joint.mean.dtype) / spread.freedom.astype(joint.mean.dtype))[..., of_arm]
    larger = jnp.where(spread.is_free[..., of_arm], larger, jnp.nan)
    covariance = figures["covariance"][..., :num_arms, :num_arms] * larger[..., :, None] * larger[..., None, :]
    of_arms = {name: figures[name][arms] for name in ("monte_carlo_error", "last_move")}
    diagnostics = {**figures, **of_arms, "covariance": covariance}
    diagnostics |= sigma_figures(family, joint.mean[sigmas], joint.stderr[sigmas], spread)
    stderr, freedom = joint.stderr[arms] * larger, spread.freedom[..., of_arm]
    return wald(joint.method, joint.mean[arms], stderr, level, status, diagnostics, freedom)


def _apart(chains: ChainSummary) -> Bool[Array, " trials"]:
    return ~(chains.r_hat < LARGEST_R_HAT)
