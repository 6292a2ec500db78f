"""Mean matching: the means at which the policy, simulated, gives on average the sample means that were observed.

It needs the policy and no randomness in its choices. In group-sequential trials this is Whitehead's bias-adjusted estimator
(1986); elsewhere, the method of simulated moments.
"""

import dataclasses
from functools import partial
from statistics import NormalDist
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from jaxbias.compiling import compiled
from jaxbias.estimators.batches import Batches, split_into_batches
from jaxbias.estimators.bounded import EdgeInterval, edge_interval
from jaxbias.estimators.checks import check_history, check_level, check_num_steps, check_rewards, check_unit_rewards
from jaxbias.estimators.estimate import Estimate, status_of, wald
from jaxbias.estimators.matching import Match, invert, match
from jaxbias.estimators.matching_sigma import match_with_sigma
from jaxbias.estimators.naive import clip_to_family
from jaxbias.estimators.replicas import make_schedule, of_arms
from jaxbias.estimators.spread import Spread, check_spread, first_doubt, sigma_figures, sigma_of_arm, spread_of
from jaxbias.history import History
from jaxbias.policies import Policy, check_policy
from jaxbias.rewards import Family, check_family, lacks_sigma
from jaxbias.settings import is_concrete
from jaxbias.stopping import StoppingRule, check_stop

PATHS_AT_ONCE = 2**15  # logs x trials simulated together: as in `simulate`, few enough for the cache
STILL = 0.1  # in standard errors: a last step as small as this leaves nothing


def mean_matching(
    key: PRNGKeyArray,
    history: History,
    policy: Policy,
    family: Family,
    *,
    level: float = 0.95,
    num_paths: int = 2048,
    max_rounds: int = 10,
    inverted: bool = False,
    stop: StoppingRule | None = None,
    num_steps: int | None = None,
) -> Estimate:
    """The means at which the simulated policy reproduces the observed sample means on average.

    Arguments:
        key: a `jax.random.key`.
        history: one log or a batch of them.
        policy: how the arms were chosen, with any noise or none.
        family: what the rewards are; a `Normal` without its sigma (None, or "each") to have it estimated too.
        level: of the intervals.
        num_paths: trials simulated at each mean vector once the search is near; the Monte Carlo error falls with their root.
        max_rounds: how often they are simulated, at most.
        inverted: also a second interval for each arm: the means at which the observed value is at the ends of its simulated
            distribution, the other arms moving with it.
        stop: the rule that could end the experiment early, as in `simulate`.
        num_steps: the most steps that the experiment could have had, where a rule could stop it; without it, as many as it has.

    Returns:
        An `Estimate`; an arm that was never pulled is not a number, and the others are estimated as if it had not been there. An
        arm without a success, or without a failure, is near the end of the range, with an interval on one side that holds under
        any policy; its status says so.
        Diagnostics: `status` of each mean, the number of a line of `jaxbias.STATUS`; `covariance` of the means, (arms, arms);
        `monte_carlo_error` of each mean, `last_step`, `rounds` and `simulated_trials`; `lower_inverted` and `upper_inverted`
        where they were asked for; where sigma is estimated, `sigma` with `sigma_stderr` and the degrees of `freedom` of the
        intervals, one or one for each arm.

    >>> import jax, jaxbias as jb
    >>> policy, family = jb.Greedy(), jb.Normal(sigma=1.0)
    >>> history = jb.simulate(jax.random.key(0), policy, family, [1.0, 0.75], num_steps=16)
    >>> estimate = jb.mean_matching(jax.random.key(1), history, policy, family)
    >>> bool((estimate.mean > history.statistics.mean).all()), bool(estimate.converged.all())
    (True, True)
    """
    check_level(level)
    if num_paths < 100:
        raise ValueError(f"num_paths is {num_paths}; allowed: 100 or more")
    check_policy(policy, history.num_arms)
    check_family(family, np.full(history.num_arms, 0.5))
    history = dataclasses.replace(check_history(history), held_out=None, draws=None)
    check_rewards(history, family)
    check_unit_rewards(history, policy)
    if lacks_sigma(family):
        if inverted:
            raise ValueError(f"inverted is True and family is {family}; allowed with it: a family with nothing left to estimate")
        check_spread(history, family)
    single = history.arms.ndim == 1
    batch = jax.tree.map(lambda leaf: leaf[None], history) if single else history
    keys = jax.vmap(partial(jax.random.fold_in, key))(jnp.arange(batch.arms.shape[0]))
    check_stop(stop, history.num_arms)
    num_steps = check_num_steps(num_steps, history, stop)
    options = dict(level=level, num_paths=num_paths, max_rounds=max_rounds, inverted=inverted, stop=stop, num_steps=num_steps)
    estimate = _by_pulled_arms(policy, family, keys, batch, options)
    return jax.tree.map(lambda leaf: leaf[0], estimate) if single else estimate


