"""The conditional maximum likelihood estimator: the means that make the rewards most likely, given the arms that were chosen."""

import dataclasses
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from jaxbias.compiling import compiled
from jaxbias.estimators.batches import Batches, split_into_batches
from jaxbias.estimators.chains import ChainSummary
from jaxbias.estimators.conditional_checks import policy_of, prepare
from jaxbias.estimators.conditional_sigma import fit_with_sigma, without_sigma
from jaxbias.estimators.contrastive_divergence import ContrastiveDivergence, Fit, contrastive_divergence
from jaxbias.estimators.estimate import Estimate, status_of, wald
from jaxbias.estimators.gaussian import laplace
from jaxbias.estimators.logs import Log, condense, make_log
from jaxbias.estimators.newton import NEAR, NewtonFit, covariance_at, newton, newton_with_chains
from jaxbias.estimators.one_parameter import OneParameterFit, fit_one_parameter
from jaxbias.history import History
from jaxbias.policies import Policy, keeps_statistics
from jaxbias.rewards import Family, Normal, lacks_sigma
from jaxbias.sampling import Sampler
from jaxbias.settings import check_settings

PATHS_AT_ONCE = 2**15  # trials x paths in memory together: the arrays of a step then stay in the cache
MATRICES_AT_ONCE = 2**18  # trials x steps x arms^2 in memory together: several arrays of 1 MB, for an integral of 100 MB
CHAIN_NUMBERS_AT_ONCE = 2**26  # trials x chains x samples x steps in memory together: 256 MB
ENOUGH_DRAWS = 100  # effective draws below which a covariance of several arms is not to be believed
EXACT = 1e-3  # a Monte Carlo error below this share of the standard error is none, however few the draws
LARGEST_R_HAT = 1.05  # of chains that have met: beyond it they still disagree about where the rewards are


