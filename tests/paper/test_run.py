"""Runs that are stopped and go on, and what they leave in the folder."""

import csv
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from jaxbias.cli import main
from jaxbias.paper import run, store
from jaxbias.paper.experiments import Experiment, Result
from jaxbias.paper.run import SPECS, find_specs, reproduce
from jaxbias.paper.spec import Entry, Spec, figure
from jaxbias.paper.summaries import Figure

KEY = jax.random.key(0)
FEW = ["table5", "figure1", "figure2e"]
EXPERIMENT = Experiment(policy="Greedy", mean=(1.0, 0.5), steps=4)


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# Cells in files


def test_a_result_comes_back_to_the_last_digit(tmp_path):
    (tmp_path / "cells").mkdir()
    result = Result(20, {"x": Figure(1 / 3, 0.1), "y": Figure(np.array([[0.1, np.pi]]), np.array([[0.0, np.nan]]))})
    store.save(tmp_path, EXPERIMENT, (0, 5), 20, result)
    kept = store.load(tmp_path, EXPERIMENT, (0, 5), 20)
    assert kept.trials == 20
    for name, (value, stderr) in result.figures.items():
        np.testing.assert_array_equal(kept.figures[name].value, value)
        np.testing.assert_array_equal(kept.figures[name].stderr, stderr)
    assert [path.name for path in (tmp_path / "cells").iterdir()] == [f"{EXPERIMENT.name}.json"]


def test_what_was_made_otherwise_is_not_taken(tmp_path, monkeypatch):
    (tmp_path / "cells").mkdir()
    assert store.load(tmp_path, EXPERIMENT, (0, 5), 20) is None
    store.save(tmp_path, EXPERIMENT, (0, 5), 20, Result(20, {"x": Figure(1.0, 0.1)}))
    assert store.load(tmp_path, EXPERIMENT, (0, 6), 20) is None
    assert store.load(tmp_path, EXPERIMENT, (0, 5), 30) is None
    with monkeypatch.context() as patch:
        patch.setattr(store, "__version__", "other")
        assert store.load(tmp_path, EXPERIMENT, (0, 5), 20) is None
    assert store.load(tmp_path, EXPERIMENT, (0, 5), 20) is not None
    path = store.path_of(tmp_path, EXPERIMENT)
    for broken in (path.read_text()[:40], "[]", ""):
        path.write_text(broken)
        assert store.load(tmp_path, EXPERIMENT, (0, 5), 20) is None


# Runs


@pytest.fixture
def counted(monkeypatch):
    """Runs that give made-up figures at once, and who was run."""
    names = []

    def fake(key, experiment, trials):
        names.append(experiment.name)
        value = float(len(experiment.name))
        joint = np.full(len(experiment.mean) + 1, 0.5)
        return Result(experiment.num_trials(trials), {"bias": Figure(value, 0.1), "joint": Figure(joint, joint / 10)})

    monkeypatch.setattr(run, "run_experiment", fake)
    return names


def test_an_experiment_runs_once_for_all_its_tables(counted, tmp_path):
    found = reproduce(KEY, ["table5", "table6"], tmp_path, num_trials=20)
    assert sorted(counted) == sorted({experiment.name for spec in found.specs for experiment in spec.experiments})
    reproduce(KEY, ["table6"], tmp_path, num_trials=20)
    assert len(counted) == 16
    reproduce(KEY, ["table6"], tmp_path, num_trials=21)
    assert len(counted) == 24


def test_experiments_that_share_programs_go_together():
    """One policy in place of three: a third of the groups, every experiment in one of them, the longest first."""
    wanted = SPECS["table2"].experiments
    groups = run.share_programs(wanted, None)
    assert sorted(one.name for group in groups for one in group) == sorted(one.name for one in wanted)
    assert {one.policy for one in groups[0]} == {"lil' UCB", "ε-Greedy", "Greedy"}
    assert all(len({(one.method, len(one.mean)) for one in group}) == 1 for group in groups)
    seconds = [sum(run.cost(one, None) for one in group) for group in groups]
    assert seconds == sorted(seconds, reverse=True)


