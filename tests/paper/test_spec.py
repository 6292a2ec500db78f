"""When two figures agree, and what the specs say."""

import math

import numpy as np
import pytest

from jaxbias.paper import SPECS
from jaxbias.paper.experiments import METHODS, Experiment, Result
from jaxbias.paper.policies import POLICIES
from jaxbias.paper.run import ORDER
from jaxbias.paper.spec import FAR, Entry, figure, in_percent, judge, largest_in_errors, less, percent
from jaxbias.paper.summaries import Figure

ONE = Experiment(policy="Greedy", mean=(1.0, 0.5), steps=4, more=100)
OTHER = Experiment(policy="Greedy", mean=(1.0, 0.5), steps=5)


def cell(value, stderr, paper=None, trials=100_000, read=None, experiments=(ONE,), **fields):
    results = {ONE: Result(trials, {"bias": Figure(value, stderr)}), OTHER: Result(1000, {"bias": Figure(2.0, 0.1)})}
    entry = Entry(row="a", column="b", experiments=experiments, read=read or figure("bias"), paper=paper, **fields)
    return judge(entry, results)


def test_the_papers_error_is_ours_at_its_number_of_trials():
    found = cell(0.30, 0.001, paper=0.25, expects="agrees")
    assert found.sigmas == pytest.approx((0.05 - 0.005) / math.hypot(0.001, 0.01))
    assert (found.verdict, found.trials) == ("DISAGREES", 100_000)


def test_half_of_the_last_printed_digit_is_free():
    assert cell(0.2549, 1e-9, paper=0.25, expects="agrees").sigmas == 0
    assert cell(0.2549, 1e-9, paper=0.25, digit=0.001, expects="agrees").verdict == "DISAGREES"


@pytest.mark.parametrize(("away", "verdict"), [(FAR - 0.1, "agrees"), (FAR + 0.1, "DISAGREES")])
def test_four_combined_errors_are_chance(away, verdict):
    error = math.hypot(0.001, 0.01)
    assert cell(0.25 - 0.005 - away * error, 0.001, paper=0.25, expects="agrees").verdict == verdict
    assert cell(0.25 + 0.005 + away * error, 0.001, paper=0.25, expects="agrees").verdict == verdict


def test_few_trials_cannot_tell():
    """-76% +- 29 beside a printed 6.2% is within four combined errors, and says nothing."""
    noisy = cell(-76.0, 29.0, paper=6.2, digit=0.1, trials=50, unit="%", expects="agrees")
    assert noisy.sigmas < FAR
    assert (noisy.verdict, noisy.resolution) == (
        "too noisy",
        pytest.approx(FAR * 29 * math.hypot(1, math.sqrt(50 / 1000)) + 0.05),
    )
    assert cell(-6.0, 6.0, paper=6.2, digit=0.1, trials=1000, unit="%", expects="agrees").verdict == "agrees"
    assert cell(99.0, 6.0, paper=6.2, digit=0.1, trials=1000, unit="%", expects="agrees").verdict == "DISAGREES"
    assert cell(-0.2, 0.04, paper=-0.26, trials=1000, expects="agrees").verdict == "too noisy"  # four errors of 0.057 are more
    assert cell(-0.2, 0.02, paper=-0.26, trials=1000, expects="agrees").verdict == "agrees"
    assert cell(0.01, 0.001, paper=0.0, trials=1000, expects="agrees").verdict == "agrees"  # two printed digits are always free


def test_what_is_explained_is_no_failure_and_says_whether_it_differs():
    assert cell(0.9, 0.001, paper=0.25, why="known").verdict == "differs"
    assert cell(0.25, 0.001, paper=0.25, why="known").verdict == "agrees"
    assert cell(0.9, 0.001).verdict == ""


