"""Shrinkage that is guarded by the pulls: no arm is moved in the direction in which its pulls say that it errs already.

An adaptive policy pulls an arm often because its rewards were high, and gives it up because they were low. So the sample mean of
an arm that was pulled more often than usual is too high, if anything, and one that was pulled less often is too low. Shrinkage
does not see that: it draws every low arm up, and so adds to the error of one that was lucky and pulled often.
"""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from jaxbias._core.chunks import LogChunks, as_many, log_keys, only_one, split_logs
from jaxbias._core.door import public
from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import compiled
from jaxbias._core.randomness import root_words, trial_words
from jaxbias.estimators.checks import check_family_of
from jaxbias.estimators.estimate import Estimate
from jaxbias.estimators.intervals import bounded_interval
from jaxbias.estimators.inversion.intervals import Interval, check_interval, with_inverted_interval
from jaxbias.estimators.shrinkage.estimator import shrinkage, shrunken_means, summarise_log
from jaxbias.estimators.shrinkage.posterior import Summary
from jaxbias.estimators.shrinkage.simulating import family_to_simulate, means_to_simulate
from jaxbias.history import History, check_history, check_num_steps, check_unit_rewards
from jaxbias.policies import Policy, check_policy
from jaxbias.rewards import BaseFamily, Family
from jaxbias.simulation.paths import design_of, logs_at_once, simulate_paths
from jaxbias.stopping import StoppingRule, check_stop

FEWEST_PATHS = 100  # for an average of 1 / pulls, which varies by about as much as itself
# Chosen on settings that no table judges, but for UP_IN_FULL (1.5 there): `benchmarks/README.md` has them, and other limits.
UP_FROM, UP_IN_FULL = 1.0, 1.75  # times the usual noise of the arm: from where on it is drawn up, and where it is in full
DOWN_UNTIL = 1.0  # standard errors of the sample mean: an arm that far above the others is not one of them


class Guarded(NamedTuple):
    """Of each log: the estimates, the share of the way that shrinkage would go, and the noise over the usual one."""

    mean: Float[Array, "*trials arms"]
    part: Float[Array, "*trials arms"]
    noise_ratio: Float[Array, "*trials arms"]


@public
def guarded_shrinkage(
    key: PRNGKeyArray,
    history: History,
    policy: Policy,
    family: Family,
    *,
    level: float = 0.95,
    num_paths: int = 1024,
    interval: Interval = "inversion",
    stop: StoppingRule | None = None,
    num_steps: int | None = None,
) -> Estimate:
    """Each arm's sample mean, moved towards the estimate of `shrinkage` only as far as its pulls allow.

    The policy is simulated at the shrunken means. The noise of an arm, 1 / pulls, over its average over the paths is r: above 1
    if the arm was pulled less often than usual. With t, the standard errors by which shrinkage moves the sample mean,

        an arm that is drawn up (t > 0) goes the part (r - 1) / 0.75 of the way, from 0 to all of it,
        an arm that is drawn down goes the part 1 - |t|, and not at all from one standard error on.

    So an arm that was given up early, which is where sample means have most of their bias and error, has the error of shrinkage;
    and an arm that was pulled often has no more error than its sample mean. It is what `debias` recommends where it helps.

    Arguments:
        key: a `jax.random.key`.
        history: one trial or many.
        policy: how the arms were chosen, with any noise or none.
        family: what the rewards are, with a variance; a `Normal` without its sigma (None, or "each") has it estimated.
        level: of the intervals.
        num_paths: paths simulated for each log.
        interval: "inversion", the interval of `test_inversion`, or "delta", as many posterior standard deviations of `shrinkage`
            around the estimate as a Normal distribution has at this level.
        stop, num_steps: the rule that could end the experiment, and how many steps it could have had, as in `mean_matching`.

    Returns:
        An `Estimate`, with the status of `shrinkage`. Diagnostics: `shrinkage`, the estimates it is drawn to; `part`, how much of
        the way each arm goes; `noise_ratio`, r. A derivative has `part` held.

    >>> import jax, jaxbias as jb
    >>> policy, family = jb.Greedy(), jb.Normal(sigma=1.0)
    >>> history = jb.simulate(jax.random.key(0), policy, family, [1.0, 0.75], num_steps=16)
    >>> estimate = jb.guarded_shrinkage(jax.random.key(1), history, policy, family)
    >>> bool(((0 <= estimate.diagnostics["part"]) & (estimate.diagnostics["part"] <= 1)).all()), bool(estimate.converged.all())
    (True, True)
    """
    if num_paths < FEWEST_PATHS:
        raise ArgumentError("num_paths", num_paths, f"{FEWEST_PATHS} or more")
    own_policy, own_family = check_policy(policy, history.num_arms), check_family_of(history, family)
    history = dataclasses.replace(check_history(history), held_out=None, draws=None)
    check_unit_rewards(history, own_policy)
    check_stop(stop, history.num_arms)
    check_interval(interval)
    asked_steps, num_steps = num_steps, check_num_steps(num_steps, history, stop)
    shrunken = shrinkage(history, family, level=level)
    single = history.arms.ndim == 1
    logs = as_many(history) if single else history
    keys = log_keys(key, logs.arms.shape[0])
    at_once, work = logs_at_once(own_policy, own_family, logs, num_paths), logs.num_steps * num_paths
    chunks = split_logs(at_once, (keys, logs, own_policy, own_family), work)
    sizes = (num_paths, chunks, None if stop is None else num_steps)
    found = chunks.collect(_guard(own_policy, own_family, keys, logs, stop, *sizes))
    estimate = _to_estimate(only_one(found) if single else found, shrunken, own_family, level)
    if interval == "delta":
        return estimate
    ending: Any = dict(stop=stop, num_steps=asked_steps)
    return with_inverted_interval(key, estimate, history, own_policy, own_family, level, num_paths, **ending)


