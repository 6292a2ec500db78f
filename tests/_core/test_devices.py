"""Trials over several devices, in one process and in two: the same bits as on one device."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias._core import chunks
from jaxbias._core.chunks import split_logs, split_trials
from jaxbias._core.devices import collect, device_count, trial_mesh
from jaxbias.cli.processes import LATE, LOST
from tests._core import spread

SIMULATE = ["simulate", "--policy", "greedy", "--mean", "1.0", "--mean", "0.75", "--json"]


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def start(*arguments):
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return subprocess.Popen([sys.executable, *map(str, arguments)], env=environment, **pipes)


def finish(process, timeout=300):
    """Exit code, standard output, standard error."""
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out, err


@pytest.fixture(scope="module")
def on_one_device():
    assert len(jax.devices()) == 1
    return spread.named(spread.figures())


def assert_same(path, expected):
    with np.load(path) as found:
        assert set(found) == set(expected)
        for name in found:
            if spread.ROUNDED in name and found[name].dtype.kind == "f":
                np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-6, err_msg=name)
            else:
                np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("devices", [2, 4])
def test_the_bits_do_not_depend_on_the_number_of_devices(devices, on_one_device, tmp_path):
    path = tmp_path / "found.npz"
    code, _, err = finish(start("-W", "error", spread.__file__, path, devices))
    assert code == 0, err
    assert_same(path, on_one_device)


@pytest.mark.slow
def test_the_bits_do_not_depend_on_the_number_of_processes(on_one_device, tmp_path):
    address = f"127.0.0.1:{free_port()}"
    paths = [tmp_path / f"found{number}.npz" for number in (0, 1)]
    processes = [start(spread.__file__, path, 2, address, 2, number) for number, path in enumerate(paths)]
    for process, path in zip(processes, paths, strict=True):
        code, _, err = finish(process)
        assert code == 0, err
        assert_same(path, on_one_device)  # each process has the whole result


def test_two_devices_give_the_bits_of_one():
    """The one quick test of several devices; the others, of all functions and of several processes, are slow."""
    code = """
import jax, jaxbias as jb
jax.config.update("jax_num_cpu_devices", 2)
assert len(jax.devices()) == 2
history = jb.simulate(jax.random.key(3), jb.Greedy(), jb.Normal(), [1.0, 0.5], num_steps=6, num_trials=37)
print(history.arms.tolist(), history.rewards.tolist())
"""
    others = {name: value for name, value in os.environ.items() if name != "JAX_NUM_CPU_DEVICES"}
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**others, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=True,
    )
    alone = jb.simulate(jax.random.key(3), jb.Greedy(), jb.Normal(), [1.0, 0.5], num_steps=6, num_trials=37)
    assert run.stdout == f"{alone.arms.tolist()} {alone.rewards.tolist()}\n"


def command(port, number, *words, processes=2):
    together = ["--coordinator", f"127.0.0.1:{port}", "--num-processes", processes, "--process-id", number]
    return start("-m", "jaxbias", *SIMULATE, *words, *together)


@pytest.mark.slow
def test_two_processes_give_one_answer(tmp_path):
    port, words = free_port(), ["--steps", "10", "--trials", "2000", "--log-trials", "90"]
    processes = [command(port, number, *words, "--out", tmp_path / f"two{number}.csv") for number in (0, 1)]
    answers = [finish(process) for process in processes]
    assert [answer[0] for answer in answers] == [0, 0], answers
    alone = finish(start("-m", "jaxbias", *SIMULATE, *words, "--out", tmp_path / "one.csv"))
    assert answers[0] == alone
    assert answers[1] == (0, "", "")
    assert json.loads(alone[1])["settings"]["trials"] == 2000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.csv", "two0.csv"]
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two0.csv").read_bytes()


MANY_TRIALS, MANY_STEPS = ["--steps", "50", "--trials", 10**9], ["--steps", "8000000", "--trials", "8192"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("victim", "words"),
    [(0, MANY_TRIALS), (1, MANY_TRIALS), (0, MANY_STEPS)],
    ids=["first", "second", "far from the next exchange"],
)
def test_a_process_that_dies_stops_the_other_with_one_line(victim, words):
    """Where the other waits for it, and where it is at work on its own, so that JAX ends it from another thread."""
    port = free_port()
    processes = [command(port, number, *words) for number in (0, 1)]
    wait_until_busy(processes[victim])
    processes[victim].send_signal(signal.SIGKILL)
    code, out, err = finish(processes[1 - victim], timeout=90)
    finish(processes[victim])
    assert (code, out, err) == (1, "", f"jaxbias: {LOST}\n")


def wait_until_busy(process, seconds=15.0):
    """Until the child that it supervises has used so much processor time: it is past the start, and will run for hours."""
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        if any(processor_seconds(child) > seconds for child in children):
            return
        time.sleep(0.2)
    raise AssertionError("it did not start")


def processor_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
def test_a_process_that_starts_alone_says_so():
    """The first, which the others are to find, and another, which is to find the first."""
    for process in [command(free_port(), number, "--wait", 2) for number in (0, 1)]:
        code, out, err = finish(process, timeout=60)
        assert (code, out) == (1, "")
        assert err == f"jaxbias: {LATE.format(wait=2, count=2)}\n"


@pytest.mark.slow
def test_bad_input_is_one_line_of_each_process():
    port = free_port()
    for process in [command(port, number, "--steps", "1") for number in (0, 1)]:
        code, out, err = finish(process)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith("jaxbias: --steps is 1; it must be from 2")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--coordinator", "here:1"], "--coordinator, --num-processes and --process-id are not all given; give all of"),
        (["--coordinator", "here", "--num-processes", "2", "--process-id", "0"], "--coordinator is 'here'; it must be HOST:PORT"),
        (["--coordinator", "h:x", "--num-processes", "2", "--process-id", "0"], "--coordinator is 'h:x'; it must be HOST:PORT"),
        (["--coordinator", "h:1", "--num-processes", "0", "--process-id", "0"], "--num-processes is 0; it must be 1 or more"),
        (["--coordinator", "h:1", "--num-processes", "2", "--process-id", "2"], "--process-id is 2; it must be from 0 to 1"),
        (["--wait", "0"], "--wait is 0; it must be 1 second or more"),
    ],
)
def test_bad_words_about_processes(capsys, words, message):
    from jaxbias.cli import main

    assert main(["simulate", *words]) == 2
    assert capsys.readouterr().err.startswith(f"jaxbias: {message}")


def test_every_core_is_used_unless_told_otherwise():
    code = "import jaxbias as jb; jb.use_all_cores(); import jax; print(len(jax.devices()))"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    others = {name: value for name, value in os.environ.items() if name != "JAX_NUM_CPU_DEVICES"}
    for settings, expected in (({}, cores), ({"JAX_NUM_CPU_DEVICES": "3"}, 3)):
        environment = {**others, "JAX_PLATFORMS": "cpu", **settings}
        run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert run.stdout == f"{expected}\n"


@pytest.mark.slow
def test_loops_in_one_piece_have_the_same_bits():
    """Of a simulation with ties, of the estimators, of 0/1 rewards, and of squares that are summed over three arms."""
    code = """
