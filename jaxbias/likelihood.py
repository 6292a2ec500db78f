"""The log-density of the rewards given the arms that were chosen (Theorem 2), up to its normaliser.

    sum over steps of   family.log_prob(reward, mean of its arm)   +   policy.log_probs(state before the step)[arm]

A forced pull has no second term. Where rewards came late, or in batches, a choice has the state after those that had arrived. For
a policy that looks at pulls and sums only, every state before a step is a running sum over one-hot arms, so the whole is a few
array operations of size steps x arms; for any other policy it is a scan over its own `update`.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from jaxbias._core.arrivals import Arrivals
from jaxbias._core.derivatives import held
from jaxbias._core.door import public
from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import compiled
from jaxbias._core.lengths import pad_axis
from jaxbias._core.settings import as_array, as_float, evaluate
from jaxbias.history import History, by_trial, check_history, check_unit_rewards
from jaxbias.policies import ArmStatistics, BasePolicy, Policy, check_policy, complete_policy
from jaxbias.rewards import Family, at_arm, check_family, check_sigma, complete_family

STEPS_AT_ONCE = 1024  # enough for the machine's vectors; what is kept for each may be thousands of numbers
SQUARES_AT_ONCE = 2**17  # steps x arms^2: the curves of an integral grow with the arms, as do its derivatives; under 1 GB
MOST_REPLAYED = 2**26  # steps x arms of one log: a dozen such arrays in the memory of a small machine
# Times the square root of the steps, times the machine's precision: how far the rounding of a running sum goes, a random walk.
ROUNDING = 2.0

Seen = Arrivals | None  # which rewards each choice had seen, where that is not all before it


@public
def log_density(history: History, policy: Policy, family: Family, mean: ArrayLike) -> Float[Array, "*trials"]:
    """The log-density of the rewards given the arms (Theorem 2), without its normaliser, which does not depend on the rewards.

        sum over steps of   log p(reward; mean of its arm)   +   log pi(arm; what was seen before the step)

    Forced pulls have no second term. It is differentiable in the rewards, the means and the settings of the policy and family.
    A derivative in tau where tau is 0 does not exist, and is NaN. Bernoulli and Poisson rewards move off the whole numbers as
    the statistic of an exponential family does.

    Arguments:
        history: one trial or many.
        policy: how the arms were chosen.
        family: what the rewards are, with its sigma.
        mean: (arms,), or one row for each of many trials.

    Returns:
        One number, or one for each trial.

    >>> import jax, jax.numpy as jnp, jaxbias as jb
    >>> history = jb.History(arms=jnp.array([0, 1, 1]), rewards=jnp.array([0.0, 1.0, 2.0]), num_arms=2)
    >>> round(float(jb.log_density(history, jb.Greedy(tau=1.0), jb.Normal(), jnp.zeros(2))), 4)
    -5.5701
    >>> jax.grad(lambda mean: jb.log_density(history, jb.Greedy(tau=1.0), jb.Normal(), mean))(jnp.zeros(2)).tolist()
    [0.0, 3.0]
    """
    checked, mean = check_history(history), as_float(mean)
    own_policy = check_policy(policy, history.num_arms)
    return _log_densities(own_policy, check_means(checked, family, mean), checked, mean)


def check_means(history: History, family: Family, mean: Array) -> Any:
    """The family, completed; refused where it has no sigma, or where the means are not one for each arm, or each trial's."""
    several = (*history.arms.shape[:-1], history.num_arms)
    if mean.shape not in ((history.num_arms,), several):
        allowed = f"of shape {(history.num_arms,)}" + ("" if len(several) == 1 else f" or {several}")
        raise ArgumentError("mean", mean, allowed, problem=f"has shape {mean.shape}")
    completed = check_family(held(family), held(mean))
    check_sigma(completed, "a likelihood")
    return complete_family(family)


@compiled
def _log_densities(policy: Policy, family: Any, history: History, mean: Array) -> Array:
    def one(trial: History, mean: Array) -> Array:
        beyond = None if trial.lengths is None else jnp.arange(trial.num_steps) >= trial.lengths
        forced = trial.forced_steps if beyond is None else trial.forced_steps | beyond
        chosen = selection_log_probs(policy, trial.arms, trial.rewards, forced, trial.num_arms, trial.seen_steps)
        return reward_log_prob(family, mean, trial.arms, trial.rewards, beyond) + jnp.sum(chosen)

    means = jnp.broadcast_to(mean, (*history.arms.shape[:-1], history.num_arms)).astype(history.rewards.dtype)
    return by_trial(one, history, means)


