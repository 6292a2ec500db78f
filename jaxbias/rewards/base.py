"""What a reward family is: how one reward is drawn, and how likely it was, given its arm's mean."""

import math
from typing import Any, ClassVar, Protocol, runtime_checkable

from jaxtyping import Array, Float, PRNGKeyArray

from jaxbias._core.settings import Allowed, settings


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
