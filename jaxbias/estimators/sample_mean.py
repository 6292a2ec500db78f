"""The sample mean, with the interval of an analyst who does not know that the data were collected adaptively."""

from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxbias._core.derivatives import safe_sqrt
from jaxbias._core.door import public
from jaxbias._core.jit import compiled
from jaxbias.estimators.checks import check_log
from jaxbias.estimators.estimate import Estimate, status_by_pulls
from jaxbias.estimators.intervals import clip_to_family, wald
from jaxbias.history import History, count
from jaxbias.rewards import BaseFamily, Family


@public
def sample_mean(history: History, family: Family | None = None, *, level: float = 0.95) -> Estimate:
    """Each arm's average reward, and the interval that would be right had the arms been fixed in advance.

        Normal, sigma known     mean -/+ z sigma / sqrt(pulls)
        Bernoulli               mean -/+ z sqrt(mean (1 - mean) / pulls), clipped to 0 and 1
        otherwise               mean -/+ t s / sqrt(pulls), s the arm's sample standard deviation, pulls - 1 degrees of freedom

    On adaptive data it is biased, for most policies downwards, and the interval covers less than it says: it is here to be
    compared with. An arm without a pull has no mean (NaN), one with a single pull and no known sigma a mean and no interval;
    neither they nor a standard error of zero (rewards all alike) are `converged`.

    Arguments:
        history: one trial or many.
        family: what the rewards are, where known.
        level: of the intervals.

    Returns:
        An `Estimate`; diagnostics: `pulls` of each arm.

    >>> import jax.numpy as jnp, jaxbias as jb
    >>> history = jb.History(arms=jnp.array([0, 1, 1]), rewards=jnp.array([0.0, 1.0, 2.0]), num_arms=2)
    >>> estimate = jb.sample_mean(history, jb.Normal(sigma=1.0))
    >>> estimate.mean.tolist(), [round(float(end), 2) for end in estimate.upper]
    ([0.0, 1.5], [1.96, 2.89])
    """
    checked, completed = check_log(history, family, level, two_rewards=True)
    return estimate_from_means("sample_mean", checked, completed, level)


class ArmSummary(NamedTuple):
    """Each arm's pulls, mean (NaN without a pull) and standard deviation of its rewards (NaN below two pulls)."""

    pulls: Int[Array, "*trials arms"]
    mean: Float[Array, "*trials arms"]
    deviation: Float[Array, "*trials arms"]


@partial(compiled, static=("method", "level"), pads=("history",))
def estimate_from_means(method: str, history: History, family: BaseFamily, level: float) -> Estimate:
    """The sample means of a checked history, relied on where they have a standard error above zero.

    The interval is z where the family has a variance, t otherwise; clipped to the range of the family.
    """
    summary = summarise(history)
    stderr = naive_stderr(summary, family)
    status = status_by_pulls(summary.pulls, summary.mean, stderr)
    freedom = None if family.has_variance else summary.pulls - 1
    return clip_to_family(wald(method, summary.mean, stderr, level, status, {"pulls": summary.pulls}, freedom), family)


def summarise(history: History) -> ArmSummary:
    """Pulls, means and standard deviations of each arm."""
    pulls, mean, squares = history.statistics.pulls, history.statistics.mean, squares_within(history)
    spread = safe_sqrt(squares / jnp.maximum(pulls - 1, 1).astype(squares.dtype))
    return ArmSummary(pulls=pulls, mean=jnp.where(pulls > 0, mean, jnp.nan), deviation=jnp.where(pulls > 1, spread, jnp.nan))


def squares_within(history: History) -> Float[Array, "*trials arms"]:
    """The summed squares of each arm's rewards around its mean; in a second pass, so that they do not cancel."""
    deviation = history.rewards - jnp.take_along_axis(history.statistics.mean, history.arms, axis=-1)
    return count(history.arms, jnp.square(deviation), history.num_arms, history.lengths).total


def naive_stderr(summary: ArmSummary, family: BaseFamily) -> Float[Array, "*trials arms"]:
    """The standard deviation of one reward, by the family or estimated, over the root of the pulls; NaN without a pull."""
    if family.has_variance:
        deviation = jnp.vectorize(lambda mean: safe_sqrt(family.variance(mean)), signature="(k)->(k)")(summary.mean)
    else:
        deviation = summary.deviation
    root = jnp.sqrt(jnp.maximum(summary.pulls, 1).astype(deviation.dtype))
    return jnp.where(summary.pulls > 0, deviation / root, jnp.nan)
