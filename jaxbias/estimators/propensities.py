"""The probabilities with which arms were chosen: replayed from the policy before each step, or as the log has them."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxbias.estimators.checks import is_random, refuse, replayed_log_probs
from jaxbias.history import History
from jaxbias.policies import Policy, check_policy
from jaxbias.settings import as_float, is_concrete

SUM_TOLERANCE = 1e-3  # how far the probabilities of a step may be from summing to one: a log written with three digits
ALIKE = "with weights that are all alike it corrects nothing"


def chosen_probabilities(
    history: History, policy: Policy | None, propensities: ArrayLike | None, method: str
) -> Float[Array, "*trials steps"]:
    """The probability of the arm that was chosen, 1 where it was forced; every one above zero where that can be known."""
    check_source(policy, propensities)
    if policy is not None:
        chosen = at_chosen(history, replayed_probabilities(history, policy, method))
    else:
        chosen = _given(history, propensities, history.arms.shape, "one for each step")
    chosen = jnp.where(history.forced_steps, 1, chosen)
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
        shape = (*history.arms.shape, history.num_arms)
        probabilities = _given(history, propensities, shape, "one for each step and arm")
    if is_concrete((probabilities, history.forced_steps)):
        if policy is None:
            _check_distribution(probabilities, history)
        check_possible(history, jnp.where(history.forced_steps, 1, at_chosen(history, probabilities)))
    return probabilities


def check_source(policy: Policy | None, propensities: ArrayLike | None) -> None:
    """Exactly one of the two says how the arms were chosen."""
    if (policy is None) == (propensities is None):
        which = "neither policy nor propensities is" if policy is None else "both policy and propensities are"
        raise ValueError(f"{which} given; allowed: one of them")


def replayed_probabilities(history: History, policy: Policy, method: str) -> Float[Array, "*trials steps arms"]:
    """What the policy gave every arm before each step; refused where its choices are not random."""
    check_policy(policy, history.num_arms)
    log_probs = replayed_log_probs(policy, history)
    if is_concrete((log_probs, history.forced_steps)):
        free = ~np.asarray(history.forced_steps)
        if free.any() and not is_random(np.asarray(log_probs)[free]):
            raise ValueError(
                f"policy is {policy}, whose choices are not random; {method} needs randomised choices (tau > 0), "
                f"as {ALIKE}: mean_matching does not"
            )
    return jnp.exp(log_probs).astype(history.rewards.dtype)


def at_chosen(history: History, values: Float[Array, "*trials steps arms"]) -> Float[Array, "*trials steps"]:
    """At every step the value of the arm that was pulled."""
    return jnp.take_along_axis(values, history.arms[..., None], axis=-1)[..., 0]


def check_possible(history: History, chosen: Float[Array, "*trials steps"]) -> None:
    """Refuses a choice that had no chance."""
    impossible = ~(np.asarray(chosen) > 0)
    refuse(impossible, history.arms, "history.arms is {value} at {where}, which had probability zero")


def _given(history: History, propensities: Any, shape: tuple[int, ...], what: str) -> Array:
    given = as_float(propensities)
    if given.shape != shape:
        raise ValueError(f"propensities has shape {given.shape}; allowed: {shape}, {what}")
    return given.astype(history.rewards.dtype)


def _check_chosen(history: History, chosen: Array, method: str) -> None:
    values = np.asarray(chosen)
    refuse(~((values > 0) & (values <= 1)), values, "propensities is {value} at {where}; allowed: a number above 0, at most 1")
    if not np.all(history.forced_steps) and np.all(values == 1):
        raise ValueError(f"propensities are all 1; {method} needs randomised choices, as {ALIKE}")


def _check_distribution(probabilities: Array, history: History) -> None:
    """At every step that was not forced: numbers from 0 to 1 that sum to one."""
    values, free = np.asarray(probabilities), ~np.asarray(history.forced_steps)
    outside = ~((values >= 0) & (values <= 1))
    first = np.take_along_axis(values, outside.argmax(axis=-1)[..., None], axis=-1)[..., 0]
    refuse(free & outside.any(axis=-1), first, "propensities is {value} at {where}; allowed: numbers from 0 to 1")
    total = values.sum(axis=-1)
    refuse(free & (np.abs(total - 1) > SUM_TOLERANCE), total, "propensities sum to {value} at {where}; allowed: 1 over the arms")
