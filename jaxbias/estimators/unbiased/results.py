"""From averages over orders to an estimate: its standard error, its interval, and how the chains went."""

from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxbias._core.jit import compiled
from jaxbias.estimators.estimate import Estimate, Status, first_status
from jaxbias.estimators.intervals import bounded_interval, edge_interval, normal_quantile, student_quantile
from jaxbias.estimators.sample_mean import squares_within
from jaxbias.estimators.unbiased.averaging import Chain
from jaxbias.history import History
from jaxbias.rewards import BaseFamily, UnknownSigma

LARGEST_R_HAT = 1.05  # between the halves of all chains, of which each starts at the log; beyond it they have not mixed
FEWEST_SAMPLES = 50.0  # effective ones


class Averages(NamedTuple):
    """Over the orders of each log.

    Fields:
        mean, variance: of each arm's opening rewards over the orders that were averaged.
        monte_carlo_error: the standard error of the mean by the number of rounds; 0 where all orders were enumerated.
        r_hat, effective_sample_size: of the chains.
        acceptance: the share of proposals that were accepted.
        orders: how many were enumerated; 0 with chains.
    """

    mean: Float[Array, "trials arms"]
    variance: Float[Array, "trials arms"]
    monte_carlo_error: Float[Array, "trials arms"]
    r_hat: Float[Array, "trials arms"]
    effective_sample_size: Float[Array, "trials arms"]
    acceptance: Float[Array, " trials"]
    orders: Int[Array, " trials"]


@compiled
def from_chains(chains: Chain, movable: Bool[Array, "trials arms"]) -> Averages:
    """From the halves of all chains, (trials, chains, 2, arms): as if each half were a chain.

    An arm that could move, as its rewards differ, and did not in any chain has no effective sample: its average is the log's own
    opening, which says nothing about how far the average over all orders is from it.
    """
    halves = chains.mean.reshape(chains.mean.shape[0], -1, chains.mean.shape[-1])
    number = halves.shape[1]
    mean = jnp.mean(halves, axis=1)
    within = jnp.mean(chains.variance, axis=(1, 2))
    between = jnp.var(halves, axis=1, ddof=1)
    error = jnp.sqrt(between / number)
    moved = within > jnp.finfo(within.dtype).eps * (1 + jnp.square(mean))  # and not by rounding
    r_hat = jnp.sqrt(1 + between / jnp.where(moved, within, 1))
    variance = within + jnp.var(halves, axis=1)
    size = jnp.where(moved & (between > 0), variance / jnp.where(between > 0, jnp.square(error), 1), jnp.inf)
    stuck = movable & ~moved & jnp.isfinite(mean)
    return Averages(
        mean=mean,
        variance=jnp.where(moved, variance, 0),
        monte_carlo_error=jnp.where(stuck, jnp.inf, error),
        r_hat=jnp.where(moved, r_hat, jnp.where(stuck, jnp.inf, 1)),
        effective_sample_size=jnp.where(stuck, 0, size),
        acceptance=jnp.mean(chains.accepted, axis=(1, 2)),
        orders=jnp.zeros(mean.shape[0], jnp.int32),
    )


@partial(compiled, static=("level",))
def to_estimate(
    averages: Averages, logs: History, family: BaseFamily, opening: Float[Array, "trials arms"], level: float
) -> Estimate:
    """With the standard error: the variance of the opening's average, less its variance over the orders.

    For orders in equilibrium, as all of these are, this is the variance of the average over them, whether they were all or a few:
    the expected square of the opening's distance from the mean is the sum of the two. It is not less than that of as many
    independent rewards, with the Monte Carlo error.

    Of 0/1 rewards the variance over the orders is p (1 - p) at the estimate p, so that the difference is smallest just where the
    estimate is wrong. There the variance is the squared distance of the estimate from the sample mean, and that mean's own.

    An arm with one pull has that reward as its estimate, in every order. Its error is the standard deviation of one reward: a
    family with a variance or a sigma shared by the arms gives it. Otherwise there is no interval; the status is `PULLED_ONCE`.
    """
    pulls, mean = logs.statistics.pulls, averages.mean
    reward, freedom = _reward_variance(logs, family, mean)
    error = jnp.where(jnp.isfinite(averages.monte_carlo_error), averages.monte_carlo_error, 0)
    least = reward / jnp.maximum(pulls, 1).astype(reward.dtype) + jnp.square(error)
    if family.has_variance and family.mean_range[1] < jnp.inf:
        squared = least + jnp.square(mean - logs.statistics.mean)
    else:
        squared = jnp.maximum(reward / jnp.maximum(opening, 1) - averages.variance, least)
    stderr = jnp.sqrt(squared)
    mean, stderr = (jnp.where(pulls > 0, values, jnp.nan) for values in (mean, stderr))
    lower, upper = bounded_interval(family, mean, stderr, level)
    if freedom is not None:
        half = stderr * student_quantile(level, freedom, stderr.dtype)
        lower, upper = mean - half, mean + half
    apart = (averages.r_hat > LARGEST_R_HAT) & (pulls > 1)
    status = first_status(
        {
            Status.NEVER_PULLED: pulls == 0,
            Status.NOT_FINITE: jnp.isnan(mean),  # the policy cannot give this log
            Status.PULLED_ONCE: jnp.isnan(stderr) & (pulls == 1),
            Status.TOO_FEW_PULLS: jnp.isnan(stderr),
            Status.NO_SPREAD: ~(stderr > 0),
            Status.CHAINS_APART: apart,
            Status.TOO_FEW_SAMPLES: (averages.effective_sample_size < FEWEST_SAMPLES) & (pulls > 1),
        }
    )
    edge = edge_interval(family, logs.statistics.mean, pulls, level)
    if edge is not None:
        pick = lambda there, elsewhere: jnp.where(edge.at_edge & jnp.isfinite(mean), there, elsewhere)
        stderr = pick((edge.upper - edge.lower) / normal_quantile(level), stderr)
        lower, upper, status = pick(edge.lower, lower), pick(edge.upper, upper), pick(jnp.int32(Status.AT_EDGE), status)
    ends = dict(lower=lower, upper=upper)
    return Estimate(method="unbiased", mean=mean, stderr=stderr, status=status, diagnostics=_diagnostics(averages), **ends)


def _diagnostics(averages: Averages) -> dict[str, Any]:
    names = ("monte_carlo_error", "r_hat", "effective_sample_size", "acceptance", "orders")
    return {name: getattr(averages, name) for name in names}


def _reward_variance(logs: History, family: BaseFamily, mean: Array) -> tuple[Array, Array | None]:
    """Of one reward of each arm: by the family, half a success inside its range; or estimated, with degrees of freedom.

    The family's variance is that at the estimate; of a bounded family, at the sample mean.
    """
    pulls = logs.statistics.pulls
    if family.has_variance:
        low, high = family.mean_range
        count = pulls.astype(mean.dtype)
        if high < jnp.inf:
            inside = (logs.statistics.mean * count + (low + high) / 2) / (count + 1)
        else:
            inside = mean + 0.5 / jnp.maximum(count, 1) if family.has_edges else mean
        return jnp.vectorize(family.variance, signature="(k)->(k)")(inside), None
    squares, freedom = squares_within(logs), jnp.maximum(pulls - 1, 0)
    if isinstance(family, UnknownSigma) and not family.each:
        squares, freedom = (jnp.broadcast_to(jnp.sum(one, axis=-1, keepdims=True), one.shape) for one in (squares, freedom))
    return jnp.where(freedom > 0, squares / jnp.maximum(freedom, 1).astype(squares.dtype), jnp.nan), freedom
