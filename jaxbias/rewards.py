"""Reward families: how one reward is drawn, and how likely it was, given its arm's mean.

A family is two functions, `sample(key, mean)` and `log_prob(reward, mean)`. `BaseFamily` documents what a family may bring beside
them; a class of the user's own need not derive from it. What a family knows about each arm (such as one sigma per arm) is a leaf
with one value per arm; `at_arm` picks the value of the arm that was pulled.
"""

import math
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, logit, xlogy
from jaxtyping import Array, Float, PRNGKeyArray

from jaxbias._core.binomial import binomial
from jaxbias._core.derivatives import held
from jaxbias._core.errors import ArgumentError
from jaxbias._core.randomness import normal
from jaxbias._core.settings import NON_NEGATIVE, POSITIVE, Allowed, always, check_settings, is_concrete, setting, settings

Tree = TypeVar("Tree")
EACH = "each"  # in place of a sigma: to be estimated, one for each arm


@runtime_checkable
class Family(Protocol):
    """A reward distribution with a mean; any class with these two methods is one."""

    def sample(self, key: PRNGKeyArray, mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """One reward for each mean."""
        ...

    def log_prob(self, reward: Float[Array, "*shape"], mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The log-density, or log-probability, of each reward."""
        ...


class BaseFamily:
    """What a family may bring beside `sample` and `log_prob`.

    With `variance` it is an exponential family with the reward as its statistic, whose score is (reward - mean) / variance. With
    `natural` and `from_natural` too, its conditional likelihood can be maximised.

    Attributes:
        mean_range: the smallest and the largest possible mean.
        mean_allowed: the same as a test of means.
    """

    mean_range: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    mean_allowed: ClassVar[Allowed | None] = None

    def sample(self, key: PRNGKeyArray, mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """One reward for each mean."""
        raise TypeError(f"{type(self).__name__} has no sample of {mean} with {key}")

    def log_prob(self, reward: Float[Array, "*shape"], mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The log-density, or log-probability, of each reward."""
        raise TypeError(f"{type(self).__name__} has no log_prob of {reward} at {mean}")

    def variance(self, mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Of one reward with this mean."""
        raise TypeError(f"{type(self).__name__} has no variance at {mean}")

    def natural(self, mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The parameter in which the log-likelihood of a reward is linear in the reward."""
        raise TypeError(f"{type(self).__name__} has no natural parameter at {mean}")

    def from_natural(self, natural: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The mean at a natural parameter."""
        raise TypeError(f"{type(self).__name__} has no natural parameter {natural}")

    def edge_mean(self, pulls: Float[Array, "*shape"], chance: float) -> Float[Array, "*shape"]:
        """The mean at which `pulls` rewards are all at the lower end of the range with probability `chance`."""
        raise TypeError(f"{type(self).__name__} has no mean at which {pulls} rewards at one end have chance {chance}")

    def sample_sum(
        self, key: PRNGKeyArray, mean: Float[Array, "*shape"], count: Float[Array, "*shape"]
    ) -> Float[Array, "*shape"]:
        """The sum of `count` rewards of each mean, drawn at once; 0 where the count is 0."""
        raise TypeError(f"{type(self).__name__} has no sum of {count} rewards of {mean} with {key}")

    def brings(self, *names: str) -> bool:
        """Whether it has methods of these names of its own."""
        return all(getattr(type(self), name) is not getattr(BaseFamily, name) for name in names)

    @property
    def has_sums(self) -> bool:
        """Whether sums of rewards can be drawn at once; not where a subclass draws its rewards in another way."""
        owner = lambda name: next(one for one in type(self).__mro__ if name in vars(one))
        return self.brings("sample_sum") and owner("sample_sum") is owner("sample")

    @property
    def has_variance(self) -> bool:
        """Whether it says how much one reward varies, given its mean."""
        return self.brings("variance")

    @property
    def has_natural(self) -> bool:
        """Whether it says all that the conditional likelihood needs of an exponential family."""
        return self.brings("variance", "natural", "from_natural")

    @property
    def has_edges(self) -> bool:
        """Whether its rewards can all be at an end of its range."""
        return self.brings("edge_mean")


UNKNOWN_FAMILY = BaseFamily()  # where nothing is known of the rewards; one object, as it is compared by identity


@settings
class PlainFamily(BaseFamily):
    """Wraps a class of the user's own that does not derive from `BaseFamily`, and adds the defaults."""

    family: Any

    def sample(self, key: PRNGKeyArray, mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The family's own."""
        return self.family.sample(key, mean)

    def log_prob(self, reward: Float[Array, "*shape"], mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The family's own."""
        return self.family.log_prob(reward, mean)

    def variance(self, mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The family's own."""
        return self.family.variance(mean)

    def natural(self, mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The family's own."""
        return self.family.natural(mean)

    def from_natural(self, natural: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The family's own."""
        return self.family.from_natural(natural)

    def edge_mean(self, pulls: Float[Array, "*shape"], chance: float) -> Float[Array, "*shape"]:
        """The family's own."""
        return self.family.edge_mean(pulls, chance)

    def brings(self, *names: str) -> bool:
        """Whether the class has methods of these names."""
        return all(callable(getattr(self.family, name, None)) for name in names)

    @property
    def mean_range(self) -> tuple[float, float]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As the class says."""
        return getattr(self.family, "mean_range", BaseFamily.mean_range)

    @property
    def mean_allowed(self) -> Allowed | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As the class says."""
        return getattr(self.family, "mean_allowed", None)

    def __repr__(self) -> str:
        """As the user knows it."""
        return repr(self.family)


def complete_family(family: Any) -> BaseFamily:
    """The family with everything that `BaseFamily` documents; a `Normal` without its sigma as `UnknownSigma`."""
    if isinstance(family, Normal) and (family.sigma is None or isinstance(family.sigma, str)):
        return UnknownSigma(each=family.sigma == EACH)
    return family if isinstance(family, BaseFamily) else PlainFamily(family)


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


def check_sigma(family: Any, purpose: str) -> None:
    """Raises where the family has no sigma yet and the purpose needs one."""
    if isinstance(family, UnknownSigma):
        sigma = EACH if family.each else None
        raise ArgumentError("family.sigma", sigma, f"a standard deviation, one or one per arm, for {purpose}")


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


def at_arm(tree: Tree, arm: jax.Array, num_arms: int) -> Tree:
    """The tree with every leaf that has one value per arm replaced by the value of this arm."""

    def value(leaf: Any) -> Any:
        if getattr(leaf, "shape", ()) != (num_arms,):
            return leaf
        return jnp.asarray(leaf).at[arm].get(mode="promise_in_bounds", wrap_negative_indices=False)

    return jax.tree.map(value, tree)


def check_family(family: Any, mean: Any) -> BaseFamily:
    """The family, completed; refused where its settings or the means are not ones it can have."""
    if isinstance(family, type) or not isinstance(family, Family):
        raise ArgumentError("family", family, "an object with sample(key, mean) and log_prob(reward, mean)")
    num_arms = mean.shape[-1]
    if isinstance(family, Normal) and isinstance(family.sigma, str) and family.sigma != EACH:
        allowed = f"a standard deviation; to estimate it, None (one for all arms) or '{EACH}' (one for each arm)"
        raise ArgumentError("family.sigma", family.sigma, allowed)
    completed = complete_family(family)
    if not isinstance(completed, UnknownSigma):
        check_settings(family, "family", num_arms)
    for leaf in jax.tree.leaves(completed):
        if hasattr(leaf, "shape") and leaf.shape not in ((), (num_arms,)):
            allowed = f"one number, or one for each of {num_arms} arms"
            raise ArgumentError("family", family, allowed, problem=f"has a setting of shape {leaf.shape}")
    allowed = completed.mean_allowed
    if allowed is not None and is_concrete(mean) and not np.all(allowed.test(np.asarray(mean))):
        raise ArgumentError("mean", mean, f"{allowed.description}, with {type(family).__name__} rewards")
    return completed
