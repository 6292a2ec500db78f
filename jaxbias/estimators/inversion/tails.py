"""Tail probabilities of the observed statistic at candidate values of a contrast, and the candidates where they have a size.

Paths are weighted, and not weights that sum to one: at a candidate above the estimate the paths below the observed statistic have
small weights, so that a probability of 2.5%, or of one in a million, is known to a few per cent from a thousand paths.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxbias.estimators.inversion.statistic import Sums, constrained, statistic
from jaxbias.estimators.inversion.tilting import log_ratio
from jaxbias.rewards import BaseFamily, Normal

TIE = 1e-5  # relative: statistics of the same counts, rounded differently
FARTHEST = 12.0  # standard errors from the estimate to where an end of an interval is looked for
HALVINGS = 14  # of that distance: to a thousandth of a standard error, less than the Monte Carlo error


class Contrast(NamedTuple):
    """One test: a weighted sum of the means of some arms, with everything that the paths and the log say about them.

    Fields:
        weights: of the arms.
        family: of these arms.
        centre, stderr: of each arm.
        nuisance: means of these arms drawn at random, moved to where the contrast has the value that is tested.
        paths, observed: what the arms gave on the paths, and in the log.
        residual, log_mixture: of the paths, as in `tilting`.
        reward: any that the family can give.
        pulled: whether a path pulled all of these arms; the others do not count.
        low, high: the range of the contrast.
    """

    weights: Float[Array, " arms"]
    family: BaseFamily
    centre: Float[Array, " arms"]
    stderr: Float[Array, " arms"]
    nuisance: Float[Array, "draws arms"]
    paths: Sums
    observed: Sums
    residual: Float[Array, "paths arms"]
    log_mixture: Float[Array, " paths"]
    reward: Float[Array, ""]
    pulled: Bool[Array, " paths"]
    low: Float[Array, ""]
    high: Float[Array, ""]

    @property
    def estimate(self) -> Float[Array, ""]:
        """The contrast of the sample means."""
        return self.observed.mean[0] @ self.weights

    @property
    def scale(self) -> Float[Array, ""]:
        """Its standard error, had the arms been fixed in advance."""
        return jnp.sqrt(jnp.sum(jnp.square(self.weights * self.stderr)))


class Tails(NamedTuple):
    """How likely a statistic as far out as the observed one is, on each side; ties count half. And the Monte Carlo errors."""

    below: Float[Array, ""]
    above: Float[Array, ""]
    error_below: Float[Array, ""]
    error_above: Float[Array, ""]


def tails(contrast: Contrast, at: Float[Array, ""]) -> Tails:
    """The tails of the observed statistic where the contrast has the value `at`."""
    weight = _weights(contrast, at)
    simulated = statistic(contrast.family, contrast.paths, contrast.weights, at)
    observed = statistic(contrast.family, contrast.observed, contrast.weights, at)[0]
    off = simulated - observed
    tied = jnp.abs(off) <= TIE * (1 + jnp.abs(observed))
    below, above = (jnp.where(tied, 0.5, side.astype(weight.dtype)) * weight for side in (off < 0, off > 0))
    # Where some paths did not pull the arm it is the probability given that they did.
    pulled = jnp.where(jnp.all(contrast.pulled), 1, jnp.mean(weight))
    root = jnp.sqrt(jnp.asarray(weight.shape[0], weight.dtype))
    figures = (jnp.mean(below), jnp.mean(above), jnp.std(below) / root, jnp.std(above) / root)
    return Tails(*(figure / pulled for figure in figures))


def _weights(contrast: Contrast, at: Float[Array, ""]) -> Float[Array, " paths"]:
    """The density of the paths at means on which the contrast is `at`, over that at the anchors."""
    means = _nuisance_at(contrast, at)
    data = (contrast.centre, contrast.paths.count, contrast.residual, contrast.reward)
    used = (contrast.weights != 0)[None]

    def add(total: Array, mean: Float[Array, " arms"]) -> tuple[Array, None]:
        return jnp.logaddexp(total, jnp.sum(jnp.where(used, log_ratio(contrast.family, mean, *data), 0), axis=1)), None

    nothing = jnp.full_like(contrast.log_mixture, -jnp.inf)
    total, _ = jax.lax.scan(add, nothing, means)
    log_number = jnp.log(jnp.asarray(means.shape[0], total.dtype))
    return jnp.where(contrast.pulled, jnp.exp(total - log_number - contrast.log_mixture), 0)


def _nuisance_at(contrast: Contrast, at: Float[Array, ""]) -> Float[Array, "draws arms"]:
    """The means nearest to the nuisance's on which the contrast is `at`, in units of standard errors.

    A variance at an arm's own sample mean is too small where that is near an end of its range: a rate of 0 in 4 pulls would count
    as if it were known well, and an arm is given up just where it is too low. So the standard errors are those at the means on
    which the contrast is `at`. For equal rates, the pooled mean is then the successes of both arms over their pulls.
    """
    given, family = (contrast.weights, at), contrast.family
    means = constrained(family, contrast.nuisance, jnp.broadcast_to(jnp.square(contrast.stderr), contrast.nuisance.shape), *given)
    if isinstance(family, Normal):
        return means
    return constrained(family, contrast.nuisance, family.variance(means) / contrast.observed.count, *given)


class Ends(NamedTuple):
    """Where the tails have their size: the lower end, the upper end and the median, and the tails at each."""

    places: Float[Array, "3"]
    tails: Tails


def find_ends(
    tails_at: Callable[[Array], Tails], chance: Float[Array, "2"], low: Array, middle: Array, high: Array, halvings: int
) -> Ends:
    """Bisection between two places and one between them: for the least value at which the tail above has the first chance, for
    the largest at which the tail below has the second, and for the value between these at which both tails are equal.

    One after the other in one loop: the tails are most of what has to be compiled.
    """
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(tails_at, middle))
    above, below = jnp.asarray([1.0, 0.0, 1.0], middle.dtype), jnp.asarray([0.0, 1.0, 1.0], middle.dtype)
    goal = jnp.stack([chance[0], -chance[1], jnp.zeros_like(chance[0])])

    def find(ends: Float[Array, "2"], number: Array) -> tuple[Array, tuple[Array, Tails]]:
        def halve(_: Any, now: tuple[Array, Array, Array, Tails]) -> tuple[Array, Array, Array, Tails]:
            place = (now[0] + now[1]) / 2
            found = tails_at(place)
            is_low = above[number] * found.above - below[number] * found.below < goal[number]
            return jnp.where(is_low, place, now[0]), jnp.where(is_low, now[1], place), place, found

        begin = jnp.stack([low, middle, ends[0]])[number], jnp.stack([middle, high, ends[1]])[number]
        _, _, place, found = jax.lax.fori_loop(0, halvings + 1, halve, (*begin, middle, nothing))
        return jnp.where(jnp.arange(2) == number, place, ends), (place, found)

    return Ends(*jax.lax.scan(find, jnp.stack([middle, middle]), jnp.arange(3))[1])


def ends_of(contrast: Contrast, chance: Float[Array, "2"]) -> Ends:
    """The ends and the median of a contrast."""
    places = (_far(contrast, -1), _start(contrast), _far(contrast, 1))
    return find_ends(lambda at: tails(contrast, at), chance, *places, halvings=HALVINGS)


def _start(contrast: Contrast) -> Float[Array, ""]:
    return jnp.clip(contrast.estimate, contrast.low, contrast.high)


def _far(contrast: Contrast, side: int) -> Float[Array, ""]:
    return jnp.clip(contrast.estimate + side * FARTHEST * contrast.scale, contrast.low, contrast.high)


def null_tails(contrast: Contrast, null: Float[Array, ""]) -> Float[Array, "2"]:
    """The tails below and above the observed statistic at a value that is tested, and at least what so many paths can tell.

    The one on the side of the observed statistic is known from the paths that are out there; the other is the rest.
    """
    found = tails(contrast, null)
    right = statistic(contrast.family, contrast.observed, contrast.weights, null)[0] > 0
    tail = jnp.where(right, found.above, found.below)
    tail = jnp.minimum(jnp.where(tail > 0, tail, 1 / contrast.log_mixture.shape[0]), 1)
    return jnp.where(right, jnp.stack([1 - tail, tail]), jnp.stack([tail, 1 - tail]))
