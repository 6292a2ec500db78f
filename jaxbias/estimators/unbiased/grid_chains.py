"""Chains for Thompson sampling, step by step and without a stopping rule: an arm's times and rewards are drawn as one.

Each round has, for every arm, a new set of times with one of several orders of its rewards (`retiming.py`), which needs no draws;
then the largest draw of each step, on the nodes of a grid; then exchanges of rewards given these. A draw that every arm is below
but the pulled one says as much about each arm apart, so that each arm's exchange is accepted on its own.
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from jaxbias.estimators.unbiased.averaging import Chain, average_rounds
from jaxbias.estimators.unbiased.grid import Grid, make_grid
from jaxbias.estimators.unbiased.orders import Order, Question, Setup, statistics_around, steps_of_arms
from jaxbias.estimators.unbiased.reordering import cut, reorder
from jaxbias.estimators.unbiased.retiming import Sequence, Size, Window, largest_draws, retime, rewards_of
from jaxbias.likelihood import statistics_before

PULLS, ORDERS = 32, 4  # retimed at once at most, and compared
SHARES = (1, 4, 16)  # of the log: the windows in which rewards are exchanged
EXCHANGES = 8  # of each width in a round


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
    size = Size(steps=num_steps, pulls=min(PULLS, num_steps), orders=ORDERS)

    def one(state: Sequence, now: Any) -> tuple[Sequence, None]:
        key, arm = now
        return retime(key, setup, question, grid, state, arm, size), None

    state, _ = jax.lax.scan(one, state, (jax.random.split(times, num_arms), jnp.arange(num_arms, dtype=state.arms.dtype)))
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
    return grid.nodes[jnp.clip(jnp.sum(below <= chance[:, None], axis=1), 0, len(grid.nodes) - 1)]


def exchange(
    key: PRNGKeyArray, setup: Setup, question: Question, state: Sequence, largest: Array, width: int
) -> tuple[Sequence, Array]:
    """Rewards of each arm exchanged in each window of this width, accepted arm by arm; also the share that was."""
    where, what, accept = jax.random.split(key, 3)
    num_arms = len(question.pulls)
    pulls = statistics_before(state.arms, state.by_arm, num_arms).pulls
    rewards = rewards_of(question, state)
    order = Order(arms=state.arms, rewards=rewards, log_probs=rewards[:, None])
    windows = cut(where, len(rewards), width, statistics_around(question, state.arms, rewards))
    every = jnp.ones((len(windows.start), num_arms), bool)
    proposed = reorder(what, question, order, windows, statistics_around(question, state.arms, rewards), every)
    gain = _log_densities(setup, question, state._replace(by_arm=proposed), largest)
    gain = gain - _log_densities(setup, question, state, largest)
    ratio = jax.ops.segment_sum(gain, windows.row, num_segments=len(windows.start))
    accepted = jnp.log(jax.random.uniform(accept, ratio.shape, ratio.dtype)) < ratio
    steps = steps_of_arms(question, state.arms, pulls)
    mine = accepted[windows.row[steps], state.arms[steps]]
    return state._replace(by_arm=jnp.where(mine, proposed, state.by_arm)), jnp.mean(mine.astype(ratio.dtype))


def _log_densities(setup: Setup, question: Question, state: Sequence, largest: Array) -> Float[Array, "steps arms"]:
    """Of each arm: that its draw is the largest one, or that it is below it; 0 where the pull was forced."""
    statistics = statistics_before(state.arms, rewards_of(question, state), len(question.pulls))
    location, scale = jax.vmap(setup.policy.posterior)(statistics)  # pyright: ignore[reportAttributeAccessIssue]
    scale = jnp.broadcast_to(scale, location.shape)
    at = jax.vmap(lambda node, location, scale: (_at(node).log_below(location, scale), _at(node).log_density(location, scale)))
    below, density = at(largest, location, scale)
    own = state.arms[:, None] == jnp.arange(location.shape[1], dtype=state.arms.dtype)[None]
    return jnp.where(question.forced[:, None], 0, jnp.where(own, density[..., 0], below[..., 0]))


def _at(node: Array) -> Grid:
    return Grid(nodes=node[None], width=jnp.ones_like(node))
