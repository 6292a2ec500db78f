"""Derivatives of what a search found, and of what has none.

A search ends at a solution of equations between its figures (what the log says) and its settings. The implicit function theorem
gives the derivative of the solution from the equations there, so that no derivative is taken of the search itself:

    solution tangent = jacobian . figures tangent + slopes . settings tangent

The jacobian is known from the search. The slopes cost a simulation, and are computed only where a setting is differentiated.

A derivative that does not exist is NaN. In reverse mode a NaN times a zero would spread to everything, so what is not asked for
(a cotangent of exactly zero) stays zero: JAX lets a linear solve say how it is transposed, and `undefined_where` is one.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Bool, Float

from jaxbias._core.errors import ArgumentError

Tree = TypeVar("Tree")
Slopes = Callable[[tuple[int, ...], Any, Any], Array]  # of which settings, of the settings, and of the context


def held(tree: Tree) -> Tree:
    """The same values, as constants: known ones even while they are differentiated."""
    return jax.tree.map(lambda leaf: jax.lax.stop_gradient(leaf) if isinstance(leaf, Tracer) else leaf, tree)


def _is_zero(tangent: Any) -> bool:
    return isinstance(tangent, SymbolicZero)


def _moves(tangents: Any) -> bool:
    """Whether any of these is differentiated."""
    return not all(_is_zero(leaf) for leaf in jax.tree.leaves(tangents, is_leaf=_is_zero))


@jax.custom_jvp
def moving_with(value: Float[Array, "*shape"], carrier: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The value, with the derivative of the carrier; where nothing is differentiated, the carrier costs nothing.

    >>> float(moving_with(jnp.array(3.0), jnp.array(1.0))), float(jax.grad(lambda x: moving_with(jnp.array(3.0), x**2))(5.0))
    (3.0, 10.0)
    """
    del carrier
    return value


@partial(moving_with.defjvp, symbolic_zeros=True)
def _moving_with_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    value, carrier = primals
    tangent = jnp.zeros_like(value) if _is_zero(tangents[1]) else tangents[1]
    return moving_with(value, carrier), tangent


