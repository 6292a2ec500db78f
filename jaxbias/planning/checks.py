"""What planning refuses, and its arguments in one form."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from jaxbias._core.errors import ArgumentError
from jaxbias.estimators.checks import check_level
from jaxbias.estimators.inversion.question import FEWEST_PATHS
from jaxbias.planning.searching import Goal
from jaxbias.policies import Policy, policy_name

FEWEST_TRIALS = 8  # two logs for each set of paths
PRIOR = 31  # folded into the key: the draws from the prior


def name_policies(policies: Any) -> dict[str, Policy]:
    """The policies by their names; of a list by those of their classes, with a number where several have the same."""
    if isinstance(policies, Mapping):
        named = dict(policies)
    else:
        listed = list(policies) if isinstance(policies, Sequence) else [policies]
        names = [policy_name(policy) for policy in listed]
        counted = [f"{name} {names[: place + 1].count(name)}" for place, name in enumerate(names)]
        named = {
            name if names.count(name) == 1 else count: policy for name, count, policy in zip(names, counted, listed, strict=True)
        }
    if not named:
        raise ArgumentError("policies", policies, "one policy or more", problem="is empty")
    return named


def sample_points(key: PRNGKeyArray, mean: Any, num_trials: int) -> np.ndarray:
    """The mean vectors, (points, arms)."""
    if callable(mean):
        mean = jax.vmap(mean)(jax.random.split(jax.random.fold_in(key, PRIOR), max(num_trials, 1)))
    points = np.asarray(mean, np.float64)
    if points.ndim not in (1, 2) or 0 in points.shape:
        allowed = "one number for each arm, or a row of them for each draw from a prior"
        raise ArgumentError("mean", mean, allowed, problem=f"has shape {points.shape}")
    if not np.isfinite(points).all():
        raise ArgumentError("mean", points.tolist(), "finite")
    return np.atleast_2d(points)


def check_points(points: np.ndarray, control: Any, needs_difference: bool) -> np.ndarray:
    """Refuses one arm, a control that is none, and means that do not differ where a difference is to be found."""
    num_arms = points.shape[1]
    if num_arms < 2:
        raise ArgumentError("mean", problem="has one arm", remedy="a comparison needs two arms or more")
    whole = isinstance(control, int | np.integer) and not isinstance(control, bool)
    if control is not None and not (whole and 0 <= control < num_arms):
        raise ArgumentError("control", control, f"an arm from 0 to {num_arms - 1}")
    ordered = np.sort(points, axis=1)
    same = ordered[:, -1] == ordered[:, -2]
    if control is not None:
        same = np.delete(points, control, axis=1).max(axis=1) == points[:, control]
    if needs_difference and same.any():
        who = "the best arm and the second best" if control is None else "the best of the other arms and the control"
        value = points[np.argmax(same)].tolist()
        raise ArgumentError("mean", value, problem=f"is {value}: {who} do not differ, so that there is no power")
    return points


def check_steps(num_steps: Any, num_arms: int, has_goal: bool) -> list[int]:
    """The lengths, each once and in order."""
    lengths = [num_steps] if isinstance(num_steps, int | np.integer) else list(num_steps)
    for steps in lengths:
        if not isinstance(steps, int | np.integer) or isinstance(steps, bool) or steps < num_arms:
            raise ArgumentError("num_steps", steps, f"{num_arms} or more (every arm is pulled once first)")
    if not lengths and not has_goal:
        remedy = lambda name: f"give {name('num_steps')}, {name('half_width')} or {name('power')}"
        raise ArgumentError("num_steps", problem="is empty", remedy=remedy)
    return sorted({int(steps) for steps in lengths})


def check_goals(half_width: Any, power: Any) -> list[Goal]:
    """What is searched for."""
    if half_width is not None and not (np.isfinite(half_width) and half_width > 0):
        raise ArgumentError("half_width", half_width, "positive")
    if power is not None and not 0 < power < 1:
        raise ArgumentError("power", power, "above 0 and below 1")
    asked = {"half_width": half_width, "power": power}
    return [Goal(name, float(value)) for name, value in asked.items() if value is not None]


def check_numbers(level: float, num_trials: int, num_paths: int, max_steps: int, tolerance: float, num_arms: int) -> None:
    """Refuses numbers that no design can have."""
    check_level(level)
    if num_trials < FEWEST_TRIALS:
        raise ArgumentError("num_trials", num_trials, f"{FEWEST_TRIALS} or more")
    if num_paths < FEWEST_PATHS:
        raise ArgumentError("num_paths", num_paths, f"{FEWEST_PATHS} or more")
    if max_steps < num_arms:
        raise ArgumentError("max_steps", max_steps, f"{num_arms} or more (every arm is pulled once first)")
    if not 0 < tolerance < 1:
        raise ArgumentError("tolerance", tolerance, "above 0 and below 1")
