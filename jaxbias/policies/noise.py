"""From an index per arm to a choice: Gumbel noise of scale tau, and ties.

Adding Gumbel noise of scale tau to an index and taking the largest is sampling from softmax(index / tau) (the paper's Lemma on
the Gumbel-max trick), so one function gives the log-probabilities and another draws from them.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt

from jaxbias._core.derivatives import moving_with, undefined_in
from jaxbias._core.layout import MANY, materialize, trials_minor
from jaxbias._core.settings import NON_NEGATIVE, Allowed, always, is_zero, one_of, setting, settings

Tau = float | Float[Array, ""] | Callable[[Int[Array, ""]], Float[Array, ""]]
TAU = Allowed(f"{NON_NEGATIVE.description}, or a function of the step", NON_NEGATIVE.test)
TIES = one_of("random", "first")
ARMS_AT_ONCE = 16  # compared in one reduction: of 18 and more, XLA makes a loop on a CPU that runs one trial at a time


def is_static_tau(tau: Any) -> bool:
    """Whether `tau` is known before compilation: no noise at all, or a plain function. A pytree such as `Schedule` is traced."""
    return is_zero(tau) or (callable(tau) and jax.tree_util.all_leaves([tau]))


@settings
class Schedule:
    """A `tau` that changes with the step: linear between values at evenly spaced steps, from the first to the last.

    Its values are traced: new ones do not compile again, and gradients are taken in them.

    Arguments:
        values: (knots,), at the first step, ..., at the last.
        num_steps: of the trial.

    >>> import jax.numpy as jnp
    >>> [float(Schedule(jnp.array([2.0, 1.0, 1.0]), num_steps=41)(step)) for step in (0, 10, 20, 40)]
    [2.0, 1.5, 1.0, 1.0]
    """

    values: Any
    num_steps: int = setting(static=always)

    def __call__(self, step: Int[Array, ""] | int) -> Float[Array, ""]:
        """The value at this step."""
        values = jnp.asarray(self.values)
        last = values.shape[0] - 1
        place = jnp.asarray(step, values.dtype) * (last / max(self.num_steps - 1, 1))
        nearness = jnp.maximum(1 - jnp.abs(jnp.minimum(place, last) - jnp.arange(last + 1, dtype=values.dtype)), 0)
        return jnp.sum(nearness * values)


def tau_at(tau: Tau, pulls: Int[Array, " arms"]) -> float | Float[Array, ""]:
    """The scale of the noise at this step: `tau` itself, or the schedule's value after this many pulls in all."""
    return tau(jnp.sum(pulls)) if callable(tau) else tau


def choice_log_probs(index: Float[Array, " arms"], tau: float | Float[Array, ""], ties: str) -> Float[Array, " arms"]:
    """log softmax(index / tau); at tau = 0 all of it on the best arm, or shared by the tied ones."""
    if is_zero(tau):
        return _best_log_probs(index, ties)
    tau = jnp.asarray(tau, index.dtype)

    def without_noise() -> Array:
        best = _best_log_probs(index, ties)
        return moving_with(best, jnp.broadcast_to(undefined_in(tau <= 0, tau), best.shape))  # no derivative in tau at 0

    return jax.lax.cond(tau > 0, lambda: log_softmax(index / jnp.where(tau > 0, tau, 1)), without_noise)


def log_softmax(index: Float[Array, " arms"]) -> Float[Array, " arms"]:
    """As `jax.nn.log_softmax`; of few arms one by one, as XLA on a CPU copies a chunk of trials to reduce it over the arms."""
    if index.shape[0] > ARMS_AT_ONCE:
        return jax.nn.log_softmax(index)
    arms = [index[arm] for arm in range(index.shape[0])]
    top = jax.lax.stop_gradient(reduce(jnp.maximum, arms))
    return index - (top + jnp.log(reduce(jnp.add, [jnp.exp(arm - top) for arm in arms])))


def _best_log_probs(index: Float[Array, " arms"], ties: str) -> Float[Array, " arms"]:
    best = index == jnp.max(index)
    if ties == "first":
        best = best & (jnp.cumsum(best) == 1)
    return jnp.where(best, -jnp.log(jnp.sum(best).astype(index.dtype)), -jnp.inf)


