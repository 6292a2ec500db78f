"""The maximum of the conditional likelihood of Normal rewards, by Newton's method; `unknown_sigma.py` adds sigma.

With S_k the summed rewards of arm k over sigma_k^2, the score is S - E[S | arms] and the information Cov[S | arms], and the
likelihood is concave. Both come from samples at some means, which are reweighted as the means move and made anew once they moved
far. Where a Gaussian follows the density its own maximum is within a tenth of a standard error, and one set of samples is enough.
The random numbers stay the same, so that the search converges, to a point that is off by the Monte Carlo error alone.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxbias._core.randomness import normal, root_words, step_key
from jaxbias._core.search import damp, search
from jaxbias.estimators.conditional_mle.chain_samples import Chains, ChainSummary, sample_chains, start_chains
from jaxbias.estimators.conditional_mle.gaussian_paths import LONG_INTEGRAL, sample_paths
from jaxbias.estimators.conditional_mle.gaussian_walk import most_likely_path
from jaxbias.estimators.conditional_mle.markov_chains import Sampler
from jaxbias.estimators.conditional_mle.record import Record
from jaxbias.estimators.conditional_mle.tempered_paths import Walker, fill_groups, temper, temper_again
from jaxbias.estimators.conditional_mle.weighted_samples import SampleMoments, Samples, expected_total, moments_at
from jaxbias.policies import BasePolicy
from jaxbias.rewards import Normal

ROUNDS = 10  # towards the most likely path from the log itself; five or six are usual
LONGEST_MOVE = 1.0  # in standard errors, of the means away from those the samples were made at: the weights still spread well
NEAR = 0.5  # a move after which the samples need not be made anew: 22% of them are lost to the weights
WITHIN_NOISE = 1.5  # a move, in standard deviations of the difference of two sets of samples: one that says nothing
SMALL = 1e-3  # a move this small against the standard error changes no figure anyone reads
NOISE_AT_ONCE = 2**23  # steps x pairs of one log whose noise is kept: 32 MB
ROUNDS_ON_SAMPLES = 20  # on one set of samples, at most; five are usual

Sample = Callable[[Float[Array, " parameters"], Any], tuple[Samples, Any]]


@runtime_checkable
class Parameters(Protocol):
    """What is searched: how the statistics weigh at parameters a move away from those `at` which the samples were made."""

    def tilt(self, at: Array, move: Array) -> Array:
        """Of the statistics: each sample counts exp(tilt . statistics) times as much."""
        ...

    def slope(self, at: Array, move: Array) -> Array:
        """The derivative of the tilt in the parameters, (statistics, parameters)."""
        ...

    def log_normaliser(self, record: Record, at: Array, move: Array) -> Array:
        """How much the move adds to its logarithm, beside what the weights of the samples say."""
        ...


class KnownSigma(NamedTuple):
    """The parameters are the means, the statistics the summed rewards."""

    sigma: Float[Array, " arms"]

    def tilt(self, at: Array, move: Array) -> Array:
        """move / sigma^2."""
        del at
        return move * (1 / jnp.square(self.sigma))

    def slope(self, at: Array, move: Array) -> Array:
        """1 / sigma^2, each for its own."""
        del at, move
        return jnp.diag(1 / jnp.square(self.sigma))

    def log_normaliser(self, record: Record, at: Array, move: Array) -> Array:
        """Of the rewards of the log, which the samples are relative to."""
        observed = record.by_arm(-record.drift(at, record.rewards))
        return jnp.sum(self.tilt(at, move) * (observed - record.count * move / 2))


class NewtonFit(NamedTuple):
    """Where the search ended.

    Fields:
        mean: the maximum; with an unknown sigma its logarithm follows the means, here and in what follows.
        covariance: the inverse of the information there.
        move: of each arm's mean since the samples were last made.
        rest: the Newton move that is left.
        monte_carlo_error: the standard error of `mean` from the samples.
        effective: the effective number of samples.
        rounds: how often samples were made.
        log_normaliser: the log-probability of the arms at the maximum.
        chains: what the chains say about themselves, where there are any.
    """

    mean: Float[Array, " arms"]
    covariance: Float[Array, "arms arms"]
    move: Float[Array, " arms"]
    rest: Float[Array, " arms"]
    monte_carlo_error: Float[Array, " arms"]
    effective: Float[Array, ""]
    rounds: Int[Array, ""]
    log_normaliser: Float[Array, ""]
    chains: ChainSummary | None = None


class BoundedFit(NamedTuple):
    """A fit on the scale of the means, with intervals that are no plus and minus.

    Fields:
        newton: the estimate.
        ends: of the intervals.
        at_edge: whether an arm's estimate is at the end of the family's range.
    """

    newton: NewtonFit
    ends: Float[Array, "*trials arms 2"]
    at_edge: Bool[Array, "*trials arms"]


def newton(
    key: PRNGKeyArray,
    policy: BasePolicy,
    sigma: Float[Array, " arms"],
    record: Record,
    mean: Float[Array, " arms"],
    path: Float[Array, " steps"],
    pairs: int,
    max_rounds: int,
    devices: Mesh | None = None,
) -> NewtonFit:
    """The maximum for one trial of a policy that keeps pulls and sums, from pairs of paths; starts where `laplace` ended.

    The path is where the policy is expanded. It stays, as the Gaussian around it follows the means wherever they go.
    """
    if not needs_tempering(policy, record):
        sample = by_paths(key, policy, sigma, record, pairs, devices)
        return maximise_from_samples(sample, KnownSigma(sigma), record, mean, path, max_rounds)[0]
    walker = Walker(policy, record, sigma, path, devices)
    start = temper(key, walker, mean, make_noise(key, record, fill_groups(pairs)))
    again = partial(temper_again, key, walker)
    fit = maximise_from_samples(again, KnownSigma(sigma), record, mean, start, max_rounds, fresh=True)[0]
    # Paths that were drawn anew are not independent: as many of those as would have this Monte Carlo error.
    independent = jnp.median(jnp.diag(fit.covariance) / jnp.square(fit.monte_carlo_error))
    return fit._replace(effective=jnp.minimum(fit.effective, independent))


def needs_tempering(policy: BasePolicy, record: Record) -> bool:
    """Whether the Gaussian may miss so much that few paths have all the weight: of many arms, whose choices are integrals."""
    return policy.log_prob_cost(record.num_arms) >= LONG_INTEGRAL


def by_paths(
    key: PRNGKeyArray,
    policy: BasePolicy,
    sigma: Float[Array, " arms"],
    record: Record,
    pairs: int,
    devices: Mesh | None = None,
) -> Sample:
    """Pairs of paths at given means, from the same noise each time."""
    noise = make_noise(key, record, pairs)

    def sample(mean: Array, path: Array) -> tuple[Samples, Array]:
        return sample_paths(policy, record, mean, sigma, path, noise, devices=devices), path

    return sample


def newton_with_chains(
    key: PRNGKeyArray,
    policy: BasePolicy,
    family: Normal,
    record: Record,
    start: Float[Array, " arms"],
    num_chains: int,
    sampler: Sampler,
    max_rounds: int,
) -> NewtonFit:
    """The maximum for one trial of any policy, with chains of rewards in place of paths: longer, and less even."""
    sigma = jnp.broadcast_to(jnp.asarray(family.sigma, start.dtype), start.shape)

    def sample(mean: Array, chains: Chains) -> tuple[Samples, Chains]:
        return sample_chains(key, policy, family, record, mean, chains, sampler)

    found = maximise_from_samples(sample, KnownSigma(sigma), record, start, start_chains(record, num_chains), max_rounds)
    return with_summary(*found, num_chains * sampler.num_samples)


def with_summary(fit: NewtonFit, chains: Chains, size: int) -> NewtonFit:
    """The fit from chains of so many samples in all, with what they say about themselves."""
    share = jnp.minimum(chains.summary.effective_sample_size / size, 1)
    return fit._replace(effective=fit.effective * share, chains=chains.summary)


def covariance_at(
    key: PRNGKeyArray, policy: BasePolicy, sigma: Float[Array, " arms"], record: Record, mean: Float[Array, " arms"], pairs: int
) -> Float[Array, "arms arms"]:
    """The inverse of the conditional information at given means, for an estimate that was found otherwise."""
    path = most_likely_path(policy, record, mean, sigma, record.rewards, ROUNDS)
    noise = make_noise(key, record, pairs)
    found = moments_at(sample_paths(policy, record, mean, sigma, path, noise), jnp.zeros_like(mean))
    slope = KnownSigma(sigma).slope(mean, jnp.zeros_like(mean))
    return jnp.linalg.inv(slope.T @ found.covariance @ slope)


def make_noise(key: PRNGKeyArray, record: Record, pairs: int) -> Callable[[Int[Array, ""]], Float[Array, " pairs"]]:
    """The noise of each step: all of it made at once, or for a long log that of a step whenever it is asked for."""
    steps, dtype = record.arms.shape[0], record.rewards.dtype
    words = root_words(key)
    of_step = lambda step: normal(step_key(words, step), (pairs,), dtype)
    if steps * pairs > NOISE_AT_ONCE:
        return of_step
    made = jax.vmap(of_step)(jnp.arange(steps))  # of each step on its own: the same whatever the length of the record
    return lambda step: made[step]


def maximise_from_samples(
    sample: Sample, parameters: Parameters, record: Record, start: Array, reference: Any, max_rounds: int, fresh: bool = False
) -> tuple[NewtonFit, Any]:
    """Samples, the maximum by their weights, and again from there where that was far.

    With `fresh` each set of samples has errors of its own, so that a move within them is not far.
    """

    def improve(state: tuple[NewtonFit, Any]) -> tuple[tuple[NewtonFit, Any], Array]:
        fit, reference = state
        samples, reference = sample(fit.mean, reference)
        after = _climb(samples, parameters, record, fit.mean)
        length = jnp.sqrt(jnp.maximum(after.move @ jnp.linalg.solve(after.covariance, after.move), 0))
        if fresh:
            noise = jnp.sqrt(2 * jnp.sum(jnp.square(after.monte_carlo_error) / jnp.diag(after.covariance)))
            length = jnp.where(length < WITHIN_NOISE * noise, 0, length)
        return (after, reference), jnp.where(jnp.all(jnp.isfinite(after.mean)), length, 0)

    begin = (_nothing_yet(start), reference)
    found = search(improve, begin, max_rounds=max_rounds, tolerance=NEAR, dtype=start.dtype)
    fit, reference = found.state
    return fit._replace(rounds=found.rounds), reference


def _nothing_yet(start: Array) -> NewtonFit:
    nothing, zero = jnp.zeros_like(start), jnp.zeros((), start.dtype)
    identity = jnp.eye(start.shape[0], dtype=start.dtype)
    return NewtonFit(start, identity, nothing, nothing, nothing, zero, jnp.zeros((), jnp.int32), zero)


def _climb(samples: Samples, parameters: Parameters, record: Record, at: Array) -> NewtonFit:
    """The maximum by one set of samples, made at the means `at`; the information there serves all the rounds."""
    still = jnp.zeros_like(at)
    slope = parameters.slope(at, still)
    information = slope.T @ moments_at(samples, still).covariance @ slope
    inverse = jnp.linalg.inv(information)

    def improve(move: Array) -> tuple[Array, Array]:
        missing = -expected_total(samples, parameters.tilt(at, move)) @ parameters.slope(at, move)
        after = move + inverse @ missing
        after = damp(after, jnp.sqrt(after @ information @ after), LONGEST_MOVE)
        return after, jnp.sqrt((after - move) @ information @ (after - move))

    move = search(improve, still, max_rounds=ROUNDS_ON_SAMPLES, tolerance=SMALL, dtype=at.dtype).state
    return _fit(moments_at(samples, parameters.tilt(at, move)), parameters, record, at, move, samples.log_weight.size)


def _fit(found: SampleMoments, parameters: Parameters, record: Record, at: Array, move: Array, size: int) -> NewtonFit:
    slope = parameters.slope(at, move)
    covariance = jnp.linalg.inv(slope.T @ found.covariance @ slope)
    error = covariance @ slope.T
    return NewtonFit(
        mean=at + move,
        covariance=covariance,
        move=move,
        rest=-error @ found.total,
        monte_carlo_error=jnp.sqrt(jnp.diag(error @ found.error @ error.T)),
        effective=found.effective * size,
        rounds=jnp.ones((), jnp.int32),
        log_normaliser=found.log_normaliser + parameters.log_normaliser(record, at, move),
    )
