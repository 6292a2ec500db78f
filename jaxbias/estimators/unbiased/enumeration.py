"""All orders of a log's rewards and arms, with their probabilities: exact, where they are few."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxbias._core.arrivals import Arrivals
from jaxbias._core.jit import compiled
from jaxbias.likelihood import over_steps, selection_log_probs, statistics_before
from jaxbias.policies import ArmStatistics, complete_policy

ORDERS_AT_ONCE = 1024  # replayed together; one size, so that they are compiled once

Starts = Int[np.ndarray, " steps"] | None  # the first step of the batch of each step


def count_orders(arms: np.ndarray, rewards: np.ndarray, forced: np.ndarray) -> int:
    """How many different orders of arms and rewards have the same forced pulls, pulls of each arm, and rewards of each arm."""
    number = _arrangements(np.unique(arms[~forced], return_counts=True)[1])
    for arm in np.unique(arms):
        number *= _arrangements(np.unique(rewards[arms == arm], return_counts=True)[1])
    return number


def _arrangements(counts: np.ndarray) -> int:
    """Of things of which so many are alike."""
    number = math.factorial(int(counts.sum()))
    for count in counts.tolist():
        number //= math.factorial(count)
    return number


def all_orders(arms: np.ndarray, rewards: np.ndarray, forced: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Arms and rewards of every order, (orders, steps) each: step by step, each arm and reward that are left."""
    kinds = np.array(sorted(set(zip(arms.tolist(), rewards.tolist(), strict=True))))  # an arm and one of its rewards
    of_kind = kinds[:, 0].astype(int)
    left = np.array([[np.sum((arms == arm) & (rewards == reward)) for arm, reward in kinds]])
    # Pulls left to the policy's choice: a forced pull must find its arm's rewards still there.
    free = np.array([[np.sum((arms == arm) & ~forced) for arm in range(int(of_kind.max()) + 1)]])
    chosen = np.zeros((1, 0), int)
    for step in range(len(arms)):
        possible = left > 0
        possible &= (of_kind == arms[step])[None] if forced[step] else free[:, of_kind] > 0
        parents, kind = np.nonzero(possible)
        chosen = np.concatenate([chosen[parents], kind[:, None]], axis=1)
        left, free = left[parents], free[parents]
        left[np.arange(len(kind)), kind] -= 1
        if not forced[step]:
            free[np.arange(len(kind)), of_kind[kind]] -= 1
    return of_kind[chosen], kinds[chosen, 1]


def log_weights(
    policy: Any, stop: Any, arms: np.ndarray, rewards: np.ndarray, forced: np.ndarray, num_arms: int, seen: Starts, dtype: Any
) -> Float[np.ndarray, " orders"]:
    """The log-probability of each order's choices, with the forced steps of each; minus infinity for one that would have stopped
    early."""
    if complete_policy(policy).keeps_statistics and stop is None:
        return _by_states(policy, arms, rewards, forced, num_arms, seen, dtype)
    batch = None if seen is None else tuple(seen.tolist())
    found = []
    for start in range(0, len(arms), ORDERS_AT_ONCE):
        part = [values[start : start + ORDERS_AT_ONCE] for values in (arms, rewards, forced)]
        padded = [np.resize(values, (ORDERS_AT_ONCE, values.shape[1])) for values in part]
        some = (jnp.asarray(padded[0], jnp.int32), jnp.asarray(padded[1], dtype), jnp.asarray(padded[2]))
        found.append(np.asarray(_replay(policy, stop, *some, num_arms, batch))[: len(part[0])])
    return np.concatenate(found).astype(np.float64)


def _by_states(
    policy: Any, arms: np.ndarray, rewards: np.ndarray, forced: np.ndarray, num_arms: int, seen: Starts, dtype: Any
) -> Float[np.ndarray, " orders"]:
    """Of a policy that looks at pulls and sums only: each of these is evaluated once, however many orders pass through it."""
    chosen = arms[..., None] == np.arange(num_arms)
    before = [np.cumsum(values, axis=1) - values for values in (chosen.astype(int), np.where(chosen, rewards[..., None], 0.0))]
    steps = np.arange(arms.shape[1]) if seen is None else seen
    states, place = np.unique(np.concatenate(before, axis=-1)[:, steps][~forced], axis=0, return_inverse=True)
    if len(states) == 0:
        return np.zeros(len(arms))
    found = []
    for start in range(0, len(states), ORDERS_AT_ONCE):
        part = states[start : start + ORDERS_AT_ONCE]
        padded = np.resize(part, (ORDERS_AT_ONCE, part.shape[1]))
        some = ArmStatistics(pulls=jnp.asarray(padded[:, :num_arms], jnp.int32), total=jnp.asarray(padded[:, num_arms:], dtype))
        found.append(np.asarray(_log_probs(policy, some), np.float64)[: len(part)])
    log_probs = np.zeros(arms.shape)
    log_probs[~forced] = np.concatenate(found)[place.ravel(), arms[~forced]]
    return log_probs.sum(axis=1)


@compiled
def _log_probs(policy: Any, states: ArmStatistics) -> Array:
    return over_steps(policy.log_probs, states)


@partial(compiled, static=("num_arms", "seen"))
def _replay(policy: Any, stop: Any, arms: Array, rewards: Array, forced: Array, num_arms: int, seen: Any) -> Array:
    def one(arms: Int[Array, " steps"], rewards: Float[Array, " steps"], forced: Bool[Array, " steps"]) -> Float[Array, ""]:
        before = None if seen is None else np.asarray(seen)
        seen_before = None if before is None else Arrivals(before)
        total = jnp.sum(selection_log_probs(policy, arms, rewards, forced, num_arms, seen_before))
        if stop is None:
            return total
        stops = jax.vmap(stop)(statistics_before(arms, rewards, num_arms))
        return jnp.where(jnp.any(stops & rule_looks(forced, before)), -jnp.inf, total)

    return jax.vmap(one)(arms, rewards, forced)


def rule_looks(forced: Bool[Array, " steps"], seen: Starts) -> Bool[Array, " steps"]:
    """Before which steps a stopping rule looks: from the first choice of the policy on, and with batches where one begins."""
    looks = jnp.cumsum(~forced) > 0
    return looks if seen is None else looks & jnp.asarray(seen == np.arange(len(seen)))


def average_over_orders(
    weights: Float[np.ndarray, " orders"], openings: Float[np.ndarray, "orders arms"]
) -> tuple[Float[np.ndarray, " arms"], Float[np.ndarray, " arms"]]:
    """The mean of each arm's opening rewards over the orders, and their variance; NaN where the policy can give none."""
    if weights.max() == -np.inf:
        return np.full(openings.shape[1], np.nan), np.full(openings.shape[1], np.nan)
    shares = np.exp(weights - weights.max())
    shares /= shares.sum()
    mean = shares @ openings
    return mean, shares @ np.square(openings - mean)
