"""What the conditional likelihood asks of a log, its policy and its family, before it is maximised."""

import dataclasses
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from jaxbias.compiling import compiled
from jaxbias.estimators.batches import by_trial
from jaxbias.estimators.checks import (
    INSIDE,
    check_history,
    check_level,
    check_rewards,
    check_unit_rewards,
    check_whole,
    first_unpulled,
    is_random,
    refuse,
)
from jaxbias.estimators.spread import check_spread
from jaxbias.history import History
from jaxbias.likelihood import choice_log_probs
from jaxbias.policies import Policy, check_policy
from jaxbias.rewards import Family, Normal, check_family, has_natural, lacks_sigma
from jaxbias.settings import is_concrete


def prepare(history: History, policy: Policy, family: Family, solver: str, level: float, given_draws: bool) -> History:
    """The history as arrays, checked against what this estimator can do."""
    if solver not in ("newton", "contrastive_divergence"):
        raise ValueError(f"solver is {solver!r}; allowed: 'newton' or 'contrastive_divergence'")
    check_level(level)
    check_policy(policy, history.num_arms)
    check_family(family, np.full(history.num_arms, INSIDE))
    if not isinstance(family, Normal) and not has_natural(family):
        raise ValueError(f"family is {family}; allowed: Normal, Bernoulli, Poisson and Exponential, or one with their methods")
    if not isinstance(family, Normal) and solver != "newton":
        raise ValueError(f"solver is {solver!r} and family is {family}; allowed with it: Normal; with this family: 'newton'")
    checked = dataclasses.replace(check_history(history), held_out=None)
    check_whole(checked, "conditional_mle")
    check_rewards(checked, family)
    if lacks_sigma(family):
        if solver != "newton":
            raise ValueError(f"solver is {solver!r} and family.sigma is {family.sigma!r}; allowed without a sigma: 'newton'")
        check_spread(checked, family)
    check_unit_rewards(checked, policy)
    if checked.allocation == "shares":
        raise ValueError(
            "history.allocation is 'shares'; allowed: 'independent', as counts that are rounded shares leave next to nothing to "
            "chance, and so nothing to condition on: mean_matching takes them"
        )
    draws = _recorded_draws(checked, policy) if given_draws else None
    checked = dataclasses.replace(checked, draws=draws)
    if is_concrete((checked, policy)):
        _check_choices(checked, policy)
    return checked


def _recorded_draws(history: History, policy: Policy) -> Float[Array, "*trials steps arms"]:
    if not hasattr(policy, "given"):
        raise ValueError(f"given_draws is True and policy is {type(policy).__name__}; allowed with it: Thompson")
    if history.draws is None:
        raise ValueError("given_draws is True and history.draws is None; allowed: what simulate(..., keep_draws=True) records")
    if history.batch_sizes is not None:
        raise ValueError(
            "given_draws is True and history has batches; allowed: draws that are integrated out (given_draws=False)"
        )
    expected = (*history.arms.shape, history.num_arms)
    if history.draws.shape != expected:
        raise ValueError(f"history.draws has shape {history.draws.shape}; allowed: {expected}, one draw for each step and arm")
    return history.draws


def _check_choices(history: History, policy: Policy) -> None:
    """Whether every arm was pulled, and every choice is one the policy makes at random."""
    missing = first_unpulled(history)
    if missing is not None:
        raise ValueError(f"arm {missing[1]} was never pulled in trial {missing[0]}; allowed: each arm once or more")
    log_probs, free = np.asarray(_choices(policy, history)), ~np.asarray(history.forced_steps)
    if history.draws is None and free.any() and not is_random(log_probs[free]):
        raise ValueError(
            f"policy is {policy}, whose choices are not random; conditional_mle needs randomised choices (tau > 0): "
            "mean_matching does not"
        )
    chosen = np.take_along_axis(log_probs, np.asarray(history.arms)[..., None], axis=-1)[..., 0]
    impossible = free & ~np.isfinite(chosen)
    refuse(impossible, history.arms, "history.arms is {value} at {where}, which the policy gives probability zero")


@compiled
def _choices(policy: Policy, history: History) -> jax.Array:
    def one(trial: History) -> jax.Array:
        return choice_log_probs(policy_of(policy, trial), trial.arms, trial.rewards, trial.num_arms, trial.seen_steps)

    return by_trial(one, history)


def policy_of(policy: Any, history: History) -> Policy:
    """The policy of one trial: with the draws that it recorded, where the estimate is conditional on them."""
    return policy if history.draws is None else policy.given(history.draws)
