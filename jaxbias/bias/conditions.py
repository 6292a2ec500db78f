"""The two conditions under which the paper proves that sample means are too low: Exploit and IIO.

They are searched for a counterexample, over pairs of histories that differ only in what one arm gave:

    Exploit       with the same seed, an arm chosen when its mean was lower is chosen when its mean is higher
    IIO           what arm k gave does not matter for the choice among the others, given that k is not chosen
      conditional   Pr[i chosen | k not chosen] is the same (the paper's Definition 2)
      pathwise      with the same seed, if k is chosen in neither history, the same arm is (what its proofs use)

A seed must mean the same in both histories: the paper's random seed of a choice. The policy draws in both with one key.
"""

import enum
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import compiled
from jaxbias.policies import BasePolicy, Policy, StatisticsPolicy, check_policy
from jaxbias.rewards import Bernoulli, Family, Normal

TOLERANCE = 1e-4  # of a probability: ten times the error of the quadrature behind Thompson's
LONGEST = 12  # steps in a history: enough for every pattern of pulls that matters, short enough to read
MOST_ARMS = 1000  # a history pulls each arm twice: 10,000 of them take a minute
MOST_CASES = 10**8  # times arms: half a GB for their probabilities


class Condition(enum.StrEnum):
    """What is checked."""

    EXPLOIT = "Exploit"
    IIO_CONDITIONAL = "IIO (conditional)"
    IIO_PATHWISE = "IIO (pathwise)"


class Counterexample(NamedTuple):
    """Two histories that break a condition; they differ in the rewards of `arm` only.

    `jax.random.fold_in(key, case)` is the key with which `chosen` and `other_chosen` were drawn after each. `mean` and
    `other_mean` are the sample means of `arm`, `compared` is the arm whose probability differs.
    """

    arm: int
    arms: np.ndarray
    rewards: np.ndarray
    other_rewards: np.ndarray
    case: int
    chosen: int
    other_chosen: int
    probability: float
    other_probability: float
    mean: float
    other_mean: float
    compared: int | None


class CheckResult(NamedTuple):
    """Whether a counterexample was found among the cases tried."""

    condition: Condition
    holds: bool
    num_cases: int
    counterexample: Counterexample | None


class Cases(NamedTuple):
    """Pairs of histories, one pair a row, and what the policy does after each of the two."""

    arm: Any
    arms: Any
    rewards: Any
    length: Any
    mean: Any
    chosen: Any
    log_probs: Any


def check_exploit(
    key: PRNGKeyArray, policy: Policy, *, num_arms: int = 3, num_cases: int = 10_000, family: Family | None = None
) -> CheckResult:
    """Searches for histories in which an arm is dropped because it did better.

    Arguments:
        key: a `jax.random.key`; another key tries other histories.
        policy: the policy to check.
        num_arms: how many arms, two or more.
        num_cases: pairs of histories tried.
        family: what the rewards in the histories are; by default Normal, or 0 and 1 for a policy that needs them.

    >>> import jax, jaxbias as jb
    >>> check_exploit(jax.random.key(0), jb.LilUCB()).holds
    True
    """
    cases = _cases(key, policy, num_arms, num_cases, family)
    rows = np.arange(num_cases)
    low = np.argmin(cases.mean, axis=0)
    lower, higher = cases.chosen[low, rows], cases.chosen[1 - low, rows]
    broken = (lower == cases.arm) & (higher != cases.arm)
    probability = np.exp(cases.log_probs[:, rows, cases.arm])
    return _result(Condition.EXPLOIT, cases, broken, probability, low)


def check_iio(
    key: PRNGKeyArray,
    policy: Policy,
    *,
    form: Literal["conditional", "pathwise"] = "conditional",
    num_arms: int = 3,
    num_cases: int = 10_000,
    family: Family | None = None,
) -> CheckResult:
    """Searches for histories in which what one arm gave decides between two others.

    Arguments:
        form: "conditional", as the paper's Definition 2 has it, or "pathwise", as its proofs use it.
        key, policy, num_arms, num_cases, family: as in `check_exploit`.

    >>> import jax, jaxbias as jb
    >>> [check_iio(jax.random.key(0), jb.EpsilonGreedy(), form=form).holds for form in ("conditional", "pathwise")]
    [False, True]
    """
    if form not in ("conditional", "pathwise"):
        raise ArgumentError("form", form, "'conditional' or 'pathwise'")
    cases = _cases(key, policy, num_arms, num_cases, family)
    given = _given_not_chosen(cases)
    rows, first = np.arange(num_cases), np.zeros(num_cases, int)
    if form == "conditional":
        other = np.nan_to_num(np.abs(given[0] - given[1])).argmax(axis=1)
        probability = given[:, rows, other]
        broken = np.nan_to_num(np.abs(probability[0] - probability[1])) > TOLERANCE
    else:
        other = cases.chosen[0]
        probability = given[:, rows, other]
        broken = (cases.chosen != cases.arm).all(axis=0) & (cases.chosen[0] != cases.chosen[1])
    condition = Condition.IIO_CONDITIONAL if form == "conditional" else Condition.IIO_PATHWISE
    return _result(condition, cases, broken, probability, first, other)


