"""The pulls of one arm in a window of steps put at new times, with some of its rewards in another order.

Thompson sampling pulls the arm with the largest draw. Given the order of the other arms' pulls, those of one arm are a hidden
Markov chain: after t steps of the window with n of them the arm and the others are in states that n and t - n give, whatever the
times in between. So its times are drawn from their exact distribution, by one pass backwards over the steps and one forwards, and
the pass backwards has the probability of the arm's order of rewards, summed over all its times. One of several orders is drawn
with these probabilities.

The probability that an arm's draw is the largest is a sum over the nodes of a grid (`grid.py`), on which those of all times,
pulls and orders are products of matrices.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxbias.estimators.unbiased.grid import Grid, posterior_of
from jaxbias.estimators.unbiased.orders import Question, Setup, pick, statistics_around
from jaxbias.likelihood import statistics_before

FROM_OPENING = 0.7  # of the windows begin with the arm's first choice: its opening is averaged
ANEW = 0.5  # of the orders given the sums are of rewards drawn anew or turned; otherwise permuted
SMALLEST_ANGLE = 0.05  # of a rotation


class Sequence(NamedTuple):
    """The state of a chain: the arm of each step, and the rewards arm after arm, in the order of each arm's pulls."""

    arms: Int[Array, " steps"]
    by_arm: Float[Array, " steps"]


class Size(NamedTuple):
    """The steps of a window, the pulls that it has at most, and how many orders of the rewards are compared."""

    steps: int
    pulls: int
    orders: int


class Window(NamedTuple):
    """Steps from `start` to before `end`, `moving` pulls of the arm in them, `earlier` before them.

    The rewards of `size` pulls from number `begin` on may be permuted: outside the window only forced steps see their sums.
    """

    start: Int[Array, ""]
    end: Int[Array, ""]
    earlier: Int[Array, ""]
    moving: Int[Array, ""]
    begin: Int[Array, ""]
    size: Int[Array, ""]


class Others(NamedTuple):
    """The steps of a window that pull other arms: at each, densities on the nodes.

    Fields:
        arms: which they are, first the window's in their order.
        below: that all other arms' draws are below the node, before each.
        drawn: that the arm's own draw is at the node and the others but this one are below it.
    """

    arms: Int[Array, " steps"]
    below: Float[Array, "steps nodes"]
    drawn: Float[Array, "steps nodes"]


def rewards_of(question: Question, state: Sequence) -> Float[Array, " steps"]:
    """The reward of each step."""
    pulls = statistics_before(state.arms, state.by_arm, len(question.pulls)).pulls
    own = jnp.take_along_axis(pulls, state.arms[:, None], axis=1)[:, 0]
    return state.by_arm[question.offset[state.arms] + own]


def retime(key: PRNGKeyArray, setup: Setup, question: Question, grid: Grid, state: Sequence, arm: Array, size: Size) -> Sequence:
    """New times and a new order of rewards of one arm, from their distribution given the rest and the orders to compare."""
    choose, propose, which, times = jax.random.split(key, 4)
    window = _window(choose, question, state, arm, size)
    orders = _orders(propose, question, state, arm, window, size)
    others = _others(setup, question, grid, state, arm, window, size)
    stays, pulls = _chances(setup, question, grid, state, arm, window, orders, others, size)
    evidence, pull_probs = _backwards(stays, pulls, window)
    chosen = jax.random.categorical(which, evidence)
    own = _forwards(times, pull_probs[..., chosen], window)
    return _with(question, state, arm, window, orders[chosen], own, others, size)


def largest_draws(setup: Setup, question: Question, grid: Grid, state: Sequence) -> Float[Array, "steps nodes"]:
    """The probability that the largest draw of each step is the pulled arm's and at this node."""
    num_steps, zero = state.arms.shape[0], jnp.int32(0)
    whole = Window(zero, jnp.int32(num_steps), zero, zero, zero, zero)
    return _others(setup, question, grid, state, jnp.int32(-1), whole, Size(num_steps, 0, 1)).drawn * grid.weights[None]


