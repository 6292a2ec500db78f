"""The families: Normal rewards, 0/1 rewards, counts and waiting times."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln, logit, xlogy
from jaxtyping import Array, Float, PRNGKeyArray

from jaxbias._core.binomial import binomial
from jaxbias._core.derivatives import held
from jaxbias._core.randomness import normal
from jaxbias._core.settings import NON_NEGATIVE, POSITIVE, Allowed, always, setting, settings
from jaxbias.rewards.base import BaseFamily

EACH = "each"  # in place of a sigma: to be estimated, one for each arm


@settings
class Normal(BaseFamily):
    """Normal rewards.

    Arguments:
        sigma: the standard deviation, one number or one per arm. Where an estimator is to find it, None (one for all arms)
            or "each" (one for each arm).

    >>> import jax.numpy as jnp
    >>> round(float(Normal(sigma=2.0).log_prob(jnp.array(1.0), jnp.array(1.0))), 4)
    -1.6121
    """

    sigma: Any = setting(default=1.0, allowed=POSITIVE)

    def variance(self, mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """sigma^2."""
        return jnp.broadcast_to(jnp.square(jnp.asarray(self.sigma, mean.dtype)), mean.shape)

    def sample(self, key: PRNGKeyArray, mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """mean + sigma z, with z standard normal."""
        sigma = jnp.asarray(self.sigma, mean.dtype)
        return mean + sigma * normal(key, jnp.shape(mean), mean.dtype)

    def sample_sum(
        self, key: PRNGKeyArray, mean: Float[Array, "*shape"], count: Float[Array, "*shape"]
    ) -> Float[Array, "*shape"]:
        """count mean + sqrt(count) sigma z."""
        sigma = jnp.asarray(self.sigma, mean.dtype)
        return count * mean + jnp.sqrt(count) * sigma * normal(key, jnp.shape(mean), mean.dtype)

    def log_prob(self, reward: Float[Array, "*shape"], mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """-(reward - mean)^2 / (2 sigma^2) - log sigma - log(2 pi) / 2."""
        sigma = jnp.asarray(self.sigma, mean.dtype)
        half_log_two_pi = 0.9189385332046727
        return -0.5 * jnp.square((reward - mean) / sigma) - jnp.log(sigma) - half_log_two_pi


@settings
class UnknownSigma(BaseFamily):
    """Normal rewards whose sigma is to be estimated: what estimators make of `Normal(sigma=None)` and `Normal(sigma="each")`.

    Arguments:
        each: whether every arm has a sigma of its own.
    """

    each: bool = setting(default=False, static=always)

    def __repr__(self) -> str:
        """As the user wrote it."""
        return f"Normal(sigma={EACH!r})" if self.each else "Normal(sigma=None)"


@settings
class Bernoulli(BaseFamily):
    """Rewards of 0 and 1; the mean is the probability of 1.

    >>> import jax.numpy as jnp
    >>> round(float(Bernoulli().log_prob(jnp.array(1.0), jnp.array(0.25))), 4)
    -1.3863
    """

    mean_allowed = Allowed("from 0 to 1 for each arm", lambda mean: (mean >= 0) & (mean <= 1))
    mean_range = (0.0, 1.0)

    def variance(self, mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """mean (1 - mean)."""
        return mean * (1 - mean)

    def edge_mean(self, pulls: Float[Array, "*shape"], chance: float) -> Float[Array, "*shape"]:
        """The mean at which so many pulls without a success have this chance."""
        return -jnp.expm1(math.log(chance) / pulls)

    def sample(self, key: PRNGKeyArray, mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """1 with probability mean."""
        return jax.random.bernoulli(key, mean).astype(mean.dtype)

    def sample_sum(
        self, key: PRNGKeyArray, mean: Float[Array, "*shape"], count: Float[Array, "*shape"]
    ) -> Float[Array, "*shape"]:
        """A binomial number of successes."""
        return binomial(key, count, mean)

    def log_prob(self, reward: Float[Array, "*shape"], mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """log mean where the reward is 1, log(1 - mean) where it is 0, minus infinity elsewhere.

        Its derivative in the reward is the log-odds of the mean, that of an exponential family.
        """
        possible = (mean > 0) & (mean < 1)
        slope = jnp.where(possible, logit(jnp.where(possible, mean, 0.5)), 0)
        inside = jnp.log(jnp.where(reward == 1, mean, 1 - mean)) + (reward - held(reward)) * slope
        return jnp.where((reward == 0) | (reward == 1), inside, -jnp.inf)

    def natural(self, mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The log-odds."""
        return logit(mean)

    def from_natural(self, natural: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """1 / (1 + exp(-natural))."""
        return jax.nn.sigmoid(natural)


@settings
class Poisson(BaseFamily):
    """Counts: 0, 1, 2 and so on.

    >>> import jax.numpy as jnp
    >>> round(float(Poisson().log_prob(jnp.array(2.0), jnp.array(1.0))), 4)
    -1.6931
    """

    mean_allowed = Allowed("0 or more, and finite, for each arm", NON_NEGATIVE.test)
    mean_range = (0.0, float("inf"))

    def variance(self, mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The mean."""
        return mean

    def edge_mean(self, pulls: Float[Array, "*shape"], chance: float) -> Float[Array, "*shape"]:
        """The mean at which so many rewards of 0 have this chance."""
        return -math.log(chance) / pulls

    def sample(self, key: PRNGKeyArray, mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """A count with this mean."""
        words = jax.random.bits(key, (2,), jnp.uint32)  # JAX draws counts with keys of one kind only
        key = jax.random.wrap_key_data(words, impl="threefry2x32")
        return jax.random.poisson(key, mean).astype(mean.dtype)

    def sample_sum(
        self, key: PRNGKeyArray, mean: Float[Array, "*shape"], count: Float[Array, "*shape"]
    ) -> Float[Array, "*shape"]:
        """A Poisson number with mean count mean."""
        return self.sample(key, count * mean)

    def log_prob(self, reward: Float[Array, "*shape"], mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """reward log mean - mean - log reward!, minus infinity where the reward is no count."""
        possible = (reward >= 0) & (reward == jnp.floor(reward))
        count = jnp.where(possible, reward, 0)
        return jnp.where(possible, xlogy(count, mean) - mean - gammaln(count + 1), -jnp.inf)

    def natural(self, mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """log mean."""
        return jnp.log(mean)

    def from_natural(self, natural: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """exp(natural)."""
        return jnp.exp(natural)


@settings
class Exponential(BaseFamily):
    """Positive rewards, such as waiting times, whose standard deviation is their mean.

    >>> import jax.numpy as jnp
    >>> round(float(Exponential().log_prob(jnp.array(2.0), jnp.array(2.0))), 4)
    -1.6931
    """

    mean_allowed = Allowed("positive and finite for each arm", POSITIVE.test)
    mean_range = (0.0, float("inf"))

    def variance(self, mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """mean^2."""
        return jnp.square(mean)

    def sample(self, key: PRNGKeyArray, mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """mean times a standard exponential variable, which is not rounded to 0."""
        least = float(jnp.finfo(mean.dtype).eps) / 4  # below it a draw is 0, one in 2^24 or 2^53
        return mean * jnp.maximum(jax.random.exponential(key, jnp.shape(mean), mean.dtype), least)

    def sample_sum(
        self, key: PRNGKeyArray, mean: Float[Array, "*shape"], count: Float[Array, "*shape"]
    ) -> Float[Array, "*shape"]:
        """mean times a Gamma(count) variable."""
        drawn = jax.random.gamma(key, jnp.maximum(count, 1), jnp.shape(mean), mean.dtype)
        return jnp.where(count > 0, mean * drawn, 0)

    def log_prob(self, reward: Float[Array, "*shape"], mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """-reward / mean - log mean, minus infinity where the reward is not above 0."""
        return jnp.where(reward > 0, -reward / mean - jnp.log(mean), -jnp.inf)

    def natural(self, mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """-1 / mean, which is below 0."""
        return -1 / mean

    def from_natural(self, natural: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """-1 / natural."""
        return -1 / natural
