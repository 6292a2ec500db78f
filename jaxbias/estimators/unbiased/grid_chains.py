"""Chains for Thompson sampling that looks at every step: an arm's times and rewards are drawn as one.

Each round has, for every arm, a new set of times with one of several orders of its rewards (`retiming.py`), which needs no draws;
then the largest draw of each step, on the nodes of a grid; then exchanges of rewards given these. A draw that every arm is below
but the pulled one says as much about each arm apart, so that each arm's exchange is accepted on its own.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from jaxbias.estimators.unbiased.averaging import Chain, average_rounds
from jaxbias.estimators.unbiased.grid import Grid, log_below, log_density, make_grid
from jaxbias.estimators.unbiased.orders import Order, Question, Setup, statistics_around, steps_of_arms
from jaxbias.estimators.unbiased.reordering import cut, reorder
from jaxbias.estimators.unbiased.retiming import Sequence, Size, largest_draws, retime, rewards_of
from jaxbias.likelihood import statistics_before


class Retiming(NamedTuple):
    """One of every arm, in windows of one over so much of the log, of so many pulls at most, with so many orders compared."""

    share: int
    pulls: int
    orders: int


# With smaller windows the arms that are pulled most often take half as many rounds, which last a third longer.
RETIMINGS = (Retiming(1, 32, 4), Retiming(8, 32, 8), Retiming(16, 32, 8))
SHARES = (1, 4, 16)  # of the log: the windows in which rewards are exchanged
EXCHANGES = 6  # of each width in a round


def run_grid_chains(key: PRNGKeyArray, setup: Setup, question: Question, num_chains: int, num_rounds: int) -> Chain:
    """Chains from the log, each as two halves, and their averages."""
    grid = make_grid(setup.policy, question)
    start = start_of(question)
    density = largest_draws(setup, question, grid, start)
    possible = jnp.all(question.forced | (jnp.sum(density, axis=1) > 0))
    value_of = lambda state: question.opening.T @ rewards_of(question, state)
    run = partial(average_rounds, start=start, move=partial(_move, setup, question, grid), value_of=value_of)
    return jax.vmap(lambda key: run(key, possible=possible, num_rounds=num_rounds))(jax.random.split(key, num_chains))


def start_of(question: Question) -> Sequence:
    """The log itself."""
    pulls = statistics_before(question.arms, question.rewards, len(question.pulls)).pulls
    return Sequence(arms=question.arms, by_arm=question.rewards[steps_of_arms(question, question.arms, pulls)])


def _move(setup: Setup, question: Question, grid: Grid, key: PRNGKeyArray, state: Sequence) -> tuple[Sequence, Array]:
    """One round; also the average share of rewards whose exchange was accepted."""
    times, draws, *rest = jax.random.split(key, 2 + len(SHARES))
    num_steps, num_arms = question.opening.shape
    arms = jnp.arange(num_arms, dtype=state.arms.dtype)
    for key, (share, pulls, orders) in zip(jax.random.split(times, len(RETIMINGS)), RETIMINGS, strict=True):
        size = Size(steps=math.ceil(num_steps / share), pulls=min(pulls, num_steps), orders=orders)
        one = lambda state, now: (retime(now[0], setup, question, grid, state, now[1], size), None)  # noqa: B023
        state, _ = jax.lax.scan(one, state, (jax.random.split(key, num_arms), arms))
    largest = draw_largest(draws, setup, question, grid, state)
    taken = []
    for share, key in zip(SHARES, rest, strict=True):
        move = partial(exchange, setup=setup, question=question, largest=largest, width=math.ceil(num_steps / share))
        state, accepted = jax.lax.scan(lambda state, key: move(key, state=state), state, jax.random.split(key, EXCHANGES))  # noqa: B023
        taken.append(jnp.mean(accepted))
    return state, sum(taken[1:], taken[0]) / len(taken)


def draw_largest(key: PRNGKeyArray, setup: Setup, question: Question, grid: Grid, state: Sequence) -> Float[Array, " steps"]:
    """The largest draw of each step, a node, given the arms and the rewards; at a forced step any."""
    below = jnp.cumsum(largest_draws(setup, question, grid, state), axis=1)
    chance = jax.random.uniform(key, below.shape[:1], below.dtype) * below[:, -1]
    return grid.nodes[jnp.clip(jnp.sum(below <= chance[:, None], axis=1, dtype=jnp.int32), 0, len(grid.nodes) - 1)]


def exchange(
    key: PRNGKeyArray, setup: Setup, question: Question, state: Sequence, largest: Array, width: int
) -> tuple[Sequence, Array]:
    """Rewards of each arm exchanged in each window of this width, accepted arm by arm; also the share that was."""
    where, what, accept = jax.random.split(key, 3)
    num_arms = len(question.pulls)
    rewards = rewards_of(question, state)
    order = Order(arms=state.arms, rewards=rewards, log_probs=rewards[:, None])
    around = statistics_around(question, state.arms, rewards)
    windows = cut(where, len(rewards), width, around)
    proposed = reorder(what, question, order, windows, around, jnp.ones((len(windows.start), num_arms), bool))
    gain = _log_densities(setup, question, state._replace(by_arm=proposed), largest)
    gain = gain - _log_densities(setup, question, state, largest)
    ratio = jax.ops.segment_sum(gain, windows.row, num_segments=len(windows.start))
    accepted = jnp.log(jax.random.uniform(accept, ratio.shape, ratio.dtype)) < ratio
    steps = steps_of_arms(question, state.arms, around.pulls[:-1])
    mine = accepted[windows.row[steps], state.arms[steps]]
    return state._replace(by_arm=jnp.where(mine, proposed, state.by_arm)), jnp.mean(mine.astype(ratio.dtype))


def _log_densities(setup: Setup, question: Question, state: Sequence, largest: Array) -> Float[Array, "steps arms"]:
    """Of each arm: that its draw is the largest one, or that it is below it; 0 where the pull was forced."""
    statistics = statistics_before(state.arms, rewards_of(question, state), len(question.pulls))
    posterior: Any = setup.policy.posterior  # pyright: ignore[reportAttributeAccessIssue]
    location, scale = jax.vmap(posterior)(statistics)
    score = (largest[:, None] - location) / scale
    own = state.arms[:, None] == jnp.arange(location.shape[1], dtype=state.arms.dtype)[None]
    found = jnp.where(own, log_density(score) - jnp.log(scale), log_below(score))
    return jnp.where(question.forced[:, None], 0, found)
