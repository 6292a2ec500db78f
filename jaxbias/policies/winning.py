"""The probability that each of several independent variables is the largest: a one-dimensional integral.

    P(arm k wins) = integral of f_k(x) prod_{j != k} F_j(x) dx

with f the densities and F the distribution functions. All arms share the nodes. Left of the point `start` some arm is nearly
always higher, so that the integral begins there; an arm of scale s has what it has to say within a few s of that point, or it
loses. Hence nodes that are evenly spaced in the logarithm of the distance from `start` resolve arms of every scale alike, and
the trapezoid rule in that variable converges exponentially.
"""

from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxbias._core.normal_tail import log_ndtr, log_ndtr_near, log_normal_density
from jaxbias.policies.noisy_normal import noisy_score

# Scales from 5 (an arm that was never pulled) down to 0.01 (10^4 pulls) cost an error of a log-probability of 1e-6, less unequal
# ones much less (tests/policies/test_winning.py).
NODES = 96
# Both in standard deviations of a Normal arm: Phi(-8) is 1e-5 of exp(-25), the least probability that must be right; on the right
# an arm that wins with so small a probability has its own tail to fall.
BELOW, ABOVE = 8.0, 9.0
DEPTH = BELOW**2 / 2  # the same for the logarithm of any density, from its largest value
MARGIN = 0.25  # of the distance from `start` to the centre of its arm: where the logarithm of the distance begins


class Nodes(NamedTuple):
    """Where the integrand is evaluated.

    Fields:
        start: the first node.
        distance: of each node from there.
        log_weight: of the trapezoid rule, but for a constant.
    """

    start: Float[Array, ""]
    distance: Float[Array, " nodes"]
    log_weight: Float[Array, " nodes"]


def place_nodes(
    lower: Float[Array, " arms"], center: Float[Array, " arms"], upper: Float[Array, " arms"], within: tuple[float, ...] = (0.0,)
) -> Nodes:
    """The nodes for arms that lie between `lower` and `upper`; with `within`, also so far between each node and the next.

    Where the nodes are does not change the integral, so that they have no derivative.
    """
    lower, center, upper = jax.lax.stop_gradient((lower, center, upper))
    start, reach = jnp.max(lower), center - lower
    first = (
        lower + reach / 100 >= start
    )  # the arm whose `lower` it is, also where it was rounded elsewhere; a lookup takes longer
    margin = MARGIN * jnp.min(jnp.where(first, reach, jnp.max(reach)))
    first, last = jnp.log(margin), jnp.log(jnp.max(upper - start) + margin)
    place = (np.arange(NODES)[:, None] + np.array(within)[None]).ravel() / (NODES - 1)
    log_distance = first + (last - first) * jnp.asarray(place, start.dtype)
    return Nodes(start=start, distance=jnp.exp(log_distance) - margin, log_weight=log_distance)


def win_log_probs(
    log_density: Float[Array, "arms nodes"], log_below: Float[Array, "arms nodes"], log_weight: Float[Array, " nodes"]
) -> Float[Array, " arms"]:
    """The log-probability that each arm wins, from the logarithms of densities and distribution functions at the nodes."""
    together = jnp.sum(log_below, axis=0) + log_weight
    log_probs = jax.nn.logsumexp(log_density - log_below + together[None], axis=1)
    return log_probs - jax.nn.logsumexp(log_probs)


def normal_win_log_probs(location: Float[Array, " arms"], scale: Float[Array, " arms"]) -> Float[Array, " arms"]:
    """Arm k is Normal(location_k, scale_k); two arms have a closed form."""
    if location.shape[0] == 1:
        return jnp.zeros_like(location)
    if location.shape[0] == 2:
        margin = (location[0] - location[1]) / jnp.sqrt(jnp.sum(jnp.square(scale)))
        return log_ndtr(jnp.stack([margin, -margin]))
    nodes = place_nodes(location - BELOW * scale, location, location + ABOVE * scale)
    score = ((nodes.start - location)[:, None] + nodes.distance[None]) / scale[:, None]
    return win_log_probs(log_normal_density(score) - jnp.log(scale)[:, None], log_ndtr_near(score), nodes.log_weight)


