"""What is too long or too slow to run, and how many trials the simulations may have."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxbias._core.errors import ArgumentError
from jaxbias.estimators.registry import METHODS, Cost
from jaxbias.history import History
from jaxbias.policies import complete_policy, policy_name
from jaxbias.rewards import Normal, UnknownSigma

LONGEST = 2**20  # steps of a log that is simulated thousands of times: minutes; beyond, hours
PATHS, FEW_PATHS = 2**14, 2**11  # of mean matching, for standard errors known to 1%; fewer where a step is expensive
WORK = 2**31  # steps of all paths together: about 20 seconds each time
INTEGRALS = 2**14  # log-probabilities in units of a closed form, for which paths are run unasked: a minute; beyond, many minutes
BIAS_STEPS = 2**28  # steps x arms x trials of the estimated bias: a few seconds
BIAS_TRIALS = (2**11, 2**14)  # at least, at most: a Monte Carlo error of a fiftieth to a hundredth of a sample mean's spread
EVALUATION_STEPS = 2**27  # steps of all paths with which one method estimates all logs of an evaluation: a few seconds
EVALUATED_LOGS = (50, 100)  # at least, at most: with fewer a coverage is not known; with 100 it is to 1 or 2% over all arms
EVALUATION_PATHS = 256  # of each log: a Monte Carlo error of a sixteenth of the standard error, which adds 0.2% to the error


def evaluated_logs(history: History) -> int:
    """How many logs the methods are evaluated on; 0 where the log is too long for that."""
    number = EVALUATION_STEPS // (EVALUATION_PATHS * history.num_steps)
    fewest, most = EVALUATED_LOGS
    return 0 if number < fewest else min(number, most)


def too_long(history: History, methods: Sequence[str]) -> dict[str, ArgumentError]:
    """The methods that cannot run on a log of this length, with the reason."""
    if history.num_steps <= LONGEST:
        return {}
    reason = ArgumentError(
        "log",
        allowed=f"at most {LONGEST:,}, because this method simulates thousands of such logs",
        subject="the number of rows",
        problem=f"is {history.num_steps:,}",
        remedy="take the first rows of the log",
    )
    return {name: reason for name in methods if METHODS[name].cost in (Cost.SIMULATION, Cost.WEIGHTED_PATHS)}


def too_slow(history: History, policy: Any, family: Any) -> dict[str, ArgumentError]:
    """The methods that are left out unless they are asked for by name, with the reason."""
    cost = 1.0 if policy is None else complete_policy(policy).log_prob_cost(history.num_arms)
    looks = history.num_steps
    if history.batch_sizes is not None and isinstance(family, Normal | UnknownSigma):
        looks = len(history.batch_sizes) * history.num_arms
    if cost <= 1 or looks * cost <= INTEGRALS:
        return {}
    reason = ArgumentError(
        "methods",
        allowed=f"at most {INTEGRALS:,}, about a minute",
        subject=f"the cost of {policy_name(policy)}'s integrals",
        problem=f"is {looks * cost:,.0f}",
        remedy="ask for the method by name to run it anyway",
    )
    return {name: reason for name, method in METHODS.items() if method.cost is Cost.WEIGHTED_PATHS}


def matching_paths(history: History, policy: Any) -> int:
    """How many paths mean matching simulates: many where the policy has a fast way to choose an arm."""
    fast = policy is not None and complete_policy(policy).has_sampler and history.allocation == "independent"
    return max(FEW_PATHS, min(PATHS, WORK // history.num_steps)) if fast else FEW_PATHS


def bias_trials(history: History) -> int:
    """How many trials the estimated bias is simulated with; 0 where the log is too long."""
    if history.num_steps > LONGEST:
        return 0
    return int(np.clip(BIAS_STEPS // (history.num_steps * history.num_arms), *BIAS_TRIALS))