def _by_pulled_arms(policy: Policy, family: Family, keys: Any, history: History, options: dict[str, Any]) -> Estimate:
    """Logs with the same arms pulled go together; the others' figures are not numbers."""
    pulls = history.statistics.pulls
    if not is_concrete(pulls) or np.all(np.asarray(pulls) > 0):
        return _estimate(policy, family, keys, history, options)
    parts, rows = [], []
    patterns, which = np.unique(np.asarray(pulls) > 0, axis=0, return_inverse=True)
    for number, pulled in enumerate(patterns):
        rows.append(np.flatnonzero(which.ravel() == number))
        kept = np.flatnonzero(pulled)
        some = jax.tree.map(lambda leaf, row=rows[-1]: leaf[row], history)
        some = dataclasses.replace(some, arms=jnp.asarray(np.searchsorted(kept, some.arms), jnp.int32), num_arms=len(kept))
        of_these = partial(of_arms, kept=kept, num_arms=history.num_arms)
        found = _estimate(jax.tree.map(of_these, policy), jax.tree.map(of_these, family), keys[rows[-1]], some, options)
        parts.append(jax.tree.map(partial(_widen, kept=kept, num_arms=history.num_arms), found))
    order = np.argsort(np.concatenate(rows), kind="stable")
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[order], *parts)


def _widen(leaf: Array, kept: np.ndarray, num_arms: int) -> Array:
    """The figures of some arms as figures of all: not a number, not converged, or the status that says so."""
    absent = {"f": jnp.nan, "b": False, "i": status_of("never pulled")}[leaf.dtype.kind]
    for axis in range(1, leaf.ndim):
        shape = (*leaf.shape[:axis], num_arms, *leaf.shape[axis + 1 :])
        leaf = jnp.full(shape, absent, leaf.dtype).at[(*[slice(None)] * axis, kept)].set(leaf)
    return leaf


