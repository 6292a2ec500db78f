"""Bernoulli rewards given the arms, exactly: a forward recursion over the numbers of successes.

For a policy that looks at pulls and sums, all that matters of the rewards before a step is how many successes each arm had. At
each step every such state is weighted with the policy's probability of the choice that was made, and then divides into two, by
the reward. The last states are all the possible sums with their probabilities: `Samples` that are not random, with no error.

An arm with few successes needs no states with many: a path that ends with few has few all along, so what is kept is exact.
"""

import math
import operator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxbias._core.lengths import scan_up_to
from jaxbias.estimators.conditional_mle.record import Record
from jaxbias.estimators.conditional_mle.weighted_samples import Samples, make_samples
from jaxbias.policies import ArmStatistics, BasePolicy

# Of the states of one log. A step takes 30 ns a state: 200 steps of so many take a second, where particles take 0.2 seconds.
MOST_STATES = 2**17
TABLE_STATES = 2**19  # of a policy with tables: 5 ns a state
WASTE = 4  # times the states that a log needs, at most, where another's shape saves a compilation
SPREAD, MORE = 8.0, 16  # successes kept beyond those seen, in roots and in number: the rest has a chance of 1e-9 in the interval


def table_sizes(pulls: Int[np.ndarray, "trials arms"], successes: Float[np.ndarray, "trials arms"]) -> np.ndarray:
    """How many numbers of successes to keep for each arm, rounded up to few different ones, as each is compiled for."""
    most = np.minimum(pulls, np.ceil(successes + SPREAD * np.sqrt(successes + 1) + MORE)).astype(int) + 1
    power = 2 ** np.ceil(np.log2(most)).astype(int)
    return np.where(most <= power * 3 // 4, power * 3 // 4, power)


def share_shapes(shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """For each shape one that holds it, itself or another of them with not many times its states: fewer to compile for."""
    kept: list[tuple[int, ...]] = []
    serves: dict[tuple[int, ...], tuple[int, ...]] = {}
    for shape in sorted(set(shapes), key=math.prod, reverse=True):
        larger = [other for other in kept if all(map(operator.ge, other, shape)) and math.prod(other) <= WASTE * math.prod(shape)]
        if not larger:
            kept.append(shape)
        serves[shape] = larger[-1] if larger else shape
    return [serves[shape] for shape in shapes]


class Grid(NamedTuple):
    """The states: every number of successes of every arm.

    Fields:
        shape: how many numbers there are along each axis.
        order: which arm is along each axis; with arms in the order of their sizes, few shapes serve many logs.
    """

    shape: tuple[int, ...]
    order: Int[Array, " arms"]

    def successes(self, dtype: Any) -> Float[Array, "arms states"]:
        """Of each arm in each state, the last axis fastest."""
        by_axis = jnp.asarray(np.indices(self.shape).reshape(len(self.shape), -1), dtype)
        return jnp.zeros_like(by_axis).at[self.order].set(by_axis)

    def strides(self) -> Int[Array, " arms"]:
        """How many states on the next success of each arm is."""
        by_axis = jnp.asarray([math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape))], jnp.int32)
        return jnp.zeros_like(by_axis).at[self.order].set(by_axis)


def count_paths(
    policy: Any, record: Record, mean: Float[Array, " arms"], grid: Grid, nodes: int | None
) -> tuple[Float[Array, " states"], Float[Array, ""]]:
    """The probabilities of all numbers of successes given the arms, at some means; and the log-probability of the arms.

    With `nodes`, by the policy's tables of so many nodes.
    """
    dtype = mean.dtype
    successes, strides = grid.successes(dtype), grid.strides()
    num_arms, states = successes.shape
    tables = None if nodes is None else policy.tables(num_arms, max(grid.shape), nodes, dtype)

    def body(carry: tuple[Array, Array, Any], step: Any) -> tuple[tuple[Array, Array, Any], None]:
        probability, log_normaliser, tables = carry
        arm, choices, pulls = step
        by_table = tables is not None
        log_prob = _table_log_prob(tables, grid, choices) if by_table else _log_prob(policy, pulls, successes, choices)
        log_prob = jnp.where(probability > 0, log_prob, -jnp.inf)
        largest = jnp.max(log_prob)
        probability = probability * jnp.exp(log_prob - largest)
        mass = jnp.sum(probability)
        probability = probability / mass
        padded = jnp.concatenate([jnp.zeros_like(probability), probability])
        before = jax.lax.dynamic_slice(padded, [states - strides[arm]], [states])
        probability = probability * (1 - mean[arm]) + jnp.where(successes[arm] > 0, before, 0) * mean[arm]
        tables = None if tables is None else tables.after(arm, pulls[arm])
        return (probability, log_normaliser + largest + jnp.log(mass), tables), None

    start = jnp.zeros(states, dtype).at[0].set(1)
    steps = (record.arms, record.choice_counts, record.pulls)
    begin = (start, jnp.zeros((), dtype), tables)
    (probability, log_normaliser, _), _ = scan_up_to(body, begin, steps, record.length)
    return probability, log_normaliser


def _log_prob(policy: BasePolicy, pulls: Array, successes: Float[Array, "arms states"], choices: Float[Array, " arms"]) -> Array:
    """Of the choices made at this step, in every state; in a batch nothing is made at most steps, and nothing computed."""
    of_state = lambda total: policy.log_probs(ArmStatistics(pulls, total))

    def made() -> Array:
        log_probs = jax.vmap(of_state, in_axes=1, out_axes=1)(successes)
        return jnp.sum(jnp.where(choices[:, None] > 0, choices[:, None] * log_probs, 0), axis=0)

    return jax.lax.cond(jnp.any(choices > 0), made, lambda: jnp.zeros_like(successes[0]))


def _table_log_prob(tables: Any, grid: Grid, choices: Float[Array, " arms"]) -> Array:
    nothing = jnp.zeros(math.prod(grid.shape), choices.dtype)
    total = nothing
    for arm in range(len(grid.shape)):
        made = lambda arm=arm: choices[arm] * tables.grid_log_prob(arm, grid.shape, grid.order)
        total = total + jax.lax.cond(choices[arm] > 0, made, lambda: nothing)
    return total


def as_samples(probability: Float[Array, " states"], log_normaliser: Array, record: Record, grid: Grid) -> Samples:
    """All the possible sums as samples: one group, as there is no error."""
    log_size = jnp.log(jnp.asarray(probability.shape[0], probability.dtype))
    away = (grid.successes(probability.dtype) - record.total[:, None])[:, :, None]
    return make_samples(away, (jnp.log(probability) + log_size)[:, None], log_normaliser)
