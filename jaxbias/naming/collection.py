"""How a log was collected: the arguments of `jaxbias.debias`, from settings."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jaxbias._core.errors import ArgumentError
from jaxbias.naming.around import check_warm_up_ends
from jaxbias.naming.building import ASSUMES_SIGMA, build_family, build_policy, build_stop, without_rule
from jaxbias.naming.names import Allocation, FamilyName, Opening, PolicyName
from jaxbias.naming.presets import with_preset
from jaxbias.naming.settings import ESTIMATE, ESTIMATE_EACH, FIT, POLICY_SETTINGS, STOP_SETTINGS


class Collection(NamedTuple):
    """The arguments of `jaxbias.debias` that describe how a log was collected, with their names there."""

    policy: Any
    family: Any
    fit: tuple[str, ...]
    opening: str
    allocation: str
    stop: Any
    num_steps: int | None
    batch_size: int | None


def build_collection(settings: Mapping[str, Any], labels: Sequence[str], num_rows: int) -> Collection:
    """The collection that settings describe, for a log with these arms and so many rows."""
    settings = with_preset(settings)
    given = {name: settings[name] for name in POLICY_SETTINGS if name in settings}
    check_warm_up_ends(given, num_rows, "the rows of the log")
    sigma = _check_sigma(settings.get("sigma"))
    stop = build_stop({name: settings[name] for name in STOP_SETTINGS if name in settings}, labels)
    return Collection(
        policy=_build_policy(settings.get("policy"), given, sigma, len(labels)),
        family=_build_family(settings, sigma, len(labels)),
        fit=tuple(name for name, value in given.items() if value == FIT),
        opening=str(settings.get("opening", Opening.forced)),
        allocation=str(settings.get("allocation", Allocation.independent)),
        stop=stop,
        num_steps=_check_max_steps(settings.get("max_steps"), stop, num_rows),
        batch_size=_check_batch_size(settings.get("batch_size"), num_rows),
    )


def _check_sigma(sigma: Any) -> Any:
    """A list of numbers, or of the one word `estimate` or `estimate-each`."""
    sigma = sigma or [ESTIMATE]
    words = [value for value in sigma if isinstance(value, str)]
    if words and len(sigma) > 1:
        raise ArgumentError("sigma", sigma, "a number, or one for each arm, or one word")
    return sigma


def _build_policy(name: PolicyName | None, given: dict[str, Any], sigma: Any, num_arms: int) -> Any:
    if name is None:
        for setting, value in given.items():
            without = lambda name_of: f"is given without {name_of('policy')}"
            raise ArgumentError(setting, value, problem=without, remedy="give both")
        return None
    if name in ASSUMES_SIGMA and not isinstance(sigma[0], str):
        given = {"policy_sigma": sigma, **given}
    policy = build_policy(name, given, num_arms)
    if given.get("epsilon") == FIT and name is not PolicyName.EpsilonGreedy:
        raise ArgumentError("epsilon", FIT, f"a number with {name}", remedy="only the epsilon of epsilon-greedy can be fitted")
    return policy


def _build_family(settings: Mapping[str, Any], sigma: Any, num_arms: int) -> Any:
    """The given family; None if it is to be chosen by looking at the rewards."""
    from jaxbias.rewards import EACH, Normal

    policy, family = settings.get("policy"), settings.get("family")
    if sigma == [ESTIMATE]:
        if family is None:
            return None
        default = build_family(policy, family, None, num_arms)
        return Normal(sigma=None) if family is FamilyName.Normal else default
    return build_family(policy, family, [EACH] if sigma == [ESTIMATE_EACH] else sigma, num_arms)


def _check_max_steps(max_steps: int | float | None, stop: Any, num_rows: int) -> int | None:
    if max_steps is None:
        return None
    if stop is None:
        raise without_rule("max_steps", max_steps)
    if max_steps < num_rows:
        raise ArgumentError("max_steps", max_steps, f"at least {num_rows}, the rows of the log", problem=f"is {max_steps:g}")
    return int(max_steps)


def _check_batch_size(size: int | float | None, num_rows: int) -> int | None:
    if size is None:
        return None
    if not 1 <= size < num_rows or size != int(size):
        allowed = f"a whole number from 1 to {num_rows - 1}, below the rows of the log"
        raise ArgumentError("batch_size", size, allowed, problem=f"is {size:g}")
    return int(size)
