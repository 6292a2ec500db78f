"""Policies: pure functions from what has been seen to the log-probability of each arm."""

from jaxbias.policies.base import (
    ArmStatistics,
    Policy,
    StatisticsPolicy,
    check_policy,
    keeps_statistics,
    sample_arm,
)
from jaxbias.policies.exploration import BetaExplorationSampling, ExplorationSampling
from jaxbias.policies.greedy import EpsilonGreedy, Greedy, IndexPolicy
from jaxbias.policies.randomised import Exp3, Uniform
from jaxbias.policies.thompson import BetaThompson, Thompson
from jaxbias.policies.transformed import Clipped, Transformed
from jaxbias.policies.ucb import UCB1, LilUCB
from jaxbias.policies.urn import PlayTheWinner

__all__ = [
    "UCB1",
    "ArmStatistics",
    "BetaExplorationSampling",
    "BetaThompson",
    "Clipped",
    "EpsilonGreedy",
    "Exp3",
    "ExplorationSampling",
    "Greedy",
    "IndexPolicy",
    "LilUCB",
    "PlayTheWinner",
    "Policy",
    "StatisticsPolicy",
    "Thompson",
    "Transformed",
    "Uniform",
    "check_policy",
    "keeps_statistics",
    "sample_arm",
]