@jax.custom_jvp
def undefined_where(bad: Bool[Array, "*shape"], values: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The values; where `bad`, their derivative is NaN, and in reverse mode only if something depends on them.

    >>> bad, slopes = jnp.array([False, True]), jax.grad(lambda x: undefined_where(bad, 2 * x)[0])
    >>> slopes(jnp.ones(2)).tolist(), jax.jvp(partial(undefined_where, bad), (jnp.ones(2),), (jnp.ones(2),))[1].tolist()
    ([2.0, 0.0], [1.0, nan])
    """
    del bad
    return values


@partial(undefined_where.defjvp, symbolic_zeros=True)
def _undefined_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    (bad, values), tangent = primals, tangents[1]
    if _is_zero(tangent):
        return values, jnp.zeros_like(values)
    return undefined_where(bad, values), _spoil(bad, tangent, always_forward=True, always_backward=False)


@jax.custom_jvp
def undefined_in(bad: Bool[Array, "*shape"], values: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The values; the derivative of anything in those that are `bad` is NaN, and in forward mode only where they move.

    >>> bad, total = jnp.array([False, True]), lambda x: jnp.sum(undefined_in(bad, x))
    >>> jax.grad(total)(jnp.ones(2)).tolist(), float(jax.jvp(total, (jnp.ones(2),), (jnp.array([1.0, 0.0]),))[1])
    ([1.0, nan], 1.0)
    """
    del bad
    return values


@partial(undefined_in.defjvp, symbolic_zeros=True)
def _undefined_in_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    (bad, values), tangent = primals, tangents[1]
    if _is_zero(tangent):
        return values, jnp.zeros_like(values)
    return undefined_in(bad, values), _spoil(bad, tangent, always_forward=False, always_backward=True)


@partial(jax.jit, static_argnames=("always_forward", "always_backward"))  # traced once, also where nothing else is compiled
def _spoil(
    bad: Bool[Array, "*shape"], tangent: Float[Array, "*shape"], always_forward: bool, always_backward: bool
) -> Float[Array, "*shape"]:
    """The tangent, NaN where it is bad, always or only where it is not zero; and so its cotangent."""

    def solve(_: Any, given: Array) -> Array:
        return jnp.where(bad if always_forward else bad & (given != 0), jnp.nan, given)

    def transpose_solve(_: Any, given: Array) -> Array:
        return jnp.where(bad if always_backward else bad & (given != 0), jnp.nan, given)

    return jax.lax.custom_linear_solve(lambda value: value, tangent, solve, transpose_solve)


def safe_sqrt(square: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The root, with a derivative that is not infinite at 0: there it does not exist, and only what asks for it gets NaN."""
    positive = square > 0
    root = jnp.sqrt(jnp.where(positive, square, 1))
    return jnp.where(positive, root, moving_with(jnp.sqrt(held(square)), undefined_where(~positive, square)))


def refuse_derivative(tree: Tree, error: ArgumentError) -> Tree:
    """The same tree; the error is raised where any number in it is differentiated."""
    leaves, structure = jax.tree.flatten(tree)
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, Tracer)]
    if places:
        refused = _refused(_Refusal(error), [leaves[place] for place in places])
        for place, leaf in zip(places, refused, strict=True):
            leaves[place] = leaf
    return jax.tree.unflatten(structure, leaves)


class _Refusal:
    """An error to be raised, as something that can be static in `jit`: any two are alike."""

    def __init__(self, error: ArgumentError):
        self.error = error

    def __hash__(self) -> int:
        return hash(type(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Refusal)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _refused(refusal: _Refusal, leaves: list[Any]) -> list[Any]:
    del refusal
    return leaves


@partial(_refused.defjvp, symbolic_zeros=True)
def _refused_jvp(refusal: _Refusal, primals: Any, tangents: Any) -> Any:
    if _moves(tangents):
        raise refusal.error
    return primals[0], [jnp.zeros(tangent.shape, tangent.dtype) for tangent in tangents[0]]


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def implicit(
    slopes: Slopes,
    solution: Float[Array, "*trials unknowns"],
    jacobian: Float[Array, "*trials unknowns figures"],
    figures: Float[Array, "*trials figures"],
    settings: list[Any],
    context: Any,
) -> Float[Array, "*trials unknowns"]:
    """The solution of a search, with its derivative in the figures and in the settings; the first derivative only.

    Arguments:
        slopes: `slopes(which, settings, context)`, the derivative in some of the settings, each of them flattened,
            (*trials, unknowns, numbers); called only where they are differentiated.
        solution: of the search, held, or with derivatives of its own in something else.
        jacobian: its derivative in the figures.
        figures: what the log says.
        settings: numbers of the policy and the family.
        context: what `slopes` needs beside them.

    >>> no_settings = lambda *_: None
    >>> root = lambda square: implicit(no_settings, jnp.sqrt(held(square)), 0.5 / jnp.sqrt(held(square))[None], square, [], None)
    >>> jax.grad(lambda x: root(x)[0])(jnp.array([4.0])).tolist()
    [0.25]
    """
    del slopes, jacobian, figures, settings, context
    return solution


@partial(implicit.defjvp, symbolic_zeros=True)
def _implicit_jvp(slopes: Slopes, primals: Any, tangents: Any) -> tuple[Array, Array]:
    solution, jacobian, figures, settings, context = primals
    own, _, moved, of_settings, _ = tangents
    tangent = jnp.zeros_like(solution) if _is_zero(own) else own
    inputs = (figures, settings, context)
    if not _is_zero(moved):
        tangent = tangent + jnp.einsum("...ij,...j->...i", _first_only(jacobian, inputs), moved)
    which = tuple(place for place, leaf in enumerate(of_settings) if not _is_zero(leaf))
    if which:
        found = _first_only(slopes(which, held(settings), held(context)), inputs)
        flat = jnp.concatenate([jnp.ravel(of_settings[place]).astype(tangent.dtype) for place in which])
        tangent = tangent + _product(found, flat)
    return implicit(slopes, solution, jacobian, figures, settings, context), tangent


def _product(matrix: Float[Array, "*trials unknowns numbers"], vector: Float[Array, " numbers"]) -> Array:
    """matrix . vector, where NaN times 0 is 0, and so in the transposed product."""
    bad = jnp.isnan(matrix)
    by_entry = _spoil(bad, jnp.broadcast_to(vector, matrix.shape), always_forward=False, always_backward=False)
    return jnp.sum(jnp.where(bad, 1, matrix) * by_entry, axis=-1)


@jax.custom_jvp
def _first_only(matrix: Array, inputs: Any) -> Array:
    """The matrix, which is not to be differentiated again."""
    del inputs
    return matrix


@partial(_first_only.defjvp, symbolic_zeros=True)
def _first_only_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    if _moves(tangents):
        remedy = "an estimate has a first derivative only"
        raise ArgumentError("history", problem="is differentiated twice, or its policy or family is", remedy=remedy)
    return primals[0], jnp.zeros_like(primals[0])
