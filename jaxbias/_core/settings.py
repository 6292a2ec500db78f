"""Settings of policies and families: frozen dataclasses that are pytrees, and the values that each setting may take.

Settings are leaves, so that a sweep is a `vmap` and a new value does not recompile. A field says where it is declared if it is
static, that is, known before compilation: always (a word), or for some values (`tau` where it is the Python number 0, which then
costs nothing). equinox's `Module` and `filter_jit` would do this too, but they take Python numbers for static, so that every new
value compiles again, and add a third to the time that importing JAX takes.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxbias._core.errors import ArgumentError

Class = TypeVar("Class")
Result = TypeVar("Result")


class Allowed(NamedTuple):
    """The values that a setting may take: a phrase that completes "it must be ...", and a test."""

    description: str
    test: Callable[[np.ndarray], Any]


CARRIED = {"float32": 2.0**40, "float64": 2.0**250}  # the largest setting: squares, and ratios of squares, stay finite
FINITE = Allowed("finite", np.isfinite)
POSITIVE = Allowed("positive and finite", lambda value: (value > 0) & np.isfinite(value))
NON_NEGATIVE = Allowed("0 or more, and finite", lambda value: (value >= 0) & np.isfinite(value))
PROBABILITY = Allowed("from 0 to 1", lambda value: (value >= 0) & (value <= 1))
OPEN_PROBABILITY = Allowed("above 0 and at most 1", lambda value: (value > 0) & (value <= 1))
BELOW_ONE = Allowed("above 0 and below 1", lambda value: (value > 0) & (value < 1))
LARGEST_COUNT = 2**31 - 1  # that JAX's integers hold


def _count_from(least: int) -> Allowed:
    def test(value: np.ndarray) -> Any:
        number = value.astype(np.float64)  # NaN, infinity and the largest integers of Python have no integer of NumPy
        return (number >= least) & (number <= LARGEST_COUNT) & (number == np.floor(number))

    return Allowed(f"a whole number from {least} to {LARGEST_COUNT:,}", test)


COUNT, COUNT_OR_ZERO = _count_from(1), _count_from(0)


def one_of(*names: str) -> Allowed:
    """One of a few words."""
    return Allowed(" or ".join(repr(name) for name in names), lambda value: np.isin(value, names))


def never(_: Any) -> bool:
    """A setting that is always traced."""
    return False


def always(_: Any) -> bool:
    """A setting that is always static."""
    return True


def is_zero(value: Any) -> bool:
    """Whether this is the Python number zero."""
    return isinstance(value, int | float) and value == 0


def setting(*, default: Any = dataclasses.MISSING, allowed: Allowed | None = None, static: Callable[[Any], bool] = never) -> Any:
    """A field: its default, its allowed values, and for which values it is static."""
    metadata = {"allowed": allowed, "static": static}
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass_transform(frozen_default=True, field_specifiers=(setting,))
def settings(cls: type[Class]) -> type[Class]:
    """Makes a frozen dataclass that is a pytree: the settings that are not static are its leaves.

    A class may name attributes that are no settings in `decided`: what `decide` gives them is known before compilation, and is
    forgotten where `dataclasses.replace` makes another object.
    """
    cls = dataclasses.dataclass(frozen=True)(cls)
    fields = dataclasses.fields(cls)  # pyright: ignore[reportArgumentType]
    static_tests = {field.name: field.metadata.get("static", never) for field in fields}
    decided: tuple[str, ...] = getattr(cls, "decided", ())

    def flatten(self: Any) -> tuple[tuple[Any, ...], tuple[tuple[str, Any], ...]]:
        values = {name: getattr(self, name) for name in static_tests}
        static = {name: value for name, value in values.items() if static_tests[name](value)}
        known = tuple((name, getattr(self, name)) for name in decided)
        return tuple(value for name, value in values.items() if name not in static), (*static.items(), *known)

    def unflatten(static: tuple[tuple[str, Any], ...], children: tuple[Any, ...]) -> Any:
        values = dict(static)
        values.update(zip((name for name in static_tests if name not in values), children, strict=True))
        self = object.__new__(cls)
        for name, value in values.items():
            object.__setattr__(self, name, value)
        return self

    jax.tree_util.register_pytree_node(cls, flatten, unflatten)
    return cls


def decide(subject: Class, **values: Any) -> Class:
    """A copy with values for attributes that its class names in `decided`."""
    copy = object.__new__(type(subject))
    for name, value in {**vars(subject), **values}.items():
        object.__setattr__(copy, name, value)
    return copy


def is_concrete(value: Any) -> bool:
    """Whether the value is known now, that is, not being traced."""
    return not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(value))


def evaluate(function: Callable[..., Result], *arguments: Any) -> Result:
    """The function of these arguments: computed now if they are known now, even while something else is being traced."""
    if not is_concrete(arguments):
        return function(*arguments)
    with jax.ensure_compile_time_eval():
        return function(*arguments)


def split_shared(many: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """The arrays of a tree, one entry for each of many logs, and how the tree of one log is made of its entries.

    A single number, such as the length of padded logs, is shared by all of them.
    """
    leaves, structure = jax.tree.flatten(many)
    shared = [leaf if jnp.ndim(leaf) == 0 else None for leaf in leaves]

    def rebuild(entries: list[Any]) -> Any:
        own = iter(entries)
        return jax.tree.unflatten(structure, [next(own) if one is None else one for one in shared])

    return [leaf for leaf, one in zip(leaves, shared, strict=True) if one is None], rebuild


def as_array(values: Any) -> jax.Array:
    """`jnp.asarray`, without what that compiles for every shape of a NumPy array."""
    return jax.device_put(values) if isinstance(values, np.ndarray | np.generic) else jnp.asarray(values)


def as_float(values: Any) -> jax.Array:
    """An array of floats: as they are where they are floats already, JAX's default float otherwise."""
    if isinstance(values, np.ndarray | np.generic) and values.dtype.kind in "iu":
        values = values.astype(np.float64)  # JAX would cut integers of 64 bits to their last 32
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused as such
        values = as_array(values)
    return values if jnp.issubdtype(values.dtype, jnp.floating) else values.astype(jnp.result_type(float))


