"""Chunks: trials or logs held in memory together, and spread over the devices.

Simulations go through `TrialChunks`, one chunk after another, with a progress bar. Estimators go through `LogChunks`, all of
them in one compiled program. Neither changes a bit of the result.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, PRNGKeyArray, UInt
from tqdm.auto import tqdm

from jaxbias._core.devices import collect, device_count, on_each_device, path_mesh, together, trial_mesh
from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import compiled
from jaxbias._core.settings import as_array, evaluate, is_concrete, split_shared

CHUNK = 32_768  # trials at once on a CPU: enough to hide the start of each kernel, few enough for its cache
CHUNK_STATE = 2**16  # trials times arms at once on a CPU: pulls, sums and indices of a chunk then stay in the cache of a core
CHUNK_ACCELERATOR = 131_072  # trials at once on a GPU: enough to fill it
PARTS = 4  # chunks that logs are divided into at least where they nearly fill one: each core has some, and no chunk is small
LARGE_LOG = 2**19  # steps of all paths of one log from where on several devices are worth it: some milliseconds

Firsts = UInt[Array | np.ndarray, " devices"]  # the number of the first trial of each device


class TrialChunks(NamedTuple):
    """How trials are divided: `rounds` of one chunk of `size` trials on each device; the last may run past the end."""

    trials: int
    size: int
    rounds: int
    devices: int

    def starts(self, progress: bool) -> Iterator[Firsts]:
        """The number of the first trial of each device in each round, with a progress bar after two seconds."""
        together, hidden = self.size * self.devices, not progress or self.rounds == 1 or jax.process_index() > 0
        with tqdm(total=self.trials, unit="trial", unit_scale=True, delay=2, disable=hidden) as bar:
            for done in range(0, self.trials, together):
                starts = np.arange(done, done + together, self.size, dtype=np.uint64)
                yield np.minimum(starts, self.trials).astype(np.uint32)
                bar.update(min(together, self.trials - done))


def trials_at_once(num_arms: int) -> int:
    """How many trials a device simulates best together."""
    return min(CHUNK, CHUNK_STATE // num_arms) if jax.default_backend() == "cpu" else CHUNK_ACCELERATOR


def split_trials(trials: int, chunk_size: int | None, block: int, largest: int = CHUNK, devices: int = 1) -> TrialChunks:
    """Chunks of one size, the requested one or `largest`, rounded up to whole blocks, so that all chunks share one program."""
    if chunk_size is None:
        chunk_size = max(largest, 1)
    elif chunk_size < 1:
        raise ArgumentError("chunk_size", chunk_size, "1 or more")
    rounds = math.ceil(trials / (block * math.ceil(chunk_size / block) * devices))
    size = block * math.ceil(trials / (rounds * devices) / block)
    return TrialChunks(trials=trials, size=size, rounds=math.ceil(trials / (size * devices)), devices=devices)


class LogChunks(NamedTuple):
    """How logs are divided: chunks of one size that depends on their number alone, so that any device runs the same program.

    Fields:
        count: how many logs there are.
        size: how many are computed at once.
        mesh: the devices the chunks are spread over.
        paths: the devices that the paths of the only log are spread over.
    """

    count: int
    size: int
    mesh: Mesh | None
    paths: Mesh | None = None

    def map(self, one: Callable[[Any], Any], logs: Any) -> Any:
        """`one` of each log, inside `jit`; with several devices the last log is repeated, and `collect` leaves it out."""
        number = math.ceil(self.count / self.size)
        number = device_count(self.mesh) * math.ceil(number / device_count(self.mesh))
        which = jnp.minimum(jnp.arange(number * self.size), self.count - 1).reshape(number, self.size)
        each, rebuild = split_shared(logs)
        each_chunk = lambda chunks: jax.lax.map(jax.vmap(lambda leaves: one(rebuild(leaves))), chunks)
        whole = together(on_each_device(each_chunk, self.mesh), self.paths)
        found = whole(jax.tree.map(lambda leaf: leaf[which], each))
        kept = self.count if self.mesh is None else None
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:kept], found)

    def collect(self, found: Any) -> Any:
        """What `map` gave, outside `jit`."""
        whole = collect(found, self.mesh, self.count)
        return whole if self.mesh is None else jax.tree.map(jnp.asarray, whole)


def split_logs(at_once: int, logs: Any, work: int = 0) -> LogChunks:
    """Logs along the first axis in as few chunks as possible, each of at most `at_once` logs; on a CPU in some more.

    `work` is the number of steps of all paths of a log: where it is large, those of an only log are spread over the devices.
    """
    count = jax.tree.leaves(logs)[0].shape[0]
    number = math.ceil(count / max(at_once, 1))
    if count * PARTS > at_once and jax.default_backend() == "cpu":
        number = max(number, min(PARTS, count))
    paths = path_mesh(logs) if count == 1 and work >= LARGE_LOG else None
    return LogChunks(count=count, size=math.ceil(count / number), mesh=trial_mesh(number, logs), paths=paths)


def as_many(log: Any) -> Any:
    """One log as many: with a first axis of length one. What is known now stays so, whatever else is traced."""
    return jax.tree.map(partial(_at, place=None), log)


def only_one(found: Any) -> Any:
    """What was found for the only log of many."""
    return jax.tree.map(partial(_at, place=0), found)


def _at(leaf: Any, place: int | None) -> Any:
    """`leaf[place]`; by NumPy where it is known now, as JAX would compile it for every shape."""
    if not is_concrete(leaf):
        return leaf[place]
    return evaluate(as_array, np.asarray(leaf)[place])


@partial(compiled, static=("count",))
def log_keys(key: PRNGKeyArray, count: int) -> Any:
    """A key for each log: the key folded with its number."""
    return jax.vmap(partial(jax.random.fold_in, key))(jnp.arange(count))