@pytest.mark.parametrize(
    ("expects", "value", "verdict"),
    [
        ("at most 0", -1.0, "agrees"),
        ("at most 0", 0.39, "agrees"),
        ("at most 0", 0.41, "DISAGREES"),
        ("at least 0", 1.0, "agrees"),
        ("at least 0", -0.41, "DISAGREES"),
        ("is 0", 0.39, "agrees"),
        ("is 0", -0.41, "DISAGREES"),
        ("is 0", math.nan, "DISAGREES"),
    ],
)
def test_what_the_paper_says_in_words(expects, value, verdict):
    assert cell(value, 0.1, expects=expects).verdict == verdict


def test_exact_figures_may_be_off_by_rounding_alone():
    assert cell(1e-12, 0.0, expects="at most 0").verdict == "agrees"
    assert cell(1e-6, 0.0, expects="at most 0").verdict == "DISAGREES"


def test_a_percentage_has_the_error_of_both():
    found = cell(0.5, 0.02, read=percent("bias"), experiments=(ONE, OTHER))
    draws = np.random.default_rng(0)
    ratios = 100 * draws.normal(0.5, 0.02, 10**6) / draws.normal(2.0, 0.1, 10**6)
    assert found.ours == pytest.approx(25)
    assert found.stderr == pytest.approx(ratios.std(), rel=0.02)
    assert found.trials == 1000


def test_readings():
    result = Result(10, {"x": Figure(np.array([1.0, 2.0]), np.array([0.3, 0.4])), "share": Figure(0.5, 0.1)})
    assert figure("x", 1)(result) == (2.0, 0.4)
    assert in_percent("share")(result) == (50, 10)
    assert less(figure("x", 1), figure("x", 0))(result, result) == (1.0, 0.5)
    assert largest_in_errors("x")(result) == (5.0, 1.0)
    low = Result(10, {"x": Figure(np.array([-9.0, 1.0]), np.array([1.0, 1.0]))})
    assert (largest_in_errors("x")(low).value, largest_in_errors("x", size=True)(low).value) == (1.0, 9.0)


# The specs


def test_every_table_and_figure_is_there():
    assert set(ORDER) == set(SPECS)
    assert {name for name in SPECS if name.startswith("table")} == {f"table{number}" for number in range(1, 8)}
    assert {name for name in SPECS if name.startswith("figure")} == {"figure1", *(f"figure2{letter}" for letter in "abcdef")}


@pytest.mark.parametrize("name", ORDER)
def test_a_spec_is_whole(name):
    spec = SPECS[name]
    places = [(entry.row, entry.column) for entry in spec.entries]
    assert len(set(places)) == len(places) > 0
    assert spec.title.split(". ")[0].lower().replace(" ", "").startswith(name.replace("figure2", "figure2(")[:8])
    assert spec.setting
    assert spec.seen
    for experiment in spec.experiments:
        assert experiment.policy in POLICIES
        assert experiment.method in METHODS
    for entry in spec.entries:
        assert not (entry.why and entry.expects)
        if entry.paper is not None:  # a printed number either must agree or is explained
            assert entry.why or entry.expects == "agrees"


def test_how_many_numbers_the_paper_printed():
    """Printed twice here where it is shown for two readings of the caption."""
    printed = {name: sum(entry.paper is not None for entry in spec.entries) for name, spec in SPECS.items()}
    assert {name: printed[name] for name in sorted(printed) if name.startswith("table")} == {
        "table1": 2 * 24,
        "table2": 12 + 2 * 12,
        "table3": 12 + 2 * 12 + 4 + 2 * 12,
        "table4": 2 * (2 + 2 + 2),
        "table5": 2 * 12,
        "table6": 2 * 16,
        "table7": 2 * 10 + 2 * 8,
    }
    joint = [entry for name in ("table1", "table5", "table6") for entry in SPECS[name].entries]
    rows = {}
    for entry in joint:
        rows.setdefault((entry.experiments, entry.row), []).append(entry.paper)
    assert all(abs(sum(shares) - 1) < 0.035 for shares in rows.values())  # as printed, up to its rounding


def test_experiments_have_names_of_their_own():
    experiments = {experiment for spec in SPECS.values() for experiment in spec.experiments}
    names = {experiment.name for experiment in experiments}
    assert len(names) == len(experiments)
    assert all(name.isascii() and "/" not in name and " " not in name for name in names)
