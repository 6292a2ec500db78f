"""The maximum of the conditional likelihood in the means and in sigma, for Normal rewards.

With sigma unknown too the rewards are, given the arms, an exponential family with two statistics for each arm: the sum of its
rewards and of their squares (of arms that share a sigma, one sum of squares). Around the means and sigma of the draws,

    log weight = move / sigma'^2 . sums + (1 / sigma^2 - 1 / sigma'^2) / 2 . squares

and Newton's method runs in the means and log sigma, on the same draws and in the same search as where sigma is known.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxbias.estimators.chains import Chains, sample_chains, start_chains
from jaxbias.estimators.draws import Draws, moments
from jaxbias.estimators.gaussian import draw_paths, laplace
from jaxbias.estimators.logs import Log
from jaxbias.estimators.newton import NewtonFit, make_noise, search, with_summary
from jaxbias.estimators.spread import pool
from jaxbias.policies import Policy
from jaxbias.rewards import Normal
from jaxbias.sampling import Sampler

LEAST = 0.02  # eigenvalue of a matrix of correlations of draws: where it is smaller, adding to a part of it may make it negative


class UnknownSigma(NamedTuple):
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

    def log_normaliser(self, log: Log, at: Array, move: Array) -> Array:
        """Of the rewards of the log, which the draws are less of, and of the Normal density itself."""
        mean, (of_mean, of_sigma) = self.split(at)[0], self.split(move)
        off = log.rewards - mean[log.arms]
        sums, squares, pulls = (jnp.zeros_like(mean).at[log.arms].add(part) for part in (off, off**2, jnp.ones_like(off)))
        of_sums, of_squares = self.split(self.tilt(at, move))
        return (
            jnp.sum(of_sums * (sums - pulls * of_mean / 2))
            + jnp.sum(of_squares * pool(squares, self.of_arm))
            - jnp.sum(pulls * of_sigma[self.of_arm])
        )

    def statistics(self, draws: Draws) -> Draws:
        """The squares of the arms that share a sigma together; those of one that stays say nothing."""
        num_arms, num_sigmas = self.of_arm.shape[0], self.is_free.shape[0]
        squares = pool(draws.total[num_arms:], self.of_arm)
        total = jnp.concatenate([draws.total[:num_arms], jnp.where(self.is_free[:, None, None], squares, 0)])
        fixed = jnp.diag(jnp.concatenate([jnp.zeros(num_arms, bool), ~self.is_free]))
        known = jnp.pad(draws.known[:num_arms, :num_arms], (0, num_sigmas))
        draws = draws._replace(total=total, known=jnp.where(fixed, 1, known))
        return draws._replace(known=jnp.where(_is_sound(draws) | fixed, draws.known, 0))


def _is_sound(draws: Draws) -> Bool[Array, ""]:
    """Whether what is known of the sums goes with what was drawn of the squares: together they must be a covariance."""
    covariance = moments(draws, jnp.zeros(draws.total.shape[0], draws.total.dtype)).covariance
    scale = jnp.sqrt(jnp.maximum(jnp.diag(covariance), jnp.finfo(covariance.dtype).tiny))
    return jnp.linalg.eigvalsh(covariance / (scale[:, None] * scale[None]))[0] > LEAST


def newton_with_sigma(
    key: PRNGKeyArray,
    policy: Policy,
    parameters: UnknownSigma,
    log: Log,
    mean: Float[Array, " arms"],
    log_sigma: Float[Array, " sigmas"],
    pairs: int,
    max_rounds: int,
) -> NewtonFit:
    """The maximum for one trial of a policy that keeps pulls and sums, from sample means and the sigma within arms."""
    noise = make_noise(key, log, pairs)

    def draw(at: Array, path: Array) -> tuple[Draws, Array]:
        mean, log_sigma = parameters.split(at)
        sigma = jnp.exp(log_sigma)[parameters.of_arm]
        return parameters.statistics(draw_paths(policy, log, mean, sigma, path, noise, squares=True)), path

    mean, path = laplace(policy, log, jnp.exp(log_sigma)[parameters.of_arm], mean)
    return search(draw, parameters, log, jnp.concatenate([mean, log_sigma]), path, max_rounds)[0]


def chains_with_sigma(
    key: PRNGKeyArray,
    policy: Policy,
    parameters: UnknownSigma,
    log: Log,
    mean: Float[Array, " arms"],
    log_sigma: Float[Array, " sigmas"],
    num_chains: int,
    sampler: Sampler,
    max_rounds: int,
) -> NewtonFit:
    """The maximum for one trial of any policy, with chains of rewards in place of paths."""

    def draw(at: Array, chains: Chains) -> tuple[Draws, Chains]:
        mean, log_sigma = parameters.split(at)
        family = Normal(sigma=jnp.exp(log_sigma)[parameters.of_arm])
        draws, chains = sample_chains(key, policy, family, log, mean, chains, sampler, squares=True)
        return parameters.statistics(draws), chains

    start = jnp.concatenate([mean, log_sigma])
    found = search(draw, parameters, log, start, start_chains(log, num_chains), max_rounds)
    return with_summary(*found, num_chains * sampler.num_samples)
