"""Settings of policies and families: frozen dataclasses that are pytrees, and what values each may take.

Hyperparameters are leaves, so that a sweep is a `vmap` and a new value does not recompile. Three things are known before
compilation instead: strings, functions (a schedule for `tau`), and a `tau` that is the Python number 0.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

Class = TypeVar("Class")


class Allowed(NamedTuple):
    """The values a setting may take: how to say it, and how to test it."""

    description: str
    test: Callable[[np.ndarray], Any]


FINITE = Allowed("a finite number", np.isfinite)
POSITIVE = Allowed("a finite number above 0", lambda value: (value > 0) & np.isfinite(value))
NON_NEGATIVE = Allowed("a finite number, 0 or more", lambda value: (value >= 0) & np.isfinite(value))
PROBABILITY = Allowed("a number from 0 to 1", lambda value: (value >= 0) & (value <= 1))
OPEN_PROBABILITY = Allowed("a number above 0 and at most 1", lambda value: (value > 0) & (value <= 1))
BELOW_ONE = Allowed("a number above 0 and below 1", lambda value: (value > 0) & (value < 1))


def one_of(*names: str) -> Allowed:
    """A setting that is one of a few words."""
    return Allowed(" or ".join(repr(name) for name in names), lambda value: np.isin(value, names))


def setting(*, default: Any, allowed: Allowed) -> Any:
    """A dataclass field with its default and the values it may take, which `check_settings` reads."""
    return dataclasses.field(default=default, metadata={"allowed": allowed})


@dataclass_transform(frozen_default=True, field_specifiers=(setting,))
def settings(cls: type[Class]) -> type[Class]:
    """Makes a frozen dataclass whose numbers are pytree leaves."""
    cls = dataclasses.dataclass(frozen=True)(cls)
    names = tuple(field.name for field in dataclasses.fields(cls))  # pyright: ignore[reportArgumentType]

    def flatten(self: Any) -> tuple[tuple[Any, ...], tuple[tuple[str, Any], ...]]:
        values = {name: getattr(self, name) for name in names}
        static = {name: value for name, value in values.items() if _known_before_compilation(name, value)}
        children = tuple(value for name, value in values.items() if name not in static)
        return children, tuple(static.items())

    def unflatten(static: tuple[tuple[str, Any], ...], children: tuple[Any, ...]) -> Any:
        values = dict(static)
        values.update(zip((name for name in names if name not in values), children, strict=True))
        self = object.__new__(cls)
        for name, value in values.items():
            object.__setattr__(self, name, value)
        return self

    jax.tree_util.register_pytree_node(cls, flatten, unflatten)
    return cls


def _known_before_compilation(name: str, value: Any) -> bool:
    return value is None or isinstance(value, str) or callable(value) or (name == "tau" and is_zero(value))


def is_zero(value: Any) -> bool:
    """Whether this is a Python number equal to zero, which costs nothing at run time."""
    return isinstance(value, int | float) and value == 0


def is_concrete(value: Any) -> bool:
    """Whether the value is known now, that is, not being traced."""
    return not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(value))


def as_float(values: Any) -> jax.Array:
    """An array of floats: as they are where they are floats already, JAX's default float otherwise."""
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused as such
        values = jnp.asarray(values)
    return values if jnp.issubdtype(values.dtype, jnp.floating) else values.astype(jnp.result_type(float))


def check_settings(subject: Any, name: str) -> None:
    """Raises ValueError for the first setting of a policy or family that is outside what is allowed."""
    for field in dataclasses.fields(subject) if dataclasses.is_dataclass(subject) else ():
        allowed = field.metadata.get("allowed")
        value = getattr(subject, field.name)
        if allowed is None or value is None or callable(value) or not is_concrete(value):
            continue
        if not _is_allowed(allowed, value):
            raise ValueError(f"{name}.{field.name} is {_short(value)}; allowed: {allowed.description}")


def _is_allowed(allowed: Allowed, value: Any) -> bool:
    try:
        return bool(np.all(allowed.test(np.asarray(value))))
    except TypeError:  # a word where a number belongs
        return False


def _short(value: Any) -> str:
    return repr(value) if isinstance(value, str | int | float) else np.array2string(np.asarray(value), threshold=8)
