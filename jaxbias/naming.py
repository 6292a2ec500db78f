"""Policies and families by the words that a command line or a file has for them. JAX is imported only when one is built."""

import dataclasses
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import jaxbias as jb

FIT = "fit"  # in place of a number: to be estimated from the log
ESTIMATED = {"estimate": None, "estimate-each": ["each"]}  # in place of a sigma: one from the log, or one for each arm


class PolicyName(StrEnum):
    """The word for each policy's class."""

    Greedy = "greedy"
    EpsilonGreedy = "epsilon-greedy"
    LilUCB = "lil-ucb"
    UCB1 = "ucb1"
    Thompson = "thompson"
    BetaThompson = "beta-thompson"
    ExplorationSampling = "exploration-sampling"
    BetaExplorationSampling = "beta-exploration-sampling"
    PlayTheWinner = "play-the-winner"
    Exp3 = "exp3"
    Uniform = "uniform"


class FamilyName(StrEnum):
    """The word for each family's class."""

    Normal = "normal"
    Bernoulli = "bernoulli"
    Poisson = "poisson"
    Exponential = "exponential"


class Ties(StrEnum):
    """Which of several best arms is pulled."""

    random = "random"
    first = "first"


class Opening(StrEnum):
    """Whether the first pull of each arm was forced, or chosen by the policy."""

    forced = "forced"
    chosen = "chosen"


class Allocation(StrEnum):
    """How a batch was shared out."""

    independent = "independent"
    shares = "shares"


def build_policy(name: PolicyName, given: Mapping[str, Any], num_arms: int) -> Any:
    """The policy with the settings that were given, each of which must be its own; those to be fitted are left out."""
    kind = getattr(jb, name.name)
    fields = {option_name(field.name): field.name for field in dataclasses.fields(kind)}
    for setting in given:
        if setting not in fields:
            has = ", ".join(map(as_option, fields)) or "none"
            raise ValueError(f"{as_option(setting)} is not an option of {name}; allowed: {has}")
    return kind(
        **{fields[setting]: per_arm(as_option(setting), value, num_arms) for setting, value in given.items() if value != FIT}
    )


def build_family(policy: PolicyName | None, family: FamilyName | None, sigma: Any, num_arms: int) -> Any:
    """The family that was asked for, or the one that suits the policy."""
    unit_rewards = policy is not None and getattr(getattr(jb, policy.name), "unit_rewards", False)
    if family is None:
        family = FamilyName.Bernoulli if unit_rewards else FamilyName.Normal
    if family is not FamilyName.Bernoulli and unit_rewards:
        raise ValueError(f"--family is {family}; allowed with {policy}: bernoulli")
    if family is not FamilyName.Normal and sigma:
        raise ValueError(f"--sigma is not an option of {family} rewards; allowed: none")
    settings = {"sigma": per_arm("--sigma", sigma, num_arms)} if sigma else {}
    return getattr(jb, family.name)(**settings)


def build_stop(given: Mapping[str, Any], arms: Sequence[str]) -> Any:
    """The stopping rule that the words describe, or None."""
    rules = [name for name in ("stop_difference", "stop_mean") if name in given]
    looks = {name: int(given[f"stop_{name}"]) for name in ("first", "every") if f"stop_{name}" in given}
    if len(rules) == 2:
        raise ValueError("--stop-difference and --stop-mean are given; allowed: one of them")
    if not rules:
        others = [as_option(name) for name in given]
        if others:
            raise ValueError(f"{others[0]} is given without a rule; allowed: with --stop-difference or --stop-mean")
        return None
    if rules == ["stop_difference"]:
        if "stop_arm" in given:
            raise ValueError("--stop-arm is given with --stop-difference; allowed: with --stop-mean")
        return jb.StopAtDifference(threshold=given["stop_difference"], **looks)
    arm = given.get("stop_arm", arms[0])
    if arm not in arms:
        raise ValueError(f"--stop-arm is {arm!r}; allowed: {', '.join(map(str, arms))}")
    return jb.StopAtMean(threshold=given["stop_mean"], arm=list(arms).index(arm), **looks)


def per_arm(option: str, value: Any, num_arms: int) -> Any:
    """One number as it is, or one for each arm as an array; words as plain words."""
    if not isinstance(value, list):
        return str(value) if isinstance(value, StrEnum) else value
    if len(value) == 1:
        return value[0]
    if len(value) != num_arms:
        raise ValueError(f"{option} is given {len(value)} times; allowed: once, or once for each of {num_arms} arms")
    import numpy as np

    return np.asarray(value)


def describe(name: PolicyName | None, policy: Any, family: Any = None) -> dict[str, Any]:
    """Every setting of a policy and a family under the name of its option, the defaults too."""
    settings = {"policy": name, **{option_name(field): value for field, value in vars(policy).items()}} if name else {}
    if family is not None:
        settings |= {"family": FamilyName[type(family).__name__], **vars(family)}
    return settings


def option_name(field: str) -> str:
    """The policy's own sigma has another name than the family's."""
    return "policy_sigma" if field == "sigma" else field


def as_option(name: str) -> str:
    """As it is typed."""
    return f"--{name.replace('_', '-')}"
