"""Confidence sequences for the difference of two arms.

The martingales of two arms, each at its own mean, are one together: a step pulls one of them, so that their product is a
martingale too. By Ville's inequality log M_1(m_1) + log M_2(m_2) ever exceeds log(1 / alpha) with probability alpha at most. The
interval of m_1 - m_2 is what the pairs below it have. Its upper end is the largest, over all ways to share log(1 / alpha) out to
the two arms, of the upper end of one less the lower end of the other. With Normal rewards of known sigma that is

    mean_1 - mean_2 -/+ sqrt(2 (log(1 / alpha) + L_1 + L_2) (1 / a_1 + 1 / a_2))
    a = n^2 / (n sigma^2 + rho),   L = log(1 + n sigma^2 / rho) / 2

while two intervals with alpha / 2 each have the sum of two roots. These are what is left where sigma is not known: the martingale
of an arm then is one given the ratios of that arm's rewards only, and the product of two need not be one.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxbias.estimators.confidence_sequence.mixtures import Ends, Seen

# Ways to share. With share sin^2 the Normal end is a sine of the angle, whose largest value so many angles find to 3e-4 of it.
SHARES = 33


def of_control(seen: Seen, control: int) -> Seen:
    """What is known of the control, in the place of every arm."""
    return Seen(*(jnp.broadcast_to(part[..., control : control + 1], part.shape) for part in seen))


def difference_ends(
    of_arm: Callable[[Any], Ends], of_other: Callable[[Any], Ends], seen: Seen, other: Seen, worth: float, alpha: float
) -> Ends:
    """Both ends of the difference of every arm to another, from the ends of both for any log(alpha)."""
    least, other_least = (-jnp.log1p(one.pulls / worth) / 2 for one in (seen, other))  # log M at the sample mean
    room = -math.log(alpha) - least - other_least

    def shared(angle: Float[Array, ""]) -> Ends:
        own = of_arm(-least - jnp.square(jnp.sin(angle)) * room)
        others = of_other(-other_least - jnp.square(jnp.cos(angle)) * room)
        return own[0] - others[1], own[1] - others[0]

    lower, upper = jax.lax.map(shared, jnp.linspace(0, math.pi / 2, SHARES, dtype=seen.mean.dtype))
    return jnp.min(lower, axis=0), jnp.max(upper, axis=0)


def separate_ends(of_arm: Callable[[Any], Ends], of_other: Callable[[Any], Ends], alpha: float) -> Ends:
    """Both ends of the difference, where each arm has its own interval with half of alpha."""
    (lower, upper), (other_lower, other_upper) = (ends(math.log(alpha / 2)) for ends in (of_arm, of_other))
    return lower - other_upper, upper - other_lower
