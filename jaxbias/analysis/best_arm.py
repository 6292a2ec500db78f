"""Which arm is best, by how much, and which others may be."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxbias.analysis.decisions import Ahead
from jaxbias.analysis.findings import BestArm
from jaxbias.estimators.estimate import Estimate, Status
from jaxbias.estimators.intervals import normal_quantile, student_quantile
from jaxbias.estimators.registry import METHODS


class Margins(NamedTuple):
    """By how much one arm is ahead of each of the others: standard errors and intervals."""

    stderr: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def find_best_arm(estimate: Estimate, level: float, ahead: Ahead | None = None) -> BestArm | None:
    """The arm with the largest estimate and its margin over the next; None where there are not two to compare.

    `ahead` has simulated tests, which decide where there are any, so that no two sentences about a log disagree.
    """
    mean = np.asarray(estimate.mean, np.float64)
    usable = np.flatnonzero(np.isfinite(mean))
    if len(usable) < 2:
        return None
    order = usable[np.argsort(-mean[usable], kind="stable")]
    arm, others = int(order[0]), order[1:]
    margin = mean[arm] - mean[others]
    tested = ahead is not None and ahead.leader == arm and bool(np.isfinite(ahead.lower[others]).all())
    found = _tested(ahead, others, margin, level) if ahead is not None and tested else _estimated(estimate, arm, others, level)
    kept = set(() if ahead is None else ahead.may_be_best)
    rivals = kept if tested else kept | {int(other) for other in others[~(found.lower > 0)]}
    ends = (float(part[0]) for part in (margin, *found))
    return BestArm(arm, int(others[0]), *ends, rivals=tuple(sorted(rivals - {arm})))


def _tested(ahead: Ahead, others: np.ndarray, margin: np.ndarray, level: float) -> Margins:
    """By the tests; a margin of estimates that were drawn together may be at their end."""
    lower, upper = np.minimum(ahead.lower[others], margin), np.maximum(ahead.upper[others], margin)
    return Margins((upper - lower) / (2 * normal_quantile(level)), lower, upper)


def _estimated(estimate: Estimate, arm: int, others: np.ndarray, level: float) -> Margins:
    """From the estimates and their intervals alone."""
    mean, stderr, lower, upper = (
        np.asarray(getattr(estimate, name), np.float64) for name in ("mean", "stderr", "lower", "upper")
    )
    margin, error = mean[arm] - mean[others], np.hypot(stderr[arm], stderr[others])
    farthest = lower[arm] - upper[others], upper[arm] - lower[others]
    if METHODS[estimate.method].holds_at_every_step:
        return Margins(error, *farthest)
    if estimate.method == "test_inversion" or "inverted" in estimate.diagnostics:
        # Intervals that are no plus and minus (Zou and Donner, 2008): each end of the margin is as far from it as the root of the
        # summed squares of how far the two ends that make it are from their means.
        below = np.hypot(mean[arm] - lower[arm], upper[others] - mean[others])
        above = np.hypot(upper[arm] - mean[arm], mean[others] - lower[others])
    else:
        variance = error**2
        if "covariance" in estimate.diagnostics:
            variance -= 2 * np.asarray(estimate.diagnostics["covariance"])[arm, others]
        error = np.sqrt(np.maximum(variance, 0.0))
        below = above = quantiles_of(estimate, np.stack([np.full_like(others, arm), others], axis=1), level) * error
    # Between one-sided intervals it is what their ends allow.
    status = np.asarray(estimate.status)
    edge = (status[arm] == Status.AT_EDGE) | (status[others] == Status.AT_EDGE)
    return Margins(error, np.where(edge, farthest[0], margin - below), np.where(edge, farthest[1], margin + above))


def quantiles_of(estimate: Estimate, arms: np.ndarray, level: float) -> np.ndarray:
    """Of the normal distribution, or of Student's with the fewest degrees of freedom of the arms in each row."""
    if "freedom" not in estimate.diagnostics:
        return np.full(len(arms), normal_quantile(level))
    freedom = np.nan_to_num(np.broadcast_to(estimate.diagnostics["freedom"], np.shape(estimate.mean))).astype(int)
    fewest, place = np.unique(freedom[arms].min(axis=1), return_inverse=True)
    return np.array([float(student_quantile(level, jnp.asarray(one), jnp.result_type(float))) for one in fewest])[place]
