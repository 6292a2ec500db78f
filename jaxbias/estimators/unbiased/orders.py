"""One order of a log's arms and rewards, its probability, and the windows of steps within which a chain changes it.

Whatever is permuted inside a window, the pulls and sums after it stay the same, and with them the probabilities of all steps
outside. So each of the windows that a log is cut into is changed, and accepted or not, on its own.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxbias.likelihood import allow_rounding, choice_log_probs, statistics_before
from jaxbias.policies import ArmStatistics, BasePolicy

IMPOSSIBLE = -1e30  # in place of minus infinity, so that sums and differences stay numbers


class Question(NamedTuple):
    """One log.

    Fields:
        pulls, total: of each arm, at the end.
        arms, rewards: of each step.
        forced, first: of each step: whether it was forced, and whether the policy looked before it (in a batch, at its first).
        looks: whether the stopping rule looked before the step.
        begins: the step at which the batch of each step begins; the step itself where there are none.
        opening: (steps, arms), the weight of each step's reward in the average of the arm's opening.
        sigma: of each arm, for Normal rewards given their sums; None for rewards given their sets.
    """

    pulls: Int[Array, " arms"]
    total: Float[Array, " arms"]
    arms: Int[Array, " steps"]
    rewards: Float[Array, " steps"]
    forced: Bool[Array, " steps"]
    first: Bool[Array, " steps"]
    looks: Bool[Array, " steps"]
    begins: Int[Array, " steps"]
    opening: Float[Array, "steps arms"]
    sigma: Float[Array, " arms"] | None

    @property
    def offset(self) -> Int[Array, " arms"]:
        """Where an arm's rewards begin in an array of all, arm after arm."""
        return jnp.cumsum(self.pulls) - self.pulls


class Order(NamedTuple):
    """The state of a chain: arms, rewards and the policy's log-probabilities of all steps."""

    arms: Int[Array, " steps"]
    rewards: Float[Array, " steps"]
    log_probs: Float[Array, "steps arms"]


class Setup(NamedTuple):
    """What is the same for every log: the policy, the rule that may stop it, and the batches."""

    policy: BasePolicy
    stop: Any
    seen: Any


def read_order(setup: Setup, question: Question, arms: Array, rewards: Array) -> Order:
    """The order with the policy's log-probabilities, those of a trial that would have stopped being impossible."""
    log_probs = choice_log_probs(setup.policy, arms, rewards, question.pulls.shape[0], setup.seen)
    if setup.stop is not None:
        stops = jax.vmap(setup.stop)(statistics_before(arms, rewards, question.pulls.shape[0])) & question.looks
        log_probs = jnp.where(stops[:, None], -jnp.inf, log_probs)
    return Order(arms=arms, rewards=rewards, log_probs=log_probs)


def read_log(setup: Setup, question: Question) -> Order:
    """The log itself as an order. A choice that only rounding makes impossible has the probability it has without."""
    order = read_order(setup, question, question.arms, question.rewards)
    log_probs = allow_rounding(setup.policy, order.arms, order.rewards, order.log_probs, setup.seen)
    return order._replace(log_probs=log_probs)


def chosen_log_probs(question: Question, order: Order) -> Float[Array, " steps"]:
    """Of the arm of each step; 0 where it was forced."""
    chosen = jnp.take_along_axis(order.log_probs, order.arms[:, None], axis=1)[:, 0]
    stopped = jnp.isneginf(jnp.max(order.log_probs, axis=1))
    return jnp.where(question.forced & ~stopped, 0, jnp.maximum(chosen, IMPOSSIBLE))


def statistics_around(question: Question, arms: Int[Array, " steps"], rewards: Float[Array, " steps"]) -> ArmStatistics:
    """Pulls and sums before each step and after the last, (steps + 1, arms)."""
    before = statistics_before(arms, rewards, question.pulls.shape[0])
    pulls = jnp.concatenate([before.pulls, question.pulls[None]])
    return ArmStatistics(pulls=pulls, total=jnp.concatenate([before.total, question.total[None].astype(before.total.dtype)]))


def steps_of_arms(question: Question, arms: Int[Array, " steps"], pulls: Int[Array, "steps arms"]) -> Int[Array, " steps"]:
    """The step of each pull, arm after arm."""
    own = jnp.take_along_axis(pulls, arms[:, None], axis=1)[:, 0]
    return jnp.zeros_like(arms).at[question.offset[arms] + own].set(jnp.arange(arms.shape[0], dtype=arms.dtype))


def pick(number: Float[Array, "*any"], size: Int[Array, "*any"]) -> Int[Array, "*any"]:
    """One of 0, ..., size - 1 from a uniform number; 0 where there is none."""
    return jnp.clip((number * size.astype(number.dtype)).astype(jnp.int32), 0, jnp.maximum(size - 1, 0))


def take(accepted: Bool[Array, " steps"], proposed: Order, order: Order) -> Order:
    """The proposal at the steps where it was accepted."""
    return jax.tree.map(lambda new, old: jnp.where(accepted.reshape(-1, *[1] * (old.ndim - 1)), new, old), proposed, order)


def uniforms(key: PRNGKeyArray, number: int, size: int, dtype: Any) -> list[Float[Array, " size"]]:
    """Several arrays of uniform numbers."""
    return list(jax.random.uniform(key, (number, size), dtype))
