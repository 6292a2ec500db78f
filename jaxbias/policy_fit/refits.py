"""Other settings of the declared policy: more or less noise, a floor, another prior. Each is fitted by the likelihood."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jaxbias.policies import complete_policy
from jaxbias.policies.wrappers import Wrapped
from jaxbias.policy_fit.alternatives import Alternative, Cause, Replay
from jaxbias.policy_fit.inside import innermost, setting_of, with_setting

DIGITS = 3  # of a fitted value: what is suggested can be typed
ROUNDS, MORE_ROUNDS = 1, 4  # in which the values around the best one are tried; more for a policy that does not integrate
CHEAP = 2.0  # cost of a log-probability up to which there are more
BETWEEN = 3  # values tried on each side of the best one, up to its neighbour
FACTORS = 4.0 ** np.arange(-3, 4)  # of a positive setting: from a 64th to 64 times what was declared
SPREADS = np.array([-5.0, -2.0, -1.0, 0.0, 1.0, 2.0, 5.0])  # of a prior mean, in standard deviations of the rewards
TAUS = np.array([0.0, *np.logspace(-2, 2, 9)])  # in standard deviations of the rewards
SHARES = np.array([0.0, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0])  # of choices at random
COUNTS = ("prior_success", "prior_failure")
PAIRS = (COUNTS, ("prior_mean", "prior_sigma"))  # of settings that make one prior
NEAR = 2.0 ** np.arange(-2, 3)  # factors, where a value is already fitted
SWEEPS = 3  # over a pair, each setting given the other
PRIORS = ("prior_mean", "prior_sigma", "prior_success", "prior_failure", "sigma", "balls")


def refitted_alternatives(replay: Replay) -> Iterator[Alternative]:
    """The declared policy with another value of one setting, or of the two that make its prior."""
    noise = _noise_settings(replay.policy)
    if not {"floor", "epsilon"} & set(noise):
        yield _floor(replay)
    for name in noise:
        if not callable(setting_of(replay.policy, name)):
            cause = Cause.FLOOR if name == "floor" else Cause.NOISE
            yield _refit(replay, cause, name, _noise_values(replay, name))
    numbers = _numbers(replay.policy)
    for name in numbers:
        yield _refit(replay, Cause.PRIOR if name in PRIORS else Cause.SETTING, name, _values(replay, name))
    for pair in PAIRS:
        if set(pair) <= set(numbers):
            yield from _refit_pair(replay, pair)


def _noise_settings(policy: Any) -> tuple[str, ...]:
    """Of the policy and of those that it is wrapped around."""
    inside = _noise_settings(policy.policy) if isinstance(policy, Wrapped) else ()
    return (*complete_policy(policy).noise_settings, *inside)


def _numbers(policy: Any) -> list[str]:
    """The settings of the policy itself that are one number each, other than its noise."""
    inner = innermost(policy)
    if not dataclasses.is_dataclass(inner):
        return []
    values = {field.name: getattr(inner, field.name) for field in dataclasses.fields(inner)}
    noise = complete_policy(inner).noise_settings
    return [name for name, value in values.items() if name not in noise and not isinstance(value, str) and _is_number(value)]


def _is_number(value: Any) -> bool:
    return not callable(value) and np.ndim(value) == 0 and np.issubdtype(np.asarray(value).dtype, np.number)


def _spread(replay: Replay) -> float:
    return float(np.std(np.asarray(replay.history.rewards))) or 1.0


def _noise_values(replay: Replay, name: str) -> np.ndarray:
    if name == "tau":
        return _spread(replay) * TAUS
    return SHARES / replay.num_arms if name == "floor" else SHARES


def _values(replay: Replay, name: str) -> np.ndarray:
    """What is tried first for a setting, as far as it is allowed."""
    inner = innermost(replay.policy)
    now = float(getattr(inner, name))
    tried = now * FACTORS if now > 0 else _spread(replay) * np.concatenate([[0.0], FACTORS])
    if name == "prior_mean":
        tried = float(np.mean(np.asarray(replay.history.rewards))) + _spread(replay) * SPREADS
    [field] = [field for field in dataclasses.fields(inner) if field.name == name]
    allowed = field.metadata.get("allowed")
    tried = np.unique(np.append(tried, now))
    return tried if allowed is None else tried[np.asarray(allowed.test(tried), bool)]


def _refit(replay: Replay, cause: Cause, name: str, values: np.ndarray) -> Alternative:
    """The value of one setting under which the choices are most likely."""
    at = lambda value: replay.under(with_setting(replay.policy, name, value))
    best = _search(lambda value: replay.score(at(value)), values, _rounds(replay))
    return Alternative(cause, {f"policy.{name}": best}, at(best), num_parameters=1)


def _with_settings(policy: Any, values: Mapping[str, float]) -> Any:
    for name, value in values.items():
        policy = with_setting(policy, name, value)
    return policy


def _scale(replay: Replay, values: Mapping[str, float], names: Sequence[str], factors: np.ndarray) -> dict[str, float]:
    """The values, of which some are multiplied by the factor that makes the choices likeliest."""
    scaled = lambda factor: {name: _rounded(factor * value) if name in names else value for name, value in values.items()}
    return scaled(_search(lambda factor: replay.score(replay.under(_with_settings(replay.policy, scaled(factor)))), factors))


def _move(replay: Replay, values: Mapping[str, float], name: str) -> dict[str, float]:
    """The values, of which one is the likeliest given the others."""
    at = lambda value: replay.under(_with_settings(replay.policy, {**values, name: value}))
    return {**values, name: _search(lambda value: replay.score(at(value)), _values(replay, name))}


def _refit_pair(replay: Replay, pair: tuple[str, str]) -> Iterator[Alternative]:
    """Both settings of a prior: both counts by one factor, which is one number, and then in turn."""
    values = {name: float(setting_of(replay.policy, name)) for name in pair}
    if pair == COUNTS:
        values = _scale(replay, values, pair, FACTORS)
        yield _alternative(replay, values, num_parameters=1)
    for _ in range(SWEEPS):
        if pair == COUNTS:  # how strong the prior is, and where
            values = _scale(replay, values, pair[1:], NEAR)
            values = _scale(replay, values, pair, NEAR)
        else:
            values = _scale(replay, values, pair[1:], FACTORS)
            values = _move(replay, values, pair[0])
    yield _alternative(replay, values, num_parameters=2)


def _alternative(replay: Replay, values: Mapping[str, float], num_parameters: int) -> Alternative:
    log_probs = replay.under(_with_settings(replay.policy, values))
    return Alternative(Cause.PRIOR, {f"policy.{name}": value for name, value in values.items()}, log_probs, num_parameters)


def _floor(replay: Replay) -> Alternative:
    """A floor under every probability, which needs no replay."""
    probs = np.exp(replay.log_probs)

    def at(floor: float) -> np.ndarray:
        with np.errstate(divide="ignore"):  # without a floor, what has no chance has none
            return np.log(floor + (1 - replay.num_arms * floor) * probs)

    best = _search(lambda floor: replay.score(at(floor)), SHARES / replay.num_arms, MORE_ROUNDS)
    return Alternative(Cause.FLOOR, {"policy.floor": best}, at(best), num_parameters=1)


def _rounds(replay: Replay) -> int:
    cost = complete_policy(replay.policy).log_prob_cost(replay.num_arms)
    return MORE_ROUNDS if cost <= CHEAP else ROUNDS


def _search(score: Callable[[float], float], values: Sequence[float] | np.ndarray, rounds: int = ROUNDS) -> float:
    """The best of these values, and then of those between it and its neighbours; to a few digits."""
    most = float(max(values))
    scores = {value: score(value) for value in {min(_rounded(value), most) for value in values}}
    for _ in range(rounds):
        tried = sorted(scores)
        place = tried.index(max(scores, key=lambda value: scores[value]))
        low, high = tried[max(place - 1, 0)], tried[min(place + 1, len(tried) - 1)]
        for value in (*np.linspace(low, tried[place], BETWEEN + 2)[1:-1], *np.linspace(tried[place], high, BETWEEN + 2)[1:-1]):
            value = min(_rounded(value), most)
            if value not in scores:
                scores[value] = score(value)
    return float(max(scores, key=lambda value: scores[value]))


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
