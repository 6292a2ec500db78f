"""Confidence sequences by mixtures: of each arm from its pulls, its sample mean and its squares around it.

For every candidate mean m there is a martingale under m, the likelihood of other means, mixed, over that of m. By Ville's
inequality it ever exceeds 1 / alpha with probability alpha at most, whatever chose the number of pulls. The interval is the m at
which it has not. The mixing distribution is around m itself and as wide as the noise of `tightest_at` / ratio pulls.

    Normal, sigma known     Normal mixture (Howard, Ramdas, McAuliffe and Sekhon 2021)
    Normal, sigma unknown   the same in units of sigma, and sigma integrated out with the prior 1 / sigma: a martingale of the
                            rewards without their scale (Lai 1976; Wang and Ramdas 2025)
    Bernoulli               Beta mixture (Howard et al. 2021); valid for any rewards from 0 to 1
    Poisson, Exponential    Gamma and inverse Gamma mixtures
    rewards of any kind     Normal mixture with the sample variance in place of sigma^2: asymptotic (Waudby-Smith, Arbour, Sinha,
                            Kennedy and Ramdas 2024)
"""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxbias._core.search import bracket
from jaxbias.estimators.conjugate import log_evidence
from jaxbias.rewards import BaseFamily, Bernoulli

FAR = 1e-6  # of the distance to the end of the range: an end of the interval that is nearer is at the end
NEWTON_ROUNDS = 50  # quadratic convergence: a few are enough, and more do no harm
FAR_UP = 25.0  # in log m, beyond the sample mean: an end of the interval that is farther is infinite
START = 1e-6  # of a reward: where the search upwards begins above a sample mean of 0


# All take the logarithm of alpha, which may be above 0 where two arms share it (`differences.py`).


class Seen(NamedTuple):
    """Of each arm, so far; all are floats."""

    pulls: Float[Array, "*shape arms"]
    mean: Float[Array, "*shape arms"]  # 0 without a pull
    squares: Float[Array, "*shape arms"]  # around the mean


Ends = tuple[Float[Array, "*shape arms"], Float[Array, "*shape arms"]]


def best_ratio(alpha: float) -> float:
    """The v / rho that makes the interval at v the tightest.

    Setting the derivative of (v + rho) log((v + rho) / (rho alpha^2)) in rho to zero, y = 1 + v / rho solves
    y - log y = 1 - log alpha^2: minus the lower branch of Lambert's W at -alpha^2 / e. By Newton's method from above, where the
    function is convex; SciPy has it too, and takes a third of a second to import.
    """
    goal = 1 - 2 * math.log(alpha)
    root = goal + math.sqrt(2 * (goal - 1))
    for _ in range(NEWTON_ROUNDS):
        if root <= 1:
            break
        root -= (root - math.log(root) - goal) / (1 - 1 / root)
    return root - 1


def normal_ends(seen: Seen, variance: Float[Array, "*#shape arms"], rho: Float[Array, "*#shape arms"], log_alpha: Any) -> Ends:
    """mean -/+ sqrt((v + rho) log((v + rho) / (rho alpha^2))) / n with v = n variance; infinite without a pull or a variance."""
    variance, rho = jnp.broadcast_to(variance, seen.pulls.shape), jnp.broadcast_to(rho, seen.pulls.shape)
    known = (seen.pulls > 0) & (variance > 0)
    count, rho = jnp.maximum(seen.pulls, 1), jnp.where(known, rho, 1)
    total = count * variance + rho
    half = jnp.sqrt(total * jnp.maximum(jnp.log(total / rho) - 2 * log_alpha, 0)) / count
    return _around(seen, half, known)


def asymptotic_ends(seen: Seen, worth: float, log_alpha: Any) -> Ends:
    """The Normal mixture with the sample variance; `worth` is the number of pulls whose noise is as wide as the mixture."""
    variance = jnp.where(seen.pulls > 1, seen.squares / jnp.maximum(seen.pulls, 1), 0)
    return normal_ends(seen, variance, variance * worth, log_alpha)


def student_ends(seen: Seen, worth: float, log_alpha: Any) -> Ends:
    """Normal rewards with sigma integrated out.

    With g = 1 / worth, squares s around the sample mean and distance d to it, the martingale is

        (1 + n g)^(-1/2) ((s + n d^2) / (s + n d^2 / (1 + n g)))^(n / 2)

    and below 1 / alpha while n d^2 / s < (c - 1) / (1 - c / (1 + n g)), c = ((1 + n g) / alpha^2)^(1 / n).
    """
    count = jnp.maximum(seen.pulls, 1)
    wider = 1 + count / worth
    limit = jnp.exp(jnp.maximum(jnp.log(wider) - 2 * log_alpha, 0) / count)
    known = (limit < wider) & (seen.squares > 0)
    ratio = (limit - 1) / jnp.where(known, 1 - limit / wider, 1)
    return _around(seen, jnp.sqrt(ratio * seen.squares / count), known)


def _around(seen: Seen, half: Array, known: Array) -> Ends:
    half = jnp.where(known, half, jnp.inf)
    return seen.mean - half, seen.mean + half


def conjugate_ends(family: BaseFamily, seen: Seen, worth: float, log_alpha: Any) -> Ends:
    """Where the mixture of the conjugate prior around m, worth so many pulls, has 1 / alpha times the likelihood at m.

    It grows with the distance of m from the sample mean on both sides, so that both ends are found by bisection.
    """
    total, weight = seen.pulls * seen.mean, jnp.full_like(seen.pulls, worth)
    pulled = seen.pulls > 0

    def lower_end(total: Array, mean: Array) -> Array:
        """From a share of the sample mean up to it."""
        below = lambda at: -log_evidence(family, at, weight, seen.pulls, total)
        high = jnp.maximum(mean, jnp.finfo(mean.dtype).tiny ** 0.5)
        low = FAR * high
        found = bracket(below, log_alpha, low, high)
        return jnp.where(pulled & (mean > 0) & (below(low) < log_alpha), found, 0)

    if isinstance(family, Bernoulli):
        return lower_end(total, seen.mean), 1 - lower_end(seen.pulls - total, 1 - seen.mean)
    above = lambda line: log_evidence(family, jnp.exp(line), weight, seen.pulls, total)
    low = jnp.log(seen.mean + START / jnp.maximum(seen.pulls, 1))
    high = low + FAR_UP
    found = jnp.exp(bracket(above, -log_alpha, low, high))
    return lower_end(total, seen.mean), jnp.where(pulled & (above(high) > -log_alpha), found, jnp.inf)
