"""The probability that each of several Normal or Beta variables is the largest, to four digits and fast: for simulated batches.

`winning.py` has log-probabilities that are right for the smallest of them, as a likelihood needs them. A simulation draws from
them, so that an error far below its Monte Carlo error does not matter. All arms share one set of nodes, which are close together
around the leader, the arm whose lower end is the largest, and farther apart with the distance from it: an arm that is far from
the leader and can still win has a wide posterior. The density of each arm at the nodes, summed from above, is its distribution
function. Where sin^2 x is a Beta(a, b) variable, x is nearly Normal with standard deviation 1 / (2 sqrt(a + b)).
"""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxbias._core.binomial import stirling_error
from jaxbias._core.layout import materialize

NODES = 128  # a quarter of a standard deviation apart at the leader, a third of one of an arm far from it
REACH = 6.5  # standard deviations that the nodes cover: what is beyond has a probability of 1e-10
CORE = 3.0  # standard deviations of the leader, around which the nodes are evenly spaced
EDGE = 1e-4  # how near the ends of the range the nodes go, where a density may have no limit
MOST_UNROLLED = 16  # arms whose products are written out: three times as fast as a cumulative product


def normal_win_probs(location: Float[Array, " arms"], scale: Float[Array, " arms"]) -> Float[Array, " arms"]:
    """The probability that each Normal variable is the largest, as `beta_win_probs`.

    >>> import jax.numpy as jnp
    >>> normal_win_probs(jnp.array([1.0, 0.0]), jnp.array([0.6, 0.8])).round(4).tolist()  # Phi(1)
    [0.8413, 0.1587]
    """
    middle, width = (location - jnp.max(location)).astype(jnp.float32), scale.astype(jnp.float32)
    nodes, weight = _nodes(middle, width, -jnp.inf, jnp.inf)
    off = (nodes[None] - middle[:, None]) / width[:, None]
    density = jnp.exp(-0.5 * jnp.square(off)) / (width[:, None] * math.sqrt(2 * math.pi))
    return _win_probs(density * weight[None]).astype(location.dtype)


def beta_win_probs(success: Float[Array, " arms"], failure: Float[Array, " arms"]) -> Float[Array, " arms"]:
    """The probability that each Beta(success, failure) variable is the largest, right to about 1e-4, mostly 1e-6; in float32.

        p_k = integral of density_k(x) prod over j != k of F_j(x) dx

    >>> import jax.numpy as jnp
    >>> beta_win_probs(jnp.array([2.0, 1.0]), jnp.array([1.0, 2.0])).round(4).tolist()  # 5/6 by hand
    [0.8333, 0.1667]
    """
    first, second = success.astype(jnp.float32), failure.astype(jnp.float32)
    count = first + second
    share = first / count
    middle, scale = jnp.arcsin(jnp.sqrt(share)), 0.5 / jnp.sqrt(count)
    nodes, weight = _nodes(middle, scale, 0.0, math.pi / 2)
    nodes = jnp.clip(nodes, EDGE, math.pi / 2 - EDGE)
    return _win_probs(_density(first, second, share, nodes) * weight[None]).astype(success.dtype)


def _win_probs(density: Float[Array, "arms nodes"]) -> Float[Array, " arms"]:
    below = jnp.clip(1 - _sums_above(density), 0, 1)
    won = jnp.maximum(jnp.sum(_gaps(density * _product_of_others(below)), axis=1), 0)
    return won / jnp.sum(won)


def _nodes(
    middle: Float[Array, " arms"], scale: Float[Array, " arms"], low: float, high: float
) -> tuple[Float[Array, " nodes"], Float[Array, " nodes"]]:
    """Where the densities are evaluated, and what each node counts for: x = leader + CORE scale sinh(t), t evenly spaced."""
    leader = jnp.argmax(middle - REACH * scale)
    centre, unit = middle[leader], CORE * scale[leader]
    lowest = jnp.maximum(centre - REACH * scale[leader], low)
    highest = jnp.minimum(jnp.max(middle + REACH * scale), high)
    start, end = jnp.arcsinh((lowest - centre) / unit), jnp.arcsinh((highest - centre) / unit)
    apart = (end - start) / (NODES - 1)
    place = start + apart * jnp.arange(NODES, dtype=jnp.float32)
    grown = jnp.exp(place) / 2
    shrunk = 1 / (4 * grown)
    return centre + unit * (grown - shrunk), unit * (grown + shrunk) * apart  # sinh and cosh


