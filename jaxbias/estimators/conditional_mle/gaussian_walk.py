"""The density of Normal rewards given the arms, by a Gaussian that follows it closely: its most likely path and its moments.

Given the arms, the running sums of rewards are a random walk in as many dimensions as arms, and every choice is an
observation of where the walk was: log p(arm | sums). With each observation replaced by a quadratic around a reference path,
the walk is Gaussian and one backward pass over the steps gives it exactly (a Kalman smoother in information form); moving the
reference to its mean and repeating is a Newton search for the most likely path. The cost of a pass is steps x arms^2.

Everything is written in deviations from the reference path, so that long logs lose no digits. One trial; `vmap` for more.
"""

from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxbias._core.search import damp, search
from jaxbias.estimators.conditional_mle.record import Record
from jaxbias.likelihood import Choices, log_prob_of_choices, over_steps, slope_of_choices
from jaxbias.policies import ArmStatistics, BasePolicy

LENGTHS = (1.0, 0.5, 0.2, 0.05)  # of the search for the most likely path: a full Newton move, or the best part of it
FEW_CHOICES = 16  # arms: beyond, the program of one sum after the other is long to compile
LONGEST_MOVE = 3.0  # of a round, in standard errors: further away the quadratic says little
LAPLACE_ROUNDS = 20  # at most, towards the Gaussian's own maximum; five or six are usual
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


def quadratics(policy: BasePolicy, record: Record, path: Float[Array, " steps"]) -> Quadratics:
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


def smooth(
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


def moments_of_walk(record: Record, smoother: Smoother) -> tuple[Gaussian, StepSpread]:
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

    walk, (change, _) = moments_of_walk(record, smooth(record, mean, sigma, path, quadratics(policy, record, path)))
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
