"""The probability that each of several Beta variables is the largest, to three digits and fast: for simulated batches.

`winning.py` has log-probabilities that are right for the smallest of them, as a likelihood needs them; with Normal variables they
are as fast as this, with four Beta variables they take ten times as long. A simulation draws from them, so that an error far
below its Monte Carlo error does not matter. All arms share one set of nodes, which are close together
around the leader, the arm whose lower end is the largest, and farther apart with the distance from it: an arm that is far from
the leader and can still win has a wide posterior. The density of each arm at the nodes, summed from above, is its distribution
function. Where sin^2 x is a Beta(a, b) variable, x is nearly Normal with standard deviation 1 / (2 sqrt(a + b)).
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxbias._core.binomial import stirling_error
from jaxbias._core.layout import materialize

NODES = 82  # 0.4 of a standard deviation apart at the leader, half of one of an arm far from it
REACH = 6.5  # standard deviations that the nodes cover: what is beyond has a probability of 1e-10
CORE = 3.0  # standard deviations of the leader, around which the nodes are evenly spaced
EDGE = 1e-4  # how near the ends of the range the nodes go, where a density may have no limit
MOST_UNROLLED = (
    16  # arms that are written out one by one: XLA stacks them slowly, and a cumulative product takes three times as long
)
AT_ONCE = 2  # nodes in a round of the loop: the densities of the nodes around one need not be moved at each

Arms = list[Any]  # the numbers of all arms: each on its own, or, of many arms, one array


class Posterior(NamedTuple):
    """log density = constant + success log(sin^2 x / share) + failure log(cos^2 x / rest), with those of the leader."""

    success: Arms
    failure: Arms
    log_constant: Arms


class Node(NamedTuple):
    """A place, the same for all arms, and what it counts for."""

    log_share: Any
    log_rest: Any
    weight: Any


def beta_win_probs(success: Float[Array, " arms"], failure: Float[Array, " arms"]) -> Float[Array, " arms"]:
    """The probability that each Beta(success, failure) variable is the largest, right to about 1e-3, mostly 1e-5; in float32.

    With priors from 1 to 1,000, that is: a density without a limit at an end, or all within a few `EDGE` of it, is not resolved.

        p_k = integral of density_k(x) prod over j != k of F_j(x) dx

    >>> import jax.numpy as jnp
    >>> [round(float(p), 4) for p in beta_win_probs(jnp.array([2.0, 1.0]), jnp.array([1.0, 2.0]))]  # 5/6 by hand
    [0.8333, 0.1667]
    """
    first, second = success.astype(jnp.float32), failure.astype(jnp.float32)
    count = first + second
    share, rest, scale = first / count, second / count, 0.5 / jnp.sqrt(count)
    middle = jnp.arcsin(jnp.sqrt(share))
    leader = jnp.argmax(middle - REACH * scale)
    places, weight = _places(middle, scale, leader)
    sine, cosine = _sine_and_cosine(jnp.clip(places, EDGE, math.pi / 2 - EDGE))
    # The logarithms are of ratios to the leader's share, so that nothing large cancels where an arm and the leader overlap.
    of_leader, of_rest = share[leader], rest[leader]
    root, other = jnp.sqrt(of_leader), jnp.sqrt(of_rest)
    off = (sine * other - cosine * root) * (sine * other + cosine * root)  # sin^2 of the place less the leader's share
    log_share, log_rest = jnp.log1p(jnp.maximum(off / of_leader, -1)), jnp.log1p(jnp.maximum(-off / of_rest, -1))
    # The density of x, where sin^2 x is a Beta variable, at the arm's own share by Loader's saddle-point form.
    log_constant = 0.5 * jnp.log(2 * first * rest / jnp.pi)
    log_constant += stirling_error(count) - stirling_error(first) - stirling_error(second)
    log_constant += first * jnp.log1p((of_leader - share) / share) + second * jnp.log1p((share - of_leader) / rest)
    nodes, arms = materialize((Node(log_share, log_rest, weight / (sine * cosine)), (first, second, log_constant)))
    return _win_probs(Posterior(*map(_apart, arms)), nodes).astype(success.dtype)


def _apart(values: Float[Array, " arms"]) -> Arms:
    """Each arm on its own where they are few."""
    return [values] if values.shape[0] > MOST_UNROLLED else [values[arm] for arm in range(values.shape[0])]


def _win_probs(posterior: Posterior, nodes: Node) -> Float[Array, " arms"]:
    """From the last node to the first: what is above each node, and what each arm wins there.

    A gap between two nodes is integrated by the cubic through the four nodes around it, so that a node is done when the density
    at the one below it is known.
    """

    def density(node: Node) -> Arms:
        of_arm = lambda a, b, constant: node.weight * jnp.exp(constant + a * node.log_share + b * node.log_rest)
        return [of_arm(*arm) for arm in zip(*posterior, strict=True)]

    at = lambda place: density(jax.tree.map(lambda leaf: leaf[place], nodes))
    last, before = at(NODES - 1), at(NODES - 2)
    beyond = [2 * here - below for here, below in zip(last, before, strict=True)]
    start = (before, last, beyond, [jnp.zeros_like(one) for one in last], [_WEIGHTS[-1] * one for one in last])

    def down(state: Any, node: Any) -> tuple[Any, None]:
        place, weight = node
        return _done(state, density(place), weight), None

    lower = jax.tree.map(lambda leaf: leaf[: NODES - 2], nodes)
    state, _ = jax.lax.scan(down, start, (lower, jnp.asarray(_WEIGHTS[1:-1])), reverse=True, unroll=AT_ONCE)
    below = [2 * here - above for here, above in zip(state[0], state[1], strict=True)]
    won = _done(state, below, _WEIGHTS[0])[-1]
    won = jnp.maximum(won[0] if won[0].ndim else jnp.stack(won), 0)
    return won / jnp.sum(won)


def _done(state: Any, below: Arms, weight: Any) -> Any:
    """The state after a node is done, given the density at the node below it."""
    here, above, far, sums, won = state
    around = zip(sums, below, here, above, far, strict=True)
    sums = [total + (13 * (b + c) - a - d) / 24 for total, a, b, c, d in around]
    others = _product_of_others([jnp.clip(1 - total, 0, 1) for total in sums])
    won = [total + weight * one * product for total, one, product in zip(won, here, others, strict=True)]
    return below, here, above, sums, won


def _end_weights() -> np.ndarray:
    """What each node counts for in the sum over all gaps, with straight lines beyond the two ends."""
    wide = np.eye(NODES)
    wide = np.concatenate([2 * wide[:1] - wide[1:2], wide, 2 * wide[-1:] - wide[-2:-1]])
    return ((13 * (wide[1:-2] + wide[2:-1]) - wide[:-3] - wide[3:]) / 24).sum(axis=0).astype(np.float32)


def _places(
    middle: Float[Array, " arms"], scale: Float[Array, " arms"], leader: Any
) -> tuple[Float[Array, " nodes"], Float[Array, " nodes"]]:
    """Where the densities are evaluated, and what each node counts for: x = leader + CORE scale sinh(t), t evenly spaced."""
    centre, unit = middle[leader], CORE * scale[leader]
    lowest = jnp.maximum(centre - REACH * scale[leader], 0)
    highest = jnp.minimum(jnp.max(middle + REACH * scale), math.pi / 2)
    start, end = jnp.arcsinh((lowest - centre) / unit), jnp.arcsinh((highest - centre) / unit)
    apart = (end - start) / (NODES - 1)
    place = start + apart * jnp.arange(NODES, dtype=jnp.float32)
    grown = jnp.exp(place) / 2
    shrunk = 1 / (4 * grown)
    return centre + unit * (grown - shrunk), unit * (grown + shrunk) * apart  # sinh and cosh


def _sine_and_cosine(angle: Float[Array, " nodes"]) -> tuple[Float[Array, " nodes"], Float[Array, " nodes"]]:
    """From 0 to pi / 2, by Taylor's series, which has the digits of float32 there: a tenth of the time of XLA's own."""
    square, sine, cosine = jnp.square(angle), jnp.zeros_like(angle), jnp.zeros_like(angle)
    for power in range(12, -1, -2):
        sine = (-1) ** (power // 2) / math.factorial(power + 1) + square * sine
        cosine = (-1) ** (power // 2) / math.factorial(power) + square * cosine
    return angle * sine, cosine


def _product_of_others(values: Arms) -> Arms:
    """For each arm the product over the other arms, without dividing."""
    if values[0].ndim:
        one, many = jnp.ones_like(values[0][:1]), values[0]
        left = jnp.cumprod(jnp.concatenate([one, many[:-1]]))
        return [left * jnp.cumprod(jnp.concatenate([one, many[:0:-1]]))[::-1]]
    left, right = [jnp.ones_like(values[0])], [jnp.ones_like(values[0])]
    for low, high in zip(values[:-1], values[:0:-1], strict=True):
        left.append(left[-1] * low)
        right.append(right[-1] * high)
    return [below * above for below, above in zip(left, right[::-1], strict=True)]


_WEIGHTS = _end_weights()
