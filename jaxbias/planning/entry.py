"""Planning: what policies earn and teach in experiments of different lengths, and how long one must be."""

import dataclasses
import json
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
from jaxtyping import PRNGKeyArray

from jaxbias._core.door import public
from jaxbias._core.kept import load_kept, make_folder, save_kept
from jaxbias._core.randomness import key_words
from jaxbias._core.version import __version__
from jaxbias.planning.checks import check_goals, check_numbers, check_points, check_steps, name_policies, sample_points
from jaxbias.planning.measuring import Calibration, Setting, log_key, measure_design
from jaxbias.planning.results import Design, Plan
from jaxbias.planning.searching import Measure, PlainLogs, find_smallest
from jaxbias.policies import BasePolicy, check_policy
from jaxbias.rewards import Family, check_family
from jaxbias.simulation.trials import make_batching, prepare

INSIDE = "designs"  # the subfolder with the finished ones
USUAL = 2  # designs that a search measures, for the time left


class Step(NamedTuple):
    """Progress after one design: how many of about how many are done, and which share of the work."""

    name: str
    done: int
    total: int
    share: float


@public
def plan(
    key: PRNGKeyArray,
    policies: Any,
    family: Family,
    mean: Any,
    num_steps: int | Sequence[int] = (),
    *,
    half_width: float | None = None,
    power: float | None = None,
    control: int | None = None,
    level: float = 0.95,
    num_trials: int = 256,
    num_paths: int = 128,
    batch_size: int | None = None,
    allocation: Literal["independent", "shares"] = "independent",
    max_steps: int = 100_000,
    tolerance: float = 0.05,
    folder: str | Path | None = None,
    progress: Callable[[Step], None] | None = None,
) -> Plan:
    """What designs earn and teach: regret, bias, and the interval and the test of a difference of two arms.

    The difference is that of the best arm and the second best, or of the best of the others and a control, and is tested by
    `test_inversion`, as `contrasts` does. With `half_width` or `power`, also the smallest number of steps that reaches it: by
    more and more steps until it is reached, then bisection on a logarithmic scale, and confirmed by a design measured there.

    Arguments:
        key: a `jax.random.key`.
        policies: by their names, a list, or one.
        family: what the rewards are.
        mean: (arms,), the means; or a prior over them: (points, arms), draws from it, or a function from a key to (arms,).
        num_steps: the lengths of the designs; none with a goal.
        half_width: what the interval of the difference should have on average.
        power: the probability with which the difference should be found.
        control: the arm that the best of the others is compared with; by default the best is compared with the second best.
        level: of the intervals; a difference is found where its p-value is below 1 - level.
        num_trials: logs that are simulated for each design.
        num_paths: that are simulated for each log at a mean vector of its own; logs at one mean vector share 16 times as many.
        batch_size, allocation: as in `simulate`; whole batches are simulated at once where that is faster.
        max_steps: the most that are tried for a goal.
        tolerance: of the number of steps that is found, relative; the Monte Carlo error of a design may be larger.
        folder: finished designs are kept there, and not measured again.
        progress: called after each design.

    >>> import jax, jaxbias as jb
    >>> options = dict(num_steps=[20, 40], num_trials=32, num_paths=128)
    >>> found = jb.plan(jax.random.key(0), {"uniform": jb.Uniform()}, jb.Normal(), [1.0, 0.0], **options)
    >>> [(design.policy, design.steps) for design in found.designs], found.designs[0].half_width > found.designs[1].half_width
    ([('uniform', 20), ('uniform', 40)], True)
    """
    named, goals = name_policies(policies), check_goals(half_width, power)
    points = check_points(sample_points(key, mean, num_trials), control, power is not None)
    lengths = check_steps(num_steps, points.shape[1], bool(goals))
    check_numbers(level, num_trials, num_paths, max_steps, tolerance, points.shape[1])
    for policy in named.values():
        prepare(key, policy, family, points[0], max(lengths, default=points.shape[1]), num_trials)
    make_batching(batch_size, allocation, points.shape[1])
    chosen: Any = dict(points=points, control=control, level=level, num_trials=num_trials, num_paths=num_paths)
    setting = Setting(check_family(family, points), **chosen, batch_size=batch_size, allocation=allocation)
    work = _Work(key, setting, None if folder is None else make_folder(folder, INSIDE), progress)
    work.expect(len(named) * (len(lengths) + USUAL * len(goals)))
    designs, targets = {}, []
    for name, policy in named.items():
        own = check_policy(policy, points.shape[1])
        for steps in lengths:
            designs[name, steps] = work.measure(name, own, steps)[0]
        plain = PlainLogs(log_key(work.key_of(name)), own, setting)
        for goal in goals:
            target, design = find_smallest(plain, goal, work.measure_by(name, own), name, max_steps, tolerance)
            work.finish_search()
            targets.append(target)
            if design is not None:
                designs[name, design.steps] = design
    ordered = sorted(designs, key=lambda place: (list(named).index(place[0]), place[1]))
    kept = tuple(designs[place] for place in ordered)
    words = key_words(key)
    return Plan(designs=kept, targets=tuple(targets), mean=points, control=control, level=level, key_words=words)