def _density(
    first: Float[Array, " arms"],
    second: Float[Array, " arms"],
    share: Float[Array, " arms"],
    nodes: Float[Array, " nodes"],
) -> Float[Array, "arms nodes"]:
    """Of x, where sin^2 x is a Beta variable: by Loader's saddle-point form, in which nothing large cancels."""
    count = first + second
    log_constant = 0.5 * jnp.log(2 * first * second / (count * jnp.pi))
    log_constant += stirling_error(count) - stirling_error(first) - stirling_error(second)
    # Without the barrier XLA computes the constants of an arm anew at every node.
    sine, cosine = _sine_and_cosine(nodes)
    log_constant, of_middle, beside = materialize((log_constant, jnp.sqrt(share), jnp.sqrt(1 - share)))
    across, along = sine[None] * beside[:, None], cosine[None] * of_middle[:, None]
    off = (across - along) * (across + along)  # sin^2 of the node less the share
    above = first[:, None] * jnp.log1p(jnp.maximum(off / share[:, None], -1))
    under = second[:, None] * jnp.log1p(jnp.maximum(-off / (1 - share[:, None]), -1))
    return jnp.exp(log_constant[:, None] + above + under) / (sine * cosine)[None]


def _sine_and_cosine(angle: Float[Array, " nodes"]) -> tuple[Float[Array, " nodes"], Float[Array, " nodes"]]:
    """From 0 to pi / 2, by Taylor's series, which has the digits of float32 there: a tenth of the time of XLA's own."""
    square, sine, cosine = jnp.square(angle), jnp.zeros_like(angle), jnp.zeros_like(angle)
    for power in range(12, -1, -2):
        sine = (-1) ** (power // 2) / math.factorial(power + 1) + square * sine
        cosine = (-1) ** (power // 2) / math.factorial(power) + square * cosine
    return angle * sine, cosine


def _gaps(values: Float[Array, "arms nodes"]) -> Float[Array, "arms gaps"]:
    """The integral between neighbouring nodes, by the cubic through the four nodes around each gap."""
    before = 2 * values[:, :1] - values[:, 1:2]
    after = 2 * values[:, -1:] - values[:, -2:-1]
    wide = jnp.concatenate([before, values, after], axis=1)
    return (13 * (wide[:, 1:-2] + wide[:, 2:-1]) - wide[:, :-3] - wide[:, 3:]) / 24


def _sums_above(density: Float[Array, "arms nodes"]) -> Float[Array, "arms nodes"]:
    """The integral from each node to the last."""
    sums = jnp.cumsum(_gaps(density)[:, ::-1], axis=1)[:, ::-1]
    return jnp.concatenate([sums, jnp.zeros_like(sums[:, :1])], axis=1)


def _product_of_others(values: Float[Array, "arms nodes"]) -> Float[Array, "arms nodes"]:
    """For each arm the product over the other arms, without dividing."""
    one, number = jnp.ones_like(values[0]), values.shape[0]
    if number > MOST_UNROLLED:
        left = jnp.cumprod(jnp.concatenate([one[None], values[:-1]]), axis=0)
        return left * jnp.cumprod(jnp.concatenate([one[None], values[:0:-1]]), axis=0)[::-1]
    left, right = [one], [one]
    for arm in range(number - 1):
        left.append(left[-1] * values[arm])
        right.append(right[-1] * values[number - 1 - arm])
    return jnp.stack([below * above for below, above in zip(left, right[::-1], strict=True)])
