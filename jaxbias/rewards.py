"""Reward families: how one reward is drawn, and how likely it was, given its arm's mean.

A family is two functions, `sample(key, mean)` and `log_prob(reward, mean)`. What a family knows about each arm (such as one
sigma per arm) is a leaf with one value per arm; `at_arm` picks the value of the arm that was pulled.

A family may also bring `variance(mean)`, where it is an exponential family with the reward as its statistic, which makes its
score (reward - mean) / variance; `mean_range`, the ends of what its means can be; and `mean_allowed`, the same as a test. Where
rewards can all be at an end, `edge_mean(pulls, chance)` is the mean at which that has a given chance. With `natural(mean)`, the
parameter in which the log-likelihood of a reward is linear in the reward, and `from_natural`, its inverse, the conditional
likelihood can be maximised.
"""

import math
from typing import Any, Protocol, TypeGuard, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, logit, xlogy
from jaxtyping import Array, Float, PRNGKeyArray

from jaxbias.randomness import normal
from jaxbias.settings import NON_NEGATIVE, POSITIVE, Allowed, check_settings, is_concrete, setting, settings

Tree = TypeVar("Tree")
EACH = "each"  # in place of a sigma: to be estimated, one for each arm


def _is_sigma(value: np.ndarray) -> Any:
    return True if value.dtype.kind == "U" else POSITIVE.test(value)  # words are for `check_family`


SIGMA = Allowed(POSITIVE.description, _is_sigma)


