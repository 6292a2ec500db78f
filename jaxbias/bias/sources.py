"""Where the bias of a reported sample mean comes from: how arms were sampled, when it stopped, and which arm was chosen.

With m_k(t) the sample mean of arm k after t steps, T the last possible step, S the step at which the trial stopped, and c the arm
that is reported because of how it came out (Shin, Ramdas and Rinaldo, 2019):

    sampling of arm k    E[m_k(T)] - mean_k
    stopping of arm k    E[m_k(S)] - E[m_k(T)]
    choosing             E[m_c(S) - mean_c] - sum over k of P(c = k) (E[m_k(S)] - mean_k)

The first two, averaged over the arms as often as each is reported, and the third sum to the bias of what is reported,
E[m_c(S) - mean_c]. Their signs differ: looking before sampling makes means too low, stopping at a high mean and choosing the
largest make them too high.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxbias._core.errors import ArgumentError
from jaxbias.policies import ArmStatistics, StatisticsPolicy

Chooser = Callable[[ArmStatistics], Any]


class BiasSources(NamedTuple):
    """The bias by source, each with its Monte Carlo standard error.

    Fields:
        sampling, stopping: of each arm's sample mean; they sum to its bias at the end of the trial.
        chosen: the share of trials in which each arm is the one reported; None, as all that follows, where none is.
        reported: the bias of the sample mean that is reported.
        reported_sampling, reported_stopping, choosing: its three parts.
    """

    sampling: Float[np.ndarray, " arms"]
    sampling_stderr: Float[np.ndarray, " arms"]
    stopping: Float[np.ndarray, " arms"]
    stopping_stderr: Float[np.ndarray, " arms"]
    chosen: Float[np.ndarray, " arms"] | None = None
    reported: float | None = None
    reported_stderr: float | None = None
    reported_sampling: float | None = None
    reported_sampling_stderr: float | None = None
    reported_stopping: float | None = None
    reported_stopping_stderr: float | None = None
    choosing: float | None = None
    choosing_stderr: float | None = None


def choose_largest(statistics: ArmStatistics) -> Array:
    """The arm with the largest sample mean."""
    return jnp.argmax(jnp.where(statistics.pulls > 0, statistics.mean, -jnp.inf))


def check_choose(choose: Chooser | Literal["largest"] | None, num_arms: int) -> Chooser | None:
    """The rule as a function, or None."""
    if choose is None:
        return None
    if choose == "largest":
        return choose_largest
    if not callable(choose):
        raise ArgumentError("choose", choose, "'largest', or a function from pulls and sums to an arm")
    try:
        found = jax.eval_shape(choose, StatisticsPolicy().init(num_arms))
    except Exception as error:
        problem = f"raises {type(error).__name__}: {str(error).splitlines()[0]}"
        raise ArgumentError("choose", choose, "a function of pulls and sums (an ArmStatistics) alone", problem=problem) from error
    if getattr(found, "shape", None) != () or not jnp.issubdtype(found.dtype, jnp.integer):
        raise ArgumentError("choose", choose, "a function that returns the number of one arm", problem=f"returns {found}")
    return choose


def source_features(
    to_the_end: Float[Array, "trials arms"],
    at_stop: Float[Array, "trials arms"],
    final: ArmStatistics,
    choose: Chooser | None,
) -> dict[str, Float[Array, "trials features"]]:
    """What is averaged over trials: errors had the trial gone on, errors where it stopped, and which arm is reported; and the
    products of all of these, for their covariances."""
    parts = [to_the_end, at_stop]
    if choose is not None:
        arms = jnp.arange(at_stop.shape[1])
        parts.append((jax.vmap(choose)(final)[:, None] == arms[None]).astype(at_stop.dtype))
        parts.append(jnp.sum(at_stop * parts[2], axis=1, keepdims=True))
    joined = jnp.concatenate(parts, axis=1)
    products = jax.lax.optimization_barrier(joined[:, :, None] * joined[:, None])
    return {"sources": joined, "products": products.reshape(joined.shape[0], -1)}


def find_sources(moments: dict[str, Any], arms: int) -> BiasSources:
    """The sources from averages, their standard errors by the delta method."""
    count, average = moments["sources"].count, moments["sources"].mean
    second = moments["products"].mean.reshape(len(average), len(average))
    covariance = (second - np.outer(average, average)) / np.maximum(count - 1, 1)
    covariance = np.where(count > 1, covariance, np.nan)

    def stderr(slopes: np.ndarray) -> Any:
        """Of sums of the averages, with a row of slopes for each."""
        return np.sqrt(np.maximum(np.einsum("...i,ij,...j->...", slopes, covariance, slopes), 0))

    on_end, on_stop = np.eye(arms, len(average)), np.eye(arms, len(average), k=arms)
    end, stop = average[:arms], average[arms : 2 * arms]
    by_arm = BiasSources(
        sampling=end, sampling_stderr=stderr(on_end), stopping=stop - end, stopping_stderr=stderr(on_stop - on_end)
    )
    if len(average) == 2 * arms:
        return by_arm
    chosen, reported = average[2 * arms : 3 * arms], float(average[-1])
    on_chosen, on_reported = np.eye(arms, len(average), k=2 * arms), np.eye(len(average))[-1]
    slopes_end, slopes_stop = chosen @ on_end + end @ on_chosen, chosen @ on_stop + stop @ on_chosen
    return by_arm._replace(
        chosen=chosen,
        reported=reported,
        reported_stderr=float(stderr(on_reported)),
        reported_sampling=float(chosen @ end),
        reported_sampling_stderr=float(stderr(slopes_end)),
        reported_stopping=float(chosen @ (stop - end)),
        reported_stopping_stderr=float(stderr(slopes_stop - slopes_end)),
        choosing=float(reported - chosen @ stop),
        choosing_stderr=float(stderr(on_reported - slopes_stop)),
    )
