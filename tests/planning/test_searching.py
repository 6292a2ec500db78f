"""The search for a number of steps, where the answer is known: uniform choices between two Normal arms, sigma 1."""

import jax
import numpy as np
import pytest
from scipy.stats import norm

import jaxbias as jb
from jaxbias.planning.measuring import Calibration, Questions, Setting
from jaxbias.planning.results import FIGURES, Design
from jaxbias.planning.searching import Goal, PlainLogs, Prefixes, find_smallest
from jaxbias.policies import check_policy

Z, AHEAD = 1.959964, 0.5


class Truth:
    """Designs whose tests are wider than the plain ones by a factor; it counts what is measured."""

    def __init__(self, factor=1.0, noise=0.0):
        self.factor, self.noise, self.measured = factor, noise, []

    def __call__(self, steps):
        self.measured.append(steps)
        stderr = self.factor * np.sqrt(4 / steps)
        figures = dict.fromkeys(FIGURES, 0.0) | {"half_width": Z * stderr, "power": norm.sf(Z - AHEAD / stderr)}
        errors = {f"{name}_stderr": self.noise for name in FIGURES}
        design = Design(policy="uniform", steps=steps, logs=64, usable=1.0, **figures, **errors)
        return design, Calibration(ratio=self.factor, cut_off=Z * self.factor)


@pytest.fixture(scope="module")
def plain():
    points = np.array([[AHEAD, 0.0]])
    setting = Setting(jb.Normal(sigma=1.0), points, None, 0.95, 64, 128, None, "independent")
    return PlainLogs(jax.random.key(0), check_policy(jb.Uniform(), 2), setting)


@pytest.mark.parametrize("factor", [0.9, 1.0, 1.2])
def test_the_steps_of_a_half_width(plain, factor):
    truth, goal = Truth(factor), Goal("half_width", 0.15)
    target, design = find_smallest(plain, goal, truth, "uniform", 100_000, 0.05)
    exact = 4 * (Z * factor / 0.15) ** 2  # 683 for a factor of 1
    assert design.steps == target.steps
    assert design.half_width <= 0.15
    assert exact <= target.steps <= 1.06 * exact
    assert len(truth.measured) <= 4
    assert target.lower < exact


def test_a_calibration_through_a_design_gives_its_figures(plain):
    """In other logs than its own, so that the next design is expected where this one says."""
    plain.grow(512)
    design, own = Truth(1.3)(200)
    through = plain.through(design, own)
    np.testing.assert_allclose(plain.figure(Goal("half_width", 1.0), through, 200), design.half_width, rtol=1e-6)
    np.testing.assert_allclose(plain.figure(Goal("power", 0.5), through, 200), design.power, atol=0.01)
    plain.through(design._replace(steps=513), own)  # beyond the logs, which grow
    assert plain.horizon == 513


def test_an_error_stands_for_more_steps_where_steps_help_less(plain):
    """A half-width that falls as steps^-1/2: two errors of 1% are about 4% of the steps; it is never less than the tolerance."""
    plain.grow(512)
    design, own = Truth(noise=0.01 * Z * np.sqrt(4 / 400))(400)
    goal = Goal("half_width", 0.15)
    slope = (np.sqrt(1.5) - 1) / np.log(1.5)
    np.testing.assert_allclose(plain.blur(goal, own, design, 0.001), 0.02 / slope, rtol=0.03)
    assert plain.blur(goal, own, design, 0.05) == 0.05
    assert plain.blur(goal, own, design._replace(half_width_stderr=1.0), 0.05) == 0.25
    assert plain.blur(goal, own, design._replace(half_width_stderr=float("nan")), 0.05) == 0.05


def test_the_steps_of_a_power(plain):
    truth = Truth()
    target, design = find_smallest(plain, Goal("power", 0.8), truth, "uniform", 100_000, 0.05)
    exact = 4 * ((Z + norm.ppf(0.8)) / AHEAD) ** 2  # 126
    assert design.power >= 0.8
    assert exact <= target.steps <= 1.12 * exact  # the plain power has an error of 2 points, 5% of the steps


def test_a_search_ends_where_the_errors_of_designs_are_larger_than_the_tolerance(plain):
    truth = Truth(1.1, noise=0.01)
    target, design = find_smallest(plain, Goal("half_width", 0.15), truth, "uniform", 100_000, 0.05)
    assert len(truth.measured) <= 2
    assert target.steps == design.steps
    assert abs(design.half_width - 0.15) < 0.02


def test_a_design_clearly_better_than_asked_is_not_the_smallest(plain):
    """The logs of all designs are lucky alike: the first one, where plain tests say, has 92% for 80%."""
    truth = Truth(0.8, noise=0.034)
    target, design = find_smallest(plain, Goal("power", 0.8), truth, "uniform", 100_000, 0.05)
    assert design.power <= 0.8 + 2 * 0.034
    assert target.steps < truth.measured[0]
    assert len(truth.measured) <= 3


def test_no_design_is_measured_twice(plain):
    """With so fine a tolerance the next aim is the design that just failed, unless the search goes on from there."""
    truth = Truth(noise=0.0)
    fooled = lambda steps: (truth(steps)[0], Calibration(ratio=0.9, cut_off=Z))  # as if the tests were narrower than they are
    plain_figures = plain.through
    plain.through = lambda design, calibration: calibration
    try:
        find_smallest(plain, Goal("half_width", 0.15), fooled, "uniform", 100_000, 1e-6)
    finally:
        plain.through = plain_figures
    assert len(truth.measured) > 1
    assert len(set(truth.measured)) == len(truth.measured)


def test_a_goal_out_of_reach_says_how_far_it_came(plain):
    truth = Truth()
    target, design = find_smallest(plain, Goal("half_width", 0.01), truth, "uniform", 1000, 0.05)
    assert design is None
    assert not truth.measured  # the plain figures are enough to know it
    assert target.steps is None
    assert target.largest == 1000
    assert abs(target.at_largest - Z * np.sqrt(4 / 1000)) < 0.003


def test_a_goal_just_out_of_reach_is_measured(plain):
    truth = Truth()
    target, design = find_smallest(plain, Goal("half_width", 0.12), truth, "uniform", 1000, 0.05)
    assert target.steps is None
    assert target.largest == design.steps == 1000
    assert target.at_largest == design.half_width > 0.12


def test_a_goal_that_every_design_reaches_needs_the_fewest_steps(plain):
    target, design = find_smallest(plain, Goal("half_width", 50.0), Truth(), "uniform", 1000, 0.05)
    assert target.steps == design.steps == 2
    assert target.lower == 0


@pytest.mark.parametrize("num_steps", [1, 255, 256, 257, 600])
def test_prefixes_are_those_of_the_logs(num_steps):
    rng = np.random.default_rng(0)
    logs = jb.History(arms=rng.integers(0, 3, (4, 600)), rewards=rng.normal(size=(4, 600)), num_arms=3)
    asked = Questions(mean=np.zeros((4, 3)), arms=np.array([0, 1, 2, 0]), others=np.array([1, 2, 0, 2]))
    pulls, total = Prefixes(logs, asked).at(num_steps)
    for place, which in enumerate((asked.arms, asked.others)):
        pulled = logs.arms[:, :num_steps] == which[:, None]
        np.testing.assert_array_equal(pulls[place], pulled.sum(axis=1))
        np.testing.assert_allclose(total[place], (logs.rewards[:, :num_steps] * pulled).sum(axis=1), atol=1e-12)