def trial_log_density(
    policy: Policy,
    family: Family,
    mean: Float[Array, " arms"],
    arms: Int[Array, " steps"],
    rewards: Float[Array, " steps"],
    forced: Bool[Array, " steps"],
    seen: Seen = None,
    before: ArmStatistics | None = None,
) -> Float[Array, ""]:
    """The log-density of one trial's rewards given its arms, without the normaliser; differentiable in rewards and means.

    A policy of pulls and sums needs not sum the rewards where those `before` each step are known.
    """
    if before is None:
        selection = selection_log_probs(policy, arms, rewards, forced, mean.shape[0], seen)
    else:
        selection = _of_chosen(over_steps(policy.log_probs, before), arms, forced)
    return reward_log_prob(family, mean, arms, rewards) + jnp.sum(selection)


def reward_log_prob(
    family: Family,
    mean: Float[Array, " arms"],
    arms: Int[Array, " steps"],
    rewards: Float[Array, " steps"],
    beyond: Bool[Array, " steps"] | None = None,
) -> Float[Array, ""]:
    """The log-density of the rewards had the arms been fixed in advance; steps beyond the end of a trial have none."""

    def one(arm: Int[Array, ""], reward: Float[Array, ""]) -> Float[Array, ""]:
        arm_family, arm_mean = at_arm((family, mean), arm, mean.shape[0])
        return arm_family.log_prob(reward, arm_mean)

    by_step = jax.vmap(one)(arms, rewards)
    return jnp.sum(by_step if beyond is None else jnp.where(beyond, 0, by_step))


def selection_log_probs(
    policy: Policy,
    arms: Int[Array, " steps"],
    rewards: Float[Array, " steps"],
    forced: Bool[Array, " steps"],
    num_arms: int,
    seen: Seen = None,
) -> Float[Array, " steps"]:
    """The log-probability with which each arm was chosen; 0 where it was forced."""
    return _of_chosen(choice_log_probs(policy, arms, rewards, num_arms, seen), arms, forced)


def _of_chosen(log_probs: Float[Array, "steps arms"], arms: Int[Array, " steps"], forced: Bool[Array, " steps"]) -> Array:
    return jnp.where(forced, 0, jnp.take_along_axis(log_probs, arms[:, None], axis=1)[:, 0])


def choice_log_probs(
    policy: Policy, arms: Int[Array, " steps"], rewards: Float[Array, " steps"], num_arms: int, seen: Seen = None
) -> Float[Array, "steps arms"]:
    """The log-probability of every arm at every step, read off the policy after the rewards that had arrived before it."""
    arms, rewards = by_arrival(seen, arms, rewards)
    if not complete_policy(policy).keeps_statistics:
        log_probs = _replayed_log_probs(policy, arms, rewards, num_arms)
        return log_probs if seen is None else log_probs[seen.number]
    before = statistics_before(arms, rewards, num_arms)
    if seen is None:
        return over_steps(policy.log_probs, before)
    starts, batch = np.unique(seen.number, return_inverse=True)
    return over_steps(policy.log_probs, jax.tree.map(lambda leaf: leaf[starts], before))[batch]


def by_arrival(seen: Seen, arms: Int[Array, " steps"], rewards: Float[Array, " steps"]) -> tuple[Array, Array]:
    """Arms and rewards in the order in which the rewards arrived."""
    return (arms, rewards) if seen is None or seen.order is None else (arms[seen.order], rewards[seen.order])


def statistics_seen(history: History) -> ArmStatistics:
    """Pulls and sums that each choice of one trial had seen, (steps, arms)."""
    seen = history.seen_steps
    before = statistics_before(*by_arrival(seen, history.arms, history.rewards), history.num_arms)
    return before if seen is None else jax.tree.map(lambda leaf: leaf[seen.number], before)


