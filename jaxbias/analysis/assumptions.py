"""What was not given: the reward family and its sigma."""

from typing import Any

import numpy as np

from jaxbias._core.errors import ArgumentError
from jaxbias.analysis.best_arm import quantiles_of
from jaxbias.analysis.findings import Assumed, Assumption
from jaxbias.estimators.compare import Comparison
from jaxbias.estimators.estimate import Estimate
from jaxbias.estimators.registry import METHODS
from jaxbias.estimators.sigma import sigma_of_arm, spread_of
from jaxbias.history import History, check_history
from jaxbias.policies import complete_policy
from jaxbias.rewards import Bernoulli, Normal, UnknownSigma, complete_family


def assume_family(history: History, policy: Any, family: Any) -> tuple[Any, tuple[Assumption, ...]]:
    """The family that was given, or else the one that the rewards suggest, whose sigma may still have to be estimated."""
    if family is not None:
        return complete_family(family) if isinstance(family, Normal) else family, ()
    rewards = np.asarray(history.rewards)
    takes_successes = policy is not None and complete_policy(policy).unit_rewards
    if not history.squares_known and not takes_successes:
        remedy = lambda name: f"name a column of successes if every reward is 0 or 1, or give {name('family')} and sigma"
        raise ArgumentError("family", None, problem="is not given, and the counts have no sums of squares", remedy=remedy)
    if takes_successes or np.all((rewards == 0) | (rewards == 1)):
        return Bernoulli(), (Assumption(Assumed.BERNOULLI),)
    return UnknownSigma(), (Assumption(Assumed.NORMAL),)


def sigma_within_arms(history: History, family: UnknownSigma) -> Any:
    """The standard deviation of the rewards within arms: one number, or one for each arm."""
    spread = spread_of(check_history(history), sigma_of_arm(family, history.num_arms))
    sigma = np.exp(np.asarray(spread.log_sigma(spread.freedom)))
    return sigma if family.each else float(sigma[0])


def estimated_sigma(estimate: Estimate, within: Any) -> Any:
    """The sigma that the method estimated beside its means; where it estimates none, the one within arms."""
    found = np.asarray(estimate.diagnostics.get("sigma", np.nan), np.float64)
    sigma = np.where(np.isnan(found), within, found)
    return sigma if sigma.ndim else float(sigma)


def assume_sigma(comparison: Comparison, method: str, family: UnknownSigma, within: Any) -> Assumption:
    """The sigma that takes the place of the one that was not given, with its interval where the method estimated it."""
    estimate, each = comparison.estimates[method], family.each
    if "sigma" not in estimate.diagnostics:
        taken_by = tuple(name for name in comparison.estimates if "scale" in METHODS[name].takes)
        return Assumption(Assumed.SIGMA_WITHIN_ARMS, each=each, sigma=np.atleast_1d(within), taken_by=taken_by)
    sigma, stderr = (np.atleast_1d(estimate.diagnostics[name]) for name in ("sigma", "sigma_stderr"))
    # On the scale of the logarithm, as sigma is positive.
    ratio = np.exp(quantiles_of(estimate, np.arange(len(stderr))[:, None], comparison.level) * stderr / sigma)
    ends = {"lower": sigma / ratio, "upper": sigma * ratio}
    return Assumption(Assumed.SIGMA_ESTIMATED, method=method, each=each, sigma=sigma, **ends)
