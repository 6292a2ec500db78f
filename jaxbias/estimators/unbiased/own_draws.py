"""Chains for Thompson sampling in batches, under a stopping rule or of long logs: the state also has the draw of each step's arm.

The probability that an arm's draw is the largest is an integral over that draw. Given the draw, in units of its posterior, it is
a product: the others are below it. So a chain over orders and draws together needs no integral, and its orders have the same
distribution. The draws of the log itself are not known: they start from their distribution given the log's arms, on a fine grid.

Each round has exchanges (`exchanges.py`), of the whole log and of its first steps alone, which cost less and decide what the
openings are; reordered rewards, where only their sums are given; new draws; and relocations (`relocations.py`).
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxbias.estimators.unbiased.averaging import Chain, average_rounds
from jaxbias.estimators.unbiased.exchanges import partners_of, windows_of
from jaxbias.estimators.unbiased.orders import IMPOSSIBLE, Question, Setup, statistics_around, steps_of_arms
from jaxbias.estimators.unbiased.relocations import relocation
from jaxbias.estimators.unbiased.reordering import cut, reorder
from jaxbias.likelihood import statistics_before

REACH, NODES = 7.0, 512  # of the grid of a draw in standard units: to 1e-12 of its probability, in steps of a thirtieth
KEPT = (0.0, 0.5, 0.9)  # of a draw, by which a new one is proposed
SMALLEST = 4  # times the arms: the fewest first steps that are exchanged alone


class Part(NamedTuple):
    """Moves among so many of the first steps."""

    share: int  # one over so much of the log
    exchanges: int
    reorderings: int
    renewals: int
    relocations: int


PARTS = (
    Part(1, 4, 2, 1, 8),
    Part(4, 16, 4, 3, 0),
    Part(16, 40, 8, 6, 0),
)  # at T = 1,000 and K = 10 each takes about as long as the others


class Drawn(NamedTuple):
    """The state of a chain: arms, rewards and the own draws of all steps, with the log-probability of each arm given them."""

    arms: Int[Array, " steps"]
    rewards: Float[Array, " steps"]
    draws: Float[Array, " steps"]
    log_prob: Float[Array, " steps"]


def run_drawn_chains(key: PRNGKeyArray, setup: Setup, question: Question, num_chains: int, num_rounds: int) -> Chain:
    """Chains from the log, each as two halves, and their averages."""
    start_key, run_key = jax.random.split(key)
    draws, possible = _start(start_key, setup, question, num_chains)

    def one(key: PRNGKeyArray, draws: Float[Array, " steps"]) -> Chain:
        start = _read(setup, question, question.arms, question.rewards, draws)
        value_of = lambda state: question.opening.T @ state.rewards
        return average_rounds(key, start, partial(_move, setup, question), value_of, possible, num_rounds)

    return jax.vmap(one)(jax.random.split(run_key, num_chains), draws)


def _read(setup: Setup, question: Question, arms: Array, rewards: Array, draws: Array) -> Drawn:
    """With the log-probability of each step's arm given its draw; 0 where it was forced."""
    before = statistics_before(arms, rewards, len(question.pulls))
    seen = before if setup.seen is None else jax.tree.map(lambda leaf: leaf[setup.seen.number], before)
    log_prob = jax.vmap(setup.policy.log_prob_given_own_draw)(seen, arms, draws)
    log_prob = jnp.where(question.forced, 0, jnp.maximum(log_prob, IMPOSSIBLE))
    if setup.stop is not None:
        log_prob = jnp.where(jax.vmap(setup.stop)(before) & question.looks, IMPOSSIBLE, log_prob)
    return Drawn(arms=arms, rewards=rewards, draws=draws, log_prob=log_prob)


def _start(key: PRNGKeyArray, setup: Setup, question: Question, num_chains: int) -> tuple[Float[Array, "chains steps"], Array]:
    """Draws of each chain given the log's arms, and whether the policy can give this log."""
    where, inside = jax.random.split(key)
    width = 2 * REACH / NODES
    nodes = -REACH + width * (jnp.arange(NODES, dtype=question.rewards.dtype) + 0.5)
    at = lambda node: _read(setup, question, question.arms, question.rewards, jnp.full_like(question.rewards, node)).log_prob
    log_density = jax.lax.map(at, nodes) - jnp.square(nodes)[:, None] / 2
    cell = jax.random.categorical(where, log_density, axis=0, shape=(num_chains, log_density.shape[1]))
    off = jax.random.uniform(inside, cell.shape, nodes.dtype) - 0.5
    return nodes[cell] + width * off, jnp.min(jnp.max(log_density, axis=0)) > IMPOSSIBLE / 2


