"""Small Bernoulli problems solved exactly: every pull and every success, with its probability.

Where a policy looks only at pulls and sums, these are the states and a forward recursion over them is enough; otherwise all paths
are followed. Nothing is drawn, so this is the truth that simulation is tested against.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from jaxbias._core.door import public
from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import compiled
from jaxbias.policies import ArmStatistics, Policy, check_policy
from jaxbias.rewards import Bernoulli, check_family

MOST_STATES = 4_000_000  # above this the recursion needs more than a few gigabytes


class ExactDistribution(NamedTuple):
    """All the ways a trial can end, and how likely each is.

    Fields:
        pulls, successes: (states, arms), the ends.
        probability: (..., states), one distribution for each mean vector.
        mean: (..., arms), the mean vectors.
    """

    pulls: Int[np.ndarray, "states arms"]
    successes: Int[np.ndarray, "states arms"]
    probability: Float[np.ndarray, "*means states"]
    mean: Float[np.ndarray, "*means arms"]

    @property
    def bias(self) -> Float[np.ndarray, "*means arms"]:
        """The expected sample mean of each arm, less its mean."""
        return self.probability @ (self.successes / self.pulls) - self.mean

    @property
    def mse(self) -> Float[np.ndarray, "*means arms"]:
        """The expected squared error of each arm's sample mean."""
        sample_mean = self.successes / self.pulls
        second = self.probability @ np.square(sample_mean)
        return second - 2 * self.mean * (self.probability @ sample_mean) + np.square(self.mean)


@public
def exact_bias(policy: Policy, mean: Any, num_steps: int) -> Float[np.ndarray, "*means arms"]:
    """The bias of each arm's sample mean, without simulation, for Bernoulli rewards.

    Arguments:
        policy: any policy; one that keeps more than pulls and sums is followed path by path, for about ten steps.
        mean: (..., arms), one mean vector or a grid of them.
        num_steps: pulls per trial, the first pull of each arm included.

    >>> import jaxbias as jb
    >>> jb.bias.exact_bias(jb.Greedy(ties="first"), [0.5, 0.5], num_steps=3)
    array([-0.0625, -0.0625])
    """
    return exact_distribution(policy, mean, num_steps).bias


@public
def exact_distribution(policy: Policy, mean: Any, num_steps: int) -> ExactDistribution:
    """The distribution of pulls and successes at the end, for Bernoulli rewards; arguments as in `exact_bias`."""
    mean = np.asarray(mean, np.float64)
    if mean.ndim == 0 or mean.shape[-1] == 0:
        raise ArgumentError("mean", mean, "one number for each arm along its last axis", problem=f"has shape {mean.shape}")
    check_family(Bernoulli(), mean)
    policy = check_policy(policy, mean.shape[-1])
    if num_steps < mean.shape[-1]:
        raise ArgumentError("num_steps", num_steps, f"{mean.shape[-1]} or more (every arm is pulled once first)")
    flat = mean.reshape(-1, mean.shape[-1])
    solve = _by_states if policy.keeps_statistics else _by_paths
    ends, probability = solve(policy, flat, num_steps)
    num_arms = flat.shape[1]
    return ExactDistribution(
        pulls=ends[:, :num_arms],
        successes=ends[:, num_arms:],
        probability=probability.T.reshape(*mean.shape[:-1], -1),
        mean=mean,
    )