def choices_made(
    arms: Int[Array, " steps"], forced: Bool[Array, " steps"], num_arms: int, seen: Seen = None
) -> Int[Array, "steps arms"]:
    """How many choices of each arm were made from the state before each step: one, none, or those of a whole batch."""
    before = jnp.arange(arms.shape[0]) if seen is None else jnp.asarray(seen.number)
    return jnp.zeros((arms.shape[0], num_arms), jnp.int32).at[before, arms].add(1 - forced.astype(jnp.int32))


class Choices(NamedTuple):
    """What was chosen from the state before each step.

    Fields:
        arm: the one that was chosen, or forced; None where several may have been chosen at once, in a batch.
        number: how many choices of that arm, 1 or 0; or in a batch of each arm, (steps, arms).
    """

    arm: Int[Array, "*steps"] | None
    number: Int[Array, "*steps"] | Int[Array, "*steps arms"]


def log_prob_of_choices(choices: Choices, log_probs: Float[Array, " arms"]) -> Float[Array, ""]:
    """The log-probability of the choices made from one state, each on its own; 0 where nothing was chosen."""
    made = choices.number > 0
    if choices.arm is not None:  # the one arm is looked up: a quarter faster than a sum over all
        return jnp.where(made, log_probs[choices.arm], 0)
    return jnp.sum(jnp.where(made, choices.number.astype(log_probs.dtype) * jnp.where(made, log_probs, 0), 0))


def slope_of_choices(choices: Choices, jacobian: Float[Array, "choices arms"]) -> Float[Array, " arms"]:
    """The derivative of `log_prob_of_choices`, from that of the log-probabilities."""
    number = choices.number.astype(jacobian.dtype)
    return number @ jacobian if choices.arm is None else number * jacobian[choices.arm]


