"""The maximum of the conditional likelihood of Normal rewards, by Newton's method; `unknown_sigma.py` has sigma in it too.

With S_k the summed rewards of arm k over sigma_k^2, the score is S - E[S | arms] and the information Cov[S | arms], and the
likelihood is concave. Both come from draws at some means, which are reweighted as the means move and made anew once they moved
far. Where a Gaussian follows the density its own maximum is within a tenth of a standard error, and one set of draws is enough.
The random numbers stay the same, so that the search comes to rest, at a point that is off by the Monte Carlo error alone.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from jaxbias.estimators.chains import Chains, ChainSummary, sample_chains, start_chains
from jaxbias.estimators.draws import Draws, Moments, expected_total, moments
from jaxbias.estimators.gaussian import draw_paths, most_likely_path
from jaxbias.estimators.logs import Log
from jaxbias.policies import Policy
from jaxbias.randomness import flattened, normal, root_words, step_key
from jaxbias.rewards import Normal
from jaxbias.sampling import Sampler

ROUNDS = 10  # towards the most likely path from the log itself; five or six are usual
LONGEST_MOVE = 1.0  # in standard errors, of the means away from those the draws were made at: the weights still spread well
NEAR = 0.5  # a move after which the draws need not be made anew: 22% of them are lost to the weights
SMALL = 1e-3  # a step this small against the standard error changes no figure anyone reads
NOISE_AT_ONCE = 2**23  # steps x pairs of one log whose noise is kept: 32 MB
STEPS = 20  # on one set of draws, at most; five are usual

Draw = Callable[[Float[Array, " parameters"], Any], tuple[Draws, Any]]


@runtime_checkable
class Parameters(Protocol):
    """What is searched: how the statistics weigh at parameters a move away from those `at` which the draws were made."""

    def tilt(self, at: Array, move: Array) -> Array:
        """Of the statistics: each draw counts exp(tilt . statistics) times as much."""
        ...

    def slope(self, at: Array, move: Array) -> Array:
        """The derivative of the tilt in the parameters, (statistics, parameters)."""
        ...

    def log_normaliser(self, log: Log, at: Array, move: Array) -> Array:
        """How much the move adds to its logarithm, beside what the weights of the draws say."""
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

    def log_normaliser(self, log: Log, at: Array, move: Array) -> Array:
        """Of the rewards of the log, which the draws are less of."""
        pulls = jnp.zeros(at.shape, log.sizes.dtype).at[log.arms].add(log.sizes).astype(at.dtype)
        observed = jnp.zeros_like(at).at[log.arms].add(log.rewards - log.sizes.astype(at.dtype) * at[log.arms])
        return jnp.sum(self.tilt(at, move) * (observed - pulls * move / 2))


class NewtonFit(NamedTuple):
    """Where the search ended.

    Fields:
        mean: the maximum; with an unknown sigma its logarithm follows the means, here and in what follows.
        covariance: the inverse of the information there.
        move: of each arm's mean since the draws were last made.
        step: the last step of each arm.
        monte_carlo_error: the standard error of `mean` through the draws.
        effective: the effective number of draws.
        rounds: how often draws were made.
        log_normaliser: the log-probability of the arms at the maximum.
        chains: what the chains say about themselves, where there are any.
    """

    mean: Float[Array, " arms"]
    covariance: Float[Array, "arms arms"]
    move: Float[Array, " arms"]
    step: Float[Array, " arms"]
    monte_carlo_error: Float[Array, " arms"]
    effective: Float[Array, ""]
    rounds: Int[Array, ""]
    log_normaliser: Float[Array, ""]
    chains: ChainSummary | None = None


def newton(
    key: PRNGKeyArray,
    policy: Policy,
    sigma: Float[Array, " arms"],
    log: Log,
    mean: Float[Array, " arms"],
    path: Float[Array, " steps"],
    pairs: int,
    max_rounds: int,
) -> NewtonFit:
    """The maximum for one trial of a policy that keeps pulls and sums, from pairs of paths; starts where `laplace` ended.

    The path is where the policy is expanded. It stays, as the Gaussian around it follows the means wherever they go.
    """
    noise = make_noise(key, log, pairs)

    def draw(mean: Array, path: Array) -> tuple[Draws, Array]:
        return draw_paths(policy, log, mean, sigma, path, noise), path

    return search(draw, KnownSigma(sigma), log, mean, path, max_rounds)[0]


def newton_with_chains(
    key: PRNGKeyArray,
    policy: Policy,
    family: Normal,
    log: Log,
    start: Float[Array, " arms"],
    num_chains: int,
    sampler: Sampler,
    max_rounds: int,
) -> NewtonFit:
    """The maximum for one trial of any policy, with chains of rewards in place of paths: longer, and less even."""
    sigma = jnp.broadcast_to(jnp.asarray(family.sigma, start.dtype), start.shape)

    def draw(mean: Array, chains: Chains) -> tuple[Draws, Chains]:
        return sample_chains(key, policy, family, log, mean, chains, sampler)

    found = search(draw, KnownSigma(sigma), log, start, start_chains(log, num_chains), max_rounds)
    return with_summary(*found, num_chains * sampler.num_samples)


def with_summary(fit: NewtonFit, chains: Chains, size: int) -> NewtonFit:
    """The fit from chains of so many samples in all, with what they say about themselves."""
    share = jnp.minimum(chains.summary.effective_sample_size / size, 1)
    return fit._replace(effective=fit.effective * share, chains=chains.summary)


def covariance_at(
    key: PRNGKeyArray, policy: Policy, sigma: Float[Array, " arms"], log: Log, mean: Float[Array, " arms"], pairs: int
) -> Float[Array, "arms arms"]:
    """The inverse of the conditional information at given means, for an estimate that was found otherwise."""
    path = most_likely_path(policy, log, mean, sigma, log.rewards, ROUNDS)
    noise = make_noise(key, log, pairs)
    found = moments(draw_paths(policy, log, mean, sigma, path, noise), jnp.zeros_like(mean))
    slope = KnownSigma(sigma).slope(mean, jnp.zeros_like(mean))
    return jnp.linalg.inv(slope.T @ found.covariance @ slope)


def make_noise(key: PRNGKeyArray, log: Log, pairs: int) -> Callable[[Int[Array, ""]], Float[Array, " pairs"]]:
    """The noise of each step: all of it made at once, or for a long log that of a step whenever it is asked for."""
    steps, dtype = log.arms.shape[0], log.rewards.dtype
    if steps * pairs > NOISE_AT_ONCE:
        words = root_words(key)
        return lambda step: normal(step_key(words, step), (pairs,), dtype)
    made = normal(flattened(key), (steps, pairs), dtype)
    return lambda step: made[step]


def search(draw: Draw, parameters: Parameters, log: Log, start: Array, reference: Any, max_rounds: int) -> tuple[NewtonFit, Any]:
    """Draws, the maximum by their weights, and again from there where that was far."""

    def going(search: tuple[NewtonFit, Any]) -> Array:
        fit, _ = search
        length = jnp.sqrt(jnp.maximum(fit.move @ jnp.linalg.solve(fit.covariance, fit.move), 0))
        started = fit.rounds > 0
        return (fit.rounds < max_rounds) & ~(started & (length <= NEAR)) & jnp.all(jnp.isfinite(fit.mean))

    def climb(search: tuple[NewtonFit, Any]) -> tuple[NewtonFit, Any]:
        fit, reference = search
        draws, reference = draw(fit.mean, reference)
        return _climb(draws, parameters, log, fit.mean)._replace(rounds=fit.rounds + 1), reference

    return jax.lax.while_loop(going, climb, (_nothing_yet(start), reference))


def _nothing_yet(start: Array) -> NewtonFit:
    nothing, zero = jnp.zeros_like(start), jnp.zeros((), start.dtype)
    identity = jnp.eye(start.shape[0], dtype=start.dtype)
    return NewtonFit(start, identity, nothing, nothing, nothing, zero, jnp.zeros((), jnp.int32), zero)


def _climb(draws: Draws, parameters: Parameters, log: Log, at: Array) -> NewtonFit:
    """The maximum by one set of draws, made at the means `at`; the information there serves all the steps."""
    still = jnp.zeros_like(at)
    slope = parameters.slope(at, still)
    information = slope.T @ moments(draws, still).covariance @ slope
    inverse = jnp.linalg.inv(information)

    def going(search: tuple[Array, Array, Array]) -> Array:
        steps, _, length = search
        return (steps < STEPS) & (length > SMALL)

    def climb(search: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        steps, move, _ = search
        missing = -expected_total(draws, parameters.tilt(at, move)) @ parameters.slope(at, move)
        after = move + inverse @ missing
        after = after * (LONGEST_MOVE / jnp.maximum(jnp.sqrt(after @ information @ after), LONGEST_MOVE))
        return steps + 1, after, jnp.sqrt((after - move) @ information @ (after - move))

    first = (jnp.zeros((), jnp.int32), still, jnp.full((), jnp.inf, at.dtype))
    move = jax.lax.while_loop(going, climb, first)[1]
    return _fit(moments(draws, parameters.tilt(at, move)), parameters, log, at, move, draws.log_weight.size)


def _fit(found: Moments, parameters: Parameters, log: Log, at: Array, move: Array, size: int) -> NewtonFit:
    slope = parameters.slope(at, move)
    covariance = jnp.linalg.inv(slope.T @ found.covariance @ slope)
    error = covariance @ slope.T
    return NewtonFit(
        mean=at + move,
        covariance=covariance,
        move=move,
        step=-error @ found.total,
        monte_carlo_error=jnp.sqrt(jnp.diag(error @ found.error @ error.T)),
        effective=found.effective * size,
        rounds=jnp.ones((), jnp.int32),
        log_normaliser=found.log_normaliser + parameters.log_normaliser(log, at, move),
    )
