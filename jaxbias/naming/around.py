"""What a platform puts around a policy, from settings, in the order in which platforms apply them:

    the policy's own probabilities  ->  top-two sampling  ->  a floor  ->  a warm-up of equal allocation

so that a floor also holds for the second-best arm, and nothing but equal allocation happens in a warm-up.
"""

from collections.abc import Mapping
from typing import Any

from jaxbias._core.errors import ArgumentError
from jaxbias.naming.names import PolicyName
from jaxbias.naming.settings import AROUND_SETTINGS, FIT

DRAWING = (PolicyName.Thompson, PolicyName.BetaThompson)  # policies with a second-best draw
ROUNDING = 1e-6  # of a floor of 1 / K


def wrap_policy(name: PolicyName, policy: Any, given: Mapping[str, Any], num_arms: int) -> Any:
    """The policy with what is given around it; a floor that is to be fitted begins in the middle of its range."""
    from jaxbias.policies import Floored, TopTwo, WarmUp

    if "top_two" in given:
        policy = TopTwo(policy, beta=_check_top_two(name, given["top_two"]))
    if "floor" in given:
        policy = Floored(policy, floor=_check_floor(given["floor"], num_arms))
    if "warm_up" in given:
        policy = WarmUp(policy, num_steps=_check_warm_up(given["warm_up"]))
    return policy


def unwrap_policy(policy: Any) -> tuple[Any, dict[str, Any]]:
    """The policy inside, and the settings of what is around it."""
    from jaxbias.policies import Floored, TopTwo, WarmUp

    settings, fields = {}, {TopTwo: ("top_two", "beta"), Floored: ("floor", "floor"), WarmUp: ("warm_up", "num_steps")}
    while type(policy) in fields:
        setting, field = fields[type(policy)]
        settings[setting] = getattr(policy, field)
        policy = policy.policy
    return policy, {setting: settings[setting] for setting in AROUND_SETTINGS if setting in settings}


def check_warm_up_ends(given: Mapping[str, Any], num_steps: int, steps: str) -> None:
    """Refuses a warm-up that leaves the policy nothing to choose; `steps` says what the steps are."""
    if "warm_up" in given and given["warm_up"] >= num_steps:
        raise ArgumentError("warm_up", given["warm_up"], f"below {num_steps}, {steps}", problem=f"is {given['warm_up']:g}")


def _check_top_two(name: PolicyName, beta: float) -> float:
    if name not in DRAWING:
        remedy = f"it needs a policy that draws: {' or '.join(DRAWING)}"
        raise ArgumentError("top_two", beta, problem=f"is given with {name}", remedy=remedy)
    if not 0 <= beta <= 1:
        raise ArgumentError("top_two", beta, "from 0 to 1, how often the best draw is kept", problem=f"is {beta:g}")
    return beta


def _check_floor(floor: Any, num_arms: int) -> float:
    if floor == FIT:
        return 0.5 / num_arms
    if not 0 <= floor <= (1 + ROUNDING) / num_arms:
        allowed = f"from 0 to 1 / {num_arms}, as there are {num_arms} arms"
        raise ArgumentError("floor", floor, allowed, problem=f"is {floor:g}")
    return floor


def _check_warm_up(num_steps: int | float) -> int:
    if num_steps < 1 or num_steps != int(num_steps):
        raise ArgumentError("warm_up", num_steps, "a whole number of pulls, 1 or more", problem=f"is {num_steps:g}")
    return int(num_steps)
