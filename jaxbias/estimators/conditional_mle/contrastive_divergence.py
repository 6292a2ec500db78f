"""The conditional maximum likelihood by contrastive divergence (the paper's Algorithm 2), for one trial.

    mean <- mean + rate * inverse information * (score at the data - average score at samples of the rewards given the arms)

The score is the gradient of the log-density of the rewards and the arms in the means. The samples are those of Markov chains. By
default these are NumPyro's, several, and go on where they were: with a rate that falls and the average of the last iterates
(Polyak and Juditsky 1992) this reaches the maximum, up to a Monte Carlo error that the chains themselves measure. The
information is the covariance of the scores at the samples; with it one rate suits every arm and every log.

`ContrastiveDivergence.paper()` is the algorithm as the paper runs it: one chain, restarted at the data in each iteration, too
short to forget where it began, so that the iterates stop short of the maximum. The paper does not say how its chain proposes. One
reward at a time gives its printed figures in all twelve cells of its Tables 2 and 3; all rewards at once has too large an MSE in
four of them, by 8 to 13 points.
"""

import dataclasses
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxbias._core.search import damp
from jaxbias._core.settings import COUNT, POSITIVE, PROBABILITY, one_of, setting
from jaxbias.estimators.conditional_mle.markov_chains import (
    RANDOM_WALKS,
    TARGETS,
    ChainInfo,
    Running,
    Sampler,
    continue_chain,
    first_step_size,
    sample_chain,
)
from jaxbias.history import count
from jaxbias.likelihood import Seen, statistics_before, trial_log_density
from jaxbias.policies import ArmStatistics, Policy, complete_policy
from jaxbias.rewards import Family, at_arm

# Acceptance outside these makes the step larger or smaller: the paper's for random walks, around the best for the others.
ACCEPTANCE = {"random_walk": (0.2, 0.5), "single_site": (0.2, 0.5), "mala": (0.4, 0.7), "hmc": (0.6, 0.9)}
# Of the step size after an iteration outside them: from 2.38 / sqrt(T), a few dozen iterations at most.
GROWTH, SHRINKAGE = 1.1, 0.9
# Leapfrogs of HMC over steps^(1/4), as the step size that it settles at is near 1.5 / steps^(1/4). Together they go a third of a
# turn around a Gaussian: from one sample to the next a sum changes to the other side of its mean, and averages are precise.
LEAPFROGS = 1.5
LONGEST_MOVE = 1.0  # in standard errors, before the rate: the information is only that of where the iterates are
GUESS = 4  # iterations that the information of arms fixed in advance counts for, beside that of the samples


@cache
def falling() -> Any:
    """A Newton step at first, to come near the maximum within a dozen iterations; then less, so that the noise of the samples
    moves the iterates by little, and the curvature of the likelihood adds no bias. Made once, so that it compiles once."""
    import optax  # here, because it takes a tenth of a second, and `debias` does without it

    return optax.sgd(optax.exponential_decay(1.0, transition_steps=50, decay_rate=0.05, end_value=0.05))


@cache
def constant() -> Any:
    """The paper's."""
    import optax

    return optax.sgd(0.01)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, kw_only=True)
