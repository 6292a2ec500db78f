"""The density of Normal rewards given the arms, by a Gaussian that follows it closely, and importance weights.

Given the arms, the running sums of rewards are a random walk in as many dimensions as arms, and every choice is an
observation of where the walk was: log p(arm | sums). With each observation replaced by a quadratic around a reference path,
the walk is Gaussian and one backward pass over the steps gives it exactly (a Kalman smoother in information form); moving the
reference to its mean and repeating is a Newton search for the most likely path. A forward pass then draws whole paths, and
what the quadratics miss is their importance weight. The cost is steps x arms^2 for a pass, steps x arms for each path drawn.

Everything is written in deviations from the reference path, so that long logs lose no digits. One trial; `vmap` for more.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxbias.layout import trials_minor
from jaxbias.likelihood import statistics_before
from jaxbias.policies import ArmStatistics, Policy

STEP_LENGTHS = (1.0, 0.5, 0.2, 0.05)  # of the search for the most likely path: a full Newton step, or the best part of it


class Log(NamedTuple):
    """One trial: what was pulled, and what stays fixed while the rewards vary."""

    arms: Int[Array, " steps"]
    rewards: Float[Array, " steps"]
    forced: Bool[Array, " steps"]
    pulls: Int[Array, "steps arms"]


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
    log_normaliser: Float[Array, ""]


class Gaussian(NamedTuple):
    """Mean and covariance of the deviation."""

    mean: Float[Array, " arms"]
    covariance: Float[Array, "arms arms"]


class Moments(NamedTuple):
    """Of the summed rewards of each arm, given the arms.

    Fields:
        log_normaliser: of the density, that is, the log-probability of the arms.
        total: expectation of the sums, less those of the log.
        covariance: of the sums.
        error: covariance of the Monte Carlo error of `total`.
        effective: the share of the paths that the weights leave.
    """

    log_normaliser: Float[Array, ""]
    total: Float[Array, " arms"]
    covariance: Float[Array, "arms arms"]
    error: Float[Array, "arms arms"]
    effective: Float[Array, ""]


def make_log(arms: Int[Array, " steps"], rewards: Float[Array, " steps"], forced: Bool[Array, " steps"], num_arms: int) -> Log:
    """A trial with its pulls before each step."""
    return Log(arms=arms, rewards=rewards, forced=forced, pulls=statistics_before(arms, rewards, num_arms).pulls)


def _running(arms: Int[Array, " steps"], path: Float[Array, " steps"], num_arms: int) -> Float[Array, "steps arms"]:
    return statistics_before(arms, path, num_arms).total


def _quadratics(policy: Policy, log: Log, path: Float[Array, " steps"]) -> Quadratics:
    """The curvature is the Fisher information of the choice: for a softmax of indices minus the second derivative itself,
    for every other policy of the same size and never negative."""

    def one(pulls: Array, total: Array, arm: Array, forced: Array) -> Quadratics:
        log_probs, jacobian = _value_and_jacobian(lambda total: policy.log_probs(ArmStatistics(pulls, total)), total)
        likely = jnp.isfinite(log_probs)
        jacobian = jnp.where(likely[:, None] & ~forced, jacobian, 0)
        curvature = jnp.einsum("i,ij,ik->jk", jnp.where(likely, jnp.exp(log_probs), 0), jacobian, jacobian)
        return Quadratics(value=jnp.where(forced, 0, log_probs[arm]), slope=jacobian[arm], curvature=curvature)

    return jax.vmap(one)(log.pulls, _running(log.arms, path, log.pulls.shape[1]), log.arms, log.forced)


def _value_and_jacobian(function: Any, at: Array) -> tuple[Array, Array]:
    def both(value: Array) -> tuple[Array, Array]:
        result = function(value)
        return result, result

    jacobian, value = jax.jacfwd(both, has_aux=True)(at)
    return value, jacobian


def _smooth(log: Log, mean: Float[Array, " arms"], sigma: Float[Array, " arms"], path: Array, around: Quadratics) -> Smoother:
    """The backward pass: what the choices after a step say about the sums before it, as a quadratic in the deviation."""
    num_arms = mean.shape[0]
    chosen = jax.nn.one_hot(log.arms, num_arms, dtype=path.dtype)
    prior = 1 / jnp.square(sigma)[log.arms]
    drift = mean[log.arms] - path

    def body(carry: tuple[Array, Array, Array], step: Any) -> tuple[tuple[Array, Array, Array], tuple[Array, Array, Array]]:
        information, score, constant = carry
        chosen, prior, drift, value, slope, curvature = step
        pull = information @ chosen
        precision = prior + chosen @ pull
        push = drift * prior + chosen @ score
        constant += value + (jnp.square(push) / precision - jnp.square(drift) * prior - jnp.log(precision / prior)) / 2
        information = information - jnp.outer(pull, pull) / precision + curvature
        score = score - pull * push / precision + slope
        return (information, score, constant), (push, pull, precision)

    start = (jnp.zeros((num_arms, num_arms), path.dtype), jnp.zeros(num_arms, path.dtype), jnp.zeros((), path.dtype))
    (_, _, constant), parts = jax.lax.scan(body, start, (chosen, prior, drift, *around), reverse=True)
    return Smoother(*parts, log_normaliser=constant)


def _draw(log: Log, smoother: Smoother, noise: Float[Array, "steps *paths"]) -> Float[Array, "steps *paths"]:
    """The forward pass: deviations of the rewards from the reference."""
    num_arms = smoother.pull.shape[1]

    def body(deviation: Array, step: Any) -> tuple[Array, Array]:
        arm, push, pull, precision, noise = step
        change = (push - jnp.tensordot(pull, deviation, axes=1)) / precision + noise * jax.lax.rsqrt(precision)
        return deviation.at[arm].add(change), change

    start = jnp.zeros((num_arms, *noise.shape[1:]), noise.dtype)
    steps = (log.arms, smoother.push, smoother.pull, smoother.precision, noise)
    return jax.lax.scan(body, start, steps)[1]


def most_likely_path(
    policy: Policy, log: Log, mean: Float[Array, " arms"], sigma: Float[Array, " arms"], path: Float[Array, " steps"], rounds: int
) -> Float[Array, " steps"]:
    """Newton steps towards the rewards that are most likely given the arms, each cut short where that is better."""

    def height(path: Array) -> Array:
        total = _running(log.arms, path, mean.shape[0])
        log_probs = jax.vmap(lambda pulls, total: policy.log_probs(ArmStatistics(pulls, total)))(log.pulls, total)
        chosen = jnp.take_along_axis(log_probs, log.arms[:, None], axis=1)[:, 0]
        prior = -jnp.square((path - mean[log.arms]) / sigma[log.arms]) / 2
        return jnp.sum(prior + jnp.where(log.forced, 0, chosen))

    def improve(_: Any, path: Array) -> Array:
        smoother = _smooth(log, mean, sigma, path, _quadratics(policy, log, path))
        change = _draw(log, smoother, jnp.zeros_like(path))
        lengths = jnp.asarray((0.0, *STEP_LENGTHS), path.dtype)
        heights = jax.lax.map(lambda length: height(path + length * change), lengths)
        return path + lengths[jnp.nanargmax(heights)] * change

    return jax.lax.fori_loop(0, rounds, improve, path)


def conditional_moments(
    policy: Policy,
    log: Log,
    mean: Float[Array, " arms"],
    sigma: Float[Array, " arms"],
    path: Float[Array, " steps"],
    noise: Float[Array, "steps pairs"],
) -> Moments:
    """Moments of the summed rewards given the arms, from paths drawn in mirrored pairs around the reference."""
    around = _quadratics(policy, log, path)
    smoother = _smooth(log, mean, sigma, path, around)
    num_arms, pairs = mean.shape[0], noise.shape[1]
    total = _running(log.arms, path, num_arms)

    def body(carry: tuple[Array, Array, Gaussian], step: Any) -> tuple[tuple[Array, Array, Gaussian], None]:
        deviation, log_weight, exact = carry
        arm, forced, pulls, total, value, slope, curvature, push, pull, precision, noise = step
        at = trials_minor(total[None] + deviation)
        log_probs = jax.vmap(lambda total: policy.log_probs(ArmStatistics(pulls, total)))(at)
        quadratic = value + _dot(deviation, slope) - _dot(deviation, deviation @ curvature) / 2
        log_weight = log_weight + jnp.where(forced, 0, log_probs[:, arm] - quadratic)
        change = (push - _dot(deviation, pull)) / precision + jnp.concatenate([noise, -noise]) * jax.lax.rsqrt(precision)
        chosen = (jnp.arange(num_arms, dtype=arm.dtype) == arm)[None]
        deviation = trials_minor(deviation + jnp.where(chosen, change[:, None], 0))
        return (deviation, log_weight, _advance(exact, arm, push, pull, precision)), None

    exact = Gaussian(mean=jnp.zeros(num_arms, path.dtype), covariance=jnp.zeros((num_arms, num_arms), path.dtype))
    start = (trials_minor(jnp.zeros((2 * pairs, num_arms), path.dtype)), jnp.zeros(2 * pairs, path.dtype), exact)
    steps = (log.arms, log.forced, log.pulls, total, *around, smoother.push, smoother.pull, smoother.precision, noise)
    (deviation, log_weight, exact), _ = jax.lax.scan(body, start, steps)
    reference = jnp.zeros(num_arms, path.dtype).at[log.arms].add(path - log.rewards)
    return _weighted(smoother, exact, deviation.T, log_weight, reference)


def _dot(left: Float[Array, "paths arms"], right: Array) -> Float[Array, " paths"]:
    return jnp.sum(left * (right if right.ndim == 2 else right[None]), axis=1)


def _advance(exact: Gaussian, arm: Array, push: Array, pull: Array, precision: Array) -> Gaussian:
    """The deviation after one more step of the Gaussian walk, exactly."""
    move = jnp.eye(pull.shape[0], dtype=pull.dtype).at[arm].add(-pull / precision)
    covariance = (move @ exact.covariance @ move.T).at[arm, arm].add(1 / precision)
    return Gaussian(mean=(move @ exact.mean).at[arm].add(push / precision), covariance=covariance)


def _weighted(smoother: Smoother, exact: Gaussian, deviation: Array, log_weight: Array, reference: Array) -> Moments:
    """Weighted moments of the drawn deviations; where the weights are even, the Gaussian's own covariance less what was drawn
    of it is added, which leaves only the part of the error that the weights make."""
    paths = log_weight.shape[0]
    log_mean_weight = jax.nn.logsumexp(log_weight) - jnp.log(jnp.asarray(paths, log_weight.dtype))
    weight = jnp.exp(log_weight - log_mean_weight) / paths
    total = deviation @ weight
    centred = deviation - total[:, None]
    by_pair = jnp.sum((centred * weight[None]).reshape(-1, 2, paths // 2), axis=1)  # the two of a pair are not independent
    effective = 1 / (paths * jnp.sum(jnp.square(weight)))
    around_mean = deviation - exact.mean[:, None]
    known = exact.covariance - (around_mean / paths) @ around_mean.T
    return Moments(
        log_normaliser=smoother.log_normaliser + log_mean_weight,
        total=reference + total,
        covariance=(centred * weight[None]) @ centred.T + jnp.where(effective > 0.5, known, 0),
        error=by_pair @ by_pair.T,
        effective=effective,
    )
