"""Reward families: how one reward is drawn, and how likely it was, given its arm's mean.

A family is two functions, `sample(key, mean)` and `log_prob(reward, mean)`. `BaseFamily` documents what a family may bring beside
them; a class of the user's own need not derive from it. What a family knows about each arm (such as one sigma per arm) is a leaf
with one value per arm; `at_arm` picks the value of the arm that was pulled.
"""

from jaxbias.rewards.base import UNKNOWN_FAMILY, BaseFamily, Family
from jaxbias.rewards.checks import at_arm, check_family, check_sigma, complete_family
from jaxbias.rewards.families import EACH, Bernoulli, Exponential, Normal, Poisson, UnknownSigma

__all__ = [
    "EACH",
    "UNKNOWN_FAMILY",
    "BaseFamily",
    "Bernoulli",
    "Exponential",
    "Family",
    "Normal",
    "Poisson",
    "UnknownSigma",
    "at_arm",
    "check_family",
    "check_sigma",
    "complete_family",
]
