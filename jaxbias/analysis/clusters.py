"""Rewards that come in clusters, such as several from one user: how alike they are, and intervals that allow for it.

The methods take the rewards of an arm for independent. If those of one user have the correlation rho, the variance of an arm's
average is larger by its design effect (Kish, 1965), 1 + (m - 1) rho, where m is the average size of a cluster in that arm,
weighted by the sizes. Intervals are widened by its square root.
"""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from jaxbias._core.errors import ArgumentError
from jaxbias.estimators.compare import Comparison
from jaxbias.estimators.estimate import Estimate

FEW_CLUSTERS = 20  # in an arm: with fewer, how alike rewards are is hardly known


class Clusters(NamedTuple):
    """How clusters change the precision of the sample means.

    Fields:
        number: how many clusters there are.
        correlation: of two rewards of one cluster and arm, from the analysis of variance; 0 where it comes out negative.
        design_effect: (arms,), by how much the variance of each average is larger than that of independent rewards.
        robust_ratio: (arms,), the cluster-robust standard error of the sample mean over the plain one, which assumes no common
            correlation; NaN where an arm has one cluster or rewards that do not vary.
        fewest: of the clusters in the arms that were pulled.
    """

    number: int
    correlation: float
    design_effect: Float[np.ndarray, " arms"]
    robust_ratio: Float[np.ndarray, " arms"]
    fewest: int

    @property
    def few(self) -> bool:
        """Whether an arm has too few clusters to know how alike their rewards are."""
        return self.fewest < FEW_CLUSTERS


def measure_clusters(arms: Any, rewards: Any, cluster: Any, num_arms: int) -> Clusters:
    """How alike the rewards of a cluster are, given the arm, and what that does to the averages of the arms.

    With groups g of n_g rewards, one for each arm and cluster, e the rewards less the average of their arm, N rewards, G groups
    and K arms, the correlation is (B - W) / (B + (n_0 - 1) W), where

        B = sum_g n_g mean_g(e)^2 / (G - K)
        W = sum (e - mean_g(e))^2 / (N - G)
        n_0 = (N - sum_k sum_g n_g^2 / N_k) / (G - K)

    Arguments:
        arms, rewards: (steps,), of one log.
        cluster: (steps,), the number of each pull's cluster.
        num_arms: how many arms there are.

    >>> found = measure_clusters([0, 0, 0, 0], [1.0, 1.0, 0.0, 0.0], [0, 0, 1, 1], 1)
    >>> found.correlation, found.design_effect.tolist()
    (1.0, [2.0])
    """
    arms, rewards, cluster = np.asarray(arms), np.asarray(rewards, np.float64), np.asarray(cluster)
    if arms.shape != cluster.shape or arms.ndim != 1:
        raise ArgumentError("cluster", cluster, f"one for each of {arms.size} pulls", problem=f"has shape {cluster.shape}")
    pulls = np.bincount(arms, minlength=num_arms).astype(float)
    off = rewards - (np.bincount(arms, rewards, num_arms) / np.maximum(pulls, 1))[arms]
    pairs, group = np.unique(np.stack([arms, cluster]), axis=1, return_inverse=True)
    group, arm = group.ravel(), pairs[0]
    size, total = np.bincount(group).astype(float), np.bincount(group, off)
    squared_size = np.bincount(arm, size**2, num_arms)
    correlation = _correlation(off, size, total, squared_size, pulls)
    weighted_size = np.where(pulls > 0, squared_size / np.maximum(pulls, 1), 1)
    groups = np.bincount(arm, minlength=num_arms)
    plain = np.bincount(arms, off**2, num_arms) / np.maximum(pulls - 1, 1)
    robust = np.bincount(arm, total**2, num_arms) / np.maximum(pulls, 1) * groups / np.maximum(groups - 1, 1)
    known = (groups > 1) & (plain > 0)
    return Clusters(
        number=len(np.unique(cluster)),
        correlation=correlation,
        design_effect=1 + (weighted_size - 1) * correlation,
        robust_ratio=np.where(known, np.sqrt(robust / np.where(known, plain, 1)), np.nan),
        fewest=int(groups[pulls > 0].min()),
    )


def _correlation(off: Any, size: Any, total: Any, squared_size: Any, pulls: Any) -> float:
    """The intra-class correlation by the analysis of variance."""
    rewards, groups, arms = len(off), len(size), int(np.sum(pulls > 0))
    if groups in (arms, rewards):  # one cluster in each arm, or no two rewards in one
        return 0.0
    between = np.sum(total**2 / size)
    within = (np.sum(off**2) - between) / (rewards - groups)
    between /= groups - arms
    typical = (rewards - np.sum(squared_size[pulls > 0] / pulls[pulls > 0])) / (groups - arms)
    below = between + (typical - 1) * within
    return float(np.clip((between - within) / below, 0, 1)) if below > 0 else 0.0


def widen(comparison: Comparison, clusters: Clusters, mean_range: tuple[float, float]) -> Comparison:
    """Every estimate with intervals and standard errors that are wider by the root of the design effects."""
    factor = np.sqrt(clusters.design_effect)
    estimates = {name: _widen(estimate, factor, mean_range) for name, estimate in comparison.estimates.items()}
    return dataclasses.replace(comparison, estimates=estimates)


def _widen(estimate: Estimate, factor: Float[np.ndarray, " arms"], mean_range: tuple[float, float]) -> Estimate:
    mean, lower, upper = (np.asarray(part) for part in (estimate.mean, estimate.lower, estimate.upper))
    diagnostics = dict(estimate.diagnostics)
    if "covariance" in diagnostics:
        diagnostics["covariance"] = np.asarray(diagnostics["covariance"]) * factor[:, None] * factor[None]
    low, high = mean_range
    return dataclasses.replace(
        estimate,
        stderr=np.asarray(estimate.stderr) * factor,
        lower=np.minimum(lower, np.maximum(mean - (mean - lower) * factor, low)),
        upper=np.maximum(upper, np.minimum(mean + (upper - mean) * factor, high)),
        diagnostics=diagnostics,
    )
