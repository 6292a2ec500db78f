"""Simulation: many trials, in chunks where they do not fit, spread over the devices.

Trial i depends on the key and i alone, whatever the chunk and the device: its key is the key folded with i.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.typing import ArrayLike
from jaxtyping import Array, Int, PRNGKeyArray, UInt
from tqdm.auto import tqdm

from jaxbias.compiling import compiled
from jaxbias.devices import collect, device_count, on_each_device, trial_mesh
from jaxbias.history import ALLOCATIONS, History
from jaxbias.policies import Policy, check_policy
from jaxbias.randomness import root_words, trial_words
from jaxbias.rewards import Family, Normal, check_family, check_sigma
from jaxbias.settings import as_float, is_concrete
from jaxbias.steps import Extras, Moment, Outcome, Plan, Problem, Progress, make_moments, part_of, run_trials, start_trials
from jaxbias.stopping import StoppingRule, check_stop

LANES = 16  # a chunk is a whole number of these: the widest vector of a CPU, in 32-bit numbers
CHUNK = 32_768  # trials at once on a CPU: enough to hide the start of each kernel, few enough for its cache
CHUNK_STATE = 2**16  # trials times arms at once on a CPU: pulls, sums and indices of a chunk then stay in the cache of a core
CHUNK_ACCELERATOR = 131_072  # trials at once on a GPU: enough to fill it
CHUNK_ELEMENTS = 2**25  # steps times trials of a chunk whose logs are kept: 256 MB of arms and rewards
LONGEST = {"float32": 2**23, "float64": 2**30}  # pulls that a sum still counts one by one; steps that a counter holds

Firsts = UInt[Array | np.ndarray, " devices"]  # the number of the first trial of each device


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
        chunk_size: trials simulated at once on each device; it changes the memory needed and not one bit of the result.
        progress: show a progress bar when it takes more than a few seconds.

    Returns:
        A `History` with arms and rewards of shape (trials, steps), or (steps,).

    >>> import jax, jaxbias as jb
    >>> history = jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.75], num_steps=5)
    >>> history.arms.shape, history.arms[:2].tolist()
    ((5,), [0, 1])
    """
    root, problem = prepare(key, policy, family, mean, num_steps, num_trials, stop)
    plan = make_plan(batch_size, allocation, num_steps)
    if keep_draws and allocation == "shares":
        raise ValueError("keep_draws is True and allocation is 'shares', which draws nothing; allowed: 'independent'")
    if keep_draws and not hasattr(policy, "draw"):
        raise ValueError(f"keep_draws is True and policy is {type(policy).__name__}; allowed with it: Thompson")
    trials, num_arms = 1 if num_trials is None else num_trials, problem.mean.shape[0]
    size_of_step = 1 + num_arms if keep_draws else 1
    mesh = trial_mesh(math.ceil(trials / LANES), (root, problem))
    largest = min(trials_at_once(num_arms), CHUNK_ELEMENTS // (num_steps * size_of_step * device_count(mesh)))
    chunk = split_into_chunks(trials, chunk_size, LANES, largest, device_count(mesh))
    extras = Extras(held_out=held_out, draws=keep_draws)
    run = partial(_simulate_chunk, num_steps=num_steps, size=chunk.size, plan=plan, extras=extras, mesh=mesh)
    outcomes = [collect(run(problem, root, firsts), mesh) for firsts in chunk.starts(progress)]
    kept, lengths = jax.tree.map(lambda *parts: jnp.concatenate(parts)[:trials], *outcomes)
    if num_trials is None:
        kept, lengths = jax.tree.map(lambda leaf: leaf[0], (kept, lengths))
    forced = jnp.broadcast_to(jnp.arange(num_steps) < num_arms, kept.arm.shape)
    return History(
        arms=kept.arm,
        rewards=kept.reward,
        num_arms=num_arms,
        forced=forced,
        held_out=kept.held_out,
        draws=kept.draws,
        lengths=lengths,
        batch_sizes=plan.batch_sizes,
        allocation=plan.allocation,
    )


@partial(compiled, static=("num_steps", "size", "plan", "extras", "mesh"))
def _simulate_chunk(
    problem: Problem,
    root: UInt[Array, "2"],
    firsts: Firsts,
    num_steps: int,
    size: int,
    plan: Plan,
    extras: Extras,
    mesh: Mesh | None,
) -> tuple[Outcome, Int[Array, " trials"] | None]:
    problem = problem.for_steps(num_steps)
    num_arms = problem.mean.shape[0]

    def keep(_: Progress, outcome: Outcome) -> Outcome:
        return outcome

    def simulate_from(first: jax.Array) -> tuple[Outcome, Array | None]:
        words, moments = trial_words(root, first[0], size), opened_moments(num_steps, num_arms, plan)
        start = start_trials(problem, plan, size)
        start, opening = run_trials(problem, words, start, part_of(moments, 0, num_arms), keep, extras, opening=True)
        end, rest = run_trials(problem, words, start, part_of(moments, num_arms, num_steps), keep, extras)
        return jax.tree.map(lambda *parts: jnp.moveaxis(jnp.concatenate(parts), 0, 1), opening, rest), end.length

    return on_each_device(simulate_from, mesh)(firsts)


def opened_moments(num_steps: int, num_arms: int, plan: Plan) -> Moment:
    """All steps of a trial in which every arm is pulled once first, and then the policy chooses."""
    moments = make_moments(num_steps, plan, forced=jnp.arange(num_steps) < num_arms)
    return moments._replace(forced=None)


def make_plan(batch_size: int | Sequence[int] | None, allocation: str, num_steps: int) -> Plan:
    """The batches, as many as there are steps for."""
    if allocation not in ALLOCATIONS:
        raise ValueError(f"allocation is {allocation!r}; allowed: 'independent' or 'shares'")
    if batch_size is None:
        if allocation != "independent":
            raise ValueError(f"allocation is {allocation!r} and batch_size is None; allowed: batches to be shared out")
        return Plan()
    if isinstance(batch_size, int | np.integer):
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; allowed: 1 or more")
        rest = num_steps % batch_size
        sizes = (int(batch_size),) * (num_steps // batch_size) + ((int(rest),) if rest else ())
    else:
        sizes = tuple(int(size) for size in batch_size)
        if min(sizes, default=0) < 1 or sum(sizes) != num_steps:
            raise ValueError(f"batch_size is {list(sizes)}; allowed: sizes of 1 or more that sum to num_steps, {num_steps}")
    return Plan(batch_sizes=sizes, allocation=allocation)


class Chunks(NamedTuple):
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


def split_into_chunks(trials: int, chunk_size: int | None, block: int, largest: int = CHUNK, devices: int = 1) -> Chunks:
    """Chunks of one size, that which is asked for or `largest`, a whole number of blocks: one compilation serves them all."""
    if chunk_size is None:
        chunk_size = max(largest, 1)
    elif chunk_size < 1:
        raise ValueError(f"chunk_size is {chunk_size}; allowed: 1 or more")
    rounds = math.ceil(trials / (block * math.ceil(chunk_size / block) * devices))
    size = block * math.ceil(trials / (rounds * devices) / block)
    return Chunks(trials=trials, size=size, rounds=math.ceil(trials / (size * devices)), devices=devices)


def prepare(
    key: PRNGKeyArray,
    policy: Policy,
    family: Family,
    mean: Any,
    num_steps: int,
    num_trials: int | None,
    stop: StoppingRule | None = None,
) -> tuple[UInt[Array, "2"], Problem]:
    """The arguments of a simulation, checked: the words that every trial's key is made from, and the problem."""
    mean = as_float(mean)
    if mean.ndim != 1 or mean.shape[0] == 0:
        raise ValueError(f"mean has shape {mean.shape}; allowed: one axis, with one number for each arm")
    if is_concrete(mean) and not bool(jnp.all(jnp.isfinite(mean))):
        raise ValueError(f"mean is {mean.tolist()}; allowed: finite numbers")
    check_policy(policy, mean.shape[0])
    check_family(family, mean)
    check_sigma(family, "a simulation")
    if getattr(policy, "unit_rewards", False) and isinstance(family, Normal):
        raise ValueError(f"family is {family}; allowed with {type(policy).__name__}: one with rewards from 0 to 1")
    longest = LONGEST[jnp.result_type(float).name]
    if not mean.shape[0] <= num_steps <= longest:
        raise ValueError(
            f"num_steps is {num_steps}; allowed: {mean.shape[0]} (every arm is pulled once first) to {longest}"
            + (", or more in float64 (jax_enable_x64)" if longest < 2**30 else "")
        )
    if num_trials is not None and not 1 <= num_trials < 2**32:
        raise ValueError(f"num_trials is {num_trials}; allowed: 1 to {2**32 - 1}")
    check_stop(stop, mean.shape[0])
    return root_words(key), Problem(policy=policy, family=family, mean=mean, stop=stop)
