"""Mean matching where sigma is not known: the variance within arms is matched too.

    E[sample means] = observed        E[variance within arms] = observed

The second is one equation where the arms share a sigma and one for each arm otherwise, and is solved in log sigma, whose score is
the sum of ((reward - mean) / sigma)^2 - 1. Inside, means are in units of sigma, so that the scale of the rewards changes nothing.
The variance of an arm with a sigma of its own is given that the arm was pulled twice, as it was in the log; where it was not, its
sigma is that within all arms together.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from jaxbias.estimators.mean_matching.matching import Match, Simulated, find_match, summarise_paths
from jaxbias.estimators.sigma import Spread, pool
from jaxbias.policies import BasePolicy
from jaxbias.rewards import Normal
from jaxbias.simulation.paths import Design, average_pulled, simulate_paths


def match_with_sigma(
    key: PRNGKeyArray,
    policy: BasePolicy,
    of_arm: Int[np.ndarray, " arms"],
    design: Design,
    sample_means: Float[Array, " arms"],
    spread: Spread,
    num_paths: int,
    max_rounds: int,
) -> Match:
    """The solution for one log: the means, and after them the logarithm of each sigma."""
    observed = jnp.concatenate([sample_means, spread.log_sigma(spread.freedom)])

    def simulate(words: Array, at: Array) -> Simulated:
        return simulate_with_sigma(words, policy, of_arm, at, design, spread)

    return find_match(key, simulate, observed, -jnp.inf, jnp.inf, num_paths, max_rounds)


class PathFigures(NamedTuple):
    """What each path says about the means and each log sigma, off its expectation, in units of sigma.

    Fields:
        expected: the average of each figure.
        centred: how far each path is off it, 0 where it does not say.
        share: of the paths that do say.
        score: of the parameter that each figure determines.
        unit: what the figures are measured in.
    """

    expected: Float[Array, " figures"]
    centred: Float[Array, "paths figures"]
    share: Float[Array, " figures"]
    score: Float[Array, "paths figures"]
    unit: Float[Array, " figures"]


def simulate_figures(
    words: Array,
    policy: BasePolicy,
    of_arm: Int[np.ndarray, " arms"],
    at: Array,
    design: Design,
    spread: Spread,
    steps: bool = False,
) -> PathFigures:
    """Paths at some means and log sigma; with `steps` those of `simulate_steps`."""
    num_arms = of_arm.shape[0]
    mean, log_sigma = at[:num_arms], at[num_arms:]
    sigma = jnp.exp(log_sigma)[of_arm]
    paths = simulate_paths(words, policy, Normal(sigma=sigma), mean, design, squares=True, steps=steps)
    average, centred, share = average_pulled(paths)
    of_mean = paths.score * sigma[None]  # the sum of (reward - mean) / sigma
    pulls, squares = paths.pulls.astype(mean.dtype), jnp.asarray(paths.squares)
    within = squares - jnp.square(of_mean) / jnp.maximum(pulls, 1)
    freedom = _pool(jnp.maximum(paths.pulls - 1, 0), of_arm)
    variance = _pool(within, of_arm) / jnp.maximum(freedom, 1).astype(mean.dtype)
    known = (freedom > 0).astype(mean.dtype)
    share_known = jnp.maximum(jnp.mean(known, axis=0), 1 / known.shape[0])
    expected = jnp.mean(variance * known, axis=0) / share_known
    relative = (variance / expected[None] - 1) * known / 2  # of the logarithm of its root
    of_sigma = jnp.where(spread.is_free, log_sigma + jnp.log(expected) / 2, log_sigma)
    return PathFigures(
        expected=jnp.concatenate([average, of_sigma]),
        centred=jnp.concatenate([centred / sigma[None], relative], axis=1),
        share=jnp.concatenate([share, share_known]),
        score=jnp.concatenate([of_mean, _pool(squares - pulls, of_arm)], axis=1),
        unit=jnp.concatenate([sigma, jnp.ones_like(log_sigma)]),
    )


def simulate_with_sigma(
    words: Array, policy: BasePolicy, of_arm: Int[np.ndarray, " arms"], at: Array, design: Design, spread: Spread
) -> Simulated:
    """Paths at some means and log sigma, as what a round of the search needs."""
    figures = simulate_figures(words, policy, of_arm, at, design, spread)
    is_fixed = jnp.concatenate([jnp.zeros(of_arm.shape[0], bool), ~spread.is_free])
    off = summarise_paths(jnp.zeros_like(at), figures.centred, figures.share, figures.score, is_fixed)
    unit = figures.unit
    return Simulated(
        expected=figures.expected + unit * off.expected,
        covariance=off.covariance * unit[:, None] * unit[None],
        unexplained=off.unexplained * unit[:, None] * unit[None],
        inverse=off.inverse * unit[:, None] / unit[None],
    )


def _pool(by_path: Array, of_arm: Int[np.ndarray, " arms"]) -> Array:
    return pool(by_path.T, of_arm).T