def _window(key: PRNGKeyArray, question: Question, state: Sequence, arm: Array, size: Size) -> Window:
    """Of the pulls from one that is the first after the opening, or any. What it depends on, a new time does not change."""
    kind, which = jax.random.uniform(key, (2,))
    num_steps = state.arms.shape[0]
    steps = jnp.arange(num_steps, dtype=jnp.int32)
    own = state.arms == arm
    nth = jnp.cumsum(own) - 1
    number = question.pulls[arm].astype(jnp.int32)
    opening = jnp.sum((question.opening[:, arm] > 0) & own, dtype=jnp.int32)
    earlier = jnp.where(kind < FROM_OPENING, opening, pick(which, number))
    at = lambda pull: jnp.min(jnp.where(own & (nth == pull), steps, num_steps))
    first = at(earlier)
    forced = question.forced
    possible = (first < num_steps) & ~forced[jnp.minimum(first, num_steps - 1)]
    start = jnp.max(jnp.where((forced | (own & (nth == earlier - 1))) & (steps < first), steps + 1, 0))
    unforced = jnp.max(jnp.where(~forced & (steps < start), steps, -1))
    begin = jnp.sum(own & (steps < unforced)).astype(jnp.int32)
    most = jnp.clip(size.pulls + 1 - (earlier - begin), 0, size.pulls)
    ends = jnp.stack([jnp.min(jnp.where(forced & (steps > first), steps, num_steps)), start + size.steps, at(earlier + most)])
    end = jnp.where(possible, jnp.minimum(jnp.min(ends), num_steps), start)
    moving = jnp.sum(own & (steps >= start) & (steps < end)).astype(jnp.int32)
    count = jnp.where(possible, jnp.minimum(earlier - begin + moving, size.pulls + 1), 0)
    return Window(start, end, earlier, moving, begin, count)


def _orders(
    key: PRNGKeyArray, question: Question, state: Sequence, arm: Array, window: Window, size: Size
) -> Float[Array, "orders pulls"]:
    """The state's own rewards and others. Each is as likely to be proposed from each: some places have their rewards permuted."""
    some, share, shuffle, turn, kind = jax.random.split(key, 5)
    places = jnp.arange(size.pulls + 1, dtype=jnp.int32)
    begin = question.offset[arm] + window.begin
    current = state.by_arm.at[begin + places].get(mode="clip")
    inside = places < window.size
    least = 2 / jnp.maximum(window.size, 2).astype(current.dtype)
    chance = jnp.exp(jax.random.uniform(share, (), current.dtype) * jnp.log(least))  # from all places to two
    member = inside & ((places == 0) | (jax.random.uniform(some, places.shape, current.dtype) < chance))
    rank = jax.random.uniform(shuffle, (size.orders - 1, len(places)), current.dtype)
    targets = jnp.argsort(jnp.where(member, places, places + len(places)))
    sources = jnp.argsort(jnp.where(member[None], rank, 2 + places.astype(rank.dtype)[None]), axis=1)
    proposed = jnp.broadcast_to(current[None], rank.shape).at[:, targets].set(current[sources])
    if question.sigma is not None:
        turned = _turned(turn, jnp.asarray(question.sigma)[arm], current, member, size)
        proposed = jnp.where(jax.random.uniform(kind) < ANEW, turned, proposed)
    return jnp.concatenate([current[None], proposed])


def _turned(key: PRNGKeyArray, sigma: Array, current: Array, member: Array, size: Size) -> Float[Array, "orders pulls"]:
    """Rewards with the same sum, each turned by one angle from rewards that are turned by it from the state's."""
    draw, turn = jax.random.split(key)
    number, own = jnp.maximum(jnp.sum(member), 1).astype(current.dtype), member[None]
    average = lambda values: jnp.sum(jnp.where(own, values, 0), axis=1, keepdims=True) / number
    centred = lambda values: values - average(values)
    drawn = sigma * centred(jax.random.normal(draw, (size.orders, current.shape[0]), current.dtype))
    kind, scale = jax.random.uniform(turn, (2,), current.dtype)
    angle = jnp.pi / 2 * jnp.where(kind < 0.5, 1, jnp.exp(scale * math.log(SMALLEST_ANGLE)))
    middle = jnp.cos(angle) * centred(current[None]) + jnp.sin(angle) * drawn[:1]
    turned = jnp.cos(angle) * middle + jnp.sin(angle) * drawn[1:]
    return jnp.where(own, average(current[None]) + turned, current[None])


