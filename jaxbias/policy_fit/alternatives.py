"""What the causes of a misfit have in common: the choices of a log, and how likely an alternative makes them.

A choice that a policy never makes has log-probability minus infinity, whatever the others say. So every alternative, and the
policy as it was declared, is scored with a little noise,

    score = sum over choices of log((1 - NOISE) probability + NOISE / K)

under which an impossible choice costs about log(K / NOISE), and the other choices next to nothing.
"""

import dataclasses
import enum
import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from jaxbias.history import History, check_history
from jaxbias.likelihood import replayed_log_probs
from jaxbias.policies import complete_policy

NOISE = 1e-3  # one choice in a thousand at random
MOST_ROWS, FEWEST_ROWS = 4000, 400  # of a log without batches that are looked at
ROWS_BY_COST = 30_000  # rows x cost of a log-probability: less than a tenth of a second for each alternative


class Cause(enum.StrEnum):
    """Why the choices of a log may not be those of the declared policy."""

    BATCHES = "batches"  # the policy was updated less often than with every row, or more often than in each batch
    DELAY = "delay"  # its rewards came late
    WARM_UP = "warm-up"  # it began with equal allocation
    FLOOR = "floor"  # every arm had a least probability
    NOISE = "noise"  # there was another amount of noise: tau or epsilon
    PRIOR = "prior"  # it began with another prior, or assumed another sigma
    SETTING = "setting"  # it had another value of one of its other settings
    CONTEXT = "context"  # it looked at another column


class Replay(NamedTuple):
    """A log and its choices under the declared policy.

    Fields:
        history: the log; a long one in batches, so that the policy is replayed only at the rows below.
        policy: as it was declared.
        rows: those that are looked at; of a long log the first ones, in which a policy learns most, and some of the others.
        steps: those of them at which the choice was not forced.
        arms: what was chosen at these.
        log_probs: of every arm at these.
        at_rows: of every arm at all rows that are looked at.
    """

    history: History
    policy: Any
    rows: Int[np.ndarray, " rows"]
    steps: Int[np.ndarray, " choices"]
    arms: Int[np.ndarray, " choices"]
    log_probs: Float[np.ndarray, "choices arms"]
    at_rows: Float[np.ndarray, "rows arms"]

    @property
    def num_arms(self) -> int:
        """How many arms there are."""
        return self.history.num_arms

    @property
    def uniform(self) -> float:
        """The log-probability of an arm where all are equally likely."""
        return -math.log(self.num_arms)

    def score(self, log_probs: Float[np.ndarray, "choices arms"]) -> float:
        """How likely these log-probabilities of every arm make the choices, with a little noise."""
        return self.score_chosen(np.take_along_axis(log_probs, self.arms[:, None], axis=1)[:, 0])

    def score_chosen(self, chosen: Float[np.ndarray, " choices"]) -> float:
        """The same from the log-probabilities of the chosen arms."""
        return float(np.sum(with_noise(chosen, self.num_arms)))

    def after(self, seen: Int[np.ndarray, " choices"]) -> Int[np.ndarray, " choices"]:
        """Where `at_rows` has the state after so many rewards, or after the nearest smaller number that is looked at."""
        return np.searchsorted(self.rows, seen, side="right") - 1

    def under(self, policy: Any) -> Float[np.ndarray, "choices arms"]:
        """The log-probabilities of another policy on the same log."""
        return np.asarray(replayed_log_probs(policy, self.history), np.float64)[self.steps]


class Alternative(NamedTuple):
    """One explanation of the choices.

    Fields:
        cause: of which kind it is.
        settings: what differs from the declared policy, by the names of the library.
        log_probs: of every arm at every choice, if it is right.
        num_parameters: how many numbers were fitted; a whole number out of many counts as two.
        column: the column that it looks at.
        p_value: of the score test of that column.
    """

    cause: Cause
    settings: dict[str, Any]
    log_probs: Float[np.ndarray, "choices arms"]
    num_parameters: int
    column: str | None = None
    p_value: float | None = None


def replay(history: History, policy: Any) -> Replay:
    """The choices of a log under the declared policy: all of them, or of a long log without batches only some."""
    history = check_history(history)
    rows = np.arange(history.num_steps)
    if history.batch_sizes is None and getattr(history, "seen_at", None) is None:
        cost = complete_policy(policy).log_prob_cost(history.num_arms)
        rows = _some_rows(history.num_steps, int(np.clip(ROWS_BY_COST / cost, FEWEST_ROWS, MOST_ROWS)))
        if len(rows) < history.num_steps:
            sizes = tuple(np.diff(rows, append=history.num_steps).tolist())
            history = dataclasses.replace(history, batch_sizes=sizes)
    at_rows = np.asarray(replayed_log_probs(policy, history), np.float64)[rows]
    forced = np.asarray(history.forced_steps)[rows]
    arms = np.asarray(history.arms)[rows]
    return Replay(history, policy, rows, rows[~forced], arms[~forced], at_rows[~forced], at_rows)


def _some_rows(num_steps: int, most: int) -> Int[np.ndarray, " rows"]:
    """The first rows, half of those that are looked at, and after them every so-manieth."""
    if num_steps <= most:
        return np.arange(num_steps)
    first = most // 2
    return np.concatenate([np.arange(first), np.arange(first, num_steps, -(-(num_steps - first) // (most - first)))])


def with_noise(log_probs: Float[np.ndarray, "*shape"], num_arms: int) -> Float[np.ndarray, "*shape"]:
    """log((1 - NOISE) probability + NOISE / K)."""
    return np.log((1 - NOISE) * np.exp(log_probs) + NOISE / num_arms)
