"""The two conditions under which the paper proves that sample means are too low: Exploit and IIO.

They are searched for a counterexample, over pairs of histories that differ only in what one arm gave:

    Exploit       with the same seed, an arm chosen when its mean was lower is chosen when its mean is higher
    IIO           what arm k gave does not matter for the choice among the others, given that k is not chosen
      conditional   Pr[i chosen | k not chosen] is the same (the paper's Definition 2)
      pathwise      with the same seed, if k is chosen in neither history, the same arm is (what its proofs use)

A seed must mean the same in both histories: the paper's random seed of a choice. `sample` of a policy is asked with one key.
"""

from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxbias.compiling import compiled
from jaxbias.policies import Policy, StatisticsPolicy, check_policy, sample_arm
from jaxbias.rewards import Bernoulli, Family, Normal

TOLERANCE = 1e-4  # of a probability: ten times the error of the quadrature behind Thompson's
LONGEST = 12  # steps in a history: enough for every pattern of pulls that matters, short enough to read


class Counterexample(NamedTuple):
    """Two histories that break a condition; they differ in the rewards of `arm` only.

    `jax.random.key(seed)` is the key with which `chosen` and `other_chosen` were drawn after each.
    """

    arm: int
    arms: np.ndarray
    rewards: np.ndarray
    other_rewards: np.ndarray
    seed: int
    chosen: int
    other_chosen: int
    probability: float
    other_probability: float
    explanation: str


class CheckResult(NamedTuple):
    """Whether a counterexample was found among the cases tried."""

    condition: str
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
    policy: Policy, *, num_arms: int = 3, num_cases: int = 10_000, seed: int = 0, family: Family | None = None
) -> CheckResult:
    """Searches for histories in which an arm is dropped because it did better.

    Arguments:
        policy: the policy to check.
        num_arms: how many arms, two or more.
        num_cases: pairs of histories tried.
        seed: another seed tries others.
        family: what the rewards in the histories are; by default Normal, or 0 and 1 for a policy that needs them.

    >>> import jaxbias as jb
    >>> jb.check_exploit(jb.LilUCB()).holds
    True
    """
    cases = _cases(policy, num_arms, num_cases, seed, family)
    rows = np.arange(num_cases)
    low = np.argmin(cases.mean, axis=0)
    lower, higher = cases.chosen[low, rows], cases.chosen[1 - low, rows]
    broken = (lower == cases.arm) & (higher != cases.arm)
    probability = np.exp(cases.log_probs[:, rows, cases.arm])
    text = "arm {arm} is chosen where its mean is {means[0]:.3g} and not where it is {means[1]:.3g}, all else equal"
    return _result("Exploit", cases, broken, probability, low, seed, text)


def check_iio(
    policy: Policy,
    *,
    form: Literal["conditional", "pathwise"] = "conditional",
    num_arms: int = 3,
    num_cases: int = 10_000,
    seed: int = 0,
    family: Family | None = None,
) -> CheckResult:
    """Searches for histories in which what one arm gave decides between two others.

    Arguments:
        form: "conditional", as the paper's Definition 2 has it, or "pathwise", as its proofs use it.
        policy, num_arms, num_cases, seed, family: as in `check_exploit`.

    >>> import jaxbias as jb
    >>> jb.check_iio(jb.EpsilonGreedy()).holds, jb.check_iio(jb.EpsilonGreedy(), form="pathwise").holds
    (False, True)
    """
    if form not in ("conditional", "pathwise"):
        raise ValueError(f"form is {form!r}; allowed: 'conditional' or 'pathwise'")
    cases = _cases(policy, num_arms, num_cases, seed, family)
    given = _given_not_chosen(cases)
    rows, first = np.arange(num_cases), np.zeros(num_cases, int)
    if form == "conditional":
        other = np.nan_to_num(np.abs(given[0] - given[1])).argmax(axis=1)
        probability = given[:, rows, other]
        broken = np.nan_to_num(np.abs(probability[0] - probability[1])) > TOLERANCE
        text = "given that arm {arm} is not chosen, arm {other} is chosen with another probability after each history"
    else:
        other = cases.chosen[0]
        probability = given[:, rows, other]
        broken = (cases.chosen != cases.arm).all(axis=0) & (cases.chosen[0] != cases.chosen[1])
        text = "arm {arm} is chosen after neither history, and yet with the same seed another arm is"
    return _result(f"IIO ({form})", cases, broken, probability, first, seed, text, other)


