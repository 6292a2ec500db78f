"""Policies: pure functions from what has been seen to the log-probability of each arm."""

from jaxbias.policies.base import (
    ArmStatistics,
    BasePolicy,
    Policy,
    StatisticsPolicy,
    check_policy,
    complete_policy,
    policy_name,
)
from jaxbias.policies.exploration import BetaExplorationSampling, ExplorationSampling
from jaxbias.policies.greedy import EpsilonGreedy, Greedy, IndexPolicy
from jaxbias.policies.growthbook import GrowthBook
from jaxbias.policies.noise import Schedule
from jaxbias.policies.platforms import Floored, TopTwo, WarmUp
from jaxbias.policies.play_the_winner import PlayTheWinner
from jaxbias.policies.randomised import Exp3, Uniform
from jaxbias.policies.thompson import BetaThompson, Thompson
from jaxbias.policies.ucb import KLUCB, UCB1, LilUCB
from jaxbias.policies.wrappers import Clipped, Transformed

__all__ = [
    "KLUCB",
    "UCB1",
    "ArmStatistics",
    "BasePolicy",
    "BetaExplorationSampling",
    "BetaThompson",
    "Clipped",
    "EpsilonGreedy",
    "Exp3",
    "ExplorationSampling",
    "Floored",
    "Greedy",
    "GrowthBook",
    "IndexPolicy",
    "LilUCB",
    "PlayTheWinner",
    "Policy",
    "Schedule",
    "StatisticsPolicy",
    "Thompson",
    "TopTwo",
    "Transformed",
    "Uniform",
    "WarmUp",
    "check_policy",
    "complete_policy",
    "policy_name",
]
