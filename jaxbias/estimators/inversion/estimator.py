"""Test inversion: the means that a simulated test does not reject.

For a candidate mean c of an arm, the policy is simulated with that mean, and with means of the other arms spread over what the
log says about them. The candidate is kept while the observed studentised statistic is between the tails of its simulated
distribution. The distribution is that of the experiment that was run, with its adaptive choices, batches and stopping rule, so
that the interval covers as often as it says without being wider than it needs to be. The middle is the median-unbiased estimate.
The same test serves any contrast of arms.
"""

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxbias._core.chunks import LogChunks, as_many, log_keys, only_one, split_logs
from jaxbias._core.derivatives import refuse_derivative
from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import compiled
from jaxbias._core.settings import as_float
from jaxbias.estimators.checks import check_family_of, check_level, check_rewards
from jaxbias.estimators.estimate import Estimate, Status, first_status
from jaxbias.estimators.intervals import normal_quantile
from jaxbias.estimators.inversion.inverting import InvertedTests, invert_tests
from jaxbias.estimators.sigma import check_spread
from jaxbias.history import History, check_history, check_num_steps, check_unit_rewards
from jaxbias.policies import BasePolicy, Policy, check_policy
from jaxbias.rewards import BaseFamily, Family, Normal, UnknownSigma
from jaxbias.simulation.paths import design_of, logs_at_once
from jaxbias.stopping import StoppingRule, check_stop

FEWEST_PATHS = 100  # for a tail of 2.5%
NOT_DIFFERENTIABLE = ArgumentError(
    "history", problem="is differentiated", remedy="test_inversion has no derivative; mean_matching and bias_corrected have"
)
MOST_ERROR = 0.5  # of the chance that a tail should have: beyond it an end is not known well enough to be printed


class Contrasts(NamedTuple):
    """Weighted sums of the means of few arms, so that the other arms need not be computed with.

    Fields:
        arms: of each contrast, padded with arms of no weight.
        weights: of these arms.
    """

    arms: Int[Array, "contrasts few"]
    weights: Float[Array, "contrasts few"]


def test_inversion(
    key: PRNGKeyArray,
    history: History,
    policy: Policy,
    family: Family,
    *,
    level: float = 0.95,
    contrast: ArrayLike | Sequence[Any] | None = None,
    null: float | None = None,
    num_paths: int = 2048,
    max_rounds: int = 3,
    stop: StoppingRule | None = None,
    num_steps: int | None = None,
) -> Estimate:
    """Intervals, median-unbiased estimates and p-values by inverting simulated tests of the studentised mean.

        lower, upper     the means at which P(statistic beyond the observed one) = (1 - level) / 2, ties counted half
        mean             the mean at which the observed statistic is the median

    One set of paths serves every arm and every candidate: paths are simulated at anchors spread over what the log says of each
    arm, and weighted by the likelihood of their rewards at the candidate. Where the weights leave a tail unknown, new paths are
    simulated at anchors farther apart.

    Arguments:
        key: a `jax.random.key`.
        history: one trial or many.
        policy: how the arms were chosen, with any noise or none.
        family: what the rewards are: `Normal`, with its sigma or without it (None, or "each"), `Bernoulli`, `Poisson`,
            `Exponential`, or one with `variance`, `natural` and `from_natural`.
        level: of the intervals.
        contrast: (arms,) or (contrasts, arms), weights of the means: the result is then that of each weighted sum.
        null: a value that is tested; `diagnostics["p_value"]` is then the two-sided p-value of each arm or contrast. By default
            0 for a contrast, and none for arms.
        num_paths: how many paths are simulated each time.
        max_rounds: how often they are simulated, at most.
        stop, num_steps: the rule that could end the experiment, and how many steps it could have had, as in `mean_matching`.

    Returns:
        An `Estimate`, of each arm or of each contrast. `stderr` is the half-width of the interval over the normal quantile.
        Diagnostics: `monte_carlo_error` of each end, (2,), as a share of the tail's probability; `rounds`; `p_value` where a
        value is tested.

    >>> import jax, jaxbias as jb
    >>> policy, family = jb.Greedy(), jb.Normal(sigma=1.0)
    >>> history = jb.simulate(jax.random.key(0), policy, family, [1.0, 0.75], num_steps=16)
    >>> found = jb.test_inversion(jax.random.key(1), history, policy, family, contrast=[1.0, -1.0])
    >>> bool(found.lower < found.mean), bool(found.mean < found.upper), found.diagnostics["p_value"].shape
    (True, True, ())
    """
    check_level(level)
    if num_paths < FEWEST_PATHS:
        raise ArgumentError("num_paths", num_paths, f"{FEWEST_PATHS} or more")
    history, policy, family = refuse_derivative((history, policy, family), NOT_DIFFERENTIABLE)
    own_policy, own_family = check_policy(policy, history.num_arms), _check_family(history, family)
    history = dataclasses.replace(check_history(history), held_out=None, draws=None)
    check_rewards(history, own_family)
    check_unit_rewards(history, own_policy)
    if isinstance(own_family, UnknownSigma):
        check_spread(history, own_family)
    check_stop(stop, history.num_arms)
    contrasts = _contrasts(contrast, history)
    tested = None if null is None and contrast is None else jnp.asarray(null or 0.0, history.rewards.dtype)
    single = history.arms.ndim == 1
    logs = as_many(history) if single else history
    keys = log_keys(key, logs.arms.shape[0])
    chunks = split_logs(logs_at_once(own_policy, own_family, logs, num_paths), (keys, logs, own_policy, own_family))
    sizes = dict(num_paths=num_paths, max_rounds=max_rounds, num_steps=check_num_steps(num_steps, history, stop))
    chance = jnp.asarray((1 - level) / 2, logs.rewards.dtype)
    tests = chunks.collect(_run(own_policy, own_family, keys, logs, contrasts, chance, tested, stop, chunks=chunks, **sizes))
    estimate = _estimate(tests, contrasts, logs, own_family, level)
    if contrast is not None and np.ndim(contrast) == 1:
        estimate = jax.tree.map(lambda leaf: leaf[:, 0] if leaf.ndim > 1 else leaf, estimate)
    return only_one(estimate) if single else estimate


