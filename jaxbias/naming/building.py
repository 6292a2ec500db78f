"""Policies, families and stopping rules from settings. JAX is imported only when one is built."""

import dataclasses
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from jaxbias._core.errors import ArgumentError
from jaxbias.naming.around import unwrap_policy, wrap_policy
from jaxbias.naming.names import FamilyName, PolicyName
from jaxbias.naming.settings import AROUND_SETTINGS, FIT

ASSUMES_SIGMA = (PolicyName.Thompson, PolicyName.ExplorationSampling)  # policies that know the sigma of the rewards


def build_policy(name: PolicyName, given: Mapping[str, Any], num_arms: int) -> Any:
    """The policy with the given settings, and what is around it; one that is to be fitted keeps its default."""
    around = {setting: value for setting, value in given.items() if setting in AROUND_SETTINGS}
    given = {setting: value for setting, value in given.items() if setting not in AROUND_SETTINGS}
    kind = _policy_class(name)
    fields = {setting_name(field.name): field.name for field in dataclasses.fields(kind)}
    for setting, value in given.items():
        if setting not in fields:
            raise ArgumentError(
                setting,
                value,
                problem=f"is not a setting of {name}",
                remedy=lambda name_of: f"its settings are {', '.join(map(name_of, fields))}" if fields else "it has no settings",
            )
    policy = kind(**{fields[setting]: per_arm(setting, value, num_arms) for setting, value in given.items() if value != FIT})
    return wrap_policy(name, policy, around, num_arms)


def build_family(policy: PolicyName | None, family: FamilyName | None, sigma: Any, num_arms: int) -> Any:
    """The given family, or by default the one that suits the policy."""
    from jaxbias import rewards

    unit_rewards = policy is not None and _policy_class(policy).unit_rewards
    if family is None:
        family = FamilyName.Bernoulli if unit_rewards else FamilyName.Normal
    if family is not FamilyName.Bernoulli and unit_rewards:
        raise ArgumentError("family", family, f"bernoulli with {policy}", problem=f"is {family}")
    if family is not FamilyName.Normal and sigma:
        raise ArgumentError("sigma", sigma, problem=f"is not a setting of {family} rewards", remedy="leave it out")
    settings = {"sigma": per_arm("sigma", sigma, num_arms)} if sigma else {}
    return getattr(rewards, family.name)(**settings)


def build_stop(given: Mapping[str, Any], arms: Sequence[str]) -> Any:
    """The stopping rule with the given settings, or None."""
    from jaxbias.stopping import StopAtDifference, StopAtMean

    rules = [name for name in ("stop_difference", "stop_mean") if name in given]
    looks = {name: int(given[f"stop_{name}"]) for name in ("first", "every") if f"stop_{name}" in given}
    if len(rules) == 2:
        both = lambda name_of: f"and {name_of('stop_mean')} are both given"
        raise ArgumentError("stop_difference", given["stop_difference"], problem=both, remedy="give one of them")
    if not rules:
        for setting, value in given.items():
            raise without_rule(setting, value)
        return None
    if rules == ["stop_difference"]:
        if "stop_arm" in given:
            with_difference = lambda name_of: f"is given with {name_of('stop_difference')}"
            remedy = lambda name_of: f"it can only be used with {name_of('stop_mean')}"
            raise ArgumentError("stop_arm", given["stop_arm"], problem=with_difference, remedy=remedy)
        return StopAtDifference(threshold=given["stop_difference"], **looks)
    arm = given.get("stop_arm", arms[0])
    if arm not in arms:
        raise ArgumentError("stop_arm", arm, f"one of {', '.join(map(str, arms))}")
    return StopAtMean(threshold=given["stop_mean"], arm=list(arms).index(arm), **looks)


def without_rule(setting: str, value: Any) -> ArgumentError:
    """The error of a setting that makes sense only with a stopping rule."""
    remedy = lambda name_of: f"also give {name_of('stop_difference')} or {name_of('stop_mean')}"
    return ArgumentError(setting, value, problem="is given without a stopping rule", remedy=remedy)


def per_arm(setting: str, value: Any, num_arms: int) -> Any:
    """One number as it is, or one for each arm as an array; a choice as plain text."""
    if not isinstance(value, list):
        return str(value) if isinstance(value, StrEnum) else value
    if len(value) == 1:
        return value[0]
    if len(value) != num_arms:
        raise ArgumentError(setting, value, f"one number, or one for each of {num_arms} arms")
    import numpy as np

    return np.asarray(value)


def settings_of(name: PolicyName | None, policy: Any, family: Any = None) -> dict[str, Any]:
    """Every setting of a policy and a family by its name, including defaults."""
    settings: dict[str, Any] = {}
    if name:
        inner, around = unwrap_policy(policy)
        settings = {"policy": name, **{setting_name(field): value for field, value in vars(inner).items()}, **around}
    if family is not None:
        settings |= {"family": FamilyName[type(family).__name__], **vars(family)}
    return settings


def setting_name(field: str) -> str:
    """The setting for a field of a policy: the sigma that a policy assumes is not the family's."""
    return "policy_sigma" if field == "sigma" else field


def _policy_class(name: PolicyName) -> Any:
    from jaxbias import policies

    return getattr(policies, name.name)