def _estimate(policy: Policy, family: Family, keys: Any, history: History, options: dict[str, Any]) -> Estimate:
    level, inverted = options["level"], options["inverted"]
    sizes = dict(num_paths=options["num_paths"], max_rounds=options["max_rounds"])
    batches = split_into_batches(PATHS_AT_ONCE // options["num_paths"], (keys, history, policy, family))
    run = partial(_match_batch, inverted=inverted, batches=batches, num_steps=options["num_steps"], **sizes)
    found, ends, spread = batches.collect(run(policy, family, keys, history, jnp.asarray(level), options["stop"]))
    stderr = jnp.sqrt(jnp.diagonal(found.covariance, axis1=-2, axis2=-1))
    infinite = ~(jnp.isfinite(found.mean) & jnp.isfinite(stderr))
    moving = jnp.abs(found.step) > STILL * stderr
    words = ["not finite", "at the edge of what the family allows", "the mean was still moving after max_rounds"]
    status = jnp.select([infinite, found.at_edge, moving], [status_of(word) for word in words], 0)
    diagnostics = {
        "status": status,
        "covariance": found.covariance,
        "monte_carlo_error": found.monte_carlo_error,
        "last_step": found.step,
        "rounds": found.rounds,
        "simulated_trials": found.trials,
    }
    if ends is not None:
        diagnostics |= {"lower_inverted": ends[..., 0], "upper_inverted": ends[..., 1]}
    if spread is not None:
        return _without_sigma(found.mean, stderr, diagnostics, spread, family, history.num_arms, level)
    estimate = clip_to_family(wald("mean_matching", found.mean, stderr, level, status == 0, diagnostics), family)
    edge = edge_interval(family, history.statistics.mean, history.statistics.pulls, level)
    return estimate if edge is None else _at_edge(estimate, edge, level)


def _at_edge(estimate: Estimate, edge: EdgeInterval, level: float) -> Estimate:
    """With one-sided intervals for the arms whose rewards were all at one end; their status says so, and they are believed."""
    pick = lambda there, elsewhere: jnp.where(edge.at_edge, there, elsewhere)
    stderr = (edge.upper - edge.lower) / NormalDist().inv_cdf((1 + level) / 2)
    words = status_of("at the edge of what the family allows")
    return dataclasses.replace(
        estimate,
        stderr=pick(stderr, estimate.stderr),
        lower=pick(edge.lower, estimate.lower),
        upper=pick(edge.upper, estimate.upper),
        converged=estimate.converged | edge.at_edge,
        diagnostics={**estimate.diagnostics, "status": pick(words, estimate.diagnostics["status"])},
    )


def _without_sigma(
    joint: Array, stderr: Array, figures: dict[str, Any], spread: Spread, family: Any, num_arms: int, level: float
) -> Estimate:
    """The figures of means and log sigma as an estimate of the means, with Student's intervals and sigma in the diagnostics."""
    of_arm, arms, sigmas = sigma_of_arm(family, num_arms), (..., slice(None, num_arms)), (..., slice(num_arms, None))
    status = first_doubt(figures["status"][arms], figures["status"][sigmas], spread, of_arm)
    told = spread.is_free[..., of_arm]
    covariance = figures["covariance"][..., :num_arms, :num_arms]
    covariance = jnp.where(told[..., :, None] & told[..., None, :], covariance, jnp.nan)
    of_arms = {name: figures[name][arms] for name in ("monte_carlo_error", "last_step")}
    diagnostics = {**figures, **of_arms, "status": status, "covariance": covariance}
    diagnostics |= sigma_figures(family, joint[sigmas], stderr[sigmas], spread)
    error, freedom = jnp.where(told, stderr[arms], jnp.nan), spread.freedom[..., of_arm]
    return wald("mean_matching", joint[arms], error, level, status == 0, diagnostics, freedom)


@partial(compiled, static=("num_paths", "max_rounds", "inverted", "batches", "num_steps"))
def _match_batch(
    policy: Policy,
    family: Any,
    keys: Any,
    history: History,
    level: Any,
    stop: Any,
    num_paths: int,
    max_rounds: int,
    inverted: bool,
    batches: Batches,
    num_steps: int,
) -> tuple[Match, Float[Array, "trials arms 2"] | None, Spread | None]:
    def one(trial: tuple[Any, History]) -> tuple[Match, Array | None, Spread | None]:
        key, log = trial
        schedule, observed = make_schedule(log, stop, num_steps), log.statistics.mean
        if lacks_sigma(family):
            of_arm = sigma_of_arm(family, log.num_arms)
            spread = spread_of(log, of_arm)
            return match_with_sigma(key, policy, of_arm, schedule, observed, spread, num_paths, max_rounds), None, spread
        found = match(key, policy, family, schedule, observed, num_paths, max_rounds)
        again = jax.random.fold_in(key, 1)
        ends = invert(again, policy, family, schedule, observed, found, level, num_paths) if inverted else None
        return found, ends, None

    return batches.map(one, (keys, history))
