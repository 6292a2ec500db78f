"""Many trials in pieces that fit the memory."""

from collections.abc import Callable
from typing import Any

import jax

from jaxbias.history import History

NUMBERS_AT_ONCE = 2**18  # trials x steps x arms together: a policy that integrates at each step needs hundreds of times that


def by_trial(one: Callable[..., Any], history: History, *others: Any) -> Any:
    """`one(history, *others)` of one trial, or of each trial of a batch, as many at once as fit."""
    if history.arms.ndim == 1:
        return one(history, *others)
    at_once = NUMBERS_AT_ONCE // (history.num_steps * history.num_arms)
    size = max(1, min(at_once, history.arms.shape[0]))
    return jax.lax.map(lambda trial: one(*trial), (history, *others), batch_size=size)
