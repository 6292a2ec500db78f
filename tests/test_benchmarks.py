"""The benchmarks run, and everything in them simulates or estimates the same thing."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxbias.likelihood import trial_log_density

SCRIPTS = Path(__file__).parent.parent / "benchmarks"
TRIALS, STEPS = 20_000, 30


@pytest.fixture(scope="module")
def load():
    """A function that loads a benchmark as its script is run: with the others beside it."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPTS)
        yield import_module
    for name in (set(sys.modules) - before) & {path.stem for path in SCRIPTS.glob("*.py")}:
        del sys.modules[name]


@pytest.fixture(scope="module")
def benchmark(load):
    return load("simulate")


@pytest.fixture(scope="module")
def cmle(load):
    return load("cmle")


@pytest.fixture(scope="module")
def matching(load):
    return load("matching")


@pytest.fixture(scope="module")
def growth(load):
    return load("growth")


@pytest.fixture(scope="module")
def gpu(load):
    return load("gpu")


@pytest.fixture(scope="module")
def startup(load):
    return load("startup")


@pytest.fixture(scope="module")
def found(benchmark, tmp_path_factory):
    path = tmp_path_factory.mktemp("benchmark") / "new" / "found.json"
    benchmark.main([f"--trials={TRIALS}", f"--steps={STEPS}", "--repeats=1", f"--json={path}"])
    return json.loads(path.read_text())


@pytest.mark.parametrize("name", sorted(path.stem for path in SCRIPTS.glob("*.py") if path.stem != "common"))
def test_every_script_loads_and_says_what_it_does(load, name, capsys):
    """With every name that it uses of the package; most of them run in full only in the slow tests."""
    with pytest.raises(SystemExit) as ended:
        load(name).main(["--help"])
    assert ended.value.code == 0
    assert "usage" in capsys.readouterr().out


def test_golden_results_are_compared_to_the_bit(load):
    compare, before = load("golden").compare, {"a: mean": np.array([1.0, np.nan]), "a: stderr": np.array([0.5, 0.5])}
    assert compare(before, {name: value.copy() for name, value in before.items()}) == []
    changed = {"a: mean": np.array([1.25, np.nan]), "b: mean": np.zeros(1)}
    assert compare(before, changed) == ["only in the file: a: stderr", "only in this run: b: mean", "a: mean: 0.5"]
    assert compare(before, before | {"a: mean": np.zeros(3)}) == ["a: mean: shape (2,), now (3,)"]


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
def test_policies_run_and_c_agrees_with_each(benchmark, capsys):
    speeds = benchmark.policy_speeds(TRIALS, STEPS, repeats=1)
    benchmark.print_policies(speeds)
    assert set(speeds) == {"lil-ucb", "greedy", "epsilon-greedy", "thompson", "lil-ucb, tau=1"}
    assert all(speed["steps_per_second"] > 0 for speed in speeds.values())
    assert "thompson" in capsys.readouterr().out
    if benchmark.c_compiler() is None:
        pytest.skip("there is no C compiler")
    assert [name for name, speed in speeds.items() if "share_of_c" in speed] == list(benchmark.IN_C)
    assert all(speeds[name]["distance"] < 4 for name in benchmark.IN_C)
    biases = [benchmark.run_c(TRIALS, STEPS, name) for name in benchmark.IN_C]
    for number, one in enumerate(biases):  # they are four policies
        assert all(benchmark.distance(one, other) > 6 for other in biases[:number])


def test_exponent_of_a_power_law(growth):
    assert growth.exponent([1, 10, 100], [2.0, 20.0, 200.0]) == pytest.approx(1.0)


@pytest.mark.slow
def test_growth(growth, monkeypatch, tmp_path, capsys):
    ladders = [
        growth.Ladder("simulate", "trials", growth.Size(0, 6, 2), (256, 512)),
        growth.Ladder("conditional_mle", "arms", growth.Size(1, 12, 0), (2, 3)),
        growth.Ladder("mean_matching", "steps", growth.Size(1, 0, 2), (6, 12)),
    ]
    monkeypatch.setattr(growth, "LADDERS", ladders)
    growth.main(["--small", "--repeats=1", f"--json={tmp_path / 'found.json'}", f"--plot={tmp_path / 'growth.png'}"])
    found = json.loads((tmp_path / "found.json").read_text())
    assert [ladder["sizes"] for ladder in found["ladders"]] == [[256, 512], [2, 3], [6, 12]]
    assert all(second > 0 for ladder in found["ladders"] for second in ladder["seconds"])
    assert all(10 < megabytes < 10_000 for megabytes in found["memory"]["megabytes"])
    assert (tmp_path / "growth.png").read_bytes()[:4] == b"\x89PNG"
    assert "time grows as arms to the power" in capsys.readouterr().out


