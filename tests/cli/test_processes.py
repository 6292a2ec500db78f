"""Processes of one run: the same options in each, or none goes on; and where process 0 listens."""

import time
from pathlib import Path

import pytest

from jaxbias.cli.processes import _settings
from tests._core.test_devices import finish, free_port, start

SIMULATE = ["-m", "jaxbias", "simulate", "--policy", "greedy", "--mean", 1.0, "--mean", 0.5, "--steps", 20, "--trials", 500]


def together(port, number, *words):
    return start(*SIMULATE, *words, "--coordinator", f"127.0.0.1:{port}", "--num-processes", 2, "--process-id", number)


def test_what_the_processes_must_share():
    mine = _settings("simulate", {"steps": 20, "out": Path("a"), "quiet": True, "as_json": False})
    assert mine == _settings("simulate", {"steps": 20, "out": Path("b"), "quiet": False, "as_json": True})
    assert mine != _settings("simulate", {"steps": 20, "out": None, "quiet": True})
    assert set(mine) ^ set(_settings("simulate", {"steps": 30, "out": Path("a")})) == {"steps = 20", "steps = 30"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["--steps", 30], "steps"),
        (["--policy", "ucb1"], "policy"),
        (["--mean", 0.25], "mean"),
        (["--seed", 1], "seed"),
        (["--trials", 501], "trials"),
        (["--tau", 0.5], "given"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_other_options_in_another_process_stop_both(words, name):
    port = free_port()
    processes = [together(port, 0), together(port, 1, *words)]
    message = (
        f"jaxbias: the processes of this run have different options: {name}; start all of them with the same options, except"
    )
    for code, out, err in map(finish, processes):
        assert (code, out) == (2, "")
        assert err == f"{message} --process-id\n"


@pytest.mark.slow
def test_a_loopback_coordinator_listens_there_alone():
    port = free_port()
    process = together(port, 0, "--wait", 20)
    try:
        assert {address[-8:] for address in wait_for_listener(port)} == {"0100007F"}  # 127.0.0.1, as IPv4 or mapped to IPv6
    finally:
        process.terminate()
        finish(process)


def wait_for_listener(port, seconds=60.0):
    """The addresses that something listens on at this port, as the kernel writes them; of every interface, zeros."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        rows = [row.split() for kind in ("tcp", "tcp6") for row in Path(f"/proc/net/{kind}").read_text().splitlines()[1:]]
        found = {row[1].split(":")[0] for row in rows if int(row[1].split(":")[1], 16) == port and row[3] == "0A"}
        if found:
            return found
        time.sleep(0.1)
    return set()
