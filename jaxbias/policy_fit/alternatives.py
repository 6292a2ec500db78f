"""What the causes of a misfit have in common: the choices of a log, and how likely an alternative makes them.

A choice that a policy never makes has log-probability minus infinity, whatever the others say. So every alternative, and the
policy as it was declared, is scored with a little noise,

    score = sum over choices of log((1 - NOISE) probability + NOISE / K)

under which an impossible choice costs about log(K / NOISE), and the other choices next to nothing.
"""

import enum
import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from jaxbias.history import History, check_history, cut
from jaxbias.likelihood import replayed_log_probs
from jaxbias.policies import complete_policy

NOISE = 1e-3  # one choice in a thousand at random
MOST_ROWS, FEWEST_ROWS = 4000, 400  # of a log without batches: the first ones, in which a policy learns most
ROWS_BY_COST = 40_000  # rows x cost of a log-probability: about a tenth of a second for each alternative


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
        history: the log, or the first rows of a long one.
        policy: as it was declared.
        steps: of the choices that were not forced.
        arms: what was chosen at them.
        log_probs: of every arm at every one of them.
        at_rows: of every arm at every row, forced or not.
    """

    history: History
    policy: Any
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
    """The choices of a log under the declared policy; a long log without batches is cut."""
    history = check_history(history)
    if history.batch_sizes is None:
        cost = complete_policy(policy).log_prob_cost(history.num_arms)
        rows = int(np.clip(ROWS_BY_COST / cost, FEWEST_ROWS, MOST_ROWS))
        history = cut(history, rows) if history.num_steps > rows else history
    at_rows = np.asarray(replayed_log_probs(policy, history), np.float64)
    steps = np.flatnonzero(~np.asarray(history.forced_steps))
    return Replay(history, policy, steps, np.asarray(history.arms)[steps], at_rows[steps], at_rows)


def with_noise(log_probs: Float[np.ndarray, "*shape"], num_arms: int) -> Float[np.ndarray, "*shape"]:
    """log((1 - NOISE) probability + NOISE / K)."""
    return np.log((1 - NOISE) * np.exp(log_probs) + NOISE / num_arms)