import os, sys, jax, jaxbias as jb
if sys.argv[1] == "whole":
    jb.use_all_cores()
    assert "small_while_loop_byte_threshold" in os.environ["XLA_FLAGS"]
key, policy = jax.random.key(0), jb.LilUCB(tau=0.5)
history = jb.simulate(key, policy, jb.Normal(), [1.0, 0.5, 0.0], num_steps=30, num_trials=20)
print(jb.conditional_mle(key, history, policy, jb.Normal(), num_paths=128).mean.tolist())
print(jb.mean_matching(key, history, policy, jb.Normal(), num_paths=128).mean.tolist())
print(jb.measure_bias(key, jb.Greedy(), jb.Bernoulli(), [0.5, 0.5], num_steps=30, num_trials=3000).bias.tolist())
print(jb.measure_bias(key, jb.Thompson(), jb.Normal(), [0.5, 0.5], num_steps=30, num_trials=3000).bias.tolist())
found = jb.measure_bias(jax.random.key(2), jb.Greedy(tau=0.5), jb.Normal(), [1.0, 0.75, 0.5], num_steps=20, num_trials=3000)
print(found.average_mse, found.average_mse_stderr, found.average_bias)
"""
    others = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    run = lambda how: subprocess.run(
        [sys.executable, "-c", code, how], env={**others, "JAX_PLATFORMS": "cpu"}, capture_output=True, text=True, check=True
    )
    assert run("whole").stdout == run("in kernels").stdout != ""


def test_one_device_and_traced_values_are_not_spread():
    assert device_count(trial_mesh(1, ())) == 1
    assert jax.jit(lambda value: jnp.asarray(trial_mesh(100, value) is None))(1.0)
    value = jnp.ones(3)
    assert collect(value, None) is value


def test_chunks_hold_every_trial_once_on_any_number_of_devices():
    for trials, size, devices in ((1, None, 1), (3001, 512, 3), (257, 16, 4), (2**32 - 1, 2**20, 8)):
        chunks = split_trials(trials, size, 256, devices=devices)
        assert chunks.size % 256 == 0
        assert chunks.rounds * chunks.size * devices >= trials > (chunks.rounds - 1) * chunks.size * devices
    starts = np.concatenate(list(split_trials(3001, 512, 256, devices=3).starts(progress=False)))
    assert starts.tolist() == [0, 512, 1024, 1536, 2048, 2560]
    last = list(split_trials(2**32 - 1, 2**31, 256, devices=4).starts(progress=False))[-1]
    assert last.tolist()[-1] <= 2**32 - 1  # past the end, not from the start again


def test_no_more_devices_than_logs(monkeypatch):
    """The only log has its paths spread, and cannot be spread itself too."""
    monkeypatch.setattr(chunks, "trial_mesh", lambda parts, _: parts)
    assert [split_logs(at_once, jnp.zeros(count)).mesh for at_once, count in ((0, 1), (2, 2), (1, 3), (32, 40))] == [1, 2, 3, 4]


def test_batches_depend_on_the_number_of_trials_alone():
    sizes = [(split_logs(32, jnp.zeros(count)).size, count) for count in (1, 8, 20, 32, 33, 40, 1000)]
    assert sizes == [(1, 1), (8, 8), (5, 20), (8, 32), (9, 33), (10, 40), (32, 1000)]
    batches = split_logs(4, jnp.zeros(10))
    np.testing.assert_array_equal(batches.map(lambda value: 2 * value, jnp.arange(10)), 2 * np.arange(10))


def test_a_default_device_of_the_users_is_respected():
    with jax.default_device(jax.devices()[0]):
        assert trial_mesh(100, ()) is None
        assert jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.5], 4, 40).arms.shape == (40, 4)
