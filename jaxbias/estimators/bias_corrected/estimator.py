"""Any estimate, less its bias: the policy is simulated at the estimate, and the estimator applied to every path.

    corrected = estimate - (E_estimate[estimate of a path] - estimate)

This is the parametric bootstrap's correction, once. It needs the policy and no randomness in its choices. With shrinkage as the
estimator, which has little error and a bias, it has less bias and less error than mean matching in the settings of the paper.
"""

import dataclasses
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from jaxbias._core.chunks import LogChunks, as_many, log_keys, only_one, split_logs
from jaxbias._core.door import public
from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import compiled
from jaxbias._core.randomness import root_words, trial_words
from jaxbias.estimators.bias_corrected.correction import Corrected, take_off, to_estimate
from jaxbias.estimators.checks import check_family_of, check_level, check_rewards
from jaxbias.estimators.estimate import Estimate
from jaxbias.estimators.inversion.intervals import Interval, check_interval, with_inverted_interval
from jaxbias.estimators.sample_mean import sample_mean
from jaxbias.estimators.shrinkage.estimator import check_variance, shrinkage, shrunken_means, summarise_log
from jaxbias.estimators.shrinkage.posterior import Summary
from jaxbias.estimators.shrinkage.simulating import family_to_simulate, means_to_simulate
from jaxbias.estimators.sigma import check_spread
from jaxbias.history import History, check_history, check_num_steps, check_unit_rewards
from jaxbias.policies import Policy, check_policy
from jaxbias.rewards import UNKNOWN_FAMILY, BaseFamily, Family, UnknownSigma
from jaxbias.simulation.paths import Paths, design_of, logs_at_once, simulate_paths
from jaxbias.stopping import StoppingRule, check_stop

FEWEST_PATHS = 100  # for a covariance of several arms

Estimator = Callable[..., Any]


def _sample_means(family: BaseFamily, summary: Summary) -> Float[Array, " arms"]:  # noqa: ARG001  (as of `shrunken_means`)
    return jnp.where(summary.pulls > 0, summary.mean, jnp.nan)


# Estimators of which pulls, means and squares are all that they need: a path then need not be recorded step by step.
FROM_SUMMARY = ((shrinkage, shrunken_means), (sample_mean, _sample_means))


@public
def bias_corrected(
    key: PRNGKeyArray,
    history: History,
    policy: Policy,
    family: Family,
    estimator: Estimator = shrinkage,
    *,
    level: float = 0.95,
    num_paths: int = 2048,
    interval: Interval = "inversion",
    stop: StoppingRule | None = None,
    num_steps: int | None = None,
) -> Estimate:
    """The estimate less its bias, which is simulated at the estimate.

    The simulated average has the score of the paths as a control variate, which is zero on average. The covariance with the score
    is also the derivative J of the expected estimate in the means, so that the corrected estimate has the derivative (2 - J) in
    the estimate: the standard error and `jax.grad` use it. `jax.grad` goes to the rewards where the estimator's does.

    Arguments:
        key: a `jax.random.key`.
        history: one trial or many.
        policy: how the arms were chosen, with any noise or none.
        family: what the rewards are; a `Normal` without its sigma (None, or "each") is simulated with the estimate of it.
        estimator: a function from a `History` of one trial (and, where it has an argument `family`, the family) to an `Estimate`
            or to one number for each arm, in JAX. `shrinkage` and `sample_mean` are computed from sums, any other from all steps
            of each path.
        level: of the intervals.
        num_paths: paths simulated for each log; the Monte Carlo error falls with their root.
        interval: "inversion", the interval of `test_inversion`, or "delta", plus and minus the spread of the corrected estimate
            over the paths.
        stop: the rule that could end the experiment early, as in `simulate`.
        num_steps: the most steps that the experiment could have had, where a rule could stop it; without it, as many as it has.

    Returns:
        An `Estimate` in the family's range: a correction goes at most nine tenths of the way to an end of it, and the status is
        `OUT_OF_RANGE` where it wanted to go further. The standard error is that of the interval.
        An arm without a pull is not a number; it is simulated at the average of the other estimates. An arm whose rewards were
        all at one end of the range has an interval on one side that holds under any policy. Diagnostics: `estimate` before the
        correction, `bias` that was taken off, its `monte_carlo_error`, and `covariance` (arms, arms).

    >>> import jax, jaxbias as jb
    >>> policy, family = jb.Greedy(), jb.Normal(sigma=1.0)
    >>> history = jb.simulate(jax.random.key(0), policy, family, [1.0, 0.75], num_steps=16)
    >>> estimate = jb.bias_corrected(jax.random.key(1), history, policy, family)
    >>> own = jb.bias_corrected(jax.random.key(1), history, policy, family, lambda history: history.statistics.mean)
    >>> bool((estimate.diagnostics["bias"] < 0).all()), bool(estimate.converged.all()), own.mean.shape
    (True, True, (2,))
    """
    check_level(level)
    if num_paths < FEWEST_PATHS:
        raise ArgumentError("num_paths", num_paths, f"{FEWEST_PATHS} or more")
    own_policy, own_family = check_policy(policy, history.num_arms), check_family_of(history, family)
    if own_family is UNKNOWN_FAMILY:
        raise ArgumentError("family", family, "the reward family, to simulate with")
    if estimator is shrinkage:
        check_variance(family, own_family)
    history = dataclasses.replace(check_history(history), held_out=None, draws=None)
    check_rewards(history, own_family)
    check_unit_rewards(history, own_policy)
    if isinstance(own_family, UnknownSigma):
        check_spread(history, own_family)
    check_stop(stop, history.num_arms)
    check_interval(interval)
    asked_steps, num_steps = num_steps, check_num_steps(num_steps, history, stop)
    single = history.arms.ndim == 1
    logs = as_many(history) if single else history
    keys = log_keys(key, logs.arms.shape[0])
    at_once, work = logs_at_once(own_policy, own_family, logs, num_paths), logs.num_steps * num_paths
    chunks = split_logs(at_once, (keys, logs, own_policy, own_family), work)
    from_sums = any(known is estimator for known, _ in FROM_SUMMARY)
    correct = _correct_sums if from_sums else _correct_steps
    sizes = (num_paths, chunks, None if stop is None else num_steps)
    run = correct(own_policy, own_family, family, keys, logs, stop, estimator, *sizes)
    estimate = to_estimate(chunks.collect(run), own_family, logs, level)
    estimate = only_one(estimate) if single else estimate
    if interval == "delta":
        return estimate
    ending: Any = dict(stop=stop, num_steps=asked_steps)
    return with_inverted_interval(key, estimate, history, own_policy, own_family, level, num_paths, **ending)


