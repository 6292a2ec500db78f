"""What every estimator returns."""

import dataclasses
from functools import partial
from statistics import NormalDist
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxbias.estimators.student import student_quantile

STATUS = (
    "converged",
    "not finite",
    "the mean was still moving after max_rounds",
    "too few effective draws",
    "the Monte Carlo error is above a quarter of the standard error",
    "the chains have not met: r_hat is above 1.05",
    "at the edge of what the family allows",
    "never pulled",
    "pulled once, which does not tell its sigma",
)


def status_of(words: str) -> int:
    """The number that stands for these words in an array."""
    return STATUS.index(words)


@partial(
    jax.tree_util.register_dataclass,
    data_fields=("mean", "stderr", "lower", "upper", "converged", "diagnostics"),
    meta_fields=("method",),
)
@dataclasses.dataclass(frozen=True, kw_only=True)
class Estimate:
    """Estimated means with their errors, (arms,) or (trials, arms).

    Fields:
        method: which estimator this is.
        mean: the estimate of each arm's mean.
        stderr: its standard error.
        lower, upper: the interval, 95% unless another level was asked for.
        converged: whether the figures of this arm are to be believed.
        diagnostics: by name, what the method can say about how it went.
    """

    method: str
    mean: Any
    stderr: Any
    lower: Any
    upper: Any
    converged: Any
    diagnostics: dict[str, Any]


def wald(
    method: str,
    mean: Float[Array, "*trials arms"],
    stderr: Float[Array, "*trials arms"],
    level: float,
    converged: Any,
    diagnostics: dict[str, Any],
    freedom: Int[Array, "*trials arms"] | None = None,
) -> Estimate:
    """An estimate with the interval mean -/+ z stderr, or with t in place of z where it has degrees of freedom."""
    if freedom is None:
        half = NormalDist().inv_cdf((1 + level) / 2) * stderr
    else:
        half = student_quantile(level, freedom, stderr.dtype) * stderr
    return Estimate(
        method=method,
        mean=mean,
        stderr=stderr,
        lower=mean - half,
        upper=mean + half,
        converged=jnp.asarray(converged),
        diagnostics=diagnostics,
    )
