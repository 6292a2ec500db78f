"""Every estimator that applies to a log, side by side, and why the others do not."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import PRNGKeyArray

from jaxbias._core.door import public
from jaxbias._core.errors import ArgumentError
from jaxbias._core.memory import refusing_what_has_no_room
from jaxbias._core.showing import as_html, as_text
from jaxbias.estimators.estimate import Estimate
from jaxbias.estimators.inversion.intervals import ENOUGH_PATHS, with_interval_of
from jaxbias.estimators.registry import METHODS, Method, Need
from jaxbias.history import History, check_history
from jaxbias.policies import Policy
from jaxbias.rewards import Family
from jaxbias.stopping import StoppingRule

if TYPE_CHECKING:
    import pandas

INVERSION = "test_inversion"  # whose intervals other methods have


def missing_needs(method: Method, history: History) -> set[Need]:
    """What of a method's needs a log does not have, as far as the log shows it."""
    absent = {Need.BATCHES: history.batch_sizes is None, Need.HELD_OUT: history.held_out is None}
    return {need for need in method.needs if absent.get(need, False)}


def check_methods(methods: Sequence[str]) -> None:
    """Refuses a name that the registry does not have."""
    for name in methods:
        if name not in METHODS:
            raise ArgumentError("methods", name, problem=f"has {name!r}", remedy=f"choose from {', '.join(METHODS)}")


def can_use(method: Method, history: History, propensities: Any) -> bool:
    """Whether recorded propensities are what the method needs: those of the chosen arm alone are too few for some."""
    if propensities is None or "propensities" not in method.takes:
        return False
    return Need.EVERY_PROBABILITY not in method.needs or np.ndim(propensities) > np.ndim(history.arms)


def apply_method(method: Method, question: dict[str, Any]) -> Estimate:
    """The estimate, from the arguments that the method takes; recorded propensities take the place of the policy."""
    if question.get("stop") is not None and not method.knows_stopping:
        allowed = f"None for {method.name}, which assumes a fixed number of steps; use mean_matching"
        raise ArgumentError("stop", question["stop"], allowed)
    asked = {name: question[name] for name in method.takes if question.get(name) is not None}
    if not can_use(method, asked["history"], asked.get("propensities")):
        asked.pop("propensities", None)
    if "propensities" in asked:
        asked.pop("policy", None)
    elif method.needs_policy and "policy" not in asked:
        which = "every arm" if Need.EVERY_PROBABILITY in method.needs else "the pulled arm"
        remedy = f"or the log must have the probability of {which}" if "propensities" in method.takes else ""
        raise ArgumentError("policy", None, f"the policy that chose the arms for {method.name}", remedy=remedy)
    if "family" in method.takes:
        asked["family"] = question["family"]
    if method.most_paths is not None and "num_paths" in asked:
        asked["num_paths"] = min(asked["num_paths"], method.most_paths)
    with refusing_what_has_no_room(method.name):
        return method.function(**asked, **method.options)


class _Intervals:
    """The intervals of test inversion, which are computed once for all methods of a comparison."""

    def __init__(self, key: PRNGKeyArray, question: dict[str, Any], num_paths: int) -> None:
        self.question = {**question, "key": jax.random.fold_in(key, list(METHODS).index(INVERSION))}
        self.num_paths = num_paths

    @cached_property
    def inverted(self) -> Estimate | ArgumentError:
        """All of them, or why there are none."""
        method = METHODS[INVERSION]
        try:
            return apply_method(dataclasses.replace(method, options={"num_paths": self.num_paths}), self.question)
        except ArgumentError as error:
            return error

    def of(self, method: Method, question: dict[str, Any]) -> Estimate:
        """The estimate of a method that has such intervals."""
        if method.name == INVERSION:
            if isinstance(self.inverted, ArgumentError):
                raise self.inverted
            return self.inverted
        estimate = apply_method(dataclasses.replace(method, options={**method.options, "interval": "delta"}), question)
        if isinstance(self.inverted, ArgumentError):  # such as of a family without a likelihood of sums
            return estimate
        return with_interval_of(self.inverted, estimate, question["level"])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """Several estimates of the same log, or of each of several logs; printed, it is a table.

    Fields:
        estimates: by the name of the method.
        reasons: by the name of each method that does not apply, the error that says why not.
        pulls: of each arm, (arms,) or (trials, arms).
        level: of the intervals.
    """

    estimates: dict[str, Estimate]
    reasons: dict[str, ArgumentError]
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

    __str__ = as_text
    _repr_html_ = as_html


@public
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
    interval_paths: int = ENOUGH_PATHS,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Every estimator that applies to this log, side by side.

    Arguments:
        key: a `jax.random.key`.
        history: one trial or many.
        policy: how the arms were chosen; None where it is not known, which leaves the methods that need no policy.
        family: what the rewards are.
        methods: names of those to try; without it all, but for `unbiased`, and for `batched_ols` where there are no batches.
        level: of the intervals.
        propensities: as the log has them: of the chosen arm, for `propensity_weighting`, or of every arm, for
            `adaptive_weighting` too; without them they are replayed from the policy.
        stop, num_steps: the rule that could end the experiment, and how many steps it could have had, as in `mean_matching`; the
            methods that do not know of it are left out.
        scale: of the rewards, for `confidence_sequence`, if the family does not have it.
        num_paths: paths that `mean_matching` simulates at each mean vector; `bias_corrected` and `guarded_shrinkage` simulate at
            most 2,048.
        interval_paths: paths that `test_inversion` simulates; its intervals are those of these methods too.
        progress: called with the name of each method before it runs; an `ArgumentError` that it raises leaves the method out.

    >>> import jax, jaxbias as jb
    >>> policy, family = jb.Greedy(), jb.Normal()
    >>> history = jb.simulate(jax.random.key(0), policy, family, [1.0, 0.75], num_steps=16)
    >>> table = jb.compare(jax.random.key(1), history, policy, family)
    >>> sorted(table.estimates)[:3]
    ['bias_corrected', 'confidence_sequence', 'guarded_shrinkage']
    >>> str(table.reasons["data_splitting"])[:26]
    'history.held_out is None; '
    """
    if methods is None:
        tried = {name: method for name, method in METHODS.items() if method.by_default}
        methods = [name for name, method in tried.items() if Need.BATCHES not in missing_needs(method, history)]
    check_methods(methods)
    checked = check_history(history, two_rewards=True)
    question = dict(history=history, policy=policy, family=family, level=level, propensities=propensities)
    question |= dict(stop=stop, num_steps=num_steps, scale=scale, num_paths=num_paths)
    estimates, reasons, intervals = {}, {}, _Intervals(key, question, interval_paths)
    for name in methods:
        own_key = jax.random.fold_in(key, list(METHODS).index(name))
        try:
            if progress is not None:
                progress(name)
            apply = intervals.of if METHODS[name].inverts else apply_method
            estimates[name] = apply(METHODS[name], {**question, "key": own_key})
            if progress is not None:  # JAX returns before the numbers are there, and the next method would seem to take the time
                jax.block_until_ready(estimates[name])
        except ArgumentError as error:
            reasons[name] = error
    if not estimates:
        said = " ".join(f"{name}: {reason}." for name, reason in reasons.items())
        raise ArgumentError("methods", list(methods), problem=f"has none that applies. {said}")
    return Comparison(estimates=estimates, reasons=reasons, pulls=np.asarray(checked.statistics.pulls), level=level)