def test_progress_counts_cells_and_work(counted, tmp_path):
    steps = []
    reproduce(KEY, ["table5"], tmp_path, num_trials=20, progress=steps.append)
    assert [(step.done, step.total) for step in steps] == [(count, 8) for count in range(9)]
    assert [step.share for step in steps] == pytest.approx(np.linspace(0, 1, 9))
    again = []
    reproduce(KEY, ["table5"], tmp_path, num_trials=20, progress=again.append)
    assert [(step.done, step.share) for step in again] == [(8, pytest.approx(1))]


def test_one_that_fails_is_named_and_the_others_are_kept(monkeypatch, counted, tmp_path):
    works = run.run_experiment

    def sometimes(key, experiment, trials):
        if experiment.policy == "TS":
            raise MemoryError("too much")
        return works(key, experiment, trials)

    monkeypatch.setattr(run, "run_experiment", sometimes)
    with pytest.raises(RuntimeError, match=r"^joint-ts-.* failed$"):
        reproduce(KEY, ["table5"], tmp_path, num_trials=20, jobs=1)
    kept = len(list((tmp_path / "cells").iterdir()))
    monkeypatch.setattr(run, "run_experiment", works)
    counted.clear()
    reproduce(KEY, ["table5"], tmp_path, num_trials=20)
    assert len(counted) == 8 - kept


def test_names_and_numbers_that_are_wrong(tmp_path):
    with pytest.raises(ValueError, match=r"^names has 'table9'; choose from all, theorem1, proposition2, figure1, "):
        find_specs(["table9"])
    with pytest.raises(ValueError, match=r"^names is empty"):
        find_specs([])
    for name in ("num_trials", "jobs"):
        with pytest.raises(ValueError, match=rf"^{name} is 0; it must be 1 or more"):
            reproduce(KEY, ["table5"], tmp_path, **{name: 0})
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"^folder is '.*file': Not a directory; it must be a folder that can be written to"):
        reproduce(KEY, ["table5"], tmp_path / "file")


def test_all_is_everything_in_the_papers_order():
    assert [spec.name for spec in find_specs(["all"])] == list(run.ORDER)
    assert [spec.name for spec in find_specs(["table2", "theorem1", "table2"])] == ["theorem1", "table2"]


# The command


