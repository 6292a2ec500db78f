"""The probability that each of several independent variables is the largest: a one-dimensional integral.

    P(arm k wins) = integral of f_k(z) prod_{j != k} F_j(z) dz

with f the densities and F the distribution functions. The arms may be known with very different precision, so the integral is
cut at points placed around every arm, on that arm's own scale, and each piece is done by Gauss-Legendre.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betainc, betaln, digamma, polygamma
from jax.scipy.stats import norm
from jaxtyping import Array, Float

from jaxbias._core.normal_tail import log_ndtr

# Six nodes a piece: with the cuts below the error of a log-probability is under 1e-5 (tests/policies/test_winning.py).
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(6)
_EULER = 0.5772156649015329  # the mean of a standard Gumbel variable; its standard deviation is pi / sqrt(6)

Curves = Callable[[Float[Array, " nodes"]], tuple[Float[Array, "arms nodes"], Float[Array, "arms nodes"]]]


def win_log_probs(curves: Curves, cuts: Float[Array, " cuts"]) -> Float[Array, " arms"]:
    """The log-probability that each arm wins, from `curves(z)`: its log-densities and log-distribution functions."""
    cuts = jnp.sort(jax.lax.stop_gradient(cuts))  # where the integral is cut does not change its value
    half = (cuts[1:, None] - cuts[:-1, None]) / 2
    nodes = (cuts[:-1, None] + half) + half * _NODES[None].astype(cuts.dtype)
    weights = half * _WEIGHTS[None].astype(cuts.dtype)
    log_density, log_below = curves(nodes.ravel())
    others = jnp.sum(log_below, axis=0, keepdims=True) - log_below
    log_probs = jax.nn.logsumexp(log_density + others, axis=1, b=weights.reshape(1, -1))
    return log_probs - jax.nn.logsumexp(log_probs)


def normal_win_log_probs(location: Float[Array, " arms"], scale: Float[Array, " arms"]) -> Float[Array, " arms"]:
    """Arm k is Normal(location_k, scale_k); two arms have a closed form."""
    if location.shape[0] == 1:
        return jnp.zeros_like(location)
    if location.shape[0] == 2:
        margin = (location[0] - location[1]) / jnp.sqrt(jnp.sum(jnp.square(scale)))
        return log_ndtr(jnp.stack([margin, -margin]))

    def curves(z: Float[Array, " nodes"]) -> tuple[Float[Array, "arms nodes"], Float[Array, "arms nodes"]]:
        standard = (z[None] - location[:, None]) / scale[:, None]
        return norm.logpdf(standard) - jnp.log(scale)[:, None], log_ndtr(standard)

    return win_log_probs(curves, _normal_cuts(*jax.lax.stop_gradient((location, scale))))


def _normal_cuts(location: Float[Array, " arms"], scale: Float[Array, " arms"]) -> Float[Array, " cuts"]:
    """Cuts around each arm, and around the point where the arm would most likely win.

    To the left of that point the integrand falls as the sharpest rival does, to the right as the arm's own tail.
    """
    mode, width = _winning_modes(location, scale)
    tail = jnp.square(scale) / jnp.maximum(mode - location, scale)
    around = [
        _offsets(location, scale, (-3.0, 0.0, 3.0)),
        _offsets(mode, width, (-5.0, 0.0, 5.0)),
        _offsets(mode, tail, (5.0, 14.0)),
    ]
    return jnp.concatenate(around)


def _winning_modes(
    location: Float[Array, " arms"], scale: Float[Array, " arms"]
) -> tuple[Float[Array, " arms"], Float[Array, " arms"]]:
    """The maximum of log f_k + sum_{j != k} log F_j, which is concave, and its width there.

    Three rounds of Newton's method, unrolled: a loop in an integral that is called at every step would be slower.
    """
    rivals = 1 - jnp.eye(location.shape[0], dtype=location.dtype)
    mode, curvature = jnp.broadcast_to(jnp.max(location), location.shape), 1 / jnp.square(scale)
    for _ in range(3):
        standard = (mode[:, None] - location[None]) / scale[None]
        hazard = jnp.exp(norm.logpdf(standard) - log_ndtr(standard))
        slope = -(mode - location) / jnp.square(scale) + jnp.sum(rivals * hazard / scale[None], axis=1)
        curvature = 1 / jnp.square(scale) + jnp.sum(rivals * hazard * (standard + hazard) / jnp.square(scale[None]), axis=1)
        mode = mode + slope / curvature
    return mode, 1 / jnp.sqrt(curvature)


def noisy_normal_win_log_probs(
    location: Float[Array, " arms"], scale: Float[Array, " arms"], tau: Float[Array, ""]
) -> Float[Array, " arms"]:
    """Arm k is Normal(location_k, scale_k) plus Gumbel noise of scale tau."""

    def curves(z: Float[Array, " nodes"]) -> tuple[Float[Array, "arms nodes"], Float[Array, "arms nodes"]]:
        return jax.vmap(lambda center, spread: _normal_plus_gumbel(z - center, spread, tau))(location, scale)

    spread = jnp.sqrt(jnp.square(scale) + jnp.square(tau) * (np.pi**2 / 6))
    # The Gumbel's right tail is exponential: exp(-30) is beyond what float32 keeps.
    offsets = (-8.0, -5.0, -3.0, -1.5, 0.0, 1.5, 3.0, 5.0, 9.0, 15.0, 30.0)
    return win_log_probs(curves, _offsets(location + _EULER * tau, spread, offsets))


def _normal_plus_gumbel(
    z: Float[Array, " nodes"], scale: Float[Array, ""], tau: Float[Array, ""]
) -> tuple[Float[Array, " nodes"], Float[Array, " nodes"]]:
    """Log-density and log-distribution function of scale * Normal + tau * Gumbel, by the trapezoid rule.

    The sum is taken over the wider of the two, so that the other's distribution function is smooth on the grid.
    """
    normal = jnp.linspace(-8.0, 8.0, 41, dtype=z.dtype)  # both grids reach to where 1e-13 of the mass is left
    gumbel = jnp.linspace(-3.6, 30.0, 85, dtype=z.dtype)
    rest_gumbel = (z[:, None] - scale * normal[None]) / tau
    rest_normal = (z[:, None] - tau * gumbel[None]) / scale
    normal_mass = norm.logpdf(normal) + jnp.log(normal[1] - normal[0])
    gumbel_mass = _gumbel_logpdf(gumbel) + jnp.log(gumbel[1] - gumbel[0])

    def pick(over_normal: jax.Array, over_gumbel: jax.Array) -> jax.Array:
        over_normal = jax.nn.logsumexp(over_normal + normal_mass[None], axis=1)
        return jnp.where(scale < tau, over_normal, jax.nn.logsumexp(over_gumbel + gumbel_mass[None], axis=1))

    log_density = pick(_gumbel_logpdf(rest_gumbel) - jnp.log(tau), norm.logpdf(rest_normal) - jnp.log(scale))
    log_below = pick(-jnp.exp(-jnp.maximum(rest_gumbel, -80.0)), log_ndtr(rest_normal))
    return log_density, log_below


def _gumbel_logpdf(value: jax.Array) -> jax.Array:
    value = jnp.maximum(value, -80.0)  # exp(80) is finite in float32, and exp(-exp(80)) is zero
    return -value - jnp.exp(-value)


def beta_win_log_probs(success: Float[Array, " arms"], failure: Float[Array, " arms"]) -> Float[Array, " arms"]:
    """Arm k is Beta(success_k, failure_k), integrated on the log-odds scale, where its density has no endpoints."""
    if success.shape[0] == 1:
        return jnp.zeros_like(success)

    def curves(z: Float[Array, " nodes"]) -> tuple[Float[Array, "arms nodes"], Float[Array, "arms nodes"]]:
        above, below, z = success[:, None], failure[:, None], z[None]
        log_density = above * jax.nn.log_sigmoid(z) + below * jax.nn.log_sigmoid(-z) - betaln(above, below)
        smallest = jnp.finfo(z.dtype).tiny
        return log_density, jnp.log(jnp.maximum(betainc(above, below, jax.nn.sigmoid(z)), smallest))

    location = digamma(success) - digamma(failure)
    scale = jnp.sqrt(polygamma(1, success) + polygamma(1, failure))
    return win_log_probs(curves, _offsets(location, scale, (-14.0, -8.0, -5.0, -3.0, -1.0, 1.0, 3.0, 5.0, 8.0, 14.0)))


def _offsets(center: Float[Array, " arms"], scale: Float[Array, " arms"], by: tuple[float, ...]) -> Float[Array, " cuts"]:
    return (center[:, None] + scale[:, None] * jnp.asarray(by, center.dtype)[None]).ravel()
