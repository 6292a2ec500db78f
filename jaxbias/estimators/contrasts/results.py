"""What comparisons of arms give."""

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jaxbias._core.showing import as_html, as_text
from jaxbias.estimators.estimate import Status

if TYPE_CHECKING:
    import pandas

FIGURES = ("difference", "stderr", "lower", "upper", "p_value", "p_adjusted", "lift", "lift_lower", "lift_upper")


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

    __str__ = as_text
    _repr_html_ = as_html
