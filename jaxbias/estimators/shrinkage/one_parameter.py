"""Arms' means with a conjugate prior, and Bernoulli, Poisson or Exponential rewards.

The prior of an arm's mean has the mean m and is worth M pulls (`conjugate.py`). Its marginal likelihood is in closed form. M has
the uniform shrinkage prior: M / (M + n) is uniform on (0, 1), with n the harmonic mean of the pulls, as in `normal.py`, where
M = sigma^2 / A. m has Jeffreys' prior, 1 / sqrt(variance of a reward at m), which is flat for Normal rewards. What is left is an
integral over log M, and for each M one over the log-odds or the logarithm of m.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxbias.estimators.conjugate import (
    from_line,
    line_log_density,
    line_moments,
    log_evidence,
    log_likelihood,
    posterior_variance,
    to_line,
)
from jaxbias.estimators.shrinkage.posterior import Posterior, Summary, log_grid, normalise, uniform_shrinkage
from jaxbias.rewards import BaseFamily, Bernoulli, Exponential

REACH = 12  # of the grid beyond the scales of the problem, in log M: what is left out has a weight of e^-12
FEW_NODES, NODES_BY_ROOT_ARM = 32, 12  # of log M; as in `normal.py`, on a grid of half the length in units of its width
CENTRE_NODES = 13  # of m, for each M
CENTRE_REACH = 5.0  # standard deviations on both sides of it
WIDEST = 2.0  # standard deviation of m on the line, where the log says little of it
LINE_REACH, LINE_NODES = 10.0, 257  # of a table on the line: standard deviations to both sides, and places


def conjugate_posterior(family: BaseFamily, summary: Summary) -> Posterior:
    """The posterior of one trial; an arm without a pull says nothing, and nothing is said of it."""
    pulls, total = summary.pulls, summary.pulls * summary.mean
    pulled = pulls > 0
    number = jnp.maximum(jnp.sum(pulled), 1).astype(pulls.dtype)
    typical = number / jnp.maximum(jnp.sum(jnp.where(pulled, 1 / jnp.maximum(pulls, 1), 0)), jnp.finfo(pulls.dtype).tiny)
    size = max(FEW_NODES, math.ceil(NODES_BY_ROOT_ARM * math.sqrt(pulls.shape[0])))
    place = log_grid(-REACH - jnp.log(jnp.maximum(typical, 1)), jnp.full_like(typical, REACH), size)
    worth = typical * jnp.exp(place)  # M at each node

    def given(worth: Float[Array, ""]) -> tuple[Array, Array]:
        """The grid of m at one M, and the logarithm of the density there, in units of the spacing."""
        line, spacing = centre_grid(family, pulls, total, worth, CENTRE_NODES, CENTRE_REACH)
        centre = from_line(family, line)
        return centre, log_marginal(family, pulls, total, centre, worth) + jnp.log(spacing)

    centre, log_weight = jax.vmap(given)(worth)
    log_weight = (log_weight + uniform_shrinkage(place)[:, None]).ravel()
    centre, worth = centre.ravel(), jnp.repeat(worth, CENTRE_NODES)
    return _mixture(family, pulls, total, centre, worth, log_weight)


def log_marginal(
    family: BaseFamily,
    pulls: Float[Array, " arms"],
    total: Float[Array, " arms"],
    centre: Float[Array, " nodes"],
    worth: Float[Array, ""],
) -> Float[Array, " nodes"]:
    """The log-likelihood of m and M, the arms' means integrated out, with the prior of m as a density on the line."""
    arms = (centre[:, None], worth, pulls[None], total[None])
    likelihood = log_evidence(family, *arms) + log_likelihood(family, centre[:, None], pulls[None], total[None])
    jeffreys = 0 if isinstance(family, Exponential) else jnp.log(family.variance(centre)) / 2
    return jnp.sum(jnp.where((pulls > 0)[None], likelihood, 0), axis=1) + jeffreys


def _mixture(family: BaseFamily, pulls: Any, total: Any, centre: Any, worth: Any, log_weight: Any) -> Posterior:
    after = worth[:, None] + pulls[None]
    mean = (worth * centre)[:, None] / after + total[None] / after
    weight = normalise(log_weight)
    return Posterior(
        weight=weight,
        mean=mean,
        variance=posterior_variance(family, mean, after),
        kept=pulls[None] / after,
        centre=centre,
        quantile=lambda share: conjugate_quantile(family, weight, mean, after, share),
    )


def conjugate_quantile(family: BaseFamily, weight: Any, mean: Any, after: Any, share: Any) -> Float[Array, " arms"]:
    """Of a mixture of conjugate distributions with these means that are worth so many pulls `after` the log.

    By a table of the distribution function on the line, from the density of each node there.
    """
    middle, variance = line_moments(family, mean, after)
    average = jnp.tensordot(weight, middle, 1)
    spread = jnp.sqrt(jnp.tensordot(weight, variance + jnp.square(middle - average[None]), 1))
    grid = average[None] + spread[None] * jnp.linspace(-LINE_REACH, LINE_REACH, LINE_NODES, dtype=spread.dtype)[:, None]
    density = lambda at: jnp.tensordot(weight, jnp.exp(line_log_density(family, at[None], mean, after)), 1)
    heights = jax.lax.map(density, grid)
    below = jnp.cumsum((heights[1:] + heights[:-1]) / 2, axis=0)
    below = jnp.concatenate([jnp.zeros_like(below[:1]), below]) / below[-1][None]
    place = jax.vmap(lambda of_arm, at: jnp.interp(share, of_arm, at), in_axes=1)(below, grid)
    return from_line(family, place)


def centre_grid(
    family: BaseFamily,
    pulls: Float[Array, " arms"],
    total: Float[Array, " arms"],
    worth: Float[Array, ""],
    size: int,
    reach: float,
) -> tuple[Float[Array, " nodes"], Float[Array, ""]]:
    """Nodes of m on the line around its estimate given M, a few standard deviations to both sides; and their spacing.

    The sample mean of an arm varies by variance(m) (1 / pulls + 1 / M), about. Half a success is added, so that no estimate is at
    the end of the range.
    """
    precision = worth / (worth + pulls)  # of each pull
    known = jnp.sum(precision * pulls)
    successes = jnp.sum(precision * total)
    if isinstance(family, Bernoulli):
        centre = (successes + 0.5) / (known + 1)
        information = known * centre * (1 - centre)
    elif isinstance(family, Exponential):
        centre = successes / jnp.maximum(known, jnp.finfo(known.dtype).tiny)
        information = known
    else:
        centre = successes / jnp.maximum(known, jnp.finfo(known.dtype).tiny) + 0.5 / jnp.maximum(jnp.sum(pulls), 1)
        information = known * centre
    half = reach / jnp.sqrt(information + 1 / WIDEST**2)
    line = jax.lax.stop_gradient(to_line(family, centre))
    half = jax.lax.stop_gradient(half)
    return line + half * jnp.linspace(-1, 1, size, dtype=half.dtype), 2 * half / (size - 1)
