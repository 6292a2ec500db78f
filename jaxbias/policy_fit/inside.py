"""The settings of a policy that others are wrapped around: which of them has a setting, and the same with another value."""

import dataclasses
from typing import Any

from jaxbias.policies.wrappers import Wrapped


def setting_of(policy: Any, name: str) -> Any:
    """The value of a setting, of the outermost policy that has it; None where none has."""
    if dataclasses.is_dataclass(policy) and name in {field.name for field in dataclasses.fields(policy)}:
        return getattr(policy, name)
    return setting_of(policy.policy, name) if isinstance(policy, Wrapped) else None


def with_setting(policy: Any, name: str, value: Any) -> Any:
    """The policy with another value of a setting, wherever inside it that is.

    >>> import jaxbias as jb
    >>> with_setting(jb.Floored(jb.Greedy(), floor=0.1), "tau", 0.5)
    Floored(policy=Greedy(tau=0.5, ties='random'), floor=0.1)
    """
    if name in {field.name for field in dataclasses.fields(policy)}:
        return dataclasses.replace(policy, **{name: value})
    return dataclasses.replace(policy, policy=with_setting(policy.policy, name, value))


def innermost(policy: Any) -> Any:
    """The policy that all the others are wrapped around."""
    return innermost(policy.policy) if isinstance(policy, Wrapped) else policy
