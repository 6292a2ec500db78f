"""Thompson sampling: draw every arm's mean from its posterior, pull the arm with the largest draw.

Simulation draws; the log-probability that an arm wins is an integral over one variable and needs no record of the draws.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betainc, betaln
from jax.scipy.stats import norm
from jaxtyping import Array, Float, Int, PRNGKeyArray

from jaxbias._core.gammas import beta
from jaxbias._core.layout import materialize
from jaxbias._core.normal_tail import log_ndtr
from jaxbias._core.randomness import normal
from jaxbias._core.search import bracket
from jaxbias._core.settings import FINITE, POSITIVE, decide, is_concrete, is_zero, setting, settings
from jaxbias.policies.base import ArmStatistics, StatisticsPolicy
from jaxbias.policies.beta_tables import BetaTables, nodes_for, start_tables
from jaxbias.policies.noise import TAU, choice_log_probs, choose, is_static_tau, tau_at
from jaxbias.policies.win_shares import beta_win_probs
from jaxbias.policies.winning import (
    beta_win_log_probs,
    noisy_normal_win_log_probs,
    normal_win_log_prob,
    normal_win_log_probs,
    normal_win_quadratic,
)

# Priors with which `beta_win_probs` is right to 1e-3: with (0.5, 0.5) it is off by up to 0.02, with (10^5, 1) by 0.001.
LEAST_PRIOR, MOST_PRIOR = 1.0, 1e3


@settings
class Thompson(StatisticsPolicy):
    """Thompson sampling with a Normal prior on every arm's mean and Normal rewards of known sigma.

    Arguments:
        prior_mean, prior_sigma: the prior, one number each or one per arm.
        sigma: the standard deviation of a reward that the policy assumes.
        tau: scale of the Gumbel noise added to the draws; a number or a function of the step.
    """

    prior_mean: Any = setting(default=0.0, allowed=FINITE)
    prior_sigma: Any = setting(default=5.0, allowed=POSITIVE)
    sigma: Any = setting(default=1.0, allowed=POSITIVE)
    tau: Any = setting(default=0.0, allowed=TAU, static=is_static_tau)

    noise_settings = ("tau",)
    records_draws = True
    log_concave = True  # the probability that one of several Normal variables is the largest (Prekopa 1973)

    def posterior(self, state: ArmStatistics) -> tuple[Float[Array, " arms"], Float[Array, " arms"]]:
        """The posterior mean and standard deviation of every arm."""
        dtype = state.total.dtype
        prior_mean = jnp.asarray(self.prior_mean, dtype)
        prior_precision = 1 / jnp.square(jnp.asarray(self.prior_sigma, dtype))
        reward_precision = 1 / jnp.square(jnp.asarray(self.sigma, dtype))
        precision = prior_precision + state.pulls.astype(dtype) * reward_precision
        return (prior_mean * prior_precision + state.total * reward_precision) / precision, jax.lax.rsqrt(precision)

    def shifted(self, offset: float) -> "Thompson | None":
        """With the prior moved too."""
        return dataclasses.replace(self, prior_mean=self.prior_mean - offset) if type(self) is Thompson else None

    def log_probs(self, state: ArmStatistics) -> Float[Array, " arms"]:
        """The log-probability that each arm's draw, plus its noise, is the largest."""
        location, scale = self.posterior(state)
        tau = tau_at(self.tau, state.pulls)
        if is_zero(tau):
            return normal_win_log_probs(location, scale)
        tau = jnp.asarray(tau, location.dtype)
        noisy = noisy_normal_win_log_probs(location, scale, jnp.where(tau > 0, tau, 1))
        return jnp.where(tau > 0, noisy, normal_win_log_probs(location, scale))

    def _has_integral(self, num_arms: int) -> bool:
        """Whether the probability of one arm is the integral without noise; a subclass may choose in another way."""
        return is_zero(self.tau) and num_arms > 2 and type(self).log_probs is Thompson.log_probs

    def log_prob(self, state: ArmStatistics, arm: Int[Array, ""]) -> Float[Array, ""]:
        """An integral for this arm alone."""
        if not self._has_integral(state.pulls.shape[-1]):
            return super().log_prob(state, arm)
        return normal_win_log_prob(*self.posterior(state), arm)

    def choice_quadratic(self, state: ArmStatistics, arm: Int[Array, ""]) -> tuple[Array, Array, Array] | None:
        """From the integral for this arm alone; the posterior means are linear in the sums."""
        if not self._has_integral(state.pulls.shape[-1]):
            return None
        location, scale = self.posterior(state)
        value, slope, curvature = normal_win_quadratic(location, scale, arm)
        share = jnp.square(scale) / jnp.square(jnp.asarray(self.sigma, scale.dtype))  # of a sum in the posterior mean
        return value, slope * share, curvature * share[:, None] * share[None]

    def log_prob_cost(self, num_arms: int) -> float:
        """An integral over nodes that all arms share, longer with noise; two arms without noise have a closed form."""
        if is_zero(self.tau):
            return 1.0 if num_arms < 3 else float(num_arms)
        return 6.0 * num_arms

    def choice_cost(self, num_arms: int) -> float:
        """Drawing is fast: measured with 4 arms, 5 microseconds against 0.1; with noise in the draws, 50."""
        return 50.0 if is_zero(self.tau) else 30.0 * num_arms**2

    def draw(self, key: PRNGKeyArray, state: ArmStatistics) -> Float[Array, " arms"]:
        """What the posterior of every arm gives, before any noise."""
        location, scale = self.posterior(state)
        return materialize(location + scale * normal(key, location.shape, location.dtype))

    def sample(self, key: PRNGKeyArray, state: ArmStatistics) -> Int[Array, ""]:
        """argmax of the posterior draws plus noise."""
        return self.choose(key, state, self.draw(key, state))

    def choose(self, key: PRNGKeyArray, state: ArmStatistics, draws: Float[Array, " arms"]) -> Int[Array, ""]:
        """The arm with the largest of these draws, after noise."""
        tau = tau_at(self.tau, state.pulls)
        return jnp.argmax(draws) if is_zero(tau) else choose(jax.random.fold_in(key, 1), draws, tau, "first")

    def drawn_log_prob(self, state: ArmStatistics, arm: Int[Array, ""], draws: Float[Array, " arms"]) -> Float[Array, ""]:
        """The log-density of the largest draw, with the log-probability that the others are below it.

        With noise, the log-density of all draws, with the log-probability of the arm given them. Two arms without noise have a
        closed form that needs no draws.
        """
        tau = tau_at(self.tau, state.pulls)
        if is_zero(tau) and state.pulls.shape[0] <= 2:
            return self.log_probs(state)[arm]
        location, scale = self.posterior(state)
        chosen = jnp.arange(draws.shape[0], dtype=arm.dtype) == arm
        if is_zero(tau):
            standard = (jnp.max(draws) - location) / scale
            return jnp.sum(jnp.where(chosen, norm.logpdf(standard) - jnp.log(scale), log_ndtr(standard)))
        given_draws = jnp.sum(jnp.where(chosen, choice_log_probs(draws, tau, "first"), 0))
        return jnp.sum(norm.logpdf((draws - location) / scale) - jnp.log(scale)) + given_draws

    @property
    def has_own_draw(self) -> bool:
        """Without noise; a subclass may choose in another way."""
        return type(self) is Thompson and is_zero(self.tau)

    def log_prob_given_own_draw(self, state: ArmStatistics, arm: Int[Array, ""], standard: Float[Array, ""]) -> Float[Array, ""]:
        """That the draws of all other arms are below it."""
        location, scale = self.posterior(state)
        own = jnp.arange(location.shape[0], dtype=arm.dtype) == arm
        draw = jnp.sum(jnp.where(own, location + standard * scale, 0))
        return jnp.sum(jnp.where(own, 0, log_ndtr((draw - location) / scale)))

    def given(self, draws: Float[Array, "steps arms"]) -> "RecordedThompson":
        """The same policy in one trial whose draws are known: what the paper conditions on."""
        return RecordedThompson(policy=self, draws=draws)


