"""The maximum of the conditional likelihood, for Normal rewards of known sigma, by Newton's method.

Given the arms the model is an exponential family in the means: with S_k the summed rewards of arm k over sigma_k^2, the score is
S - E[S | arms] and the information Cov[S | arms], both from paths drawn at the current means. The likelihood is concave. The same
random numbers serve every step, so the steps shrink to nothing, at a point that is off by the Monte Carlo error alone: a few
paths find the neighbourhood, many the maximum.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from jaxbias.estimators.gaussian import Log, Moments, conditional_moments, most_likely_path
from jaxbias.policies import Policy

LONGEST_STEP = 3.0  # of a Newton step, in standard errors: further away the quadratic says little
FIRST_ROUNDS, ROUNDS = 5, 2  # Newton steps towards the most likely path, at first and after each move of the means
SMALL = 1e-3  # a step this small against the standard error changes no figure anyone reads


class NewtonFit(NamedTuple):
    """Where the search ended.

    Fields:
        mean: the maximum.
        covariance: the inverse of the information there.
        step: the last step of each arm.
        monte_carlo_error: the standard error of `mean` through the paths drawn.
        effective: the effective number of paths.
        rounds: steps taken.
        log_normaliser: the log-probability of the arms at the maximum.
    """

    mean: Float[Array, " arms"]
    covariance: Float[Array, "arms arms"]
    step: Float[Array, " arms"]
    monte_carlo_error: Float[Array, " arms"]
    effective: Float[Array, ""]
    rounds: Any
    log_normaliser: Float[Array, ""]


class _Search(NamedTuple):
    fit: NewtonFit
    path: Float[Array, " steps"]


def newton(
    key: PRNGKeyArray,
    policy: Policy,
    sigma: Float[Array, " arms"],
    log: Log,
    start: Float[Array, " arms"],
    few: int,
    many: int,
    max_rounds: int,
) -> NewtonFit:
    """The maximum for one trial: first with `few` pairs of paths, then with `many`."""
    noise = jax.random.normal(key, (log.arms.shape[0], many), log.rewards.dtype)
    path = most_likely_path(policy, log, start, sigma, log.rewards, FIRST_ROUNDS)
    first = _climb(policy, sigma, log, start, path, noise[:, :few], max_rounds)
    last = _climb(policy, sigma, log, first.fit.mean, first.path, noise, max_rounds)
    return last.fit._replace(rounds=first.fit.rounds + last.fit.rounds)


def covariance_at(
    key: PRNGKeyArray, policy: Policy, sigma: Float[Array, " arms"], log: Log, mean: Float[Array, " arms"], pairs: int
) -> Float[Array, "arms arms"]:
    """The inverse of the conditional information at given means, for an estimate that was found otherwise."""
    path = most_likely_path(policy, log, mean, sigma, log.rewards, FIRST_ROUNDS)
    noise = jax.random.normal(key, (log.arms.shape[0], pairs), log.rewards.dtype)
    by_variance = 1 / jnp.square(sigma)
    covariance = conditional_moments(policy, log, mean, sigma, path, noise).covariance
    return jnp.linalg.inv(covariance * by_variance[:, None] * by_variance[None])


def _climb(policy: Policy, sigma: Array, log: Log, start: Array, path: Array, noise: Array, max_rounds: int) -> _Search:
    def going(search: _Search) -> Array:
        close_enough = jnp.maximum(0.1 * search.fit.monte_carlo_error, SMALL * jnp.sqrt(jnp.diag(search.fit.covariance)))
        return (search.fit.rounds < max_rounds) & jnp.any(jnp.abs(search.fit.step) > close_enough)

    def climb(search: _Search) -> _Search:
        path = most_likely_path(policy, log, search.fit.mean, sigma, search.path, ROUNDS)
        moments = conditional_moments(policy, log, search.fit.mean, sigma, path, noise)
        return _Search(fit=_step(search.fit, moments, sigma, 2 * noise.shape[1]), path=path)

    infinite = jnp.full_like(start, jnp.inf)
    nothing = NewtonFit(
        mean=start,
        covariance=jnp.zeros((start.shape[0], start.shape[0]), start.dtype),
        step=infinite,
        monte_carlo_error=jnp.zeros_like(start),
        effective=jnp.zeros((), start.dtype),
        rounds=jnp.zeros((), jnp.int32),
        log_normaliser=jnp.zeros((), start.dtype),
    )
    return jax.lax.while_loop(going, climb, _Search(fit=nothing, path=path))


def _step(fit: NewtonFit, moments: Moments, sigma: Array, paths: int) -> NewtonFit:
    """One Newton step, shortened where it is long against its own standard error."""
    by_variance = 1 / jnp.square(sigma)
    information = moments.covariance * by_variance[:, None] * by_variance[None]
    covariance = jnp.linalg.inv(information)
    score = -moments.total * by_variance
    step = covariance @ score
    length = jnp.sqrt(jnp.maximum(score @ step, 0))
    step = step * jnp.minimum(1, LONGEST_STEP / jnp.maximum(length, LONGEST_STEP))
    error = covariance * by_variance[None]
    return NewtonFit(
        mean=fit.mean + step,
        covariance=covariance,
        step=step,
        monte_carlo_error=jnp.sqrt(jnp.diag(error @ moments.error @ error.T)),
        effective=moments.effective * paths,
        rounds=fit.rounds + 1,
        log_normaliser=moments.log_normaliser,
    )