def _others(setup: Setup, question: Question, grid: Grid, state: Sequence, arm: Array, window: Window, size: Size) -> Others:
    """From the product of all other arms at the window's start, and what each pull changes in it."""
    num_steps, num_arms = question.opening.shape
    statistics = statistics_around(question, state.arms, rewards_of(question, state))
    posterior: Any = setup.policy.posterior  # pyright: ignore[reportAttributeAccessIssue]
    location, scale = jax.vmap(posterior)(statistics)
    scale = jnp.broadcast_to(scale, location.shape)
    order = _order(state, arm, window, size)
    there, at = order < num_steps, jnp.minimum(order, num_steps - 1)
    arms = state.arms[at]
    own = [jnp.take_along_axis(values[at], arms[:, None], axis=1)[:, 0] for values in (location, scale)]
    here = grid.log_below(*own)
    edge = lambda step: grid.log_below(location[step], scale[step])
    rows = jnp.concatenate([here, edge(window.end)])
    change = jnp.where(there[:, None], rows[_following(arms, there, num_arms)] - here, 0)
    counted = jnp.arange(num_arms, dtype=jnp.int32) != arm
    start = jnp.sum(jnp.where(counted[:, None], edge(window.start), 0), axis=0)
    log_below = start[None] + jnp.cumsum(change, axis=0) - change
    drawn = jnp.exp(log_below - here + grid.log_density(*own))
    return Others(arms=arms, below=jnp.exp(log_below), drawn=jnp.where(there[:, None], drawn, 0))


def _order(state: Sequence, arm: Array, window: Window, size: Size) -> Int[Array, " steps"]:
    """The steps of the window that pull other arms, and then ones beyond the log."""
    num_steps = state.arms.shape[0]
    steps = jnp.arange(num_steps, dtype=jnp.int32)
    other = (state.arms != arm) & (steps >= window.start) & (steps < window.end)
    place = jnp.where(other, jnp.cumsum(other) - 1, num_steps)
    return jnp.full(size.steps, num_steps, jnp.int32).at[place].set(steps, mode="drop")


def _following(arms: Int[Array, " steps"], there: Bool[Array, " steps"], num_arms: int) -> Int[Array, " steps"]:
    """The place of the next pull of the same arm; beyond all steps, the arm, where there is none."""
    number = arms.shape[0]
    places = jnp.arange(number, dtype=jnp.int32)
    by_arm = jnp.argsort(jnp.where(there, arms.astype(jnp.int32), num_arms), stable=True)
    after = jnp.roll(by_arm, -1)
    same = there[after] & there[by_arm] & (arms[after] == arms[by_arm]) & (places < number - 1)
    following = jnp.where(same, after, number + arms[by_arm]).astype(jnp.int32)
    return jnp.zeros(number, jnp.int32).at[by_arm].set(following)