def _correct(
    policy: Any,
    family: Any,
    given: Any,
    keys: Any,
    history: History,
    stop: Any,
    estimator: Any,
    num_paths: int,
    chunks: LogChunks,
    num_steps: int | None,
) -> Corrected:
    def one(trial: tuple[Any, History]) -> Corrected:
        key, log = trial
        summary = summarise_log(log)
        from_summary = next((function for known, function in FROM_SUMMARY if known is estimator), None)
        estimate = _apply(estimator, log, given) if from_summary is None else from_summary(family, summary)
        simulated, freedom = family_to_simulate(family, summary)
        start = jax.lax.stop_gradient(means_to_simulate(family, estimate, summary.pulls))
        words = trial_words(root_words(key), jnp.uint32(0), num_paths)
        design, by_steps = design_of(log, stop, num_steps, chunks.paths), from_summary is None
        needs_squares = isinstance(family, UnknownSigma) and not by_steps
        paths = simulate_paths(words, policy, simulated, start, design, squares=needs_squares, steps=by_steps)
        if from_summary is None:
            of_paths = jax.vmap(lambda path: _apply(estimator, path, given))(paths.history)
        else:
            of_paths = jax.vmap(partial(from_summary, family))(_summaries(paths, simulated))
        return take_off(family, estimate, start, jax.lax.stop_gradient((of_paths, paths.score)), freedom)

    return chunks.map(one, (keys, history))


_STATIC = ("num_paths", "chunks", "num_steps")
_correct_sums = compiled(_correct, _STATIC, pads=("history",))
_correct_steps = compiled(_correct, _STATIC)  # an estimator of the user's own sees the log as it is


def _apply(estimator: Any, history: History, family: Any) -> Float[Array, " arms"]:
    """One number for each arm."""
    takes_family = "family" in inspect.signature(estimator).parameters
    found = estimator(history, family=family) if takes_family else estimator(history)
    return jnp.asarray(found.mean if isinstance(found, Estimate) else found)


def _summaries(paths: Paths, family: Any) -> Summary:
    """Of each path; the squares around the sample means from those around the means, where there are any."""
    pulls, squares = paths.pulls.astype(paths.sample_means.dtype), jnp.zeros_like(paths.sample_means)
    if paths.squares is not None:
        sigma = jnp.asarray(family.sigma)[None]
        off = jnp.square(paths.score * sigma) / jnp.maximum(pulls, 1)  # the score is the sum of (reward - mean) / sigma^2
        squares = jnp.maximum(paths.squares - off, 0) * jnp.square(sigma)
    return Summary(pulls=pulls, mean=paths.sample_means, squares=squares)
