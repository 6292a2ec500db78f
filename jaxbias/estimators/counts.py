"""Bernoulli rewards given the arms, exactly: a forward recursion over the numbers of successes.

For a policy that looks at pulls and sums, all that matters of the rewards before a step is how many successes each arm had. At
each step every such state is weighted with the policy's probability of the choice that was made, and then divides into two, by
the reward. The last states are all the possible sums with their probabilities: `Draws` that are not drawn, with no error.

An arm with few successes needs no states with many: a path that ends with few has few all along, so what is kept is exact.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxbias.estimators.draws import Draws, make_draws
from jaxbias.estimators.natural import Edges, Record, bisect
from jaxbias.policies import ArmStatistics, Policy

# Of the states of one log. A step takes 30 ns a state: 200 steps of so many take a second, where particles take 0.2 seconds.
MOST_STATES = 2**17
TABLE_STATES = 2**19  # of a policy with tables: 5 ns a state
SPREAD, MORE = 8.0, 16  # successes kept beyond those seen, in roots and in number: the rest has a chance of 1e-9 in the interval
FARTHEST = 40.0  # of a natural parameter from 0: a mean of 1e-17


def table_sizes(pulls: Int[np.ndarray, "trials arms"], successes: Float[np.ndarray, "trials arms"]) -> np.ndarray:
    """How many numbers of successes to keep for each arm, rounded up to few different ones, as each is compiled for."""
    most = np.minimum(pulls, np.ceil(successes + SPREAD * np.sqrt(successes + 1) + MORE)).astype(int) + 1
    power = 2 ** np.ceil(np.log2(most)).astype(int)
    return np.where(most <= power * 3 // 4, power * 3 // 4, power)


def count_paths(
    policy: Any, record: Record, mean: Float[Array, " arms"], shape: tuple[int, ...], nodes: int | None
) -> tuple[Float[Array, " states"], Float[Array, ""]]:
    """The probabilities of all numbers of successes given the arms, at some means; and the log-probability of the arms."""
    dtype = mean.dtype
    successes = jnp.asarray(np.indices(shape).reshape(len(shape), -1), dtype)
    strides = jnp.asarray([int(np.prod(shape[arm + 1 :])) for arm in range(len(shape))], jnp.int32)
    states = successes.shape[1]
    tables = None if nodes is None else policy.tables(len(shape), max(shape), nodes, dtype)

    def body(carry: tuple[Array, Array, Any], step: Any) -> tuple[tuple[Array, Array, Any], None]:
        probability, log_normaliser, tables = carry
        arm, choices, pulls = step
        if tables is None:
            log_prob = _log_prob(policy, pulls, successes, choices)
        else:
            log_prob = _table_log_prob(tables, shape, choices)
        log_prob = jnp.where(probability > 0, log_prob, -jnp.inf)
        largest = jnp.max(log_prob)
        probability = probability * jnp.exp(log_prob - largest)
        mass = jnp.sum(probability)
        probability = probability / mass
        before = jax.lax.dynamic_slice(jnp.concatenate([jnp.zeros_like(probability), probability]), [states - strides[arm]], [states])
        probability = probability * (1 - mean[arm]) + jnp.where(successes[arm] > 0, before, 0) * mean[arm]
        tables = None if tables is None else tables.after(arm, pulls[arm])
        return (probability, log_normaliser + largest + jnp.log(mass), tables), None

    start = jnp.zeros(states, dtype).at[0].set(1)
    steps = (record.arms, record.choices, record.pulls)
    (probability, log_normaliser, _), _ = jax.lax.scan(body, (start, jnp.zeros((), dtype), tables), steps)
    return probability, log_normaliser


def _log_prob(policy: Policy, pulls: Array, successes: Float[Array, "arms states"], choices: Float[Array, " arms"]) -> Array:
    of_state = lambda total: policy.log_probs(ArmStatistics(pulls, total))
    log_probs = jax.vmap(of_state, in_axes=1, out_axes=1)(successes)
    return jnp.sum(jnp.where(choices[:, None] > 0, choices[:, None] * log_probs, 0), axis=0)


def _table_log_prob(tables: Any, shape: tuple[int, ...], choices: Float[Array, " arms"]) -> Array:
    total = jnp.zeros(int(np.prod(shape)), choices.dtype)
    for arm in range(len(shape)):
        made = lambda arm=arm: choices[arm] * tables.grid_log_prob(arm, shape)
        total = total + jax.lax.cond(choices[arm] > 0, made, lambda: jnp.zeros_like(total))
    return total


def as_draws(probability: Float[Array, " states"], log_normaliser: Array, record: Record, shape: tuple[int, ...]) -> Draws:
    """All the possible sums as draws: one group, as there is no error."""
    successes = jnp.asarray(np.indices(shape).reshape(len(shape), -1), probability.dtype)
    log_size = jnp.log(jnp.asarray(probability.shape[0], probability.dtype))
    away = (successes - record.total[:, None])[:, :, None]
    return make_draws(away, (jnp.log(probability) + log_size)[:, None], log_normaliser)


def exact_interval(
    probability: Float[Array, " states"],
    record: Record,
    mean: Float[Array, " arms"],
    edges: Edges,
    shape: tuple[int, ...],
    level: Array,
) -> Float[Array, "arms 2"]:
    """For each arm the means between which its successes are not extreme, given the arms and the others' successes.

    Given those, the distribution of an arm's successes depends on its own mean alone, so that nothing has to be estimated. An
    end is where the chance of more extreme successes, with half of that of the observed ones, is half of what the level leaves.
    """
    table, seen = probability.reshape(shape), record.total.astype(jnp.int32)
    ends = []
    for arm, size in enumerate(shape):
        start = [jnp.zeros((), jnp.int32) if other == arm else seen[other] for other in range(len(shape))]
        line = jax.lax.dynamic_slice(table, start, [size if other == arm else 1 for other in range(len(shape))]).ravel()
        away = jnp.arange(size, dtype=jnp.int32) - seen[arm]
        reference = jnp.log(mean[arm]) - jnp.log1p(-mean[arm])

        def above(natural: Array, line: Array = line, away: Array = away, reference: Array = reference) -> Array:
            share = jax.nn.softmax(jnp.log(line) + (natural - reference) * away.astype(line.dtype))
            return jnp.sum(jnp.where(away > 0, share, 0)) + jnp.sum(jnp.where(away == 0, share, 0)) / 2

        sides = [bisect(above, goal, *_brackets(mean.dtype)) for goal in ((1 - level) / 2, (1 + level) / 2)]
        ends.append(jax.nn.sigmoid(jnp.stack(sides)))
    ends = jnp.stack(ends)
    return jnp.stack([jnp.where(edges.low, 0, ends[:, 0]), jnp.where(edges.high, 1, ends[:, 1])], axis=1)


def _brackets(dtype: Any) -> tuple[Array, Array]:
    return jnp.full((), -FARTHEST, dtype), jnp.full((), FARTHEST, dtype)
