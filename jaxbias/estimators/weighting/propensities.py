"""The probabilities with which arms were chosen: replayed from the policy before each step, or as the log has them."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxbias._core.errors import ArgumentError, refuse_first
from jaxbias._core.settings import as_array, as_float, evaluate, is_concrete
from jaxbias.history import History
from jaxbias.likelihood import is_random, replayed_log_probs
from jaxbias.policies import Policy, check_policy

SUM_TOLERANCE = 1e-3  # how far the probabilities of a step may be from summing to one: a log written with three digits
ALIKE = "equal weights correct nothing"


def chosen_probabilities(
    history: History, policy: Policy | None, propensities: ArrayLike | None, method: str
) -> Float[Array, "*trials steps"]:
    """The probability of the arm that was chosen, 1 where it was forced; every one above zero where that can be known."""
    check_source(policy, propensities)
    if policy is not None:
        chosen = at_chosen(history, replayed_probabilities(history, policy, method))
    else:
        chosen = _given_of_chosen(history, propensities)
    chosen = _or_forced(history, chosen)
    if is_concrete((chosen, history.forced_steps)):
        if policy is None:
            _check_chosen(history, chosen, method)
        check_possible(history, chosen)
    return chosen


def all_probabilities(
    history: History, policy: Policy | None, propensities: ArrayLike | None, method: str
) -> Float[Array, "*trials steps arms"]:
    """The probability of every arm at every step; that of the chosen one above zero where that can be known."""
    check_source(policy, propensities)
    if policy is not None:
        probabilities = replayed_probabilities(history, policy, method)
    else:
        probabilities = _given_of_all(history, propensities)
    if is_concrete((probabilities, history.forced_steps)):
        if policy is None:
            _check_distribution(probabilities, history)
        check_possible(history, _or_forced(history, at_chosen(history, probabilities)))
    return probabilities


def _or_forced(history: History, chosen: Float[Array, "*trials steps"]) -> Float[Array, "*trials steps"]:
    """The probability of the pulled arm; 1 where it was forced."""
    if is_concrete((chosen, history.forced_steps)):
        return evaluate(as_array, np.where(history.forced_steps, np.asarray(1, chosen.dtype), chosen))
    return jnp.where(history.forced_steps, 1, chosen)


def check_source(policy: Policy | None, propensities: ArrayLike | None) -> None:
    """Exactly one of the two says how the arms were chosen."""
    if (policy is None) == (propensities is None):
        allowed = lambda name: f"given, or {name('propensities')}, and not both"
        both = lambda name: f"is given with {name('propensities')}"
        raise ArgumentError("policy", policy, allowed, problem="is None" if policy is None else both)


def replayed_probabilities(history: History, policy: Policy, method: str) -> Float[Array, "*trials steps arms"]:
    """What the policy gave every arm before each step; refused where its choices are not random."""
    completed = check_policy(policy, history.num_arms)
    log_probs = replayed_log_probs(completed, history)
    if is_concrete((log_probs, history.forced_steps)):
        free = ~np.asarray(history.forced_steps)
        if free.any() and not is_random(np.asarray(log_probs)[free]):
            allowed = f"one with random choices (tau > 0) for {method}, as {ALIKE}; mean_matching does not need them"
            raise ArgumentError("policy", policy, allowed, problem=f"is {policy}, whose choices are not random")
    if is_concrete(log_probs):
        return evaluate(as_array, np.exp(np.asarray(log_probs)).astype(history.rewards.dtype))
    return jnp.exp(log_probs).astype(history.rewards.dtype)


def at_chosen(history: History, values: Float[Array, "*trials steps arms"]) -> Float[Array, "*trials steps"]:
    """At every step the value of the arm that was pulled."""
    if is_concrete((values, history.arms)):
        chosen = np.take_along_axis(np.asarray(values), np.asarray(history.arms)[..., None], axis=-1)
        return evaluate(as_array, chosen[..., 0])
    return jnp.take_along_axis(values, history.arms[..., None], axis=-1)[..., 0]


def check_possible(history: History, chosen: Float[Array, "*trials steps"]) -> None:
    """Refuses a choice that had no chance."""
    impossible = ~(np.asarray(chosen) > 0)
    refuse_first("history.arms", impossible, history.arms, problem=", which had probability zero")


def _given_of_chosen(history: History, propensities: Any) -> Array:
    """Those of the chosen arm, or taken from those of every arm."""
    if jnp.ndim(propensities) <= history.arms.ndim:
        return _given(history, propensities, history.arms.shape, "one for each step")
    probabilities = _given_of_all(history, propensities)
    if is_concrete((probabilities, history.forced_steps)):
        _check_distribution(probabilities, history)
        chosen = at_chosen(history, probabilities)
        check_possible(history, _or_forced(history, chosen))
    return at_chosen(history, probabilities)


def _given_of_all(history: History, propensities: Any) -> Array:
    """Those of every arm at every step, also from one row for each batch."""
    given, sizes = as_float(propensities), history.batch_sizes
    by_batch = sizes is not None and given.shape == (*history.arms.shape[:-1], len(sizes), history.num_arms)
    if sizes is not None and by_batch:
        given = jnp.repeat(given, np.asarray(sizes), axis=-2, total_repeat_length=history.num_steps)
    return _given(history, given, (*history.arms.shape, history.num_arms), "one for each step and arm")


def _given(history: History, propensities: Any, shape: tuple[int, ...], what: str) -> Array:
    given = as_float(propensities)
    if given.shape != shape:
        raise ArgumentError("propensities", given, f"of shape {shape}, {what}", problem=f"has shape {given.shape}")
    return given.astype(history.rewards.dtype)


def _check_chosen(history: History, chosen: Array, method: str) -> None:
    values = np.asarray(chosen)
    refuse_first("propensities", ~((values > 0) & (values <= 1)), values, "above 0 and at most 1")
    if not np.all(history.forced_steps) and np.all(values == 1):
        allowed = f"below 1 somewhere: {method} needs random choices, as {ALIKE}"
        raise ArgumentError("propensities", values, allowed, problem="is 1 at every step")


def _check_distribution(probabilities: Array, history: History) -> None:
    """At every step that was not forced: numbers from 0 to 1 that sum to one."""
    values, free = np.asarray(probabilities), ~np.asarray(history.forced_steps)
    outside = ~((values >= 0) & (values <= 1))
    first = np.take_along_axis(values, outside.argmax(axis=-1)[..., None], axis=-1)[..., 0]
    refuse_first("propensities", free & outside.any(axis=-1), first, "from 0 to 1")
    total = values.sum(axis=-1)
    off = free & (np.abs(total - 1) > SUM_TOLERANCE)
    refuse_first("propensities", off, total, problem=", as the sum over the arms, which must be 1")
