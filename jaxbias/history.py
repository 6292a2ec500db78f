"""A history: which arms were pulled, what they gave, and which pulls were forced; simulated, or a log of one's own."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxbias._core.arrivals import Arrivals, arrivals_of, batches_of, check_arrivals, delayed, is_immediate
from jaxbias._core.errors import ArgumentError, refuse_first
from jaxbias._core.expanding import check_counts, expand_counts
from jaxbias._core.kinds import check_kinds, check_marks
from jaxbias._core.lengths import pad_axis, padded_length
from jaxbias._core.precision import check_carried, sum_by_arm
from jaxbias._core.settings import as_array, as_float, evaluate, is_concrete, split_shared
from jaxbias.policies import ArmStatistics, complete_policy, policy_name

ALLOCATIONS = ("independent", "shares")
MOST_STEPS = 2**23  # of a simulated path: beyond, float32 does not count single steps any more
FEW_SIZES = 8  # of batches, that a message lists
NUMBERS_AT_ONCE = 2**18  # trials x steps x arms together: a policy that integrates at each step needs hundreds of times that


@partial(
    jax.tree_util.register_dataclass,
    data_fields=("arms", "rewards", "forced", "held_out", "draws", "lengths", "policy_rewards"),
    meta_fields=("num_arms", "batch_sizes", "allocation", "seen_at", "order_known", "squares_known", "is_padded"),
)
@dataclasses.dataclass(frozen=True, kw_only=True)
class History:
    """What happened, step by step, in one trial or in many (a leading axis of trials).

    Arguments:
        arms: the arm pulled at each step, 0 to num_arms - 1.
        rewards: the reward it gave.
        num_arms: how many arms there were, pulled or not.
        forced: True where the arm was not chosen by the policy; without it, the first pull of each arm, or with batches the first
            batch, whose choices had seen nothing; with delays both.
        held_out: a second reward of the same arm that the policy did not see, where one was drawn.
        draws: (steps, arms), what Thompson sampling drew for every arm before it chose, where that was recorded.
        lengths: (), how many of the steps were taken before a stopping rule ended the trial; what follows them is empty.
        policy_rewards: what the policy learned from, where that is another figure than `rewards`, which the question is about.
        batch_sizes: where several arms were chosen at once, how many: the choices of a batch have seen the rewards of the
            batches before it, and not its own. The same in every trial, and known before compilation.
        allocation: how a batch was shared out: "independent", each choice on its own, or "shares", as many pulls of each arm as
            its share of the batch, rounded up or down.
        seen_at: where rewards came late, for each step the number (from 0) of the last step that was chosen before its reward had
            arrived: the step itself where the next choice had seen it, and the number of steps or more where none ever had. The
            choice of step t has seen the rewards whose `seen_at` is below t, in whatever order they came. A tuple, the same in
            every trial, as `with_delay` makes it. When a reward arrives must not depend on the arm or on the reward.
        order_known: whether the steps of a batch are in their order, each with its own reward. False where they were made from
            counts: then their sums and squares are right and a method that needs more refuses them.
        squares_known: False where the counts had no sums of squares either, so that the rewards do not show how much they vary.
        is_padded: whether empty steps were appended, as `padded` does; then `lengths` is one number for all trials.

    >>> import jax.numpy as jnp
    >>> history = History(arms=jnp.array([0, 1, 1]), rewards=jnp.array([0.0, 1.0, 2.0]), num_arms=2)
    >>> history.statistics.mean.tolist(), history.forced_steps.tolist()
    ([0.0, 1.5], [True, True, False])
    """

    arms: Any  # (*trials, steps), as are the others; not checked, as JAX puts other things than arrays into its trees
    rewards: Any
    num_arms: int
    forced: Any = None
    held_out: Any = None
    draws: Any = None
    lengths: Any = None
    policy_rewards: Any = None
    batch_sizes: tuple[int, ...] | None = None
    allocation: str = "independent"
    seen_at: tuple[int, ...] | None = None
    order_known: bool = True
    squares_known: bool = True
    is_padded: bool = False

    @classmethod
    def from_counts(
        cls,
        pulls: Any,
        total: Any = None,
        *,
        successes: Any = None,
        squares: Any = None,
        forced: Any = None,
        allocation: str = "independent",
    ) -> "History":
        """A history from what each arm got in each period: a batch, whose choices have seen the periods before it.

        Its rows have the same sums and squares in each period. Every estimator that needs no more gives what it gives for the
        single pulls; the others refuse.

        Arguments:
            pulls: (periods, arms), or (arms,) for one period, in which nothing can have been adaptive.
            total: the sums of the rewards, in the same shape; or `successes`, where every reward is 0 or 1.
            successes: how many rewards were 1.
            squares: the sums of the squared rewards; without them, and without successes, sigma must be known.
            forced: (periods,), True where the arms were not chosen by the policy; without it, the first period.
            allocation: how a period was shared out, as in `History`.

        >>> history = History.from_counts([[50, 50], [20, 80]], successes=[[5, 9], [2, 15]])
        >>> history.statistics.pulls.tolist(), history.statistics.total.tolist(), history.batch_sizes
        ([70, 130], [7.0, 24.0], (100, 100))
        """
        counts = check_counts(pulls, total, successes, squares)
        arms, rewards, sizes = expand_counts(counts)
        by_step = None
        if forced is not None:
            given = np.asarray(forced)
            if given.shape != counts.pulls.shape[:1] or given.dtype != bool:
                allowed = f"True or False for each of {len(counts.pulls)} periods"
                raise ArgumentError("forced", given, allowed, problem=f"has shape {given.shape} and type {given.dtype}")
            by_step = np.repeat(given[counts.pulls.sum(axis=1) > 0], sizes)
        return cls(
            arms=arms,
            rewards=rewards,
            num_arms=counts.pulls.shape[1],
            forced=by_step,
            batch_sizes=sizes,
            allocation=allocation,
            order_known=False,
            squares_known=counts.binary or counts.squares is not None,
        )

    @property
    def num_steps(self) -> int:
        """How many pulls each trial has."""
        return jnp.shape(self.arms)[-1]

    @property
    def beyond_end(self) -> Bool[Array, "*trials steps"] | None:
        """Whether each step is one of the empty ones after the end of its trial; None where there are none."""
        if self.lengths is None:
            return None
        return jnp.arange(self.num_steps) >= jnp.asarray(self.lengths)[..., None]

    def padded(self) -> "History":
        """With empty steps at the end, up to one of a few lengths: logs of about the same length share compiled programs.

        A log with batches, delays or trials that a rule stopped stays as it is.
        """
        if self.batch_sizes is not None or self.seen_at is not None or self.lengths is not None:
            return self
        fields = {"arms": 0, "rewards": 0, "held_out": 0, "policy_rewards": 0}
        length, forced = padded_length(self.num_steps), np.asarray(self.forced_steps)
        given = {name: fill for name, fill in fields.items() if getattr(self, name) is not None}
        longer = {name: pad_axis(getattr(self, name), length, fill) for name, fill in given.items()}
        draws = None if self.draws is None else pad_axis(self.draws, length, 0, axis=-2)
        longer |= {"forced": pad_axis(forced, length, True), "draws": draws, "lengths": np.int32(self.num_steps)}
        return dataclasses.replace(self, is_padded=True, **longer)

    @property
    def statistics(self) -> ArmStatistics:
        """Pulls and summed rewards of each arm at the end: (arms,) or (trials, arms)."""
        return count(self.arms, self.rewards, self.num_arms, self.lengths)

    @property
    def forced_steps(self) -> Bool[Array, "*trials steps"]:
        """`forced`, or where it was not given, whether a step is the first pull of its arm, or one of the first batch."""
        if self.forced is not None:
            return as_array(self.forced)
        seen = self.seen_steps
        if seen is None:
            return _first_pulls(self.arms, self.num_arms)
        nothing_seen = jnp.broadcast_to(jnp.asarray(seen.number == 0), jnp.shape(self.arms))
        in_batches = self.seen_at is None or batches_of(self.seen_at) is not None
        return nothing_seen if in_batches else nothing_seen | _first_pulls(self.arms, self.num_arms)

    @property
    def seen_steps(self) -> Arrivals | None:
        """Which rewards each choice had seen, with batches or delays. None where it had seen all before it."""
        if self.seen_at is not None:
            return None if is_immediate(self.seen_at) else arrivals_of(self.seen_at)
        return None if self.batch_sizes is None else Arrivals(seen_by_batch(self.batch_sizes))

    @property
    def learned_from(self) -> Any:
        """What the policy learned from: `policy_rewards`, or the rewards."""
        return self.rewards if self.policy_rewards is None else self.policy_rewards

    def with_delay(self, delay: Any) -> "History":
        """The same log where the reward of each step came so many steps late: not seen by the next `delay` choices.

        Arguments:
            delay: 0 or more, a number of steps or one for each step. With 0 the next choice has seen the reward.

        >>> history = History(arms=np.array([0, 1, 1]), rewards=np.array([0.0, 1.0, 2.0]), num_arms=2)
        >>> history.with_delay(1).seen_at, history.with_delay(1).seen_steps.number.tolist()
        ((1, 2, 3), [0, 0, 1])
        """
        if self.batch_sizes is not None:
            allowed = "None for a log with batches, whose rewards are seen at the end of each"
            raise ArgumentError("delay", delay, allowed)
        return dataclasses.replace(self, seen_at=delayed(delay, self.num_steps))

    def trial(self, number: int) -> "History":
        """One trial of many, without what follows its end."""
        one: History = jax.tree.map(lambda leaf: leaf[number], self)
        return one if one.lengths is None else cut(one, int(one.lengths))


def cut(history: History, length: int) -> History:
    """The first steps of one trial."""
    sizes = history.batch_sizes
    if sizes is not None:
        ends = np.minimum(np.cumsum(sizes), length)
        sizes = tuple(int(size) for size in np.diff(ends, prepend=0) if size > 0)
    seen_at = None if history.seen_at is None else history.seen_at[:length]
    whole = dataclasses.replace(history, lengths=None, batch_sizes=None, seen_at=None)
    return dataclasses.replace(jax.tree.map(lambda leaf: leaf[:length], whole), batch_sizes=sizes, seen_at=seen_at)


def without_padding(history: History) -> History:
    """The steps of a padded history up to their end; another one as it is."""
    if not history.is_padded:
        return history
    length = int(history.lengths)
    short = dataclasses.replace(history, lengths=None, draws=None, is_padded=False)
    short = jax.tree.map(lambda leaf: as_array(np.asarray(leaf)[..., :length]), short)
    return dataclasses.replace(short, draws=None if history.draws is None else history.draws[..., :length, :])


def seen_by_batch(batch_sizes: tuple[int, ...]) -> Int[np.ndarray, " steps"]:
    """The first step of the batch of each step.

    >>> seen_by_batch((2, 1, 3)).tolist()
    [0, 0, 2, 3, 3, 3]
    """
    sizes = np.asarray(batch_sizes)
    return np.repeat(np.cumsum(sizes) - sizes, sizes)


@partial(jax.jit, static_argnames="num_arms")
@partial(jnp.vectorize, signature="(s),(s),()->(k),(k)", excluded=(3,))
def _count(arms: jax.Array, rewards: jax.Array, length: jax.Array, num_arms: int) -> tuple[jax.Array, jax.Array]:
    taken = jnp.arange(arms.shape[0]) < length
    pulls = jnp.zeros(num_arms, jnp.int32).at[arms].add(taken.astype(jnp.int32))
    return pulls, sum_by_arm(arms, jnp.where(taken, rewards, 0), num_arms)


def count(
    arms: Int[Array | np.ndarray, "*trials steps"],
    rewards: Float[Array | np.ndarray, "*trials steps"],
    num_arms: int,
    lengths: Int[Array | np.ndarray, "*trials"] | None = None,
) -> ArmStatistics:
    """Pulls and summed rewards of each arm, over all steps or the first `lengths`."""
    if is_concrete((arms, rewards, lengths)):
        return evaluate(partial(_count_known, num_arms=num_arms), arms, rewards, lengths)
    taken = jnp.asarray(jnp.shape(arms)[-1] if lengths is None else lengths)
    pulls, total = _count(jnp.asarray(arms), jnp.asarray(rewards), taken, num_arms)
    return ArmStatistics(pulls=pulls, total=total)


def _count_known(arms: Any, rewards: Any, lengths: Any, num_arms: int) -> ArmStatistics:
    """The same of what is known now, by NumPy: JAX would compile it for every length."""
    arms, values = np.asarray(arms), np.asarray(rewards)
    shape, steps = (*arms.shape[:-1], num_arms), arms.shape[-1]
    number = np.arange(arms.size // max(steps, 1)).reshape(*arms.shape[:-1], 1)
    place = (number * num_arms + arms).ravel()
    taken = np.ones(arms.shape, bool) if lengths is None else np.arange(steps) < np.asarray(lengths)[..., None]
    kept, size = np.broadcast_to(taken, arms.shape).ravel(), int(np.prod(shape))
    pulls = np.bincount(place[kept], minlength=size).reshape(shape)
    total = np.bincount(place[kept], weights=values.ravel()[kept], minlength=size).reshape(shape)
    return ArmStatistics(pulls=as_array(pulls.astype(np.int32)), total=as_array(total.astype(values.dtype)))


def pulls_of(arms: Int[Array | np.ndarray, "*trials steps"], num_arms: int) -> Int[Array, "*trials arms"]:
    """The pulls of each arm alone, where the rewards are not known."""
    return count(arms, jnp.zeros(arms.shape), num_arms).pulls


@partial(jax.jit, static_argnames="num_arms")
@partial(jnp.vectorize, signature="(s)->(s)", excluded=(1,))
def first_pulls(arms: Int[Array | np.ndarray, "*trials steps"], num_arms: int) -> Bool[Array, "*trials steps"]:
    """Whether each step is the first pull of its arm."""
    steps = jnp.arange(arms.shape[0])
    first = jnp.full(num_arms, arms.shape[0]).at[arms].min(steps)
    return first[arms] == steps


def _first_pulls(arms: Any, num_arms: int) -> Any:
    """`first_pulls`; by NumPy where the arms are known now."""
    if not is_concrete(arms):
        return first_pulls(arms, num_arms)
    known = np.asarray(arms)
    rows = known.reshape(-1, known.shape[-1])
    first = np.zeros(rows.shape, bool)
    for row, found in zip(rows, first, strict=True):
        found[np.unique(row, return_index=True)[1]] = True
    return evaluate(as_array, first.reshape(known.shape))


def check_history(history: History, two_rewards: bool = False) -> History:
    """The history as arrays, refused where an arm is unknown or a reward is not a finite number; one log up to its end.

    With `two_rewards`, the policy may have learned from another figure than the rewards.
    """
    check_kinds(history)
    arms, rewards = evaluate(as_array, history.arms), evaluate(as_float, history.rewards)
    if arms.shape != rewards.shape or arms.ndim not in (1, 2) or arms.shape[-1] == 0:
        problem = f"has arms of shape {arms.shape} and rewards of shape {rewards.shape}"
        raise ArgumentError("history", history, "arms and rewards of one shape, (steps,) or (trials, steps)", problem=problem)
    if not jnp.issubdtype(arms.dtype, jnp.integer):
        allowed = f"whole numbers from 0 to {history.num_arms - 1}"
        raise ArgumentError("history.arms", arms, allowed, problem=f"is of {arms.dtype}")
    if is_concrete((arms, rewards)):
        numbers = np.asarray(history.arms)  # as they were given: JAX cuts 2^32 to 0
        outside = (numbers < 0) | (numbers >= history.num_arms)
        refuse_first("history.arms", outside, numbers, f"from 0 to {history.num_arms - 1}")
        refuse_first("history.rewards", ~np.isfinite(rewards), rewards, "finite")
        check_carried(numbers, history.rewards, rewards, history.num_arms)
    check_marks(history, arms.shape)
    policy_rewards = _check_policy_rewards(history, rewards, two_rewards)
    _check_batches(history, arms.shape[-1])
    sizes, seen_at = check_arrivals(history.seen_at, history.batch_sizes, history.allocation, arms.shape[-1])
    checked = History(
        arms=evaluate(_as_int32, arms),
        rewards=rewards,
        num_arms=history.num_arms,
        forced=evaluate(lambda *_: as_array(history.forced_steps), history.arms, history.forced),
        held_out=None if history.held_out is None else as_float(history.held_out),
        draws=None if history.draws is None else as_float(history.draws),
        lengths=history.lengths,
        policy_rewards=policy_rewards,
        batch_sizes=sizes,
        allocation=history.allocation,
        seen_at=seen_at,
        order_known=history.order_known,
        squares_known=history.squares_known,
    )
    if history.lengths is None or arms.ndim == 2 or not is_concrete(history.lengths):
        return checked
    return cut(checked, int(history.lengths))


def _as_int32(arms: Array) -> Array:
    return as_array(np.asarray(arms).astype(np.int32)) if is_concrete(arms) else arms.astype(jnp.int32)


def check_whole(history: History, method: str) -> None:
    """Refuses trials of different lengths, for a method that takes one log of them at a time."""
    if history.lengths is not None:
        allowed = f"one of them for {method}, history.trial(0)"
        raise ArgumentError("history", history, allowed, problem="has trials that a rule stopped early")


def check_order(history: History, method: str) -> None:
    """Refuses a history made from counts, for a method that needs single rewards or their order."""
    if not history.order_known:
        allowed = f"one pull a row for {method}, which needs single rewards in their order"
        raise ArgumentError("history", history, allowed, problem="has counts")


def check_squares(history: History, method: str) -> None:
    """Refuses counts without sums of squares, for a method that needs to see how much the rewards vary."""
    if not history.squares_known:
        allowed = f"with sums of squares, or successes, for {method}, which needs to see how much the rewards vary"
        raise ArgumentError("history", history, allowed, problem="has counts without sums of squares")


def check_num_steps(num_steps: int | None, history: History, stop: Any) -> int:
    """The most steps an experiment could have had, where a rule could stop it."""
    if num_steps is None:
        return history.num_steps
    if num_steps > MOST_STEPS:
        raise ArgumentError("num_steps", num_steps, f"at most {MOST_STEPS}")
    if stop is None or num_steps < history.num_steps:
        allowed = lambda name: f"{history.num_steps}, as in the log, or more, and is only used with {name('stop')}"
        raise ArgumentError("num_steps", num_steps, allowed)
    return num_steps


def _check_batches(history: History, num_steps: int) -> None:
    if history.allocation not in ALLOCATIONS:
        raise ArgumentError("history.allocation", history.allocation, "'independent' or 'shares'")
    sizes = history.batch_sizes
    if sizes is not None and (not isinstance(sizes, tuple) or min(sizes, default=0) < 1 or sum(sizes) != num_steps):
        few = not isinstance(sizes, tuple) or len(sizes) <= FEW_SIZES
        shown = repr(sizes) if few else f"{len(sizes)} sizes that sum to {sum(sizes)}"
        allowed = f"a tuple of sizes, 1 or more, that sum to {num_steps} steps"
        raise ArgumentError("history.batch_sizes", sizes, allowed, problem=f"is {shown}")


def _check_policy_rewards(history: History, rewards: Array, allowed_here: bool) -> Any:
    if history.policy_rewards is None:
        return None
    if not allowed_here:
        allowed = "None for this method, which takes the rewards for what the policy saw; use jaxbias.analysis.two_rewards"
        raise ArgumentError("history.policy_rewards", history.policy_rewards, allowed, problem="is given")
    values = evaluate(as_float, history.policy_rewards)
    if values.shape != rewards.shape:
        allowed = f"of the shape of rewards, {rewards.shape}"
        raise ArgumentError("history.policy_rewards", values, allowed, problem=f"has shape {values.shape}")
    if is_concrete(values):
        refuse_first("history.policy_rewards", ~np.isfinite(values), values, "finite")
    return values


def check_not_delayed(history: History, method: str) -> None:
    """Refuses a log with delays other than batches, for a method that cannot follow them."""
    if history.seen_at is not None and check_history(history).seen_at is not None:
        allowed = f"without delays for {method}; mean_matching, bias_corrected and the weighting methods follow them"
        raise ArgumentError("history.seen_at", history.seen_at, allowed, problem="says that rewards came late")


def check_unit_rewards(history: History, policy: Any) -> None:
    """Refuses rewards outside 0 to 1 for a policy that counts them as successes and failures; of counts, the means."""
    if complete_policy(policy).unit_rewards and is_concrete(history.learned_from):
        if not history.order_known:
            mean = np.asarray(evaluate(lambda history: history.statistics.mean, history))
            allowed = f"counts of rewards from 0 to 1 for {policy_name(policy)}"
            if not ((mean >= 0) & (mean <= 1)).all():
                raise ArgumentError("history", history, allowed, problem="has an arm whose mean is outside 0 to 1")
            return
        seen = np.asarray(history.learned_from)
        name = "history.rewards" if history.policy_rewards is None else "history.policy_rewards"
        refuse_first(name, ~((seen >= 0) & (seen <= 1)), seen, f"from 0 to 1 for {policy_name(policy)}")


def first_unpulled(history: History) -> tuple[int, int] | None:
    """The first trial, and in it the first arm, without a single pull."""
    arms = np.atleast_2d(history.arms)
    pulled = np.zeros((arms.shape[0], history.num_arms), bool)
    np.put_along_axis(pulled, arms, True, axis=1)
    missing = np.argwhere(~pulled)
    return (int(missing[0, 0]), int(missing[0, 1])) if len(missing) else None


def by_trial(one: Callable[..., Any], history: History, *others: Any) -> Any:
    """`one(history, *others)` of one trial, or of each trial of several, as many at once as fit."""
    if history.arms.ndim == 1:
        return one(history, *others)
    at_once = NUMBERS_AT_ONCE // (history.num_steps * history.num_arms)
    size = max(1, min(at_once, history.arms.shape[0]))
    each, rebuild = split_shared((history, *others))
    return jax.lax.map(lambda leaves: one(*rebuild(leaves)), each, batch_size=size)