def _move(setup: Setup, question: Question, key: PRNGKeyArray, state: Drawn) -> tuple[Drawn, Array]:
    """One round; also the average share of steps that were accepted."""
    num_steps, taken = state.arms.shape[0], []
    for number, part in enumerate(PARTS):
        length = math.ceil(num_steps / part.share)
        # A batch that the first steps end in would be seen from steps beyond them.
        if part.share > 1 and (setup.seen is not None or length < SMALLEST * len(question.pulls)):
            continue
        own = question if part.share == 1 else _first_steps(question, state, length)
        head = jax.tree.map(lambda leaf: leaf[:length], state)  # noqa: B023
        kinds = (
            (_exchange, part.exchanges),
            (_reorder, part.reorderings if question.sigma is not None else 0),
            (_renew, part.renewals),
            (_relocate, part.relocations),
        )
        for kind, (move, count) in enumerate(kinds):
            if count == 0:
                continue
            keys = jax.random.split(jax.random.fold_in(key, len(kinds) * number + kind), count)
            head, share = jax.lax.scan(lambda head, key: move(key, setup, own, head), head, keys)  # noqa: B023
            taken.append(jnp.mean(share))
        state = jax.tree.map(lambda new, old: jnp.concatenate([new, old[length:]]), head, state)  # noqa: B023
    return state, sum(taken[1:], taken[0]) / len(taken)


def _first_steps(question: Question, state: Drawn, length: int) -> Question:
    """The question of the first steps alone, with what they have pulled."""
    own = state.arms[:length, None] == jnp.arange(len(question.pulls), dtype=state.arms.dtype)[None]
    total = jnp.sum(jnp.where(own, state.rewards[:length, None], 0), axis=0)
    by_step = {
        name: getattr(question, name)[:length] for name in ("arms", "rewards", "forced", "first", "looks", "begins", "opening")
    }
    return question._replace(pulls=jnp.sum(own, axis=0, dtype=question.pulls.dtype), total=total, **by_step)


def _exchange(key: PRNGKeyArray, setup: Setup, question: Question, state: Drawn) -> tuple[Drawn, Array]:
    """One exchange of two steps in each window; a draw goes with its step where that takes its arm along."""
    where, which, accept = jax.random.split(key, 3)
    window, start, end = windows_of(where, question)
    partner = partners_of(which, question, state.arms, state.rewards, (window, start, end))
    arms = state.arms[partner]
    draws = jnp.where(arms == state.arms, state.draws, state.draws[partner])
    return _accept(accept, window, _read(setup, question, arms, state.rewards[partner], draws), state)


def _reorder(key: PRNGKeyArray, setup: Setup, question: Question, state: Drawn) -> tuple[Drawn, Array]:
    """The rewards of one arm turned towards others with the same sum, and those of another arm in another round."""
    which, turn, accept = jax.random.split(key, 3)
    around = statistics_around(question, state.arms, state.rewards)
    windows = cut(key, state.arms.shape[0], state.arms.shape[0], around)
    arm = jax.random.randint(which, (1, 1), 0, len(question.pulls), jnp.int32)
    chosen = arm == jnp.arange(len(question.pulls), dtype=jnp.int32)[None]
    by_arm = reorder(turn, question, state, windows, around, chosen)
    steps = steps_of_arms(question, state.arms, around.pulls[:-1])
    rewards = jnp.zeros_like(state.rewards).at[steps].set(by_arm)
    return _accept(accept, jnp.zeros_like(state.arms), _read(setup, question, state.arms, rewards, state.draws), state)


def _renew(key: PRNGKeyArray, setup: Setup, question: Question, state: Drawn) -> tuple[Drawn, Array]:
    """A new draw at each step, from the old one and a new Normal variable."""
    how, new, accept = jax.random.split(key, 3)
    kept = jax.random.choice(how, jnp.asarray(KEPT, state.draws.dtype))
    draws = kept * state.draws + jnp.sqrt(1 - jnp.square(kept)) * jax.random.normal(new, state.draws.shape, state.draws.dtype)
    steps = jnp.arange(state.arms.shape[0])
    return _accept(accept, steps, _read(setup, question, state.arms, state.rewards, draws), state)


def _relocate(key: PRNGKeyArray, setup: Setup, question: Question, state: Drawn) -> tuple[Drawn, Array]:
    """One pull of one arm at another time, with another first reward (`relocations.py`)."""
    propose, accept = jax.random.split(key)
    arms, rewards, draws, gain, possible = relocation(propose, setup, question, state)
    proposed = _read(setup, question, arms, rewards, draws)
    ratio = jnp.sum(proposed.log_prob - state.log_prob) + gain
    accepted = possible & (jnp.log(jax.random.uniform(accept, (), ratio.dtype)) < ratio)
    return jax.tree.map(lambda new, old: jnp.where(accepted, new, old), proposed, state), accepted.astype(ratio.dtype)


def _accept(key: PRNGKeyArray, window: Int[Array, " steps"], proposed: Drawn, state: Drawn) -> tuple[Drawn, Array]:
    """Each window by the ratio of its probabilities; also the share of steps in windows that were accepted."""
    number = window.shape[0] + 1
    ratio = jax.ops.segment_sum(proposed.log_prob - state.log_prob, window, num_segments=number)
    accepted: Bool[Array, " steps"] = (jnp.log(jax.random.uniform(key, ratio.shape, ratio.dtype)) < ratio)[window]
    taken = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), proposed, state)
    return taken, jnp.mean(accepted.astype(ratio.dtype))
