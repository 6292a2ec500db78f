"""Weighted samples of the summed rewards given the arms, and their moments, also at other means than those of the samples.

Given the arms, Normal rewards of known sigma are an exponential family in the means: at means that differ by `tilt` x sigma^2
each sample counts exp(tilt . sums) times as much. So one set of samples serves every mean vector near its own. Where sigma is not
known, the sums of squares are statistics too, and one set of samples serves every mean and sigma near its own.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

ENOUGH = 0.5  # the effective share of the samples above which what is known of their covariance is worth more than it costs

FEWEST_FREEDOM = 3.0  # degrees of freedom of the Monte Carlo error: with two or fewer Student's t has no variance


class Samples(NamedTuple):
    """Samples in groups: samples of different groups at the same place are independent (pairs of paths, or chains).

    Fields:
        total: the statistics, such as the summed rewards of each arm, less those of the log.
        log_weight: of each sample.
        constant: what to add to the logarithm of the mean weight for the log-probability of the arms.
        known: the covariance of their distribution, less that of the samples; zero where it is not known.
    """

    total: Float[Array, "arms members groups"]
    log_weight: Float[Array, "members groups"]
    constant: Float[Array, ""]
    known: Float[Array, "arms arms"]


class SampleMoments(NamedTuple):
    """Of the summed rewards of each arm, given the arms.

    Fields:
        log_normaliser: of the density, that is, the log-probability of the arms.
        total: expectation of the sums, less those of the log.
        covariance: of the sums.
        error: covariance of the Monte Carlo error of `total`.
        effective: the share of the samples that the weights leave.
    """

    log_normaliser: Float[Array, ""]
    total: Float[Array, " arms"]
    covariance: Float[Array, "arms arms"]
    error: Float[Array, "arms arms"]
    effective: Float[Array, ""]


def make_samples(
    total: Float[Array, "arms members groups"], log_weight: Float[Array, "members groups"], constant: Float[Array, ""]
) -> Samples:
    """Samples of whose covariance nothing is known."""
    return Samples(total=total, log_weight=log_weight, constant=constant, known=jnp.zeros((total.shape[0],) * 2, total.dtype))


def with_covariance(samples: Samples, mean: Float[Array, " arms"], covariance: Float[Array, "arms arms"]) -> Samples:
    """Samples from a distribution with this mean and covariance: where their weights are even, only the part of the error that
    the weights make is left."""
    around = (samples.total - mean[:, None, None]).reshape(mean.shape[0], -1)
    known = covariance - (around / around.shape[1]) @ around.T
    return samples._replace(known=jnp.where(_effective(_shares(samples.log_weight)) > ENOUGH, known, 0))


def with_squares(samples: Samples, squares: Float[Array, "arms members groups"], expected: Float[Array, " arms"]) -> Samples:
    """Samples with a second statistic for each arm, whose expectation in their distribution is known: where the weights
    are even, what the average of the samples is off it is taken off."""
    off = jnp.where(_effective(_shares(samples.log_weight)) > ENOUGH, expected - jnp.mean(squares, axis=(1, 2)), 0)
    return also(samples, squares + off[:, None, None])


def also(samples: Samples, more: Float[Array, "more members groups"]) -> Samples:
    """Samples with more statistics, of whose covariance nothing is known."""
    return samples._replace(total=jnp.concatenate([samples.total, more]), known=jnp.pad(samples.known, (0, more.shape[0])))


def expected_total(samples: Samples, tilt: Float[Array, " arms"]) -> Float[Array, " arms"]:
    """The first of the moments alone."""
    share = _shares(samples.log_weight + jnp.tensordot(tilt, samples.total, axes=1))
    return jnp.sum(samples.total * share[None], axis=(1, 2)) + samples.known @ tilt


def moments_at(samples: Samples, tilt: Float[Array, " arms"]) -> SampleMoments:
    """At means that differ by `tilt` x sigma^2 from those of the samples."""
    log_weight = samples.log_weight + jnp.tensordot(tilt, samples.total, axes=1)
    share = _shares(log_weight)
    total = jnp.sum(samples.total * share[None], axis=(1, 2))
    centred = samples.total - total[:, None, None]
    by_group = jnp.sum(centred * share[None], axis=1)
    weighted = (centred * share[None]).reshape(total.shape[0], -1)
    log_size = jnp.log(jnp.asarray(log_weight.size, log_weight.dtype))
    return SampleMoments(
        log_normaliser=samples.constant + jax.nn.logsumexp(log_weight) - log_size,
        total=total + samples.known @ tilt,
        covariance=weighted @ centred.reshape(total.shape[0], -1).T + samples.known,
        error=_error(by_group, jnp.sum(share, axis=0)),
        effective=_effective(share),
    )


def _error(by_group: Float[Array, "arms groups"], weight: Float[Array, " groups"]) -> Float[Array, "arms arms"]:
    """Covariance of the Monte Carlo error, from what each group has moved the average by; nothing where there is one group.

    The average without group g is `by_group[g] / (1 - weight[g])` off the average of all, however uneven the groups are: the
    jackknife. It is itself uncertain: it is multiplied by the variance of Student's t with as many degrees of freedom as the
    weights leave, so that 1.96 times its root covers 95%.
    """
    groups = weight.shape[0]
    if groups == 1:
        return jnp.zeros((by_group.shape[0],) * 2, by_group.dtype)
    apart = by_group / jnp.maximum(1 - weight, jnp.finfo(weight.dtype).eps)[None]
    freedom = jnp.maximum(1 / jnp.sum(jnp.square(weight)) - 1, FEWEST_FREEDOM)
    return (groups - 1) / groups * freedom / (freedom - 2) * apart @ apart.T


def _shares(log_weight: Float[Array, "members groups"]) -> Float[Array, "members groups"]:
    return jax.nn.softmax(log_weight, axis=(0, 1))


def _effective(share: Float[Array, "members groups"]) -> Float[Array, ""]:
    return 1 / (share.size * jnp.sum(jnp.square(share)))
