"""Every estimator that applies to a log, side by side, and why the others do not."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import PRNGKeyArray

from jaxbias.estimators.adaptive_weighting import adaptive_weighting
from jaxbias.estimators.batched_ols import batched_ols
from jaxbias.estimators.checks import check_history
from jaxbias.estimators.conditional_mle import conditional_mle
from jaxbias.estimators.confidence_sequence import confidence_sequence
from jaxbias.estimators.data_splitting import data_splitting
from jaxbias.estimators.estimate import Estimate
from jaxbias.estimators.mean_matching import mean_matching
from jaxbias.estimators.propensity_weighting import propensity_weighting
from jaxbias.estimators.sample_mean import sample_mean
from jaxbias.history import History
from jaxbias.policies import Policy
from jaxbias.rewards import Family
from jaxbias.stopping import StoppingRule

if TYPE_CHECKING:
    import pandas


class Question(NamedTuple):
    """What every method is asked."""

    key: Any
    history: History
    policy: Any
    family: Any
    level: float
    propensities: Any
    stop: Any = None
    num_steps: int | None = None
    scale: Any = None
    num_paths: int = 2048


def _to_the_end(ask: Question) -> History:
    """The history, for a method that takes the number of steps for given."""
    if ask.stop is not None:
        raise ValueError("a rule could stop the experiment, which this method does not know; mean_matching does")
    return ask.history


def _propensity_weighting(ask: Question) -> Estimate:
    source = dict(policy=ask.policy) if ask.propensities is None else dict(propensities=ask.propensities)
    return propensity_weighting(_to_the_end(ask), family=ask.family, level=ask.level, **source)


def _mean_matching(ask: Question) -> Estimate:
    asked = (ask.key, ask.history, _known(ask), ask.family)
    return mean_matching(*asked, level=ask.level, num_paths=ask.num_paths, stop=ask.stop, num_steps=ask.num_steps)


METHODS: dict[str, Callable[[Question], Estimate]] = {
    "sample_mean": lambda ask: sample_mean(ask.history, ask.family, level=ask.level),
    "data_splitting": lambda ask: data_splitting(ask.history, ask.family, level=ask.level),
    "propensity_weighting": _propensity_weighting,
    "adaptive_weighting": lambda ask: adaptive_weighting(_to_the_end(ask), _known(ask), ask.family, level=ask.level),
    "conditional_mle": lambda ask: conditional_mle(ask.key, _to_the_end(ask), _known(ask), ask.family, level=ask.level),
    "mean_matching": _mean_matching,
    "batched_ols": lambda ask: batched_ols(_to_the_end(ask), ask.family, level=ask.level),
    "confidence_sequence": lambda ask: confidence_sequence(ask.history, ask.family, level=ask.level, scale=ask.scale),
}


def _known(ask: Question) -> Policy:
    if ask.policy is None:
        raise ValueError("policy is None; allowed: the policy that chose the arms")
    return ask.policy


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """Several estimates of the same log, or batch of logs; printed, it is a table.

    Fields:
        estimates: by the name of the method.
        reasons: by the name of each method that does not apply, why not.
        pulls: of each arm, (arms,) or (trials, arms).
        level: of the intervals.
    """

    estimates: dict[str, Estimate]
    reasons: dict[str, str]
    pulls: Any
    level: float

    def to_frame(self) -> "pandas.DataFrame":
        """One row for each method and arm (and trial), as a pandas data frame; needs pandas."""
        import pandas

        rows = []
        for method, estimate in self.estimates.items():
            for place in np.ndindex(self.pulls.shape):
                trial = {"trial": place[0]} if len(place) == 2 else {}
                figures = {name: float(getattr(estimate, name)[place]) for name in ("mean", "stderr", "lower", "upper")}
                row = {"method": method, "arm": place[-1], "pulls": int(self.pulls[place]), **figures}
                rows.append({**trial, **row, "converged": bool(estimate.converged[place])})
        return pandas.DataFrame(rows)

    def __str__(self) -> str:
        """The table: a row for each method, a column for each arm; of a batch, the averages over its logs."""
        pulls = np.atleast_2d(self.pulls)
        header = ["", *(f"arm {arm}" for arm in range(pulls.shape[1]))]
        rows = [header, ["pulls", *(f"{count:.10g}" for count in pulls.mean(axis=0))]]
        rows += [[method, *_cells(estimate)] for method, estimate in self.estimates.items()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        of_batch = f", averages over {pulls.shape[0]} logs" if np.ndim(self.pulls) == 2 else ""
        notes = [f"Intervals of {100 * self.level:g}%{of_batch}. * not to be believed: see the estimate's diagnostics."]
        notes += [f"{method} does not apply: {reason}" for method, reason in self.reasons.items()]
        return "\n".join([*lines, "", *notes])


def _cells(estimate: Estimate) -> list[str]:
    figures = [np.atleast_2d(getattr(estimate, name)).astype(float) for name in ("mean", "lower", "upper")]
    doubtful = ~np.atleast_2d(estimate.converged)
    cells = []
    for arm in range(doubtful.shape[1]):
        mean, lower, upper = (values[:, arm].mean() for values in figures)
        mark = "*" if doubtful[:, arm].any() else ""
        cells.append("not estimable" if np.isnan(mean) else f"{mean:.3f} [{lower:.3f}, {upper:.3f}]{mark}")
    return cells


def compare(
    key: PRNGKeyArray,
    history: History,
    policy: Policy | None,
    family: Family,
    *,
    methods: Sequence[str] | None = None,
    level: float = 0.95,
    propensities: ArrayLike | None = None,
    stop: StoppingRule | None = None,
    num_steps: int | None = None,
    scale: ArrayLike | None = None,
    num_paths: int = 2048,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Every estimator that applies, side by side: the honest first answer for an adaptive experiment.

    Arguments:
        key: a `jax.random.key`.
        history: one log or a batch of them.
        policy: how the arms were chosen; None where it is not known, which leaves the methods that need no policy.
        family: what the rewards are.
        methods: names of those to try; without it all, but for `batched_ols` where there are no batches.
        level: of the intervals.
        propensities: as the log has them, for `propensity_weighting`; without them they are replayed from the policy.
        stop, num_steps: the rule that could end the experiment, and how many steps it could have had, as in `mean_matching`; the
            methods that do not know of it are left out.
        scale: of the rewards, for `confidence_sequence`, where the family does not say it.
        num_paths: trials that `mean_matching` simulates at a time.
        progress: called with the name of each method before it runs.

    >>> import jax, jaxbias as jb
    >>> policy, family = jb.Greedy(), jb.Normal()
    >>> history = jb.simulate(jax.random.key(0), policy, family, [1.0, 0.75], num_steps=16)
    >>> table = jb.compare(jax.random.key(1), history, policy, family)
    >>> sorted(table.estimates)
    ['confidence_sequence', 'mean_matching', 'sample_mean']
    >>> table.reasons["data_splitting"][:26]
    'history.held_out is None; '
    """
    if methods is None:
        methods = [name for name in METHODS if name != "batched_ols" or history.batch_sizes is not None]
    unknown = [name for name in methods if name not in METHODS]
    if unknown:
        raise ValueError(f"methods has {unknown[0]!r}; allowed: {', '.join(METHODS)}")
    checked = check_history(history)
    estimates, reasons = {}, {}
    for name in methods:
        if progress is not None:
            progress(name)
        own_key = jax.random.fold_in(key, list(METHODS).index(name))
        try:
            asked = Question(own_key, history, policy, family, level, propensities, stop, num_steps, scale, num_paths)
            estimates[name] = METHODS[name](asked)
        except ValueError as error:
            reasons[name] = str(error)
    if not estimates:
        raise ValueError("no method applies. " + " ".join(f"{name}: {reason}." for name, reason in reasons.items()))
    return Comparison(estimates=estimates, reasons=reasons, pulls=np.asarray(checked.statistics.pulls), level=level)
