"""One design measured: its logs simulated, and the difference of two arms tested in each."""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from jaxbias._core.jit import compiled
from jaxbias._core.randomness import root_words, trial_words
from jaxbias.estimators.estimate import Estimate
from jaxbias.estimators.intervals import normal_quantile
from jaxbias.estimators.inversion.estimator import test_inversion
from jaxbias.estimators.inversion.question import ask, weigh
from jaxbias.estimators.inversion.together import invert_together
from jaxbias.estimators.shrinkage import shrinkage
from jaxbias.history import History
from jaxbias.planning.results import Design
from jaxbias.policies import BasePolicy
from jaxbias.rewards import BaseFamily
from jaxbias.simulation.paths import Design as PathDesign
from jaxbias.simulation.paths import simulate_logs
from jaxbias.simulation.trials import make_batching

GROUPS = 4  # sets of paths that the logs of one mean vector share: enough to see the error that comes from sharing
SHARED = 4  # times as many paths are in a set as for a log of its own: its anchors lie over about four times the range


class Questions(NamedTuple):
    """What is asked of every log.

    Fields:
        mean: (logs, arms), the means of each.
        arms, others: (logs,), the two arms whose difference is tested.
    """

    mean: Float[np.ndarray, "logs arms"]
    arms: np.ndarray
    others: np.ndarray

    @property
    def difference(self) -> Float[np.ndarray, " logs"]:
        """The true one."""
        rows = np.arange(len(self.mean))
        return self.mean[rows, self.arms] - self.mean[rows, self.others]

    def cut(self, number: int) -> "Questions":
        """Of the first logs."""
        return Questions(*(part[:number] for part in self))


class Setting(NamedTuple):
    """What all designs have in common."""

    family: BaseFamily
    points: Float[np.ndarray, "points arms"]
    control: int | None
    level: float
    num_trials: int
    num_paths: int
    batch_size: int | None
    allocation: str

    def questions(self, number: int) -> Questions:
        """Of so many logs: each at the next mean vector, the best arm against the second best or against the control."""
        mean = self.points[np.arange(number) % len(self.points)]
        rest = mean.copy()
        if self.control is not None:
            rest[:, self.control] = -np.inf
        arms = np.argmax(rest, axis=1)
        rest[np.arange(number), arms] = -np.inf
        others = np.argmax(rest, axis=1) if self.control is None else np.full(number, self.control)
        return Questions(mean, arms, others)


class Calibration(NamedTuple):
    """How the tests compare with the plain ones, as if the arms had been fixed in advance, in the same logs.

    Fields:
        ratio: of the half-widths.
        cut_off: of the plain z-statistic, at which it rejects as often.
    """

    ratio: float
    cut_off: float


class PlainFigures(NamedTuple):
    """Of each log, as if the arms had been fixed in advance and the variances were known."""

    stderr: np.ndarray
    z: np.ndarray


def simulate_design(key: PRNGKeyArray, policy: BasePolicy, setting: Setting, mean: np.ndarray, num_steps: int) -> History:
    """Logs, each at its means."""
    batching = make_batching(setting.batch_size, setting.allocation, num_steps)
    steps, num_arms = np.arange(num_steps, dtype=np.int32), mean.shape[1]
    design = PathDesign(np.where(steps < num_arms, steps, 0).astype(np.int32), steps < num_arms, batching)
    logs = _simulate(policy, setting.family, jnp.asarray(mean, float), root_words(key), design)
    if not logs.is_padded:
        return logs
    cut = lambda values: np.asarray(values)[:, :num_steps]
    whole: Any = dict(arms=cut(logs.arms), rewards=cut(logs.rewards), forced=cut(logs.forced), lengths=None, is_padded=False)
    return dataclasses.replace(logs, **whole)


@partial(compiled, pads=("design",), quick=False)
def _simulate(policy: Any, family: Any, means: Array, root: Array, design: PathDesign) -> History:
    return simulate_logs(trial_words(root, jnp.uint32(0), means.shape[0]), policy, family, means, design)


def log_key(key: PRNGKeyArray) -> PRNGKeyArray:
    """Of the logs of a design."""
    return jax.random.split(key)[0]


