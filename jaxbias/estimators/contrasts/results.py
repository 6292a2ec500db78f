"""What comparisons of arms give."""

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jaxbias.estimators.estimate import Status

if TYPE_CHECKING:
    import pandas

FIGURES = ("difference", "stderr", "lower", "upper", "p_value", "p_adjusted", "lift", "lift_lower", "lift_upper")
PRINTED = ("difference", "lower", "upper", "p_value", "p_adjusted", "lift")


@partial(
    jax.tree_util.register_dataclass,
    data_fields=("arm", "control", *FIGURES, "p_less", "p_greater", "status"),
    meta_fields=("level", "adjust", "alternative"),
)
@dataclasses.dataclass(frozen=True, kw_only=True)
class Contrasts:
    """Differences of arms, (contrasts,) or (trials, contrasts); printed, a table.

    Fields:
        arm, control: the two arms of each; `control` is -1 where it is the best of the others.
        difference: mean of the arm less that of the control, median-unbiased; not a number at the control itself.
        stderr: the half-width of the interval over the normal quantile.
        lower, upper: the interval of the difference, each by itself.
        p_value: of no difference; `p_less` and `p_greater` are the one-sided ones.
        p_adjusted: the same for all contrasts of a log together.
        lift, lift_lower, lift_upper: the ratio of the means less 1, with its interval; not a number where the interval of the
            control's mean includes 0, as there is no ratio then.
        status: a `Status` as a number.
        level: of the intervals.
        adjust: how the p-values were adjusted.
        alternative: of the p-values and intervals.
    """

    arm: Any
    control: Any
    difference: Any
    stderr: Any
    lower: Any
    upper: Any
    p_value: Any
    p_less: Any
    p_greater: Any
    p_adjusted: Any
    lift: Any
    lift_lower: Any
    lift_upper: Any
    status: Any
    level: float
    adjust: str
    alternative: str

    @property
    def converged(self) -> Any:
        """Whether the figures of each contrast can be relied on."""
        return (self.status == Status.CONVERGED) | (self.status == Status.AT_EDGE)

    def to_frame(self) -> "pandas.DataFrame":
        """One row for each contrast (and trial), as a pandas data frame; needs pandas."""
        import pandas

        rows = []
        for place in np.ndindex(np.shape(self.difference)):
            arms = {"arm": int(self.arm[place]), "control": int(self.control[place])}
            if arms["arm"] != arms["control"]:
                trial = {"trial": place[0]} if len(place) == 2 else {}
                rows.append({**trial, **arms, **{name: float(getattr(self, name)[place]) for name in FIGURES}})
        return pandas.DataFrame(rows)

    def __str__(self) -> str:
        """The table of one log; of several, the averages over them."""
        averages = {name: np.atleast_2d(getattr(self, name)).astype(float) for name in PRINTED}
        averages = {name: values.mean(axis=0) for name, values in averages.items()}
        lines = [f"{'arm':>4} {'against':>8}  {'difference':>10}  {'interval':^20}  {'p':>7}  {'adjusted':>8}  {'lift':>7}"]
        pairs = zip(*(np.atleast_2d(arms)[0].tolist() for arms in (self.arm, self.control)), strict=True)
        for place, (arm, control) in enumerate(pairs):
            if arm != control:
                lines.append(_line(arm, control, {name: values[place] for name, values in averages.items()}))
        logs = f", averages over {np.shape(self.difference)[0]} logs" if np.ndim(self.difference) == 2 else ""
        return "\n".join([*lines, "", f"Intervals of {100 * self.level:g}%, p-values adjusted by {self.adjust}{logs}."])


def _line(arm: int, control: int, row: dict[str, Any]) -> str:
    between = f"[{row['lower']:.3f}, {row['upper']:.3f}]"
    lift = "-" if np.isnan(row["lift"]) else f"{row['lift']:+.1%}"
    against = "best" if control < 0 else str(control)
    figures = f"{row['difference']:>10.3f}  {between:^20}  {row['p_value']:>7.4f}  {row['p_adjusted']:>8.4f}  {lift:>7}"
    return f"{arm:>4} {against:>8}  {figures}"
