"""The fits of Normal rewards, many logs at once: by paths or by chains, with sigma known or not.

A compiled program for each, that goes over the logs in chunks.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxbias._core.chunks import LogChunks, split_logs
from jaxbias._core.jit import compiled
from jaxbias._core.lengths import padded_length
from jaxbias.estimators.conditional_mle.chain_samples import sample_chains, start_chains
from jaxbias.estimators.conditional_mle.checks import LogProblem, policy_of
from jaxbias.estimators.conditional_mle.contrastive_divergence import ContrastiveDivergence, Fit, contrastive_divergence
from jaxbias.estimators.conditional_mle.gaussian_walk import laplace, most_likely_path
from jaxbias.estimators.conditional_mle.hierarchical import posterior_from_samples
from jaxbias.estimators.conditional_mle.hierarchical_prior import NormalPrior
from jaxbias.estimators.conditional_mle.markov_chains import Sampler
from jaxbias.estimators.conditional_mle.newton import (
    ROUNDS,
    BoundedFit,
    NewtonFit,
    by_paths,
    covariance_at,
    newton,
    newton_with_chains,
    with_summary,
)
from jaxbias.estimators.conditional_mle.record import condensed_record_of, record_of
from jaxbias.estimators.conditional_mle.unknown_sigma import MeansAndSigma, chains_with_sigma, newton_with_sigma
from jaxbias.estimators.shrinkage.estimator import shrunken_means, summarise_log
from jaxbias.estimators.sigma import Spread, sigma_of_arm, spread_of
from jaxbias.history import History

PATHS_AT_ONCE = 2**15  # logs x paths in memory together: the arrays of a step then stay in the cache
SEARCHED_AT_ONCE = 2**11  # likewise on a CPU where each log has a search of its own: few wait for the slowest, two at least
MATRICES_AT_ONCE = 2**18  # logs x steps x arms^2 in memory together: several arrays of 1 MB, for an integral of 100 MB
DENSITIES_AT_ONCE = 2**18  # logs x chains x steps x arms of densities computed together: 1 MB, which stays in the cache
CHAIN_NUMBERS_AT_ONCE = 2**26  # logs x chains x samples x steps in memory together: 256 MB


class Sizes(NamedTuple):
    """How much is sampled.

    Fields:
        pairs: of mirrored paths.
        sampler, num_chains: of the chains that replace them; a sampler of None is for paths.
        max_rounds: how often samples are made, at most.
    """

    pairs: int
    sampler: Sampler | None
    num_chains: int
    max_rounds: int

    def logs_at_once(self, num_steps: int) -> int:
        """How many logs fit into memory."""
        if self.sampler is None:
            at_once = SEARCHED_AT_ONCE if jax.default_backend() == "cpu" else PATHS_AT_ONCE
            return max(at_once // (2 * self.pairs), 2)
        return CHAIN_NUMBERS_AT_ONCE // (self.num_chains * self.sampler.num_samples * padded_length(num_steps))


def fit_newton(keys: Any, problem: LogProblem, sizes: Sizes) -> NewtonFit:
    """The maximum for each log, with a known sigma."""
    history, policy, family = problem
    chunks = split_logs(sizes.logs_at_once(history.num_steps), (keys, problem), 2 * sizes.pairs * history.num_steps)
    counts = dict(num_chains=sizes.num_chains, max_rounds=sizes.max_rounds)
    if sizes.sampler is not None:
        return chunks.collect(_fit_chains(policy, family, keys, history, sizes.sampler, chunks=chunks, **counts))
    # A pass of its own, as it needs little memory for each log and runs best with many at once.
    many = split_logs(MATRICES_AT_ONCE // (padded_length(history.num_steps) * history.num_arms**2), (keys, problem))
    starts = many.collect(_laplace(policy, family, history, chunks=many))
    found = _fit_paths(policy, family, keys, history, starts, chunks=chunks, num_pairs=sizes.pairs, max_rounds=sizes.max_rounds)
    return chunks.collect(found)


def fit_posterior(keys: Any, problem: LogProblem, sizes: Sizes, level: float) -> BoundedFit:
    """The posterior mean for each log under the hierarchical prior, with a known sigma."""
    history, policy, family = problem
    chunks = split_logs(sizes.logs_at_once(history.num_steps), (keys, problem))
    counts = dict(pairs=sizes.pairs, num_chains=sizes.num_chains, max_rounds=sizes.max_rounds)
    confidence = jnp.asarray(level)
    fit = _fit_posterior if sizes.sampler is None else _posterior_by_chains
    return chunks.collect(fit(policy, family, keys, history, sizes.sampler, confidence, chunks=chunks, **counts))


def fit_sigma(keys: Any, problem: LogProblem, sizes: Sizes) -> tuple[NewtonFit, Spread]:
    """The maximum for each log in the means and in sigma."""
    history, policy, family = problem
    chunks = split_logs(sizes.logs_at_once(history.num_steps), (keys, problem))
    counts = dict(pairs=sizes.pairs, num_chains=sizes.num_chains, max_rounds=sizes.max_rounds)
    fit = _fit_sigma if sizes.sampler is None else _sigma_by_chains
    return chunks.collect(fit(policy, family, keys, history, sizes.sampler, chunks=chunks, **counts))


def fit_divergence(keys: Any, problem: LogProblem, settings: ContrastiveDivergence, sizes: Sizes) -> tuple[Fit, Array]:
    """Where contrastive divergence ends for each log, and the inverse information there."""
    history, policy, family = problem
    numbers = settings.num_chains * history.num_steps * history.num_arms
    chunks = split_logs(min(PATHS_AT_ONCE // (2 * sizes.pairs), DENSITIES_AT_ONCE // numbers), (keys, problem))
    counts = dict(num_pairs=sizes.pairs, num_chains=sizes.num_chains)
    found = _fit_divergence(policy, family, keys, history, settings, sizes.sampler, chunks=chunks, **counts)
    return chunks.collect(found)


@partial(compiled, static=("chunks",), pads=("history",))
def _laplace(policy: Any, family: Any, history: History, chunks: LogChunks) -> tuple[Array, Array]:
    def one(trial: History) -> tuple[Array, Array]:
        return laplace(policy_of(policy, trial), condensed_record_of(trial), _sigma(family, trial), trial.statistics.mean)

    return chunks.map(one, history)


@partial(compiled, static=("chunks", "num_pairs", "max_rounds"), pads=("history",))
def _fit_paths(
    policy: Any,
    family: Any,
    keys: Any,
    history: History,
    starts: tuple[Array, Array],
    chunks: LogChunks,
    num_pairs: int,
    max_rounds: int,
) -> NewtonFit:
    sigma = _sigma(family, history)

    def one(trial: tuple[Any, History, tuple[Array, Array]]) -> NewtonFit:
        key, log, start = trial
        given, record = policy_of(policy, log), condensed_record_of(log)
        return newton(key, given, sigma, record, *start, num_pairs, max_rounds, chunks.paths)

    return chunks.map(one, (keys, history, starts))


@partial(compiled, static=("chunks", "num_chains", "max_rounds"))
def _fit_chains(
    policy: Any,
    family: Any,
    keys: Any,
    history: History,
    sampler: Sampler,
    chunks: LogChunks,
    num_chains: int,
    max_rounds: int,
) -> NewtonFit:
    def one(trial: tuple[Any, History]) -> NewtonFit:
        key, log = trial
        start, given = log.statistics.mean, policy_of(policy, log)
        return newton_with_chains(key, given, family, record_of(log), start, num_chains, sampler, max_rounds)

    return chunks.map(one, (keys, history))


def _posterior(
    policy: Any,
    family: Any,
    keys: Any,
    history: History,
    sampler: Sampler | None,
    level: Array,
    chunks: LogChunks,
    pairs: int,
    num_chains: int,
    max_rounds: int,
) -> BoundedFit:
    sigma = _sigma(family, history)

    def one(trial: tuple[Any, History]) -> BoundedFit:
        key, log = trial
        given, start = policy_of(policy, log), shrunken_means(family, summarise_log(log))
        if sampler is not None:
            record = record_of(log)
            sample = lambda mean, chains, by=sampler: sample_chains(key, given, family, record, mean, chains, by)
            chains = start_chains(record, num_chains)
            fit, chains = posterior_from_samples(sample, NormalPrior(sigma), record, start, chains, level, max_rounds)
            return fit._replace(newton=with_summary(fit.newton, chains, num_chains * sampler.num_samples))
        record = condensed_record_of(log)
        path = most_likely_path(given, record, start, sigma, record.rewards, ROUNDS)
        sample = by_paths(key, given, sigma, record, pairs)
        return posterior_from_samples(sample, NormalPrior(sigma), record, start, path, level, max_rounds)[0]

    return chunks.map(one, (keys, history))


def _with_sigma(
    policy: Any,
    family: Any,
    keys: Any,
    history: History,
    sampler: Sampler | None,
    chunks: LogChunks,
    pairs: int,
    num_chains: int,
    max_rounds: int,
) -> tuple[NewtonFit, Spread]:
    of_arm = sigma_of_arm(family, history.num_arms)

    def one(trial: tuple[Any, History]) -> tuple[NewtonFit, Spread]:
        key, log = trial
        spread = spread_of(log, of_arm)
        parameters = MeansAndSigma(of_arm=of_arm, is_free=spread.is_free)
        start = (log.statistics.mean, spread.log_sigma(spread.pulls))
        problem = (key, policy_of(policy, log), parameters, record_of(log), *start)
        if sampler is None:
            return newton_with_sigma(*problem, pairs, max_rounds), spread
        return chains_with_sigma(*problem, num_chains, sampler, max_rounds), spread

    return chunks.map(one, (keys, history))


# A chain moves every reward, so that it takes logs as they are.
_BY_PATHS = partial(compiled, static=("chunks", "pairs", "num_chains", "max_rounds"), pads=("history",))
_BY_CHAINS = partial(compiled, static=("chunks", "pairs", "num_chains", "max_rounds"))
_fit_posterior, _posterior_by_chains = _BY_PATHS(_posterior), _BY_CHAINS(_posterior)
_fit_sigma, _sigma_by_chains = _BY_PATHS(_with_sigma), _BY_CHAINS(_with_sigma)


@partial(compiled, static=("chunks", "num_pairs", "num_chains"))
def _fit_divergence(
    policy: Any,
    family: Any,
    keys: Any,
    history: History,
    settings: ContrastiveDivergence,
    sampler: Sampler | None,
    chunks: LogChunks,
    num_pairs: int,
    num_chains: int,
) -> tuple[Fit, Array]:
    def one(trial: tuple[Any, History]) -> tuple[Fit, Array]:
        (fit_key, samples_key), log, given = jax.random.split(trial[0]), trial[1], policy_of(policy, trial[1])
        steps = (log.arms, log.rewards, log.forced_steps)
        fit = contrastive_divergence(fit_key, given, family, *steps, history.num_arms, settings, log.seen_steps)
        if fit.covariance is not None:
            return fit, fit.covariance
        if sampler is None:
            sigma = _sigma(family, history)
            return fit, covariance_at(samples_key, given, sigma, condensed_record_of(log), fit.mean, num_pairs)
        problem = (samples_key, given, family, record_of(log), fit.mean)
        return fit, newton_with_chains(*problem, num_chains, sampler, max_rounds=1).covariance

    return chunks.map(one, (keys, history))


def _sigma(family: Any, history: History) -> Float[Array, " arms"]:
    return jnp.broadcast_to(jnp.asarray(family.sigma, history.rewards.dtype), (history.num_arms,))
