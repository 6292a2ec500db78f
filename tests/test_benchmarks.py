"""The benchmark runs, and everything in it simulates the same thing."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "simulate.py"
TRIALS, STEPS = 20_000, 30

pytestmark = pytest.mark.xdist_group("benchmarks")  # one worker, so that what takes long to set up is set up once


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("benchmarks_simulate", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def found(benchmark, tmp_path_factory):
    path = tmp_path_factory.mktemp("benchmark") / "new" / "found.json"
    benchmark.main([f"--trials={TRIALS}", f"--steps={STEPS}", "--repeats=1", f"--json={path}"])
    return json.loads(path.read_text())


@pytest.mark.parametrize("name", ["NumPy", "tuned NumPy", "numba", "C"])
def test_baselines_agree_with_jaxbias(benchmark, found, name):
    rows = {row["name"]: row for row in found["comparison"]}
    if name == "numba" and benchmark.numba is None:
        pytest.skip("numba is not installed")
    if name == "C" and benchmark.c_compiler() is None:
        pytest.skip("there is no C compiler")
    ours, other = rows["jaxbias"], rows[name]
    stderr = np.hypot(ours["bias_stderr"], other["bias_stderr"])
    assert np.all(np.abs(np.subtract(ours["bias"], other["bias"])) < 4 * stderr)
    np.testing.assert_allclose(other["bias_stderr"], ours["bias_stderr"], rtol=0.05)  # stderr is known to 1 / sqrt(2 trials)
    assert np.all(np.less(ours["bias"], -4 * stderr))  # there is something to agree on
    assert other["best"] > 0
    assert other["jaxbias_takes"] == pytest.approx(ours["best"] / other["best"])


def test_c_does_not_depend_on_threads_and_counts_every_trial(benchmark):
    if benchmark.c_compiler() is None:
        pytest.skip("there is no C compiler")
    one, three = benchmark.run_c(1_030, 10, threads=1), benchmark.run_c(1_030, 10, threads=3)
    np.testing.assert_array_equal(one.bias, three.bias)
    more = benchmark.run_c(1_031, 10)  # one more trial: one more error in the sum, of an ordinary size
    added = 1_031 * more.bias - 1_030 * one.bias
    assert np.all(added != 0)
    assert np.all(np.abs(added) < 6)


def test_first_pulls_alone_are_unbiased_in_every_implementation(benchmark):
    """With as many steps as arms, every error is one standard normal."""
    for run in benchmark.implementations().values():
        measured = run(4_000, benchmark.ARMS)
        assert np.all(np.abs(measured.bias) < 4 * measured.stderr)
        np.testing.assert_allclose(measured.stderr, 1 / np.sqrt(4_000), rtol=0.06)


@pytest.mark.slow
def test_growth_and_policies_run(benchmark, capsys):
    found = benchmark.growth((256, 512), (6, 12), repeats=1)
    benchmark.print_growth(found)
    assert len(found["seconds_by_trials"]) == len(found["seconds_by_steps"]) == 2
    assert all(10 < megabytes < 10_000 for megabytes in found["megabytes_by_trials"])
    speeds = benchmark.policy_speeds(256, 6, repeats=1)
    benchmark.print_policies(speeds)
    assert {"greedy", "epsilon-greedy", "thompson", "lil-ucb, tau=1"} <= set(speeds)
    assert all(speed["steps_per_second"] > 0 for speed in speeds.values())
    assert "Time grows as trials" in capsys.readouterr().out


def test_exponent_of_a_power_law(benchmark):
    assert benchmark.exponent([1, 10, 100], [2.0, 20.0, 200.0]) == pytest.approx(1.0)


def test_distance_counts_in_combined_standard_errors(benchmark):
    one = benchmark.Measured(bias=np.array([0.0, 1.0]), stderr=np.array([3.0, 3.0]))
    other = benchmark.Measured(bias=np.array([0.0, 11.0]), stderr=np.array([4.0, 4.0]))
    assert benchmark.distance(one, other) == pytest.approx(2.0)


def test_sizes_that_are_not_allowed(benchmark):
    with pytest.raises(SystemExit):
        benchmark.main(["--steps=2"])