def measure_design(
    key: PRNGKeyArray, name: str, policy: BasePolicy, setting: Setting, num_steps: int
) -> tuple[Design, Calibration]:
    """The figures of a design, and how its tests compare with the plain ones."""
    number = GROUPS * -(-setting.num_trials // GROUPS)
    asked = setting.questions(number)
    logs = simulate_design(log_key(key), policy, setting, asked.mean, num_steps)
    estimate, which = _test(jax.random.split(key)[1], logs, policy, setting, asked)
    statistics = logs.statistics
    pulls, total = (np.asarray(part, np.float64) for part in (statistics.pulls, statistics.total))
    pick = lambda values: np.asarray(values, np.float64)[np.arange(number), which]
    lower, upper = pick(estimate.lower), pick(estimate.upper)
    usable = (pick(estimate.converged) > 0) & np.isfinite(lower) & np.isfinite(upper)
    known = lambda values: np.where(usable, values, np.nan)
    rejected = known(pick(estimate.diagnostics["p_value"]) < 1 - setting.level)
    half_width = known((upper - lower) / 2)
    covered = known((lower <= asked.difference) & (asked.difference <= upper))
    groups = 1 if len(setting.points) > 1 else number // GROUPS
    figures = {
        "regret": average(_regret(pulls, asked)),
        "bias": average(np.mean(total / pulls - asked.mean, axis=1)),
        "half_width": average(half_width, groups),
        "coverage": average(covered, groups),
        "power": average(rejected, groups),
        "best_arm": average(_finds_best(logs, setting, asked)),
    }
    plain = plain_figures(setting, asked, *(_of_pair(part, asked) for part in (pulls, total)))
    ratio = np.nanmean(half_width) / (normal_quantile(setting.level) * np.mean(plain.stderr[usable])) if usable.any() else 1.0
    named = {name: value for name, (value, _) in figures.items()}
    named |= {f"{name}_stderr": stderr for name, (_, stderr) in figures.items()}
    share = np.clip(named["power"], 0.5 / number, 1 - 0.5 / number) if usable.any() else 0.5
    cut_off = float(np.quantile(np.abs(plain.z), 1 - share))
    design = Design(policy=name, steps=num_steps, logs=number, usable=float(usable.mean()), **named)
    return design, Calibration(ratio=float(ratio), cut_off=cut_off)


def _test(
    key: PRNGKeyArray, logs: History, policy: BasePolicy, setting: Setting, asked: Questions
) -> tuple[Estimate, np.ndarray]:
    """The tests of every pair of arms that some log asks for, and which of them is that of each log."""
    num_arms = asked.mean.shape[1]
    pairs, which = np.unique(np.stack([asked.arms, asked.others], axis=1), axis=0, return_inverse=True)
    weights = np.eye(num_arms)[pairs[:, 0]] - np.eye(num_arms)[pairs[:, 1]]
    if len(setting.points) > 1:
        options: Any = dict(contrast=weights, level=setting.level, num_paths=setting.num_paths)
        return test_inversion(key, logs, policy, setting.family, **options), which.ravel()
    question = ask(logs, policy, setting.family, SHARED * setting.num_paths, None, None)
    estimate = invert_together(key, question, weigh(weights, question.history), setting.level, 0.0, GROUPS)
    return estimate, which.ravel()


def average(each: np.ndarray, cluster: int = 1) -> tuple[float, float]:
    """The average over the logs that have a figure, and its standard error; so many logs one after another may depend on each
    other, as they share their paths."""
    known = np.isfinite(each)
    number = known.sum()
    if number < 2:
        return (float(np.nanmean(each)) if number else np.nan), np.nan
    mean = float(np.nanmean(each))
    off = np.where(known, each - mean, 0)
    one_by_one = np.sqrt(np.sum(off**2) / (number - 1) / number)
    sums = off.reshape(-1, cluster).sum(axis=1)
    together = np.sqrt(np.sum(sums**2) * len(sums) / max(len(sums) - 1, 1)) / number
    return mean, float(max(one_by_one, together))


def _regret(pulls: np.ndarray, asked: Questions) -> np.ndarray:
    return np.sum(pulls * (asked.mean.max(axis=1, keepdims=True) - asked.mean), axis=1)


def _finds_best(logs: History, setting: Setting, asked: Questions) -> np.ndarray:
    """Whether the arm with the largest estimate is the best, or one of those that are."""
    chosen = np.argmax(np.asarray(shrinkage(logs, setting.family).mean), axis=1)
    return (asked.mean[np.arange(len(chosen)), chosen] == asked.mean.max(axis=1)).astype(np.float64)


def plain_figures(setting: Setting, asked: Questions, pulls: np.ndarray, total: np.ndarray) -> PlainFigures:
    """The plain figures, from the pulls and summed rewards of the two arms of each log, (2, logs)."""
    variance = np.asarray(jax.vmap(setting.family.variance)(jnp.asarray(asked.mean, float)), np.float64)
    own = np.stack([variance[np.arange(len(variance)), which] for which in (asked.arms, asked.others)])
    stderr = np.sqrt(np.sum(own / pulls, axis=0))
    mean = total / pulls
    return PlainFigures(stderr=stderr, z=(mean[0] - mean[1]) / stderr)


def _of_pair(values: np.ndarray, asked: Questions) -> np.ndarray:
    """The values of the two arms of each log."""
    rows = np.arange(len(values))
    return np.stack([values[rows, which] for which in (asked.arms, asked.others)])