def _chances(
    setup: Setup,
    question: Question,
    grid: Grid,
    state: Sequence,
    arm: Array,
    window: Window,
    orders: Array,
    others: Others,
    size: Size,
) -> tuple[Float[Array, "steps pulls orders"], Float[Array, "steps pulls orders"]]:
    """Of the next other arm, and of this one, at each step after so many of its pulls, with each order of its rewards."""
    count = jnp.arange(size.pulls + 1, dtype=jnp.int32)
    index = jnp.arange(state.by_arm.shape[0], dtype=jnp.int32)
    past = (index >= question.offset[arm]) & (index < question.offset[arm] + window.begin)
    base = jnp.sum(jnp.where(past, state.by_arm, 0))
    sums = jnp.concatenate([jnp.zeros_like(orders[:, :1]), jnp.cumsum(orders, axis=1)], axis=1)
    total = base + sums.at[:, window.earlier - window.begin + count].get(mode="clip")
    pulls = jnp.broadcast_to((window.earlier + count)[None], total.shape)
    found = posterior_of(setup.policy, len(question.pulls), arm, pulls.ravel(), total.ravel())
    weighted = lambda values: (jnp.exp(values) * grid.weights[None]).reshape(*total.shape, -1)
    table = lambda rows, columns: jnp.einsum("pq,cnq->pnc", rows, weighted(columns))
    return table(others.drawn, grid.log_below(*found)), table(others.below, grid.log_density(*found))


def _backwards(stays: Array, pulls: Array, window: Window) -> tuple[Float[Array, " orders"], Float[Array, "steps pulls orders"]]:
    """The log-probability of each order of rewards, and that of a pull at each step after so many of them."""
    size, most, _ = stays.shape
    steps, count = jnp.arange(size, dtype=jnp.int32)[:, None], jnp.arange(most, dtype=jnp.int32)[None]
    place = steps - count
    length = window.end - window.start
    others = length - window.moving
    skew = lambda table, inside: jnp.where(
        inside[..., None], jnp.take_along_axis(table, jnp.clip(place, 0, size - 1)[..., None], axis=0), 0
    )
    active = steps < length
    stays = skew(stays, (place >= 0) & (place < others) & active)
    pulls = skew(pulls, (place >= 0) & (place <= others) & (count < window.moving) & active)
    stays = jnp.where(active[..., None], stays, 1)
    tiny = jnp.finfo(stays.dtype).tiny

    def step(carry: Any, now: Any) -> Any:
        chance, scale = carry
        stay, pull = now
        pulled = pull * jnp.concatenate([chance[1:], jnp.zeros_like(chance[:1])])
        both = stay * chance + pulled
        largest = jnp.maximum(jnp.max(both, axis=0), tiny)
        return (both / largest[None], scale + jnp.log(largest)), pulled / jnp.maximum(both, tiny)

    end = jnp.broadcast_to((count[0] == window.moving)[:, None], stays.shape[1:]).astype(stays.dtype)
    (chance, scale), probs = jax.lax.scan(step, (end, jnp.zeros_like(end[0])), (stays, pulls), reverse=True)
    return scale + jnp.log(chance[0]), probs


def _forwards(key: PRNGKeyArray, probs: Float[Array, "steps pulls"], window: Window) -> Bool[Array, " steps"]:
    """Whether each step of the window pulls the arm."""
    chance = jax.random.uniform(key, probs.shape[:1], probs.dtype)

    def step(count: Array, now: Any) -> Any:
        prob, chance = now
        pulls = chance < prob[count]
        return count + pulls.astype(count.dtype), pulls

    _, own = jax.lax.scan(step, jnp.int32(0), (probs, chance))
    return own & (jnp.arange(len(chance)) < window.end - window.start)


def _with(
    question: Question, state: Sequence, arm: Array, window: Window, order: Array, own: Array, others: Others, size: Size
) -> Sequence:
    """The state with these times and rewards."""
    inside = jnp.arange(size.steps, dtype=jnp.int32)
    other = others.arms[jnp.clip(inside - jnp.cumsum(own, dtype=jnp.int32) + own.astype(jnp.int32), 0, size.steps - 1)]
    arms = jnp.where(own, arm, other).astype(state.arms.dtype)
    target = jnp.where(inside < window.end - window.start, window.start + inside, state.arms.shape[0])
    places = jnp.arange(size.pulls + 1, dtype=jnp.int32)
    where = jnp.where(places < window.size, question.offset[arm] + window.begin + places, len(state.by_arm))
    return Sequence(state.arms.at[target].set(arms, mode="drop"), state.by_arm.at[where].set(order, mode="drop"))
