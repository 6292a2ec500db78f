"""When each reward arrived: what a choice had seen, and which rewards are pending meanwhile.

`seen_at[t]` is the number of the last step that was chosen before the reward of step t had arrived: t itself where the next
choice had seen it, and num_steps - 1 or more where no choice had. So the choice of step t has seen the rewards with seen_at < t.
A batch is the special case in which `seen_at` is the last step of the batch.

The rewards arrive in the order of `seen_at`, those of one moment in the order of their steps. Replayed in that order, the policy
state that a choice was made from is the one after as many updates as rewards had arrived.
"""

import dataclasses
import functools
import heapq
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Int

from jaxbias._core.errors import ArgumentError

SeenAt = tuple[int, ...]


class Arrivals(NamedTuple):
    """What each choice had seen.

    Fields:
        number: how many rewards, the first of them in order of arrival.
        order: the step of each reward in order of arrival; None where that is the order of the steps.
    """

    number: Int[np.ndarray, " steps"]
    order: Int[np.ndarray, " steps"] | None = None


@functools.lru_cache(maxsize=64)
def arrivals_of(seen_at: SeenAt) -> Arrivals:
    """What each choice had seen.

    >>> arrivals_of((0, 3, 2, 3)).number.tolist(), arrivals_of((0, 3, 2, 3)).order.tolist()
    ([0, 1, 1, 2], [0, 2, 1, 3])
    """
    times = np.asarray(seen_at)
    order = np.argsort(times, kind="stable")
    steps = np.arange(len(times))
    number = np.searchsorted(times[order], steps, side="left")
    return Arrivals(number=number, order=None if (order == steps).all() else order)


def batches_of(seen_at: SeenAt) -> tuple[int, ...] | None:
    """The sizes of the batches, where these arrivals are those of batches: at the end of each, all of its rewards.

    >>> batches_of((1, 1, 2, 5, 5, 9)), batches_of((1, 2, 3))
    ((2, 1, 3), None)
    """
    times = np.minimum(seen_at, len(seen_at) - 1)
    if (np.diff(times) < 0).any() or (times[times] != times).any():
        return None
    ends = np.unique(times)
    return tuple(np.diff(ends, prepend=-1).tolist())


def is_immediate(seen_at: SeenAt) -> bool:
    """Whether every choice had seen all rewards before it."""
    times = np.minimum(seen_at, len(seen_at) - 1)
    return bool((times == np.arange(len(times))).all())


def delayed(delay: Any, num_steps: int, argument: str = "delay") -> SeenAt:
    """`seen_at` where the reward of each step arrives so many steps later than at once.

    >>> delayed(2, 4)
    (2, 3, 4, 5)
    """
    delays = np.asarray(delay)
    shown = delays.item() if delays.ndim == 0 else None
    if delays.dtype.kind not in "iu" or delays.shape not in ((), (num_steps,)):
        problem = "" if shown is not None else f"has shape {delays.shape} and type {delays.dtype}"
        allowed = f"a whole number of steps, or one for each of {num_steps} steps"
        raise ArgumentError(argument, shown if shown is not None else delays, allowed, problem=problem)
    if (delays < 0).any():
        first = int(np.argmax(np.atleast_1d(delays) < 0))
        problem = "" if shown is not None else f"is {int(delays[first])} at step {first}"
        raise ArgumentError(argument, shown, "0 or more: a reward cannot arrive before its arm is pulled", problem=problem)
    return tuple((np.arange(num_steps) + np.minimum(delays, num_steps)).tolist())


def check_arrivals(
    seen_at: Any, batch_sizes: tuple[int, ...] | None, allocation: str, num_steps: int
) -> tuple[tuple[int, ...] | None, SeenAt | None]:
    """The sizes of batches and `seen_at`: one of them, or neither where every choice had seen all rewards before it."""
    if seen_at is None:
        return batch_sizes, None
    if batch_sizes is not None:
        raise ArgumentError("history.seen_at", seen_at, "None for a log with batches", problem="is given beside batch_sizes")
    if allocation != "independent":
        raise ArgumentError("history.allocation", allocation, "'independent' for a log with seen_at")
    if not isinstance(seen_at, tuple) or len(seen_at) != num_steps or not all(isinstance(time, int) for time in seen_at):
        if not isinstance(seen_at, tuple):
            shown = f"is of {type(seen_at).__name__}"
        else:
            shown = f"has {len(seen_at)} entries" if len(seen_at) != num_steps else "has entries that are not whole numbers"
        raise ArgumentError("history.seen_at", seen_at, f"a tuple of {num_steps} whole numbers, one for each step", problem=shown)
    early = np.flatnonzero(np.asarray(seen_at) < np.arange(num_steps))
    if len(early):
        shown = f"is {seen_at[early[0]]} at step {early[0]}"
        raise ArgumentError("history.seen_at", seen_at, "the step itself (from 0) or a later one", problem=shown)
    if is_immediate(seen_at):
        return None, None
    sizes = batches_of(seen_at)
    return (None, seen_at) if sizes is None else (sizes, None)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule:
    """Where pending rewards are kept until they arrive, known before compilation.

    Fields:
        num_slots: the most that are pending at once, and one more slot for those that never arrive.
        slot: (steps,), where the reward of each step is put.
        arriving: the slot of each reward in order of arrival.
        until: (steps,), how many have arrived after each step.
        most: the most that arrive after one step.
    """

    num_slots: int
    slot: tuple[int, ...]
    arriving: tuple[int, ...]
    until: tuple[int, ...]
    most: int


@functools.lru_cache(maxsize=64)
def schedule_of(seen_at: SeenAt) -> Schedule:
    """Slots for the rewards, each free again after its reward has arrived.

    >>> schedule_of((0, 3, 2, 3))
    Schedule(num_slots=2, slot=(0, 1, 0, 1), arriving=(0, 0), until=(1, 1, 2, 2), most=1)
    """
    num_steps = len(seen_at)
    at_step: list[list[int]] = [[] for _ in range(num_steps)]
    for step, time in enumerate(seen_at):
        if time < num_steps - 1:  # what arrives after the last choice is never seen
            at_step[time].append(step)
    slot, free, used = [-1] * num_steps, [], 0
    arriving, until = [], []
    for step in range(num_steps):
        if seen_at[step] < num_steps - 1:
            slot[step] = heapq.heappop(free) if free else used
            used = max(used, slot[step] + 1)
        arriving += [slot[arrived] for arrived in at_step[step]]
        until.append(len(arriving))
        for arrived in at_step[step]:
            heapq.heappush(free, slot[arrived])
    return Schedule(
        num_slots=used + 1,
        slot=tuple(used if place < 0 else place for place in slot),
        arriving=tuple(arriving),
        until=tuple(until),
        most=max(map(len, at_step), default=0),
    )
