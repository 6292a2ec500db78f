"""One step of one trial, `vmap` over trials, `lax.scan` over steps.

Trials are the last axis of everything inside the loop, so that the machine's vectors run along trials and not along arms.

A step of a batch is chosen from the policy state at the start of the batch. With delays, the state is that after the rewards
which have arrived; the others are pending. A trial that a rule has stopped stays as it is.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxbias._core.arrivals import Schedule, schedule_of
from jaxbias._core.layout import materialize, trials_minor
from jaxbias._core.lengths import scan_up_to
from jaxbias._core.randomness import step_key
from jaxbias.policies import ArmStatistics, BasePolicy, StatisticsPolicy
from jaxbias.rewards import at_arm
from jaxbias.simulation.pending import Pending, arrive, nothing_pending, wait

PURPOSES = 3  # random numbers of a step: the choice, the reward, the held-out reward


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, kw_only=True)
class Batching:
    """How the steps of a trial are grouped into batches; all of it is known before compilation.

    Fields:
        batch_sizes: how many arms are chosen at once in each batch; None where every choice sees all rewards before it.
        allocation: "independent" or "shares".
        seen_at: as in `History`, where rewards come late in another way than in batches.
    """

    batch_sizes: tuple[int, ...] | None = None
    allocation: str = "independent"
    seen_at: tuple[int, ...] | None = None

    @property
    def schedule(self) -> Schedule | None:
        """Where pending rewards are kept, with delays."""
        return None if self.seen_at is None else schedule_of(self.seen_at)


class Problem(NamedTuple):
    """What is simulated.

    `accounts` is updated by every reward when its arm is pulled, whenever the policy sees it.
    """

    policy: BasePolicy
    family: Any
    mean: Float[Array, " arms"]
    stop: Any = None
    accounts: BasePolicy | None = None

    def for_steps(self, num_steps: int) -> "Problem":
        """With the policy in the form it prefers when the numbers of steps and arms are known."""
        return self._replace(policy=self.policy.for_steps(num_steps).for_arms(self.mean.shape[0]))


class Progress(NamedTuple):
    """Where a trial stands.

    Fields:
        state: the policy's.
        statistics: pulls and sums, where that state is something else.
        seen: in a batch, what its choices are made from.
        length: the steps taken, where a rule may stop the trial, and `stopped`, whether it has.
        pending: with delays, the rewards that have not arrived; the state is without them.
        accounts: the state of those of the problem.
    """

    state: Any
    statistics: ArmStatistics | None
    seen: Any = None
    length: Int[Array, "*trials"] | None = None
    stopped: Bool[Array, "*trials"] | None = None
    pending: Pending | None = None
    accounts: Any = None


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


class Step(NamedTuple):
    """A step, the same for every trial.

    Fields:
        number: of the step, from 0.
        arm, forced: an arm, and whether it is pulled whatever the policy says (True: at every step); None where it chooses.
        first, last: whether a batch begins or ends here; None without batches.
        free: how many arms of the batch the policy chooses, where they are shared out.
        slot: with delays, where the reward is kept until it arrives, and `arrived`, `until`: how many rewards have arrived
            before the step and after it.
        schedule: of the arrivals.
    """

    number: Int[Array, "*steps"]
    arm: Any = None
    forced: Any = None
    first: Any = None
    last: Any = None
    free: Any = None
    slot: Any = None
    arrived: Any = None
    until: Any = None
    schedule: Schedule | None = None


NOTHING_ELSE, ONE_BY_ONE = Extras(), Batching()
Emit = Callable[[Progress, Outcome], Any]


def make_steps(
    num_steps: int, batching: Batching, arms: Int[Array, " steps"] | None = None, forced: Bool[Array, " steps"] | None = None
) -> Step:
    """All steps of a trial, with the arms that are forced."""
    steps = Step(number=jnp.arange(num_steps), arm=arms, forced=forced)
    schedule = batching.schedule
    if schedule is not None:
        until = np.asarray(schedule.until, np.int32)
        before = jnp.asarray(np.append(np.int32(0), until[:-1]))
        slot = jnp.asarray(schedule.slot, jnp.int32)
        return steps._replace(slot=slot, arrived=before, until=jnp.asarray(until), schedule=schedule)
    if batching.batch_sizes is None:
        return steps
    sizes = np.asarray(batching.batch_sizes)
    ends, batch = np.cumsum(sizes), np.repeat(np.arange(len(sizes)), sizes)
    first = np.isin(np.arange(num_steps), ends - sizes)
    steps = steps._replace(first=jnp.asarray(first), last=jnp.asarray(np.append(first[1:], True)))
    if batching.allocation != "shares":
        return steps
    chosen = jnp.ones(num_steps, jnp.int32) if forced is None else 1 - forced.astype(jnp.int32)
    return steps._replace(free=jnp.zeros(len(sizes), jnp.int32).at[batch].add(chosen)[batch])


def start_trials(problem: Problem, batching: Batching, size: int) -> Progress:
    """So many trials before their first step."""
    num_arms = problem.mean.shape[0]
    state, schedule = problem.policy.init(num_arms), batching.schedule
    in_state = problem.policy.keeps_statistics and schedule is None
    progress = Progress(
        state=state,
        statistics=None if in_state else StatisticsPolicy().init(num_arms),
        seen=None if batching.batch_sizes is None else _nothing_seen(problem, batching, state),
        length=None if problem.stop is None else jnp.zeros((), jnp.int32),
        stopped=None if problem.stop is None else jnp.zeros((), bool),
        pending=None if schedule is None else nothing_pending(problem.family, problem.mean, schedule),
        accounts=problem.accounts and problem.accounts.init(num_arms),
    )
    return jax.tree.map(
        lambda leaf: trials_minor(jnp.broadcast_to(leaf, (size, *leaf.shape))), jax.tree.map(jnp.asarray, progress)
    )


def run_trials(
    problem: Problem,
    words: Array,
    progress: Progress,
    steps: Step,
    emit: Emit,
    extras: Extras = NOTHING_ELSE,
    opening: bool = False,
    means: Float[Array, "trials arms"] | None = None,
    length: Int[Array, ""] | None = None,
) -> tuple[Progress, Any]:
    """These steps of all trials; `emit` says what to keep of each. In an opening every arm is pulled once, in order.

    With `means`, every trial has its own in place of those of the problem. With `length`, only so many of the steps.
    """

    def one(mean: Array, words: Array, progress: Progress, step: Step) -> tuple[Progress, Outcome]:
        return _step(problem._replace(mean=mean), extras, opening, words, progress, step)

    all_trials = jax.vmap(one, in_axes=(None if means is None else 0, -1, 0, None))
    mean = problem.mean if means is None else trials_minor(means)

    def body(progress: Progress, step: Step) -> tuple[Progress, Any]:
        progress, outcome = all_trials(mean, words, progress, step)
        progress = jax.tree.map(trials_minor, progress)
        return progress, emit(progress, outcome)

    return scan_up_to(body, progress, steps, length)


def part_of(steps: Step, start: int, stop: int) -> Step:
    """Some of the steps."""
    return jax.tree.map(lambda leaf: leaf[start:stop], steps)


def statistics_of(progress: Progress) -> ArmStatistics:
    """Pulls and sums of each arm so far."""
    kept = progress.state if progress.statistics is None else progress.statistics
    return ArmStatistics(pulls=kept.pulls, total=kept.total)


def _step(
    problem: Problem, extras: Extras, opening: bool, words: Array, progress: Progress, step: Step
) -> tuple[Progress, Outcome]:
    """One step of one trial."""
    policy, family, mean, stop, accounts = problem
    num_arms = mean.shape[0]
    step = step._replace(arm=step.number, forced=True) if opening else step
    choice, reward_key, held_out_key = (step_key(words, step.number * PURPOSES + purpose) for purpose in range(PURPOSES))
    seen: Any = _look(choice, policy, progress, step)
    arm, draws = _choose(choice, policy, progress.state if seen is None else seen, extras.draws, step, mean)
    family, mean = at_arm((family, mean), arm, num_arms)
    reward = family.sample(reward_key, mean)
    second = family.sample(held_out_key, mean) if extras.held_out else None
    # Without the barrier XLA draws the random numbers anew for each of the arrays that use them.
    arm, reward = materialize((arm.astype(jnp.int32), reward))
    if step.schedule is None:
        state = jax.tree.map(_as_before, policy.update_after(draws, progress.state, arm, reward), progress.state)
        pending = None
    else:
        assert progress.pending is not None
        pending = wait(progress.pending, step.slot, arm, reward)
        state = arrive(policy, progress.state, pending, step.schedule, step.arrived, step.until)
    if accounts is not None:
        kept = accounts.update(progress.accounts, arm, reward)
        progress = progress._replace(accounts=jax.tree.map(_as_before, kept, progress.accounts))
    statistics = progress.statistics and StatisticsPolicy().update(progress.statistics, arm, reward)
    if step.free is not None:
        seen = _take_one(seen, arm, step.forced)
    after = progress._replace(state=state, statistics=statistics, seen=seen, pending=pending)
    outcome = Outcome(arm=arm, reward=reward, held_out=second, draws=draws)
    if stop is None:
        return after, outcome
    may_look = True if step.last is None else step.last
    return _stop(stop, progress, after, outcome, may_look & (step.number >= num_arms - 1) if opening else may_look)


def _stop(
    stop: Any, before: Progress, after: Progress, outcome: Outcome, may_look: Bool[Array, ""] | bool
) -> tuple[Progress, Outcome]:
    """A trial that was stopped stays as it was, and its steps are empty; one that goes on is looked at, after a whole batch."""
    assert before.stopped is not None
    assert before.length is not None
    going = ~before.stopped
    kept: Progress = jax.tree.map(lambda new, old: jnp.where(going, new, old), after, before)
    stops = jnp.asarray(stop(statistics_of(kept))) & may_look
    kept = kept._replace(length=before.length + going.astype(jnp.int32), stopped=before.stopped | stops)
    return kept, jax.tree.map(lambda leaf: jnp.where(going, leaf, 0), outcome)


def _look(key: Any, policy: Any, progress: Progress, step: Step) -> Any:
    """What the choices of this batch are made from: the policy state frozen at the start of the batch."""
    if step.first is None:
        return None
    if step.free is not None:
        look = lambda: share_out(jax.random.fold_in(key, 1), policy.log_probs(progress.state), step.free)
    else:
        look = lambda: progress.state if policy.has_sampler else policy.log_probs(progress.state)
    return jax.lax.cond(step.first, look, lambda: progress.seen)


def _nothing_seen(problem: Problem, batching: Batching, state: Any) -> Any:
    own = batching.allocation == "independent" and problem.policy.has_sampler
    return state if own else jnp.zeros_like(problem.policy.log_probs(jax.tree.map(jnp.asarray, state)))


def _choose(key: Any, policy: Any, seen: Any, with_draws: bool, step: Step, mean: Array) -> tuple[Array, Array | None]:
    if step.forced is True:
        return step.arm, jnp.zeros_like(mean) if with_draws else None
    draws = None
    if step.free is not None:
        arm = jax.random.categorical(key, jnp.log(seen))
    elif step.first is not None and not policy.has_sampler:
        arm = jax.random.categorical(key, seen)
    else:
        draws = policy.draw(key, seen) if with_draws else None
        arm = policy.sample(key, seen) if draws is None else policy.choose(key, seen, draws)
    return arm if step.forced is None else jnp.where(step.forced, step.arm, arm.astype(step.arm.dtype)), draws


def share_out(key: Any, log_probs: Float[Array, " arms"], number: Int[Array, ""]) -> Float[Array, " arms"]:
    """Shares of a batch as whole numbers that sum to it, each rounded up or down, and right on average (systematic sampling).

    The shares are laid end to end on [0, number]. A grid of unit spacing is placed at one random offset, and each arm gets the
    grid points in its interval.
    """
    place = jax.random.uniform(key, (), log_probs.dtype)
    number = number.astype(log_probs.dtype)
    ends = jnp.cumsum(jnp.exp(log_probs))
    covered = jnp.clip(jnp.ceil(number * (ends / ends[-1]) - place), 0, number).at[-1].set(number)
    return jnp.diff(covered, prepend=0)


def _take_one(left: Any, arm: Int[Array, ""], forced: Any) -> Float[Array, " arms"]:
    """What is left of a batch after one pull; a forced pull is not counted."""
    if forced is True:
        return left
    taken = (jnp.arange(left.shape[0], dtype=arm.dtype) == arm).astype(left.dtype)
    return left - (taken if forced is None else jnp.where(forced, 0, taken))


def _as_before(new: Any, old: Array) -> Array:
    return jnp.asarray(new).astype(old.dtype)