def check_settings(subject: Any, name: str, num_arms: int | None = None) -> None:
    """Raises for the first setting of a policy, family or rule that is not allowed, or that is not one number or one per arm."""
    for field in dataclasses.fields(subject) if dataclasses.is_dataclass(subject) else ():
        allowed: Allowed | None = field.metadata.get("allowed")
        value = getattr(subject, field.name)
        if allowed is None or value is None or callable(value):
            continue
        shape = getattr(value, "shape", ())
        if num_arms is not None and shape not in ((), (num_arms,)):
            per_arm = f"one number, or one for each of {num_arms} arms"
            raise ArgumentError(f"{name}.{field.name}", value, per_arm, problem=f"has shape {shape}")
        if is_concrete(value) and not _is_allowed(allowed, value):
            raise ArgumentError(f"{name}.{field.name}", value, allowed.description)
        if is_concrete(value):
            _check_size(f"{name}.{field.name}", value, allowed)


def _check_size(name: str, value: Any, allowed: Allowed) -> None:
    """Refuses numbers whose squares and ratios the default float cannot hold; one that may have either sign may be tiny."""
    is_number = np.asarray(value).dtype.kind in "iuf"
    size = np.abs(np.asarray(value, np.float64)) if is_number else np.zeros(1)
    dtype = jnp.result_type(float).name
    largest = CARRIED[dtype]
    tiny = (size > 0) & (size < 1 / largest) & (allowed is not FINITE)
    if np.any(tiny | (size > largest)):
        wide = "; float64 (jax_enable_x64) carries more" if dtype == "float32" else ""
        raise ArgumentError(name, value, f"0, or from {1 / largest:.0e} to {largest:.0e} in size, in {dtype}{wide}")


def _is_allowed(allowed: Allowed, value: Any) -> bool:
    try:
        return np.asarray(value).dtype.kind != "c" and bool(np.all(allowed.test(np.asarray(value))))
    except (TypeError, ValueError, OverflowError):  # a word where a number belongs, or hundreds of digits
        return False