def _given_not_chosen(cases: Cases) -> np.ndarray:
    """Pr[i chosen | arm k not chosen]; NaN where k is chosen for sure."""
    log_probs = np.array(cases.log_probs, np.float64)
    np.put_along_axis(log_probs, np.broadcast_to(cases.arm[None, :, None], (2, len(cases.arm), 1)), -np.inf, axis=2)
    probability = np.exp(log_probs)
    total = probability.sum(axis=2, keepdims=True)
    # What is left when k is nearly sure is the rounding of the policy's own arithmetic.
    return np.where(total > 1e-3, probability / np.maximum(total, 1e-3), np.nan)


def _result(
    condition: str,
    cases: Cases,
    broken: np.ndarray,
    probability: np.ndarray,
    first: np.ndarray,
    seed: int,
    text: str,
    other: np.ndarray | None = None,
) -> CheckResult:
    """The shortest history among those that break the condition; `first` says which of the two is named first."""
    if not broken.any():
        return CheckResult(condition=condition, holds=True, num_cases=len(broken), counterexample=None)
    row = int(np.where(broken, cases.length, LONGEST + cases.arms.shape[1]).argmin())
    length, order = cases.length[row], [first[row], 1 - first[row]]
    names = {"arm": cases.arm[row], "means": cases.mean[order, row], "other": None if other is None else other[row]}
    example = Counterexample(
        arm=int(cases.arm[row]),
        arms=cases.arms[row, :length],
        rewards=cases.rewards[order[0], row, :length],
        other_rewards=cases.rewards[order[1], row, :length],
        seed=_case_seed(seed, row),
        chosen=int(cases.chosen[order[0], row]),
        other_chosen=int(cases.chosen[order[1], row]),
        probability=float(probability[order[0], row]),
        other_probability=float(probability[order[1], row]),
        explanation=text.format(**names),
    )
    return CheckResult(condition=condition, holds=False, num_cases=len(broken), counterexample=example)


def _case_seed(seed: int, row: int) -> int:
    return (seed * 1_000_003 + row) % 2**31  # a prime apart, so that two runs share no seeds


def _cases(policy: Policy, num_arms: int, num_cases: int, seed: int, family: Family | None) -> Cases:
    if num_arms < 2:
        raise ValueError(f"num_arms is {num_arms}; allowed: 2 or more, as a choice needs two arms")
    if num_cases < 1:
        raise ValueError(f"num_cases is {num_cases}; allowed: 1 or more")
    check_policy(policy, num_arms)
    if family is None:
        family = Bernoulli() if getattr(policy, "unit_rewards", False) else Normal()
    seeds = jnp.asarray([_case_seed(seed, row) for row in range(num_cases)], jnp.uint32)
    run = partial(_run_cases, num_arms=num_arms, max_steps=max(LONGEST, 2 * num_arms))
    cases = Cases(*map(np.asarray, run(policy, family, seeds)))
    if np.isnan(cases.log_probs).any():
        raise ValueError("policy.log_probs returns NaN on these rewards; allowed: a family of rewards that the policy takes")
    return cases


@partial(compiled, static=("num_arms", "max_steps"))
def _run_cases(policy: Policy, family: Family, seeds: jax.Array, num_arms: int, max_steps: int) -> Cases:
    def case(seed: jax.Array) -> Cases:
        key = jax.random.key(seed)
        arm_key, length_key, order_key, reward_key = jax.random.split(jax.random.fold_in(key, 1), 4)
        arm = jax.random.randint(arm_key, (), 0, num_arms)
        length = jax.random.randint(length_key, (), num_arms, max_steps + 1)
        drawn = jax.random.randint(order_key, (max_steps,), 0, num_arms)
        arms = jnp.where(jnp.arange(max_steps) < num_arms, jnp.arange(max_steps), drawn)
        rewards = family.sample(reward_key, jnp.full((2, max_steps), 0.5))
        rewards = jnp.where(seed % 2 == 0, jnp.round(rewards), rewards)  # whole numbers tie
        rewards = rewards.at[1].set(jnp.where(arms == arm, rewards[1], rewards[0]))
        after = partial(_after_history, policy, num_arms, key, arms, length)
        statistics, chosen, log_probs = jax.vmap(after)(rewards)
        mean = statistics.mean[:, arm]
        return Cases(arm, arms, rewards, length, mean, chosen, log_probs)

    order = Cases(arm=0, arms=0, rewards=1, length=0, mean=1, chosen=1, log_probs=1)
    return jax.vmap(case, out_axes=order)(seeds)


def _after_history(
    policy: Policy, num_arms: int, key: jax.Array, arms: jax.Array, length: jax.Array, rewards: jax.Array
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
    by_quantile = getattr(policy, "sample_by_quantile", None)
    chosen = sample_arm(key, policy, state) if by_quantile is None else by_quantile(key, state)
    return statistics, chosen, policy.log_probs(state)
