"""Propensity weighting: each reward counts with one over the probability with which its arm was chosen."""

from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from jaxbias._core.derivatives import safe_sqrt
from jaxbias._core.door import public
from jaxbias._core.jit import compiled
from jaxbias._core.settings import as_array, evaluate, is_concrete
from jaxbias.estimators.checks import check_log
from jaxbias.estimators.estimate import Estimate, status_by_pulls
from jaxbias.estimators.intervals import clip_to_family, wald
from jaxbias.estimators.weighting.propensities import chosen_probabilities
from jaxbias.history import History, check_squares, check_whole, count
from jaxbias.likelihood import Replayed
from jaxbias.policies import Policy
from jaxbias.rewards import Bernoulli, Family

BY_ARM = "(steps),(steps)->(arms)"


class WeightedRewards(NamedTuple):
    """What the weighted rewards of each arm give."""

    pulls: Int[Array, "*trials arms"]
    mean: Float[Array, "*trials arms"]
    stderr: Float[Array, "*trials arms"]
    effective_sample_size: Float[Array, "*trials arms"]
    largest_weight: Float[Array, "*trials arms"]


@public
def propensity_weighting(
    history: History,
    policy: Policy | None = None,
    family: Family | None = None,
    *,
    propensities: ArrayLike | None = None,
    normalised: bool = True,
    level: float = 0.95,
) -> Estimate:
    """Each arm's rewards weighted by one over the probability with which it was chosen, w = 1 / p; forced pulls have w = 1.

        normalised       sum of w reward / sum of w, over the arm's pulls (Hajek)
        not normalised   sum of w reward / steps (Horvitz and Thompson, the paper's appendix)

    The second has heavy tails, and as forced pulls count with probability one its expectation is (steps - num_arms + 1) / steps
    of the mean where every arm is pulled once first. The first is not unbiased either, but has far less error. Standard errors:
    the sample variance of the `steps` terms, and the linearised sqrt(sum of w^2 (reward - mean)^2) / sum of w. Nothing is
    clipped; look at the effective sample size and the largest weight before you rely on an interval.

    Arguments:
        history: one trial or many.
        policy: how the arms were chosen, at random; its probabilities are replayed before each step.
        family: what the rewards are, where known: its range clips the interval.
        propensities: (steps,) or (trials, steps), instead of the policy: the probability with which the chosen arm was chosen.
            Or those of every arm, as for `adaptive_weighting`. Those of forced pulls are not read.
        normalised: divide by the sum of the weights, and not by the number of steps.
        level: of the intervals.

    Returns:
        An `Estimate`; an arm with fewer than two pulls is not `converged`. Diagnostics by arm: `pulls`,
        `effective_sample_size`, (sum of w)^2 / sum of w^2, and `largest_weight`.

    >>> import jax, jaxbias as jb
    >>> policy = jb.EpsilonGreedy(epsilon=0.5)
    >>> history = jb.simulate(jax.random.key(0), policy, jb.Normal(), [1.0, 0.75], num_steps=100)
    >>> estimate = jb.propensity_weighting(history, policy)
    >>> estimate.diagnostics["largest_weight"].round().tolist()
    [1.0, 4.0]
    """
    checked, completed = check_log(history, family, level, two_rewards=True)
    check_whole(checked, "propensity_weighting")
    if not isinstance(completed, Bernoulli):
        check_squares(checked, "propensity_weighting")
    chosen = chosen_probabilities(checked, policy, propensities, "propensity_weighting")
    of_chosen = evaluate(as_array, np.asarray(chosen)[..., None]) if is_concrete(chosen) else chosen[..., None]
    return _estimate(Replayed(checked, of_chosen), completed, normalised=bool(normalised), level=level)


@partial(compiled, static=("normalised", "level"), pads=("log",))
def _estimate(log: Replayed, family: Any, normalised: bool, level: float) -> Estimate:
    found = _weigh(log, normalised)
    diagnostics = {name: getattr(found, name) for name in ("pulls", "effective_sample_size", "largest_weight")}
    status = status_by_pulls(found.pulls, found.mean, found.stderr, fewest=2)
    return clip_to_family(wald("propensity_weighting", found.mean, found.stderr, level, status, diagnostics), family)


def _weigh(log: Replayed, normalised: bool) -> WeightedRewards:
    history, probabilities, beyond = log.history, log.values[..., 0], log.history.beyond_end
    weights, rewards = jnp.asarray(1 / probabilities), history.rewards
    if beyond is not None:
        weights = jnp.where(beyond, 0, weights)
    steps = jnp.asarray(history.num_steps if history.lengths is None else history.lengths, rewards.dtype)

    def by_arm(values: Float[Array, "*trials steps"]) -> Float[Array, "*trials arms"]:
        return count(history.arms, values, history.num_arms, history.lengths).total

    pulls, total, squares = history.statistics.pulls, by_arm(weights), by_arm(jnp.square(weights))
    if normalised:
        mean = by_arm(weights * rewards) / total
        residual = weights * (rewards - jnp.take_along_axis(mean, history.arms, axis=-1))
        stderr = jnp.where(pulls > 1, safe_sqrt(by_arm(jnp.square(residual))) / total, jnp.nan)
    else:
        mean = by_arm(weights * rewards) / steps
        residual = weights * rewards - jnp.take_along_axis(mean, history.arms, axis=-1)
        # The terms of the steps at which another arm was pulled are zero.
        spread = by_arm(jnp.square(residual)) + (steps - pulls.astype(mean.dtype)) * jnp.square(mean)
        stderr = jnp.where(steps > 1, safe_sqrt(spread / (steps * jnp.maximum(steps - 1, 1))), jnp.nan)
    largest = jnp.vectorize(lambda arms, values: jnp.zeros(history.num_arms, values.dtype).at[arms].max(values), signature=BY_ARM)
    return WeightedRewards(
        pulls=pulls,
        mean=jnp.where(pulls > 0, mean, jnp.nan),
        stderr=jnp.where(pulls > 0, stderr, jnp.nan),
        effective_sample_size=jnp.where(pulls > 0, jnp.square(total) / squares, 0),
        largest_weight=largest(history.arms, weights),
    )