def choose(key: PRNGKeyArray, index: Float[Array, " arms"], tau: float | Float[Array, ""], ties: str) -> Int[Array, ""]:
    """Draws an arm with the log-probabilities of `choice_log_probs`; where noise is added, it also breaks the ties."""
    if is_zero(tau):
        return jnp.argmax(materialize(index)) if ties == "first" else break_ties(key, index)
    noise = jax.random.gumbel(key, index.shape, index.dtype)
    index = index + jnp.asarray(tau, index.dtype) * noise
    return jnp.argmax(materialize(index)) if ties == "first" else _largest(*materialize((index, noise)))[0]


def _largest(index: Float[Array, "*trials arms"], priority: Array) -> tuple[Int[Array, "*trials"], Bool[Array, "*trials"]]:
    """The arm with the largest index and, among those, the largest priority; and whether there was a tie in both."""
    if index.shape[-1] >= MANY:
        top = index == jnp.max(index, axis=-1, keepdims=True)
        top = top & (priority == jnp.max(priority, axis=-1, keepdims=True, where=top, initial=_lowest(priority.dtype)))
        return jnp.argmax(top, axis=-1).astype(jnp.int32), jnp.sum(top, axis=-1) > 1

    def better(left: tuple[Array, ...], right: tuple[Array, ...]) -> tuple[Array, ...]:
        same = (left[0] == right[0]) & (left[1] == right[1])
        keep = (left[0] > right[0]) | ((left[0] == right[0]) & (left[1] > right[1])) | (same & (left[2] < right[2]))
        value, second, arm, tied = (jnp.where(keep, *pair) for pair in zip(left, right, strict=True))
        return value, second, arm, tied | same

    def best_of(operands: tuple[Array, ...]) -> tuple[Array, ...]:
        return jax.lax.reduce(operands, start, better, (index.ndim - 1,))

    arms = jax.lax.broadcasted_iota(jnp.int32, index.shape, index.ndim - 1)
    lowest = [jnp.array(-jnp.inf, index.dtype), jnp.array(_lowest(priority.dtype), priority.dtype)]
    start = (*lowest, jnp.array(index.shape[-1], jnp.int32), jnp.array(False))
    found = (index, priority, arms, jnp.zeros(index.shape, bool))
    while (count := found[0].shape[-1]) > ARMS_AT_ONCE:
        groups = [[leaf[..., first : first + ARMS_AT_ONCE] for leaf in found] for first in range(0, count, ARMS_AT_ONCE)]
        found = tuple(jnp.stack(parts, axis=-1) for parts in zip(*(best_of(tuple(group)) for group in groups), strict=True))
    _, _, arm, tied = best_of(found)
    return arm, tied


def _lowest(dtype: Any) -> float | int:
    return -jnp.inf if jnp.issubdtype(dtype, jnp.floating) else 0


@custom_vmap
def break_ties(key: PRNGKeyArray, index: Float[Array, " arms"]) -> Int[Array, ""]:
    """The best arm, a random one where several are. Of a chunk of trials, the order is drawn only if some trial needs it."""
    return _largest(index, tie_priorities(jax.random.bits(key, (), jnp.uint32), index.shape[0]))[0]


@break_ties.def_vmap
def _break_ties_of_trials(axis_size: int, in_batched: Any, key: Array, index: Array) -> tuple[Array, bool]:
    key, index = (
        leaf if batched else jnp.broadcast_to(leaf[None], (axis_size, *leaf.shape))
        for leaf, batched in zip((key, index), in_batched, strict=True)
    )
    index = jax.lax.optimization_barrier(trials_minor(index))
    arm, tied = _largest(index, jnp.zeros_like(index))

    def broken() -> Array:
        words = jax.vmap(lambda key: jax.random.bits(key, (), jnp.uint32))(key)
        return _largest(index, jax.vmap(lambda word: tie_priorities(word, index.shape[1]))(words))[0]

    return jax.lax.cond(jnp.any(tied), broken, lambda: arm), True


def tie_priorities(word: UInt[Array, ""], num_arms: int) -> UInt[Array, " arms"]:
    """A random order of the arms, as distinct positive numbers, from one random word.

    The word is moved apart for each arm and mixed by a bijection of 32-bit words (Murmur3's finaliser). The choice among tied
    arms is then the same whatever the other arms do, as the pathwise form of IIO wants.
    """
    word = word + jnp.arange(num_arms, dtype=jnp.uint32) * jnp.uint32(0x9E3779B9)
    word = (word ^ (word >> 16)) * jnp.uint32(0x85EBCA6B)
    word = (word ^ (word >> 13)) * jnp.uint32(0xC2B2AE35)
    return (word ^ (word >> 16)) | jnp.uint32(1)