def conditional_mle(
    key: PRNGKeyArray,
    history: History,
    policy: Policy,
    family: Family,
    solver: Literal["newton", "contrastive_divergence"] = "newton",
    *,
    level: float = 0.95,
    given_draws: bool = False,
    num_paths: int = 1024,
    max_rounds: int = 30,
    sampler: Sampler | None = None,
    num_chains: int = 16,
    settings: ContrastiveDivergence | None = None,
) -> Estimate:
    """The means that maximise the likelihood of the rewards given the arms, with standard errors from its information.

    Arguments:
        key: a `jax.random.key`.
        history: one trial or a batch of them.
        policy: how the arms were chosen; its choices must have been random (tau > 0, or random by nature).
        family: what the rewards are: `Normal` with its sigma, or without it (None, or "each") to have it estimated too;
            `Bernoulli`, `Poisson` or `Exponential`.
        solver: "newton", the maximum itself, or "contrastive_divergence", the paper's Algorithm 2.
        level: of the intervals.
        given_draws: condition on the posterior draws that Thompson sampling recorded in `history.draws`, as the paper does;
            otherwise they are integrated out, which needs no record of them.
        num_paths: paths drawn at each mean vector; the Monte Carlo error falls with their square root. For rewards that are not
            Normal four times as many particles; none where the recursion over the successes of Bernoulli rewards is exact.
        max_rounds: how often they are drawn, at most.
        sampler: of the chains that replace the paths, where the policy looks at more than pulls and sums, or where it is given.
        num_chains: how many of them.
        settings: of contrastive divergence; by default the paper's, with which it stops short of the maximum.

    Returns:
        An `Estimate`. Diagnostics of "newton": `status` of each mean, the number of a line of `jaxbias.STATUS`;
        `covariance` of the means, (arms, arms); `monte_carlo_error` of each mean, `effective_draws`, `rounds`, `last_move`, and
        `log_normaliser`, the log-probability of the arms at the estimate; with chains `r_hat`, `acceptance`, `divergences` and
        `nan_energies`; where sigma is estimated, the maximum likelihood `sigma` with `sigma_stderr` and the degrees of
        `freedom` of the intervals, one or one for each arm. Where an arm had no success, or no failure, its estimate is at the
        end of the range, with an interval on one side and a status that says so; it has converged, and so may the others. Of
        "contrastive_divergence": `drift` of the iterates over the tail, `acceptance`, `divergences`, `nan_energies`, and their
        `path` where it was asked for.

    >>> import jax, jaxbias as jb
    >>> policy, family = jb.Greedy(tau=1.0), jb.Normal(sigma=1.0)
    >>> history = jb.simulate(jax.random.key(0), policy, family, [1.0, 0.75], num_steps=12)
    >>> estimate = jb.conditional_mle(jax.random.key(1), history, policy, family)
    >>> estimate.mean.shape, bool(estimate.converged.all())
    ((2,), True)
    """
    for name, number in (("num_paths", num_paths), ("num_chains", num_chains)):
        if number < 2:
            raise ValueError(f"{name} is {number}; allowed: 2 or more")
    for name, options in (("settings", settings), ("sampler", sampler)):
        if options is not None:
            check_settings(options, name)
    history = prepare(history, policy, family, solver, level, given_draws)
    single = history.arms.ndim == 1
    batch = jax.tree.map(lambda leaf: leaf[None], history) if single else history
    keys = jax.vmap(partial(jax.random.fold_in, key))(jnp.arange(batch.arms.shape[0]))
    pairs = (num_paths + 1) // 2
    if not isinstance(family, Normal):
        estimate = _from_one_parameter(fit_one_parameter(policy, family, keys, batch, level, num_paths, max_rounds), level)
        return jax.tree.map(lambda leaf: leaf[0], estimate) if single else estimate
    if sampler is None and not keeps_statistics(policy):
        sampler = Sampler()
    if lacks_sigma(family):
        sizes = dict(pairs=pairs, num_chains=num_chains, max_rounds=max_rounds)
        estimate = _fit_sigma(policy, family, keys, batch, sampler, sizes, level)
    elif solver == "newton" and sampler is None:
        estimate = _from_newton(_fit_paths(policy, family, keys, batch, pairs, max_rounds), level)
    elif solver == "newton" and sampler is not None:
        estimate = _from_newton(_fit_chains(policy, family, keys, batch, sampler, num_chains, max_rounds), level)
    else:
        settings, sizes = settings or ContrastiveDivergence(), dict(num_pairs=pairs, num_chains=num_chains)
        batches = split_into_batches(PATHS_AT_ONCE // (2 * pairs), (keys, batch, policy, family))
        found = _divergence_batch(policy, family, keys, batch, settings, sampler, batches=batches, **sizes)
        fit, covariance = batches.collect(found)
        estimate = _from_divergence(fit, covariance, level)
    return jax.tree.map(lambda leaf: leaf[0], estimate) if single else estimate


def _fit_paths(policy: Policy, family: Any, keys: Any, history: History, num_pairs: int, max_rounds: int) -> NewtonFit:
    """Two passes over the trials, as the first needs little memory for each and runs best with many at once."""
    everything = (keys, history, policy, family)
    batches = split_into_batches(MATRICES_AT_ONCE // (history.num_steps * history.num_arms**2), everything)
    starts = batches.collect(_laplace_batch(policy, family, history, batches=batches))
    batches = split_into_batches(PATHS_AT_ONCE // (2 * num_pairs), everything)
    sizes = dict(num_pairs=num_pairs, max_rounds=max_rounds)
    return batches.collect(_newton_batch(policy, family, keys, history, starts, batches=batches, **sizes))


def _fit_chains(
    policy: Policy, family: Any, keys: Any, history: History, sampler: Sampler, num_chains: int, max_rounds: int
) -> NewtonFit:
    at_once = CHAIN_NUMBERS_AT_ONCE // (num_chains * sampler.num_samples * history.num_steps)
    batches = split_into_batches(at_once, (keys, history, policy, family))
    sizes = dict(num_chains=num_chains, max_rounds=max_rounds)
    return batches.collect(_chains_batch(policy, family, keys, history, sampler, batches=batches, **sizes))


def _fit_sigma(
    policy: Policy, family: Any, keys: Any, history: History, sampler: Sampler | None, sizes: dict[str, int], level: float
) -> Estimate:
    """Means and sigma together, as many trials at once as their paths or chains allow."""
    at_once = PATHS_AT_ONCE // (2 * sizes["pairs"])
    if sampler is not None:
        at_once = CHAIN_NUMBERS_AT_ONCE // (sizes["num_chains"] * sampler.num_samples * history.num_steps)
    batches = split_into_batches(at_once, (keys, history, policy, family))
    fit, spread = batches.collect(fit_with_sigma(policy, family, keys, history, sampler, batches=batches, **sizes))
    return without_sigma(_from_newton(fit, level), spread, family, history.num_arms, level)


@partial(compiled, static=("batches",))
def _laplace_batch(policy: Policy, family: Any, history: History, batches: Batches) -> tuple[Array, Array]:
    def one(trial: History) -> tuple[Array, Array]:
        return laplace(policy_of(policy, trial), _condensed(trial), _sigma(family, trial), trial.statistics.mean)

    return batches.map(one, history)


@partial(compiled, static=("batches", "num_pairs", "max_rounds"))
def _newton_batch(
    policy: Policy,
    family: Any,
    keys: Any,
    history: History,
    starts: tuple[Array, Array],
    batches: Batches,
    num_pairs: int,
    max_rounds: int,
) -> NewtonFit:
    sigma = _sigma(family, history)

    def one(trial: tuple[Any, History, tuple[Array, Array]]) -> NewtonFit:
        key, log, start = trial
        return newton(key, policy_of(policy, log), sigma, _condensed(log), *start, num_pairs, max_rounds)

    return batches.map(one, (keys, history, starts))


@partial(compiled, static=("batches", "num_chains", "max_rounds"))
def _chains_batch(
    policy: Policy,
    family: Any,
    keys: Any,
    history: History,
    sampler: Sampler,
    batches: Batches,
    num_chains: int,
    max_rounds: int,
) -> NewtonFit:
    def one(trial: tuple[Any, History]) -> NewtonFit:
        key, trial_history = trial
        start, given = trial_history.statistics.mean, policy_of(policy, trial_history)
        return newton_with_chains(key, given, family, _log(trial_history), start, num_chains, sampler, max_rounds)

    return batches.map(one, (keys, history))


@partial(compiled, static=("batches", "num_pairs", "num_chains"))
def _divergence_batch(
    policy: Policy,
    family: Any,
    keys: Any,
    history: History,
    settings: ContrastiveDivergence,
    sampler: Sampler | None,
    batches: Batches,
    num_pairs: int,
    num_chains: int,
) -> tuple[Fit, Array]:
    def one(trial: tuple[Any, History]) -> tuple[Fit, Array]:
        (fit_key, draws_key), log, given = jax.random.split(trial[0]), trial[1], policy_of(policy, trial[1])
        seen, steps = log.seen_steps, (log.arms, log.rewards, log.forced_steps)
        fit = contrastive_divergence(fit_key, given, family, *steps, history.num_arms, settings, seen)
        if sampler is None:
            return fit, covariance_at(draws_key, given, _sigma(family, history), _condensed(log), fit.mean, num_pairs)
        log = _log(log)
        there = newton_with_chains(draws_key, given, family, log, fit.mean, num_chains, sampler, max_rounds=1)
        return fit, there.covariance

    return batches.map(one, (keys, history))


def _sigma(family: Any, history: History) -> Float[Array, " arms"]:
    return jnp.broadcast_to(jnp.asarray(family.sigma, history.rewards.dtype), (history.num_arms,))


def _log(history: History) -> Log:
    """One trial, by pulls."""
    return make_log(history.arms, history.rewards, history.forced_steps, history.num_arms, history.batch_sizes)


def _condensed(history: History) -> Log:
    """One trial, by batches where it has any, which is all that a policy of pulls and sums can tell apart."""
    if history.batch_sizes is None:
        return _log(history)
    return condense(history.arms, history.rewards, history.forced_steps, history.num_arms, history.batch_sizes)


def _from_divergence(fit: Fit, covariance: Array, level: float) -> Estimate:
    """Standard errors from the information at the estimate; an arm has converged where its iterates have stopped drifting."""
    stderr = jnp.sqrt(jnp.diagonal(covariance, axis1=-2, axis2=-1))
    diagnostics = {name: value for name, value in fit._asdict().items() if name != "mean" and value is not None}
    converged = (jnp.abs(fit.drift) < 0.25 * stderr) & jnp.isfinite(fit.mean) & jnp.isfinite(stderr)
    return wald("conditional_mle", fit.mean, stderr, level, converged, diagnostics)


def _from_newton(fit: NewtonFit, level: float) -> Estimate:
    """An arm has converged where its mean came to rest, and enough draws, that agree, say where."""
    stderr = jnp.sqrt(jnp.diagonal(fit.covariance, axis1=-2, axis2=-1))
    moving = (jnp.abs(fit.move) > NEAR * stderr) | (jnp.abs(fit.step) > jnp.maximum(0.01 * stderr, fit.monte_carlo_error))
    few = (fit.effective < ENOUGH_DRAWS)[..., None] & (fit.monte_carlo_error > EXACT * stderr)
    imprecise = ~(fit.monte_carlo_error < 0.25 * stderr)
    apart = jnp.zeros_like(few) if fit.chains is None else jnp.broadcast_to(_apart(fit.chains)[..., None], few.shape)
    infinite = ~(jnp.isfinite(fit.mean) & jnp.isfinite(stderr))
    wrong = {
        "not finite": infinite,
        "the mean was still moving after max_rounds": moving,
        "too few effective draws": few,
        "the Monte Carlo error is above a quarter of the standard error": imprecise,
        "the chains have not met: r_hat is above 1.05": apart,
    }
    status = jnp.select(list(wrong.values()), [status_of(words) for words in wrong], 0)
    diagnostics = {
        "status": status,
        "covariance": fit.covariance,
        "monte_carlo_error": fit.monte_carlo_error,
        "effective_draws": fit.effective,
        "rounds": fit.rounds,
        "last_move": fit.move,
        "log_normaliser": fit.log_normaliser,
    }
    if fit.chains is not None:
        diagnostics.pop("log_normaliser")  # chains do not tell it
        diagnostics |= {name: value for name, value in fit.chains._asdict().items() if name != "effective_sample_size"}
    return wald("conditional_mle", fit.mean, stderr, level, status == 0, diagnostics)


def _from_one_parameter(fit: OneParameterFit, level: float) -> Estimate:
    """With the intervals that were found. An estimate at the end of the range is believed, and its status says where it is."""
    estimate = _from_newton(fit.newton, level)
    edge = status_of("at the edge of what the family allows")
    status = jnp.where(fit.at_edge & estimate.converged, edge, estimate.diagnostics["status"])
    diagnostics = {**estimate.diagnostics, "status": status}
    return dataclasses.replace(estimate, lower=fit.ends[..., 0], upper=fit.ends[..., 1], diagnostics=diagnostics)


def _apart(chains: ChainSummary) -> Bool[Array, " trials"]:
    return ~(chains.r_hat < LARGEST_R_HAT)