class ContrastiveDivergence:
    """How to run it; the defaults reach the maximum, `paper()` is the paper's. All of it is known before compilation.

    Arguments:
        optimiser: any optax optimiser, with its learning rate or schedule. Create it once: a new one is compiled again. None for
            `falling()`, whose rate falls from 1 to a twentieth.
        num_iterations: rounds of the optimiser.
        num_chains: chains that run beside each other.
        num_samples: transitions of each chain per iteration. All of them are averaged; of a chain that restarts the second half.
        kernel: "hmc" or "mala", NumPyro's, or "random_walk" (all rewards at once) or "single_site" (one at a time).
        num_leapfrog: leapfrogs of one HMC transition; None for what suits the number of rewards.
        persistent: whether the chains go on where they were; otherwise they restart at the data in each iteration.
        precondition: whether the gradient is multiplied by the inverse information, so that a rate of 1 is a Newton step.
        step_size: the chains' first step, in standard deviations of a reward; None for one that suits the number of rewards.
        acceptance: the step is adapted, iteration by iteration, to accept between these; None for what suits the kernel.
        tail: how many of the last iterates are averaged.
        keep_iterates: whether to return all iterates.
    """

    optimiser: Any = None
    num_iterations: int = setting(default=50, allowed=COUNT)
    num_chains: int = setting(default=10, allowed=COUNT)
    num_samples: int = setting(default=2, allowed=COUNT)
    kernel: str = setting(default="hmc", allowed=one_of(*TARGETS))
    num_leapfrog: int | None = setting(default=None, allowed=COUNT)
    persistent: bool = True
    precondition: bool = True
    step_size: float | None = dataclasses.field(default=None, metadata={"allowed": POSITIVE})
    acceptance: tuple[float, float] | None = dataclasses.field(default=None, metadata={"allowed": PROBABILITY})
    tail: int = setting(default=36, allowed=COUNT)
    keep_iterates: bool = False

    @classmethod
    def paper(cls, **changes: Any) -> "ContrastiveDivergence":
        """As the paper runs it: 600 steps of size 0.01, each from 30 Metropolis transitions that restart at the data.

        >>> ContrastiveDivergence.paper(keep_iterates=True).num_iterations
        600
        """
        own: dict[str, Any] = dict(
            optimiser=constant(),
            num_iterations=600,
            num_chains=1,
            num_samples=30,
            kernel="single_site",
            persistent=False,
            precondition=False,
            tail=100,
        )
        return cls(**(own | changes))


class Fit(NamedTuple):
    """Where the iterates ended, and what they say about themselves."""

    mean: Float[Array, " arms"]  # the average over the tail
    drift: Float[Array, " arms"]  # the second half of the tail minus the first: not small where it has not settled
    iterates: Float[Array, "rounds arms"] | None
    monte_carlo_error: Float[Array, " arms"] | None  # of the mean, from how far the chains differ; None of one chain
    covariance: Float[Array, "arms arms"] | None  # the inverse information at the samples of the tail; None of one chain
    acceptance: Float[Array, ""]  # over the tail
    step_size: Float[Array, ""]  # of the chains, at the end
    divergences: Int[Array, ""]  # over all iterations, as the next
    nan_energies: Int[Array, ""] | None


class _Carry(NamedTuple):
    mean: Float[Array, " arms"]
    optimiser: Any
    start: Float[Array, "chains steps"]
    step_size: Float[Array, ""]
    information: Float[Array, "arms arms"]


class _Round(NamedTuple):
    """What is kept of an iteration: the iterate, each chain's average score, and their covariance."""

    mean: Float[Array, "*rounds arms"]
    scores: Float[Array, "*rounds chains arms"]
    information: Float[Array, "*rounds arms arms"]
    chains: ChainInfo


