"""What the conditional likelihood asks of a log, its policy and its family, before it is maximised."""

import dataclasses
from numbers import Real
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from jaxbias._core.errors import ArgumentError, refuse_first
from jaxbias._core.jit import compiled
from jaxbias._core.precision import deviation_within
from jaxbias._core.settings import evaluate, is_concrete
from jaxbias.estimators.checks import check_family_of, check_level, check_rewards
from jaxbias.estimators.conjugate import has_conjugate
from jaxbias.estimators.sigma import check_spread
from jaxbias.history import History, by_trial, check_history, check_unit_rewards, check_whole, first_unpulled
from jaxbias.likelihood import choice_log_probs, is_random, replayed_log_probs
from jaxbias.policies import BasePolicy, EpsilonGreedy, IndexPolicy, Policy, check_policy, policy_name
from jaxbias.rewards import BaseFamily, Family, Normal, UnknownSigma

LEAST_NOISE = 0.005  # tau in spreads of the rewards: at 0.003 most of a few simulated logs gave no finite estimate
SOLVERS = ("newton", "contrastive_divergence")
PRIORS = (None, "hierarchical")


class LogProblem(NamedTuple):
    """One log or many, with the policy and the family completed."""

    history: History
    policy: BasePolicy
    family: BaseFamily


def check_arguments(history: History, policy: Policy, family: Family, solver: str, level: float, given_draws: bool) -> LogProblem:
    """The arguments, checked against what this estimator can do."""
    if solver not in SOLVERS:
        raise ArgumentError("solver", solver, " or ".join(map(repr, SOLVERS)))
    check_level(level)
    own_policy, own_family = check_policy(policy, history.num_arms), check_family_of(history, family)
    _check_family(own_family, solver)
    checked = dataclasses.replace(check_history(history), held_out=None)
    check_whole(checked, "conditional_mle")
    check_rewards(checked, own_family)
    if isinstance(own_family, UnknownSigma):
        check_spread(checked, own_family)
    check_unit_rewards(checked, own_policy)
    if checked.allocation == "shares":
        allowed = (
            "'independent': rounded shares leave almost nothing to chance to condition on; mean_matching can correct this log"
        )
        raise ArgumentError("history.allocation", "shares", allowed)
    checked = dataclasses.replace(checked, draws=_recorded_draws(checked, own_policy) if given_draws else None)
    if is_concrete((checked, own_policy)):
        _check_choices(checked, own_policy)
    return LogProblem(history=checked, policy=own_policy, family=own_family)


def _check_family(family: BaseFamily, solver: str) -> None:
    is_normal = isinstance(family, Normal | UnknownSigma)
    if not is_normal and not family.has_natural:
        allowed = "Normal, Bernoulli, Poisson or Exponential, or one with variance, natural and from_natural"
        raise ArgumentError("family", family, allowed)
    if solver != "newton" and not isinstance(family, Normal):
        raise ArgumentError("solver", solver, f"'newton' for {family!r}: the other is for Normal rewards with a known sigma")


def check_prior(prior: str | None, family: BaseFamily, solver: str) -> None:
    """Refuses a prior that is not known, or that the solver or the family cannot have."""
    if prior not in PRIORS:
        raise ArgumentError("prior", prior, " or ".join(map(repr, PRIORS)))
    if prior is None:
        return
    if solver != "newton":
        raise ArgumentError("solver", solver, f"'newton' with prior={prior!r}")
    if not isinstance(family, Normal) and not has_conjugate(family):
        allowed = f"Normal with its sigma, Bernoulli, Poisson or Exponential with prior={prior!r}"
        raise ArgumentError("family", family, f"{allowed}; shrinkage and bias_corrected estimate sigma too")


def _recorded_draws(history: History, policy: BasePolicy) -> Float[Array, "*trials steps arms"]:
    if not policy.records_draws:
        raise ArgumentError("given_draws", True, f"False with {policy_name(policy)}: only Thompson records posterior draws")
    if history.draws is None:
        raise ArgumentError("history.draws", None, "recorded where given_draws is True, as by simulate(..., keep_draws=True)")
    if history.seen_steps is not None:
        raise ArgumentError("given_draws", True, "False for a log with batches or delays, so that the draws are integrated out")
    expected = (*history.arms.shape, history.num_arms)
    if history.draws.shape != expected:
        allowed = f"of shape {expected}, one draw for each step and arm"
        raise ArgumentError("history.draws", history.draws, allowed, problem=f"has shape {history.draws.shape}")
    return history.draws


def _check_choices(history: History, policy: BasePolicy) -> None:
    """Every arm was pulled, and the choices were random and possible."""
    missing = first_unpulled(history)
    if missing is not None:
        problem = f"has no pull of arm {missing[1]} in trial {missing[0]}"
        raise ArgumentError("history", history, "one with every arm pulled once or more", problem=problem)
    replay = replayed_log_probs if history.draws is None else _choices
    log_probs, free = np.asarray(evaluate(replay, policy, history)), ~np.asarray(history.forced)
    if history.draws is None and free.any() and not is_random(log_probs[free]):
        allowed = "one with random choices (tau > 0) for conditional_mle; mean_matching does not need them"
        raise ArgumentError("policy", policy, allowed, problem=f"is {policy}, whose choices are not random")
    _check_noise(history, policy)
    chosen = np.take_along_axis(log_probs, np.asarray(history.arms)[..., None], axis=-1)[..., 0]
    impossible = free & ~np.isfinite(chosen)
    refuse_first("history.arms", impossible, history.arms, problem=", which the policy gives probability zero")


def _check_noise(history: History, policy: BasePolicy) -> None:
    """Refuses noise so small that each choice bounds the means sharply: the samples of the likelihood then degenerate."""
    tau = getattr(policy, "tau", None)
    if not isinstance(policy, IndexPolicy) or isinstance(policy, EpsilonGreedy) or not isinstance(tau, Real) or tau == 0:
        return
    spread = deviation_within(np.asarray(history.arms), np.asarray(history.rewards, np.float64), history.num_arms)
    if tau < LEAST_NOISE * spread:
        problem = f"is {policy}, whose choices are hardly random: the rewards vary by {spread:.2g} within an arm"
        allowed = f"one with tau of {LEAST_NOISE * spread:.2g} or more for conditional_mle; mean_matching does not need it"
        raise ArgumentError("policy", policy, allowed, problem=problem)


@compiled
def _choices(policy: BasePolicy, history: History) -> jax.Array:
    def one(trial: History) -> jax.Array:
        return choice_log_probs(policy_of(policy, trial), trial.arms, trial.rewards, trial.num_arms, trial.seen_steps)

    return by_trial(one, history)


def policy_of(policy: Any, history: History) -> BasePolicy:
    """The policy of one trial: with the draws that it recorded, where the estimate is conditional on them."""
    return policy if history.draws is None else policy.given(history.draws)
