"""A policy that draws the next arm from an urn of balls: the randomised play-the-winner rule of clinical trials."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from jaxbias._core.layout import materialize
from jaxbias._core.settings import NON_NEGATIVE, POSITIVE, setting, settings
from jaxbias.policies.base import ArmStatistics, StatisticsPolicy


@settings
class PlayTheWinner(StatisticsPolicy):
    """The randomised play-the-winner urn RPW(balls, added) of Wei and Durham (1978), for rewards of 0 and 1 (or between).

    The urn starts with `balls` balls of each arm, and the arm of a ball drawn at random is pulled. After a success `added` balls
    of that arm go in, after a failure `added` balls shared equally by the K - 1 others; a reward r in between adds r of the one
    and 1 - r of the other. With f_j = pulls_j - total_j, the failures of arm j,

        probability of arm k  =  (balls_k + added_k total_k + sum over j != k of added_j f_j / (K - 1)) / all balls

    and all balls, the sum over j of balls_j + added_j pulls_j, do not depend on the rewards. The Michigan ECMO trial (Bartlett et
    al., 1985) had balls = 1 and added = 1, and drew its first arms too, where `simulate` pulls every arm once.

    Arguments:
        balls: what the urn starts with of each arm, one number or one per arm.
        added: what goes in after a pull, one number or one per arm that was pulled.

    >>> import jax.numpy as jnp
    >>> state = ArmStatistics(pulls=jnp.array([1, 1]), total=jnp.array([1.0, 0.0]))
    >>> jnp.exp(PlayTheWinner().log_probs(state)).round(6)
    Array([0.75, 0.25], dtype=float32)
    """

    balls: Any = setting(default=1.0, allowed=POSITIVE)
    added: Any = setting(default=1.0, allowed=NON_NEGATIVE)

    unit_rewards = True

    def brought(self, state: ArmStatistics) -> tuple[Float[Array, " arms"], Float[Array, " arms"]]:
        """The balls that are in the urn because of each arm's start and pulls, and how many of those are its own."""
        dtype = state.total.dtype
        balls, added = jnp.asarray(self.balls, dtype), jnp.asarray(self.added, dtype)
        return balls + added * state.pulls.astype(dtype), balls + added * state.total

    def log_probs(self, state: ArmStatistics) -> Float[Array, " arms"]:
        """The log of each arm's share of the balls."""
        brought, own = self.brought(state)
        given = brought - own
        balls = own + (jnp.sum(given) - given) / max(own.shape[0] - 1, 1)  # one arm alone has none to give to
        return jnp.log(balls) - jnp.log(jnp.sum(balls))

    def sample(self, key: PRNGKeyArray, state: ArmStatistics) -> Int[Array, ""]:
        """Draws a ball by the arm that brought it, which keeps it or gives it to another arm at random.

        The balls lie in a row: what arm 0 brought, its own first, then what arm 1 brought, and so on. Where each arm's part
        begins depends on the pulls alone, so that with one seed an arm that did better keeps every ball it had, and of the balls
        that others have it takes some and moves none: Exploit and the pathwise form of IIO.
        """
        brought, own = self.brought(state)
        num_arms, ends = brought.shape[0], jnp.cumsum(brought)
        where, to_whom = materialize(jax.random.uniform(key, (2,), own.dtype))
        place = where * ends[-1]
        origin = jnp.minimum(jnp.sum(place >= ends, dtype=jnp.int32), num_arms - 1)
        is_origin = jnp.arange(num_arms, dtype=jnp.int32) == origin
        kept = jnp.any(is_origin & (place < ends - brought + own))
        steps_on = 1 + (to_whom * (num_arms - 1)).astype(jnp.int32)  # below num_arms, as to_whom is below 1
        return jnp.where(kept, origin, (origin + steps_on) % num_arms)