def normal_win_log_prob(location: Float[Array, " arms"], scale: Float[Array, " arms"], arm: Int[Array, ""]) -> Float[Array, ""]:
    """Of one arm of three or more: the others' are not computed."""
    _, _, log_integrand = _one_arm(location, scale, arm)
    return jax.nn.logsumexp(log_integrand)


def normal_win_quadratic(
    location: Float[Array, " arms"], scale: Float[Array, " arms"], arm: Int[Array, ""]
) -> tuple[Float[Array, ""], Float[Array, " arms"], Float[Array, "arms arms"]]:
    """The log-probability that one arm of three or more wins, its slope in the locations, and minus its second derivative there.

    The logarithm of the integrand is a sum over arms, so that its second derivative at a node is diagonal. With averages over the
    nodes, each weighted with its share of the integral:

        second derivative = average second derivative of the logarithm + covariance of its slopes

    Automatic differentiation has a pass over the nodes for every arm in place of this one product of matrices.
    """
    score, log_below, log_integrand = _one_arm(location, scale, arm)
    own = (jnp.arange(location.shape[0], dtype=arm.dtype) == arm)[:, None]
    share = jax.nn.softmax(log_integrand)
    falls = jnp.exp(log_normal_density(score) - log_below)
    slopes = jnp.where(own, score, -falls) / scale[:, None]
    bends = jnp.where(own, 1, falls * (score + falls)) / jnp.square(scale)[:, None]
    slope = slopes @ share
    centred = (slopes - slope[:, None]) * jnp.sqrt(share)[None]
    return jax.nn.logsumexp(log_integrand), slope, jnp.diag(bends @ share) - centred @ centred.T


def _one_arm(location: Array, scale: Array, arm: Array) -> tuple[Array, Array, Array]:
    """At the nodes: the scores of all arms, the logarithms of their distribution functions, and that of the integrand.

    The weights are part of the integrand.

    The logarithms of all arms are summed and this arm's taken off again: XLA on a CPU computes what has two uses with the
    machine's vectors, and what only goes into a sum one number at a time.
    """
    nodes = place_nodes(location - BELOW * scale, location, location + ABOVE * scale)
    score = ((nodes.start - location)[:, None] + nodes.distance[None]) / scale[:, None]
    log_below = log_ndtr_near(score)
    log_density = log_normal_density(score[arm]) - jnp.log(scale[arm])
    step = jnp.log(nodes.log_weight[1] - nodes.log_weight[0])
    return score, log_below, jnp.sum(log_below, axis=0) - log_below[arm] + log_density + nodes.log_weight + step


def noisy_normal_win_log_probs(
    location: Float[Array, " arms"], scale: Float[Array, " arms"], tau: Float[Array, ""]
) -> Float[Array, " arms"]:
    """Arm k is Normal(location_k, scale_k) plus Gumbel noise of scale tau: a function of a Normal variable, its score."""
    curve = noisy_score(scale, tau)
    nodes = place_nodes(location + curve.lower, location + curve.center, location + curve.upper)
    score, log_slope = curve((nodes.start - location)[:, None] + nodes.distance[None])
    return win_log_probs(log_normal_density(score) + log_slope, log_ndtr_near(score), nodes.log_weight)


# The rule of Gauss and Lobatto between one node and the next, for a distribution function from its density.
LOBATTO = (0.0, float(1 - 1 / np.sqrt(5)) / 2, float(1 + 1 / np.sqrt(5)) / 2)
NEAR = 0.1  # log-odds up to which the power series of a log-density is right to 1e-8 of it
REACH_ROUNDS = 5  # of the search for where a density ends: 1% of its depth with parameters from 1e-6 to 1e7 (the same tests)
FAR = 80.0  # log-odds, whose exponential float32 has
# What lies left of all nodes, over at most 19 standard deviations: more than one node to each of them.
LEFT, LEFT_WEIGHTS = np.polynomial.legendre.leggauss(32)


