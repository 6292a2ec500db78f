"""A supervised child: what it prints comes through, and its end is worded by the parent. Real runs are in test_devices.py."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jaxbias.cli.supervising import CONNECTED, JAX_LOST

PARENT = """
import sys
from jaxbias.cli import supervising
supervising.PROGRAM = (sys.executable, "-c", sys.argv[1])
sys.exit(supervising.supervise(sys.argv[2:], late="too late", lost="one is lost"))
"""
CHILD = """
import os, sys, time
from jaxbias.cli.supervising import is_child, use_channels_of_parent
use_channels_of_parent()
assert is_child()
"""


def start(child, *arguments):
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return subprocess.Popen([sys.executable, "-c", PARENT, CHILD + child, *arguments], **pipes)


def finish(process):
    """Exit code, standard output, standard error."""
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def wait_for_line(process):
    """The first line that the child prints."""
    return process.stdout.readline().strip()


def test_what_python_prints_comes_through_and_what_libraries_write_does_not():
    child = "os.write(1, b'[Gloo] connected'); os.write(2, b'I0000 log'); print(sys.argv[1]); print('hm', file=sys.stderr)"
    assert finish(start(child, "answer")) == (0, "answer\n", "hm\n")


@pytest.mark.parametrize("code", [1, 2, 130])
def test_a_child_that_has_said_what_is_wrong_has_its_exit_code(code):
    child = f"print('jaxbias: --steps is 1', file=sys.stderr); os.write(2, b'log'); sys.exit({code})"
    assert finish(start(child)) == (code, "", "jaxbias: --steps is 1\n")


@pytest.mark.parametrize(("before", "message"), [(b"", "too late"), (CONNECTED, "one is lost")], ids=["late", "lost"])
def test_jax_that_gives_up_is_one_line(before, message):
    child = f"os.write(2, {before + JAX_LOST + b' and twenty lines'!r}); os.abort()"
    assert finish(start(child)) == (1, "", f"jaxbias: {message}\n")


def test_another_abort_is_shown_with_what_was_written():
    child = f"os.write(2, {CONNECTED!r}); os.write(2, b'double free\\n'); os.abort()"
    assert finish(start(child)) == (128 + signal.SIGABRT, "", "double free\n")


def test_control_c_reaches_the_child_once():
    child = """
try:
    print("ready", flush=True)  # inside, as the signal may come at once
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(0.5)  # a second one would end this
    print("interrupted", file=sys.stderr)
    sys.exit(1)
"""
    process = start("import signal; signal.signal(signal.SIGINT, signal.default_int_handler)" + child)
    assert wait_for_line(process) == "ready"
    process.send_signal(signal.SIGINT)
    assert finish(process) == (1, "", "interrupted\n")


def test_a_signal_that_ends_the_child_is_passed_on():
    process = start("print('ready', flush=True); time.sleep(60)")
    assert wait_for_line(process) == "ready"
    process.send_signal(signal.SIGTERM)
    assert finish(process) == (128 + signal.SIGTERM, "", "")


def test_the_child_ends_with_its_parent():
    process = start("print(os.getpid(), flush=True); time.sleep(60)")
    child = int(wait_for_line(process))
    process.kill()
    finish(process)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and is_running(child):
        time.sleep(0.05)
    assert not is_running(child)


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
