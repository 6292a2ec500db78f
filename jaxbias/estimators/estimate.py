"""What every estimator returns: means with errors and intervals, and for each arm a status."""

import dataclasses
import enum
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxbias._core.jit import compiled


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
        return (self.status == Status.CONVERGED) | (self.status == Status.AT_EDGE)


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
