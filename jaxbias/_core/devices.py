"""Trials on every device that JAX has, on this host and on others, with JAX's own sharding.

Each device runs trials of its own, with no communication; the results are concatenated afterwards, in the order of the trials. So
a trial runs in the same program, and gives the same bits, on any number of devices. With one device, and inside a `jit` or `vmap`
of the user's, where the sharding is the user's, nothing is spread and nothing is copied.

On several hosts every process makes the same calls with the same arguments, after `jax.distributed.initialize`, and every one
of them gets the whole result.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, PartitionSpec
from jaxtyping import Array

from jaxbias._core.settings import is_concrete

TRIALS = "trials"  # the one axis of the mesh
WHOLE_LOOP = 2**22  # bytes that a step may touch: beyond, chunks of logs run faster with kernels of their own
WIDEST = 512  # bits of a vector, where the CPU has them; XLA takes 256 by itself

MESSAGE = 8192  # bytes that a process tells the others


class LostProcess(RuntimeError):
    """Another process of this run has stopped."""


def use_all_cores() -> None:
    """Makes JAX use one device per core of this machine, compile each loop over the steps of trials as one kernel, and take the
    widest vectors of the CPU.

    Measured on two cores: one device per core is a third faster than one device with two threads. A loop that is one kernel,
    which XLA's scheduler does not interrupt at every step, is a tenth faster in large chunks and three times as fast in one long
    log. Vectors of 512 bits make a simulation a third faster on CPUs that have them.

    Call it at the start of a program, as the command line does. It has no effect once JAX has computed something, or if
    JAX_NUM_CPU_DEVICES or XLA_FLAGS set the same. The results of a simulation are the same to the last bit.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_backend_extra_options" not in flags:
        more = f"--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold={WHOLE_LOOP}"
        more += "" if "prefer_vector_width" in flags else f" --xla_cpu_prefer_vector_width={WIDEST}"
        os.environ["XLA_FLAGS"] = f"{flags} {more}".strip()
    if "JAX_NUM_CPU_DEVICES" in os.environ or "host_platform_device_count" in flags:
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(RuntimeError):  # JAX is running already, with as many as it has
        jax.config.update("jax_num_cpu_devices", cores)


def path_mesh(arguments: Any) -> Mesh | None:
    """The devices that the paths of one log are spread over, which may be one; None where that is its caller's business.

    Processes are not: each computes all of the log, as in every round of a search all devices wait for each other.
    """
    if not is_concrete(arguments) or jax.config.jax_default_device is not None or jax.process_count() > 1:  # pyright: ignore
        return None
    return jax.make_mesh((jax.device_count(),), (TRIALS,), (AxisType.Auto,))


def trial_mesh(parts: int, arguments: Any) -> Mesh | None:
    """The devices that so many parts of the work are spread over; None where that is one device, or its caller's business.

    Several processes all take part, whatever the number of parts: a process left out of a collective call would make the others
    hang.
    """
    if not is_concrete(arguments) or jax.config.jax_default_device is not None:  # pyright: ignore  (a setting made at run time)
        return None
    devices = jax.devices()
    used = devices if jax.process_count() > 1 else devices[: max(parts, 1)]
    return None if len(used) == 1 else jax.make_mesh((len(used),), (TRIALS,), (AxisType.Auto,), devices=used)


def device_count(mesh: Mesh | None) -> int:
    """How many devices there are to spread over."""
    return 1 if mesh is None else mesh.size


def on_each_device(function: Callable[[Any], Any], mesh: Mesh | None) -> Callable[[Any], Any]:
    """`function` on each device, of that device's part of the first axis of its argument; the results along their first axis."""
    if mesh is None:
        return function
    along = PartitionSpec(TRIALS)
    # Not checked for which values differ between devices: no device reads those of another.
    return jax.shard_map(function, mesh=mesh, in_specs=along, out_specs=along, check_vma=False)


def together(function: Callable[[Any], Any], mesh: Mesh | None) -> Callable[[Any], Any]:
    """`function` on every device, of the same argument and with the same result; inside, `on_each_part` divides the work."""
    if mesh is None:
        return function
    return jax.shard_map(function, mesh=mesh, in_specs=PartitionSpec(), out_specs=PartitionSpec(), check_vma=False)


def on_each_part(function: Callable[..., Any], mesh: Mesh | None, words: Array, *more: Array, axis: int = 0) -> Any:
    """Inside `together`: `function` of the words of paths and of more arrays, paths first, each device's part on that device.

    Every device then has all of what they made, with the paths along `axis`. With a number of paths that cannot be divided, and
    without a mesh, each computes all of it. A mesh of one device goes the same way, so that what follows has the same bits.
    """
    if mesh is None or words.shape[-1] % mesh.size:
        return function(words, *more)
    size = words.shape[-1] // mesh.size
    first = jax.lax.axis_index(TRIALS) * size
    parts = [jax.lax.dynamic_slice_in_dim(words, first, size, axis=-1)]
    parts += [jax.lax.dynamic_slice_in_dim(array, first, size) for array in more]
    gather = lambda leaf: jax.lax.all_gather(leaf, TRIALS, axis=axis % leaf.ndim, tiled=True)
    return jax.lax.optimization_barrier(jax.tree.map(gather, function(*parts)))


def one_ahead(started: Iterable[Any]) -> Iterator[Any]:
    """Yields each result after the next has started, so that the devices stay busy."""
    before = None
    for result in started:
        if before is not None:
            yield before
        before = result
    if before is not None:
        yield before


def collect(found: Any, mesh: Mesh | None, count: int | None = None) -> Any:
    """What all devices made, in this process's memory: the first `count` along the first axis, or all. One device's stays."""
    if mesh is None:
        return found
    if jax.process_count() == 1:
        whole = jax.device_get(found)
    else:
        try:
            whole = multihost_utils.process_allgather(found, tiled=True)
        except (jax.errors.JaxRuntimeError, ValueError) as error:
            raise LostProcess("another process of this run has stopped, and its trials are lost") from error
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:count], whole)


def from_first(values: np.ndarray) -> np.ndarray:
    """What process 0 has, in every process; alone, the values themselves."""
    if jax.process_count() == 1:
        return values
    try:
        return np.asarray(multihost_utils.broadcast_one_to_all(values))
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        raise LostProcess("another process of this run has stopped") from error


def from_all(text: str) -> list[str]:
    """What each process has to say, in the order of the processes: a digest of the whole and its first lines."""
    content = text.encode()
    message = (hashlib.sha256(content).hexdigest().encode() + b"\n" + content)[:MESSAGE].ljust(MESSAGE, b"\0")
    try:
        found = np.asarray(multihost_utils.process_allgather(np.frombuffer(message, np.uint8)))
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        raise LostProcess("another process of this run has stopped") from error
    return [bytes(row).rstrip(b"\0").decode(errors="replace") for row in found.reshape(-1, MESSAGE)]


def wait_for_all() -> None:
    """A barrier: returns once every process has called it. Each gives a number for each of its devices."""
    mesh = trial_mesh(parts=1, arguments=())
    numbers = np.zeros(device_count(mesh), np.float32)
    collect(jax.jit(on_each_device(lambda number: number, mesh))(numbers), mesh)