test_inversion.__test__ = False  # pytest: not a test, whatever its name


def can_invert(family: BaseFamily) -> bool:
    """Whether the likelihood of the family's rewards is a function of their sum."""
    return isinstance(family, Normal | UnknownSigma) or family.has_natural


def _check_family(history: History, family: Family) -> BaseFamily:
    completed = check_family_of(history, family)
    if not can_invert(completed):
        allowed = "Normal, Bernoulli, Poisson or Exponential, or one with variance, natural and from_natural"
        raise ArgumentError("family", family, allowed)
    return completed


def _contrasts(contrast: Any, history: History) -> Contrasts:
    """The contrasts by the arms that they have; without any, every arm by itself."""
    dtype, num_arms = history.rewards.dtype, history.num_arms
    if contrast is None:
        return Contrasts(jnp.arange(num_arms, dtype=jnp.int32)[:, None], jnp.ones((num_arms, 1), dtype))
    weights = as_float(contrast)
    if weights.ndim not in (1, 2) or weights.shape[-1] != num_arms:
        allowed = f"one weight for each of {num_arms} arms, or a row of them for each contrast"
        raise ArgumentError("contrast", contrast, allowed, problem=f"has shape {weights.shape}")
    weights = np.atleast_2d(np.asarray(weights))
    if not np.isfinite(weights).all() or not (weights != 0).any(axis=1).all():
        raise ArgumentError("contrast", contrast, "finite weights, not all 0")
    few = int((weights != 0).sum(axis=1).max())
    arms = np.argsort(weights == 0, axis=1, kind="stable")[:, :few]
    return Contrasts(jnp.asarray(arms, jnp.int32), jnp.asarray(np.take_along_axis(weights, arms, axis=1), dtype))


@partial(compiled, static=("num_paths", "max_rounds", "chunks", "num_steps"))
def _run(
    policy: BasePolicy,
    family: Any,
    keys: Any,
    history: History,
    contrasts: Contrasts,
    chance: Any,
    null: Any,
    stop: Any,
    num_paths: int,
    max_rounds: int,
    chunks: LogChunks,
    num_steps: int,
) -> InvertedTests:
    def one(trial: tuple[Any, History]) -> InvertedTests:
        key, log = trial
        design = design_of(log, stop, num_steps)
        return invert_tests(key, policy, family, log, design, contrasts, chance, null, num_paths, max_rounds)

    return chunks.map(one, (keys, history))


def _at_end(family: Any, history: History) -> Bool[Array, "trials arms"]:
    """Whether every reward of an arm was at the same end of the family's range."""
    statistics = history.statistics
    low, high = family.mean_range
    at_end = (statistics.mean <= low) | (statistics.mean >= high)
    return at_end if family.has_edges else jnp.zeros_like(at_end)


@partial(compiled, static=("level",))
def _estimate(tests: InvertedTests, contrasts: Contrasts, history: History, family: Any, level: float) -> Estimate:
    pulls = history.statistics.pulls[:, contrasts.arms]  # (trials, contrasts, few)
    used = (contrasts.weights != 0)[None]
    known = ~jnp.any((pulls == 0) & used, axis=-1)
    alone = jnp.any((pulls == 1) & used, axis=-1) & (isinstance(family, UnknownSigma) and family.each)
    ends = (tests.median, tests.lower, tests.upper)
    finite = jnp.all(jnp.isfinite(jnp.stack(ends)), axis=0)
    status = first_status(
        {
            Status.NEVER_PULLED: ~known,
            Status.PULLED_ONCE: alone,
            Status.NOT_FINITE: ~finite,
            Status.TOO_FEW_SAMPLES: ~(jnp.max(tests.error, axis=-1) < MOST_ERROR),
            Status.AT_EDGE: jnp.any(_at_end(family, history)[:, contrasts.arms] & used, axis=-1),
        }
    )
    mean, lower, upper = (jnp.where(known & ~alone, end, jnp.nan) for end in ends)
    diagnostics: dict[str, Any] = {"monte_carlo_error": tests.error, "rounds": tests.rounds}
    if tests.p_value is not None:
        diagnostics["p_value"] = jnp.where(known & ~alone, tests.p_value, jnp.nan)
    stderr = (upper - lower) / (2 * normal_quantile(level))
    return Estimate(
        method="test_inversion", mean=mean, stderr=stderr, lower=lower, upper=upper, status=status, diagnostics=diagnostics
    )
