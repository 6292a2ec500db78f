"""Ctrl-C, forks, spawned processes, threads, and the settings of other libraries."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxbias as jb
from jaxbias._core import door

POLICY, FAMILY = jb.Greedy(tau=1.0), jb.Normal()


def logs(number):
    return [jb.simulate(jax.random.key(seed), POLICY, FAMILY, [1.0, 0.5], 12) for seed in range(number)]


def estimates(history):
    found = [jb.sample_mean(history, FAMILY), jb.propensity_weighting(history, POLICY, FAMILY)]
    found += [jb.adaptive_weighting(history, POLICY, FAMILY), jb.shrinkage(history, FAMILY)]
    found.append(jb.mean_matching(jax.random.key(1), history, POLICY, FAMILY, num_paths=128))
    return [np.asarray(part) for one in found for part in (one.mean, one.lower, one.upper)]


def test_eight_threads_give_the_answers_of_one():
    """All of them compile the same functions at once."""
    histories = logs(8)
    jax.clear_caches()
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(estimates, histories))
    for found, history in zip(together, histories, strict=True):
        for part, expected in zip(found, estimates(history), strict=True):
            np.testing.assert_array_equal(part, expected)


@pytest.mark.slow
def test_a_spawned_process_gives_the_same_answers():
    history = logs(1)[0]
    plain = jb.History(**{name: np.asarray(getattr(history, name)) for name in ("arms", "rewards", "forced")}, num_arms=2)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.map(estimates, [plain])[0]
    for part, expected in zip(found, estimates(history), strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-5)


def test_a_fork_says_so_instead_of_hanging():
    jb.sample_mean(logs(1)[0])
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX's own, in the parent
        child = os.fork()
    if child == 0:
        try:
            jb.sample_mean(None)
        except RuntimeError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    words = os.read(reading, 1000).decode()
    assert words.startswith("this process is a fork of one that has used JAX, in which JAX hangs; start processes with")
    assert not door._Process.forked


@pytest.mark.parametrize("started", ["module", "script"])
def test_an_interrupt_while_the_package_is_imported(started, tmp_path):
    """Ctrl-C during the first import that the package makes."""
    (tmp_path / "lazy_loader.py").write_text("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(20)\n")
    script = tmp_path / "jaxbias"
    script.write_text("import sys\nfrom jaxbias.__main__ import main\nsys.exit(main())\n")
    words = {"module": ["-m", "jaxbias"], "script": [str(script)]}[started]
    paths = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[1])])
    script = (
        "import signal, sys, os; signal.signal(signal.SIGINT, signal.default_int_handler); os.execv(sys.argv[1], sys.argv[1:])"
    )
    command = [sys.executable, "-c", script, sys.executable, *words, "--help"]  # a shell in the background ignores interrupts
    found = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=60, check=False
    )
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "jaxbias: interrupted\n")


def start(*words, folder):
    def default_interrupts():  # a shell that runs the tests in the background ignores them
        signal.signal(signal.SIGINT, signal.default_int_handler)

    others = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    environment = {**others, "JAXBIAS_CACHE": str(folder / "cache"), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "jaxbias", *words]
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return subprocess.Popen(command, env=environment, preexec_fn=default_interrupts, **pipes)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [1.0, 2.0, 3.0, 4.5, 6.0, 8.0])
@pytest.mark.parametrize(
    "words",
    [["debias", "--report"], ["simulate", "--steps", "300", "--trials", "10000000", "--out"], ["reproduce", "table2", "--out"]],
    ids=["debias", "simulate", "reproduce"],
)
def test_an_interrupt_is_one_line_and_code_130(words, seconds, tmp_path):
    """While it imports, compiles and computes; twice in a row, as of an impatient user."""
    suffix = {"debias": "page.html", "simulate": "log.csv", "reproduce": "paper"}[words[0]]
    process = start(*words, str(tmp_path / suffix), "--quiet", folder=tmp_path)
    time.sleep(seconds)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "jaxbias: interrupted\n")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert not (tmp_path / suffix).is_file()


MOMENTS = {  # what is replaced by a function that is interrupted
    "a thread loads a program": "programs._load",
    "the list is read": "ahead._read",
    "the list is written": "ahead.written_whole",
    "the process ends": "__main__._has_programs",
}
SCRIPT = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from jaxbias import __main__
from jaxbias._core import ahead
names, wanted = sys.argv[1], sys.argv[2] == "yes"
del sys.argv[1:3]

def interrupted(*_):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(20)

if wanted:
    module, name = names.split(".")
    ahead._cores = lambda: 2
    if module == "programs":
        from jaxbias._core import programs
    setattr({"ahead": ahead, "__main__": __main__, "programs": locals().get("programs")}[module], name, interrupted)
__main__.program()
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_an_interrupt_while_programs_are_loaded_ahead_and_at_the_end(moment, tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("arm,reward\n" + "a,1\nb,0\nb,1\na,0\n" * 3)
    words = ["debias", str(log), "--method", "sample_mean", "--no-evaluate", "--quiet", "--report", str(tmp_path / "page.html")]
    others = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    environment = {**others, "JAXBIAS_CACHE": str(tmp_path / "cache"), "JAX_PLATFORMS": "cpu"}

    def run(wanted):
        command = [sys.executable, "-c", SCRIPT, MOMENTS[moment], wanted, *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)

    first = run("no")
    assert (first.returncode, first.stderr) == (0, "")
    if moment == "the list is written":
        next((tmp_path / "cache").glob("*.ahead")).write_text("")
    (tmp_path / "page.html").unlink()
    found = run("yes")
    assert (found.returncode, found.stderr) == (130, "jaxbias: interrupted\n")
    ended = moment in ("the list is written", "the process ends")  # the answer is there: all of it
    assert found.stdout == (first.stdout if ended else "")
    assert (tmp_path / "page.html").exists() == ended
    assert not list(tmp_path.rglob(".*"))
    assert run("no").stdout == first.stdout


def test_drawing_a_report_changes_no_setting_of_matplotlib(tmp_path):
    import matplotlib
    import matplotlib.pyplot

    before, backend, figures = dict(matplotlib.rcParams), matplotlib.get_backend(), matplotlib.pyplot.get_fignums()
    frame = {"arm": [0, 1] * 6, "reward": [0.5, 1.5, 0.25, 0.75] * 3}
    analysis = jb.debias(jax.random.key(0), frame, POLICY, FAMILY, methods=["sample_mean"], evaluate=False)
    jb.write_report(analysis, tmp_path / "report.html")
    assert dict(matplotlib.rcParams) == before
    assert matplotlib.get_backend() == backend
    assert matplotlib.pyplot.get_fignums() == figures
