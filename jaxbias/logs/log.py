"""A log: one experiment as it was recorded."""

import dataclasses
from collections.abc import Callable

import numpy as np

from jaxbias.history import History
from jaxbias.logs.notes import Note


@dataclasses.dataclass(frozen=True, kw_only=True)
class Log:
    """One experiment as it was recorded.

    Arguments:
        history: NumPy arrays: arms int32, rewards float64, forced bool or None.
        labels: of arm 0, 1, ...
        propensity: (steps,), the recorded probability of the pulled arm; NaN for a forced pull without one.
        batch: (steps,), the batch of each pull.
        name: of the file; "standard input" or "the data frame" where there is none.
        periods: what each batch is called, in order, where they are dates or labels.
        cluster: (steps,), the number of the user, or other cluster, of each pull, from 0, where a column of them was named.
        policy_reward: the column that the policy learned from, where that is not the reward.
        notes: what reading decided; `jaxbias.reporting.log_notes.describe_note` has the sentence of each.
        weights: (steps, arms), or (batches, arms) where there is one row for each batch: the logged probability of every arm; NaN
            in the row of a forced pull, or batch, without them.
        unused: the columns that were not read, vary, and are no ids: what the policy may have looked at.
        read_unused: reads the columns that have no role, (steps,) each, by name; None where the source cannot be read again.
    """

    history: History
    labels: tuple[str, ...]
    propensity: np.ndarray | None
    batch: np.ndarray | None
    name: str
    notes: tuple[Note, ...] = ()
    periods: tuple[str, ...] | None = None
    cluster: np.ndarray | None = None
    policy_reward: str | None = None
    weights: np.ndarray | None = None
    unused: tuple[str, ...] = ()
    read_unused: Callable[[], dict[str, np.ndarray]] | None = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def recorded(self) -> np.ndarray | None:
        """What was recorded of the choices: the probabilities of every arm at every step, or those of the pulled arm, or None.

        Forced pulls without one have probability 1.
        """
        if self.weights is None:
            return None if self.propensity is None else np.where(np.isnan(self.propensity), 1.0, self.propensity)
        if len(self.weights) == self.history.num_steps or self.batch is None:
            return self.weights
        return self.weights[np.unique(self.batch, return_inverse=True)[1]]
