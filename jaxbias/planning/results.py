"""What planning gives: designs with their figures, and the number of steps that reaches a goal."""

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jaxbias._core.showing import as_html, as_text

if TYPE_CHECKING:
    import pandas

FIGURES = ("regret", "bias", "half_width", "coverage", "power", "best_arm")


class Design(NamedTuple):
    """One policy run for a number of steps: what it earns and what it teaches. Every figure has its Monte Carlo error.

    Fields:
        policy: its name.
        steps: of a trial.
        regret: steps times the best mean, less the means of the pulled arms, on average.
        bias: of the sample means, the average over arms.
        half_width: of the interval of the difference, by test inversion, on average.
        coverage: the share of these intervals that hold the true difference.
        power: the share of logs in which the p-value of no difference is below 1 - level.
        best_arm: the share of logs in which the arm with the largest estimate (`shrinkage`) is the best.
        logs: how many were simulated.
        usable: the share of them that have an interval; the others count in regret, bias and best_arm alone.
    """

    policy: str
    steps: int
    regret: float
    regret_stderr: float
    bias: float
    bias_stderr: float
    half_width: float
    half_width_stderr: float
    coverage: float
    coverage_stderr: float
    power: float
    power_stderr: float
    best_arm: float
    best_arm_stderr: float
    logs: int
    usable: float


class Target(NamedTuple):
    """The smallest number of steps with which a policy reaches a goal.

    Fields:
        policy: its name.
        figure: what is asked for, "half_width" or "power".
        goal: its value.
        steps: how many are needed, to the tolerance of the search; None where the goal was not reached.
        largest: the most steps that were tried.
        at_largest: the figure there.
        lower: the most steps that were measured and do not reach the goal; 0 where none were.
    """

    policy: str
    figure: str
    goal: float
    steps: int | None
    largest: int
    at_largest: float
    lower: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """Designs side by side; printed, a table.

    Fields:
        designs: by policy, and by steps.
        targets: what was searched for.
        mean: (points, arms), the mean vectors.
        control: the arm that the best of the others is compared with; None where the best is compared with the second best.
        level: of the intervals; p-values are compared with 1 - level.
        key_words: the data of the random key.
    """

    designs: tuple[Design, ...]
    targets: tuple[Target, ...]
    mean: np.ndarray
    control: int | None
    level: float
    key_words: tuple[int, ...]

    def to_frame(self) -> "pandas.DataFrame":
        """One row for each design, as a pandas data frame; needs pandas."""
        import pandas

        return pandas.DataFrame([design._asdict() for design in self.designs])

    __str__ = as_text
    _repr_html_ = as_html
