"""Paths given the arms where the Gaussian that they are drawn from follows the density too loosely: many arms, few pulls.

Each arm that was given up early adds to what the Gaussian misses, so that with thirty of them one path in a hundred has all the
weight. So the weights are taken in portions. Paths start as draws from the Gaussian. A portion is as large a power of the weights
as leaves half of the paths; paths are then drawn anew by it (systematic resampling) and moved, until all of the weight is in.

A path is a function of standard normals, one for each step. A move mixes them with fresh ones,

    normals <- sqrt(1 - size^2) normals + size fresh

which leaves their distribution as it is, so that only the weights decide whether it is taken (Cotter, Roberts, Stuart and White
2013). Groups of paths have nothing to do with each other: how they differ is the Monte Carlo error.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int, PRNGKeyArray

from jaxbias._core.derivatives import held
from jaxbias._core.devices import on_each_part
from jaxbias._core.search import bracket
from jaxbias.estimators.conditional_mle.gaussian_paths import follow, make_guide
from jaxbias.estimators.conditional_mle.gaussian_walk import off
from jaxbias.estimators.conditional_mle.record import Record
from jaxbias.estimators.conditional_mle.weighted_samples import Samples, make_samples
from jaxbias.policies import BasePolicy

GROUPS = 8  # of paths: with more, so few paths are drawn from in each that what they lose together shows in no difference
LEFT = 0.5  # the share of the paths that a portion of the weights leaves
PORTIONS = 20  # at most; three or four are usual
MOVES = 2  # at the means where the paths are used; one after each portion
FIRST_SIZE = 0.5  # of a move
ACCEPTED = 0.3  # the share of the moves that makes them largest, about; their size follows it


Walk = Callable[[Float[Array, "steps paths"]], tuple[Float[Array, "arms paths"], Float[Array, " paths"]]]


class Tempered(NamedTuple):
    """Paths on their way.

    Fields:
        normals: of each step.
        deviation, log_weight: as `follow` returns them.
        of_group: the logarithm of what each group weighs.
        portion: how much of the weights is in, from 0 to 1.
        size: of a move.
        rounds: how often they were drawn anew.
    """

    normals: Float[Array, "steps paths"]
    deviation: Float[Array, "arms paths"]
    log_weight: Float[Array, " paths"]
    of_group: Float[Array, " groups"]
    portion: Float[Array, ""]
    size: Float[Array, ""]
    rounds: Int[Array, ""]


class Walker(NamedTuple):
    """What paths of one log have in common: see `sample_paths`."""

    policy: BasePolicy
    record: Record
    sigma: Float[Array, " arms"]
    path: Float[Array, " steps"]
    devices: Mesh | None

    def at(self, mean: Float[Array, " arms"]) -> tuple[Walk, Float[Array, ""]]:
        """From normals to deviations and log-weights, at some means; and what to add to all log-weights."""
        policy, record, sigma, path = held((self.policy, self.record, self.sigma, self.path))
        guide = make_guide(policy, record, mean, sigma, path)
        of_some = lambda normals: follow(policy, guide, record.length, lambda step: normals[step], normals.shape[1])[:2]
        return lambda normals: on_each_part(of_some, self.devices, normals, axis=-1), guide.constant


def fill_groups(pairs: int) -> int:
    """So many pairs, or a few more: as many in every group. Without several groups the Monte Carlo error would be unknown."""
    return GROUPS * math.ceil(pairs / GROUPS)


def temper(
    key: PRNGKeyArray, walker: Walker, mean: Float[Array, " arms"], noise: Callable[[Int[Array, ""]], Float[Array, " pairs"]]
) -> Tempered:
    """Paths at some means, from mirrored pairs of draws from the Gaussian; of pairs, as many as `fill_groups` says."""
    half = jax.vmap(noise)(jnp.arange(walker.path.shape[0]))
    normals = jnp.concatenate([half, -half], axis=1)  # a pair is in one group, as their number divides that of the pairs
    walk, _ = walker.at(mean)
    zero, of_group = jnp.zeros((), normals.dtype), jnp.zeros(GROUPS, normals.dtype)
    start = Tempered(normals, *walk(normals), of_group, zero, zero + FIRST_SIZE, jnp.int32(0))

    def go_on(now: Tempered) -> Tempered:
        order_key, move_key = jax.random.split(jax.random.fold_in(key, now.rounds))
        portion = _portion_left(now)
        chosen = _resample(order_key, now, portion * now.log_weight)
        return _move(move_key, chosen._replace(portion=now.portion + portion), walk)

    return jax.lax.while_loop(lambda now: (now.portion < 1) & (now.rounds < PORTIONS), go_on, start)


def temper_again(key: PRNGKeyArray, walker: Walker, mean: Float[Array, " arms"], paths: Tempered) -> tuple[Samples, Tempered]:
    """The same normals at other means: drawn anew by how their weights change, and moved."""
    walk, constant = walker.at(mean)
    deviation, log_weight = walk(paths.normals)
    there = paths._replace(deviation=deviation, log_weight=log_weight)
    order_key, move_key = jax.random.split(jax.random.fold_in(key, paths.rounds))
    chosen = _resample(order_key, there, log_weight - paths.portion * paths.log_weight)._replace(
        portion=jnp.ones_like(paths.portion)
    )
    moved = jax.lax.fori_loop(0, MOVES, lambda number, paths: _move(jax.random.fold_in(move_key, number), paths, walk), chosen)
    total = moved.deviation + off(walker.record, walker.path)[:, None]
    weights = jnp.broadcast_to(moved.of_group, (total.shape[1] // moved.of_group.shape[0], moved.of_group.shape[0]))
    return make_samples(total.reshape(total.shape[0], *weights.shape), weights, constant), moved


def _portion_left(paths: Tempered) -> Float[Array, ""]:
    """The largest portion, of what is not in yet, that leaves so many of the paths."""

    def share(portion: Float[Array, ""]) -> Float[Array, ""]:
        weight = jax.nn.softmax(portion * paths.log_weight)
        return 1 / (weight.size * jnp.sum(jnp.square(weight)))

    rest = 1 - paths.portion
    found = bracket(lambda portion: -share(portion), jnp.asarray(-LEFT, rest.dtype), jnp.zeros_like(rest), rest)
    return jnp.where(share(rest) >= LEFT, rest, found)


def _resample(key: PRNGKeyArray, paths: Tempered, gain: Float[Array, " paths"]) -> Tempered:
    """In each group paths by these weights; the group keeps its weight as a whole."""
    groups = paths.of_group.shape[0]
    gain = gain.reshape(-1, groups)
    members = gain.shape[0]
    places = (jnp.arange(members, dtype=gain.dtype)[None] + jax.random.uniform(key, (groups, 1), gain.dtype)) / members
    chosen = jax.vmap(jnp.searchsorted)(jnp.cumsum(jax.nn.softmax(gain, axis=0), axis=0).T, places)
    source = (jnp.minimum(chosen, members - 1).T * groups + jnp.arange(groups, dtype=chosen.dtype)[None]).ravel()
    average = jax.nn.logsumexp(gain, axis=0) - jnp.log(jnp.asarray(members, gain.dtype))
    normals, deviation, log_weight = (leaf[..., source] for leaf in (paths.normals, paths.deviation, paths.log_weight))
    after = paths._replace(normals=normals, deviation=deviation, log_weight=log_weight, of_group=paths.of_group + average)
    return after._replace(rounds=paths.rounds + 1)


def _move(key: PRNGKeyArray, paths: Tempered, walk: Walk) -> Tempered:
    """Fresh normals mixed in, where the portion of the weights that is in allows it."""
    fresh_key, accept_key = jax.random.split(key)
    fresh = jax.random.normal(fresh_key, paths.normals.shape, paths.normals.dtype)
    normals = jnp.sqrt(1 - jnp.square(paths.size)) * paths.normals + paths.size * fresh
    deviation, log_weight = walk(normals)
    gain = paths.portion * (log_weight - paths.log_weight)
    taken = jnp.log(jax.random.uniform(accept_key, gain.shape, gain.dtype)) < gain
    choose: Any = lambda new, old: jnp.where(taken, new, old)
    share = jnp.mean(taken.astype(gain.dtype))
    return paths._replace(
        normals=choose(normals, paths.normals),
        deviation=choose(deviation, paths.deviation),
        log_weight=choose(log_weight, paths.log_weight),
        size=jnp.clip(paths.size * jnp.exp(share - ACCEPTED), 0.01, 1.0),
    )