def _given_not_chosen(cases: Cases) -> np.ndarray:
    """Pr[i chosen | arm k not chosen]; NaN where k is chosen for sure."""
    log_probs = np.array(cases.log_probs, np.float64)
    np.put_along_axis(log_probs, np.broadcast_to(cases.arm[None, :, None], (2, len(cases.arm), 1)), -np.inf, axis=2)
    probability = np.exp(log_probs)
    total = probability.sum(axis=2, keepdims=True)
    # What is left when k is nearly sure is the rounding of the policy's own arithmetic.
    return np.where(total > 1e-3, probability / np.maximum(total, 1e-3), np.nan)


def _result(
    condition: Condition,
    cases: Cases,
    broken: np.ndarray,
    probability: np.ndarray,
    first: np.ndarray,
    other: np.ndarray | None = None,
) -> CheckResult:
    """The shortest history among those that break the condition; `first` says which of the two is named first."""
    if not broken.any():
        return CheckResult(condition=condition, holds=True, num_cases=len(broken), counterexample=None)
    row = int(np.where(broken, cases.length, LONGEST + cases.arms.shape[1]).argmin())
    length, order = cases.length[row], [first[row], 1 - first[row]]
    mean, other_mean = cases.mean[order, row].tolist()
    example = Counterexample(
        arm=int(cases.arm[row]),
        arms=cases.arms[row, :length],
        rewards=cases.rewards[order[0], row, :length],
        other_rewards=cases.rewards[order[1], row, :length],
        case=row,
        chosen=int(cases.chosen[order[0], row]),
        other_chosen=int(cases.chosen[order[1], row]),
        probability=float(probability[order[0], row]),
        other_probability=float(probability[order[1], row]),
        mean=mean,
        other_mean=other_mean,
        compared=None if other is None else int(other[row]),
    )
    return CheckResult(condition=condition, holds=False, num_cases=len(broken), counterexample=example)


def _cases(key: PRNGKeyArray, policy: Policy, num_arms: int, num_cases: int, family: Family | None) -> Cases:
    if not 2 <= num_arms <= MOST_ARMS:
        raise ArgumentError("num_arms", num_arms, f"2 to {MOST_ARMS}, as a choice needs two arms")
    if not 1 <= num_cases <= MOST_CASES // num_arms:
        raise ArgumentError("num_cases", num_cases, f"1 to {MOST_CASES // num_arms} with {num_arms} arms")
    completed = check_policy(policy, num_arms)
    if family is None:
        family = Bernoulli() if completed.unit_rewards else Normal()
    run = partial(_run_cases, num_cases=num_cases, num_arms=num_arms, max_steps=max(LONGEST, 2 * num_arms))
    cases = Cases(*map(np.asarray, run(key, completed, family)))
    if np.isnan(cases.log_probs).any():
        allowed = "a family whose rewards the policy can use: its log_probs are NaN on these"
        raise ArgumentError("family", family, allowed)
    return cases


@partial(compiled, static=("num_cases", "num_arms", "max_steps"))
def _run_cases(root: PRNGKeyArray, policy: Any, family: Family, num_cases: int, num_arms: int, max_steps: int) -> Cases:
    def case(number: jax.Array) -> Cases:
        key = jax.random.fold_in(root, number)
        arm_key, length_key, order_key, reward_key = jax.random.split(jax.random.fold_in(key, 1), 4)
        arm = jax.random.randint(arm_key, (), 0, num_arms)
        length = jax.random.randint(length_key, (), num_arms, max_steps + 1)
        drawn = jax.random.randint(order_key, (max_steps,), 0, num_arms)
        arms = jnp.where(jnp.arange(max_steps) < num_arms, jnp.arange(max_steps), drawn)
        rewards = family.sample(reward_key, jnp.full((2, max_steps), 0.5))
        rewards = jnp.where(number % 2 == 0, jnp.round(rewards), rewards)  # whole numbers tie
        rewards = rewards.at[1].set(jnp.where(arms == arm, rewards[1], rewards[0]))
        after = partial(_after_history, policy, num_arms, key, arms, length)
        statistics, chosen, log_probs = jax.vmap(after)(rewards)
        mean = statistics.mean[:, arm]
        return Cases(arm, arms, rewards, length, mean, chosen, log_probs)

    order = Cases(arm=0, arms=0, rewards=1, length=0, mean=1, chosen=1, log_probs=1)
    return jax.vmap(case, out_axes=order)(jnp.arange(num_cases, dtype=jnp.uint32))


def _after_history(
    policy: BasePolicy, num_arms: int, key: jax.Array, arms: jax.Array, length: jax.Array, rewards: jax.Array
) -> tuple[Any, jax.Array, jax.Array]:
    """What the policy does after this history: its statistics, the arm it draws with the key, its log-probabilities."""
    counter = StatisticsPolicy()

    def body(states: Any, step: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[Any, None]:
        number, arm, reward = step
        new = (policy.update(states[0], arm, reward), counter.update(states[1], arm, reward))
        keep = partial(jnp.where, number < length)
        return jax.tree.map(lambda new, old: keep(new, old).astype(old.dtype), new, states), None

    start = jax.tree.map(jnp.asarray, (policy.init(num_arms), counter.init(num_arms)))
    (state, statistics), _ = jax.lax.scan(body, start, (jnp.arange(arms.shape[0]), arms, rewards))
    return statistics, policy.sample_by_quantile(key, state), policy.log_probs(state)
