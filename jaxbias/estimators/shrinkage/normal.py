"""Arms' means that are Normal around a common centre, and Normal rewards.

    mean_k ~ N(m, A),   sample mean_k | mean_k ~ N(mean_k, v_k),   v_k = sigma_k^2 / pulls_k

m has a flat prior and is integrated out, which leaves the restricted likelihood of A: with w_k = 1 / (A + v_k), W their sum and
m(A) the weighted average of the sample means,

    log L(A) = sum log w_k / 2 - log W / 2 - sum w_k (sample mean_k - m(A))^2 / 2

A has the uniform shrinkage prior: v / (A + v) is uniform on (0, 1), with v the average of the v_k (Daniels 1999). It is proper
for any number of arms. Given A, arm k's mean is Normal around m(A) + (1 - B_k) (sample mean_k - m(A)), B_k = v_k w_k, with
variance A B_k + B_k^2 / W. What is left is an integral over log A.

Where sigma is not known and the same for all arms, A and v_k are in units of sigma^2, and sigma, with the prior 1 / sigma, is
integrated out too: the sum of squares in log L becomes (T - 1) / 2 times the logarithm of the whole sum of squares, and the
Normal a Student's with T - 1 degrees of freedom. Where every arm has a sigma of its own, the v_k are estimates, drawn towards the
variance within all arms.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
from jax.scipy.special import betainc, ndtr
from jaxtyping import Array, Float

from jaxbias._core.search import bracket
from jaxbias.estimators.shrinkage.posterior import Arms, Posterior, Summary, log_grid, normalise, uniform_shrinkage

REACH = 12  # of the grid beyond the scales of the problem, in log A: what is left out has a weight of e^-12
FEW_NODES, NODES_BY_ROOT_ARM = 96, 24  # the integrand is narrow where there are many arms: its width is sqrt(2 / arms)
TAIL = 60  # scales from the middle to the ends of the bracket of a quantile: enough for one degree of freedom at 98%
HALVINGS = 24  # of a bracket more than a hundred scales wide: to a hundred-thousandth of one
OWN_PRIOR = 4.0  # degrees of freedom of the variance within all arms, where an arm has a sigma of its own


class Variances(NamedTuple):
    """What is known of the variance of a reward.

    Fields:
        reward: of each arm, the variance of one reward; where sigma is not known and shared, 1.
        unit: an estimate of what `reward` is in units of.
        squares: the summed squares within arms, where sigma is integrated out.
        freedom: degrees of freedom of the posterior, None where it is Normal.
    """

    reward: Arms
    unit: Float[Array, ""]
    squares: Float[Array, ""] | None = None
    freedom: Arms | None = None


def shared_variance(summary: Summary) -> Variances:
    """Where sigma is not known and the same for all arms."""
    squares, freedom = jnp.sum(summary.squares), jnp.sum(jnp.maximum(summary.pulls - 1, 0))
    unit = jnp.maximum(squares / jnp.maximum(freedom, 1), jnp.finfo(squares.dtype).tiny)
    all_pulls = jnp.full_like(summary.pulls, jnp.sum(summary.pulls) - 1)
    return Variances(reward=jnp.ones_like(summary.pulls), unit=unit, squares=squares, freedom=all_pulls)


def own_variances(summary: Summary) -> Variances:
    """Where each arm has a sigma of its own: its variance, drawn towards that within all arms."""
    own = jnp.maximum(summary.pulls - 1, 0)
    freedom = own + OWN_PRIOR
    reward = (summary.squares + OWN_PRIOR * shared_variance(summary).unit) / freedom
    return Variances(reward=reward, unit=jnp.ones((), reward.dtype), freedom=freedom)


def normal_posterior(summary: Summary, variances: Variances) -> Posterior:
    """The posterior of one trial; an arm without a pull says nothing, and nothing is said of it."""
    pulled = summary.pulls > 0
    variance = jnp.where(pulled, variances.reward / jnp.maximum(summary.pulls, 1), 1)
    number = jnp.maximum(jnp.sum(pulled), 1).astype(variance.dtype)
    typical = jnp.sum(jnp.where(pulled, variance, 0)) / number
    origin = jnp.sum(jnp.where(pulled, summary.mean, 0)) / number
    off = jnp.where(pulled, summary.mean - origin, 0)
    top = REACH + jnp.log1p(jnp.max(jnp.square(off)) / (typical * variances.unit))
    place = log_grid(jnp.full_like(top, -REACH), top, _nodes(summary.mean.shape[0]))
    between = typical * jnp.exp(place)  # A at each node
    precision = jnp.where(pulled[None], 1 / (between[:, None] + variance[None]), 0)
    together = jnp.sum(precision, axis=1)
    centre = precision @ off / together
    squares = jnp.sum(precision * jnp.square(off[None] - centre[:, None]), axis=1)
    log_weight = jnp.sum(jnp.log(jnp.where(pulled[None], precision, 1)), axis=1) / 2 - jnp.log(together) / 2
    scale = jnp.ones_like(place)
    if variances.squares is None:
        log_weight -= squares / 2
    else:
        assert variances.freedom is not None
        log_weight -= variances.freedom[0] / 2 * jnp.log(squares + variances.squares)
        scale = (squares + variances.squares) / variances.freedom[0]
    log_weight += uniform_shrinkage(place)
    shrinks = variance[None] * precision
    mean = origin + off[None] - shrinks * (off[None] - centre[:, None])
    spread = (between[:, None] * shrinks + jnp.square(shrinks) / together[:, None]) * scale[:, None]
    weight = normalise(log_weight)

    def quantile(share: Float[Array, ""]) -> Arms:
        cdf = lambda at: weight @ _cdf((at[None] - mean) / jnp.sqrt(spread), variances.freedom)
        return bracket(cdf, share, *_ends(mean, jnp.sqrt(spread)), halvings=HALVINGS)

    heavy = 1.0 if variances.freedom is None else variances.freedom / jnp.maximum(variances.freedom - 2, 0.5)
    return Posterior(
        weight=weight,
        mean=mean,
        variance=spread * jnp.broadcast_to(heavy, pulled.shape)[None],
        kept=1 - shrinks,
        centre=origin + centre,
        quantile=quantile,
    )


def _nodes(num_arms: int) -> int:
    return max(FEW_NODES, math.ceil(NODES_BY_ROOT_ARM * math.sqrt(num_arms)))


def _ends(mean: Float[Array, "nodes arms"], scale: Float[Array, "nodes arms"]) -> tuple[Arms, Arms]:
    return jnp.min(mean - TAIL * scale, axis=0), jnp.max(mean + TAIL * scale, axis=0)


def _cdf(standard: Float[Array, "nodes arms"], freedom: Arms | None) -> Float[Array, "nodes arms"]:
    if freedom is None:
        return ndtr(standard)
    freedom = jnp.broadcast_to(freedom[None], standard.shape)
    tail = betainc(freedom / 2, jnp.full_like(standard, 0.5), freedom / (freedom + jnp.square(standard))) / 2
    return jnp.where(standard > 0, 1 - tail, tail)
