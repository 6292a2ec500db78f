"""The summed rewards given the arms at given means, for any policy and family, in the best way there is; and their scores.

Normal rewards of a policy of pulls and sums by paths of a Gaussian, few Bernoulli rewards exactly, all others by particles.

The score of a setting is the derivative of the log-density of a sample in it. Its average is the derivative of the
log-probability of the arms; its covariance with the sums, that of their expectation.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxbias._core.chunks import LogChunks
from jaxbias._core.derivatives import held
from jaxbias._core.jit import Frame, compiled, join_numbers
from jaxbias._core.settings import evaluate, is_concrete
from jaxbias.estimators.conditional_mle.checks import policy_of
from jaxbias.estimators.conditional_mle.gaussian_paths import sample_paths
from jaxbias.estimators.conditional_mle.gaussian_walk import most_likely_path
from jaxbias.estimators.conditional_mle.newton import ROUNDS, make_noise
from jaxbias.estimators.conditional_mle.particles import sample_particles
from jaxbias.estimators.conditional_mle.record import condensed_record_of, record_of
from jaxbias.estimators.conditional_mle.success_counts import (
    MOST_STATES,
    TABLE_STATES,
    Grid,
    as_samples,
    count_paths,
    table_sizes,
)
from jaxbias.estimators.conditional_mle.unknown_sigma import MeansAndSigma
from jaxbias.estimators.conditional_mle.weighted_samples import Samples
from jaxbias.estimators.sigma import sigma_of_arm, spread_of
from jaxbias.history import History, pulls_of
from jaxbias.likelihood import choice_log_probs
from jaxbias.policies import BasePolicy
from jaxbias.rewards import Bernoulli, Normal, UnknownSigma

PARTICLES_PER_PATH = 4  # as a particle costs a quarter of a path
STATES_AT_ONCE = 2**20  # logs x states of the exact recursion in memory together: several arrays of 8 MB


class Way(NamedTuple):
    """How the samples of some logs are made, known before compilation.

    Fields:
        num_paths: how many of them.
        shape: of the grid of successes; None where it is not exact.
        nodes: of the policy's tables, where it has them.
        rows: of the tables of particles.
    """

    num_paths: int
    shape: tuple[int, ...] | None = None
    nodes: int | None = None
    rows: int | None = None

    @property
    def size(self) -> int:
        """How many samples of one log there are."""
        return math.prod(self.shape) if self.shape is not None else self.num_paths


def choose_way(policy: BasePolicy, family: Any, history: History, num_paths: int) -> Way:
    """The same for all logs, so that one program serves them; at any means, so that no number of successes is left out."""
    num_paths += num_paths % 2
    if isinstance(family, Normal | UnknownSigma):
        return Way(num_paths if policy.keeps_statistics else PARTICLES_PER_PATH * num_paths)
    if not isinstance(family, Bernoulli):
        return Way(PARTICLES_PER_PATH * num_paths)
    pulls = np.full((1, history.num_arms), history.num_steps)
    if is_concrete(history.arms):
        pulls = np.asarray(evaluate(pulls_of, history.arms, history.num_arms)).max(axis=0, keepdims=True)
    shape = tuple(table_sizes(pulls, pulls.astype(float))[0].tolist())
    nodes = policy.table_nodes(history.num_steps)
    if policy.keeps_statistics and math.prod(shape) <= (MOST_STATES if nodes is None else TABLE_STATES):
        return Way(num_paths, shape=shape, nodes=nodes)
    return Way(PARTICLES_PER_PATH * num_paths, nodes=nodes, rows=max(shape))


def samples_at(key: Any, policy: BasePolicy, family: Any, log: History, at: Float[Array, " parameters"], way: Way) -> Samples:
    """The sums of one log, less its own, at some means; with an unknown sigma at its logarithm too, and the squares."""
    if isinstance(family, UnknownSigma):
        return _with_squares(key, policy, family, log, at, way)
    if isinstance(family, Normal) and policy.keeps_statistics:
        sigma = jnp.broadcast_to(jnp.asarray(family.sigma, at.dtype), at.shape)
        record = condensed_record_of(log)
        path = most_likely_path(*held((policy, record, at, sigma, record.rewards)), ROUNDS)
        return sample_paths(policy, record, at, sigma, path, make_noise(key, record, way.num_paths // 2))
    record = record_of(log)
    if way.shape is not None:
        grid = Grid(shape=way.shape, order=jnp.arange(log.num_arms))
        return as_samples(*count_paths(policy, record, at, grid, way.nodes), record, grid)
    tables = None if way.nodes is None or way.rows is None else (way.rows, way.nodes)
    return sample_particles(key, policy, family, record, at, way.num_paths, tables)


def _with_squares(key: Any, policy: BasePolicy, family: UnknownSigma, log: History, at: Array, way: Way) -> Samples:
    of_arm, record = sigma_of_arm(family, log.num_arms), record_of(log)
    parameters = MeansAndSigma(of_arm=of_arm, is_free=spread_of(log, of_arm).is_free)
    mean, log_sigma = parameters.split(at)
    sigma = jnp.exp(log_sigma)[of_arm]
    path = most_likely_path(*held((policy, record, mean, sigma, record.rewards)), ROUNDS)
    noise = make_noise(key, record, way.num_paths // 2)
    return parameters.statistics(sample_paths(policy, record, mean, sigma, path, noise, squares=True))


class SettingScores(NamedTuple):
    """Of each of some settings, given the arms.

    Fields:
        average: the derivative of the log-probability of the arms.
        covariance: with the statistics, the derivative of their expectation.
    """

    average: Float[Array, "*trials settings"]
    covariance: Float[Array, "*trials statistics settings"]


@partial(compiled, static=("frame", "which", "chunks", "way"))
def setting_scores(
    numbers: list[Any],
    keys: Any,
    history: History,
    at: Float[Array, "trials parameters"],
    frame: Frame,
    which: tuple[int, ...],
    chunks: LogChunks,
    way: Way,
) -> SettingScores:
    """The scores of some of the numbers of (policy, family), each of them flattened; NaN where a choice was not random."""

    def one(trial: tuple[Any, History, Array]) -> SettingScores:
        key, log, at = trial

        def log_weight(moved: list[Array]) -> tuple[Array, Samples]:
            changed = list(numbers)
            for place, number in zip(which, moved, strict=True):
                changed[place] = number
            policy, family = join_numbers(changed, frame)
            samples = samples_at(key, policy_of(policy, log), family, log, at, way)
            return samples.log_weight + samples.constant, samples

        moved = [jnp.asarray(numbers[place], at.dtype) for place in which]
        slopes, samples = jax.jacfwd(log_weight, has_aux=True)(moved)
        score = jnp.concatenate([slope.reshape(*samples.log_weight.shape, -1) for slope in slopes], axis=-1)
        return _undefined(numbers, frame, which, log, _summarise(samples, score))

    return chunks.map(one, (keys, history, at))


def _summarise(samples: Samples, score: Float[Array, "members groups settings"]) -> SettingScores:
    share = jax.nn.softmax(samples.log_weight, axis=(0, 1))
    score = jnp.where(share[..., None] > 0, score, 0)
    average = jnp.einsum("mg,mgs->s", share, score)
    centred = samples.total - jnp.sum(samples.total * share[None], axis=(1, 2), keepdims=True)
    return SettingScores(average=average, covariance=jnp.einsum("kmg,mg,mgs->ks", centred, share, score))


def _undefined(numbers: list[Any], frame: Frame, which: tuple[int, ...], log: History, scores: SettingScores) -> SettingScores:
    """NaN for settings of a policy that gave an arm no chance: what it might have chosen instead has no derivative."""
    policy, _ = join_numbers(numbers, frame)
    of_policy = len(jax.tree.leaves(policy))
    sizes = [max(jnp.size(numbers[place]), 1) for place in which]
    is_policy = np.repeat([place < of_policy for place in which], sizes)
    log_probs = choice_log_probs(policy_of(policy, log), log.arms, log.rewards, log.num_arms, log.seen_steps)
    sharp = jnp.any(jnp.isneginf(log_probs) & ~log.forced_steps[:, None])
    bad = sharp & jnp.asarray(is_policy)
    return jax.tree.map(lambda leaf: jnp.where(jnp.broadcast_to(bad, leaf.shape), jnp.nan, leaf), scores)
