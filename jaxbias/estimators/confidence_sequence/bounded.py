"""The empirical Bernstein confidence sequence for rewards in a known range (Waudby-Smith and Ramdas 2024, theorem 2).

With rewards x_i of one arm from 0 to 1, in the order of its pulls, and bets lambda_i that are known before x_i:

    sum(lambda_i x_i) / sum(lambda_i)  -/+  (log(2 / alpha) + sum(v_i psi(lambda_i))) / sum(lambda_i)
    v_i = 4 (x_i - m_(i-1))^2,   psi(lambda) = (-log(1 - lambda) - lambda) / 4
    lambda_i = min(sqrt(2 log(2 / alpha) / (s_(i-1)^2 i log(1 + i))), 1/2)
    m_i = (1/2 + sum of the first i) / (i + 1),   s_i^2 = (1/4 + sum of the first i (x_j - m_j)^2) / (i + 1)

Its width adapts to the variance of the rewards, which may be far below that of zeros and ones.
"""

import math

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

LARGEST_BET = 0.5  # as the authors choose it
TWO_SIDES = 2.0  # each side has half of alpha


def bernstein_ends(
    rewards: Float[Array, " steps"], chosen: Bool[Array, "steps arms"], alpha: float
) -> tuple[Float[Array, "steps arms"], Float[Array, "steps arms"]]:
    """Both ends after every step, for rewards from 0 to 1; infinite before the first pull of an arm."""
    values = jnp.where(chosen, rewards[:, None], 0)
    pulls = jnp.cumsum(chosen.astype(values.dtype), axis=0)
    mean = (0.5 + jnp.cumsum(values, axis=0)) / (pulls + 1)  # m after each step
    off_after = jnp.where(chosen, jnp.square(values - mean), 0)
    spread = jnp.cumsum(off_after, axis=0) - off_after  # of the pulls before
    number = jnp.maximum(pulls, 1)
    before = (0.5 + jnp.cumsum(values, axis=0) - values) / number  # m before the pull, which is the pull number `number`
    variance = (0.25 + spread) / number
    doubt = math.log(TWO_SIDES / alpha)
    bet = jnp.minimum(jnp.sqrt(2 * doubt / (variance * number * jnp.log1p(number))), LARGEST_BET)
    price = (-jnp.log1p(-bet) - bet) * jnp.square(values - before)  # v psi: the fours cancel
    bets, prices, won = (jnp.cumsum(jnp.where(chosen, one, 0), axis=0) for one in (bet, price, bet * values))
    known = bets > 0
    bets = jnp.where(known, bets, 1)
    half = jnp.where(known, (doubt + prices) / bets, jnp.inf)
    return won / bets - half, won / bets + half
