"""The conditional maximum likelihood by contrastive divergence: the paper's Algorithm 2, for one trial.

    mean <- mean + rate * (score at the data - average score at samples of the rewards given the arms)

The score is the gradient of the family's log-likelihood in the means: the policy's term does not depend on them. The samples
are a few Metropolis transitions from the data, too few to forget where they began, so that with the paper's settings the iterates
stop short of the maximum; a persistent chain and a falling rate reach it. The paper does not say how its chain proposes. One
reward at a time gives its printed figures in all twelve cells of its Tables 2 and 3; all rewards at once has too large an MSE in
four of them, by 8 to 13 points.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxbias._core.settings import COUNT, POSITIVE, PROBABILITY, one_of, setting
from jaxbias.estimators.conditional_mle.markov_chains import TARGETS, ChainInfo, Sampler, first_step_size, sample_chain
from jaxbias.history import count
from jaxbias.likelihood import Seen, trial_log_density
from jaxbias.policies import Policy
from jaxbias.rewards import Family, at_arm

# Acceptance outside these makes the step larger or smaller: the paper's for random walks, around the best for the others.
ACCEPTANCE = {"random_walk": (0.2, 0.5), "single_site": (0.2, 0.5), "mala": (0.4, 0.7), "hmc": (0.6, 0.9)}
GROWTH, SHRINKAGE = (
    1.1,
    0.9,
)  # of the step size after an iteration outside them: from 2.38 / sqrt(T), a few dozen iterations at most

PAPER_OPTIMISER = optax.sgd(0.01)  # made once, so that the defaults compile once


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, kw_only=True)
class ContrastiveDivergence:
    """How to run it; the defaults are the paper's. All of it is known before compilation.

    Arguments:
        optimiser: any optax optimiser, with its learning rate or schedule. Make it once: another one compiles anew.
        num_iterations: rounds of the optimiser.
        num_samples: transitions of the chain per iteration; the second half of them is averaged.
        kernel: "random_walk", "single_site", "mala" or "hmc".
        persistent: whether the chain goes on where it was; otherwise it restarts at the data in each iteration.
        step_size: the chain's first step, in standard deviations of a reward; None for one that suits the number of rewards.
        acceptance: the step is adapted, iteration by iteration, to accept between these; None for what suits the kernel.
        tail: how many of the last iterates are averaged.
        keep_iterates: whether to return all iterates.
    """

    optimiser: optax.GradientTransformation = PAPER_OPTIMISER
    num_iterations: int = setting(default=600, allowed=COUNT)
    num_samples: int = setting(default=30, allowed=COUNT)
    kernel: str = setting(default="single_site", allowed=one_of(*TARGETS))
    persistent: bool = False
    step_size: float | None = dataclasses.field(default=None, metadata={"allowed": POSITIVE})
    acceptance: tuple[float, float] | None = dataclasses.field(default=None, metadata={"allowed": PROBABILITY})
    tail: int = setting(default=100, allowed=COUNT)
    keep_iterates: bool = False


class Fit(NamedTuple):
    """Where the iterates ended, and what they say about themselves."""

    mean: Float[Array, " arms"]  # the average over the tail
    drift: Float[Array, " arms"]  # the second half of the tail minus the first: not small where it has not settled
    iterates: Float[Array, "rounds arms"] | None
    acceptance: Float[Array, ""]  # over the tail
    step_size: Float[Array, ""]  # of the chain, at the end
    divergences: Int[Array, ""]  # over all iterations, as the next
    nan_energies: Int[Array, ""]


class _Carry(NamedTuple):
    mean: Float[Array, " arms"]
    optimiser: Any
    start: Float[Array, " steps"]
    step_size: Float[Array, ""]


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
    """Algorithm 2 from the sample means, for one trial; `vmap` it over keys, arms, rewards and forced for many.

    >>> import jax, jaxbias as jb
    >>> log = jb.simulate(jax.random.key(0), jb.Greedy(tau=1.0), jb.Normal(), [1.0, 0.75], num_steps=8)
    >>> settings = ContrastiveDivergence(num_iterations=20, tail=10, keep_iterates=True)
    >>> problem = (jb.Greedy(tau=1.0), jb.Normal(), log.arms, log.rewards, log.forced_steps, 2)
    >>> contrastive_divergence(jax.random.key(1), *problem, settings).iterates.shape
    (20, 2)
    """
    chosen = arms[:, None] == jnp.arange(num_arms, dtype=arms.dtype)[None]
    scale = reward_scale(family, count(arms, rewards, num_arms).mean, arms)

    def density(values: Float[Array, " steps"], mean: Float[Array, " arms"]) -> Float[Array, ""]:
        return trial_log_density(policy, family, mean, arms, values, forced, seen)

    def gradient(mean: Float[Array, " arms"], samples: Float[Array, "samples steps"]) -> Float[Array, " arms"]:
        by_step = step_scores(family, mean, arms, rewards) - jnp.mean(
            jax.vmap(lambda sample: step_scores(family, mean, arms, sample))(samples), axis=0
        )
        return jnp.sum(jnp.where(chosen, by_step[:, None], 0), axis=0)

    def iterate(carry: _Carry, number: Int[Array, ""]) -> tuple[_Carry, tuple[Array, ChainInfo]]:
        sampler = Sampler(kernel=settings.kernel, num_samples=settings.num_samples, num_warmup=0, step_size=carry.step_size)
        start = carry.start if settings.persistent else rewards
        samples, info = sample_chain(jax.random.fold_in(key, number), density, start, sampler, carry.mean, scale=scale)
        ascent = gradient(carry.mean, samples[settings.num_samples // 2 :])
        with jax.numpy_dtype_promotion("standard"):  # Adam's bias correction is a float to the power of an integer
            updates, state = settings.optimiser.update(-ascent, carry.optimiser, carry.mean)
        mean = jnp.asarray(optax.apply_updates(carry.mean, updates))
        step_size = adapt(settings, carry.step_size, info.acceptance)
        return _Carry(mean=mean, optimiser=state, start=samples[-1], step_size=step_size), (mean, info)

    mean = count(arms, rewards, num_arms).mean
    begin = _Carry(mean=mean, optimiser=settings.optimiser.init(mean), start=rewards, step_size=_first_step(settings, rewards))
    end, (iterates, infos) = jax.lax.scan(iterate, begin, jnp.arange(settings.num_iterations))
    return summarise(settings, iterates, infos, end.step_size)


def step_scores(
    family: Family, mean: Float[Array, " arms"], arms: Int[Array, " steps"], rewards: Float[Array, " steps"]
) -> Float[Array, " steps"]:
    """The derivative of each reward's log-likelihood in the mean of its arm."""
    family, mean = at_arm((family, mean), arms, mean.shape[0])
    return jax.grad(lambda means: jnp.sum(family.log_prob(rewards, means)))(mean)


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


def summarise(
    settings: ContrastiveDivergence, iterates: Float[Array, "rounds arms"], infos: ChainInfo, step_size: Float[Array, ""]
) -> Fit:
    """The average over the tail, and the chains' own figures."""
    tail = iterates[-settings.tail :]
    half = max(tail.shape[0] // 2, 1)
    return Fit(
        mean=jnp.mean(tail, axis=0),
        drift=jnp.mean(tail[-half:], axis=0) - jnp.mean(tail[:half], axis=0),
        iterates=iterates if settings.keep_iterates else None,
        acceptance=jnp.mean(infos.acceptance[-settings.tail :]),
        step_size=step_size,
        divergences=jnp.sum(infos.divergences, dtype=jnp.int32),
        nan_energies=jnp.sum(infos.nan_energies, dtype=jnp.int32),
    )
