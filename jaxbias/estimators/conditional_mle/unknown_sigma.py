"""The maximum of the conditional likelihood in the means and in sigma, for Normal rewards.

With sigma unknown too the rewards are, given the arms, an exponential family with two statistics for each arm: the sum of its
rewards and of their squares (of arms that share a sigma, one sum of squares). Around the means and sigma of the samples,

    log weight = move / sigma'^2 . sums + (1 / sigma^2 - 1 / sigma'^2) / 2 . squares

and Newton's method runs in the means and log sigma, on the same samples and in the same search as where sigma is known.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxbias.estimators.conditional_mle.chain_samples import Chains, sample_chains, start_chains
from jaxbias.estimators.conditional_mle.gaussian_paths import sample_paths
from jaxbias.estimators.conditional_mle.gaussian_walk import laplace
from jaxbias.estimators.conditional_mle.markov_chains import Sampler
from jaxbias.estimators.conditional_mle.newton import NewtonFit, make_noise, maximise_from_samples, with_summary
from jaxbias.estimators.conditional_mle.record import Record
from jaxbias.estimators.conditional_mle.weighted_samples import Samples, moments_at
from jaxbias.estimators.sigma import pool
from jaxbias.policies import BasePolicy
from jaxbias.rewards import Normal

LEAST = (
    0.02  # eigenvalue of a matrix of correlations of samples: where it is smaller, adding to a part of it may make it negative
)


class MeansAndSigma(NamedTuple):
    """The parameters are the means and each log sigma, the statistics the sums of rewards and of squares around the means.

    Fields:
        of_arm: which sigma each arm has.
        is_free: which of them are searched; the others stay where they are.
    """

    of_arm: Int[np.ndarray, " arms"]
    is_free: Bool[Array, " sigmas"]

    def split(self, at: Array) -> tuple[Array, Array]:
        """The part of each arm, and the part of each sigma."""
        return at[: self.of_arm.shape[0]], at[self.of_arm.shape[0] :]

    def tilt(self, at: Array, move: Array) -> Array:
        """move / sigma'^2 and (1 / sigma^2 - 1 / sigma'^2) / 2."""
        log_sigma, (of_mean, of_sigma) = self.split(at)[1], self.split(move)
        after = jnp.exp(-2 * (log_sigma + of_sigma))
        return jnp.concatenate([of_mean * after[self.of_arm], -jnp.expm1(-2 * of_sigma) * jnp.exp(-2 * log_sigma) / 2])

    def slope(self, at: Array, move: Array) -> Array:
        """Of the tilt; none from sums to a sigma that stays where it is."""
        log_sigma, (of_mean, of_sigma) = self.split(at)[1], self.split(move)
        after = jnp.exp(-2 * (log_sigma + of_sigma))
        own = (self.of_arm[:, None] == np.arange(of_sigma.shape[0])[None]) & self.is_free[None]
        across = jnp.where(own, (-2 * of_mean * after[self.of_arm])[:, None], 0)
        nothing = jnp.zeros_like(across.T)
        return jnp.block([[jnp.diag(after[self.of_arm]), across], [nothing, jnp.diag(after)]])

    def log_normaliser(self, record: Record, at: Array, move: Array) -> Array:
        """Of the rewards of the log, which the samples are relative to, and of the Normal density itself."""
        mean, (of_mean, of_sigma) = self.split(at)[0], self.split(move)
        off = -record.drift(mean, record.rewards)
        sums, squares, pulls = record.by_arm(off), record.by_arm(off**2), record.count
        of_sums, of_squares = self.split(self.tilt(at, move))
        return (
            jnp.sum(of_sums * (sums - pulls * of_mean / 2))
            + jnp.sum(of_squares * pool(squares, self.of_arm))
            - jnp.sum(pulls * of_sigma[self.of_arm])
        )

    def statistics(self, samples: Samples) -> Samples:
        """The squares of the arms that share a sigma together; those of one that stays say nothing."""
        num_arms, num_sigmas = self.of_arm.shape[0], self.is_free.shape[0]
        squares = pool(samples.total[num_arms:], self.of_arm)
        total = jnp.concatenate([samples.total[:num_arms], jnp.where(self.is_free[:, None, None], squares, 0)])
        fixed = jnp.diag(jnp.concatenate([jnp.zeros(num_arms, bool), ~self.is_free]))
        known = jnp.pad(samples.known[:num_arms, :num_arms], (0, num_sigmas))
        samples = samples._replace(total=total, known=jnp.where(fixed, 1, known))
        return samples._replace(known=jnp.where(_is_sound(samples) | fixed, samples.known, 0))


def _is_sound(samples: Samples) -> Bool[Array, ""]:
    """Whether what is known of the sums goes with what was drawn of the squares: together they must be a covariance."""
    covariance = moments_at(samples, jnp.zeros(samples.total.shape[0], samples.total.dtype)).covariance
    scale = jnp.sqrt(jnp.maximum(jnp.diag(covariance), jnp.finfo(covariance.dtype).tiny))
    return jnp.linalg.eigvalsh(covariance / (scale[:, None] * scale[None]))[0] > LEAST


def newton_with_sigma(
    key: PRNGKeyArray,
    policy: BasePolicy,
    parameters: MeansAndSigma,
    record: Record,
    mean: Float[Array, " arms"],
    log_sigma: Float[Array, " sigmas"],
    pairs: int,
    max_rounds: int,
) -> NewtonFit:
    """The maximum for one trial of a policy that keeps pulls and sums, from sample means and the sigma within arms."""
    noise = make_noise(key, record, pairs)

    def sample(at: Array, path: Array) -> tuple[Samples, Array]:
        mean, log_sigma = parameters.split(at)
        sigma = jnp.exp(log_sigma)[parameters.of_arm]
        return parameters.statistics(sample_paths(policy, record, mean, sigma, path, noise, squares=True)), path

    mean, path = laplace(policy, record, jnp.exp(log_sigma)[parameters.of_arm], mean)
    return maximise_from_samples(sample, parameters, record, jnp.concatenate([mean, log_sigma]), path, max_rounds)[0]


def chains_with_sigma(
    key: PRNGKeyArray,
    policy: BasePolicy,
    parameters: MeansAndSigma,
    record: Record,
    mean: Float[Array, " arms"],
    log_sigma: Float[Array, " sigmas"],
    num_chains: int,
    sampler: Sampler,
    max_rounds: int,
) -> NewtonFit:
    """The maximum for one trial of any policy, with chains of rewards in place of paths."""

    def sample(at: Array, chains: Chains) -> tuple[Samples, Chains]:
        mean, log_sigma = parameters.split(at)
        family = Normal(sigma=jnp.exp(log_sigma)[parameters.of_arm])
        samples, chains = sample_chains(key, policy, family, record, mean, chains, sampler, squares=True)
        return parameters.statistics(samples), chains

    start = jnp.concatenate([mean, log_sigma])
    found = maximise_from_samples(sample, parameters, record, start, start_chains(record, num_chains), max_rounds)
    return with_summary(*found, num_chains * sampler.num_samples)