def beta_win_log_probs(success: Float[Array, " arms"], failure: Float[Array, " arms"]) -> Float[Array, " arms"]:
    """Arm k is Beta(success_k, failure_k), on the scale of arcsinh(log-odds), where its density has no ends and short tails.

    The distribution functions are running integrals of the densities over the nodes, so that derivatives in both parameters
    are those of a sum of exponentials.
    """
    if success.shape[0] == 1:
        return jnp.zeros_like(success)
    center = jnp.log(success / failure)  # not a difference of logarithms, which have no digits to lose
    lower, upper = center - _beta_reach(success, failure), center + _beta_reach(failure, success)
    lower, middle, upper = (jnp.arcsinh(jax.lax.stop_gradient(place)) for place in (lower, center, upper))
    nodes = place_nodes(lower, middle, upper, LOBATTO)

    def log_density(place: Float[Array, "#arms nodes"]) -> Float[Array, "arms nodes"]:
        log_odds = jnp.sinh(place) - center[:, None]
        return _beta_log_density(success[:, None], failure[:, None], log_odds) + jnp.log(jnp.cosh(place))

    end, begin = jnp.minimum(nodes.start, upper), lower - MARGIN * (middle - lower)
    half = (end - begin)[:, None] / 2
    outside = jnp.exp(log_density(begin[:, None] + half * (1 + LEFT[None]).astype(half.dtype)))
    left = jnp.sum(outside * half * LEFT_WEIGHTS[None].astype(half.dtype), axis=1, keepdims=True)

    curve = log_density((nodes.start + nodes.distance)[None])
    step = nodes.log_weight[len(LOBATTO)] - nodes.log_weight[0]
    mass = (jnp.exp(curve + nodes.log_weight[None]) * (step / 12)).reshape(success.shape[0], NODES, 3)
    pieces = mass[:, :-1, 0] + 5 * (mass[:, :-1, 1] + mass[:, :-1, 2]) + mass[:, 1:, 0]
    below = jnp.cumsum(jnp.concatenate([left, pieces], axis=1), axis=1)
    log_below, log_total = jnp.log(below), jnp.log(below[:, -1:])
    return win_log_probs(curve[:, :: len(LOBATTO)] - log_total, log_below - log_total, nodes.log_weight[:: len(LOBATTO)])


def _beta_log_density(success: Array, failure: Array, distance: Array) -> Array:
    """Of the log-odds, so far from where it is largest, less what it is there: few digits are lost with large parameters.

        -(b t + (a + b) log(1 + b / (a + b) (exp(-t) - 1)))     or the same with -t and a in place of t and b

    With the smaller of a and b fewer digits cancel. Far away it is the one whose exponential does not overflow; near, the power
    series, of which no digits cancel. A share that rounds to 1 would make the density 0 at all that is far away.
    """
    by_success = jnp.where(jnp.abs(distance) <= FAR, success < failure, distance < 0)
    side, far = jnp.where(by_success, success, failure), jnp.where(by_success, -distance, distance)
    total = success + failure
    share = jnp.minimum(side / total, 1 - jnp.finfo(total.dtype).epsneg)
    product, skew = share * (1 - share), 1 - 2 * share
    cumulants = (
        1,
        -skew / 3,
        (1 - 6 * product) / 12,
        -skew * (1 - 12 * product) / 60,
        (1 - 30 * product * (1 - 4 * product)) / 360,
    )
    near = total * product * jnp.square(far) / 2 * reduce(lambda value, term: value * far + term, cumulants[::-1])
    return -jnp.where(jnp.abs(far) < NEAR, near, side * far + total * jnp.log1p(share * jnp.expm1(-far)))


def _beta_reach(side: Float[Array, " arms"], other: Float[Array, " arms"]) -> Float[Array, " arms"]:
    """How far from its largest value the logarithm of the density has fallen by `DEPTH`.

    Newton's method for the logarithms of both, which is exact for any power, but goes too far where the power changes: from the
    tail of a parameter near 0, say. So it never goes beyond what a tangent has shown: the logarithm of the density is concave in
    the log-odds, and Newton's method for the depth itself never ends before the root.
    """
    side, other = jax.lax.stop_gradient((side, other))
    total = side + other
    far = jnp.sqrt(2 * DEPTH * total / (side * other)) + DEPTH / side
    far = jnp.where(side > other, jnp.minimum(far, FAR), far)  # beyond, the smaller one has no digits in their sum
    most = jnp.full_like(far, jnp.inf)
    for _ in range(REACH_ROUNDS):
        depth = -_beta_log_density(side, other, -far)
        slope = -jnp.expm1(-far) * side / (1 + side / other * jnp.exp(-far))
        most = jnp.minimum(most, far - (depth - DEPTH) / slope)
        far = jnp.minimum(far * jnp.exp(-jnp.log(depth / DEPTH) * depth / (slope * far)), most)
    return far