@runtime_checkable
class Family(Protocol):
    """A reward distribution with a mean; any class with these two methods is one."""

    def sample(self, key: PRNGKeyArray, mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """One reward for each mean."""
        ...

    def log_prob(self, reward: Float[Array, "*shape"], mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The log-density, or log-probability, of each reward."""
        ...


@settings
class Normal:
    """Normal rewards.

    Arguments:
        sigma: the standard deviation, one number or one per arm. Where an estimator is to find it, None (one for all arms)
            or "each" (one for each arm).

    >>> import jax.numpy as jnp
    >>> round(float(Normal(sigma=2.0).log_prob(jnp.array(1.0), jnp.array(1.0))), 4)
    -1.6121
    """

    sigma: Any = setting(default=1.0, allowed=SIGMA)

    def variance(self, mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """sigma^2."""
        return jnp.broadcast_to(jnp.square(jnp.asarray(self.sigma, mean.dtype)), mean.shape)

    def sample(self, key: PRNGKeyArray, mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """mean + sigma z, with z standard normal."""
        sigma = jnp.asarray(self.sigma, mean.dtype)
        return mean + sigma * normal(key, jnp.shape(mean), mean.dtype)

    def log_prob(self, reward: Float[Array, "*shape"], mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """-(reward - mean)^2 / (2 sigma^2) - log sigma - log(2 pi) / 2."""
        sigma = jnp.asarray(self.sigma, mean.dtype)
        half_log_two_pi = 0.9189385332046727
        return -0.5 * jnp.square((reward - mean) / sigma) - jnp.log(sigma) - half_log_two_pi


def lacks_sigma(family: Any) -> TypeGuard["Normal"]:
    """Whether this is the Normal family with a sigma that is to be estimated."""
    return isinstance(family, Normal) and (family.sigma is None or isinstance(family.sigma, str))


def check_sigma(family: Any, purpose: str) -> None:
    """Raises ValueError where the family has no sigma yet and the purpose needs one."""
    if lacks_sigma(family):
        raise ValueError(f"family.sigma is {family.sigma!r}; allowed in {purpose}: a standard deviation, one or one per arm")


@settings
class Bernoulli:
    """Rewards of 0 and 1; the mean is the probability of 1.

    >>> import jax.numpy as jnp
    >>> round(float(Bernoulli().log_prob(jnp.array(1.0), jnp.array(0.25))), 4)
    -1.3863
    """

    mean_allowed = Allowed("a number from 0 to 1 for each arm", lambda mean: (mean >= 0) & (mean <= 1))
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

    def log_prob(self, reward: Float[Array, "*shape"], mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """log mean where the reward is 1, log(1 - mean) where it is 0, minus infinity elsewhere."""
        inside = jnp.log(jnp.where(reward == 1, mean, 1 - mean))
        return jnp.where((reward == 0) | (reward == 1), inside, -jnp.inf)

    def natural(self, mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The log-odds."""
        return logit(mean)

    def from_natural(self, natural: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """1 / (1 + exp(-natural))."""
        return jax.nn.sigmoid(natural)


@settings
class Poisson:
    """Counts: 0, 1, 2 and so on.

    >>> import jax.numpy as jnp
    >>> round(float(Poisson().log_prob(jnp.array(2.0), jnp.array(1.0))), 4)
    -1.6931
    """

    mean_allowed = Allowed("a finite number, 0 or more, for each arm", NON_NEGATIVE.test)
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
class Exponential:
    """Positive rewards, such as waiting times, whose standard deviation is their mean.

    >>> import jax.numpy as jnp
    >>> round(float(Exponential().log_prob(jnp.array(2.0), jnp.array(2.0))), 4)
    -1.6931
    """

    mean_allowed = Allowed("a finite number above 0 for each arm", POSITIVE.test)
    mean_range = (0.0, float("inf"))

    def variance(self, mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """mean^2."""
        return jnp.square(mean)

    def sample(self, key: PRNGKeyArray, mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """mean times a standard exponential variable."""
        return mean * jax.random.exponential(key, jnp.shape(mean), mean.dtype)

    def log_prob(self, reward: Float[Array, "*shape"], mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """-reward / mean - log mean, minus infinity where the reward is not above 0."""
        return jnp.where(reward > 0, -reward / mean - jnp.log(mean), -jnp.inf)

    def natural(self, mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """-1 / mean, which is below 0."""
        return -1 / mean

    def from_natural(self, natural: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """-1 / natural."""
        return -1 / natural


def has_natural(family: Any) -> bool:
    """Whether the family says all that the conditional likelihood needs of an exponential family."""
    return all(hasattr(family, name) for name in ("variance", "mean_range", "natural", "from_natural"))


def at_arm(tree: Tree, arm: jax.Array, num_arms: int) -> Tree:
    """The tree with every leaf that has one value per arm replaced by the value of this arm."""

    def value(leaf: Any) -> Any:
        if getattr(leaf, "shape", ()) != (num_arms,):
            return leaf
        return jnp.asarray(leaf).at[arm].get(mode="promise_in_bounds", wrap_negative_indices=False)

    return jax.tree.map(value, tree)


def check_family(family: Any, mean: Any) -> None:
    """Raises ValueError where the family's settings or the means are not ones it can have."""
    if not isinstance(family, Family):
        raise ValueError(f"family is {family!r}; allowed: an object with sample(key, mean) and log_prob(reward, mean)")
    check_settings(family, "family")
    if lacks_sigma(family) and family.sigma not in (None, EACH):
        allowed = f"a number; to be estimated: None (one for all arms) or '{EACH}' (one for each arm)"
        raise ValueError(f"family.sigma is {family.sigma!r}; allowed: {allowed}")
    num_arms = mean.shape[-1]
    for leaf in jax.tree.leaves(family):
        if hasattr(leaf, "shape") and leaf.shape not in ((), (num_arms,)):
            raise ValueError(
                f"family has a setting of shape {leaf.shape}; allowed: one number, or one for each of {num_arms} arms"
            )
    allowed = getattr(family, "mean_allowed", None)
    if allowed is not None and is_concrete(mean) and not np.all(allowed.test(np.asarray(mean))):
        raise ValueError(f"mean is {mean.tolist()}; {type(family).__name__} allows {allowed.description}")
