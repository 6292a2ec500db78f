"""`conditional_mle` where sigma is not known: means and sigma of many trials, with intervals that are Student's.

The maximum likelihood sigma is too small, by the root of (pulls - arms) / pulls where nothing was adaptive. The standard errors
of the means are made larger by as much, and the quantiles are those of t with pulls - arms degrees of freedom; with one sigma for
each arm, with its own pulls - 1. An arm pulled once then has no interval: for the sake of the others its sigma is that within all
arms together.
"""

from functools import partial
from typing import Any

import jax.numpy as jnp

from jaxbias.compiling import compiled
from jaxbias.estimators.batches import Batches
from jaxbias.estimators.conditional_checks import policy_of
from jaxbias.estimators.estimate import Estimate, wald
from jaxbias.estimators.logs import make_log
from jaxbias.estimators.newton import NewtonFit
from jaxbias.estimators.spread import Spread, first_doubt, sigma_figures, sigma_of_arm, spread_of
from jaxbias.estimators.unknown_sigma import UnknownSigma, chains_with_sigma, newton_with_sigma
from jaxbias.history import History
from jaxbias.policies import Policy
from jaxbias.sampling import Sampler


@partial(compiled, static=("batches", "pairs", "num_chains", "max_rounds"))
def fit_with_sigma(
    policy: Policy,
    family: Any,
    keys: Any,
    history: History,
    sampler: Sampler | None,
    batches: Batches,
    pairs: int,
    num_chains: int,
    max_rounds: int,
) -> tuple[NewtonFit, Spread]:
    """The maximum for each trial, from paths or, with a sampler, from chains."""
    of_arm = sigma_of_arm(family, history.num_arms)

    def one(trial: tuple[Any, History]) -> tuple[NewtonFit, Spread]:
        key, log = trial
        given = policy_of(policy, log)
        spread = spread_of(log, of_arm)
        steps = make_log(log.arms, log.rewards, log.forced_steps, log.num_arms, log.batch_sizes)
        parameters = UnknownSigma(of_arm=of_arm, is_free=spread.is_free)
        problem = (key, given, parameters, steps, log.statistics.mean, spread.log_sigma(spread.pulls))
        if sampler is None:
            return newton_with_sigma(*problem, pairs, max_rounds), spread
        return chains_with_sigma(*problem, num_chains, sampler, max_rounds), spread

    return batches.map(one, (keys, history))


def without_sigma(joint: Estimate, spread: Spread, family: Any, num_arms: int, level: float) -> Estimate:
    """The estimate of means and log sigma as one of the means, with Student's intervals and sigma among the diagnostics."""
    of_arm = sigma_of_arm(family, num_arms)
    arms, sigmas = (..., slice(None, num_arms)), (..., slice(num_arms, None))
    figures = joint.diagnostics
    status = first_doubt(figures["status"][arms], figures["status"][sigmas], spread, of_arm)
    larger = jnp.sqrt(spread.pulls.astype(joint.mean.dtype) / spread.freedom.astype(joint.mean.dtype))[..., of_arm]
    larger = jnp.where(spread.is_free[..., of_arm], larger, jnp.nan)
    covariance = figures["covariance"][..., :num_arms, :num_arms] * larger[..., :, None] * larger[..., None, :]
    of_arms = {name: figures[name][arms] for name in ("monte_carlo_error", "last_move")}
    diagnostics = {**figures, **of_arms, "status": status, "covariance": covariance}
    diagnostics |= sigma_figures(family, joint.mean[sigmas], joint.stderr[sigmas], spread)
    stderr, freedom = joint.stderr[arms] * larger, spread.freedom[..., of_arm]
    return wald(joint.method, joint.mean[arms], stderr, level, status == 0, diagnostics, freedom)