def test_the_ladders_are_those_that_are_asked_for(growth):
    longest = {(ladder.tool, ladder.over): ladder.sizes[-1] for ladder in growth.chosen_ladders(small=False, large=True)}
    assert longest["simulate", "trials"] == 10**7
    assert {longest[tool, "steps"] for tool in ("simulate", "conditional_mle", "mean_matching")} == {10**6}
    assert {longest[tool, "trials"] for tool in ("conditional_mle", "mean_matching")} == {10**5}
    assert {longest[tool, "arms"] for tool in ("simulate", "conditional_mle", "mean_matching")} == {200}


def test_distance_counts_in_combined_standard_errors(benchmark):
    one = benchmark.Measured(bias=np.array([0.0, 1.0]), stderr=np.array([3.0, 3.0]))
    other = benchmark.Measured(bias=np.array([0.0, 11.0]), stderr=np.array([4.0, 4.0]))
    assert benchmark.distance(one, other) == pytest.approx(2.0)


def test_sizes_that_are_not_allowed(benchmark):
    with pytest.raises(SystemExit):
        benchmark.main(["--steps=2"])


@pytest.fixture(scope="module")
def log(cmle):
    """One log as NumPy has it: arms and rewards."""
    history = cmle.simulated(1, 40)
    return np.asarray(history.arms)[0], np.asarray(history.rewards)[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numpy_log_density_is_that_of_jaxbias_but_for_a_constant(cmle, log, dtype):
    arms, rewards = log
    random = np.random.default_rng(0)
    mean, forced = random.normal(size=cmle.ARMS).astype(np.float32), jnp.arange(len(arms)) < cmle.ARMS
    vectors = (rewards + random.normal(size=(6, len(arms)))).astype(np.float32)
    density = cmle.Density(arms, dtype)
    ours = np.array([density(mean[arms].astype(dtype), vector.astype(dtype)) for vector in vectors])
    problem = (cmle.POLICY, cmle.FAMILY, jnp.asarray(mean), jnp.asarray(arms))
    theirs = np.asarray(jax.jit(jax.vmap(lambda vector: trial_log_density(*problem, vector, forced)))(jnp.asarray(vectors)))
    assert np.ptp(theirs) > 1  # there is something to agree on
    np.testing.assert_allclose(ours - ours[0], theirs - theirs[0], atol=1e-4)


def test_both_numpy_versions_are_the_same_chain(cmle, log):
    one, other = (run(7, *log, iterations=40, dtype=np.float64) for run in (cmle.numpy_log, cmle.tuned_numpy_log))
    np.testing.assert_allclose(one, other, atol=1e-8)
    sample_mean = np.bincount(log[0], log[1]) / np.bincount(log[0])
    assert np.max(np.abs(one - sample_mean)) > 0.01  # they went somewhere


@pytest.mark.slow
def test_numpy_estimates_what_jaxbias_does(cmle):
    """Nearer to the contrastive divergence of jaxbias, from other random numbers, than to the sample means."""
    history = cmle.simulated(4, 12)
    theirs = cmle.run_jaxbias(history, **cmle.DIVERGENCE, num_paths=64).mean
    ours, sample_mean = cmle.run_numpy(history, cmle.tuned_numpy_log).mean, np.asarray(history.statistics.mean)
    assert np.abs(ours - theirs).mean() < 0.33 * np.abs(ours - sample_mean).mean()


@pytest.mark.slow
def test_comparison_of_estimators(cmle, monkeypatch, tmp_path, capsys):
    run = cmle.run_jaxbias
    monkeypatch.setattr(cmle, "run_jaxbias", lambda history, **options: run(history, **{**options, "num_paths": 64}))
    path = tmp_path / "new" / "found.json"
    cmle.main(["--logs=3", "--numpy-logs=2", "--steps=12", "--repeats=1", f"--json={path}"])
    rows = {row["name"]: row for row in json.loads(path.read_text())["comparison"]}
    assert list(rows) == ["newton", "newton, 256 paths", "NumPy", "tuned NumPy"]
    assert [row["logs"] for row in rows.values()] == [3, 3, 2, 2]
    assert rows["newton"]["compile"] > rows["NumPy"]["compile"] == 0
    assert rows["newton"]["from_newton"] == 0 < rows["newton"]["from_sample_mean"]
    assert rows["newton"]["times_numpy"] == pytest.approx(rows["newton"]["logs_per_second"] / rows["NumPy"]["logs_per_second"])
    assert 0 < rows["newton"]["noise"] < 0.5
    assert "tuned NumPy" in capsys.readouterr().out


def test_sizes_of_logs_that_are_not_allowed(cmle):
    for wrong in ("--steps=5", "--logs=2", "--numpy-logs=0", "--repeats=0"):
        with pytest.raises(SystemExit):
            cmle.main([wrong])


@pytest.mark.slow
def test_unknown_sigma(load, tmp_path, capsys):
    path = tmp_path / "found.json"
    load("sigma").main(["--trials=4", "--policy=Greedy, tau 0", f"--json={path}"])
    rows = json.loads(path.read_text())["rows"]["Greedy, tau 0"]
    assert [(row["method"], row["sigma"]) for row in rows] == [("mean_matching", name) for name in ("known", "one", "each")]
    assert all(np.isfinite(row["bias"]["value"]) and 0 <= row["coverage"]["value"] <= 1 for row in rows)
    assert "  mean_matching   one " in capsys.readouterr().out


def test_mean_matching(matching, tmp_path, capsys):
    path = tmp_path / "found.json"
    matching.main(["--logs=3", "--steps=8", "--repeats=1", f"--json={path}"])
    found = json.loads(path.read_text())
    assert found["comparison"]["trials"] >= 3 * 2048
    assert found["comparison"]["times_simulation"] > 0
    assert "ratio" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        matching.main(["--steps=5"])


@pytest.mark.slow
def test_gradients(load, tmp_path, capsys):
    path = tmp_path / "found.json"
    load("gradients").main(["--logs=3", "--steps=8", "--repeats=1", f"--json={path}"])
    found = json.loads(path.read_text())
    assert all(found[method]["shift_error"] < 1e-5 for method in ("conditional_mle", "mean_matching"))
    assert "times the estimate" in capsys.readouterr().out


@pytest.mark.slow
def test_rewards_that_are_not_normal(load, tmp_path, capsys, monkeypatch):
    rewards, path = load("rewards"), tmp_path / "found.json"
    monkeypatch.setattr(rewards, "STEPS", 12)
    rewards.main(["--trials=3", "--steps=30", f"--json={path}"])
    found = json.loads(path.read_text())
    assert [row["method"] for row in found["rows"]] == ["conditional_mle", "mean_matching"] * 4
    assert found["long"]["rounds"] >= 1
    assert "coverage" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        rewards.main(["--trials=1"])


@pytest.mark.slow
def test_batches_and_stopping(load, tmp_path, capsys, monkeypatch):
    batches, path = load("batches"), tmp_path / "found.json"
    monkeypatch.setattr(batches, "MEAN", [1.0, 0.0])
    monkeypatch.setattr(batches, "SIZE", 5)
    monkeypatch.setattr(batches, "NUMBER", 3)
    batches.main(["--trials=4", f"--json={path}"])
    found = json.loads(path.read_text())
    assert [row["method"] for row in found["rows"]].count("mean_matching") == 5
    assert [row["method"] for row in found["rows"]].count("conditional_mle") == 2  # not where batches are shared out
    parts = found["sources"]
    assert sum(parts[name] for name in parts if name != "reported") == pytest.approx(parts["reported"], abs=1e-5)
    assert "coverage" in capsys.readouterr().out


@pytest.mark.slow
def test_grid_on_the_device_that_is_there(gpu, tmp_path, capsys):
    path, plot = tmp_path / "new" / "found.json", tmp_path / "other" / "found.png"
    gpu.main(["--small", "--repeats=1", f"--json={path}", f"--plot={plot}"])
    found = json.loads(path.read_text())["runs"][jax.devices()[0].device_kind]
    rows = {what: [row for row in found["rows"] if row["what"] == what] for what in ("simulation", "newton", "mean_matching")}
    assert [(row["trials"], row["steps"], row["arms"]) for row in rows["simulation"]] == [(256, 8, 2), (512, 8, 2)]
    assert [row["logs"] for row in rows["newton"]] == [row["logs"] for row in rows["mean_matching"]] == [4]
    others = {"test_inversion", "evaluate", "gradient, matching", "gradient, experiment"}
    assert {row["what"] for row in found["rows"]} == {*rows, *others}
    for row in found["rows"]:
        assert min(row["seconds"], row["peak_megabytes"]) > 0 <= row["compile"]
        assert row["what"] in others or row["share_of_bandwidth"] > 0
        speed, size = ("steps_per_second", row["trials"] * row["steps"]) if "trials" in row else ("logs_per_second", row["logs"])
        assert row[speed] == pytest.approx(size / row["seconds"])
    assert 0.1 < found["gigabytes_per_second"] < 10_000
    assert plot.read_bytes().startswith(b"\x89PNG")
    table = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert [line.split(" | ")[0].removeprefix("| ") for line in table[2:]] == [
        *rows,
        *sorted(others, key=list(_kinds(found)).index),
    ]


def _kinds(found):
    return dict.fromkeys(row["what"] for row in found["rows"])


def test_the_summary_has_the_largest_of_each_kind_and_how_much_faster_it_is(gpu):
    about = dict(devices=1, device="GPU", processor="P", versions={"jax": "1"})
    row = dict(what="simulation", steps=8, arms=2, compile=1.0, peak_megabytes=5.0, steps_per_second=8e6)
    rows = [dict(row, trials=trials, seconds=seconds) for trials, seconds in ((10, 0.5), (1000, 2.0))]
    slower = [dict(one, seconds=3 * one["seconds"]) for one in rows]
    runs = {name: dict(machine=about, gigabytes_per_second=9.0, rows=some) for name, some in (("GPU", rows), ("cpu", slower))}
    title, _, *table = gpu.summary(runs).splitlines()
    assert title == "1 x GPU, P, jax 1; 9 GB/s"
    assert table[2:] == ["| simulation | 1,000 | 8 | 2 | 1.0 | 2.0000 | 8.0 Msteps | 5 | 6.0000 | 3.0 |"]
    assert table[0].count("|") == table[1].count("|") == table[2].count("|")


def test_bytes_of_a_step_are_at_least_the_state_read_and_written(gpu):
    """Pulls and sums of each arm, four bytes each, twice; and not a hundred times that."""
    assert 2 * 8 * 2 < gpu.bytes_per_step(256, 8, 2) < 100 * 2 * 8 * 2


@pytest.mark.slow
def test_startup_lists_what_a_process_does(startup, tmp_path, capsys):
    path = tmp_path / "found.json"
    startup.main(["--repeats=1", "--trials=300", f"--json={path}"])
    found = json.loads(path.read_text())
    assert set(found["seconds"]) == {"no cache", "empty cache", "full cache"}
    for seconds in found["seconds"].values():
        assert seconds["everything"] > sum(seconds[name] for name in startup.CALLS)
        assert all(seconds[f"{name}, again"] < seconds[name] for name in ("measure_bias", "conditional_mle", "mean_matching"))
    assert found["summary"]["added_by_import"] < 0.3
    assert found["summary"]["cache_leaves_of_first_calls"] < 0.5
    assert "`import jaxbias` adds" in capsys.readouterr().out


@pytest.mark.slow
def test_gradients_of_experiments(load, tmp_path, capsys):
    path = tmp_path / "found.json"
    load("gradients_of_experiments").main(["--trials=2000", "--repeats=1", f"--json={path}"])
    rows = json.loads(path.read_text())["cases"]
    assert all(row["times_cpu"] > 0 for row in rows.values())
    assert rows["lil' UCB, tau"]["regret in setting, variance left"] < 0.5
    assert "Greedy, tau" in capsys.readouterr().out


@pytest.mark.slow
def test_thompson(load, tmp_path, capsys):
    path, tree = tmp_path / "found.json", str(SCRIPTS.parent)
    load("thompson").main(["--arms=3", "--states=2", "--logs=0", "--repeats=1", f"--before={tree}", f"--json={path}"])
    found = json.loads(path.read_text())
    assert set(found["ratio"]) == {f"{name}, 3 arms: us" for name in ("Normal", "Normal, tau 1", "Beta")}
    assert all(0.01 < ratio < 100 for ratio in found["ratio"].values())  # a checkout beside itself
    assert "times as long" in capsys.readouterr().out


@pytest.mark.slow
def test_captions():
    """On the contests that the notebook makes up, with R = 1; in a process of its own, without the strict types of the tests."""
    environment = {name: value for name, value in os.environ.items() if name != "JAXBIAS_CAPTIONS"}
    environment["PYTHONPATH"] = str(SCRIPTS.parent)
    command = [sys.executable, str(SCRIPTS / "captions.py")]
    found = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=True)
    assert "3 of 3 within 3 combined standard errors" in found.stdout
    assert "made-up-1" in found.stdout
