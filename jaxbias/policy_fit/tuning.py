"""The noise of a policy, estimated from the log it left: the `tau`, `epsilon` or `floor` that makes its choices most likely."""

from collections.abc import Sequence
from functools import partial
from statistics import NormalDist
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxbias._core.door import public
from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import compiled
from jaxbias.estimators.checks import check_level
from jaxbias.history import History, check_history
from jaxbias.likelihood import selection_log_probs
from jaxbias.policies import Policy, check_policy, complete_policy, policy_name
from jaxbias.policies.wrappers import Wrapped
from jaxbias.policy_fit.inside import setting_of, with_setting

POINTS = 25  # values tried at once: in the first round four for each factor of ten of tau
ROUNDS = 5  # each narrows the range twelvefold: the last to a millionth of it
ROUNDING = 1e-5  # of a total of log-probabilities in float32
DECADES = 3.0  # tau is looked for from a thousandth to a thousand times the spread of the rewards, and at 0
ENDS_ROUNDS = 3  # of the search for an end of the interval: to a ten-thousandth of its length


class Fitted(NamedTuple):
    """A setting with its interval, from the likelihood ratio; an end that the log does not limit is the end of the range."""

    value: float
    lower: float
    upper: float


class Tuning(NamedTuple):
    """A policy with its fitted settings, and the total log-probability of the choices under it."""

    policy: Any
    fitted: dict[str, Fitted]
    log_prob: float


@public
def fit_settings(history: History, policy: Policy, names: Sequence[str] = ("tau",), *, level: float = 0.95) -> Tuning:
    """The noise under which the choices of a log are most likely; its other settings stay as they are.

    Arguments:
        history: one log.
        policy: how the arms were chosen, but for the settings that are to be found.
        names: "tau", or "epsilon" of `EpsilonGreedy`, or both; "floor" of `Floored`.
        level: of the intervals, which are of the likelihood ratio.

    Returns:
        A `Tuning`. A `tau` of 0 says that every choice was the best by the policy's own index; the largest that is tried, a
        thousand times the spread of the rewards, that the choices have nothing to do with it.

    >>> import jax, jaxbias as jb
    >>> history = jb.simulate(jax.random.key(0), jb.Greedy(tau=0.5), jb.Normal(), [1.0, 0.0], num_steps=2000)
    >>> found = jb.policy_fit.fit_settings(history, jb.Greedy(), ["tau"]).fitted["tau"]
    >>> bool(found.lower < 0.5 < found.upper)
    True
    """
    check_level(level)
    check_policy(policy, history.num_arms)
    history = check_history(history, two_rewards=True)
    if history.arms.ndim != 1:
        raise ArgumentError("history", history, "one log", problem=f"has arms of shape {history.arms.shape}")
    ranges = {name: _range(history, policy, name) for name in names}
    drop = 0.5 * NormalDist().inv_cdf((1 + level) / 2) ** 2
    best, log_prob = _best(history, policy, ranges)
    fitted = {name: _interval(history, best, name, ranges, log_prob - drop) for name in names}
    return Tuning(policy=best, fitted=fitted, log_prob=log_prob)


def _range(history: History, policy: Any, name: str) -> np.ndarray:
    """The values that are tried first."""
    known = _noise_settings(policy)
    if name == "epsilon" and name in known:
        return np.linspace(0.0, 1.0, POINTS)
    if name == "floor" and name in known:
        return np.linspace(0.0, 1.0 / history.num_arms, POINTS)
    if name == "tau" and name in known and not callable(setting_of(policy, "tau")):
        spread = float(np.std(np.asarray(history.rewards))) or 1.0
        return np.concatenate([[0.0], spread * np.logspace(-DECADES, DECADES, POINTS - 1)])
    allowed = " or ".join(map(repr, known)) or "empty"
    raise ArgumentError("names", name, f"{allowed} for {policy_name(policy)}, and a number", problem=f"has {name!r}")


def _noise_settings(policy: Any) -> tuple[str, ...]:
    """Of the policy and of those that it is wrapped around."""
    inside = _noise_settings(policy.policy) if isinstance(policy, Wrapped) else ()
    return (*complete_policy(policy).noise_settings, *inside)


def _totals(history: History, policy: Any, name: str, values: np.ndarray) -> np.ndarray:
    """Total log-probability of the choices at each of the values of one setting."""
    others = with_setting(policy, name, float(values[0]))  # its place is taken by each of the values
    return np.asarray(_log_probs_at(history, others, jnp.asarray(values, jnp.result_type(float)), name=name), np.float64)


@partial(compiled, static=("name",))
def _log_probs_at(history: History, policy: Any, values: Float[Array, " values"], name: str) -> Float[Array, " values"]:
    def total(value: Array) -> Array:
        here = with_setting(policy, name, value)
        steps = (history.arms, history.learned_from, history.forced_steps, history.num_arms, history.seen_steps)
        chosen = selection_log_probs(here, *steps)
        return jnp.sum(jnp.minimum(chosen, 0))  # with little noise, rounding alone would make some of them positive

    return jax.lax.map(total, values)


def _profile(
    history: History, policy: Any, name: str, values: np.ndarray, others: dict[str, np.ndarray]
) -> tuple[np.ndarray, list[Any]]:
    """At each value of one setting, with the others at their best there: the total, and the policy."""
    policies = [with_setting(policy, name, float(value)) for value in values]
    if not others:
        return _totals(history, policy, name, values), policies
    found = [_best(history, here, others) for here in policies]
    return np.array([total for _, total in found]), [best for best, _ in found]


def _best(history: History, policy: Any, ranges: dict[str, np.ndarray]) -> tuple[Any, float]:
    """The best of all settings: the likelihood has one top in each, so the search narrows around the best value."""
    (name, tried), *rest = ranges.items()
    for _ in range(ROUNDS):
        totals, policies = _profile(history, policy, name, tried, dict(rest))
        place = int(np.argmax(np.where(np.isnan(totals), -np.inf, totals)))
        if tried[0] == 0 and totals[0] >= totals[place] - ROUNDING:
            place = 0  # as likely without noise as with a little: none
        tried = np.linspace(tried[max(place - 1, 0)], tried[min(place + 1, len(tried) - 1)], POINTS)
    return policies[place], float(totals[place])


def _interval(history: History, policy: Any, name: str, ranges: dict[str, np.ndarray], lowest: float) -> Fitted:
    """Where the likelihood, with the other settings at their best, falls to `lowest`."""
    value, tried = float(setting_of(policy, name)), ranges[name]
    others = {other: values for other, values in ranges.items() if other != name}

    def end(places: np.ndarray) -> float:
        """From the value outwards: the last place that is still inside."""
        for _ in range(ENDS_ROUNDS):
            outside = np.flatnonzero(~(_profile(history, policy, name, places, others)[0] >= lowest))
            if not len(outside):
                return float(places[-1])
            places = np.linspace(places[max(outside[0] - 1, 0)], places[outside[0]], POINTS)
        return float(places[0])

    below, above = tried[tried < value][::-1], tried[tried > value]
    return Fitted(value=value, lower=end(np.append(value, below)), upper=end(np.append(value, above)))