def command(*words, **options):
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    return subprocess.Popen([sys.executable, "-m", "jaxbias", "reproduce", *map(str, words)], env=environment, **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    process = command(*FEW, "--trials", 50, "--out", folder, "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return folder, json.loads(out), err


@pytest.mark.slow
def test_killed_and_started_again_it_ends_with_the_same_files(whole, tmp_path):
    words = [*FEW, "--trials", 50, "--out", tmp_path, "--jobs", 1, "--json"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process, cells = command(*words, **quiet), tmp_path / "cells"
    deadline = time.monotonic() + 300
    while len(list(cells.glob("*.json"))) < 3:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    finished = {path: path.stat().st_mtime_ns for path in cells.glob("*.json")}
    assert 3 <= len(finished) < 11
    assert command(*words, **quiet).wait(600) == 0
    assert all(path.stat().st_mtime_ns == written for path, written in finished.items())
    one, other = files_of(whole[0]), files_of(tmp_path)
    page = one.pop("index.html").replace(str(whole[0]).encode(), b"DIR")
    assert page == other.pop("index.html").replace(str(tmp_path).encode(), b"DIR").replace(b" --jobs 1", b"")
    other = {name: content for name, content in other.items() if not Path(name).name.startswith(".")}  # of the moment of the kill
    assert one == other


@pytest.mark.slow
def test_the_document_and_the_files_have_the_same_numbers(whole):
    folder, document, err = whole
    assert len(err.splitlines()) == 11
    assert err.startswith("jaxbias: 1/11 ")
    assert {"row", "column", "paper", "ours", "stderr"} <= set(document["cells"][0])
    assert document["settings"]["names"] == ["figure1", "figure2e", "table5"]
    for name in document["settings"]["names"]:
        cells = [cell for cell in document["cells"] if cell["name"] == name]
        with (folder / "tables" / f"{name}.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert [float(row["ours"]) for row in rows] == [cell["ours"] for cell in cells]
        assert [row["verdict"] for row in rows] == [cell["verdict"] for cell in cells]
        assert [float(row["paper"]) if row["paper"] else None for row in rows] == [cell["paper"] for cell in cells]
        assert (folder / "tables" / f"{name}.md").read_text().startswith(f"# {SPECS[name].title}\n")
    for name in ("figure1", "figure2e"):
        assert (folder / "figures" / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert (folder / "figures" / f"{name}.svg").read_text().startswith("<svg ")
    page = (folder / "index.html").read_text()
    for name in document["settings"]["names"]:
        assert f'<section id="{name}">' in page
    assert "reproduce table5 figure1 figure2e" in page
    assert "<script" not in page


@pytest.mark.slow
def test_two_processes_leave_the_cells_of_one_and_one_that_dies_leaves_what_is_finished(whole, tmp_path):
    def start(folder, port):
        words = [*FEW, "--trials", 50, "--out", folder, "--coordinator", f"127.0.0.1:{port}", "--num-processes", 2]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return [command(*words, "--process-id", number, **pipes) for number in (0, 1)]

    first, second = start(tmp_path / "killed", free_port())
    cells = tmp_path / "killed" / "cells"
    deadline = time.monotonic() + 300
    while len(list(cells.glob("*.json"))) < 2:
        assert first.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    second.kill()
    second.communicate()
    out, err = first.communicate(timeout=300)
    assert (first.returncode, out) == (1, "")
    assert err.splitlines()[-1].startswith("jaxbias: another process of this run has stopped")
    assert len(list(cells.glob("*.json"))) >= 2
    for process in start(tmp_path / "killed", free_port()):
        assert process.communicate(timeout=600)[1] is not None
        assert process.returncode == 0
    alone = {name: content for name, content in files_of(whole[0]).items() if name != "index.html"}
    assert {name: content for name, content in files_of(tmp_path / "killed").items() if name != "index.html"} == alone


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wrong_spec(paper, expects="agrees"):
    experiment = Experiment(policy="Greedy", mean=(1.0, 0.5), steps=8)
    known = {"expects": "agrees"} if expects else {"why": "It is known to differ."}
    entry = Entry(row="a | b", column="<b>bias</b>", experiments=(experiment,), read=figure("bias"), paper=paper, **known)
    return Spec(name="table5", title="Table 5. Made up", setting="For a test.", entries=(entry,), seen="Nothing.")


@pytest.mark.parametrize(("expects", "code"), [("agrees", 1), ("", 0)])
def test_exit_code_where_a_cell_should_agree_and_does_not(monkeypatch, capsys, tmp_path, expects, code):
    monkeypatch.setitem(run.SPECS, "table5", wrong_spec(0.9, expects))
    assert main(["reproduce", "table5", "--trials", "100", "--out", str(tmp_path), "--quiet"]) == code
    out, err = capsys.readouterr()
    assert err == ""
    assert ("1 should agree and do not" in out) == bool(code)
    assert ("It is known to differ." in out) == (not code)
    page = (tmp_path / "index.html").read_text()
    assert "&lt;b&gt;bias&lt;/b&gt;" in page
    assert ("of the cells that should agree does not" in page) == bool(code)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nope"], "NAME has 'nope'; choose from all, theorem1, "),
        (["table5", "--trials", "0"], "--trials is 0; it must be 1 or more"),
        (["table5", "--jobs", "0"], "--jobs is 0; it must be 1 or more"),
        (
            ["table5", "--out", "/dev/null/x"],
            "--out is '/dev/null/x': Not a directory; it must be a folder that can be written to",
        ),
    ],
)
def test_bad_words_are_one_line(capsys, words, message):
    assert main(["reproduce", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"jaxbias: {message}")
    assert err.count("\n") == 1
