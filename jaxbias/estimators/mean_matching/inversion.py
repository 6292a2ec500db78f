"""Inverted intervals: for each arm the means at which the observed sample mean is at the ends of its simulated distribution."""

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtri
from jaxtyping import Array, Float, Int, PRNGKeyArray

from jaxbias._core.randomness import root_words, trial_words
from jaxbias._core.search import secant
from jaxbias.estimators.mean_matching.matching import Match, ends_of_range
from jaxbias.policies import BasePolicy
from jaxbias.rewards import BaseFamily
from jaxbias.simulation.paths import Design, simulate_paths

ROUNDS = 5  # of the search for each end of an inverted interval; the last moves it by a hundredth of its length


def invert(
    key: PRNGKeyArray,
    policy: BasePolicy,
    family: BaseFamily,
    design: Design,
    observed: Array,
    found: Match,
    level: Float[Array, ""],
    num_paths: int,
) -> Float[Array, "arms 2"]:
    """For each arm the two means at which the observed sample mean is at the ends of its simulated distribution.

    The other arms move with it, so that their expected sample means stay at the observed ones. The search is by secants of the
    normal quantile of the share of paths below the observed value.
    """
    words = trial_words(root_words(key), jnp.uint32(0), num_paths)
    low, high = ends_of_range(family, design, observed)
    target = ndtri(jnp.asarray((1 + level) / 2, observed.dtype))
    stderr = jnp.sqrt(jnp.diag(found.covariance))

    def end(arm: Int[Array, ""], side: Float[Array, ""]) -> Float[Array, ""]:
        direction = found.inverse[:, arm] / found.inverse[arm, arm]

        def score(shift: Array) -> Array:
            mean = jnp.clip(found.mean + shift * direction, low, high)
            paths = simulate_paths(words, policy, family, mean, design)
            pulled = paths.pulled[:, arm]
            above = jnp.sum(pulled & (side * (paths.sample_means[:, arm] - observed[arm]) > 0)).astype(observed.dtype)
            return ndtri((above + 0.5) / (jnp.sum(pulled) + 1).astype(observed.dtype)) - target

        first, second = (jnp.zeros((), observed.dtype), -target), side * target * stderr[arm]
        shift = secant(score, first, second, usual_slope=side / stderr[arm], longest=stderr[arm], rounds=ROUNDS)
        return jnp.clip(found.mean[arm] + shift, low[arm], high[arm])

    arms = jnp.arange(observed.shape[0], dtype=jnp.int32)
    sides = jnp.asarray([-1.0, 1.0], observed.dtype)
    return jax.lax.map(lambda arm: jax.lax.map(lambda side: end(arm, side), sides), arms)
