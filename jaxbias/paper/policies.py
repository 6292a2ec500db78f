"""The policies of the paper, by the names it has for them.

Greedy, eps-Greedy and lil' UCB are one policy with different settings here: with probability epsilon any arm, otherwise the one
with the largest sample mean plus a width that depends on its pulls. Settings are traced, so that a program is compiled once for
the three of them, with noise and without.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxbias._core.settings import settings
from jaxbias.policies import UCB1, ArmStatistics, EpsilonGreedy, LilUCB, Policy, Thompson, Uniform

LONGEST = 1000  # steps of a trial in the paper: how far the table of widths goes


@settings
class MeanPlusWidth(EpsilonGreedy):
    """With probability epsilon an arm at random, otherwise the largest sample mean plus width, up to Gumbel noise.

    Arguments:
        width: (pulls,), by the pulls of an arm.
    """

    width: Any = dataclasses.field(kw_only=True)

    shift_invariant = True

    def index(self, state: ArmStatistics) -> Float[Array, " arms"]:
        """The sample mean plus the width."""
        return state.mean + self.width.astype(state.total.dtype)[state.pulls]


def _index_policy(tau: float, *, epsilon: float = 0.0, has_width: bool = False) -> MeanPlusWidth:
    """A `tau` of 0 as an array is traced too."""
    width = LilUCB().width(jnp.arange(LONGEST + 1), jnp.result_type(float))
    return MeanPlusWidth(epsilon=epsilon, tau=jnp.asarray(tau, width.dtype), width=width if has_width else jnp.zeros_like(width))


POLICIES: dict[str, Callable[[float], Policy]] = {
    "lil' UCB": partial(_index_policy, has_width=True),
    "ε-Greedy": partial(_index_policy, epsilon=EpsilonGreedy().epsilon),
    "Greedy": _index_policy,
    "TS": lambda tau: Thompson(tau=tau),
    "UCB1": lambda tau: UCB1(tau=tau),
    "Uniform": lambda tau: Uniform(),  # noqa: ARG005  (it has no index to add noise to)
}
