"""The bandit of GrowthBook: how often an arm's draw is the largest or the second largest of one set of posterior draws.

    probability = (P(the draw of the arm is the largest) + P(it is the second largest)) / 2

The second is found without a second integral: if arm j is left out, arm k wins where it won before and where only j beat it.

    P(k second) = sum_{j != k} (P(k wins among all but j) - P(k wins))

This is not `TopTwo`, which draws again until another arm is the largest. With two arms each has 1/2, whatever was seen.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxbias._core.settings import COUNT, setting, settings
from jaxbias.policies.base import ArmStatistics, StatisticsPolicy
from jaxbias.policies.winning import normal_win_log_probs

EDGE = 0.5  # of one success: how far inside 0 and 1 a rate is, for its variance; GrowthBook has no weights where that is 0


@settings
class GrowthBook(StatisticsPolicy):
    """The weights of a GrowthBook bandit on conversions, without its floor: `Floored(GrowthBook(), floor=0.01)` has that too.

    The posterior of an arm is Normal about its sample mean, with the sample variance over the pulls: a flat prior. All arms are
    alike until each has enough pulls. GrowthBook updates at set times, so that a log of it has batches.

    Arguments:
        least_pulls: of every arm, before which the weights are equal.

    >>> import jax.numpy as jnp
    >>> state = ArmStatistics(pulls=jnp.array([400, 400, 400]), total=jnp.array([80.0, 40.0, 38.0]))
    >>> [round(float(one), 2) for one in jnp.exp(GrowthBook().log_probs(state))]
    [0.5, 0.3, 0.2]
    """

    least_pulls: Any = setting(default=100, allowed=COUNT)

    unit_rewards = True

    def posterior(self, state: ArmStatistics) -> tuple[Float[Array, " arms"], Float[Array, " arms"]]:
        """The posterior mean and standard deviation of every arm."""
        dtype = state.total.dtype
        pulls = jnp.maximum(state.pulls, 2).astype(dtype)
        mean = state.total / pulls
        inside = jnp.clip(mean, EDGE / pulls, 1 - EDGE / pulls)
        return mean, jnp.sqrt(inside * (1 - inside) / (pulls - 1))

    def log_probs(self, state: ArmStatistics) -> Float[Array, " arms"]:
        """The log of the formula above."""
        shares = first_or_second(*self.posterior(state))
        enough = jnp.min(state.pulls) >= self.least_pulls
        return jnp.log(jnp.where(enough, shares, 1 / shares.shape[0]))

    def log_prob_cost(self, num_arms: int) -> float:
        """As many integrals as arms, each over all arms but one, and one over all."""
        return float(num_arms * num_arms)


def first_or_second(location: Float[Array, " arms"], scale: Float[Array, " arms"]) -> Float[Array, " arms"]:
    """Half the probability that each of several Normal variables is the largest or the second largest; one arm has all."""
    num_arms = location.shape[0]
    if num_arms <= 2:
        return jnp.full_like(location, 1 / num_arms)
    others = np.array([[arm for arm in range(num_arms) if arm != left_out] for left_out in range(num_arms)])
    without = jnp.exp(jax.vmap(normal_win_log_probs)(location[others], scale[others]))
    first = jnp.exp(normal_win_log_probs(location, scale))
    second = jnp.zeros_like(first).at[others].add(without) - (num_arms - 1) * first
    shares = first + jnp.maximum(second, jnp.finfo(first.dtype).tiny)  # a difference of nearly equal numbers
    return shares / jnp.sum(shares)
