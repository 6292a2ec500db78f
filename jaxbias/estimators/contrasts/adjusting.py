"""p-values for many contrasts together: by Holm, and by the simulated distribution of the smallest of them."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from jaxbias._core.chunks import LogChunks, log_keys, split_logs
from jaxbias._core.jit import compiled
from jaxbias._core.randomness import root_words, trial_words
from jaxbias.estimators.inversion.anchors import Anchors, assign_anchors, place_anchors
from jaxbias.estimators.inversion.inverting import known_family, observed_sums, of_few, path_data
from jaxbias.estimators.inversion.question import Question, Weighted
from jaxbias.estimators.inversion.statistic import statistic
from jaxbias.history import History
from jaxbias.rewards import Normal
from jaxbias.simulation.paths import design_of, logs_at_once, simulate_sums

FEW = 20  # paths whose smallest p-value is as small: with fewer, the share of them is taken to be in proportion to the p-value


@compiled
def holm(p_value: Float[Array, "logs contrasts"]) -> Float[Array, "logs contrasts"]:
    """Holm's step-down of Bonferroni (1979), which holds whatever the other contrasts are; not a number counts for nothing.

    >>> import jax.numpy as jnp
    >>> [round(float(p), 3) for p in holm(jnp.array([[0.01, 0.04, 0.03]]))[0]]
    [0.03, 0.06, 0.06]
    """
    number = jnp.sum(jnp.isfinite(p_value), axis=1, keepdims=True)
    order = jnp.argsort(p_value, axis=1)  # those that are not numbers last
    left = (number - jnp.arange(p_value.shape[1])[None]).astype(p_value.dtype)
    stepped = jax.lax.cummax(jnp.take_along_axis(p_value, order, axis=1) * jnp.maximum(left, 1), axis=1)
    back = jnp.take_along_axis(stepped, jnp.argsort(order, axis=1), axis=1)
    return jnp.where(jnp.isnan(p_value), jnp.nan, jnp.minimum(back, 1))


def largest_statistic(
    key: PRNGKeyArray, question: Question, weighted: Weighted, p_value: Float[Array, "logs contrasts"], alternative: str
) -> Float[Array, "logs contrasts"]:
    """How often the most extreme statistic of all contrasts is as extreme, where all arms have the same mean.

    The statistics of the contrasts have different distributions under an adaptive policy: each is put on the scale of its own
    simulated p-values, of which the smallest is taken on every path. An adjusted p-value is at least its own.
    """
    logs, given = question.history, (question.policy, question.family)
    keys = log_keys(key, logs.arms.shape[0])
    work = logs.num_steps * question.num_paths
    chunks = split_logs(logs_at_once(*given, logs, question.num_paths), (keys, logs, *given), work)
    sizes: Any = dict(chunks=chunks, num_paths=question.num_paths, num_steps=question.program_steps, alternative=alternative)
    return chunks.collect(_adjust(*given, keys, logs, weighted, p_value, question.stop, **sizes))


@partial(compiled, static=("num_paths", "chunks", "num_steps", "alternative"), pads=("history",))
def _adjust(
    policy: Any,
    family: Any,
    keys: Any,
    history: History,
    weighted: Weighted,
    p_value: Any,
    stop: Any,
    num_paths: int,
    chunks: LogChunks,
    num_steps: int | None,
    alternative: str,
) -> Float[Array, "logs contrasts"]:
    def one(trial: tuple[Any, History, Array]) -> Float[Array, " contrasts"]:
        key, log, own = trial
        design = design_of(log, stop, num_steps, chunks.paths)
        smallest = _smallest(_null_statistics(key, policy, family, log, design, weighted, num_paths), alternative)
        return _share_below(smallest, own)

    return chunks.map(one, (keys, history, p_value))


def _null_statistics(
    key: PRNGKeyArray, policy: Any, family: Any, log: History, design: Any, weighted: Weighted, num_paths: int
) -> Float[Array, "contrasts paths"]:
    """The statistics of all contrasts on paths on which all arms have the same mean, spread over what the log says of it."""
    path_key, order_key = jax.random.split(key)
    fixed, given = known_family(family, log)
    statistics = log.statistics
    anchors = place_anchors(fixed, statistics.mean, statistics.pulls, jnp.ones((), log.rewards.dtype))
    common = _common_mean(fixed, assign_anchors(order_key, anchors, num_paths), anchors, statistics.pulls)
    words = trial_words(root_words(path_key), jnp.uint32(0), num_paths)
    around = None if given is None else anchors.centre
    means = jnp.broadcast_to(common[:, None], (num_paths, anchors.centre.shape[0]))
    data = path_data(simulate_sums(words, policy, fixed, means, design, around), anchors, fixed, family, log.rewards[0])
    observed = observed_sums(statistics, anchors, given)

    def one(which: tuple[Array, Array]) -> Float[Array, " paths"]:
        contrast = of_few(*which, fixed, anchors, means[:1], data, observed)
        value = statistic(contrast.family, contrast.paths, contrast.weights, jnp.zeros((), log.rewards.dtype))
        return jnp.where(contrast.pulled, value, 0)

    return jax.lax.map(one, tuple(weighted))


def _common_mean(
    family: Any, means: Float[Array, "paths arms"], anchors: Anchors, pulls: Int[Array, " arms"]
) -> Float[Array, " paths"]:
    """The averages of the means, weighted by what is known of each arm if they are all the same."""
    precision = 1 / jnp.square(anchors.stderr)
    if not isinstance(family, Normal):  # the variance at an arm's own sample mean is too small near an end of the range
        together = jnp.sum(precision * anchors.centre) / jnp.sum(precision)
        variance = family.variance(jnp.broadcast_to(together, anchors.centre.shape))
        precision = jnp.maximum(pulls, 1).astype(variance.dtype) / variance
    return means @ (precision / jnp.sum(precision))


def _smallest(statistics: Float[Array, "contrasts paths"], alternative: str) -> Float[Array, " paths"]:
    """On every path the smallest p-value of all contrasts, each by its rank among the paths; ties count half."""

    def ranked(row: Float[Array, " paths"]) -> Float[Array, " paths"]:
        ordered = jnp.sort(row)
        below, upto = (jnp.searchsorted(ordered, row, side=side).astype(row.dtype) for side in ("left", "right"))
        less = (below + upto) / (2 * row.shape[0])
        return one_p_value(less, 1 - less, alternative)

    return jnp.min(jax.vmap(ranked)(statistics), axis=0)


def one_p_value(less: Array, greater: Array, alternative: str) -> Array:
    """From the two tails to the p-value that is asked for."""
    return {"less": less, "greater": greater, "two-sided": jnp.minimum(1, 2 * jnp.minimum(less, greater))}[alternative]


def _share_below(smallest: Float[Array, " paths"], p_value: Float[Array, " contrasts"]) -> Float[Array, " contrasts"]:
    """How often the smallest is below each p-value; below the FEW-th of them in proportion to it."""
    ordered, number = jnp.sort(smallest), smallest.shape[0]
    share = jnp.searchsorted(ordered, p_value, side="right").astype(p_value.dtype) / number
    near = ordered[FEW - 1]
    share = jnp.where(p_value < near, p_value / near * FEW / number, share)
    return jnp.where(jnp.isnan(p_value), jnp.nan, jnp.clip(share, p_value, 1))
