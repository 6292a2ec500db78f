"""The opening of a log: the forced pulls of each arm before the policy's first choice, whose rewards are unbiased."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import compiled
from jaxbias._core.settings import is_concrete
from jaxbias.history import History


def check_opening(history: History) -> None:
    """Refuses a log in which an arm's first pull was not forced before the policy's first choice."""
    if history.batch_sizes is not None and history.allocation == "shares":
        allowed = "'independent' for unbiased, as the choices of a batch of shares depend on each other"
        raise ArgumentError("history.allocation", "shares", allowed)
    if not is_concrete((history.arms, history.forced)):
        return
    arms, forced = np.atleast_2d(history.arms), np.atleast_2d(history.forced_steps)
    opening = np.cumsum(~forced, axis=1) == 0
    for trial in range(len(arms)):
        late = set(arms[trial].tolist()) - set(arms[trial][opening[trial]].tolist())
        if late:
            where = "" if np.ndim(history.arms) == 1 else f" in trial {trial}"
            problem = f"has no forced first pull of arm {min(late)}{where}: the policy chose before it, which biases the reward"
            allowed = "a log that begins with a forced pull of each arm"
            raise ArgumentError("history", history, allowed, problem=problem, remedy="use mean_matching or bias_corrected")


@compiled
def opening_pulls(history: History) -> Float[Array, "trials arms"]:
    """How many forced pulls each arm had before the policy's first choice."""
    return jnp.sum(opening_steps(history.arms, history.forced, history.num_arms, history.rewards.dtype), axis=-2)


def opening_steps(arms: Array, forced: Array, num_arms: int, dtype: Any) -> Float[Array, "*trials steps arms"]:
    """1 where a step of the opening pulls the arm."""
    opening = jnp.cumsum(~forced, axis=-1) == 0
    return jnp.where(opening[..., None], jax.nn.one_hot(arms, num_arms, dtype=dtype), 0)
