"""Beta posteriors in tables: the probability that an arm wins, for many counts of successes at once.

Where the pulls are known and the successes are not, arm k's posterior is one of few: Beta(a + s, b + n - s) for s = 0 to n. With
its density and distribution function at common nodes in a table, with a row for each s, the probability that an arm wins is a
sum of products of rows,

    P(arm j wins) = integral of f_j(x) prod_{k != j} F_k(x) dx

for all states of a grid a matrix product, and no incomplete beta function is computed again: after one more pull

    F(a + s, b + n + 1 - s) = F(a + s, b + n - s) + x^(a + s) (1 - x)^(b + n - s) / ((b + n - s) B(a + s, b + n - s))

which adds positive numbers only. The nodes are Gauss-Legendre's on the scale of arcsin(sqrt(x)), on which a posterior after n
pulls is 1 / (2 sqrt(n)) wide wherever it is.
"""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betainc, betaln, gammaln
from jaxtyping import Array, Float, Int

from jaxbias._core.errors import ArgumentError
from jaxbias._core.settings import is_concrete

# Two nodes to a standard deviation of the narrowest posterior, and some for the ends: an error of 1e-9 (test_beta_tables.py).
MOST_NODES = 2048  # finding the places of so many takes seconds, and grows with their cube
NODES, NODES_PER_ROOT = 24, 10


class BetaTables(NamedTuple):
    """The posteriors of every arm at its present pulls.

    Fields:
        success, failure: the Beta prior of each arm.
        density: of each arm, after each number of successes, on the scale of the nodes.
        below: the distribution functions.
    """

    success: Float[Array, " arms"]
    failure: Float[Array, " arms"]
    density: Float[Array, "arms rows nodes"]
    below: Float[Array, "arms rows nodes"]

    def after(self, arm: Int[Array, ""], pulls: Int[Array, ""]) -> "BetaTables":
        """After one more pull of this arm, which had so many."""
        _, root, _ = _nodes(self.below.shape[-1], self.below.dtype)
        rows = jnp.arange(self.below.shape[1], dtype=pulls.dtype)
        failures = jnp.maximum(pulls - rows, 0).astype(root.dtype)
        gain = self.density[arm] * (root[None] / 2) / (self.failure[arm] + failures)[:, None]
        below = self.below[arm] + jnp.where(rows[:, None] <= pulls, gain, 0)
        density = _density(self.success[arm], self.failure[arm], pulls + 1, *self.below.shape[1:])
        return self._replace(density=self.density.at[arm].set(density), below=self.below.at[arm].set(below))

    def grid_log_prob(self, arm: int, shape: tuple[int, ...], order: Int[Array, " arms"]) -> Float[Array, " states"]:
        """The log-probability that this arm wins, at every number of successes of every arm, the last one's fastest.

        `order` says which arm is along each axis of the shape.
        """
        product = jnp.ones((1, self.below.shape[-1]), self.below.dtype)
        for axis, rows in enumerate(shape[:-1]):
            product = (product[:, None] * self._curve(arm, order[axis])[None, :rows]).reshape(-1, product.shape[-1])
        last = self._curve(arm, order[-1])[: shape[-1]]
        return _log(jnp.matmul(product, last.T, precision="highest").ravel())

    def log_prob_at(self, arm: int, successes: Int[Array, "arms states"]) -> Float[Array, " states"]:
        """The log-probability that this arm wins, at some numbers of successes."""
        arms = jnp.arange(successes.shape[0], dtype=jnp.int32)
        product = self._curve(arm, arms[0])[successes[0]]
        for other in range(1, successes.shape[0]):
            product = product * self._curve(arm, arms[other])[successes[other]]
        return _log(jnp.sum(product, axis=1))

    def _curve(self, arm: int, other: Int[Array, ""]) -> Float[Array, "rows nodes"]:
        """What the other arm is in the integral of `arm`: its distribution function, or, where it is `arm`, its density."""
        _, _, weights = _nodes(self.below.shape[-1], self.below.dtype)
        return jnp.where(other == arm, self.density[other] * weights[None], self.below[other])


def start_tables(success: Float[Array, " arms"], failure: Float[Array, " arms"], rows: int, nodes: int) -> BetaTables:
    """The priors. A row of more successes than pulls waits with no failures."""
    place, _, _ = _nodes(nodes, success.dtype)
    counts = jnp.arange(rows, dtype=success.dtype)
    below = betainc(success[:, None, None] + counts[None, :, None], failure[:, None, None], place[None, None])
    density = [_density(*prior, jnp.zeros((), jnp.int32), rows, nodes) for prior in zip(success, failure, strict=True)]
    return BetaTables(success=success, failure=failure, density=jnp.stack(density), below=below)


def nodes_for(most_pulls: int, *prior: Any) -> int:
    """How many nodes the narrowest posterior needs."""
    known = sum(float(np.max(part)) for part in prior) if is_concrete(prior) else 2.0
    nodes = NODES + NODES_PER_ROOT * math.sqrt(most_pulls + known)
    if nodes > MOST_NODES:
        most = int(((MOST_NODES - NODES) / NODES_PER_ROOT) ** 2)
        allowed = f"at most {most:,} with prior_failure and the {most_pulls:,} pulls of an arm, for a table of the posteriors"
        raise ArgumentError("policy.prior_success", prior[0] if prior else None, allowed)
    return math.ceil(nodes)


def _nodes(number: int, dtype: Any) -> tuple[Array, Array, Array]:
    """Places x, sqrt(x (1 - x)) there, and weights on the scale of arcsin(sqrt(x))."""
    angle, weights = _angles(number)
    root = np.sin(angle) * np.cos(angle)
    return jnp.asarray(np.sin(angle) ** 2, dtype), jnp.asarray(root, dtype), jnp.asarray(weights, dtype)


def _angles(number: int) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = np.polynomial.legendre.leggauss(number)
    return (nodes + 1) * (math.pi / 4), weights * (math.pi / 4)


def _density(success: Array, failure: Array, pulls: Array, rows: int, nodes: int) -> Float[Array, "rows nodes"]:
    """Of every row up to the pulls, beyond which it is 0."""
    angle, _ = _angles(nodes)
    log_place, log_rest, log_scale = (
        jnp.asarray(part, success.dtype)[None]
        for part in (2 * np.log(np.sin(angle)), 2 * np.log(np.cos(angle)), math.log(2) - np.log(np.sin(angle) * np.cos(angle)))
    )
    counts = jnp.arange(rows, dtype=pulls.dtype)
    above = success + counts.astype(success.dtype)
    below = failure + jnp.maximum(pulls - counts, 0).astype(success.dtype)
    log_density = above[:, None] * log_place + below[:, None] * log_rest + log_scale - _log_beta(above, below)[:, None]
    return jnp.where(counts[:, None] <= pulls, jnp.exp(log_density), 0)


def _log_beta(above: Array, below: Array) -> Array:
    """JAX's own is the better one in float32, and right to seven digits only."""
    if above.dtype == jnp.float32:
        return betaln(above, below)
    return gammaln(above) + gammaln(below) - gammaln(above + below)


def _log(probability: Array) -> Array:
    return jnp.log(jnp.maximum(probability, jnp.finfo(probability.dtype).tiny))
