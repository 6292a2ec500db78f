"""Simulation: many trials, in chunks where they do not fit, spread over the devices.

Trial i depends on the key and i alone, whatever the chunk and the device: its key is the key folded with i.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.typing import ArrayLike
from jaxtyping import Array, Int, PRNGKeyArray, UInt

from jaxbias._core.arrivals import batches_of, delayed, is_immediate
from jaxbias._core.chunks import Firsts, split_trials, trials_at_once
from jaxbias._core.devices import collect, device_count, on_each_device, trial_mesh
from jaxbias._core.door import public
from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import compiled
from jaxbias._core.randomness import root_words, trial_words
from jaxbias._core.settings import as_float, is_concrete
from jaxbias.history import ALLOCATIONS, History
from jaxbias.policies import Policy, check_policy, policy_name
from jaxbias.rewards import Family, Normal, check_family, check_sigma
from jaxbias.simulation.centring import centre, check_precision, check_recorded
from jaxbias.simulation.steps import (
    Batching,
    Extras,
    Outcome,
    Problem,
    Progress,
    Step,
    make_steps,
    part_of,
    run_trials,
    start_trials,
)
from jaxbias.stopping import StoppingRule, check_stop

LANES = 16  # a chunk is a whole number of these: the widest vector of a CPU, in 32-bit numbers
CHUNK_ELEMENTS = 2**25  # steps times trials of a chunk whose logs are kept: 256 MB of arms and rewards
LONGEST = {"float32": 2**23, "float64": 2**30}  # pulls that a sum still counts one by one; steps that a counter holds


@public
def simulate(
    key: PRNGKeyArray,
    policy: Policy,
    family: Family,
    mean: ArrayLike | Sequence[float],
    num_steps: int,
    num_trials: int | None = None,
    *,
    held_out: bool = False,
    keep_draws: bool = False,
    batch_size: int | Sequence[int] | None = None,
    allocation: Literal["independent", "shares"] = "independent",
    stop: StoppingRule | None = None,
    delay: int | Sequence[int] | None = None,
    chunk_size: int | None = None,
    progress: bool = True,
) -> History:
    """Runs a policy on rewards with known means.

    Arguments:
        key: a `jax.random.key`.
        policy: what chooses the arms.
        family: what the rewards are.
        mean: (arms,), the mean of each arm.
        num_steps: pulls per trial, the first pull of each arm included.
        num_trials: how many independent trials; without it, one, and the history has no trials axis.
        held_out: also draw a second, independent reward at every step, which the policy does not see.
        keep_draws: also record what Thompson sampling drew for every arm at every step (0 where the pull was forced).
        batch_size: how many arms are chosen at once, before any of their rewards is seen: one number (the last batch may be
            smaller), or one for each batch. The first pulls of all arms are part of the first batches.
        allocation: how a batch is shared out: "independent", each choice drawn on its own, or "shares", in a random order as many
            pulls of each arm as its share of the batch, rounded up or down so that it is right on average.
        stop: a rule that ends a trial, such as `StopAtDifference`: a function from the pulls and sums to whether to stop. It is
            asked after every step, or batch. `num_steps` is then the most steps, and `history.lengths` has how many were taken.
        delay: how many steps each reward comes late, one number or one for each step: the next `delay` choices have not seen it.
            With 0 the next choice has. The delays do not depend on the arm or the reward.
        chunk_size: trials simulated at once on each device; it changes the memory needed and not one bit of the result.
        progress: show a progress bar when it takes more than a few seconds.

    Returns:
        A `History` with arms and rewards of shape (trials, steps), or (steps,).

    >>> import jax, jaxbias as jb
    >>> history = jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.75], num_steps=5)
    >>> history.arms.shape, history.arms[:2].tolist()
    ((5,), [0, 1])
    """
    root, problem, offset = prepare_centred(key, policy, family, mean, num_steps, num_trials, stop)
    check_recorded(problem, offset)
    batching = make_batching(batch_size, allocation, num_steps, delay, stop)
    if keep_draws and allocation == "shares":
        raise ArgumentError("keep_draws", True, lambda name: f"False where {name('allocation')} is 'shares', which draws nothing")
    if keep_draws and not problem.policy.records_draws:
        raise ArgumentError("keep_draws", True, f"False with {policy_name(policy)}: only Thompson records posterior draws")
    trials, num_arms = 1 if num_trials is None else num_trials, problem.mean.shape[0]
    size_of_step = 1 + num_arms if keep_draws else 1
    mesh = trial_mesh(math.ceil(trials / LANES), (root, problem))
    largest = min(trials_at_once(num_arms), CHUNK_ELEMENTS // (num_steps * size_of_step * device_count(mesh)))
    chunk = split_trials(trials, chunk_size, LANES, largest, device_count(mesh))
    extras = Extras(held_out=held_out, draws=keep_draws)
    run = partial(_simulate_chunk, num_steps=num_steps, size=chunk.size, batching=batching, extras=extras, mesh=mesh)
    outcomes = [collect(run(problem, root, firsts), mesh) for firsts in chunk.starts(progress)]
    kept, lengths = jax.tree.map(lambda *parts: jnp.concatenate(parts)[:trials], *outcomes)
    if num_trials is None:
        kept, lengths = jax.tree.map(lambda leaf: leaf[0], (kept, lengths))
    forced = jnp.broadcast_to(jnp.arange(num_steps) < num_arms, kept.arm.shape)
    kept = _move_back(kept, offset, forced) if offset else kept
    return History(
        arms=kept.arm,
        rewards=kept.reward,
        num_arms=num_arms,
        forced=forced,
        held_out=kept.held_out,
        draws=kept.draws,
        lengths=lengths,
        batch_sizes=batching.batch_sizes,
        allocation=batching.allocation,
        seen_at=batching.seen_at,
    )


@partial(compiled, static=("num_steps", "size", "batching", "extras", "mesh"), quick=False)
def _simulate_chunk(
    problem: Problem,
    root: UInt[Array, "2"],
    firsts: Firsts,
    num_steps: int,
    size: int,
    batching: Batching,
    extras: Extras,
    mesh: Mesh | None,
) -> tuple[Outcome, Int[Array, " trials"] | None]:
    problem = problem.for_steps(num_steps)
    num_arms = problem.mean.shape[0]

    def keep(_: Progress, outcome: Outcome) -> Outcome:
        return outcome

    def simulate_from(first: jax.Array) -> tuple[Outcome, Array | None]:
        words, steps = trial_words(root, first[0], size), opened_steps(num_steps, num_arms, batching)
        start = start_trials(problem, batching, size)
        start, opening = run_trials(problem, words, start, part_of(steps, 0, num_arms), keep, extras, opening=True)
        end, rest = run_trials(problem, words, start, part_of(steps, num_arms, num_steps), keep, extras)
        return jax.tree.map(lambda *parts: jnp.moveaxis(jnp.concatenate(parts), 0, 1), opening, rest), end.length

    return on_each_device(simulate_from, mesh)(firsts)


def _move_back(kept: Outcome, offset: float, forced: Array) -> Outcome:
    """What was simulated around an offset, where it is."""
    draws = None if kept.draws is None else jnp.where(forced[..., None], kept.draws, kept.draws + offset)
    held_out = None if kept.held_out is None else kept.held_out + offset
    return kept._replace(reward=kept.reward + offset, held_out=held_out, draws=draws)


def opened_steps(num_steps: int, num_arms: int, batching: Batching) -> Step:
    """All steps of a trial in which every arm is pulled once first, and then the policy chooses."""
    steps = make_steps(num_steps, batching, forced=jnp.arange(num_steps) < num_arms)
    return steps._replace(forced=None)


def make_batching(
    batch_size: int | Sequence[int] | None,
    allocation: str,
    num_steps: int,
    delay: int | Sequence[int] | None = None,
    stop: Any = None,
) -> Batching:
    """The batches, as many as there are steps for, or the delays."""
    if allocation not in ALLOCATIONS:
        raise ArgumentError("allocation", allocation, "'independent' or 'shares'")
    if delay is not None:
        return _make_delays(delay, batch_size, allocation, num_steps, stop)
    if batch_size is None:
        if allocation != "independent":
            raise ArgumentError("allocation", allocation, lambda name: f"'independent' without {name('batch_size')}")
        return Batching()
    if isinstance(batch_size, int | np.integer):
        if batch_size < 1:
            raise ArgumentError("batch_size", batch_size, "1 or more")
        rest = num_steps % batch_size
        sizes = (int(batch_size),) * (num_steps // batch_size) + ((int(rest),) if rest else ())
    else:
        sizes = tuple(int(size) for size in batch_size)
        if min(sizes, default=0) < 1 or sum(sizes) != num_steps:
            raise ArgumentError(
                "batch_size", list(sizes), lambda name: f"sizes of 1 or more that sum to {name('num_steps')}, {num_steps}"
            )
    return Batching(batch_sizes=sizes, allocation=allocation)


def _make_delays(delay: Any, batch_size: Any, allocation: str, num_steps: int, stop: Any) -> Batching:
    if batch_size is not None:
        raise ArgumentError("delay", delay, lambda name: f"None with {name('batch_size')}")
    seen_at = delayed(delay, num_steps)
    if is_immediate(seen_at):
        return make_batching(None, allocation, num_steps)
    sizes = batches_of(seen_at)
    if sizes is not None:
        return Batching(batch_sizes=sizes, allocation=allocation)
    if allocation != "independent":
        raise ArgumentError("allocation", allocation, lambda name: f"'independent' with {name('delay')}")
    if stop is not None:
        raise ArgumentError("delay", delay, lambda name: f"None with {name('stop')}")
    return Batching(seen_at=seen_at)


def prepare_centred(
    key: PRNGKeyArray,
    policy: Policy,
    family: Family,
    mean: Any,
    num_steps: int,
    num_trials: int | None,
    stop: StoppingRule | None = None,
    movable: bool = True,
) -> tuple[UInt[Array, "2"], Problem, float]:
    """As `prepare`, around an offset where the means are so far from 0 that sums of rewards would lose digits."""
    root, problem = prepare(key, policy, family, mean, num_steps, num_trials, stop, as_they_are=False)
    return root, *centre(problem, mean, num_steps, movable)


def prepare(
    key: PRNGKeyArray,
    policy: Policy,
    family: Family,
    mean: Any,
    num_steps: int,
    num_trials: int | None,
    stop: StoppingRule | None = None,
    as_they_are: bool = True,
) -> tuple[UInt[Array, "2"], Problem]:
    """The arguments of a simulation, checked: the words that every trial's key is made from, and the problem.

    With `as_they_are` the sums of rewards are made of the rewards as they are, so that the means must not be too far from 0.
    """
    mean = as_float(mean)
    if mean.ndim != 1 or mean.shape[0] == 0:
        raise ArgumentError("mean", mean, "one number for each arm", problem=f"has shape {mean.shape}")
    if is_concrete(mean) and not np.all(np.isfinite(np.asarray(mean))):  # NumPy, as inside jit JAX would trace it
        raise ArgumentError("mean", mean.tolist(), "finite")
    policy, family = check_policy(policy, mean.shape[0]), check_family(family, mean)
    check_sigma(family, "a simulation")
    if policy.unit_rewards and isinstance(family, Normal):
        raise ArgumentError("family", family, f"one with rewards from 0 to 1 for {policy_name(policy)}")
    longest = LONGEST[jnp.result_type(float).name]
    if not mean.shape[0] <= num_steps <= longest:
        more = ", or more in float64 (jax_enable_x64)" if longest < LONGEST["float64"] else ""
        raise ArgumentError("num_steps", num_steps, f"from {mean.shape[0]} (every arm is pulled once first) to {longest}{more}")
    if num_trials is not None and not 1 <= num_trials < 2**32:
        raise ArgumentError("num_trials", num_trials, f"from 1 to {2**32 - 1}")
    check_stop(stop, mean.shape[0])
    problem = Problem(policy=policy, family=family, mean=mean, stop=stop)
    if as_they_are:
        check_precision(problem, num_steps)
    return root_words(key), problem
