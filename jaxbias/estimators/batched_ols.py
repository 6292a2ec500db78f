"""Batched ordinary least squares (Zhang, Janson and Murphy, 2020): means of each batch, which are not adaptive inside it.

Within a batch the arms were chosen from what came before it, so given the past its sample means are unbiased and as good as
Normal. What adaptivity does is to make the number of pulls random from batch to batch; weights of the root of the pulls make
every batch count with a variance that is not:

    mean_k = sum over batches of sqrt(N_bk) mean_bk / sum of sqrt(N_bk),   standard error = sigma sqrt(B_k) / sum of sqrt(N_bk)

with B_k the batches in which arm k was pulled. The difference to a control is taken inside each batch, with N_bk N_b0 / (N_bk +
N_b0) in place of N_bk: a drift from batch to batch that moves all arms alike is in neither, so that it stays right.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxbias._core.derivatives import safe_sqrt
from jaxbias._core.door import public
from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import compiled
from jaxbias.estimators.checks import check_log
from jaxbias.estimators.estimate import Estimate, status_by_pulls
from jaxbias.estimators.intervals import clip_to_family, student_quantile, wald
from jaxbias.history import History, by_trial, check_squares, check_whole
from jaxbias.rewards import Bernoulli, Family, Normal


@public
def batched_ols(history: History, family: Family | None = None, *, level: float = 0.95, control: int = 0) -> Estimate:
    """Each arm's mean from the means of its batches, and its difference to a control, which a common drift does not affect.

    The intervals are valid for many pulls in each batch, with probabilities that stay away from 0. The mean is an average over
    the batches in which the arm was pulled, so if the means drift, only the differences can be compared between arms.

    Arguments:
        history: one trial or many, with `batch_sizes`.
        family: what the rewards are; a `Normal` with its sigma gives z intervals, otherwise the standard deviation within batches
            and arms is estimated, and the intervals are Student's.
        level: of the intervals.
        control: the arm that the others are compared with.

    Returns:
        An `Estimate`. Diagnostics: `difference`, `difference_stderr`, `difference_lower` and `difference_upper` of each arm to
        the control; `batches`, in how many each arm was pulled; `sigma`.

    >>> import jax, jaxbias as jb
    >>> policy, family = jb.Thompson(), jb.Normal()
    >>> history = jb.simulate(jax.random.key(0), policy, family, [1.0, 0.75], num_steps=100, batch_size=20)
    >>> jb.batched_ols(history, family).mean.shape
    (2,)
    """
    checked, completed = check_log(history, family, level, two_rewards=True)
    check_whole(checked, "batched_ols")
    if history.batch_sizes is None:
        raise ArgumentError("history.batch_sizes", None, "the sizes of the batches in which arms were chosen at once")
    if not 0 <= control < history.num_arms:
        raise ArgumentError("control", control, f"an arm, from 0 to {history.num_arms - 1}")
    known = jnp.asarray(completed.sigma) if isinstance(completed, Normal) else None
    if known is None and not isinstance(completed, Bernoulli):
        check_squares(checked, "batched_ols")
    found = _by_batch(checked, known, control)
    freedom = found.freedom[..., None]
    difference_half = student_quantile(level, freedom, found.mean.dtype) * found.difference_stderr
    diagnostics = {
        "difference": found.difference,
        "difference_stderr": found.difference_stderr,
        "difference_lower": found.difference - difference_half,
        "difference_upper": found.difference + difference_half,
        "batches": found.batches,
        "sigma": found.sigma,
    }
    status = status_by_pulls(found.batches, found.mean, found.stderr)
    return clip_to_family(wald("batched_ols", found.mean, found.stderr, level, status, diagnostics, freedom), completed)


class ByBatch(NamedTuple):
    """What one log says."""

    mean: Float[Array, " arms"]
    stderr: Float[Array, " arms"]
    difference: Float[Array, " arms"]
    difference_stderr: Float[Array, " arms"]
    batches: Array
    sigma: Array
    freedom: Array


@compiled
def _by_batch(history: History, known: Any, control: Any) -> ByBatch:
    return by_trial(lambda trial: _one(trial, known, control), history)


def _one(history: History, known: Any, control: Any) -> ByBatch:
    assert history.seen_steps is not None
    seen, num_arms = history.seen_steps.number, history.num_arms
    assert history.batch_sizes is not None
    batch = jnp.cumsum(jnp.asarray(seen == jnp.arange(len(seen)))) - 1
    cells = (len(history.batch_sizes), num_arms)
    pulls = jnp.zeros(cells, jnp.int32).at[batch, history.arms].add(1)
    count = pulls.astype(history.rewards.dtype)
    means = jnp.zeros(cells, count.dtype).at[batch, history.arms].add(history.rewards) / jnp.maximum(count, 1)
    freedom = history.num_steps - jnp.sum(pulls > 0)
    if known is None:
        squares = jnp.sum(jnp.square(history.rewards - means[batch, history.arms]))
        sigma = safe_sqrt(squares / jnp.maximum(freedom, 1).astype(count.dtype))
    else:
        sigma, freedom = known.astype(count.dtype), jnp.asarray(jnp.iinfo(jnp.int32).max)
    by_arm = jnp.broadcast_to(sigma, (num_arms,))
    mean, stderr, batches = _weighted(count / jnp.square(by_arm)[None], means)
    against, shared = by_arm[control], count[:, control][:, None] * count
    variance = jnp.square(by_arm)[None] * count[:, control][:, None] + jnp.square(against) * count
    precision = jnp.where(jnp.arange(num_arms) == control, 0, shared / jnp.maximum(variance, jnp.finfo(count.dtype).tiny))
    difference, difference_stderr, _ = _weighted(precision, means - means[:, control][:, None])
    return ByBatch(mean, stderr, difference, difference_stderr, batches, sigma, freedom)


def _weighted(precision: Float[Array, "batches arms"], values: Float[Array, "batches arms"]) -> tuple[Array, Array, Array]:
    """Batches weighted with the root of their precision: every one then counts with a variance of one."""
    root = jnp.where(precision > 0, jnp.sqrt(jnp.where(precision > 0, precision, 1)), 0)  # the root of 0 has no derivative
    total, batches = jnp.sum(root, axis=0), jnp.sum(precision > 0, axis=0)
    usable = total > 0
    safe = jnp.where(usable, total, 1)
    stderr = jnp.sqrt(batches.astype(root.dtype)) / safe
    mean = jnp.sum(root * values, axis=0) / safe
    return jnp.where(usable, mean, jnp.nan), jnp.where(usable, stderr, jnp.nan), batches
