"""What is too long or too slow to run, and how many trials the simulations may have: by what one simulated log costs."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxbias._core.errors import ArgumentError
from jaxbias._core.settings import is_zero
from jaxbias.estimators.registry import METHODS, Cost
from jaxbias.history import History
from jaxbias.policies import complete_policy, policy_name
from jaxbias.policy_fit.check import PolicyFit
from jaxbias.rewards import Normal, UnknownSigma, complete_family

# The unit of all costs is a step of a policy that looks up an index: 50 ns of one core, measured in float64.
LONGEST = 2**20  # steps, or whole batches, of a log that is simulated thousands of times: minutes; beyond, hours
PATHS, FEW_PATHS = 2**14, 2**11  # of mean matching, for standard errors known to 1%; fewer where a step is expensive
FEWEST_PATHS = 256  # of any simulation: a Monte Carlo error of a sixteenth of the standard error
WORK = 2**25  # of all paths of mean matching together: about 2 seconds, up to ten times
INTERVAL_WORK = 2**26  # likewise of intervals, whose paths are simulated one to three times, and again for tests of differences
MOST_WORK = 2**31  # likewise, beyond which a method is left out: two minutes each time
LITTLE_WORK = 2**26  # likewise, that a method may take which cannot help: some seconds
INTEGRALS = 2**14  # log-probabilities in units of a closed form, for which paths are run unasked: a minute; beyond, many minutes
NUMBERS = 2**18  # steps x arms of a log of Normal rewards whose paths are weighted: 3 GB and half a minute
PARTICLES = 2**16  # likewise of other rewards, whose particles are simulated again in every round: half a minute, two rounds
BIAS_WORK = 2**25  # of the trials of the estimated bias: about 2 seconds
BIAS_TRIALS = 2**14  # of it, at most: a Monte Carlo error of a hundredth of a sample mean's spread
EVALUATION_WORK = 2**26  # of all paths with which one method estimates all logs of an evaluation: about 3 seconds
EVALUATED_LOGS = (50, 100)  # at least, at most: with fewer a coverage is not known; with 100 it is to 1 or 2% over all arms
EVALUATION_PATHS = 256  # of each log: a Monte Carlo error of a sixteenth of the standard error, which adds 0.2% to the error
INTEGRATED = 50  # steps, for a policy that draws from its integral: measured 48 to 52 of BetaExplorationSampling, 2 and 5 arms
NOISY_ARMS = 3  # arms whose Gumbel noise takes as long as a step without it
INDEXED_ARMS = 100  # arms whose index takes as long as the rest of a step


def draws_batches(history: History, policy: Any, family: Any) -> bool:
    """Whether such logs are simulated by whole batches, as `simulation.batches.can_batch` decides."""
    sizes, own = history.batch_sizes, complete_policy(policy)
    if sizes is None or not own.keeps_statistics:
        return False
    sums = isinstance(family, UnknownSigma) or complete_family(family).has_sums
    return sums and sum(sizes) / len(sizes) >= max(own.choice_cost(history.num_arms), 2)


def looks_of(history: History, policy: Any, family: Any) -> int:
    """How often the policy is asked in one simulated log: at every step, or once for each whole batch."""
    batched = policy is not None and history.batch_sizes is not None and draws_batches(history, policy, family)
    return len(history.batch_sizes or ()) if batched else history.num_steps


def path_cost(history: History, policy: Any, family: Any) -> float:
    """The time of one simulated log like this one, in steps of a policy that looks up an index."""
    if policy is None:
        return float(history.num_steps)
    own, num_arms = complete_policy(policy), history.num_arms
    step = 1 + num_arms / INDEXED_ARMS
    if not is_zero(getattr(own, "tau", 0.0)):
        step = max(step, num_arms / NOISY_ARMS)
    integral = own.log_prob_cost(num_arms)  # drawing from posteriors grows with the arms as the integral over them does
    step = max(step, integral if own.has_sampler or integral <= 1 else INTEGRATED * integral)
    each = max(own.choice_cost(num_arms), 1.0) if draws_batches(history, policy, family) else 1.0
    return looks_of(history, policy, family) * each * step


def evaluated_logs(history: History, policy: Any, family: Any) -> int:
    """How many logs the methods are evaluated on; 0 where the log is too long for that."""
    number = int(EVALUATION_WORK / (EVALUATION_PATHS * path_cost(history, policy, family)))
    fewest, most = EVALUATED_LOGS
    if number < fewest:
        return 0
    step = max((most - fewest) // 2, 1)  # three numbers in all: programs are compiled for each
    return min(fewest + (number - fewest) // step * step, most)


def too_long(history: History, policy: Any, family: Any, methods: Sequence[str]) -> dict[str, ArgumentError]:
    """The methods that cannot run on a log of this length, with the reason."""
    looks = looks_of(history, policy, family)
    if looks <= LONGEST:
        return {}
    reason = ArgumentError(
        "log",
        allowed=f"at most {LONGEST:,}, because this method simulates thousands of such logs",
        subject="the number of rows",
        problem=f"is {looks:,}",
        remedy="take the first rows of the log",
    )
    return {name: reason for name in methods if METHODS[name].cost in (Cost.SIMULATION, Cost.WEIGHTED_PATHS)}


def check_longest(num_steps: int | None) -> None:
    """Refuses a number of steps at which no log can be simulated."""
    if num_steps is not None and num_steps > LONGEST:
        raise ArgumentError("num_steps", num_steps, f"at most {LONGEST:,}, because thousands of such logs are simulated")


def too_slow(history: History, policy: Any, family: Any, fit: PolicyFit | None = None) -> dict[str, ArgumentError]:
    """The methods that are left out unless they are asked for by name, with the reason; others are not tried anyway."""
    slow = _slow_integrals(history, policy, family) | _slow_paths(history, policy, family, fit)
    return {name: reason for name, reason in slow.items() if METHODS[name].by_default}


def _slow_paths(history: History, policy: Any, family: Any, fit: PolicyFit | None) -> dict[str, ArgumentError]:
    """The methods that simulate: where that takes minutes, or more than seconds and cannot help."""
    least = FEWEST_PATHS * path_cost(history, policy, family)
    remedy = "ask for the method by name to run it anyway"
    problem = None
    if policy is not None and least > MOST_WORK:
        problem = f"take several minutes: one simulated log of {policy_name(policy)} costs {least / FEWEST_PATHS:,.0f} steps"
    elif policy is not None and least > LITTLE_WORK and not complete_policy(policy).is_adaptive:
        problem = "have nothing to correct, because the arms were chosen without looking at the rewards"
    elif least > LITTLE_WORK and fit is not None and not fit.fits:
        problem = f"would be misled, because {policy_name(policy)} does not fit the log"
    if problem is None:
        return {}
    reason = ArgumentError("methods", subject="simulations", problem=problem, remedy=remedy)
    return {name: reason for name, method in METHODS.items() if method.cost in (Cost.SIMULATION, Cost.WEIGHTED_PATHS)}


def _slow_integrals(history: History, policy: Any, family: Any) -> dict[str, ArgumentError]:
    """The methods that weight paths by the policy's log-probabilities: where that takes minutes, or the memory of a machine."""
    weigh = [name for name, method in METHODS.items() if method.cost is Cost.WEIGHTED_PATHS]
    most = NUMBERS if isinstance(family, Normal | UnknownSigma) else PARTICLES
    if (numbers := history.num_steps * history.num_arms) > most:
        allowed = f"at most {most:,}, because this method weighs every step of thousands of paths"
        remedy = "ask for the method by name to run it anyway"
        reason = ArgumentError("log", allowed=allowed, subject="rows times arms", problem=f"is {numbers:,}", remedy=remedy)
        return dict.fromkeys(weigh, reason)
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
    return dict.fromkeys(weigh, reason)


def matching_paths(history: History, policy: Any, family: Any) -> int:
    """How many paths mean matching simulates: many where a path is fast and the policy has a fast way to choose an arm."""
    fast = policy is not None and complete_policy(policy).has_sampler and history.allocation == "independent"
    return _within(WORK / path_cost(history, policy, family), PATHS if fast else FEW_PATHS)


def interval_paths(history: History, policy: Any, family: Any) -> int:
    """How many paths the intervals are simulated with."""
    return _within(INTERVAL_WORK / path_cost(history, policy, family), FEW_PATHS)


def bias_trials(history: History, policy: Any, family: Any) -> int:
    """How many trials the estimated bias is simulated with; 0 where the log is too long."""
    cost = path_cost(history, policy, family)
    if looks_of(history, policy, family) > LONGEST or FEWEST_PATHS * cost > MOST_WORK:
        return 0
    return _within(BIAS_WORK / cost, BIAS_TRIALS)


def _within(number: float, most: int) -> int:
    """A power of two, so that logs of about the same cost share their programs."""
    return int(np.clip(2 ** int(np.log2(max(number, 1))), FEWEST_PATHS, most))
