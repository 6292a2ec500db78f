"""Paths of rewards given the arms: draws from the Gaussian of `gaussian_walk.py`, with importance weights.

A forward pass over the steps samples whole paths, and what the quadratics of the Gaussian miss is their importance weight. The
cost is steps x arms for each path. Like the Gaussian they are written in deviations from its reference path.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int

from jaxbias._core.derivatives import held
from jaxbias._core.devices import on_each_part
from jaxbias._core.lengths import scan_up_to
from jaxbias.estimators.conditional_mle.gaussian_walk import Smoother, moments_of_walk, off, quadratics, smooth
from jaxbias.estimators.conditional_mle.record import Record
from jaxbias.estimators.conditional_mle.weighted_samples import Samples, make_samples, with_covariance, with_squares
from jaxbias.likelihood import Choices, log_prob_of_choices
from jaxbias.policies import ArmStatistics, BasePolicy

LONG_INTEGRAL = 16  # cost of a log-probability from which on few paths go together: an integral over many arms
PATHS_TOGETHER = 64  # then: 30 arms at 96 nodes are 0.7 MB, which stays in the cache of a core


def sample_paths(
    policy: BasePolicy,
    record: Record,
    mean: Float[Array, " arms"],
    sigma: Float[Array, " arms"],
    path: Float[Array, " steps"],
    noise: Callable[[Int[Array, ""]], Float[Array, " pairs"]],
    squares: bool = False,
    devices: Mesh | None = None,
) -> Samples:
    """Paths in mirrored pairs around the reference, each weighted with its density over that of the Gaussian; spread over devices
    where there are several.

    `noise` gives the standard normals of a step, which are made when they are needed: those of a long log fill the memory.
    With `squares`, which asks for steps of one pull each, every arm's sum of squares around its mean is a statistic too.

    The paths are held: only their weights have a derivative in the policy and in sigma, which is the score of each path.
    """
    record, path = held((record, path))
    guide = make_guide(policy, record, mean, sigma, path, squares)

    def walk_pairs(pairs: Int[Array, " pairs"]) -> tuple[Array, Array, Array | None]:
        """Deviations, weights and squares of some of the pairs, which are the last axis; their members are the one before."""

        def mirrored(number: Int[Array, ""]) -> Float[Array, " paths"]:
            half = jax.lax.dynamic_slice_in_dim(noise(number), pairs[0], pairs.shape[0])
            return jnp.concatenate([half, -half])

        ended = follow(policy, guide, record.length, mirrored, 2 * pairs.shape[0])
        return jax.tree.map(lambda leaf: leaf.reshape(*leaf.shape[:-1], 2, -1), ended)

    pairs = jnp.arange(jax.eval_shape(noise, jnp.int32(0)).shape[0])
    deviation, log_weight, square = on_each_part(walk_pairs, devices, pairs, axis=-1)
    samples = make_samples(deviation, log_weight, guide.constant)
    walk, by_step = moments_of_walk(record, guide.smoother)
    samples = with_covariance(samples, *walk)
    samples = samples._replace(total=samples.total + off(record, path)[:, None, None])
    if square is None or guide.seen is None:
        return samples
    expected = jnp.square(by_step.mean - guide.drift) + by_step.variance - guide.seen
    return with_squares(samples, square, jnp.zeros_like(mean).at[record.arms].add(expected))


class Guide(NamedTuple):
    """The Gaussian that paths are drawn from, around a reference path.

    Fields:
        steps: what a path needs to know of each of them, the same for all paths.
        smoother, drift, seen: parts of that; `seen` where squares are asked for.
        constant: of all log-weights.
    """

    steps: Any
    smoother: Smoother
    drift: Float[Array, " steps"]
    seen: Float[Array, " steps"] | None
    constant: Float[Array, ""]


def make_guide(
    policy: BasePolicy,
    record: Record,
    mean: Float[Array, " arms"],
    sigma: Float[Array, " arms"],
    path: Float[Array, " steps"],
    squares: bool = False,
) -> Guide:
    """The Gaussian at these means, expanded around this path."""
    around = quadratics(held(policy), record, path)
    smoother = smooth(record, *held((mean, sigma)), path, around)
    prior, drift = 1 / record.variance(sigma), record.drift(mean, path)
    seen = jnp.square(record.drift(mean, record.rewards)) if squares else None
    numbers, total = jnp.arange(record.arms.shape[0]), record.running(path)
    steps = (record.arms, record.choices, record.pulls, total, around.value, smoother, prior, drift, numbers, seen)
    constant = jnp.sum(around.value - (jnp.square(drift) * prior + jnp.log(smoother.precision / prior)) / 2)
    return Guide(steps=steps, smoother=smoother, drift=drift, seen=seen, constant=constant)


def follow(
    policy: BasePolicy, guide: Guide, length: Any, noise: Callable[[Int[Array, ""]], Float[Array, " paths"]], size: int
) -> tuple[Float[Array, "arms paths"], Float[Array, " paths"], Float[Array, "arms paths"] | None]:
    """Paths made of the standard normals of each step: the summed deviations, the log-weight, and the squares if they are asked
    for."""
    num_arms, squares = guide.smoother.pull.shape[1], guide.seen is not None

    def body(carry: tuple[Array, Array, Array | None], step: Any) -> tuple[tuple[Array, Array, Array | None], None]:
        deviation, log_weight, square = carry  # (arms, paths): paths next to each other in memory
        arm, choices, pulls, total, value, (push, pull, precision), prior, drift, number, seen = step
        made = _over_paths(policy, choices, pulls, total[:, None] + deviation)
        noises = noise(number)
        change = (push - jnp.sum(pull[:, None] * deviation, axis=0)) / precision + noises * jax.lax.rsqrt(precision)
        log_weight = log_weight + (made - value) + jnp.square(noises) / 2 - prior * change * (change / 2 - drift)
        chosen = jnp.arange(num_arms, dtype=arm.dtype) == arm
        if square is not None:
            square = square + jnp.where(chosen[:, None], (jnp.square(change - drift) - seen)[None], 0)
        return (deviation + jnp.where(chosen[:, None], change[None], 0), log_weight, square), None

    nothing = jnp.zeros((num_arms, size), guide.drift.dtype)
    start = (nothing, nothing[0], nothing if squares else None)
    return scan_up_to(body, start, guide.steps, length)[0]


def _over_paths(
    policy: BasePolicy, choices: Choices, pulls: Int[Array, " arms"], total: Float[Array, "arms paths"]
) -> Float[Array, " paths"]:
    """The log-probability of the choices made here on each path."""

    def one(total: Float[Array, " arms"]) -> Float[Array, ""]:
        state = ArmStatistics(pulls, total)
        if choices.arm is None:
            return log_prob_of_choices(choices, policy.log_probs(state))
        return jnp.where(choices.number > 0, policy.log_prob(state, choices.arm), 0)

    if policy.log_prob_cost(total.shape[0]) >= LONG_INTEGRAL:
        return jax.lax.map(one, total.T, batch_size=PATHS_TOGETHER)
    return jax.vmap(one, in_axes=1)(total)