def contrastive_divergence(
    key: PRNGKeyArray,
    policy: Policy,
    family: Family,
    arms: Int[Array, " steps"],
    rewards: Float[Array, " steps"],
    forced: Bool[Array, " steps"],
    num_arms: int,
    settings: ContrastiveDivergence,
    seen: Seen = None,
) -> Fit:
    """Contrastive divergence from the sample means, for one trial; `vmap` it over keys, arms, rewards and forced for many.

    >>> import jax, jaxbias as jb
    >>> log = jb.simulate(jax.random.key(0), jb.Greedy(tau=1.0), jb.Normal(), [1.0, 0.75], num_steps=8)
    >>> settings = ContrastiveDivergence(num_iterations=20, tail=10, keep_iterates=True)
    >>> problem = (jb.Greedy(tau=1.0), jb.Normal(), log.arms, log.rewards, log.forced_steps, 2)
    >>> contrastive_divergence(jax.random.key(1), *problem, settings).iterates.shape
    (20, 2)
    """

    import optax

    pulls, optimiser = statistics_before(arms, rewards, num_arms).pulls, settings.optimiser or falling()

    def log_density(values: Array, mean: Float[Array, " arms"], total: Array | None = None) -> Float[Array, ""]:
        before = None if total is None else ArmStatistics(pulls, total)
        return trial_log_density(policy, family, mean, arms, values, forced, seen, before)

    score = jax.grad(log_density, argnums=1)
    start = count(arms, rewards, num_arms).mean
    scale = reward_scale(family, start, arms)
    by_sums = settings.kernel == "single_site" and complete_policy(policy).keeps_statistics and seen is None
    running = _running_sums(arms, num_arms) if by_sums else None

    def iterate(carry: _Carry, number: Int[Array, ""]) -> tuple[_Carry, _Round]:
        begin = carry.start if settings.persistent else jnp.broadcast_to(rewards, carry.start.shape)
        sampler = _sampler(settings, rewards.shape[0], carry.step_size)
        samples, info = _sample(jax.random.fold_in(key, number), log_density, begin, sampler, carry.mean, scale, running)
        averaged = samples if settings.persistent else samples[:, settings.num_samples // 2 :]
        scores = jax.vmap(jax.vmap(score, (0, None)), (0, None))(averaged, carry.mean)
        ascent = score(rewards, carry.mean) - jnp.mean(scores, axis=(0, 1))
        spread = _covariance(scores)
        information = carry.information + (spread - carry.information) / (GUESS + 1 + number).astype(spread.dtype)
        move = _newton_move(information, ascent) if settings.precondition else ascent
        with jax.numpy_dtype_promotion("standard"):  # Adam's bias correction is a float to the power of an integer
            updates, state = optimiser.update(-move, carry.optimiser, carry.mean)
        mean = jnp.asarray(optax.apply_updates(carry.mean, updates))
        step_size = adapt(settings, carry.step_size, info.acceptance)
        after = _Carry(mean=mean, optimiser=state, start=samples[:, -1], step_size=step_size, information=information)
        return after, _Round(mean=mean, scores=jnp.mean(scores, axis=1), information=spread, chains=info)

    begin = _Carry(
        mean=start,
        optimiser=optimiser.init(start),
        start=jnp.broadcast_to(rewards, (settings.num_chains, *rewards.shape)),
        step_size=_first_step(settings, rewards),
        information=-jax.jacfwd(score, argnums=1)(rewards, start),
    )
    end, rounds = jax.lax.scan(iterate, begin, jnp.arange(settings.num_iterations))
    return summarise(settings, rounds, end.step_size)


def _running_sums(arms: Int[Array, " steps"], num_arms: int) -> Running:
    """The sums before each step. A reward is in those of its arm at all later steps: to sum again takes most of a transition."""
    steps, places = jnp.arange(arms.shape[0], dtype=jnp.int32), jnp.arange(num_arms, dtype=arms.dtype)

    def change(total: Float[Array, "steps arms"], site: Int[Array, ""], amount: Float[Array, ""]) -> Float[Array, "steps arms"]:
        own = jnp.sum(jnp.where(steps == site, arms, 0), dtype=arms.dtype)
        return total + jnp.where((steps > site)[:, None] & (places == own)[None], amount, 0)

    return Running(start=lambda rewards: statistics_before(arms, rewards, num_arms).total, change=change)


def _sampler(settings: ContrastiveDivergence, num_steps: int, step_size: Float[Array, ""]) -> Sampler:
    leapfrogs = settings.num_leapfrog or max(round(LEAPFROGS * num_steps**0.25), 1)
    return Sampler(
        kernel=settings.kernel,
        num_samples=settings.num_samples,
        num_warmup=0,
        step_size=step_size,
        num_leapfrog=leapfrogs,
    )


def _sample(
    key: PRNGKeyArray,
    log_density: Any,
    start: Float[Array, "chains steps"],
    sampler: Sampler,
    mean: Float[Array, " arms"],
    scale: Float[Array, " steps"],
    running: Running | None,
) -> tuple[Float[Array, "chains samples steps"], ChainInfo]:
    """All chains, each with a key of its own, and what they say together."""
    run = partial(sample_chain, running=running) if sampler.kernel in RANDOM_WALKS else continue_chain
    keys = key[None] if start.shape[0] == 1 else jax.random.split(key, start.shape[0])
    samples, info = jax.vmap(lambda key, start: run(key, log_density, start, sampler, mean, scale=scale))(keys, start)
    return samples, info._replace(acceptance=jnp.mean(info.acceptance))


def _covariance(scores: Float[Array, "chains samples arms"]) -> Float[Array, "arms arms"]:
    """The covariance of the scores over chains; not a number of one chain."""
    off = scores - jnp.mean(scores, axis=0, keepdims=True)
    size = (scores.shape[0] - 1) * scores.shape[1]
    return jnp.einsum("csi,csj->ij", off, off) / size if size else jnp.full((scores.shape[2],) * 2, jnp.nan, scores.dtype)


def _newton_move(information: Float[Array, "arms arms"], ascent: Float[Array, " arms"]) -> Float[Array, " arms"]:
    move = jnp.linalg.solve(information, ascent)
    return damp(move, jnp.sqrt(move @ ascent), LONGEST_MOVE)


def reward_scale(family: Family, mean: Float[Array, " arms"], arms: Int[Array, " steps"]) -> Float[Array, " steps"]:
    """How far each reward spreads, from the curvature of its log-density at its mean: sigma, for Normal rewards; 1 where flat."""
    family, mean = at_arm((family, mean), arms, mean.shape[0])
    slope = jax.grad(lambda rewards: jnp.sum(family.log_prob(rewards, mean)))
    curvature = -jax.jvp(slope, (mean,), (jnp.ones_like(mean),))[1]
    usable = (curvature > 0) & jnp.isfinite(curvature)
    return jnp.where(usable, jax.lax.rsqrt(jnp.where(usable, curvature, 1)), 1)


def adapt(settings: ContrastiveDivergence, step_size: Float[Array, ""], acceptance: Float[Array, ""]) -> Float[Array, ""]:
    """A larger step where nearly all is accepted, a smaller one where little is."""
    lowest, highest = settings.acceptance or ACCEPTANCE[settings.kernel]
    return step_size * jnp.where(acceptance > highest, GROWTH, jnp.where(acceptance < lowest, SHRINKAGE, 1.0)).astype(
        step_size.dtype
    )


def _first_step(settings: ContrastiveDivergence, rewards: Float[Array, " steps"]) -> Float[Array, ""]:
    default = first_step_size(settings.kernel, rewards.shape[0])
    return jnp.asarray(default if settings.step_size is None else settings.step_size, rewards.dtype)


def summarise(settings: ContrastiveDivergence, rounds: _Round, step_size: Float[Array, ""]) -> Fit:
    """The average over the tail, and what the chains say about it.

    An average of iterates is off by the inverse information times the average error of the scores, however they depend on each
    other over time; the chains are independent, so that their differences say how large that is.
    """
    tail, last = rounds.mean[-settings.tail :], slice(-settings.tail, None)
    half = max(tail.shape[0] // 2, 1)
    covariance = error = None
    if settings.num_chains > 1 and settings.persistent:
        covariance = jnp.linalg.inv(jnp.mean(rounds.information[last], axis=0))
        by_chain = jnp.mean(rounds.scores[last], axis=0)
        spread = _covariance(by_chain[:, None]) / settings.num_chains
        error = jnp.sqrt(jnp.diagonal(covariance @ spread @ covariance))
    nan_energies = rounds.chains.nan_energies
    return Fit(
        mean=jnp.mean(tail, axis=0),
        drift=jnp.mean(tail[-half:], axis=0) - jnp.mean(tail[:half], axis=0),
        iterates=rounds.mean if settings.keep_iterates else None,
        monte_carlo_error=error,
        covariance=covariance,
        acceptance=jnp.mean(rounds.chains.acceptance[last]),
        step_size=step_size,
        divergences=jnp.sum(rounds.chains.divergences, dtype=jnp.int32),
        nan_energies=None if nan_energies is None else jnp.sum(nan_energies, dtype=jnp.int32),
    )
