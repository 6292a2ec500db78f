"""Beta random numbers that vectorise: `jax.random.beta` draws one number after another on a CPU, several times slower.

A Beta number is g / (g + h) of two Gamma numbers. These come by the method of Marsaglia and Tsang (2000): d v with
v = (1 + c x)^3 and x standard normal, kept with a probability above 95%. All numbers of a call are proposed together until each
has been kept.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from jaxbias._core.layout import materialize
from jaxbias._core.randomness import normal


def beta(key: PRNGKeyArray, success: Float[Array, "*shape"], failure: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Beta random numbers with these two parameters, above 0.

    >>> import jax, jax.numpy as jnp
    >>> draws = beta(jax.random.key(0), jnp.full(10_000, 2.0), jnp.full(10_000, 6.0))
    >>> abs(float(draws.mean()) - 0.25) < 0.01
    True
    """
    logs = _log_gamma(key, jnp.stack([success, failure]))
    return jax.nn.sigmoid(logs[0] - logs[1])


def _log_gamma(key: PRNGKeyArray, shape: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The logarithms of Gamma numbers: below a shape of 1 those of one more, times U^(1 / shape)."""
    small = shape < 1
    offset = jnp.where(small, shape + 1, shape) - 1 / 3

    def going(state: tuple[Array, Array, Bool[Array, "*shape"]]) -> Array:
        return ~jnp.all(state[2])

    def propose(state: tuple[Array, Array, Bool[Array, "*shape"]]) -> tuple[Array, Array, Array]:
        number, found, kept = state
        log_cube, spare = _proposal(key, number, offset)
        proposed = log_cube + jnp.where(small, spare / shape, 0)
        return number + 2, jnp.where(kept, found, proposed), kept | (spare < 0)

    start = (jnp.zeros((), jnp.uint32), jnp.zeros_like(shape), jnp.zeros(shape.shape, bool))
    return jnp.log(offset) + jax.lax.while_loop(going, propose, start)[1]


def _proposal(key: PRNGKeyArray, number: Array, offset: Float[Array, "*shape"]) -> tuple[Array, Array]:
    """log v, and a number that is below 0 where v is kept: it is then the logarithm of a uniform number independent of v.

    A proposal is kept where a uniform number is below its probability; divided by the probability it is uniform again.
    """
    x = normal(jax.random.fold_in(key, number), offset.shape, offset.dtype)
    uniform = 1 - jax.random.uniform(jax.random.fold_in(key, number + 1), offset.shape, offset.dtype)  # never 0
    x, uniform = materialize((x, uniform))  # or XLA draws them once for each of the two results
    root = 1 + x / (3 * jnp.sqrt(offset))
    cube = jnp.where(root > 0, root, 1) ** 3
    log_cube = jnp.log(cube)
    log_probability = x * x / 2 + offset * (1 - cube + log_cube)
    return log_cube, jnp.where(root > 0, jnp.log(uniform) - log_probability, 1)
