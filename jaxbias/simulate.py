"""Simulation: one step of one trial, `vmap` over trials, `lax.scan` over steps, chunks of trials where they do not fit.

Trials are the last axis of everything inside the loop, so that the machine's vectors run along trials and not along arms.
Trial i depends on the key and i alone, whatever the chunk and the device: its key is the key folded with i.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt
from tqdm.auto import tqdm

from jaxbias.compiling import compiled
from jaxbias.devices import collect, device_count, on_each_device, trial_mesh
from jaxbias.history import History
from jaxbias.layout import settle, trials_minor
from jaxbias.policies import ArmStatistics, Policy, StatisticsPolicy, check_policy, keeps_statistics, sample_arm
from jaxbias.randomness import root_words, step_key, trial_words
from jaxbias.rewards import Family, Normal, at_arm, check_family, check_sigma
from jaxbias.settings import as_float, is_concrete

LANES = 16  # a chunk is a whole number of these: the widest vector of a CPU, in 32-bit numbers
CHUNK = 32_768  # trials at once on a CPU: enough to hide the start of each kernel, few enough for its cache
CHUNK_ACCELERATOR = 131_072  # and on a GPU: enough trials to fill it
CHUNK_ELEMENTS = 2**25  # steps times trials of a chunk whose logs are kept: 256 MB of arms and rewards
LONGEST = {"float32": 2**23, "float64": 2**30}  # pulls that a sum still counts one by one; steps that a counter holds
PURPOSES = 3  # random draws at a step: the choice, the reward, the held-out reward

Firsts = UInt[Array | np.ndarray, " devices"]  # the number of the first trial of each device


class Problem(NamedTuple):
    """What is simulated."""

    policy: Any
    family: Any
    mean: Float[Array, " arms"]

    def for_steps(self, num_steps: int) -> "Problem":
        """With the policy in the form it prefers when the number of steps is known."""
        prepare = getattr(self.policy, "for_steps", None)
        return self if prepare is None else self._replace(policy=prepare(num_steps))


class Progress(NamedTuple):
    """Where a trial stands: the policy's state, and its statistics where that state is something else."""

    state: Any
    statistics: ArmStatistics | None


class Outcome(NamedTuple):
    """What one step gave."""

    arm: Int[Array, "*trials"]
    reward: Float[Array, "*trials"]
    held_out: Float[Array, "*trials"] | None
    draws: Float[Array, "*trials arms"] | None


class Extras(NamedTuple):
    """What to record beside arms and rewards."""

    held_out: bool = False
    draws: bool = False


