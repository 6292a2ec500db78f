"""Waiting for an analysis: which part of it runs, how much time is left, and what a budget of time leaves out."""

import enum
import time
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

from jaxbias._core.errors import ArgumentError
from jaxbias.analysis.limits import (
    EVALUATION_PATHS,
    INTEGRALS,
    bias_trials,
    evaluated_logs,
    interval_paths,
    looks_of,
    matching_paths,
    path_cost,
)
from jaxbias.estimators.registry import METHODS, Cost
from jaxbias.history import History
from jaxbias.policies import complete_policy

STEP = 50e-9  # seconds of the unit of `path_cost`
INTEGRAL = 1e-6  # seconds of a log-probability, in units of `log_prob_cost`
# Seconds to compile a method, where nothing is cached. A run that finds its programs is faster, which `Clock` learns as it goes.
COMPILING = {Cost.SUMS: 0.5, Cost.REPLAY: 1.0, Cost.SIMULATION: 4.0, Cost.WEIGHTED_PATHS: 10.0}
WEIGHTED_PATHS = 60.0  # seconds at the limit `INTEGRALS`
ROUNDS = 4  # sets of paths that a method simulates, usually
EVALUATION_COMPILING, EVALUATION_ROUNDS, BIAS_COMPILING = 15.0, 8, 2.0
FASTEST, SLOWEST = 0.1, 10.0  # how far the times of the parts that are done may move the expectation of the others


class Stage(enum.StrEnum):
    """A part of the work; while methods run, `progress` gets their names."""

    READING = "reading the log"
    REPLAYING = "replaying the policy"
    CHECKED = "checked the policy"  # the verdict is known
    EVALUATING = "evaluating the methods"
    SIMULATING = "simulating the bias"
    TESTING = "testing differences"


class Progress(str):
    """The part of the work that begins: a `Stage`, or the name of a method, with what is known about the time.

    Attributes:
        elapsed: seconds since the beginning.
        left: seconds that this part and those after it will probably take; not a number where the plan is not known yet.
        checked: with `Stage.CHECKED`, what is known about the policy: policy, fit, log and labels.
    """

    elapsed: float
    left: float
    checked: Any

    def __new__(cls, part: str, elapsed: float = 0.0, left: float = float("nan"), checked: Any = None) -> "Progress":
        """A string with attributes, so that what prints the part alone need not know of them."""
        made = super().__new__(cls, part)
        made.elapsed, made.left, made.checked = elapsed, left, checked
        return made


class Clock:
    """The time that an analysis has taken and will probably take, and whether a budget still has room for a part of it."""

    def __init__(
        self,
        report: Callable[[Progress], None] | None,
        budget: float | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        if budget is not None and (isinstance(budget, bool) or not isinstance(budget, Real) or not budget > 0):
            raise ArgumentError("budget", budget, "a number of seconds above 0")
        self.report, self.budget, self.now = report or (lambda _: None), budget, now
        self.began = now()
        self.expected: dict[str, float] = {}
        self.left_out: list[str] = []
        self._current, self._since = "", self.began
        self._done, self._foreseen = 0.0, 0.0

    def plan(self, expected: Mapping[str, float]) -> None:
        """The parts to come, in their order, with the seconds that each will probably take."""
        self._finish()
        self.expected = dict(expected)

    def start(self, part: str, checked: Any = None) -> None:
        """A part begins. A method for which the budget has no room is refused; a stage is asked for with `has_room`."""
        self._finish()
        if part in METHODS and not self.has_room(part):
            remedy = "give more seconds, or name fewer methods"
            raise ArgumentError("budget", self.budget, problem=f"leaves no time: {self.budget:g} s", remedy=remedy)
        self._current = part
        self.report(Progress(part, self.now() - self.began, self._left(), checked))

    def has_room(self, part: str) -> bool:
        """Whether the part would end within the budget; sums always have room, so that every log has an answer."""
        if self.budget is None or (part in METHODS and METHODS[part].cost is Cost.SUMS):
            return True
        needed = self.expected.get(part, 0.0) * self._pace()
        if self.now() - self.began + needed <= self.budget:
            return True
        self.left_out.append(str(part))
        self.expected.pop(part, None)
        return False

    def _finish(self) -> None:
        """Learns from the part that has ended how fast this machine is."""
        now = self.now()
        foreseen = self.expected.pop(self._current, 0.0)
        if foreseen:
            self._done, self._foreseen = self._done + now - self._since, self._foreseen + foreseen
        self._current, self._since = "", now

    def _pace(self) -> float:
        """What the parts that are done took, over what was expected of them and five seconds more, which weigh little."""
        return min(max((self._done + 5) / (self._foreseen + 5), FASTEST), SLOWEST)

    def _left(self) -> float:
        return sum(self.expected.values()) * self._pace() if self.expected else float("nan")


def by_worth(methods: Sequence[str]) -> list[str]:
    """The methods in the order in which a budget is spent: what costs nothing, the guarded, the preferred, the others."""

    def rank(name: str) -> tuple[bool, float]:
        method = METHODS[name]
        last = 0.0 if method.guarded and method.needs_policy else float("inf")
        return method.cost is not Cost.SUMS, last if method.preference is None else float(method.preference)

    return sorted(methods, key=rank)


def expected_seconds(
    history: History, policy: Any, family: Any, methods: Sequence[str], fits: bool, evaluate: bool
) -> dict[str, float]:
    """The seconds that each method will probably take on one core, then the evaluation and the bias, where the policy fits."""
    cost = path_cost(history, policy, family) * STEP
    integral = 1.0 if policy is None else complete_policy(policy).log_prob_cost(history.num_arms)
    looks = history.num_steps if history.batch_sizes is None else len(history.batch_sizes)
    running = {
        Cost.SUMS: 0.0,
        Cost.REPLAY: looks * integral * INTEGRAL,
        Cost.SIMULATION: ROUNDS * cost * matching_paths(history, policy, family),
        Cost.WEIGHTED_PATHS: WEIGHTED_PATHS * looks_of(history, policy, family) * integral / INTEGRALS,
    }
    seconds = {name: COMPILING[METHODS[name].cost] + running[METHODS[name].cost] for name in methods}
    if "test_inversion" in seconds:
        seconds["test_inversion"] = COMPILING[Cost.SIMULATION] + ROUNDS * cost * interval_paths(history, policy, family)
    if policy is None or not fits:
        return seconds
    evaluated, trials = evaluated_logs(history, policy, family), bias_trials(history, policy, family)
    if evaluate and evaluated and complete_policy(policy).is_adaptive:
        seconds[Stage.EVALUATING] = EVALUATION_COMPILING + EVALUATION_ROUNDS * evaluated * EVALUATION_PATHS * cost
    if evaluate and "test_inversion" in seconds:
        seconds[Stage.TESTING] = seconds["test_inversion"]
    if trials:
        seconds[Stage.SIMULATING] = BIAS_COMPILING + trials * cost
    return seconds
