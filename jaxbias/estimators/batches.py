"""Many trials in pieces that fit the memory, on every device."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from jaxbias.devices import collect, device_count, on_each_device, trial_mesh
from jaxbias.history import History

NUMBERS_AT_ONCE = 2**18  # trials x steps x arms together: a policy that integrates at each step needs hundreds of times that


def by_trial(one: Callable[..., Any], history: History, *others: Any) -> Any:
    """`one(history, *others)` of one trial, or of each trial of a batch, as many at once as fit."""
    if history.arms.ndim == 1:
        return one(history, *others)
    at_once = NUMBERS_AT_ONCE // (history.num_steps * history.num_arms)
    size = max(1, min(at_once, history.arms.shape[0]))
    return jax.lax.map(lambda trial: one(*trial), (history, *others), batch_size=size)


class Batches(NamedTuple):
    """How trials are divided: batches of one size, that depends on their number alone, so that any device runs the same program.

    Fields:
        count: how many trials there are.
        size: how many are computed at once.
        mesh: the devices the batches are spread over.
    """

    count: int
    size: int
    mesh: Mesh | None

    def map(self, one: Callable[[Any], Any], trials: Any) -> Any:
        """`one` of each trial, inside `jit`; with several devices, some more at the end, that `collect` leaves out."""
        number = math.ceil(self.count / self.size)
        number = device_count(self.mesh) * math.ceil(number / device_count(self.mesh))
        which = jnp.minimum(jnp.arange(number * self.size), self.count - 1).reshape(number, self.size)  # the last one again
        whole = on_each_device(lambda batches: jax.lax.map(jax.vmap(one), batches), self.mesh)
        found = whole(jax.tree.map(lambda leaf: leaf[which], trials))
        kept = self.count if self.mesh is None else None
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:kept], found)

    def collect(self, found: Any) -> Any:
        """What `map` gave, outside `jit`."""
        whole = collect(found, self.mesh, self.count)
        return whole if self.mesh is None else jax.tree.map(jnp.asarray, whole)


def split_into_batches(at_once: int, trials: Any) -> Batches:
    """Trials along the first axis in as few batches as there must be, of at most so many each."""
    count = jax.tree.leaves(trials)[0].shape[0]
    number = math.ceil(count / max(at_once, 1))
    return Batches(count=count, size=math.ceil(count / number), mesh=trial_mesh(number, trials))
