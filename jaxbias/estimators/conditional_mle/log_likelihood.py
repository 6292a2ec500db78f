"""The conditional log-likelihood: the log-density of the rewards given the arms, with its normaliser.

The normaliser is the probability of the arms at the means. It comes from samples of the sums at those means, as in Newton's
method. For other means the samples count exp(tilt . sums) times as much, so that the derivative of the normaliser in the means is
the expected sum and its second derivative the covariance. The samples themselves are not differentiated.
"""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray

from jaxbias._core.chunks import LogChunks, as_many, log_keys, split_logs
from jaxbias._core.derivatives import held, implicit, undefined_in
from jaxbias._core.door import public
from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import Frame, compiled, split_numbers
from jaxbias._core.settings import as_float
from jaxbias.estimators.conditional_mle.checks import check_arguments, policy_of
from jaxbias.estimators.conditional_mle.newton import KnownSigma
from jaxbias.estimators.conditional_mle.normal_rewards import PATHS_AT_ONCE
from jaxbias.estimators.conditional_mle.record import condensed_record_of, record_of
from jaxbias.estimators.conditional_mle.samples_at import STATES_AT_ONCE, Way, choose_way, samples_at, setting_scores
from jaxbias.estimators.conditional_mle.weighted_samples import Samples
from jaxbias.history import History, check_history
from jaxbias.likelihood import check_means, log_density, reward_log_prob
from jaxbias.policies import Policy, check_policy
from jaxbias.rewards import Family, Normal


@public
def conditional_log_likelihood(
    key: PRNGKeyArray,
    history: History,
    policy: Policy,
    family: Family,
    mean: ArrayLike,
    *,
    num_paths: int = 1024,
) -> Float[Array, "*trials"]:
    """The log-likelihood of the means given the arms that were chosen: `log_density` less the log-probability of the arms.

        log density(rewards; mean)  -  log P(arms; mean)

    Its gradient in the means is the score, its Hessian minus the information, both from the samples that give the value; its
    gradients in the rewards and in the settings of policy and family are first derivatives. Under one key it is a smooth function
    of the means, up to where samples are resampled, so that it can be maximised, or be a `numpyro.factor`.

    Arguments:
        key: a `jax.random.key`; the Monte Carlo error of the normaliser comes from it. For few Bernoulli rewards there is none.
        history: one trial or many.
        policy: how the arms were chosen; its choices must have been random.
        family: `Normal` with its sigma, `Bernoulli`, `Poisson` or `Exponential`.
        mean: (arms,), or one row for each of many trials.
        num_paths: sampled for the normaliser; four times as many particles where it takes particles.

    Returns:
        One number, or one for each trial.

    >>> import jax, jax.numpy as jnp, jaxbias as jb
    >>> policy, family = jb.Greedy(tau=1.0), jb.Normal(sigma=1.0)
    >>> history = jb.simulate(jax.random.key(0), policy, family, [1.0, 0.75], num_steps=12)
    >>> likelihood = lambda mean: jb.conditional_log_likelihood(jax.random.key(1), history, policy, family, mean)
    >>> estimate = jb.conditional_mle(jax.random.key(1), history, policy, family)
    >>> bool(jnp.all(jnp.abs(jax.grad(likelihood)(estimate.mean)) < 0.1))  # the score is zero at the maximum
    True
    """
    if num_paths < 2:
        raise ArgumentError("num_paths", num_paths, "2 or more")
    checked, mean = check_history(history), as_float(mean)
    own_family = check_means(checked, family, mean)
    check_arguments(*held((history, policy, family)), "newton", 0.95, given_draws=False)
    density = log_density(history, policy, family, mean)
    single = checked.arms.ndim == 1
    logs = dataclasses.replace(held(checked), held_out=None, draws=None, lengths=None)
    logs = as_many(logs) if single else logs
    means = jnp.broadcast_to(mean, (logs.arms.shape[0], logs.num_arms)).astype(logs.rewards.dtype)
    normaliser = _log_normalisers(key, logs, (check_policy(policy, logs.num_arms), own_family), means, num_paths)
    return density - (normaliser[0] if single else normaliser)


def _log_normalisers(
    key: PRNGKeyArray, logs: History, problem: tuple[Any, Any], means: Float[Array, "trials arms"], num_paths: int
) -> Float[Array, " trials"]:
    """The log-probabilities of the arms, with their derivatives in the means and in the settings."""
    keys, (policy, family) = log_keys(key, logs.arms.shape[0]), held(problem)
    way = choose_way(policy, family, logs, num_paths)
    at_once = STATES_AT_ONCE if way.shape is not None else PATHS_AT_ONCE
    chunks = split_logs(at_once // way.size, (keys, logs, means, policy, family))
    values = chunks.collect(_normalise(policy, family, keys, logs, means, chunks=chunks, way=way))
    numbers, frame = split_numbers(problem)
    slopes = partial(_slopes, frame=frame, chunks=chunks, way=way)
    nothing = jnp.zeros((values.shape[0], 0), values.dtype)
    context = (keys, logs, means)
    return implicit(slopes, values[:, None], nothing[:, None], nothing, numbers, context)[:, 0]


def _slopes(which: tuple[int, ...], numbers: list[Any], context: Any, *, frame: Frame, chunks: LogChunks, way: Way) -> Array:
    keys, logs, means = context
    found = setting_scores(numbers, keys, logs, means, frame=frame, which=which, chunks=chunks, way=way)
    return chunks.collect(found).average[:, None]


@partial(compiled, static=("chunks", "way"))
def _normalise(policy: Any, family: Any, keys: Any, history: History, means: Array, chunks: LogChunks, way: Way) -> Array:
    def one(trial: tuple[Any, History, Array]) -> Array:
        key, log, mean = trial
        samples = samples_at(key, policy_of(policy, log), family, log, held(mean), way)
        return _tilted(samples, family, log, mean)

    return chunks.map(one, (keys, history, means))


def _tilted(samples: Samples, family: Any, log: History, mean: Float[Array, " arms"]) -> Float[Array, ""]:
    """The log-probability of the arms, as a function of means around those of the samples."""
    at = held(mean)
    if isinstance(family, Normal):
        parameters = KnownSigma(jnp.broadcast_to(jnp.asarray(family.sigma, mean.dtype), mean.shape))
        tilt = parameters.tilt(at, mean - at)
        apart = parameters.log_normaliser(condensed_record_of(log), at, mean - at)
    else:
        low, high = family.mean_range
        inside = (mean > low) & (mean < high)
        mean = undefined_in(~inside, mean)
        safe = jnp.where(inside, mean, family.from_natural(jnp.full_like(mean, -1)))
        tilt = jnp.where(inside, family.natural(safe) - family.natural(held(safe)), 0)
        record = record_of(log)
        apart = sum(sign * reward_log_prob(family, means, record.arms, record.rewards) for sign, means in ((1, mean), (-1, at)))
    log_weight = samples.log_weight + jnp.tensordot(tilt, samples.total, axes=1)
    log_size = jnp.log(jnp.asarray(log_weight.size, log_weight.dtype))
    curved = tilt @ samples.known @ tilt / 2
    return samples.constant + jax.nn.logsumexp(log_weight) - log_size + curved + apart
