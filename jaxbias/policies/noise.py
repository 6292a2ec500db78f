"""From an index per arm to a choice: Gumbel noise of scale tau, and ties.

Adding Gumbel noise of scale tau to an index and taking the largest is sampling from softmax(index / tau) (the paper's Lemma on
the Gumbel-max trick), so one function gives the log-probabilities and another draws from them.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from jaxbias.layout import settle
from jaxbias.settings import NON_NEGATIVE, Allowed, is_zero, one_of

Tau = float | Float[Array, ""] | Callable[[Int[Array, ""]], Float[Array, ""]]
TAU = Allowed(f"{NON_NEGATIVE.description}, or a function from the step to one", NON_NEGATIVE.test)
TIES = one_of("random", "first")


def tau_at(tau: Tau, pulls: Int[Array, " arms"]) -> float | Float[Array, ""]:
    """The scale of the noise at this step: `tau` itself, or the schedule's value after this many pulls in all."""
    return tau(jnp.sum(pulls)) if callable(tau) else tau


def choice_log_probs(index: Float[Array, " arms"], tau: float | Float[Array, ""], ties: str) -> Float[Array, " arms"]:
    """log softmax(index / tau); at tau = 0 all of it on the best arm, or shared by the tied ones."""
    if is_zero(tau):
        return _best_log_probs(index, ties)
    tau = jnp.asarray(tau, index.dtype)
    noisy = jax.nn.log_softmax(index / jnp.where(tau > 0, tau, 1))
    return jnp.where(tau > 0, noisy, _best_log_probs(index, ties))


def _best_log_probs(index: Float[Array, " arms"], ties: str) -> Float[Array, " arms"]:
    best = index == jnp.max(index)
    if ties == "first":
        best = best & (jnp.cumsum(best) == 1)
    return jnp.where(best, -jnp.log(jnp.sum(best).astype(index.dtype)), -jnp.inf)


def choose(
    key: PRNGKeyArray, index: Float[Array, " arms"], tau: float | Float[Array, ""], ties: str
) -> Int[Array, ""]:
    """Draws an arm with the log-probabilities of `choice_log_probs`; where noise is added, it also breaks the ties."""
    if is_zero(tau):
        return jnp.argmax(settle(index)) if ties == "first" else largest(index, tie_priorities(key, index.shape[0]))
    noise = jax.random.gumbel(key, index.shape, index.dtype)
    index = index + jnp.asarray(tau, index.dtype) * noise
    return jnp.argmax(settle(index)) if ties == "first" else largest(index, noise)


def largest(index: Float[Array, " arms"], priority: Array) -> Int[Array, ""]:
    """The arm with the largest index and, among those, the largest priority: one reduction."""
    def better(left: tuple[Array, ...], right: tuple[Array, ...]) -> tuple[Array, ...]:
        keep = (left[0] > right[0]) | ((left[0] == right[0]) & (left[1] > right[1]))
        return tuple(jnp.where(keep, *pair) for pair in zip(left, right, strict=True))

    index, priority = settle((index, priority))
    arms = jnp.arange(index.shape[0], dtype=jnp.int32)
    lowest = (jnp.array(-jnp.inf, index.dtype), jnp.array(-jnp.inf if jnp.issubdtype(priority.dtype, jnp.floating) else 0, priority.dtype), jnp.int32(0))
    return jax.lax.reduce((index, priority, arms), lowest, better, (0,))[2]


def tie_priorities(key: PRNGKeyArray, num_arms: int) -> Int[Array, " arms"]:
    """A random order of the arms, as distinct positive numbers.

    One random word, moved apart for each arm and mixed by a bijection of 32-bit words (Murmur3's finaliser): a sixth of the
    cost of a word per arm, paid at every step for ties that are rare. The choice among n tied arms is the same whatever
    the other arms do, as the pathwise form of IIO wants.
    """
    word = settle(jax.random.bits(key, (), jnp.uint32)) + jnp.arange(num_arms, dtype=jnp.uint32) * jnp.uint32(0x9E3779B9)
    word = (word ^ (word >> 16)) * jnp.uint32(0x85EBCA6B)
    word = (word ^ (word >> 13)) * jnp.uint32(0xC2B2AE35)
    return (word ^ (word >> 16)) | jnp.uint32(1)
