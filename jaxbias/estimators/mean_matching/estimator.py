"""Mean matching: the means at which the policy, simulated, gives on average the sample means that were observed.

It needs the policy and no randomness in its choices. In group-sequential trials this is Whitehead's bias-adjusted estimator
(1986); elsewhere, the method of simulated moments.
"""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from jaxbias._core.chunks import LogChunks, as_many, log_keys, only_one, split_logs
from jaxbias._core.derivatives import held, refuse_derivative
from jaxbias._core.door import public
from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import compiled
from jaxbias._core.settings import evaluate, is_concrete
from jaxbias.estimators.checks import check_family_of, check_level, check_rewards
from jaxbias.estimators.estimate import Estimate, Status
from jaxbias.estimators.inversion.intervals import Interval, check_interval, with_inverted_interval
from jaxbias.estimators.mean_matching.matching import Match, match
from jaxbias.estimators.mean_matching.results import from_match, from_match_with_sigma
from jaxbias.estimators.mean_matching.sensitivity import differentiable
from jaxbias.estimators.mean_matching.unknown_sigma import match_with_sigma
from jaxbias.estimators.sigma import Spread, check_spread, sigma_of_arm, spread_of
from jaxbias.history import History, check_history, check_num_steps, check_unit_rewards
from jaxbias.policies import BasePolicy, Policy, check_policy, complete_policy
from jaxbias.rewards import BaseFamily, Family, UnknownSigma, complete_family
from jaxbias.simulation.paths import design_of, logs_at_once, of_arms
from jaxbias.stopping import StoppingRule, check_stop

FEWEST_PATHS = 100  # for a covariance of several arms
NOT_DIFFERENTIABLE = ArgumentError("stop", problem="is differentiated", remedy="an estimate has no derivative in a stopping rule")


class Options(NamedTuple):
    """What is asked of every log."""

    level: float
    num_paths: int
    max_rounds: int
    stop: StoppingRule | None
    num_steps: int


@public
def mean_matching(
    key: PRNGKeyArray,
    history: History,
    policy: Policy,
    family: Family,
    *,
    level: float = 0.95,
    num_paths: int = 2048,
    max_rounds: int = 10,
    interval: Interval = "inversion",
    stop: StoppingRule | None = None,
    num_steps: int | None = None,
) -> Estimate:
    """The means at which the simulated policy reproduces the observed sample means on average.

    Arguments:
        key: a `jax.random.key`.
        history: one trial or many.
        policy: how the arms were chosen, with any noise or none.
        family: what the rewards are; a `Normal` without its sigma (None, or "each") to have it estimated too.
        level: of the intervals.
        num_paths: paths simulated at each mean vector once the search is near; the Monte Carlo error falls with their root.
        max_rounds: how often they are simulated, at most.
        interval: "inversion", the interval of `test_inversion`, or "delta", plus and minus the standard error of the solution by
            the delta method. That is the spread over all experiments, whatever the pulls of the one at hand, and much wider.
        stop: the rule that could end the experiment early, as in `simulate`.
        num_steps: the most steps that the experiment could have had, where a rule could stop it; without it, as many as it has.

    Returns:
        An `Estimate`; an arm that was never pulled is not a number, and the others are estimated as if it had not been there. An
        arm without a success, or without a failure, is near the end of the range, with an interval on one side that holds under
        any policy; its status says so. It is differentiable in the rewards and in the settings of policy and family, as
        `Estimate` says.
        Diagnostics: `covariance` of the means, (arms, arms); `jacobian`, the derivative of the means in the sample means, and
        where sigma is estimated in the logarithm of that within arms;
        `monte_carlo_error` of each mean, `last_move`, `rounds` and `simulated_paths`; whether the interval of each arm is
        `inverted`, and its `interval_error`; where sigma is estimated, `sigma` with `sigma_stderr` and the degrees of `freedom`
        of the delta intervals, one or one for each arm.

    >>> import jax, jaxbias as jb
    >>> policy, family = jb.Greedy(), jb.Normal(sigma=1.0)
    >>> history = jb.simulate(jax.random.key(0), policy, family, [1.0, 0.75], num_steps=16)
    >>> estimate = jb.mean_matching(jax.random.key(1), history, policy, family)
    >>> bool((estimate.mean > history.statistics.mean).all()), bool(estimate.converged.all())
    (True, True)
    """
    check_level(level)
    if num_paths < FEWEST_PATHS:
        raise ArgumentError("num_paths", num_paths, f"{FEWEST_PATHS} or more")
    history = dataclasses.replace(check_history(history), held_out=None, draws=None)
    check_interval(interval)
    _check(*held((history, policy, family)))
    stop = refuse_derivative(stop, NOT_DIFFERENTIABLE)
    check_stop(stop, history.num_arms)
    asked_steps, num_steps = num_steps, check_num_steps(num_steps, history, stop)
    options = Options(level, num_paths, max_rounds, stop, num_steps)
    single = history.arms.ndim == 1
    logs = as_many(history) if single else history
    keys = log_keys(key, logs.arms.shape[0])
    estimate = _by_pulled_arms(complete_policy(policy), complete_family(family), keys, logs, options)
    estimate = only_one(estimate) if single else estimate
    if interval == "delta":
        return estimate
    own = complete_policy(policy), complete_family(family)
    return with_inverted_interval(key, estimate, history, *own, level, num_paths, stop=stop, num_steps=asked_steps)


