"""What every estimator returns: means with errors and intervals, for each arm a status, and derivatives."""

import dataclasses
import enum
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxbias._core.derivatives import Slopes, held, implicit, moving_with, undefined_in, undefined_where
from jaxbias._core.jit import compiled
from jaxbias._core.settings import is_concrete
from jaxbias._core.showing import as_html, as_text
from jaxbias.policies import BasePolicy
from jaxbias.rewards import Normal, UnknownSigma


class Status(enum.IntEnum):
    """How the estimate of one arm's mean ended."""

    CONVERGED = 0
    NOT_FINITE = 1
    STILL_MOVING = 2  # after the most rounds
    TOO_FEW_SAMPLES = 3  # effective ones
    IMPRECISE = 4  # the Monte Carlo error is above a quarter of the standard error
    CHAINS_APART = 5  # r_hat is too large
    AT_EDGE = 6  # every reward was at one end of the range; the interval is one-sided, and believed
    NEVER_PULLED = 7
    PULLED_ONCE = 8  # which does not determine a sigma of its own
    OUT_OF_RANGE = 9  # the search wants a mean that the family does not have
    TOO_FEW_PULLS = 10
    NO_SPREAD = 11  # the standard error is 0


@partial(
    jax.tree_util.register_dataclass,
    data_fields=("mean", "stderr", "lower", "upper", "status", "diagnostics"),
    meta_fields=("method",),
)
@dataclasses.dataclass(frozen=True, kw_only=True)
class Estimate:
    """Estimated means with their errors, (arms,) or (trials, arms).

    Fields:
        method: the name of the estimator in the registry.
        mean: the estimate of each arm's mean.
        stderr: its standard error.
        lower, upper: the interval, 95% unless another level was asked for.
        status: of each arm, a `Status` as a number.
        diagnostics: by name, what the method reports about how it went.

    The mean has derivatives in the rewards, and in the settings of the policy and the family where the method uses them, in
    forward and in reverse mode. Those of `conditional_mle` and `mean_matching` are by the implicit function theorem, of first
    order only; there the interval moves with the mean, and the standard error and the diagnostics are held. The other methods
    are differentiated as they are. A derivative that does not exist is NaN, and the status says why: all of a log that did not
    converge, an arm at an edge, a setting of a policy whose choices are not random.
    """

    method: str
    mean: Any
    stderr: Any
    lower: Any
    upper: Any
    status: Any
    diagnostics: dict[str, Any]

    @property
    def converged(self) -> Any:
        """Whether the figures of each arm can be relied on."""
        if is_concrete(self.status):  # by NumPy, with nothing compiled
            return np.isin(np.asarray(self.status), (Status.CONVERGED, Status.AT_EDGE))
        return (self.status == Status.CONVERGED) | (self.status == Status.AT_EDGE)

    __str__ = as_text
    _repr_html_ = as_html


def first_status(wrong: Mapping[Status, Bool[Array, "*trials arms"]]) -> Int[Array, "*trials arms"]:
    """The first of these that is true of each arm; converged where none is."""
    return jnp.select(list(wrong.values()), [jnp.int32(status) for status in wrong], jnp.int32(Status.CONVERGED))


@partial(compiled, static=("fewest",))
def status_by_pulls(
    pulls: Int[Array, "*trials arms"],
    mean: Float[Array, "*trials arms"],
    stderr: Float[Array, "*trials arms"],
    fewest: int = 1,
) -> Int[Array, "*trials arms"]:
    """The status of an average over pulls: there must be some of them, and a standard error above zero."""
    return first_status(
        {
            Status.NEVER_PULLED: pulls == 0,
            Status.TOO_FEW_PULLS: (pulls < fewest) | jnp.isnan(stderr),
            Status.NOT_FINITE: ~jnp.isfinite(mean),
            Status.NO_SPREAD: ~(stderr > 0),
        }
    )


def with_derivative(
    estimate: Estimate,
    figures: Float[Array, "trials figures"],
    settings: list[Any],
    slopes: Slopes,
    context: Any,
    jacobian: Float[Array, "trials arms figures"] | None = None,
) -> Estimate:
    """The estimate with its derivatives: a jacobian, or that of its diagnostics, in the figures, and `slopes` in the settings."""
    given: Any = estimate.diagnostics["jacobian"] if jacobian is None else jacobian
    status, num_arms = estimate.status, estimate.status.shape[-1]
    at_edge, absent = status == Status.AT_EDGE, status == Status.NEVER_PULLED
    lost = ~jnp.all(estimate.converged | absent, axis=-1, keepdims=True)
    in_figures = jnp.pad(at_edge, ((0, 0), (0, figures.shape[-1] - num_arms)))
    known = jnp.where(jnp.isfinite(given), given, 0)
    numbers = [jnp.zeros(()) if number is None else number for number in settings]  # JAX takes no None here
    mean = implicit(slopes, held(estimate.mean), known, undefined_in(in_figures, figures), numbers, context)
    mean = undefined_where(lost | at_edge | absent, mean)
    ends = {name: moving_with(held(getattr(estimate, name)), mean) for name in ("lower", "upper")}
    return dataclasses.replace(estimate, mean=mean, **ends)


def moves_with_shift(policy: BasePolicy, family: Any) -> bool:
    """Whether adding a number to every reward adds it to every mean: a location family, and a policy that compares means.

    The class of the policy must say so itself, as a subclass may compare something else.
    """
    return isinstance(family, Normal | UnknownSigma) and vars(type(policy)).get("shift_invariant", False)


@compiled
def shift_exactly(jacobian: Float[Array, "trials arms figures"], pulls: Int[Array, "trials arms"]) -> Array:
    """The derivative in the sample means corrected so that every row sums to one, which it does but for Monte Carlo error.

    The error of an arm's column is that of its score, whose variance is in proportion to its pulls: so is the correction.
    """
    num_arms = pulls.shape[-1]
    share = pulls.astype(jacobian.dtype) / jnp.sum(pulls, axis=-1, keepdims=True).astype(jacobian.dtype)
    missing = 1 - jnp.sum(jacobian[..., :num_arms], axis=-1)
    return jacobian.at[..., :num_arms].add(missing[..., None] * share[:, None])
