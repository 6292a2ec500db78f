"""The steps of each window are simulated again, after the rewards of one of its arms were reordered.

Two kinds:

- Insertion: the other arms keep their order, and the pulls of the one arm are put between them anew. At each step it comes next
  with a probability near to the one it has given that as many of its pulls as before are in the window; what that leaves out is
  in the ratio by which the proposal is accepted. A policy without noise leaves no such freedom, and has the second kind only.
- Coupling: every arm is read again from the policy, with the noise that the state's arms had: a choice is the argmax of the
  log-probabilities plus Gumbel variables, and these are drawn given the arms of the state. That is accepted where the pulls of
  each arm come out the same. At times the noise is drawn anew, and the rewards stay.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxbias.estimators.unbiased.orders import (
    Order,
    Question,
    Setup,
    chosen_log_probs,
    statistics_around,
    take,
    uniforms,
)
from jaxbias.estimators.unbiased.reordering import Windows, cut, reorder
from jaxbias.policies import ArmStatistics, StatisticsPolicy

NEW_NOISE = 0.2  # of the windows that are coupled; it changes nothing for a policy without noise
TOWARDS_END = 0.75  # how much of a probability's distance from the one after the window is believed to pass with the next pull
LARGEST_LOGIT = 15.0  # of a probability in an insertion


class Proposal(NamedTuple):
    """What is proposed in each row: the rewards, arm after arm, of which some are reordered, and the chances.

    Those are for an insertion one uniform number for each place, and for a coupling the noise of each arm.
    """

    rewards: Float[Array, " steps"]
    chance: Float[Array, "rows width *arms"]


def insert(key: PRNGKeyArray, setup: Setup, question: Question, order: Order, width: int) -> tuple[Order, Array]:
    """One insertion in each window of this width, accepted or not; also the share of steps in windows that were accepted."""
    keys = jax.random.split(key, 5)
    around = statistics_around(question, order.arms, order.rewards)
    windows = cut(keys[0], order.arms.shape[0], width, around)
    arm = jax.random.randint(keys[4], windows.start.shape, 0, len(question.pulls), jnp.int32)
    which = arm[:, None] == jnp.arange(len(question.pulls), dtype=jnp.int32)[None]
    rewards = reorder(keys[1], question, order, windows, around, which)
    proposal = Proposal(rewards=rewards, chance=jax.random.uniform(keys[2], windows.step.shape, rewards.dtype))
    towards = _logit(_log_probs_after(setup, windows), arm)
    decide = _Insertion(arm=arm, missing=windows.after.pulls, towards=towards, rest=_rest(order, windows, arm))
    found, share, valid = _follow(setup, question, order, windows, proposal, decide)
    old_share = _old_shares(question, order, windows, arm, around, towards)
    gain = chosen_log_probs(question, found) - chosen_log_probs(question, order)
    ratio = jax.ops.segment_sum(gain, windows.row, num_segments=len(windows.start)) - share + old_share
    likely = jnp.log(jax.random.uniform(keys[3], ratio.shape, ratio.dtype)) < ratio
    accepted = (valid & likely)[windows.row]
    return take(accepted, found, order), jnp.mean(accepted.astype(ratio.dtype))


def couple(key: PRNGKeyArray, setup: Setup, question: Question, order: Order, width: int) -> tuple[Order, Array]:
    """One coupling in each window of this width, accepted or not; also the share of steps in windows that were accepted."""
    keys = jax.random.split(key, 5)
    around = statistics_around(question, order.arms, order.rewards)
    windows = cut(keys[0], order.arms.shape[0], width, around)
    num_arms = len(question.pulls)
    renews, how_many = uniforms(keys[1], 2, len(windows.start), order.rewards.dtype)
    share = jnp.exp(-how_many * math.log(num_arms))  # of the arms: from one to all
    renews = renews < NEW_NOISE
    chance = jax.random.uniform(keys[4], (len(share), num_arms), share.dtype)
    which = (chance < share[:, None]) & ~renews[:, None]
    rewards = reorder(keys[2], question, order, windows, around, which)
    noise = _noise(keys[3], order, renews[windows.row])
    proposal = Proposal(rewards=rewards, chance=noise[windows.step])
    found, _, valid = _follow(setup, question, order, windows, proposal, None)
    accepted = valid[windows.row]
    return take(accepted, found, order), jnp.mean(accepted.astype(rewards.dtype))


def _noise(key: PRNGKeyArray, order: Order, renews: Bool[Array, " steps"]) -> Float[Array, "steps arms"]:
    """Gumbel variables, given that each step's arm is the argmax of its log-probabilities plus them (Maddison et al. 2014).

    The maximum is a Gumbel variable of its own, and the others are cut off there. At some steps they are drawn anew.
    """
    top, rest = jax.random.split(key)
    shape, dtype = order.log_probs.shape, order.log_probs.dtype
    free = jax.random.gumbel(rest, shape, dtype)
    largest = jax.random.gumbel(top, shape[:1], dtype)[:, None]
    possible = jnp.isfinite(order.log_probs)
    log_probs = jnp.where(possible, order.log_probs, 0)
    below = -jnp.logaddexp(-largest, -(log_probs + free)) - log_probs
    is_chosen = order.arms[:, None] == jnp.arange(shape[1], dtype=order.arms.dtype)[None]
    given = jnp.where(is_chosen, largest - log_probs, jnp.where(possible, below, free))
    return jnp.where(renews[:, None], free, given)


def _rest(order: Order, windows: Windows, arm: Int[Array, " rows"]) -> Int[Array, "rows width"]:
    """The other arms of each row, in their order, and then whatever."""
    arms = order.arms[windows.step]
    last = jnp.where(windows.inside, (arms == arm[:, None]).astype(jnp.int32), 2)
    return jnp.take_along_axis(arms, jnp.argsort(last, axis=1, stable=True), axis=1)


def _logit(log_probs: Float[Array, "rows arms"], arm: Int[Array, " rows"]) -> Float[Array, " rows"]:
    """The log-odds of the arm."""
    chosen = jnp.take_along_axis(log_probs, arm[:, None], axis=1)[:, 0]
    chosen = jnp.clip(chosen, -LARGEST_LOGIT, -math.exp(-LARGEST_LOGIT))
    return chosen - jnp.log(-jnp.expm1(chosen))


def _insertion_logit(logit: Array, towards: Array, missing: Int[Array, "*any"], left: Int[Array, "*any"]) -> Array:
    """The log-odds that the arm comes next, with so many of its pulls missing among the steps that are left.

    With a constant probability p of the arm these are the odds of missing / left: p / (1 - p), times the ratio of the binomial
    probabilities of what is left. With another probability after the window, that of its end counts in the binomial.
    """
    one = lambda number: jnp.log(jnp.maximum(number, 1).astype(logit.dtype))
    tilt = TOWARDS_END * jnp.clip(logit - towards, -LARGEST_LOGIT, LARGEST_LOGIT)
    inner = tilt + one(missing) - one(left - missing)
    return jnp.where(missing <= 0, -jnp.inf, jnp.where(missing >= left, jnp.inf, inner))


def _log_probs_after(setup: Setup, windows: Windows) -> Float[Array, "rows arms"]:
    """Of the policy after each row; equal ones where its state is more than pulls and sums, as that changes with the order."""
    if setup.policy.keeps_statistics:
        return jax.vmap(setup.policy.log_probs)(windows.after)
    return jnp.full(windows.after.total.shape, -math.log(windows.after.total.shape[1]), windows.after.total.dtype)


def _log_share(logit: Array, inserted: Bool[Array, "*any"]) -> Array:
    """The log-probability of what was decided; 0 where there was no choice."""
    sure = jnp.isinf(logit)
    return jnp.where(sure, 0, jax.nn.log_sigmoid(jnp.where(inserted, 1, -1).astype(logit.dtype) * jnp.where(sure, 0, logit)))


def _old_shares(
    question: Question, order: Order, windows: Windows, own_arm: Array, around: ArmStatistics, towards: Array
) -> Float[Array, " rows"]:
    """The log-probability with which the order of the state would be proposed in each row."""
    arm = own_arm[windows.row]
    rows = lambda values: jnp.take_along_axis(values, arm[:, None], axis=1)[:, 0]
    missing = rows(windows.after.pulls[windows.row]) - rows(around.pulls[:-1])
    left = windows.end[windows.row] - jnp.arange(len(arm), dtype=jnp.int32)
    logit = _insertion_logit(_logit(order.log_probs, arm), towards[windows.row], missing, left)
    shares = jnp.where(question.forced, 0, _log_share(logit, order.arms == arm))
    return jax.ops.segment_sum(shares, windows.row, num_segments=len(windows.start))


class _Insertion(NamedTuple):
    """How each row puts the pulls of its arm between the others': (rows, ...), and without rows one at a time.

    Fields:
        arm: the one that is put between the others.
        missing: pulls of each arm at the end of the row.
        towards: the log-odds of the arm after the row.
        rest: the other arms of the row in their order.
    """

    arm: Array
    missing: Array
    towards: Array
    rest: Array


def _follow(
    setup: Setup, question: Question, order: Order, windows: Windows, proposal: Proposal, insertion: _Insertion | None
) -> tuple[Order, Float[Array, " rows"], Bool[Array, " rows"]]:
    """All rows simulated, with the log-probability of each row's insertions, and whether its pulls came out the same."""
    step = windows.step
    by_place = (proposal.chance, windows.inside, order.arms[step], question.forced[step], question.first[step])
    by_place = (*by_place, question.looks[step], windows.end[:, None] - step)
    one = lambda *given: _follow_row(setup, question, proposal.rewards, *given)
    (arms, rewards, log_probs), share, valid = jax.vmap(one)(windows.before, windows.after.pulls, insertion, by_place)
    back = lambda values: values[windows.row, windows.column]
    return Order(arms=back(arms), rewards=back(rewards), log_probs=back(log_probs)), share, valid