def _check(history: History, policy: Policy, family: Family) -> None:
    """Refuses a log, a policy and a family that do not go together."""
    own_policy, own_family = check_policy(policy, history.num_arms), check_family_of(history, family)
    check_history(history)
    check_rewards(history, own_family)
    check_unit_rewards(history, own_policy)
    if isinstance(own_family, UnknownSigma):
        check_spread(history, own_family)


def _by_pulled_arms(policy: BasePolicy, family: BaseFamily, keys: Any, history: History, options: Options) -> Estimate:
    """Logs with the same arms pulled go together; the other arms have no figures."""
    pulls = evaluate(lambda history: history.statistics.pulls, held(history))
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
        parts.append(_widen_all(found, kept, history.num_arms))
    order = np.argsort(np.concatenate(rows), kind="stable")
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[order], *parts)


def _widen_all(found: Estimate, kept: np.ndarray, num_arms: int) -> Estimate:
    """The figures of all arms; the derivative in the sigma that the arms share has one column, which stays."""
    jacobian = found.diagnostics["jacobian"]
    arms, sigmas = jacobian[..., : len(kept)], jacobian[..., len(kept) :]
    others = {name: value for name, value in found.diagnostics.items() if name != "jacobian"}
    widen = partial(_widen, kept=kept, num_arms=num_arms)
    wide = jax.tree.map(widen, dataclasses.replace(found, diagnostics={**others, "jacobian": arms}))
    if sigmas.shape[-1] == 0:
        return wide
    each = sigmas.shape[-1] == len(kept) and "freedom" in others and others["freedom"].ndim == 2
    of_sigma = widen(sigmas) if each else widen(sigmas[..., 0])[..., None]
    wide.diagnostics["jacobian"] = jnp.concatenate([wide.diagnostics["jacobian"], of_sigma], axis=-1)
    return wide


def _widen(leaf: Array, kept: np.ndarray, num_arms: int) -> Array:
    """The figures of some arms as figures of all: NaN, or the status, of an arm that was never pulled."""
    absent = {"f": jnp.nan, "b": False, "i": int(Status.NEVER_PULLED)}[leaf.dtype.kind]
    for axis in range(1, leaf.ndim):
        shape = (*leaf.shape[:axis], num_arms, *leaf.shape[axis + 1 :])
        leaf = jnp.full(shape, absent, leaf.dtype).at[(*[slice(None)] * axis, kept)].set(leaf)
    return leaf


def _estimate(policy: BasePolicy, family: BaseFamily, keys: Any, history: History, options: Options) -> Estimate:
    """The estimates of logs in which every arm was pulled."""
    live = (history, policy, family)
    history, policy, family = held(live)
    at_once, work = logs_at_once(policy, family, history, options.num_paths), history.num_steps * options.num_paths
    chunks = split_logs(at_once, (keys, history, policy, family), work)
    sizes = dict(num_paths=options.num_paths, num_steps=options.num_steps if options.stop is not None else None)
    run = partial(_match, chunks=chunks, max_rounds=options.max_rounds, **sizes)
    found, spread = chunks.collect(run(policy, family, keys, history, options.stop))
    if isinstance(family, UnknownSigma):
        estimate = from_match_with_sigma(found, spread, family, history.num_arms, options.level)
    else:
        estimate = from_match(found, family, history.statistics, options.level)
    return differentiable(estimate, found, keys, live, options.stop, chunks, options.num_paths, options.num_steps)


@partial(compiled, static=("num_paths", "max_rounds", "chunks", "num_steps"), pads=("history",))
def _match(
    policy: BasePolicy,
    family: Any,
    keys: Any,
    history: History,
    stop: Any,
    num_paths: int,
    max_rounds: int,
    chunks: LogChunks,
    num_steps: int | None,
) -> tuple[Match, Spread | None]:
    def one(trial: tuple[Any, History]) -> tuple[Match, Spread | None]:
        key, log = trial
        design, observed = design_of(log, stop, num_steps, chunks.paths), log.statistics.mean
        if isinstance(family, UnknownSigma):
            of_arm = sigma_of_arm(family, log.num_arms)
            spread = spread_of(log, of_arm)
            return match_with_sigma(key, policy, of_arm, design, observed, spread, num_paths, max_rounds), spread
        return match(key, policy, family, design, observed, num_paths, max_rounds), None

    return chunks.map(one, (keys, history))
