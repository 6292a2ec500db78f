"""log of the Normal distribution function, with a derivative that does not wait for it."""

import math

import jax
import jax.numpy as jnp
from jax.scipy import special
from jaxtyping import Array, Float

FAR = -8.0  # below it erfc underflows soon
LEVELS = {"float32": 3, "float64": 10}  # of the continued fraction: a relative error of 1e-6 and 1e-13 there, and less below


@jax.custom_jvp
def log_ndtr(value: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """As `jax.scipy.special.log_ndtr`.

    Its derivative there is made of log_ndtr itself, which has three branches, all computed. Where the derivative alone is needed,
    as in a score, this one takes half as long.
    """
    return special.log_ndtr(value)


@log_ndtr.defjvp
def _log_ndtr_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (value,), (tangent,) = primals, tangents
    return log_ndtr(value), hazard(value) * tangent


def hazard(value: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """density / distribution function: from erfc, and far down from Laplace's continued fraction.

    >>> import jax.numpy as jnp
    >>> [round(float(one), 3) for one in hazard(jnp.array([-20.0, 0.0]))]
    [20.05, 0.798]
    """
    far = value < FAR
    fraction = down = -jnp.where(far, value, FAR)
    for level in range(LEVELS[value.dtype.name], 0, -1):
        fraction = down + level / fraction
    near = jnp.where(far, FAR, value)
    ratio = math.sqrt(2 / math.pi) * jnp.exp(-jnp.square(near) / 2) / jax.lax.erfc(-near * math.sqrt(0.5))
    return jnp.where(far, fraction, ratio)