class _Work:
    """Measures designs, each with random numbers of its own, keeps them, and reports progress."""

    def __init__(self, key: PRNGKeyArray, setting: Setting, folder: Path | None, progress: Any) -> None:
        self.key, self.setting, self.folder, self.progress = key, setting, folder, progress
        self.done, self.total, self.searched = 0, 0, 0

    def expect(self, number: int) -> None:
        self.total = number

    def finish_search(self) -> None:
        """A search took more or fewer designs than expected."""
        self.total += self.searched - USUAL
        self.searched = 0

    def measure_by(self, name: str, policy: BasePolicy) -> Measure:
        """As a search calls it."""

        def measure(steps: int) -> tuple[Design, Calibration]:
            self.searched += 1
            return self.measure(name, policy, steps)

        return measure

    def key_of(self, name: str) -> PRNGKeyArray:
        """Of a policy's designs, whatever else is measured, and in which order.

        All lengths have the same: shorter logs are the first steps of longer ones, so that designs differ by their lengths and
        not by luck. A search among designs with logs of their own ends where one was lucky.
        """
        return jax.random.fold_in(self.key, zlib.crc32(name.encode()))

    def measure(self, name: str, policy: BasePolicy, num_steps: int) -> tuple[Design, Calibration]:
        """A design, from its file if it is there."""
        head = self._head(name, policy, num_steps)
        path = self.folder and self.folder / INSIDE / f"{zlib.crc32(json.dumps(head, sort_keys=True).encode()):08x}.json"
        found = _load(path, head) if path else None
        if found is None:
            found = measure_design(self.key_of(name), name, policy, self.setting, num_steps)
            if path:
                save_kept(path, head, {"design": found[0]._asdict(), "calibration": found[1]._asdict()})
        self.done += 1
        if self.progress is not None:
            total = max(self.total, self.done)
            self.progress(Step(f"{name}, {num_steps} steps", self.done, total, self.done / total))
        return found

    def _head(self, name: str, policy: BasePolicy, num_steps: int) -> dict[str, Any]:
        """What identifies a design: it is reused only if all of this is the same."""
        setting = self.setting
        words = setting._asdict() | {"points": setting.points.tolist(), "family": describe(setting.family)}
        named = {"name": name, "policy": describe(policy), "num_steps": num_steps}
        return {**named, **words, "key_words": list(key_words(self.key)), "version": __version__}


def _load(path: Path, head: dict[str, Any]) -> tuple[Design, Calibration] | None:
    """A design that was kept; None where there is none, or a damaged one."""
    kept = load_kept(path, head)
    try:
        return (Design(**kept["design"]), Calibration(**kept["calibration"])) if kept else None
    except (KeyError, TypeError):
        return None


def describe(thing: Any) -> Any:
    """A policy or family as numbers and words; what has none is described by its place in memory, which no other run has.

    >>> import jaxbias as jb
    >>> describe(jb.Floored(jb.Greedy(), floor=0.1))["policy"]["tau"]
    0.0
    """
    if isinstance(thing, str | int | float | bool | None):
        return thing
    if hasattr(thing, "tolist"):
        return thing.tolist()
    if dataclasses.is_dataclass(thing):
        settings = {field.name: describe(getattr(thing, field.name)) for field in dataclasses.fields(thing)}
        return {"class": type(thing).__name__, **settings}
    return repr(thing)
