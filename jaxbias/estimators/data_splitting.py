"""Data splitting: the mean of second rewards that the policy never saw."""

import dataclasses

import jax.numpy as jnp

from jaxbias._core.door import public
from jaxbias.estimators.checks import check_held_out, check_log
from jaxbias.estimators.estimate import Estimate
from jaxbias.estimators.sample_mean import estimate_from_means
from jaxbias.history import History, first_pulls
from jaxbias.rewards import Family


@public
def data_splitting(
    history: History, family: Family | None = None, *, first_shared: bool = False, level: float = 0.95
) -> Estimate:
    """The average of each arm's held-out rewards: a second, independent reward at every step, which the policy did not see.

    Given the arms, the held-out rewards are as if the arms had been fixed in advance: the mean is unbiased and the interval,
    that of `sample_mean`, covers what it says. The price is that half of what was collected is not used.

    `first_shared=True` is not that estimator, but the one behind the paper's tables: every arm is sampled once first, that one
    reward counts both as seen and as held out, and each later step takes two rewards; so that T rewards in all are
    num_arms + (T - num_arms) // 2 steps. What the policy saw is then part of the mean, which stays biased (T = 8, two arms:
    -0.19 to -0.21 of -0.24 to -0.29), and the interval covers less than it says.

    Arguments:
        history: one trial or many, with `held_out`, as `simulate(..., held_out=True)` gives it.
        family: what the rewards are, where known.
        first_shared: count the first reward of each arm as held out, in place of the second one drawn at that step.
        level: of the intervals.

    Returns:
        An `Estimate`; diagnostics: `pulls` of each arm.

    >>> import jax, jaxbias as jb
    >>> history = jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.75], 20, held_out=True)
    >>> jb.data_splitting(history, jb.Normal()).mean.shape
    (2,)
    """
    checked, completed = check_log(history, family, level)
    check_held_out(checked, completed)
    second = jnp.asarray(checked.held_out, checked.rewards.dtype)
    if first_shared:
        second = jnp.where(first_pulls(checked.arms, checked.num_arms), checked.rewards, second)
    return estimate_from_means("data_splitting", dataclasses.replace(checked, rewards=second), completed, level)
