"""What every estimator asks of a log before it believes it: which argument is wrong, where, and what is allowed."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxbias.compiling import compiled
from jaxbias.estimators.batches import by_trial
from jaxbias.history import ALLOCATIONS, History, cut
from jaxbias.likelihood import choice_log_probs
from jaxbias.policies import Policy
from jaxbias.rewards import Family, at_arm, check_family, lacks_sigma
from jaxbias.settings import as_float, is_concrete

INSIDE = 0.5  # a mean that every family allows


def check_level(level: float) -> None:
    """The level of an interval."""
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; allowed: a number above 0 and below 1")


def check_history(history: History) -> History:
    """The history as arrays, refused where an arm is unknown or a reward is not a finite number; one log up to its end."""
    arms, rewards = jnp.asarray(history.arms), as_float(history.rewards)
    if arms.shape != rewards.shape or arms.ndim not in (1, 2) or arms.shape[-1] == 0:
        raise ValueError(f"history has arms of shape {arms.shape} and rewards of shape {rewards.shape}; allowed: both (steps,)")
    if not jnp.issubdtype(arms.dtype, jnp.integer):
        raise ValueError(f"history.arms is of {arms.dtype}; allowed: whole numbers, 0 to {history.num_arms - 1}")
    if is_concrete((arms, rewards)):
        numbers = np.asarray(arms)
        outside = (numbers < 0) | (numbers >= history.num_arms)
        refuse(outside, arms, "history.arms is {value} at {where}; allowed: 0 to " + str(history.num_arms - 1))
        refuse(~np.isfinite(rewards), rewards, "history.rewards is {value} at {where}; allowed: finite numbers")
    _check_batches(history, arms.shape[-1])
    checked = History(
        arms=arms.astype(jnp.int32),
        rewards=rewards,
        num_arms=history.num_arms,
        forced=jnp.asarray(history.forced_steps),
        held_out=None if history.held_out is None else as_float(history.held_out),
        draws=None if history.draws is None else as_float(history.draws),
        lengths=history.lengths,
        batch_sizes=history.batch_sizes,
        allocation=history.allocation,
    )
    if history.lengths is None or arms.ndim == 2 or not is_concrete(history.lengths):
        return checked
    return cut(checked, int(history.lengths))


def check_whole(history: History, method: str) -> None:
    """Refuses trials of different lengths, for a method that takes one log of them at a time."""
    if history.lengths is not None:
        raise ValueError(f"history has trials that a rule stopped early; allowed with {method}: one of them, history.trial(0)")


def check_num_steps(num_steps: int | None, history: History, stop: Any) -> int:
    """The most steps an experiment could have had, where a rule could stop it."""
    if num_steps is None:
        return history.num_steps
    if stop is None or num_steps < history.num_steps:
        raise ValueError(f"num_steps is {num_steps}; allowed: {history.num_steps}, as the log has, or more, and only with `stop`")
    return num_steps


def _check_batches(history: History, num_steps: int) -> None:
    if history.allocation not in ALLOCATIONS:
        raise ValueError(f"history.allocation is {history.allocation!r}; allowed: 'independent' or 'shares'")
    sizes = history.batch_sizes
    if sizes is not None and (not isinstance(sizes, tuple) or min(sizes, default=0) < 1 or sum(sizes) != num_steps):
        shown = f"{sizes!r}" if len(sizes) <= 8 else f"{len(sizes)} sizes that sum to {sum(sizes)}"
        raise ValueError(f"history.batch_sizes is {shown}; allowed: a tuple of sizes, 1 or more, that sum to {num_steps} steps")


def check_rewards(history: History, family: Family, field: str = "rewards") -> None:
    """Refuses a reward, or a held-out one, that the family cannot give; one without a sigma yet gives any."""
    rewards = getattr(history, field)
    if is_concrete((rewards, family)) and not lacks_sigma(family):
        log_prob = _reward_log_probs(family, dataclasses.replace(history, rewards=rewards))
        name = type(family).__name__
        refuse(~np.isfinite(log_prob), rewards, "history." + field + " is {value} at {where}, which " + name + " cannot give")


def check_log(history: History, family: Family | None, level: float) -> History:
    """The history as arrays, with its rewards checked against the family where one is given."""
    check_level(level)
    checked = check_history(history)
    if family is not None:
        check_family(family, np.full(history.num_arms, INSIDE))
        check_rewards(checked, family)
    return checked


def check_unit_rewards(history: History, policy: Any) -> None:
    """Refuses rewards outside 0 to 1 for a policy that counts them as successes and failures."""
    if getattr(policy, "unit_rewards", False) and is_concrete(history.rewards):
        outside = ~((np.asarray(history.rewards) >= 0) & (np.asarray(history.rewards) <= 1))
        name = type(policy).__name__
        refuse(outside, history.rewards, "history.rewards is {value} at {where}; allowed with " + name + ": numbers from 0 to 1")


def check_held_out(history: History, family: Family | None) -> None:
    """Refuses a history without held-out rewards, or with one that is no number or that the family cannot give."""
    if history.held_out is None:
        raise ValueError(
            "history.held_out is None; allowed: a second reward for each step, as simulate(..., held_out=True) gives"
        )
    if history.held_out.shape != history.rewards.shape:
        raise ValueError(f"history.held_out has shape {history.held_out.shape}; allowed: {history.rewards.shape}, as rewards")
    if is_concrete(history.held_out):
        wrong = ~np.isfinite(history.held_out)
        refuse(wrong, history.held_out, "history.held_out is {value} at {where}; allowed: finite numbers")
    if family is not None:
        check_rewards(history, family, "held_out")


@compiled
def _reward_log_probs(family: Any, history: History) -> Array:
    def one(arm: Array, reward: Array) -> Array:
        return at_arm(family, arm, history.num_arms).log_prob(reward, jnp.full_like(reward, INSIDE))

    return jnp.vectorize(one)(history.arms, history.rewards)


def first_unpulled(history: History) -> tuple[int, int] | None:
    """The first trial, and in it the first arm, without a single pull."""
    arms = np.atleast_2d(history.arms)
    pulled = np.zeros((arms.shape[0], history.num_arms), bool)
    np.put_along_axis(pulled, arms, True, axis=1)
    missing = np.argwhere(~pulled)
    return (int(missing[0, 0]), int(missing[0, 1])) if len(missing) else None


def replayed_log_probs(policy: Policy, history: History) -> Float[Array, "*trials steps arms"]:
    """The log-probability of every arm at every step, read off the policy before the step."""
    check_unit_rewards(history, policy)
    return _replayed(policy, history)


@compiled
def _replayed(policy: Policy, history: History) -> Array:
    def one(trial: History) -> Array:
        return choice_log_probs(policy, trial.arms, trial.rewards, trial.num_arms, trial.seen_steps)

    return by_trial(one, history)


def is_random(log_probs: np.ndarray) -> bool:
    """Whether at some step every arm has a chance, or two have different ones: more than ties among the best."""
    possible = np.isfinite(log_probs)
    uneven = possible & (log_probs < log_probs.max(axis=-1, keepdims=True))
    return bool(uneven.any() or possible.all(axis=-1).any())


def refuse(wrong: Any, values: Any, message: str) -> None:
    """Raises ValueError at the first step that is wrong, with `{value}` and `{where}` of the message filled in."""
    wrong, values = np.atleast_2d(wrong), np.atleast_2d(values)
    if wrong.any():
        trial, step = np.argwhere(wrong)[0]
        where = f"step {step}" if wrong.shape[0] == 1 else f"trial {trial}, step {step}"
        raise ValueError(message.format(value=values[trial, step], where=where))
