"""Rules that end a trial before its last step: pure functions from pulls and sums to whether to stop.

    stop(statistics) -> bool

Any such function is a rule, and is asked after every step, or at the end of every batch. A sample mean at a time that was chosen
by looking at it is biased too: upwards where a high mean ends the trial, downwards where a low one does (Shin, Ramdas and
Rinaldo, 2019).
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxbias._core.errors import ArgumentError
from jaxbias._core.settings import COUNT, FINITE, POSITIVE, Allowed, check_settings, setting, settings
from jaxbias.policies import ArmStatistics, StatisticsPolicy

StoppingRule = Callable[[ArmStatistics], Any]
ARM = Allowed("the number of an arm", lambda value: value >= 0)


@settings
class StopAtDifference:
    """Stops when the largest sample mean is ahead of the next by a threshold.

    Arguments:
        threshold: how far ahead, on the scale of the rewards.
        first: no look before so many pulls in all.
        every: from then on, a look every so many pulls.

    >>> import jax.numpy as jnp
    >>> rule = StopAtDifference(threshold=0.5, first=4)
    >>> bool(rule(ArmStatistics(pulls=jnp.array([2, 2]), total=jnp.array([2.0, 0.5]))))
    True
    """

    threshold: Any = setting(default=1.0, allowed=POSITIVE)
    first: Any = setting(default=1, allowed=COUNT)
    every: Any = setting(default=1, allowed=COUNT)

    def __call__(self, statistics: ArmStatistics) -> Bool[Array, ""]:
        """Whether this is a look, and the difference is large enough."""
        means = _known_means(statistics)
        is_best = jnp.arange(means.shape[0]) == jnp.argmax(means)
        lead = jnp.max(means) - jnp.max(jnp.where(is_best, -jnp.inf, means))
        return _is_look(statistics, self.first, self.every) & (lead >= self.threshold)


@settings
class StopAtMean:
    """Stops when the sample mean of one arm, or its lead over a control, reaches a threshold.

    Arguments:
        threshold: on the scale of the rewards.
        arm: whose sample mean.
        control: the arm whose sample mean is taken off; None for none.
        first: no look before so many pulls in all.
        every: from then on, a look every so many pulls.
    """

    threshold: Any = setting(default=0.0, allowed=FINITE)
    arm: Any = setting(default=0, allowed=ARM)
    control: Any = setting(default=None, allowed=ARM)
    first: Any = setting(default=1, allowed=COUNT)
    every: Any = setting(default=1, allowed=COUNT)

    def __call__(self, statistics: ArmStatistics) -> Bool[Array, ""]:
        """Whether this is a look, and the mean is high enough."""
        means = _known_means(statistics)
        compared = means[self.arm] if self.control is None else means[self.arm] - means[self.control]
        return _is_look(statistics, self.first, self.every) & (compared >= self.threshold)


def shifted_stop(stop: Any, offset: float) -> Any:
    """The rule that does with rewards less `offset` what this one does with the rewards; None where that is not known."""
    if type(stop) is StopAtMean and stop.control is None:
        return dataclasses.replace(stop, threshold=stop.threshold - offset)
    return stop if type(stop) in (StopAtDifference, StopAtMean) else None


def _known_means(statistics: ArmStatistics) -> Float[Array, " arms"]:
    """The sample means; NaN, for which every comparison is false, for an arm that was never pulled."""
    return jnp.where(statistics.pulls > 0, statistics.mean, jnp.nan)


def _is_look(statistics: ArmStatistics, first: Any, every: Any) -> Bool[Array, ""]:
    steps = jnp.sum(statistics.pulls)
    return (steps >= first) & ((steps - first) % every == 0)


def check_stop(stop: Any, num_arms: int) -> None:
    """Raises ValueError where the rule is none, or its settings are not allowed."""
    if stop is None:
        return
    if not callable(stop) or isinstance(stop, type):
        raise ArgumentError("stop", stop, "a function from pulls and sums to whether to stop, or None")
    check_settings(stop, "stop")
    if isinstance(stop, StopAtDifference) and num_arms < 2:
        raise ArgumentError("stop", stop, f"a rule for one arm, as there is {num_arms} arm and nothing to compare it with")
    if isinstance(stop, StopAtMean):
        for name, arm in (("arm", stop.arm), ("control", stop.control)):
            if isinstance(arm, int) and arm >= num_arms:
                raise ArgumentError(f"stop.{name}", arm, f"from 0 to {num_arms - 1}")
    try:
        found = jax.eval_shape(stop, StatisticsPolicy().init(num_arms))
    except Exception as error:
        problem = f"raises {type(error).__name__}: {str(error).splitlines()[0]}"
        raise ArgumentError("stop", stop, "a function of pulls and sums (an ArmStatistics) alone", problem=problem) from error
    if getattr(found, "shape", None) != () or found.dtype != bool:
        raise ArgumentError("stop", stop, "a function that returns one truth value", problem=f"returns {found}")
