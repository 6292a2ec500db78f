"""The smallest number of steps that reaches a goal, by bracketing.

Tests by inversion are dear. Plain ones are not: those of every prefix of a log come with the log. So the search brackets with
plain figures first (more steps until the goal is reached, then bisection on a logarithmic scale), measures the design there,
learns how its tests compare with the plain ones (`Calibration`), and moves. It ends with a design measured on logs of its own.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import PRNGKeyArray

from jaxbias.estimators.intervals import normal_quantile
from jaxbias.history import History
from jaxbias.planning.measuring import Calibration, Questions, Setting, plain_figures, simulate_design
from jaxbias.planning.results import Design, Target
from jaxbias.policies import BasePolicy

FIRST = 512  # steps that are simulated first
MOST_NUMBERS = (
    2**25
)  # logs x steps kept for the plain figures: 256 MB, and seconds; with fewer logs they are not those of a design
BLOCK = 256  # steps whose sums are kept
FEWEST_LOGS = 32  # for the plain figures, however long they are
MOST_FACTOR = 16  # by which the steps grow at once, where half-widths that fall as steps^-1/2 say so
AHEAD = 1.25  # times as many steps as they say, as policies pull worse arms ever more rarely
MOST_MEASURED = 6  # designs of a search: two are usual
SHORTER = 8  # times shorter is a first design: the tests compare with the plain ones alike there, for an eighth of the time
SEARCHED_LOGS = 256  # for the plain figures: they cost little, and their error is that of the number of steps
FAR = 0.3  # of a half-width, or in power: so much better than the plain ones the tests are not
NEAR = 1.5  # times fewer steps, from which to see how fast a figure changes with them
MOST_BLUR = 0.25  # of the steps, however large the error of a figure is
ERRORS = 2  # Monte Carlo errors by which a design that is reported may be better than its goal
TINY = 1e-12  # a change below which there is none
FINE = 4  # times finer than the tolerance is the bisection, which costs nothing

Measure = Callable[[int], tuple[Design, Calibration]]  # from steps


class Goal(NamedTuple):
    """A figure of a design and its value: at most for "half_width", at least for "power"."""

    figure: str
    value: float

    def reached(self, design: Design) -> bool:
        """Whether a design reaches it, as far as its Monte Carlo error can tell."""
        value, stderr = getattr(design, self.figure), np.nan_to_num(getattr(design, f"{self.figure}_stderr"))
        return bool(value <= self.value + stderr if self.figure == "half_width" else value >= self.value - stderr)

    def exceeded(self, design: Design) -> bool:
        """Whether a design is clearly better than what is asked for, by more than its Monte Carlo error can explain."""
        value, stderr = getattr(design, self.figure), np.nan_to_num(getattr(design, f"{self.figure}_stderr"))
        better = self.value - value if self.figure == "half_width" else value - self.value
        return bool(better > ERRORS * stderr)


class Prefixes:
    """Pulls and summed rewards of the two arms of each log after any number of steps, from sums over blocks of steps."""

    def __init__(self, logs: History, asked: Questions) -> None:
        arms = np.asarray(logs.arms)
        self.pulled = np.stack([arms == which[:, None] for which in (asked.arms, asked.others)])
        self.rewards = np.asarray(logs.rewards)
        starts = np.arange(0, arms.shape[1], BLOCK)
        blocks = [np.add.reduceat(part, starts, axis=-1, dtype=np.float64) for part in (self.pulled, self.pulled * self.rewards)]
        self.before = [np.cumsum(part, axis=-1) - part for part in blocks]

    def at(self, num_steps: int) -> tuple[np.ndarray, np.ndarray]:
        """After so many steps: pulls and sums, (2, logs)."""
        block = (num_steps - 1) // BLOCK
        rest = slice(block * BLOCK, num_steps)
        pulled = self.pulled[..., rest]
        own = np.sum(pulled, axis=-1), np.sum(pulled * self.rewards[:, rest], axis=-1, dtype=np.float64)
        return self.before[0][..., block] + own[0], self.before[1][..., block] + own[1]


class PlainLogs:
    """Logs that grow, and their plain figures after any number of steps."""

    def __init__(self, key: PRNGKeyArray, policy: BasePolicy, setting: Setting) -> None:
        self.key, self.policy, self.setting = key, policy, setting
        self.horizon = 0
        self.logs: Prefixes | None = None
        self.asked: Questions | None = None

    def grow(self, num_steps: int) -> None:
        """Simulates logs of so many steps."""
        number = max(min(SEARCHED_LOGS, MOST_NUMBERS // num_steps), FEWEST_LOGS)
        self.asked = self.setting.questions(number)
        self.logs = Prefixes(simulate_design(self.key, self.policy, self.setting, self.asked.mean, num_steps), self.asked)
        self.horizon = num_steps

    def reach(self, num_steps: int) -> None:
        """Logs of so many steps at least."""
        if num_steps > self.horizon:
            self.grow(num_steps)

    def figure(self, goal: Goal, calibration: Calibration, num_steps: int) -> float:
        """What the goal is about, as expected of the tests."""
        assert self.logs is not None
        assert self.asked is not None
        plain = plain_figures(self.setting, self.asked, *self.logs.at(num_steps))
        if goal.figure == "power":
            return float(np.mean(np.abs(plain.z) > calibration.cut_off))
        return float(calibration.ratio * normal_quantile(self.setting.level) * np.mean(plain.stderr))

    def through(self, design: Design, calibration: Calibration) -> Calibration:
        """The calibration with which these logs give the figures of a design that was measured on other logs.

        A design is judged by its own logs: so the next one is expected where they would say so, and not a few steps on.
        """
        if not np.isfinite(design.half_width):
            return calibration
        self.reach(design.steps)
        assert self.asked is not None
        assert self.logs is not None
        plain = plain_figures(self.setting, self.asked, *self.logs.at(design.steps))
        ratio = design.half_width / (normal_quantile(self.setting.level) * np.mean(plain.stderr))
        share = np.clip(design.power, 0.5 / design.logs, 1 - 0.5 / design.logs)
        return Calibration(ratio=float(ratio), cut_off=float(np.quantile(np.abs(plain.z), 1 - share)))

    def blur(self, goal: Goal, calibration: Calibration, design: Design, tolerance: float) -> float:
        """The relative error of the steps: the tolerance, or what two Monte Carlo errors of the figure are in steps.

        The fewer pulls the worse arm gets, the less more steps help, and the more steps an error stands for.
        """
        self.reach(design.steps)
        shorter = max(round(design.steps / NEAR), self.setting.points.shape[1])
        before, now = (self.figure(goal, calibration, steps) for steps in (shorter, design.steps))
        change = abs(now - before) / np.log(design.steps / shorter) if shorter < design.steps else np.inf
        error = float(np.nan_to_num(getattr(design, f"{goal.figure}_stderr")))
        return float(np.clip(2 * error / max(change, TINY), tolerance, MOST_BLUR)) if error else tolerance

    def reached(self, goal: Goal, calibration: Calibration, num_steps: int) -> bool:
        """Whether the goal is expected to be reached."""
        value = self.figure(goal, calibration, num_steps)
        return value >= goal.value if goal.figure == "power" else value <= goal.value


def find_smallest(
    plain: PlainLogs, goal: Goal, measure: Measure, name: str, max_steps: int, tolerance: float
) -> tuple[Target, Design | None]:
    """The smallest number of steps for a goal, and the design that was measured there; without one, at the most steps."""
    setting, num_arms = plain.setting, plain.setting.points.shape[1]
    calibration = Calibration(ratio=1.0, cut_off=float(normal_quantile(setting.level)))
    steps = _expected(plain, goal, calibration, max_steps, tolerance)
    if steps == max_steps and _out_of_reach(goal, at_most := plain.figure(goal, calibration, max_steps)):
        return Target(name, goal.figure, goal.value, None, max_steps, at_most, 0), None
    if steps >= SHORTER * FIRST:
        _, calibration = measure(round(steps / SHORTER))
        steps = _expected(plain, goal, calibration, max_steps, tolerance)
    found, last, least = None, None, 0  # the least number of steps that was measured and reaches it; the most that does not
    for _ in range(MOST_MEASURED):
        aim = max(steps, least) * (1 + tolerance / 2)  # a bit beyond, as a design that just fails costs another one
        steps = int(np.clip(max(int(aim), least + 1), num_arms, max_steps))
        last, calibration = measure(steps)
        calibration = plain.through(last, calibration)
        found, least = (last, least) if goal.reached(last) else (found, steps)
        steps = _expected(plain, goal, calibration, max_steps, tolerance)
        if least >= max_steps or (found is not None and _is_narrow(plain, goal, calibration, found, least, steps, tolerance)):
            break
    assert last is not None
    reported = found or last
    ends = (reported.steps, getattr(reported, goal.figure), least)
    return Target(name, goal.figure, goal.value, found and found.steps, *ends), reported


def _is_narrow(
    plain: PlainLogs, goal: Goal, calibration: Calibration, found: Design, least: int, expected: int, tolerance: float
) -> bool:
    """Whether what is left to search is less than the tolerance, or than what the errors of designs can tell."""
    blur = tolerance if goal.exceeded(found) else plain.blur(goal, calibration, found, tolerance)
    return found.steps <= max(max(least, expected) * (1 + blur), least + 1, plain.setting.points.shape[1])


def _out_of_reach(goal: Goal, value: float) -> bool:
    """Whether the plain figure is so far from the goal that the tests need not be run to know it."""
    return value < goal.value - FAR if goal.figure == "power" else value > (1 + FAR) * goal.value


def _expected(plain: PlainLogs, goal: Goal, calibration: Calibration, max_steps: int, tolerance: float) -> int:
    """The steps at which the goal is expected to be reached, at most `max_steps`."""
    least = plain.setting.points.shape[1]
    if not plain.horizon:
        plain.grow(min(max(FIRST, 2 * least), max_steps))
    while plain.horizon < max_steps and not plain.reached(goal, calibration, plain.horizon):
        plain.grow(min(_next_horizon(plain, goal, calibration), max_steps))
    low, high = least, min(plain.horizon, max_steps)
    if not plain.reached(goal, calibration, high) or plain.reached(goal, calibration, low):
        return low if plain.reached(goal, calibration, low) else high
    while high - low > 1 and high > low * (1 + tolerance / FINE):
        middle = int(np.clip(round(np.sqrt(low * high)), low + 1, high - 1))
        low, high = (low, middle) if plain.reached(goal, calibration, middle) else (middle, high)
    return high


def _next_horizon(plain: PlainLogs, goal: Goal, calibration: Calibration) -> int:
    """Twice as many steps, or as many as a half-width needs that falls as steps^-1/2."""
    factor = 2.0
    if goal.figure == "half_width":
        short = plain.figure(goal, calibration, plain.horizon) / goal.value
        factor = float(np.clip(AHEAD * short**2, 2.0, MOST_FACTOR))
    return round(plain.horizon * factor)
