"""Which of many arms a table shows: the best, the worst and those that need a second look, sorted by their estimates."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxbias.analysis.findings import Analysis

MOST_ARMS = 20  # that a table shows all of, in their own order
BEST, WORST, FLAGGED = 10, 5, 10  # arms that it shows of more: by their estimates, and not to be believed


def shown_arms(analysis: "Analysis", all_arms: bool = False) -> list[int]:
    """The arms of a table, in its order."""
    flagged = ~np.asarray(analysis.estimate.converged) & (np.asarray(analysis.comparison.pulls) > 0)
    control = None if analysis.decisions is None else analysis.decisions.control
    return pick_extremes(np.asarray(analysis.estimate.mean, np.float64), flagged, all_arms, control)


def pick_extremes(mean: np.ndarray, flagged: np.ndarray, all_arms: bool = False, control: int | None = None) -> list[int]:
    """All arms in their order; of many the best, the flagged, the control and the worst, or all with the best first.

    >>> pick_extremes(np.array([0.1, 0.3]), np.zeros(2, bool))
    [0, 1]
    >>> pick_extremes(np.arange(100.0), np.arange(100) == 50)
    [99, 98, 97, 96, 95, 94, 93, 92, 91, 90, 50, 4, 3, 2, 1, 0]
    >>> pick_extremes(np.arange(100.0), np.zeros(100, bool), control=60)[10:]
    [60, 4, 3, 2, 1, 0]
    """
    if len(mean) <= MOST_ARMS:
        return list(range(len(mean)))
    order = np.argsort(-np.where(np.isnan(mean), -np.inf, mean), kind="stable")  # an arm without an estimate is last
    if all_arms:
        return order.tolist()
    known = order[np.isfinite(mean[order])]
    ends = np.concatenate([known[:BEST], known[BEST:][-WORST:]])
    doubtful = [arm for arm in order if flagged[arm] and arm not in ends][:FLAGGED]
    chosen = {*ends.tolist(), *(int(arm) for arm in doubtful), *(() if control is None else (control,))}
    return [int(arm) for arm in order if int(arm) in chosen]


def describe_rest(num_arms: int, shown: int, where: str) -> str:
    """What a table leaves out, and where it is; nothing if it has all.

    >>> describe_rest(500, 15, "the JSON document")
    'Shown are the best and the worst of 500 arms, and those not to be believed; the other 485 are in the JSON document.'
    """
    if shown == num_arms:
        return ""
    first = f"Shown are the best and the worst of {num_arms:,} arms, and those not to be believed"
    return f"{first}; the other {num_arms - shown:,} are in {where}."
