"""What every public function asks of its arguments first, by their names: the right kind of value, or our own error.

One name means one thing in the whole library, so that one table of checks serves every function.
"""

import dataclasses
import inspect
import os
from collections.abc import Callable
from functools import wraps
from numbers import Real
from typing import Any, ParamSpec, TypeVar, get_args

import jax
import jax.numpy as jnp
import numpy as np

from jaxbias._core.errors import ArgumentError, show
from jaxbias._core.settings import Allowed, evaluate, is_concrete

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
COUNTS = ("num_steps", "num_trials", "num_paths", "num_arms", "num_cases", "chunk_size", "max_steps", "after")
LEVELS = (1e-6, 1 - 1e-12)  # of intervals: nearer to 0 or 1, a quantile is 0 or infinite in floating point
SCHEDULED = 1024  # steps at which a schedule is looked at, evenly spread


def public(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """A function whose arguments are checked for their kind before anything else."""
    parameters = inspect.signature(function).parameters
    optional = {
        name
        for name, parameter in parameters.items()
        if parameter.default is None or type(None) in get_args(parameter.annotation)
    }

    @wraps(function)
    def checked(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        _check_process()
        given: dict[str, Any] = {**dict(zip(parameters, args, strict=False)), **kwargs}
        for name, value in given.items():
            if name in CHECKS and (value is not None or name not in optional):
                CHECKS[name](name, value)
        if "policy" in given:
            check_schedules(given["policy"], _steps(given))
        return function(*args, **kwargs)

    return checked


class _Process:
    """Whether JAX has been used in this process, and whether it was in the process that this one is a fork of."""

    used = False
    forked = False


def _check_process() -> None:
    """Refuses a fork: the threads of XLA are not in it, so that a computation would wait for them for ever."""
    if _Process.forked:
        raise RuntimeError(
            "this process is a fork of one that has used JAX, in which JAX hangs; start processes with "
            "multiprocessing.get_context('spawn'), or fork before the first call of jaxbias"
        )
    _Process.used = True


def _after_fork() -> None:
    _Process.forked = _Process.used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def check_key(name: str, key: Any) -> None:
    """Refuses what is not one key of JAX, typed or raw."""
    dtype, shape = getattr(key, "dtype", None), getattr(key, "shape", None)
    typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key) and shape == ()
    if not typed and not (dtype == np.uint32 and shape in ((2,), (4,))):
        problem = f"is {show(key)}" if dtype is None else f"has shape {shape} and type {dtype}"
        raise ArgumentError(name, key, "one random key, such as jax.random.key(0)", problem=problem)


def check_history_kind(name: str, history: Any) -> None:
    """Refuses what is no `History`."""
    if not all(hasattr(history, field) for field in ("arms", "rewards", "num_arms")):
        allowed = "a History, such as History(arms=..., rewards=..., num_arms=2)"
        raise ArgumentError(name, history, allowed, problem=f"is of type {type(history).__name__}")


def check_level(name: str, level: Any) -> None:
    """Refuses a level that no interval has, or that floating point cannot tell from 0 or 1."""
    number = level.item() if isinstance(level, np.ndarray | np.generic) and level.ndim == 0 else level
    if isinstance(number, bool) or not isinstance(number, Real):
        raise ArgumentError(name, level, "a number above 0 and below 1")
    number = float(number)
    if not 0 < number < 1:
        raise ArgumentError(name, level, "above 0 and below 1")
    if not LEVELS[0] <= number <= LEVELS[1]:
        raise ArgumentError(name, level, "from 0.000001 to 0.999999999999")


def check_count_kind(name: str, count: Any) -> None:
    """Refuses what is neither a whole number nor, for the function to judge, a collection."""
    is_number = isinstance(count, int | np.integer) and not isinstance(count, bool)
    if not is_number and (isinstance(count, str | bytes) or not hasattr(count, "__len__")):
        raise ArgumentError(name, count, "a whole number")


def check_family_kind(name: str, family: Any) -> None:
    """Refuses what is no reward family, such as a class in place of an instance."""
    if isinstance(family, type) or not all(hasattr(family, method) for method in ("sample", "log_prob")):
        raise ArgumentError(
            name, family, "an object with sample(key, mean) and log_prob(reward, mean), such as Normal(sigma=1.0)"
        )


def check_numbers(name: str, values: Any) -> None:
    """Refuses what cannot be an array of real numbers; a function, such as a prior, is for its reader to judge."""
    if callable(values) or not is_concrete(values):
        return
    try:
        dtype = getattr(values, "dtype", None) or np.asarray(values).dtype
        real = jnp.issubdtype(dtype, np.number) and not jnp.issubdtype(dtype, np.complexfloating)
        mixed = dtype.kind == "O" and all(isinstance(one, Real | jax.Array) for one in values)
    except (TypeError, ValueError):  # of different lengths, or not to be iterated over
        real, mixed = False, False
    if not real and not mixed:
        raise ArgumentError(name, values, "numbers, one for each arm")


def check_rule(name: str, rule: Any) -> None:
    """Refuses what is no function: a rule that is never asked would be one that never stops."""
    if isinstance(rule, type) or not callable(rule):
        raise ArgumentError(name, rule, "a function from pulls and sums to whether to stop, or None")


def check_schedules(policy: Any, num_steps: int | None, name: str = "policy") -> None:
    """Refuses a setting that is a function of the step and gives, at a step of the trial, a value that is not allowed."""
    for field in dataclasses.fields(policy) if dataclasses.is_dataclass(policy) and not isinstance(policy, type) else ():
        value, allowed = getattr(policy, field.name, None), field.metadata.get("allowed")
        if isinstance(allowed, Allowed) and callable(value) and num_steps and is_concrete(value):
            _check_schedule(f"{name}.{field.name}", value, allowed, num_steps)
        elif field.name == "policy":
            check_schedules(value, num_steps, name)


def _check_schedule(name: str, schedule: Any, allowed: Allowed, num_steps: int) -> None:
    # Before the first step there is nothing to choose by, so that 1 / step is a schedule.
    steps = np.unique(np.linspace(min(1, num_steps - 1), num_steps - 1, min(num_steps, SCHEDULED)).astype(np.int32))
    try:
        values = np.asarray(evaluate(jax.vmap(schedule), jnp.asarray(steps)))
    except Exception as error:
        problem = f"raises {type(error).__name__} for a step: {str(error).splitlines()[0]}"
        raise ArgumentError(name, schedule, f"{allowed.description} to one number", problem=problem) from error
    wrong = np.ones(1, bool) if values.shape != steps.shape else ~np.asarray(allowed.test(values), bool)
    if wrong.any():
        shape = f"returns an array of shape {values.shape[1:]}"
        found = shape if values.shape != steps.shape else f"is {values[wrong][0]:g} at step {steps[wrong][0]}"
        raise ArgumentError(name, schedule, allowed.description, problem=found)


def _steps(given: dict[str, Any]) -> int | None:
    """How many steps a trial has, where that is known."""
    history, steps = given.get("history"), given.get("num_steps")
    steps = np.shape(history.arms)[-1] if steps is None and history is not None and np.ndim(history.arms) else steps
    return int(steps) if isinstance(steps, int | np.integer) and steps > 0 else None


CHECKS: dict[str, Callable[[str, Any], None]] = {"key": check_key, "history": check_history_kind, "level": check_level}
CHECKS |= dict.fromkeys(COUNTS, check_count_kind) | {"mean": check_numbers, "family": check_family_kind, "stop": check_rule}
