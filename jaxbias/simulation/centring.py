"""Means far from 0: a simulation around their average, so that the sums of rewards keep their digits.

A sum of n rewards with mean m and standard deviation s is rounded at every step. In units of its standard error, a sample mean
loses about n (m / s) eps. Where that matters, all means are moved by a common offset: the policy, if it compares means only or
has a prior that can be moved too, makes the same choices. Where it cannot be moved, the simulation is refused.
"""

import math
from typing import Any, NoReturn

import jax.numpy as jnp
import numpy as np

from jaxbias._core.errors import ArgumentError
from jaxbias._core.settings import evaluate, is_concrete
from jaxbias.rewards import Bernoulli, Normal
from jaxbias.simulation.steps import Problem
from jaxbias.stopping import shifted_stop

MOVED = 2.0**-4  # loss from which the means are moved: a hundredth of a standard error
REFUSED = 1.0  # loss from which they are refused: a seventh of a standard error
COARSEST = 2.0**-8  # spacing of the recorded rewards, in standard deviations
REMEDY = "use float64 (jax.config.update('jax_enable_x64', True), or JAX_ENABLE_X64=1), or subtract a constant from every mean"


def centre(problem: Problem, mean: Any, num_steps: int, movable: bool = True) -> tuple[Problem, float]:
    """The problem around an offset, 0 for most, and the offset.

    Arguments:
        problem: what is simulated; its means are of JAX's default type.
        mean: the means as they were given, which may have more digits.
        num_steps: of each trial.
        movable: whether what else looks at the sums allows it.
    """
    if not is_concrete((mean, problem)) or precision_loss(problem, num_steps) <= MOVED:
        return problem, 0.0
    exact = np.asarray(mean, np.float64)
    offset = float(exact.mean())
    moved = _move(problem, offset, exact) if movable and isinstance(problem.family, Normal) else None
    if moved is None or precision_loss(moved, num_steps) > REFUSED:
        check_precision(problem, num_steps)
        return problem, 0.0
    return moved, offset


def check_precision(problem: Problem, num_steps: int) -> None:
    """Refuses means so far from 0 that sums of rewards lose the digits that matter."""
    if is_concrete(problem) and precision_loss(problem, num_steps) > REFUSED:
        _refuse(problem.mean, f"loses the differences between rewards in sums of {num_steps} steps")


def check_recorded(problem: Problem, offset: float) -> None:
    """Refuses rewards that cannot be written down: their spacing is near their standard deviation."""
    if offset and _ratio(problem, offset) * float(jnp.finfo(problem.mean.dtype).eps) > COARSEST:
        _refuse(problem.mean + jnp.asarray(offset, problem.mean.dtype), "cannot hold rewards so far from 0")


def precision_loss(problem: Problem, num_steps: int) -> float:
    """About what rounding costs a sample mean, in units of a seventh of its standard error."""
    return num_steps * _ratio(problem) * float(jnp.finfo(problem.mean.dtype).eps)


def _refuse(mean: Any, problem: str) -> NoReturn:
    shown, dtype = np.array2string(np.asarray(mean), threshold=8, separator=", "), mean.dtype.name
    raise ArgumentError("mean", mean, problem=f"is {shown}, and {dtype} {problem}", remedy=REMEDY)


def _ratio(problem: Problem, offset: float = 0.0) -> float:
    """The largest mean in standard deviations of a reward; 0 where that is not known, or where sums are exact."""
    family = problem.family
    if not family.has_variance or isinstance(family, Bernoulli):
        return 0.0
    if isinstance(family, Normal):
        deviation = np.asarray(family.sigma, np.float64)
    else:
        deviation = np.sqrt(np.asarray(evaluate(family.variance, problem.mean), np.float64))
    mean = np.abs(np.asarray(problem.mean, np.float64) + offset)
    ratio = np.divide(*np.broadcast_arrays(mean, deviation), where=np.broadcast_to(deviation > 0, mean.shape), out=0 * mean)
    return float(ratio.max(initial=0.0)) if np.isfinite(ratio).all() else math.inf


def _move(problem: Problem, offset: float, mean: np.ndarray) -> Problem | None:
    policy, stop = problem.policy.shifted(offset), shifted_stop(problem.stop, offset)
    if policy is None or (stop is None) != (problem.stop is None):
        return None
    return problem._replace(policy=policy, stop=stop, mean=jnp.asarray(mean - offset, problem.mean.dtype))
