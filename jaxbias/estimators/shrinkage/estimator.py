"""Shrinkage: empirical Bayes for the means of the arms, which are taken for draws from one distribution.

The likelihood of an adaptive log is the plain one: the policy's probabilities do not depend on the means, given the rewards. So a
posterior needs no policy.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxbias._core.chunks import LogChunks, as_many, only_one, split_logs
from jaxbias._core.door import public
from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import compiled
from jaxbias.estimators.checks import check_log
from jaxbias.estimators.conjugate import has_conjugate
from jaxbias.estimators.estimate import Estimate, Status, first_status
from jaxbias.estimators.intervals import normal_quantile
from jaxbias.estimators.sample_mean import squares_within
from jaxbias.estimators.shrinkage.normal import Variances, normal_posterior, own_variances, shared_variance
from jaxbias.estimators.shrinkage.one_parameter import conjugate_posterior
from jaxbias.estimators.shrinkage.posterior import Posterior, Summary
from jaxbias.estimators.sigma import check_spread
from jaxbias.history import History
from jaxbias.rewards import UNKNOWN_FAMILY, BaseFamily, Exponential, Family, UnknownSigma

NODES_AT_ONCE = 2**22  # logs x nodes x arms together


@public
def shrinkage(history: History, family: Family, *, level: float = 0.95) -> Estimate:
    """Each arm's posterior mean, where the means of the arms are draws from one distribution that the log determines.

    For Normal rewards the means are N(m, A), and an arm's estimate is drawn towards m by its share of the noise:

        m + A / (A + sigma^2 / pulls) (sample mean - m)

    For Bernoulli, Poisson and Exponential rewards they have the conjugate prior with mean m that is worth M pulls, and the
    estimate is (M m + total) / (M + pulls), in the family's range. m, and A or M, are integrated out: m with Jeffreys' prior (for
    Normal rewards flat, which gives the restricted likelihood of A), the shrinkage of a typical arm with the uniform one. So the
    interval allows for what the log does not say of them, also where all sample means are the same.

    It needs no policy, and holds under any stopping rule: the likelihood of an adaptive log is the plain one. It has far less
    error than the sample mean, and it draws the best arm down and the worst up: its bias has both signs (`bias_corrected`).

    Arguments:
        history: one trial or many.
        family: what the rewards are. A `Normal` without its sigma (None, or "each") has it integrated out, or estimated. A family
            of one's own needs a `variance`, and is taken for Normal with the variance at the average reward.
        level: of the intervals, which have this posterior probability, the same on both sides.

    Returns:
        An `Estimate`; `stderr` is the posterior standard deviation. An arm that was never pulled is not a number, and says
        nothing about the others. Diagnostics: `pulls`; `centre`, the posterior mean of m; `weight`, the share of the sample
        mean in each arm's estimate, from 0 to 1.

    >>> import jax.numpy as jnp, jaxbias as jb
    >>> history = jb.History(arms=jnp.array([0, 1, 1, 1]), rewards=jnp.array([0.0, 1.0, 2.0, 3.0]), num_arms=2)
    >>> estimate = jb.shrinkage(history, jb.Normal(sigma=1.0))
    >>> [round(float(mean), 2) for mean in estimate.mean], [round(float(end), 2) for end in estimate.upper]
    ([0.74, 1.75], [2.32, 2.86])
    """
    checked, completed = check_log(history, family, level)
    check_variance(family, completed)
    if isinstance(completed, UnknownSigma):
        check_spread(checked, completed)
    summary = summarise_log(checked)
    single = checked.arms.ndim == 1
    summary = as_many(summary) if single else summary
    chunks = split_logs(NODES_AT_ONCE // (100 * checked.num_arms), (summary, completed))
    estimate = chunks.collect(_shrink(summary, completed, level, chunks))
    return only_one(estimate) if single else estimate


@partial(compiled, pads=("history",))
def summarise_log(history: History) -> Summary:
    """What an arm's estimate is computed from."""
    statistics = history.statistics
    return Summary(pulls=statistics.pulls.astype(statistics.total.dtype), mean=statistics.mean, squares=squares_within(history))


def check_variance(family: Family | None, completed: BaseFamily) -> None:
    """Refuses a family that does not say how much a reward varies."""
    if completed is UNKNOWN_FAMILY or not (isinstance(completed, UnknownSigma) or completed.has_variance):
        raise ArgumentError("family", family, "a reward family with a method variance(mean), for shrinkage")


def posterior_of(family: BaseFamily, summary: Summary) -> Posterior:
    """Of one trial."""
    if isinstance(family, UnknownSigma):
        return normal_posterior(summary, own_variances(summary) if family.each else shared_variance(summary))
    if has_conjugate(family):
        return conjugate_posterior(family, summary)
    together = jnp.sum(summary.pulls * summary.mean) / jnp.maximum(jnp.sum(summary.pulls), 1)
    reward = jnp.broadcast_to(family.variance(jnp.full_like(summary.mean, together)), summary.mean.shape)
    return normal_posterior(summary, Variances(reward=reward, unit=jnp.ones((), reward.dtype)))


def shrunken_means(family: BaseFamily, summary: Summary) -> Float[Array, " arms"]:
    """The estimates of one trial alone, in the family's range; NaN without a pull. This is all that a simulated path needs."""
    return _means(family, summary, posterior_of(family, summary))


def _means(family: BaseFamily, summary: Summary, posterior: Posterior) -> Float[Array, " arms"]:
    mean = jnp.clip(posterior.average(posterior.mean), *family.mean_range)
    return jnp.where(summary.pulls > 0, mean, jnp.nan)


@partial(compiled, static=("chunks", "level"))
def _shrink(summary: Summary, family: BaseFamily, level: float, chunks: LogChunks) -> Estimate:
    return chunks.map(lambda one: _estimate(family, one, level), summary)


def _estimate(family: BaseFamily, summary: Summary, level: float) -> Estimate:
    """Of one trial."""
    posterior = posterior_of(family, summary)
    mean = _means(family, summary, posterior)
    # Quantiles have no derivative here: JAX has none of the incomplete beta function in its parameters.
    fixed = posterior_of(family, jax.lax.stop_gradient(summary))
    shares = jnp.asarray([(1 - level) / 2, (1 + level) / 2], mean.dtype)
    lower, upper = jnp.clip(jax.vmap(fixed.quantile)(shares), *family.mean_range)  # both from one table
    stderr = posterior.deviation
    if isinstance(family, Exponential):  # after one pull the variance of the posterior is infinite
        stderr = (upper - lower) / (2 * normal_quantile(level))
    pulled = summary.pulls > 0
    mean, stderr, lower, upper = (jnp.where(pulled, value, jnp.nan) for value in (mean, stderr, lower, upper))
    status = first_status({Status.NEVER_PULLED: ~pulled, Status.NOT_FINITE: ~(jnp.isfinite(mean) & jnp.isfinite(stderr))})
    diagnostics = {
        "pulls": summary.pulls.astype(jnp.int32),
        "centre": posterior.average(posterior.centre),
        "weight": jnp.where(pulled, posterior.average(posterior.kept), jnp.nan),
    }
    ends = dict(lower=lower, upper=upper)
    return Estimate(method="shrinkage", mean=mean, stderr=stderr, status=status, diagnostics=diagnostics, **ends)
