"""The density of Normal rewards given the arms, by a Gaussian that follows it closely, and importance weights.

Given the arms, the running sums of rewards are a random walk in as many dimensions as arms, and every choice is an
observation of where the walk was: log p(arm | sums). With each observation replaced by a quadratic around a reference path,
the walk is Gaussian and one backward pass over the steps gives it exactly (a Kalman smoother in information form); moving the
reference to its mean and repeating is a Newton search for the most likely path. A forward pass then samples whole paths, and
what the quadratics miss is their importance weight. The cost is steps x arms^2 for a pass, steps x arms for each path.

Everything is written in deviations from the reference path, so that long logs lose no digits. One trial; `vmap` for more.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int

from jaxbias._core.derivatives import held
from jaxbias._core.devices import on_each_part
from jaxbias._core.lengths import scan_up_to
from jaxbias._core.search import damp, search
from jaxbias.estimators.conditional_mle.record import Record
from jaxbias.estimators.conditional_mle.weighted_samples import Samples, make_samples, with_covariance, with_squares
from jaxbias.likelihood import Choices, log_prob_of_choices, over_steps, slope_of_choices
from jaxbias.policies import ArmStatistics, BasePolicy

LENGTHS = (1.0, 0.5, 0.2, 0.05)  # of the search for the most likely path: a full Newton move, or the best part of it
FEW_CHOICES = 16  # arms: beyond, the program of one sum after the other is long to compile
LONGEST_MOVE = 3.0  # of a round, in standard errors: further away the quadratic says little
LAPLACE_ROUNDS = 20  # at most, towards the Gaussian's own maximum; five or six are usual
LONG_INTEGRAL = 16  # cost of a log-probability from which on few paths go together: an integral over many arms
PATHS_TOGETHER = 64  # then: 30 arms at 96 nodes are 0.7 MB, which stays in the cache of a core
CLOSE = 0.05  # in standard errors: as near as the Gaussian's own maximum needs to be, as the paths sampled there correct it


class Quadratics(NamedTuple):
    """Each choice's log-probability around the reference path: value + slope . d - d . curvature . d / 2."""

    value: Float[Array, " steps"]
    slope: Float[Array, "steps arms"]
    curvature: Float[Array, "steps arms arms"]


class Smoother(NamedTuple):
    """The Gaussian walk, as what to add to each reward: Normal((push - pull . deviation) / precision, 1 / precision)."""

    push: Float[Array, " steps"]
    pull: Float[Array, "steps arms"]
    precision: Float[Array, " steps"]


class Gaussian(NamedTuple):
    """Mean and covariance of the deviation."""

    mean: Float[Array, " arms"]
    covariance: Float[Array, "arms arms"]


def _quadratics(policy: BasePolicy, record: Record, path: Float[Array, " steps"]) -> Quadratics:
    """The curvature is minus the second derivative where the policy says that it is never negative, and otherwise the Fisher
    information of the choice, which never is: for a softmax of the sums the two are the same."""

    def one(pulls: Array, total: Array, choices: Choices) -> Quadratics:
        log_probs = lambda total: policy.log_probs(ArmStatistics(pulls, total))
        own = None if choices.arm is None else policy.choice_quadratic(ArmStatistics(pulls, total), choices.arm)
        if own is not None:
            value, slope, curvature = own
        elif policy.log_concave:
            made = lambda total: log_prob_of_choices(choices, log_probs(total))
            value, slope = jax.value_and_grad(made)(total)
            curvature = -jax.jacfwd(jax.grad(made))(total)
        else:
            values, jacobian = _value_and_jacobian(log_probs, total)
            jacobian = jnp.where(jnp.isfinite(values)[:, None], jacobian, 0)
            number = jnp.sum(choices.number).astype(total.dtype)
            curvature = _information_of_choice(jnp.exp(values) * number, jacobian)
            value, slope = log_prob_of_choices(choices, values), slope_of_choices(choices, jacobian)
        nothing = jnp.all(choices.number == 0)  # where nothing was chosen the policy need not say anything
        return jax.tree.map(lambda leaf: jnp.where(nothing, 0, leaf), Quadratics(value=value, slope=slope, curvature=curvature))

    return over_steps(one, record.pulls, record.running(path), record.choices)


def _information_of_choice(probability: Float[Array, " choices"], jacobian: Float[Array, "choices arms"]) -> Array:
    """The sum over choices of probability x slope x slope'; few of them one by one, as XLA on a CPU is slow at small matrices."""
    if probability.shape[0] > FEW_CHOICES:
        return jnp.einsum("i,ij,ik->jk", probability, jacobian, jacobian)
    return reduce(jnp.add, [share * jnp.outer(slope, slope) for share, slope in zip(probability, jacobian, strict=True)])


def _value_and_jacobian(function: Any, at: Array) -> tuple[Array, Array]:
    def both(value: Array) -> tuple[Array, Array]:
        result = function(value)
        return result, result

    jacobian, value = jax.jacfwd(both, has_aux=True)(at)
    return value, jacobian


def _smooth(
    record: Record, mean: Float[Array, " arms"], sigma: Float[Array, " arms"], path: Array, around: Quadratics
) -> Smoother:
    """The backward pass: what the choices after a step say about the sums before it, as a quadratic in the deviation."""
    num_arms = mean.shape[0]
    chosen = jax.nn.one_hot(record.arms, num_arms, dtype=path.dtype)
    prior, drift = 1 / record.variance(sigma), record.drift(mean, path)

    def body(carry: tuple[Array, Array], step: Any) -> tuple[tuple[Array, Array], Smoother]:
        information, score = carry
        chosen, prior, drift, slope, curvature = step
        pull = information @ chosen
        precision = prior + chosen @ pull
        push = drift * prior + chosen @ score
        information = information - jnp.outer(pull, pull) / precision + curvature
        score = score - pull * push / precision + slope
        return (information, score), Smoother(push=push, pull=pull, precision=precision)

    start = (jnp.zeros((num_arms, num_arms), path.dtype), jnp.zeros(num_arms, path.dtype))
    return jax.lax.scan(body, start, (chosen, prior, drift, around.slope, around.curvature), reverse=True)[1]


