"""The unbiased estimate: the first reward of each arm, averaged over all the orders in which the log could have come about.

An arm's first reward is unbiased, as its pull was forced. Given how often each arm was pulled and the set of each arm's rewards,
all orders of them are equally likely but for the policy's probabilities, whatever the distribution of the rewards. So the
expected first reward given these is unbiased too, and varies less (Rao 1945, Blackwell 1947; Bowden and Trippa 2017 for trials).
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PRNGKeyArray

from jaxbias._core.chunks import LogChunks, as_many, log_keys, only_one, split_logs
from jaxbias._core.door import public
from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import compiled
from jaxbias._core.settings import is_concrete
from jaxbias.estimators.checks import check_log
from jaxbias.estimators.estimate import Estimate
from jaxbias.estimators.unbiased.averaging import Chain
from jaxbias.estimators.unbiased.chains import COSTLY, WITH_NOISE, WITHOUT_NOISE, Moves, run_chain
from jaxbias.estimators.unbiased.enumeration import all_orders, average_over_orders, count_orders, log_weights, rule_looks
from jaxbias.estimators.unbiased.grid import num_nodes
from jaxbias.estimators.unbiased.grid_chains import run_grid_chains
from jaxbias.estimators.unbiased.lengths import by_length, check_lengths
from jaxbias.estimators.unbiased.openings import check_opening, opening_pulls, opening_steps
from jaxbias.estimators.unbiased.orders import Question, Setup
from jaxbias.estimators.unbiased.own_draws import run_drawn_chains
from jaxbias.estimators.unbiased.results import Averages, from_chains, to_estimate
from jaxbias.history import History, check_not_delayed, check_order, check_unit_rewards
from jaxbias.likelihood import is_random, replayed_log_probs
from jaxbias.policies import BasePolicy, Policy, check_policy
from jaxbias.rewards import BaseFamily, Family, Normal
from jaxbias.stopping import StoppingRule, check_stop

CHAINS, LONG_CHAINS = 8, 4  # those with draws in their state mix slowly, and cost as much for each round of each chain
MOST_ORDERS = 5_000  # of one log that are enumerated: less work than the chains
FEWEST_ROUNDS, MOST_ROUNDS = 20, 400  # of the chains: the most by default
MOST_COSTLY_ROUNDS = 4 * MOST_ROUNDS  # a round of a costly policy evaluates every choice three times, another's twelve
OWN_DRAWS = 60_000_000  # steps x arms x chains x rounds of the chains that have draws: most of a minute on one core
ON_GRID = 1_800_000_000  # and x nodes, of those on a grid: a minute of processor time, half of it by the clock of two cores
MOST_GRID_ROUNDS = 800  # of theirs, each of which draws every arm's times anew
FEWEST_GRID_ROUNDS = 50  # of four chains in that time; a log too long for them has the other chains
GRID_STEPS_AT_ONCE = 2**16  # logs x chains x steps held together by them: each has some arrays of nodes
INTEGRALS = 50_000_000  # log-probabilities in units of a closed form, in a minute on one core
STEPS_AT_ONCE = 2**20  # logs x chains x steps held together: each has a log-probability of every arm


@public
def unbiased(
    key: PRNGKeyArray,
    history: History,
    policy: Policy,
    family: Family | None = None,
    *,
    level: float = 0.95,
    num_chains: int | None = None,
    num_rounds: int | None = None,
    stop: StoppingRule | None = None,
) -> Estimate:
    """Each arm's expected first reward, given its pulls and the set of its rewards: unbiased for any policy and any rewards.

    Its variance is that of a reward less the variance of the first reward over the orders: so it is larger than the sample mean's
    where the policy left few orders. Where the orders are few they are enumerated. Otherwise Markov chains go over them from the
    log itself, which is one of them with the right distribution: the average is unbiased for any number of rounds, and fewer
    rounds only add to the variance, which the standard error includes.

    For Bernoulli rewards the standard error is the distance of the estimate from the sample mean, with that mean's own error.
    The intervals are wide; those of `test_inversion` are much shorter.

    Arguments:
        key: a `jax.random.key`.
        history: one trial or many; where a rule stopped them, each length is compiled for. The first pull of each arm must have
            been forced, before the policy's first choice; several such pulls of an arm are averaged. Batches of independent
            choices are allowed, batches of shares not.
        policy: how the arms were chosen. It must be exact: an order of the rewards after which it would not have made these
            pulls has the weight 0.
        family: what the rewards are, where known. The estimate depends on it only for a `Normal` with its sigma: then
            the average is over all rewards with the same sums, and varies less. Any other family is used for the variance of a
            reward. Without one the arm's sample variance is used, which takes two pulls: an arm with one pull then has its reward
            as the estimate, no standard error and no interval (status `PULLED_ONCE`). `Normal(sigma=None)` estimates one sigma
            for all arms, so that such an arm has both.
        level: of the intervals.
        num_chains, num_rounds: of the Markov chains, where they are needed; by default 8, or 4 longer ones under Thompson
            sampling, with the rounds that take less than a minute for a log of 1,000 steps and 10 arms.
        stop: the rule that ended the experiment, or could have. The estimate is then also given the number of steps, and an order
            that the rule would have stopped earlier has the weight 0.

    Returns:
        An `Estimate`; an arm that was never pulled is not a number. Diagnostics: `orders`, how many were enumerated, 0 with
        chains; `effective_sample_size`, `r_hat`, `acceptance` and `monte_carlo_error` of the chains. An arm whose first reward
        never changed in any chain has no effective samples and an infinite `r_hat`. Where chains are apart
        (status `CHAINS_APART`) the estimate is still unbiased and its standard error right, but longer chains would lower it.

    >>> import jax, jaxbias as jb
    >>> policy = jb.Greedy()
    >>> history = jb.simulate(jax.random.key(0), policy, jb.Bernoulli(), [0.6, 0.4], num_steps=8)
    >>> estimate = jb.unbiased(jax.random.key(1), history, policy, jb.Bernoulli())
    >>> int(estimate.diagnostics["orders"]) > 0, bool((estimate.mean >= 0).all())
    (True, True)
    """
    checked, completed = check_log(history, family, level)
    check_lengths(checked, stop)
    check_order(checked, "unbiased")
    check_not_delayed(checked, "unbiased")
    own_policy = check_policy(policy, history.num_arms)
    check_unit_rewards(checked, own_policy)
    check_stop(stop, history.num_arms)
    num_chains = (LONG_CHAINS if _has_draws(own_policy, history.num_arms) else CHAINS) if num_chains is None else num_chains
    num_rounds = _default_rounds(own_policy, checked, stop, num_chains) if num_rounds is None else num_rounds
    if num_rounds < FEWEST_ROUNDS:
        raise ArgumentError("num_rounds", num_rounds, f"{FEWEST_ROUNDS} or more")
    if num_chains < 2:
        raise ArgumentError("num_chains", num_chains, "2 or more")
    check_opening(checked)
    single = checked.arms.ndim == 1
    logs = as_many(checked) if single else checked

    def ask(keys: Any, logs: History) -> Estimate:
        averages = _averages(keys, logs, own_policy, completed, stop, num_chains, num_rounds)
        return to_estimate(averages, logs, completed, opening_pulls(logs), level)

    keys = log_keys(key, logs.arms.shape[0])
    estimate = ask(keys, logs) if logs.lengths is None else by_length(ask, keys, logs)
    return only_one(estimate) if single else estimate


def _default_rounds(policy: BasePolicy, history: History, stop: Any, num_chains: int) -> int:
    """Fewer for a policy whose probabilities are integrals: as many evaluations as take a minute."""
    cost = policy.log_prob_cost(history.num_arms)
    if _is_on_grid(policy, history, stop):
        return int(np.clip(ON_GRID // (num_chains * _grid_work(history)), FEWEST_ROUNDS, MOST_GRID_ROUNDS))
    if _has_draws(policy, history.num_arms):
        rounds = OWN_DRAWS // (num_chains * history.num_steps * history.num_arms)
        return int(np.clip(rounds, FEWEST_ROUNDS, 2 * MOST_COSTLY_ROUNDS))  # as its chains are half as many
    each = int(num_chains * history.num_steps * cost * COSTLY.evaluations)
    return MOST_ROUNDS if cost <= 1 else int(np.clip(INTEGRALS // each, FEWEST_ROUNDS, MOST_COSTLY_ROUNDS))


def _has_draws(policy: BasePolicy, num_arms: int) -> bool:
    """Whether the chains have the draws of the policy in their state."""
    return policy.log_prob_cost(num_arms) > 1 and policy.has_own_draw


def _is_on_grid(policy: BasePolicy, history: History, stop: Any) -> bool:
    """Whether the chains draw an arm's times and rewards as one: where the policy looks at every step, in not too long a log.

    No pull was forced after the first choice: windows end there, so that no arm's pulls would ever go beyond it.
    """
    if not _has_draws(policy, history.num_arms) or stop is not None or history.seen_steps is not None:
        return False
    if FEWEST_GRID_ROUNDS * LONG_CHAINS * _grid_work(history) > ON_GRID or not is_concrete(history):
        return False
    forced = np.asarray(history.forced_steps)
    return not np.any(forced[..., 1:] & ~forced[..., :-1])


def _grid_work(history: History) -> int:
    return history.num_steps * history.num_arms * num_nodes(history.num_steps)


class Parts(NamedTuple):
    """Which logs are enumerated, and which go to the chains."""

    few: list[int]
    many: list[int]


def _averages(keys: Any, logs: History, policy: Any, family: BaseFamily, stop: Any, num_chains: int, num_rounds: int) -> Averages:
    """Of each log, exact or by chains."""
    sums_only = isinstance(family, Normal)
    parts = Parts([], list(range(logs.arms.shape[0])))
    if is_concrete(logs) and not sums_only:
        columns = [np.asarray(column) for column in (logs.arms, logs.rewards, logs.forced)]
        few = [count_orders(*rows) <= MOST_ORDERS for rows in zip(*columns, strict=True)]
        parts = Parts([row for row, is_few in enumerate(few) if is_few], [row for row, is_few in enumerate(few) if not is_few])
    found = []
    if parts.few:
        found.append(_enumerate(jax.tree.map(lambda leaf: leaf[np.array(parts.few)], logs), policy, stop))
    if parts.many:
        some, own_keys = (logs, keys)
        if parts.few:
            some, own_keys = jax.tree.map(lambda leaf: leaf[np.array(parts.many)], (logs, keys))
        on_grid = _is_on_grid(policy, logs, stop)
        at_once = (GRID_STEPS_AT_ONCE if on_grid else STEPS_AT_ONCE) // (num_chains * logs.num_steps)
        chunks = split_logs(max(at_once, 1), (own_keys, some, policy, family))
        moves = _moves(policy, some)
        given = (num_chains, num_rounds, sums_only, moves, on_grid, chunks)
        chains = chunks.collect(_run(own_keys, some, policy, family, stop, *given))
        found.append(from_chains(chains, _movable(some)))
    order = np.argsort(np.array(parts.few + parts.many), kind="stable")
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[order], *found) if len(found) > 1 else found[0]


def _enumerate(logs: History, policy: Any, stop: Any) -> Averages:
    """Every order of each log, replayed together."""
    arms, rewards, forced = (np.asarray(column) for column in (logs.arms, logs.rewards, logs.forced))
    orders = [all_orders(*rows) for rows in zip(arms, rewards, forced, strict=True)]
    sizes = np.array([len(order[0]) for order in orders])
    all_arms, all_rewards = (np.concatenate(values) for values in zip(*orders, strict=True))
    all_forced = np.repeat(forced, sizes, axis=0)
    starts = logs.seen_steps and logs.seen_steps.number
    weights = log_weights(policy, stop, all_arms, all_rewards, all_forced, logs.num_arms, starts, logs.rewards.dtype)
    opening = (np.cumsum(~all_forced, axis=1) == 0)[..., None] & (all_arms[..., None] == np.arange(logs.num_arms))
    first = np.einsum("osk,os->ok", opening, all_rewards) / np.maximum(opening.sum(axis=1), 1)
    ends = np.cumsum(sizes)
    rows = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    parts = [average_over_orders(weights[of_log], first[of_log]) for of_log in rows]
    mean, variance = (jnp.asarray(np.array(values), logs.rewards.dtype) for values in zip(*parts, strict=True))
    exact, none = jnp.full_like(mean, jnp.inf), jnp.zeros_like(mean)
    return Averages(mean, variance, none, jnp.ones_like(mean), exact, jnp.ones_like(mean[:, 0]), jnp.asarray(sizes, jnp.int32))


@partial(compiled, static=("num_chains", "num_rounds", "sums_only", "moves", "on_grid", "chunks"))
def _run(
    keys: Any,
    logs: History,
    policy: Any,
    family: Any,
    stop: Any,
    num_chains: int,
    num_rounds: int,
    sums_only: bool,
    moves: Moves | None,
    on_grid: bool,
    chunks: LogChunks,
) -> Chain:
    setup = Setup(policy=policy.for_steps(logs.num_steps), stop=stop, seen=logs.seen_steps)

    def one(trial: tuple[Any, History]) -> Chain:
        key, log = trial
        sigma = jnp.sqrt(family.variance(jnp.zeros(log.num_arms, log.rewards.dtype))) if sums_only else None
        question = _ask(log, sigma)
        if moves is None:
            if on_grid:
                return run_grid_chains(key, setup, question, num_chains, num_rounds)
            return run_drawn_chains(key, setup, question, num_chains, num_rounds)
        run = partial(run_chain, setup=setup, question=question, num_rounds=num_rounds, moves=moves)
        return jax.vmap(run)(jax.random.split(key, num_chains))

    return chunks.map(one, (keys, logs))


def _ask(log: History, sigma: Array | None) -> Question:
    """One log as the chains want it."""
    seen, steps = log.seen_steps and log.seen_steps.number, np.arange(log.num_steps)
    opening = opening_steps(log.arms, log.forced, log.num_arms, log.rewards.dtype)
    return Question(
        pulls=log.statistics.pulls,
        total=log.statistics.total,
        arms=log.arms,
        rewards=log.rewards,
        forced=log.forced,
        first=jnp.asarray(np.ones(log.num_steps, bool) if seen is None else seen == steps),
        looks=rule_looks(log.forced, seen),
        begins=jnp.asarray(steps if seen is None else seen, jnp.int32),
        opening=opening / jnp.maximum(jnp.sum(opening, axis=0), 1)[None],
        sigma=sigma,
    )


@compiled
def _movable(logs: History) -> Bool[Array, "trials arms"]:
    """Whether an arm's opening is other in another order: it has rewards that differ, and more of them than its opening."""
    own = logs.arms[..., None] == jnp.arange(logs.num_arms, dtype=logs.arms.dtype)[None, None]
    rewards = logs.rewards[..., None]
    differ = jnp.max(jnp.where(own, rewards, -jnp.inf), axis=1) > jnp.min(jnp.where(own, rewards, jnp.inf), axis=1)
    return differ & (logs.statistics.pulls > opening_pulls(logs).astype(jnp.int32))


def _moves(policy: Any, logs: History) -> Moves | None:
    """Which moves the chains have: those of a policy with noise, unless a log shows that it has none; None for chains that have
    the draws too."""
    if policy.log_prob_cost(logs.num_arms) > 1:
        return None if _has_draws(policy, logs.num_arms) else COSTLY
    if not is_concrete((policy, logs)):
        return WITH_NOISE
    first = jax.tree.map(lambda leaf: leaf[0], logs)
    log_probs = np.asarray(replayed_log_probs(policy, first))
    return WITH_NOISE if is_random(log_probs[~np.asarray(first.forced)]) else WITHOUT_NOISE
