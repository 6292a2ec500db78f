"""How far to trust averages over Markov chains: effective sample size and split R-hat, in JAX."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class ChainDiagnostics(NamedTuple):
    """How far to trust averages over chains; one value for each number that was sampled."""

    effective_sample_size: Float[Array, "*sample"]
    r_hat: Float[Array, "*sample"]


def chain_diagnostics(samples: Float[Array, "chains samples *sample"]) -> ChainDiagnostics:
    """Effective sample size (Geyer's initial monotone sequence) and split R-hat of 4 samples or more, as NumPyro's but in JAX."""
    half = samples.shape[1] // 2
    within, total = _variances(jnp.concatenate([samples[:, :half], samples[:, -half:]]))
    return ChainDiagnostics(effective_sample_size=_effective_sample_size(samples), r_hat=jnp.sqrt(total / within))


def _variances(samples: Float[Array, "chains samples *sample"]) -> tuple[Float[Array, "*sample"], Float[Array, "*sample"]]:
    """The variance within chains, and that of the target as estimated from all of them."""
    length = samples.shape[1]
    within = jnp.mean(jnp.var(samples, axis=1, ddof=1), axis=0)
    total = within * (length - 1) / length
    if samples.shape[0] == 1:
        return total, total
    return within, total + jnp.var(jnp.mean(samples, axis=1), axis=0, ddof=1)


def _effective_sample_size(samples: Float[Array, "chains samples *sample"]) -> Float[Array, "*sample"]:
    chains, length = samples.shape[:2]
    centred = samples - jnp.mean(samples, axis=1, keepdims=True)
    spectrum = jnp.fft.rfft(centred, n=2 * length, axis=1)
    covariance = jnp.fft.irfft(jnp.square(jnp.abs(spectrum)), n=2 * length, axis=1)[:, :length] / length
    within, total = _variances(samples)
    correlation = (1 - (within[None] - jnp.mean(covariance, axis=0)) / total[None]).at[0].set(1)
    pairs = correlation[:-1:2] + correlation[1::2]
    decreasing = jax.lax.cummin(jnp.maximum(pairs[1:], 0), axis=0)
    return chains * length / (2 * (pairs[0] + jnp.sum(decreasing, axis=0)) - 1)
