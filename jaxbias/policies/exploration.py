"""Exploration sampling: for batches whose aim is to find the best arm, rather than to pull it (Kasy and Sautmann, 2021).

With p the posterior probability that an arm is the best, which is Thompson sampling's probability of pulling it,

    probability = p (1 - p) / sum over arms of p (1 - p)

so that an arm which is nearly sure to be the best leaves the pulls to its rivals. Of two arms each has probability 1/2, whatever
was seen. There is no faster way to sample one of more arms than by its probability, an integral for each arm: in a batch they are
computed once.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxbias._core.settings import FINITE, POSITIVE, setting, settings
from jaxbias.policies.base import ArmStatistics, StatisticsPolicy
from jaxbias.policies.thompson import BetaThompson, Thompson


@settings
class ExplorationSampling(StatisticsPolicy):
    """Exploration sampling with a Normal prior on every arm's mean and Normal rewards of known sigma.

    Arguments:
        prior_mean, prior_sigma: the prior, one number each or one per arm.
        sigma: the standard deviation of a reward that the policy assumes.

    >>> import jax.numpy as jnp
    >>> state = ArmStatistics(pulls=jnp.array([9, 9, 9]), total=jnp.array([9.0, 0.0, 0.0]))
    >>> [round(float(share), 2) for share in jnp.exp(ExplorationSampling().log_probs(state))]
    [0.5, 0.25, 0.25]
    """

    prior_mean: Any = setting(default=0.0, allowed=FINITE)
    prior_sigma: Any = setting(default=5.0, allowed=POSITIVE)
    sigma: Any = setting(default=1.0, allowed=POSITIVE)

    def log_probs(self, state: ArmStatistics) -> Float[Array, " arms"]:
        """log p + log(1 - p), less the logarithm of their sum."""
        return two_arms(state) if state.pulls.shape[0] == 2 else explore(self.best.log_probs(state))

    def shifted(self, offset: float) -> "ExplorationSampling | None":
        """With the prior moved too."""
        own = type(self) is ExplorationSampling
        return dataclasses.replace(self, prior_mean=self.prior_mean - offset) if own else None

    @property
    def best(self) -> Thompson:
        """Thompson sampling, which pulls an arm with the probability that it is the best."""
        return Thompson(prior_mean=self.prior_mean, prior_sigma=self.prior_sigma, sigma=self.sigma)

    def log_prob_cost(self, num_arms: int) -> float:
        """That of Thompson sampling; of two arms nothing is computed."""
        return 1.0 if num_arms == 2 else self.best.log_prob_cost(num_arms)


@settings
class BetaExplorationSampling(StatisticsPolicy):
    """Exploration sampling with a Beta prior on every arm's mean, for rewards of 0 and 1 (or between).

    Arguments:
        prior_success, prior_failure: the Beta prior, one number each or one per arm.
    """

    prior_success: Any = setting(default=1.0, allowed=POSITIVE)
    prior_failure: Any = setting(default=1.0, allowed=POSITIVE)

    unit_rewards = True

    def log_probs(self, state: ArmStatistics) -> Float[Array, " arms"]:
        """log p + log(1 - p), less the logarithm of their sum."""
        return two_arms(state) if state.pulls.shape[0] == 2 else explore(self.best.log_probs(state))

    @property
    def best(self) -> BetaThompson:
        """Thompson sampling, which pulls an arm with the probability that it is the best."""
        return BetaThompson(prior_success=self.prior_success, prior_failure=self.prior_failure)

    def log_prob_cost(self, num_arms: int) -> float:
        """That of Thompson sampling; of two arms nothing is computed."""
        return 1.0 if num_arms == 2 else self.best.log_prob_cost(num_arms)


def two_arms(state: ArmStatistics) -> Float[Array, " arms"]:
    """Exactly one half each: p (1 - p) is the same for both."""
    return jnp.full_like(state.total, -math.log(2))


def explore(log_best: Float[Array, " arms"]) -> Float[Array, " arms"]:
    """From the log-probability that each arm is the best to that of pulling it.

    The others' probabilities are summed, as 1 - p has no digits left where p is nearly 1.
    """
    if log_best.shape[0] == 1:
        return jnp.zeros_like(log_best)
    others = jnp.where(jnp.eye(log_best.shape[0], dtype=bool), -jnp.inf, log_best[None])
    return jax.nn.log_softmax(log_best + jax.nn.logsumexp(others, axis=1))
