"""`jax.jit` for functions whose arguments hold policies: numbers are traced, everything else is known before compilation.

A user's policy need not be a pytree. One that is not is a static leaf, compared by identity, so that each new object compiles
again.

A new length would compile again too. So an argument that has a method `padded` can be padded to one of a few lengths: it then
says itself where it ends, in a number that is traced.
"""

import inspect
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

import jax
import numpy as np

from jaxbias._core.programs import PROGRAMS
from jaxbias._core.settings import is_concrete

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Opaque:
    """Something that is compared by identity, so that it can be static in `jit` even where it has no hash."""

    def __init__(self, value: Any):
        self.value = value

    @property
    def described(self) -> Any:
        """What a description of it describes."""
        return self.value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and self.value is other.value


class Frame(NamedTuple):
    """The part of the arguments that is known before compilation."""

    structure: Any
    leaves: tuple[Opaque | None, ...]


def split_numbers(tree: Any) -> tuple[list[Any], Frame]:
    """The numbers and arrays of a tree, in order (None for what is neither), and all the rest of it."""
    leaves, structure = jax.tree.flatten(tree)
    opaque = tuple(None if _is_number(leaf) else Opaque(leaf) for leaf in leaves)
    return [leaf if _is_number(leaf) else None for leaf in leaves], Frame(structure=structure, leaves=opaque)


def join_numbers(numbers: list[Any], frame: Frame) -> Any:
    """The tree that was split."""
    leaves = [number if opaque is None else opaque.value for opaque, number in zip(frame.leaves, numbers, strict=True)]
    return jax.tree.unflatten(frame.structure, leaves)


def compiled(
    function: Callable[Parameters, Result], static: tuple[str, ...] = (), pads: tuple[str, ...] = (), quick: bool = True
) -> Callable[Parameters, Result]:
    """`jit` that traces the numbers and arrays in the arguments.

    Arguments:
        function: what is compiled.
        static: names of arguments to be known before compilation.
        pads: names of arguments that are padded, where they are known now: logs of about the same length share a program.
        quick: whether a program that is kept on disk is compiled faster. Not for simulations: they run long, and have the same
            bits with the cache and without.
    """
    parameters = inspect.signature(function).parameters
    names = tuple(parameters)
    defaults = {name: one.default for name, one in parameters.items() if one.default is not inspect.Parameter.empty}
    call: Callable[..., Result] = function

    @partial(jax.jit, static_argnums=(0, 1))
    def inner(frame: Frame, fixed: tuple[tuple[str, Any], ...], numbers: list[Any]) -> Any:
        return call(**join_numbers(numbers, frame), **dict(fixed))

    def divide(*args: Any, **kwargs: Any) -> tuple[Frame, tuple[tuple[str, Any], ...], list[Any]]:
        arguments = defaults | dict(zip(names, args, strict=False)) | kwargs
        fixed = tuple((name, arguments.pop(name)) for name in static)
        for name in pads:
            if is_concrete(arguments[name]):
                arguments[name] = arguments[name].padded()
        numbers, frame = split_numbers(arguments)
        return frame, fixed, numbers

    @wraps(function)
    def outer(*args: Any, **kwargs: Any) -> Any:
        frame, fixed, numbers = divide(*args, **kwargs)
        return PROGRAMS.run(function, inner, (frame, fixed), numbers, quick)

    outer.lower = lambda *args, **kwargs: inner.lower(*divide(*args, **kwargs))  # pyright: ignore  (as of `jit`)
    outer.cache_size = inner._cache_size  # pyright: ignore  (how often it was compiled, for tests)
    return outer


def _is_number(leaf: Any) -> bool:
    return isinstance(leaf, bool | int | float | np.ndarray | np.generic | jax.Array)