@partial(compiled, static=("num_paths", "chunks", "num_steps"), pads=("history",))
def _guard(
    policy: Any, family: Any, keys: Any, history: History, stop: Any, num_paths: int, chunks: LogChunks, num_steps: int | None
) -> Guarded:
    def one(trial: tuple[Any, History]) -> Guarded:
        key, log = trial
        summary = summarise_log(log)
        shrunken = shrunken_means(family, summary)
        simulated, _ = family_to_simulate(family, summary)
        start = jax.lax.stop_gradient(means_to_simulate(family, shrunken, summary.pulls))
        words = trial_words(root_words(key), jnp.uint32(0), num_paths)
        paths = simulate_paths(words, policy, simulated, start, design_of(log, stop, num_steps, chunks.paths))
        ratio = noise_ratio(summary.pulls, paths.pulls)
        part = allowed_part(simulated, start, summary, shrunken - summary.mean, ratio)
        part, ratio = jax.lax.stop_gradient((part, ratio))
        return Guarded(mean=summary.mean + part * (shrunken - summary.mean), part=part, noise_ratio=ratio)

    return chunks.map(one, (keys, history))


def noise_ratio(pulls: Float[Array, " arms"], of_paths: Array) -> Float[Array, " arms"]:
    """1 / pulls of each arm, over its average over the paths that pulled the arm."""
    pulled = (of_paths > 0).astype(pulls.dtype)
    noise = pulled / jnp.maximum(of_paths, 1).astype(pulls.dtype)
    usual = jnp.sum(noise, axis=0) / jnp.maximum(jnp.sum(pulled, axis=0), 1)
    return 1 / (jnp.maximum(pulls, 1) * jnp.maximum(usual, jnp.finfo(usual.dtype).tiny))


def allowed_part(
    family: BaseFamily, mean: Array, summary: Summary, move: Float[Array, " arms"], ratio: Float[Array, " arms"]
) -> Float[Array, " arms"]:
    """The share of each arm's move that its pulls allow."""
    stderr = jnp.sqrt(family.variance(mean) / jnp.maximum(summary.pulls, 1))
    size = jnp.abs(move) / jnp.maximum(stderr, jnp.finfo(stderr.dtype).tiny)
    up = jnp.clip((ratio - UP_FROM) / (UP_IN_FULL - UP_FROM), 0, 1)
    return jnp.where(move > 0, up, jnp.clip(1 - size / DOWN_UNTIL, 0, 1))


@partial(compiled, static=("level",))
def _to_estimate(found: Guarded, shrunken: Estimate, family: BaseFamily, level: float) -> Estimate:
    """With the spread of the posterior around the estimate."""
    mean = jnp.where(jnp.isfinite(shrunken.mean), found.mean, jnp.nan)
    low, high = family.mean_range
    ends = bounded_interval(family, jnp.where((mean > low) & (mean < high), mean, shrunken.mean), shrunken.stderr, level)
    diagnostics = {"shrinkage": shrunken.mean, "part": found.part, "noise_ratio": found.noise_ratio}
    return Estimate(
        method="guarded_shrinkage",
        mean=mean,
        stderr=shrunken.stderr,
        lower=jnp.minimum(ends[0], mean),
        upper=jnp.maximum(ends[1], mean),
        status=shrunken.status,
        diagnostics=diagnostics,
    )