@settings
class RecordedThompson(StatisticsPolicy):
    """Thompson sampling together with what it drew in one trial: the log-density of the draws and of each arm after them.

        sum over arms of log Normal(draw; posterior of the arm)  +  log softmax(draws / tau)[chosen arm]

    The first is a quadratic in the summed rewards, the second does not depend on them, so that the rewards given arms and draws
    are exactly Gaussian.
    """

    policy: Thompson
    draws: Any

    log_concave = True

    def log_probs(self, state: ArmStatistics) -> Float[Array, " arms"]:
        """The log-density of this step's draws, with the log-probability of each arm given them."""
        draws = self.draws.at[jnp.sum(state.pulls)].get(mode="clip")
        location, scale = self.policy.posterior(state)
        density = jnp.sum(norm.logpdf((draws - location) / scale) - jnp.log(scale))
        return density + choice_log_probs(draws, tau_at(self.policy.tau, state.pulls), "first")


@settings
class BetaThompson(StatisticsPolicy):
    """Thompson sampling with a Beta prior on every arm's mean, for rewards of 0 and 1 (or between).

    Arguments:
        prior_success, prior_failure: the Beta prior, one number each or one per arm.
    """

    prior_success: Any = setting(default=1.0, allowed=POSITIVE)
    prior_failure: Any = setting(default=1.0, allowed=POSITIVE)

    unit_rewards = True
    decided = ("resolved",)
    resolved = None  # whether `beta_win_probs` is right with this prior, once that is known

    def posterior(self, state: ArmStatistics) -> tuple[Float[Array, " arms"], Float[Array, " arms"]]:
        """The two parameters of every arm's Beta posterior."""
        dtype = state.total.dtype
        failures = state.pulls.astype(dtype) - state.total
        return jnp.asarray(self.prior_success, dtype) + state.total, jnp.asarray(self.prior_failure, dtype) + failures

    def log_probs(self, state: ArmStatistics) -> Float[Array, " arms"]:
        """The log-probability that each arm's draw is the largest."""
        return beta_win_log_probs(*self.posterior(state))

    def log_prob_cost(self, num_arms: int) -> float:
        """An integral whose distribution functions are integrals too, which take some times as long as the Normal's."""
        return 6.0 * num_arms

    def for_settings(self) -> "BetaThompson":
        """It is known before compilation which of two sums over nodes serves for simulated batches: both in one loop, of which
        one is taken, are two and a half times as slow as one."""
        prior = (self.prior_success, self.prior_failure)
        if self.resolved is not None or not is_concrete(prior):
            return self
        return decide(
            self,
            resolved=all(bool(np.all((np.asarray(part) >= LEAST_PRIOR) & (np.asarray(part) <= MOST_PRIOR))) for part in prior),
        )

    def choice_probs(self, state: ArmStatistics) -> Float[Array, " arms"]:
        """By one sum over nodes that all arms share, where the prior is none of those that its nodes do not resolve.

        The prior is the same for all trials, so that only one of the two is computed.
        """
        exact, fast = (lambda *posterior: jnp.exp(beta_win_log_probs(*posterior))), beta_win_probs
        if self.resolved is not None:
            return (fast if self.resolved else exact)(*self.posterior(state))
        prior = jnp.concatenate([jnp.ravel(jnp.asarray(part)) for part in (self.prior_success, self.prior_failure)])
        resolved = jnp.all((prior >= LEAST_PRIOR) & (prior <= MOST_PRIOR))
        return jax.lax.cond(resolved, fast, exact, *self.posterior(state))

    def choice_cost(self, num_arms: int) -> float:
        """Both grow with the arms alike: measured with 4 arms, 8 microseconds against 1."""
        del num_arms
        return 8.0

    def table_nodes(self, most_pulls: int) -> int:
        """How many nodes `tables` needs for so many pulls of one arm."""
        return nodes_for(most_pulls, self.prior_success, self.prior_failure)

    def tables(self, num_arms: int, rows: int, nodes: int, dtype: Any) -> BetaTables:
        """The same log-probabilities for many counts of successes at once, before any pull."""
        success, failure = jnp.asarray(self.prior_success, dtype), jnp.asarray(self.prior_failure, dtype)
        return start_tables(*(jnp.broadcast_to(part, (num_arms,)) for part in (success, failure)), rows=rows, nodes=nodes)

    def sample(self, key: PRNGKeyArray, state: ArmStatistics) -> Int[Array, ""]:
        """argmax of the posterior draws."""
        return self.choose(key, state, self.draw(key, state))

    def draw(self, key: PRNGKeyArray, state: ArmStatistics) -> Float[Array, " arms"]:
        """What the posterior of every arm gives."""
        success, failure = self.posterior(state)
        return beta(key, success, failure)

    def choose(self, key: PRNGKeyArray, state: ArmStatistics, draws: Float[Array, " arms"]) -> Int[Array, ""]:
        """The arm with the largest of these draws."""
        del key, state
        return jnp.argmax(draws)

    def drawn_log_prob(self, state: ArmStatistics, arm: Int[Array, ""], draws: Float[Array, " arms"]) -> Float[Array, ""]:
        """The log-density of all draws, of which this arm's is the largest."""
        del arm
        limits = jnp.finfo(draws.dtype)
        draws = jnp.clip(draws, limits.tiny, 1 - limits.epsneg)  # a draw may round to an end
        success, failure = self.posterior(state)
        return jnp.sum((success - 1) * jnp.log(draws) + (failure - 1) * jnp.log1p(-draws) - betaln(success, failure))

    def sample_by_quantile(self, key: PRNGKeyArray, state: ArmStatistics) -> Int[Array, ""]:
        """As `sample`, with one quantile of each arm's posterior per seed, as in the paper's lemma on Thompson sampling.

        The rejection sampler behind `sample` is fast, but does not give a larger draw to an arm with more successes.
        """
        success, failure = self.posterior(state)
        quantile = jax.random.uniform(key, success.shape, success.dtype)
        below = lambda value: betainc(success, failure, value)
        return jnp.argmax(bracket(below, quantile, jnp.zeros_like(quantile), jnp.ones_like(quantile)))