def _by_states(policy: Policy, mean: np.ndarray, num_steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Forward recursion: level t holds every (pulls, successes) with t pulls in all."""
    num_arms = mean.shape[1]
    level, probability = _opening(mean)
    levels = [level]
    for _ in range(num_arms, num_steps):
        levels.append(np.unique(_successors(levels[-1]).reshape(-1, 2 * num_arms), axis=0))
        _check_size(sum(map(len, levels)), num_steps)
    chances = np.split(_choice_probabilities(policy, np.concatenate(levels)), np.cumsum([len(level) for level in levels])[:-1])
    for level, following, chance in zip(levels[:-1], levels[1:], chances[:-1], strict=True):
        probability = _flow(level, following, chance, probability, mean)
    return levels[-1], probability


def _opening(mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the forced pulls: each arm once, each with 0 or 1."""
    num_arms = mean.shape[1]
    successes = np.stack(np.meshgrid(*[[0, 1]] * num_arms, indexing="ij"), axis=-1).reshape(-1, num_arms)
    chance = np.where(successes[:, None] == 1, mean, 1 - mean).prod(axis=-1)
    return np.concatenate([np.ones_like(successes), successes], axis=1), chance


def _successors(states: np.ndarray) -> np.ndarray:
    """(states, arms, 2, ...): after each arm gave 0 or 1."""
    num_arms = states.shape[1] // 2
    pulled = np.eye(2 * num_arms, dtype=states.dtype)
    change = np.stack([pulled[:num_arms], pulled[:num_arms] + pulled[num_arms:]], axis=1)
    return states[:, None, None] + change


def _flow(level: np.ndarray, following: np.ndarray, chance: np.ndarray, probability: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Moves the probability of one level to the next."""
    base = following.max() + 1
    digits = base ** np.arange(level.shape[1])[::-1]  # the order of np.unique, so that the codes are sorted
    target = np.searchsorted(following @ digits, _successors(level) @ digits)
    result = np.zeros((len(following), len(mean)))
    for arm in range(mean.shape[1]):
        chosen = probability * chance[:, arm, None]
        np.add.at(result, target[:, arm, 0], chosen * (1 - mean[:, arm]))
        np.add.at(result, target[:, arm, 1], chosen * mean[:, arm])
    return result


def _choice_probabilities(policy: Policy, states: np.ndarray) -> np.ndarray:
    num_arms = states.shape[1] // 2
    totals = jnp.asarray(states[:, num_arms:], jnp.result_type(float))
    return np.exp(np.asarray(_log_probs(policy, ArmStatistics(jnp.asarray(states[:, :num_arms], jnp.int32), totals)), np.float64))


@compiled
def _log_probs(policy: Policy, states: Any) -> jax.Array:
    return jax.vmap(policy.log_probs)(states)


def _by_paths(policy: Policy, mean: np.ndarray, num_steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Every sequence of arms and rewards, for a policy that keeps more than pulls and sums."""
    num_arms = mean.shape[1]
    states = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], policy.init(num_arms))
    ends, probability = np.zeros((1, 2 * num_arms), int), np.ones((1, len(mean)))
    for step in range(num_steps):
        arms = [step] if step < num_arms else list(range(num_arms))
        _check_size(len(ends) * len(arms) * 2, num_steps)
        chance = np.ones((len(ends), num_arms)) if len(arms) == 1 else np.exp(np.asarray(_log_probs(policy, states), float))
        moves = [(arm, reward) for arm in arms for reward in (0, 1)]
        after = [_update(policy, states, jnp.int32(arm), jnp.asarray(float(reward))) for arm, reward in moves]
        states = jax.tree.map(lambda *parts: jnp.concatenate(parts), *after)
        weight = [np.abs(1 - reward - mean[:, arm]) * chance[:, arm, None] for arm, reward in moves]
        probability = np.concatenate([probability * part for part in weight])
        ends = np.concatenate([_successors(ends)[:, arm, reward] for arm, reward in moves])
    unique, place = np.unique(ends, axis=0, return_inverse=True)
    merged = np.zeros((len(unique), len(mean)))
    np.add.at(merged, place.ravel(), probability)
    return unique, merged


@compiled
def _update(policy: Policy, states: Any, arm: jax.Array, reward: jax.Array) -> Any:
    return jax.vmap(lambda state: policy.update(state, arm, reward))(states)


def _check_size(states: int, num_steps: int) -> None:
    if states > MOST_STATES:
        raise ArgumentError("num_steps", num_steps, f"smaller: there are more than {MOST_STATES:,} states to follow")
