"""A Markov chain over the orders of one log's rewards and arms, which starts at the log itself.

The state is an order of the steps, each an arm with its reward; its probability is proportional to the product of the policy's
probabilities. The log is a draw from this distribution, so the chain is stationary from its first state on, and its averages are
unbiased however short it is. Each round has some exchanges of steps (`exchanges.py`) and simulates windows of several widths
again (`resimulation.py`).
"""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from jaxbias.estimators.unbiased.averaging import Chain, average_rounds
from jaxbias.estimators.unbiased.exchanges import exchange
from jaxbias.estimators.unbiased.orders import IMPOSSIBLE, Order, Question, Setup, chosen_log_probs, read_log
from jaxbias.estimators.unbiased.resimulation import couple, insert

NARROWER = 8  # windows of all steps, and windows of an eighth
FEWEST_STEPS = 64  # of a log that has windows of both widths


class Moves(NamedTuple):
    """How many of each kind are in a round. Measured at T = 1,000 and K = 10."""

    exchanges: int
    insertions: int
    couplings: int
    inserts_narrowly: bool = False  # in windows of an eighth, where a log has them

    @property
    def evaluations(self) -> int:
        """How often a round evaluates every choice; couplings are in windows of two widths."""
        return self.exchanges + self.insertions + 2 * self.couplings


WITH_NOISE = Moves(exchanges=4, insertions=6, couplings=1)
WITHOUT_NOISE = Moves(exchanges=0, insertions=0, couplings=4)  # its choices leave only the last
# Thompson sampling: of insertions into the whole log 7% were accepted, into an eighth of it 72% (T = 300, K = 5).
COSTLY = Moves(exchanges=1, insertions=2, couplings=0, inserts_narrowly=True)


def run_chain(key: PRNGKeyArray, setup: Setup, question: Question, num_rounds: int, moves: Moves) -> Chain:
    """One chain from the log, as two halves, and its averages."""
    start = read_log(setup, question)
    value_of = lambda order: question.opening.T @ order.rewards
    possible = jnp.min(chosen_log_probs(question, start)) > IMPOSSIBLE  # a chain never leaves what is possible
    move = lambda key, order: _move(key, setup, question, order, moves)
    return average_rounds(key, start, move, value_of, possible, num_rounds)


def _move(key: PRNGKeyArray, setup: Setup, question: Question, order: Order, moves: Moves) -> tuple[Order, Array]:
    """One round; also the average share of steps in windows that were simulated again and accepted."""
    num_steps, taken = order.arms.shape[0], []
    narrow = setup.policy.keeps_statistics and setup.seen is None and num_steps >= FEWEST_STEPS
    eighth = math.ceil(num_steps / NARROWER)
    inserting = partial(insert, width=eighth if narrow and moves.inserts_narrowly else num_steps)
    kinds: list[Any] = [(exchange, moves.exchanges), (inserting, moves.insertions)]
    kinds.append((partial(couple, width=num_steps), moves.couplings))
    if narrow:
        kinds.append((partial(couple, width=eighth), moves.couplings))
    for number, (kind, count) in enumerate(kinds):
        if count > 0:
            keys = jax.random.split(jax.random.fold_in(key, number), count)
            order, share = jax.lax.scan(lambda order, key: kind(key, setup, question, order), order, keys)  # noqa: B023
            taken.append(jnp.mean(share))
    return order, sum(taken[1:], taken[0]) / len(taken)
