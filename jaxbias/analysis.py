"""What is found out about one log: everything a table, a page or a program may want to say of it."""

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jaxbias.estimators import STATUS, Comparison, Estimate
from jaxbias.estimators.bias_at import ArmBias
from jaxbias.fit import PolicyFit
from jaxbias.io import Log
from jaxbias.tuning import Fitted

if TYPE_CHECKING:
    import pandas


class Recommendation(NamedTuple):
    """Which method to believe for this log, and why.

    Fields:
        method: by name.
        why: completes a sentence that ends in "because".
        corrects: whether its means are free of the bias; otherwise only its intervals are to be looked at.
    """

    method: str
    why: str
    corrects: bool


class BestArm(NamedTuple):
    """The arm with the largest recommended estimate, and how far it is ahead of the next."""

    arm: int
    runner_up: int
    margin: float
    stderr: float
    lower: float
    upper: float

    @property
    def is_clear(self) -> bool:
        """Whether the interval of the margin is above zero."""
        return self.lower > 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Analysis:
    """One log, corrected.

    Fields:
        log: what was read.
        policy, family: how its arms were chosen (None: not known), and what its rewards are, with what was estimated filled in.
        fitted: by name, the settings of the policy that were estimated from the log.
        fit: whether the policy explains the choices; None where it is not known.
        table: every method that applies, and why the others do not.
        recommended: the method to believe, and why.
        bias: how wrong the sample means of such a log are on average, if the recommended estimates are right.
        best: the best arm and its margin; None where fewer than two arms can be compared.
        warnings: sentences on what was assumed, and on what is wrong.
        trusted: whether the recommended figures are to be believed.
        seed: of the random numbers, where there was one.
    """

    log: Log
    policy: Any
    family: Any
    fitted: dict[str, Fitted]
    fit: PolicyFit | None
    table: Comparison
    recommended: Recommendation
    bias: ArmBias | None
    best: BestArm | None
    warnings: tuple[str, ...]
    trusted: bool
    seed: int | None = None

    @property
    def estimate(self) -> Estimate:
        """The recommended one."""
        return self.table.estimates[self.recommended.method]

    @property
    def labels(self) -> tuple[str, ...]:
        """Of the arms."""
        return self.log.labels

    def to_frame(self) -> "pandas.DataFrame":
        """One row for each method and arm, with the arm's label; needs pandas."""
        frame = self.table.to_frame()
        frame["arm"] = [self.labels[arm] for arm in frame["arm"]]
        frame.insert(1, "recommended", frame["method"] == self.recommended.method)
        return frame

    def status(self, method: str, arm: int) -> str:
        """In words: whether the figures of this arm are to be believed, and if not, why."""
        estimate = self.table.estimates[method]
        if bool(np.asarray(estimate.converged)[arm]):
            return STATUS[0]
        if "status" in estimate.diagnostics:
            return STATUS[int(np.asarray(estimate.diagnostics["status"])[arm])]
        if self.table.pulls[arm] == 0:
            return "never pulled"
        return "its standard error is 0" if float(np.asarray(estimate.stderr)[arm]) == 0 else "too few pulls"