class StepSpread(NamedTuple):
    """Mean and variance of the deviation of each reward."""

    mean: Float[Array, " steps"]
    variance: Float[Array, " steps"]


def _follow(record: Record, smoother: Smoother) -> tuple[Gaussian, StepSpread]:
    """The forward pass: mean and covariance of the summed deviations, and the moments of each on its own."""
    num_arms, dtype = smoother.pull.shape[1], smoother.pull.dtype

    def body(walk: Gaussian, step: Any) -> tuple[Gaussian, StepSpread]:
        arm, (push, pull, precision) = step
        change = (push - pull @ walk.mean) / precision
        carried = -(walk.covariance @ pull) / precision
        chosen = (jnp.arange(num_arms, dtype=arm.dtype) == arm).astype(dtype)
        spread = (1 - pull @ carried) / precision
        covariance = (
            walk.covariance + jnp.outer(chosen, carried) + jnp.outer(carried, chosen) + spread * jnp.outer(chosen, chosen)
        )
        return Gaussian(mean=walk.mean + change * chosen, covariance=covariance), StepSpread(mean=change, variance=spread)

    start = Gaussian(mean=jnp.zeros(num_arms, dtype), covariance=jnp.zeros((num_arms, num_arms), dtype))
    return jax.lax.scan(body, start, (record.arms, smoother))


class PathRound(NamedTuple):
    """A round of the search for the most likely path.

    Fields:
        path: where it leads.
        walk: mean and covariance of the summed deviations from the path before it.
        change: the move as it was proposed, and `length`, the part of it that was taken.
    """

    path: Float[Array, " steps"]
    walk: Gaussian
    change: Float[Array, " steps"]
    length: Float[Array, ""]


def _improve(
    policy: BasePolicy, record: Record, sigma: Float[Array, " arms"], mean: Float[Array, " arms"], path: Array
) -> PathRound:
    """A Newton move towards the most likely path, cut short where that is better."""

    def height(path: Array) -> Array:
        total = record.running(path)
        log_probs = over_steps(lambda pulls, total: policy.log_probs(ArmStatistics(pulls, total)), record.pulls, total)
        prior = -jnp.square(record.drift(mean, path)) / record.variance(sigma) / 2
        return jnp.sum(prior + jax.vmap(log_prob_of_choices)(record.choices, log_probs))

    walk, (change, _) = _follow(record, _smooth(record, mean, sigma, path, _quadratics(policy, record, path)))
    lengths = jnp.asarray((0.0, *LENGTHS), path.dtype)
    heights = jax.lax.map(lambda length: height(path + length * change), lengths)
    length = lengths[jnp.nanargmax(heights)]
    return PathRound(path=path + length * change, walk=walk, change=change, length=length)


def most_likely_path(
    policy: BasePolicy,
    record: Record,
    mean: Float[Array, " arms"],
    sigma: Float[Array, " arms"],
    path: Float[Array, " steps"],
    rounds: int,
) -> Float[Array, " steps"]:
    """Rounds towards the rewards that are most likely given the arms."""
    improve = lambda path: (_improve(policy, record, sigma, mean, path).path, jnp.ones((), path.dtype))
    return search(improve, path, max_rounds=rounds, tolerance=0.0, dtype=path.dtype).state


def laplace(
    policy: BasePolicy, record: Record, sigma: Float[Array, " arms"], start: Float[Array, " arms"]
) -> tuple[Float[Array, " arms"], Float[Array, " steps"]]:
    """The maximum with the Gaussian in place of the density, and its most likely path: both move in the same rounds."""
    by_variance = 1 / jnp.square(sigma)

    def improve(at: tuple[Array, Array]) -> tuple[tuple[Array, Array], Array]:
        mean, path = at
        place = _improve(policy, record, sigma, mean, path)
        missing = -(off(record, path) + place.walk.mean) * by_variance
        information = place.walk.covariance * by_variance[:, None] * by_variance[None]
        move, length = newton_move(information, missing)
        far = jnp.maximum(length, jnp.max(jnp.abs(place.change) / jnp.sqrt(record.variance(sigma))))
        return (mean + place.length * move, place.path), far

    found = search(improve, (start, record.rewards), max_rounds=LAPLACE_ROUNDS, tolerance=CLOSE, dtype=start.dtype)
    return found.state


def newton_move(information: Float[Array, "arms arms"], score: Float[Array, " arms"]) -> tuple[Float[Array, " arms"], Array]:
    """The move to the maximum, damped, and its length in standard errors."""
    move = jnp.linalg.solve(information, score)
    length = jnp.sqrt(jnp.maximum(score @ move, 0))
    return damp(move, length, LONGEST_MOVE), length


def off(record: Record, path: Float[Array, " steps"]) -> Float[Array, " arms"]:
    """The sums of a path less those of the log."""
    return record.by_arm(path - record.rewards)


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
    walk, by_step = _follow(record, guide.smoother)
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
    around = _quadratics(held(policy), record, path)
    smoother = _smooth(record, *held((mean, sigma)), path, around)
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