NOTHING_ELSE = Extras()


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
        chunk_size: trials simulated at once on each device; it changes the memory needed and not one bit of the result.
        progress: show a progress bar when it takes more than a few seconds.

    Returns:
        A `History` with arms and rewards of shape (trials, steps), or (steps,).

    >>> import jax, jaxbias as jb
    >>> history = jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.75], num_steps=5)
    >>> history.arms.shape, history.arms[:2].tolist()
    ((5,), [0, 1])
    """
    root, problem = prepare(key, policy, family, mean, num_steps, num_trials)
    if keep_draws and not hasattr(policy, "draw"):
        raise ValueError(f"keep_draws is True and policy is {type(policy).__name__}; allowed with it: Thompson")
    trials, num_arms = 1 if num_trials is None else num_trials, problem.mean.shape[0]
    size_of_step = 1 + num_arms if keep_draws else 1
    mesh = trial_mesh(math.ceil(trials / LANES), (root, problem))
    largest = CHUNK_ELEMENTS // (num_steps * size_of_step * device_count(mesh))
    chunk = split_into_chunks(trials, chunk_size, LANES, largest, device_count(mesh))
    extras = Extras(held_out=held_out, draws=keep_draws)
    run = partial(_simulate_chunk, num_steps=num_steps, size=chunk.size, extras=extras, mesh=mesh)
    outcomes = [collect(run(problem, root, firsts), mesh) for firsts in chunk.starts(progress)]
    kept = jax.tree.map(lambda *parts: jnp.concatenate(parts)[:trials], *outcomes)
    if num_trials is None:
        kept = jax.tree.map(lambda leaf: leaf[0], kept)
    forced = jnp.broadcast_to(jnp.arange(num_steps) < num_arms, kept.arm.shape)
    return History(arms=kept.arm, rewards=kept.reward, num_arms=num_arms, forced=forced, held_out=kept.held_out, draws=kept.draws)


@partial(compiled, static=("num_steps", "size", "extras", "mesh"))
def _simulate_chunk(
    problem: Problem, root: UInt[Array, "2"], firsts: Firsts, num_steps: int, size: int, extras: Extras, mesh: Mesh | None
) -> Outcome:
    problem = problem.for_steps(num_steps)

    def keep(_: Progress, outcome: Outcome) -> Outcome:
        return outcome

    def simulate_from(first: jax.Array) -> Outcome:
        words = trial_words(root, first[0], size)
        start, opening = open_trials(problem, words, keep, extras)
        _, rest = continue_trials(problem, words, start, problem.mean.shape[0], num_steps, keep, extras)
        return jax.tree.map(lambda *parts: jnp.moveaxis(jnp.concatenate(parts), 0, 1), opening, rest)

    return on_each_device(simulate_from, mesh)(firsts)


def open_trials(
    problem: Problem, words: jax.Array, emit: Callable[[Progress, Outcome], Any], extras: Extras = NOTHING_ELSE
) -> tuple[Progress, Any]:
    """Every arm pulled once, in order, in every trial. `emit` says what to keep of each step."""
    num_arms, size = problem.mean.shape[0], words.shape[-1]
    state = problem.policy.init(num_arms)
    statistics = None if keeps_statistics(problem.policy) else StatisticsPolicy().init(num_arms)
    start = _for_all_trials(Progress(state=state, statistics=statistics), size)

    def step(words: jax.Array, progress: Progress, number: jax.Array) -> tuple[Progress, Outcome]:
        return _step(problem, extras, words, progress, number, (number, True))

    return _scan(step, words, start, jnp.arange(num_arms), emit)


def continue_trials(
    problem: Problem,
    words: jax.Array,
    progress: Progress,
    first_step: int,
    num_steps: int,
    emit: Callable[[Progress, Outcome], Any],
    extras: Extras = NOTHING_ELSE,
) -> tuple[Progress, Any]:
    """The steps from `first_step` to `num_steps`, each chosen by the policy."""
    step = partial(_step, problem, extras)
    return _scan(step, words, progress, jnp.arange(first_step, num_steps), emit)


def follow_trials(
    problem: Problem, words: jax.Array, arms: Int[Array, " steps"], forced: Bool[Array, " steps"]
) -> tuple[Any, ArmStatistics]:
    """Every step of trials that are forced where, and to the arm, that a log was: their states, and what each arm has."""
    state, size = problem.policy.init(problem.mean.shape[0]), words.shape[-1]
    statistics = None if keeps_statistics(problem.policy) else StatisticsPolicy().init(problem.mean.shape[0])
    start = _for_all_trials(Progress(state=state, statistics=statistics), size)
    all_trials = jax.vmap(partial(_step, problem, NOTHING_ELSE), in_axes=(-1, 0, None, None))

    def body(progress: Progress, step: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[Progress, None]:
        number, arm, is_forced = step
        progress, _ = all_trials(words, progress, number, (arm, is_forced))
        return jax.tree.map(trials_minor, progress), None

    progress, _ = jax.lax.scan(body, start, (jnp.arange(arms.shape[0]), arms, forced))
    return progress.state, statistics_of(progress)


def _for_all_trials(progress: Progress, size: int) -> Progress:
    return jax.tree.map(
        lambda leaf: trials_minor(jnp.broadcast_to(leaf, (size, *leaf.shape))), jax.tree.map(jnp.asarray, progress)
    )


def _scan(
    step: Callable[..., tuple[Progress, Outcome]],
    words: jax.Array,
    start: Progress,
    steps: jax.Array,
    emit: Callable[[Progress, Outcome], Any],
) -> tuple[Progress, Any]:
    all_trials = jax.vmap(step, in_axes=(-1, 0, None))

    def body(progress: Progress, number: jax.Array) -> tuple[Progress, Any]:
        progress, outcome = all_trials(words, progress, number)
        progress = jax.tree.map(trials_minor, progress)
        return progress, emit(progress, outcome)

    return jax.lax.scan(body, start, steps)


def _step(
    problem: Problem,
    extras: Extras,
    words: jax.Array,
    progress: Progress,
    number: jax.Array,
    forced: tuple[jax.Array, jax.Array | bool] | None = None,
) -> tuple[Progress, Outcome]:
    """One step of one trial; `forced` is an arm, and whether it is pulled whatever the policy says."""
    policy, family, mean = problem
    choice, reward_key, held_out_key = (step_key(words, number * PURPOSES + purpose) for purpose in range(PURPOSES))
    arm, draws = _choose(choice, policy, progress.state, extras.draws, forced, mean)
    family, mean = at_arm((family, mean), arm, mean.shape[0])
    reward = family.sample(reward_key, mean)
    second = family.sample(held_out_key, mean) if extras.held_out else None
    # Without the barrier XLA draws the random numbers anew for each of the arrays that use them.
    arm, reward = settle((arm.astype(jnp.int32), reward))
    state = jax.tree.map(_as_before, policy.update(progress.state, arm, reward), progress.state)
    statistics = progress.statistics and StatisticsPolicy().update(progress.statistics, arm, reward)
    return Progress(state=state, statistics=statistics), Outcome(arm=arm, reward=reward, held_out=second, draws=draws)


def _choose(
    key: Any, policy: Any, state: Any, with_draws: bool, forced: Any, mean: jax.Array
) -> tuple[jax.Array, jax.Array | None]:
    if forced is not None and forced[1] is True:
        return forced[0], jnp.zeros_like(mean) if with_draws else None
    draws = policy.draw(key, state) if with_draws else None
    arm = sample_arm(key, policy, state) if draws is None else policy.choose(key, state, draws)
    return arm if forced is None else jnp.where(forced[1], forced[0], arm.astype(forced[0].dtype)), draws


def _as_before(new: Any, old: jax.Array) -> jax.Array:
    return jnp.asarray(new).astype(old.dtype)


def statistics_of(progress: Progress) -> ArmStatistics:
    """Pulls and sums of each arm so far."""
    return progress.state if progress.statistics is None else progress.statistics


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


def split_into_chunks(trials: int, chunk_size: int | None, block: int, largest: int | None = None, devices: int = 1) -> Chunks:
    """Chunks of equal size, a whole number of blocks each, so that one compilation serves them all."""
    if chunk_size is None:
        chunk_size = CHUNK if jax.default_backend() == "cpu" else CHUNK_ACCELERATOR
        chunk_size = max(min(chunk_size, largest or chunk_size), 1)
    elif chunk_size < 1:
        raise ValueError(f"chunk_size is {chunk_size}; allowed: 1 or more")
    rounds = math.ceil(trials / (block * math.ceil(chunk_size / block) * devices))
    size = block * math.ceil(trials / (rounds * devices) / block)
    return Chunks(trials=trials, size=size, rounds=math.ceil(trials / (size * devices)), devices=devices)


def prepare(
    key: PRNGKeyArray, policy: Policy, family: Family, mean: Any, num_steps: int, num_trials: int | None
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
    return root_words(key), Problem(policy=policy, family=family, mean=mean)