def over_steps(function: Callable[..., Any], *by_step: Any) -> Any:
    """The function at every step; in a long log not at all steps at once, as an integral needs much memory for each.

    What varies by step begins with an array of (steps, arms).
    """
    num_steps, num_arms = jax.tree.leaves(by_step)[0].shape
    at_once = max(min(STEPS_AT_ONCE, SQUARES_AT_ONCE // num_arms**2), 1)
    if num_steps <= at_once:
        return jax.vmap(function)(*by_step)
    return jax.lax.map(lambda step: function(*step), by_step, batch_size=at_once)


def statistics_before(
    arms: Int[Array, " steps"],
    rewards: Float[Array, " steps"],
    num_arms: int,
    sizes: Int[Array, " steps"] | None = None,
) -> ArmStatistics:
    """Pulls and sums before each step, (steps, arms): a running sum over one-hot arms. A step may be several pulls of an arm."""
    chosen = arms[:, None] == jnp.arange(num_arms, dtype=arms.dtype)[None]
    given = jnp.where(chosen, rewards[:, None], 0)
    pulled = chosen.astype(jnp.int32) if sizes is None else jnp.where(chosen, sizes[:, None], 0)
    return ArmStatistics(pulls=jnp.cumsum(pulled, axis=0) - pulled, total=jnp.cumsum(given, axis=0) - given)


def _replayed_log_probs(
    policy: Policy, arms: Int[Array, " steps"], rewards: Float[Array, " steps"], num_arms: int
) -> Float[Array, "steps arms"]:
    def body(state: Any, step: tuple[jax.Array, jax.Array]) -> tuple[Any, jax.Array]:
        after = jax.tree.map(lambda new, old: jnp.asarray(new).astype(old.dtype), policy.update(state, *step), state)
        return after, policy.log_probs(state)

    return jax.lax.scan(body, jax.tree.map(jnp.asarray, policy.init(num_arms)), (arms, rewards))[1]


def allow_rounding(
    policy: BasePolicy,
    arms: Int[Array, " steps"],
    rewards: Float[Array, " steps"],
    log_probs: Float[Array, "steps arms"],
    seen: Seen = None,
    precision: Any = None,
    length: Int[Array, ""] | None = None,
) -> Float[Array, "steps arms"]:
    """The log-probabilities, where a choice that only rounding makes impossible has the probability it has without.

    A policy without noise compares indices. Where two are nearly equal the last digits decide, and these depend on the precision
    and the order in which the rewards were summed when the arm was chosen. So at a step whose arm is impossible the policy is
    asked again, with the arm's own sum raised and the others' lowered by as much as rounding may have changed them.

    Arguments:
        precision: in which the arms were chosen; that of the rewards where it is not given.
        length: how many of the steps there are, where not all.
    """
    num_arms = log_probs.shape[1]
    if not policy.keeps_statistics or policy.log_prob_cost(num_arms) > 1:  # an integral leaves every arm a chance
        return log_probs
    by_arrival = slice(None) if seen is None or seen.order is None else seen.order
    before = statistics_before(arms[by_arrival], rewards[by_arrival], num_arms)
    size = statistics_before(arms[by_arrival], jnp.abs(rewards)[by_arrival], num_arms).total
    size = size + before.pulls.astype(size.dtype)
    before, size = (before, size) if seen is None else jax.tree.map(lambda leaf: leaf[seen.number], (before, size))
    own = arms[:, None] == jnp.arange(num_arms, dtype=arms.dtype)[None]
    steps = math.sqrt(len(arms)) if length is None else jnp.sqrt(length.astype(size.dtype))
    rounding = ROUNDING * steps * float(jnp.finfo(precision or size.dtype).eps) * size
    nearby = over_steps(policy.log_probs, before._replace(total=before.total + jnp.where(own, rounding, -rounding)))
    going = jnp.isfinite(jnp.max(log_probs, axis=1, keepdims=True))  # no rule has stopped the trial
    wrong = jnp.any(own & jnp.isneginf(log_probs) & jnp.isfinite(nearby), axis=1, keepdims=True)
    return jnp.where(wrong & going, nearby, log_probs)


def replayed_log_probs(policy: Policy, history: History) -> Float[Array, "*trials steps arms"]:
    """The log-probability of every arm at every step, read off the policy before the step."""
    check_unit_rewards(history, policy)
    check_replayed(history)
    return first_steps(_replayed(policy, history), history)


def check_replayed(history: History) -> None:
    """Refuses a log whose probabilities of all arms at all steps have no room: XLA ends the process where it finds no memory."""
    if (numbers := history.num_steps * history.num_arms) > MOST_REPLAYED:
        raise ArgumentError(
            "history",
            allowed=f"at most {MOST_REPLAYED:,}, because the policy gives every arm a probability in every row",
            subject="rows times arms",
            problem=f"is {numbers:,}",
            remedy="take the first rows of the log, or merge arms that were pulled once",
        )


@partial(compiled, pads=("history",))
def _replayed(policy: Policy, history: History) -> Array:
    def one(trial: History) -> Array:
        return choice_log_probs(policy, trial.arms, trial.learned_from, trial.num_arms, trial.seen_steps)

    return by_trial(one, history)


class Replayed(NamedTuple):
    """A log with something for each of its steps and arms, such as probabilities."""

    history: History
    values: Float[Array | np.ndarray, "*trials steps arms"]

    def padded(self) -> "Replayed":
        """Both, up to the same length."""
        history = self.history.padded()
        return Replayed(history, pad_axis(self.values, history.num_steps, 0, axis=-2)) if history.is_padded else self


def first_steps(values: Any, history: History) -> Any:
    """What a program gave for each step of a log and each arm, without the steps that it was padded with."""
    if values.shape[-2] == history.num_steps:
        return values
    return evaluate(as_array, np.asarray(values)[..., : history.num_steps, :])


def forgive_rounding(policy: BasePolicy, history: History, log_probs: ArrayLike) -> Float[Array, "steps arms"]:
    """The replayed log-probabilities of one log, with choices that rounding in float32 can explain."""
    replayed = Replayed(history, as_array(log_probs))
    return first_steps(_forgiven(policy, replayed), history)


@partial(compiled, pads=("replayed",))
def _forgiven(policy: BasePolicy, replayed: Replayed) -> Array:
    history, log_probs = replayed.history, jnp.asarray(replayed.values)
    return allow_rounding(policy, history.arms, history.learned_from, log_probs, history.seen_steps, jnp.float32, history.lengths)


def is_random(log_probs: np.ndarray) -> bool:
    """Whether the choices are random beyond breaking ties: at some step every arm has a chance, or two have different ones."""
    possible = np.isfinite(log_probs)
    uneven = possible & (log_probs < log_probs.max(axis=-1, keepdims=True))
    return bool(uneven.any() or possible.all(axis=-1).any())
