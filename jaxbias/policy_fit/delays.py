"""Do the delays depend on the arm, or on the reward? Simulation takes them as given, whatever is pulled and whatever it gives.

Delays and arms may both change over time without depending on each other. So both tests compare rows that are close in time: the
delays are ranked within blocks of consecutive steps, and could have been in any order there.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from jaxbias.history import History, check_history

BLOCK = 50  # steps: few enough that a drift inside one is small, enough for every arm to appear
CLEAR = 1e-3  # a p-value below this is called clear, as in `check_fit`


class DelayCheck(NamedTuple):
    """The delays of a log, in steps, and whether they depend on what they must not.

    Fields:
        median, largest: of the rewards that arrived; 0 where the next choice had seen the reward.
        never: how many rewards no choice had seen, beside that of the last step.
        by_arm, by_reward: p-values of no dependence on the arm, and on the reward within an arm.
    """

    median: float
    largest: int
    never: int
    by_arm: float
    by_reward: float


def check_delays(history: History) -> DelayCheck | None:
    """The delays of one log; None where it has none, or has batches.

    Arguments:
        history: one log.

    >>> import numpy as np
    >>> history = History(arms=np.arange(60) % 2, rewards=np.ones(60), num_arms=2)
    >>> found = check_delays(history.with_delay(3))
    >>> found.median, found.largest, found.by_arm
    (3.0, 3, 1.0)
    """
    checked = check_history(history, two_rewards=True)
    if checked.seen_at is None:
        return None
    steps = np.arange(checked.num_steps)
    late = np.asarray(checked.seen_at) - steps
    arrived = np.asarray(checked.seen_at) < checked.num_steps - 1
    arms, rewards = np.asarray(checked.arms), np.asarray(checked.rewards, np.float64)
    # A reward that is not there at the end may still come: all that is known is that it is late.
    ranks = _ranks_in_blocks(np.where(arrived, late, checked.num_steps), steps // BLOCK)
    return DelayCheck(
        median=float(np.median(late[arrived])) if arrived.any() else np.nan,
        largest=int(late[arrived].max(initial=0)),
        never=int((~arrived[:-1]).sum()),
        by_arm=_by_arm(ranks, arms, steps // BLOCK, checked.num_arms),
        by_reward=_by_reward(ranks, rewards, steps // BLOCK * checked.num_arms + arms),
    )


def _ranks_in_blocks(values: Int[np.ndarray, " steps"], block: Int[np.ndarray, " steps"]) -> Float[np.ndarray, " steps"]:
    """Midranks within each block, around 0, from -1/2 to 1/2."""
    ranks = np.zeros(len(values))
    for one in np.unique(block):
        own = block == one
        ordered = np.sort(values[own])
        low, high = (np.searchsorted(ordered, values[own], side=side) for side in ("left", "right"))
        ranks[own] = (low + high) / (2 * own.sum()) - 0.5
    return ranks


def _by_arm(ranks: np.ndarray, arms: np.ndarray, block: np.ndarray, num_arms: int) -> float:
    """The stratified test of Kruskal and Wallis (van Elteren): summed ranks of each arm against any order within blocks."""
    from scipy.special import chdtrc  # here, because it takes a third of a second

    total, covariance = np.zeros(num_arms), np.zeros((num_arms, num_arms))
    for one in np.unique(block):
        own = block == one
        number = own.sum()
        if number < 2:
            continue
        count = np.bincount(arms[own], minlength=num_arms)
        total += np.bincount(arms[own], weights=ranks[own], minlength=num_arms)
        variance = np.sum(np.square(ranks[own] - ranks[own].mean())) / (number - 1)
        covariance += variance * (np.diag(count) - np.outer(count, count) / number)
    freedom = np.linalg.matrix_rank(covariance, tol=1e-9)
    if freedom == 0:
        return 1.0
    return float(chdtrc(freedom, total @ np.linalg.pinv(covariance, rcond=1e-9, hermitian=True) @ total))


def _by_reward(ranks: np.ndarray, rewards: np.ndarray, stratum: np.ndarray) -> float:
    """The summed products of rank and reward, against any order within a block and arm."""
    from scipy.special import ndtr  # here, because it takes a third of a second

    total = variance = 0.0
    for one in np.unique(stratum):
        own = stratum == one
        number = own.sum()
        if number < 2:
            continue
        rank, reward = ranks[own] - ranks[own].mean(), rewards[own] - rewards[own].mean()
        total += float(rank @ reward)
        variance += float(rank @ rank) * float(reward @ reward) / (number - 1)
    return 1.0 if variance <= 0 else float(2 * ndtr(-abs(total) / variance**0.5))
