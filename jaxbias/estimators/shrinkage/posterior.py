"""The posterior of the arms' means: a mixture over the nodes of a quadrature, its moments and its quantiles."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Arms = Float[Array, " arms"]


class Summary(NamedTuple):
    """What the posterior is computed from: of each arm the pulls, the sample mean and the squares around it. All are floats."""

    pulls: Arms
    mean: Arms  # 0 without a pull
    squares: Arms


class Posterior(NamedTuple):
    """A mixture, for one trial.

    Fields:
        weight: of each node; they sum to one.
        mean, variance: of each arm's mean at each node.
        kept: the share of the sample mean in each arm's mean.
        centre: of the arms' means at each node.
        quantile: where each arm's distribution function has a given value.
    """

    weight: Float[Array, " nodes"]
    mean: Float[Array, "nodes arms"]
    variance: Float[Array, "nodes arms"]
    kept: Float[Array, "nodes arms"]
    centre: Float[Array, " nodes"]
    quantile: Callable[[Float[Array, ""]], Arms]

    def average(self, values: Float[Array, "nodes *arms"]) -> Float[Array, "*arms"]:
        """Over the nodes."""
        return jnp.tensordot(self.weight, values, 1)

    @property
    def deviation(self) -> Arms:
        """The standard deviation of each arm's mean: within the nodes and between them."""
        between = jnp.square(self.mean - self.average(self.mean)[None])
        return jnp.sqrt(self.average(self.variance + between))


def log_grid(low: Float[Array, ""], high: Float[Array, ""], size: int) -> Float[Array, " nodes"]:
    """Equally spaced nodes: the trapezoidal rule is right to many digits for what vanishes smoothly at both ends."""
    return low + (high - low) * jnp.linspace(0, 1, size, dtype=low.dtype)


def uniform_shrinkage(place: Float[Array, "*nodes"]) -> Float[Array, "*nodes"]:
    """The log-density at log(A / v), or log(M / n), where the share v / (A + v) is uniform on (0, 1)."""
    return place - 2 * jnp.log1p(jnp.exp(place))


def normalise(log_weight: Float[Array, " nodes"]) -> Float[Array, " nodes"]:
    """Weights that sum to one."""
    return jax.nn.softmax(log_weight)
