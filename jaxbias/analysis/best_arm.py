"""Which arm is best, and by how much."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxbias.analysis.findings import BestArm
from jaxbias.estimators.estimate import Estimate, Status
from jaxbias.estimators.intervals import normal_quantile, student_quantile
from jaxbias.estimators.registry import METHODS


def find_best_arm(estimate: Estimate, level: float) -> BestArm | None:
    """The arm with the largest estimate and its margin over the next; None where there are not two to compare."""
    mean, stderr = (np.asarray(part, np.float64) for part in (estimate.mean, estimate.stderr))
    usable = np.flatnonzero(np.isfinite(mean))
    if len(usable) < 2:
        return None
    arm, runner_up = (int(place) for place in usable[np.argsort(-mean[usable], kind="stable")][:2])
    margin = float(mean[arm] - mean[runner_up])
    # The interval of a margin between intervals that hold at every step, or are one-sided, is between their ends.
    if METHODS[estimate.method].holds_at_every_step or (np.asarray(estimate.status)[[arm, runner_up]] == Status.AT_EDGE).any():
        lower, upper = np.asarray(estimate.lower, np.float64), np.asarray(estimate.upper, np.float64)
        ends = float(lower[arm] - upper[runner_up]), float(upper[arm] - lower[runner_up])
        return BestArm(arm, runner_up, margin, float(np.hypot(stderr[arm], stderr[runner_up])), *ends)
    if estimate.method == "test_inversion" or "inverted" in estimate.diagnostics:
        return _between_intervals(estimate, arm, runner_up)
    variance = stderr[arm] ** 2 + stderr[runner_up] ** 2
    if "covariance" in estimate.diagnostics:
        variance -= 2 * float(np.asarray(estimate.diagnostics["covariance"])[arm, runner_up])
    error = float(np.sqrt(max(variance, 0.0)))
    half = quantile_of(estimate, [arm, runner_up], level) * error
    return BestArm(arm, runner_up, margin, error, margin - half, margin + half)


def _between_intervals(estimate: Estimate, arm: int, runner_up: int) -> BestArm:
    """The margin between two means with intervals that are no plus and minus (Zou and Donner, 2008).

    Each end of the margin is as far from it as the root of the summed squares of how far the two ends that make it are from
    their means, so that it stays among the differences that the intervals allow.
    """
    mean, lower, upper = (np.asarray(part, np.float64) for part in (estimate.mean, estimate.lower, estimate.upper))
    margin = float(mean[arm] - mean[runner_up])
    below = float(np.hypot(mean[arm] - lower[arm], upper[runner_up] - mean[runner_up]))
    above = float(np.hypot(upper[arm] - mean[arm], mean[runner_up] - lower[runner_up]))
    error = float(np.hypot(*np.asarray(estimate.stderr, np.float64)[[arm, runner_up]]))
    return BestArm(arm, runner_up, margin, error, margin - below, margin + above)


def quantile_of(estimate: Estimate, arms: Any, level: float) -> float:
    """Of the normal distribution, or of Student's with the fewest degrees of freedom of these arms."""
    if "freedom" not in estimate.diagnostics:
        return normal_quantile(level)
    freedom = np.broadcast_to(estimate.diagnostics["freedom"], np.shape(estimate.mean))[arms].min()
    return float(student_quantile(level, jnp.asarray(int(np.nan_to_num(freedom))), jnp.result_type(float)))
