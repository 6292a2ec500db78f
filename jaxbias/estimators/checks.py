"""What every estimator asks of a log before it uses it: the level, the family, and rewards that the family can give."""

import dataclasses
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxbias._core import door
from jaxbias._core.errors import ArgumentError, refuse_first
from jaxbias._core.jit import compiled
from jaxbias._core.settings import evaluate, is_concrete
from jaxbias.history import History, check_history
from jaxbias.rewards import UNKNOWN_FAMILY, BaseFamily, Bernoulli, Family, Normal, UnknownSigma, at_arm, check_family

INSIDE = 0.5  # a mean that every built-in family allows


def check_level(level: float) -> None:
    """Refuses a level that no interval has."""
    door.check_level("level", level)


def check_family_of(history: History, family: Family | None) -> BaseFamily:
    """The family, completed; where it is not known, one of which nothing is known."""
    return UNKNOWN_FAMILY if family is None else check_family(family, np.full(history.num_arms, mean_inside(family)))


def mean_inside(family: Any) -> float:
    """A mean that the family allows: 0.5, or where its range does not hold that, one inside of it."""
    low, high = getattr(family, "mean_range", BaseFamily.mean_range)
    if low < INSIDE < high:
        return INSIDE
    if np.isfinite(low) and np.isfinite(high):
        return (low + high) / 2
    return low + 1 if np.isfinite(low) else high - 1


def check_log(history: History, family: Family | None, level: float, two_rewards: bool = False) -> tuple[History, BaseFamily]:
    """The history as arrays and the family, with the rewards checked against the family where one is given.

    With `two_rewards`, the policy may have learned from another figure than the rewards.
    """
    check_level(level)
    checked, completed = check_history(history, two_rewards), check_family_of(history, family)
    check_rewards(checked, completed)
    if not checked.squares_known and not completed.has_variance:
        allowed = "a standard deviation, as the counts have no sums of squares to estimate it from"
        raise ArgumentError("family.sigma", None, allowed, problem="is not given")
    return checked, completed


def check_rewards(history: History, family: BaseFamily, field: str = "rewards") -> None:
    """Refuses a reward, or a held-out one, that the family cannot give; a Normal family gives any finite one."""
    if isinstance(family, UnknownSigma) or family is UNKNOWN_FAMILY:
        return
    rewards = getattr(history, field)
    if not history.order_known and is_concrete((rewards, family)):
        _check_sums(history, family)
    elif is_concrete((rewards, family)):
        impossible = _impossible(family, dataclasses.replace(history, rewards=rewards))
        refuse_first(f"history.{field}", impossible, rewards, problem=f", which {family!r} cannot give")


def _impossible(family: BaseFamily, history: History) -> np.ndarray:
    """Whether each reward is one that the family cannot give; of the usual families by NumPy, with nothing compiled."""
    rewards = np.asarray(history.rewards)
    if type(family) is Bernoulli:
        return ~((rewards == 0) | (rewards == 1))
    if type(family) is Normal:
        sigma = np.broadcast_to(np.asarray(family.sigma, rewards.dtype), (history.num_arms,))[np.asarray(history.arms)]
        with np.errstate(over="ignore"):
            return ~np.isfinite(np.square((rewards - rewards.dtype.type(INSIDE)) / sigma))
    return ~np.isfinite(np.asarray(evaluate(_reward_log_probs, family, history))[..., : history.num_steps])


def _check_sums(history: History, family: BaseFamily) -> None:
    """The same of counts, whose rows are not the real ones: of 0/1 rewards each row, of others the mean of each arm."""
    low, high = family.mean_range
    values = np.asarray(history.rewards)
    if isinstance(family, Bernoulli):
        wrong = not np.isin(values, (0.0, 1.0)).all()
        allowed = "counts of successes, whole numbers from 0 to the pulls"
    else:
        mean = np.asarray(evaluate(lambda history: history.statistics.mean, history))
        wrong = not ((mean >= low) & (mean <= high)).all()
        allowed = f"counts whose means are from {low:g} to {high:g}"
    if wrong:
        raise ArgumentError("history", history, allowed, problem=f"has sums that {family!r} cannot give")


def check_held_out(history: History, family: BaseFamily) -> None:
    """Refuses a history without held-out rewards, or with one that is not finite or that the family cannot give."""
    held_out = history.held_out
    if held_out is None:
        allowed = "a second reward for each step, as from simulate(..., held_out=True)"
        raise ArgumentError("history.held_out", None, allowed)
    if held_out.shape != history.rewards.shape:
        allowed = f"of the shape of rewards, {history.rewards.shape}"
        raise ArgumentError("history.held_out", held_out, allowed, problem=f"has shape {held_out.shape}")
    if is_concrete(held_out):
        refuse_first("history.held_out", ~np.isfinite(held_out), held_out, "finite")
    check_rewards(history, family, "held_out")


@partial(compiled, pads=("history",))
def _reward_log_probs(family: Any, history: History) -> Array:
    def one(arm: Array, reward: Array) -> Array:
        return at_arm(family, arm, history.num_arms).log_prob(reward, jnp.full_like(reward, mean_inside(family)))

    return jnp.vectorize(one)(history.arms, history.rewards)