def _follow_row(
    setup: Setup, question: Question, stack: Array, before: ArmStatistics, after: Array, insertion: Any, by_place: Any
) -> Any:
    """One row, from the pulls and sums before it; of a policy with a state of its own, the whole log."""
    policy, offset, counts = setup.policy, question.offset, setup.policy.keeps_statistics

    def place(carry: Any, now: Any) -> Any:
        state, statistics, held, others, share, valid = carry
        chance, inside, old_arm, forced, first, looks, left = now
        statistics = state if counts else statistics
        log_probs = jnp.where(first, policy.log_probs(state), held)
        if setup.stop is not None:
            log_probs = jnp.where(looks & setup.stop(statistics), -jnp.inf, log_probs)
        if insertion is None:
            arm = jnp.argmax(log_probs + chance).astype(jnp.int32)
        else:
            arm, own_share, inserted = _next_arm(insertion, log_probs, statistics, others, chance, left)
            inserted = jnp.where(forced, old_arm == insertion.arm, inserted)
            others = others + (inside & ~inserted).astype(jnp.int32)
            share = share + jnp.where(forced | ~inside, 0, own_share)
            valid = valid & ~(inside & forced & ~inserted & (insertion.rest[others - 1] != old_arm))
        arm = jnp.where(forced, old_arm, arm)
        valid = valid & (~inside | jnp.isfinite(jnp.max(log_probs)))
        reward = stack[offset[arm] + jnp.minimum(statistics.pulls[arm], question.pulls[arm] - 1)]
        moved = (_updated(policy, state, arm, reward), None if counts else _updated(StatisticsPolicy(), statistics, arm, reward))
        keep = lambda new, old: jnp.where(inside, new, old)
        state, statistics = jax.tree.map(keep, moved, (state, None if counts else statistics))
        return (state, statistics, log_probs, others, share, valid), (arm, reward, log_probs)

    state = before if counts else jax.tree.map(jnp.asarray, policy.init(len(question.pulls)))
    held = jnp.zeros(question.pulls.shape, stack.dtype)
    start = (state, None if counts else before, held, jnp.int32(0), jnp.zeros_like(held[0]), jnp.ones((), bool))
    ends: Any = jax.lax.scan(place, start, by_place)
    (state, statistics, _, _, share, valid), found = ends
    return found, share, valid & jnp.all((state if counts else statistics).pulls == after)


def _next_arm(insertion: _Insertion, log_probs: Array, statistics: ArmStatistics, others: Array, coin: Array, left: Array) -> Any:
    """The next arm of an insertion, the log-probability of that decision, and whether it is the arm that is inserted."""
    arm = insertion.arm
    missing = insertion.missing[arm] - statistics.pulls[arm]
    logit = _insertion_logit(_logit(log_probs[None], arm[None])[0], insertion.towards, missing, left)
    inserted = jnp.log(coin) < jax.nn.log_sigmoid(logit)
    other = insertion.rest[jnp.minimum(others, insertion.rest.shape[0] - 1)]
    return jnp.where(inserted, arm, other), _log_share(logit, inserted), inserted


def _updated(policy: Any, state: Any, arm: Array, reward: Array) -> Any:
    return jax.tree.map(lambda new, old: jnp.asarray(new).astype(old.dtype), policy.update(state, arm, reward), state)
