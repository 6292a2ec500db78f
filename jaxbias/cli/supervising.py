"""A run of several processes under supervision, so that the end of one is one line in each of the others.

When a process of a run dies, JAX's runtime ends the others with `abort` and some twenty lines on standard error. After `abort` no
Python runs, so nothing inside the process can shorten them. Therefore the command starts itself again as a child:

    child:   what Python prints goes to the real standard output and standard error, which it gets as open files;
             what JAX's libraries write to files 1 and 2 goes to a temporary file.
    parent:  waits, passes SIGINT and SIGTERM on, and words the end of the child from its exit code and the temporary file.

The child ends when its parent does: it waits for the end of a pipe that only the parent holds open.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from typing import IO, Any

PROGRAM = (sys.executable, "-m", "jaxbias")
CHILD = "JAXBIAS_CHANNELS"  # the environment variable that marks the child: its standard output, standard error and pipe
CONNECTED = b"jaxbias: all processes are connected\n"  # the child writes this beside what JAX writes
JAX_LOST = b"JAX distributed service detected fatal errors"
FAILED = 1  # exit code
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Supervised(Exception):
    """The child has ended, and so does this command."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


_is_child = False


def is_child() -> bool:
    """Whether this process is under supervision."""
    return _is_child


def use_channels_of_parent() -> None:
    """In the child, has Python print to the parent's standard output and standard error, and end with the parent."""
    global _is_child
    channels = os.environ.pop(CHILD, None)
    if channels is None:
        return
    out, err, pipe = map(int, channels.split(","))
    sys.stdout = _open_channel(out, sys.stdout)
    sys.stderr = _open_channel(err, sys.stderr)
    threading.Thread(target=_end_with_parent, args=(pipe,), daemon=True).start()
    _is_child = True


def _open_channel(channel: int, like: Any) -> IO[str]:
    buffering = 1 if like is sys.stderr or os.isatty(channel) else -1  # by lines, as Python does
    return os.fdopen(channel, "w", buffering=buffering, encoding=like.encoding, errors=like.errors)


def _end_with_parent(pipe: int) -> None:
    os.read(pipe, 1)  # returns when the parent has ended: it never writes
    os._exit(FAILED)


def supervise(arguments: Sequence[str], late: str, lost: str) -> int:
    """Runs the command in a child and returns the exit code.

    Arguments:
        arguments: of the command line.
        late: the message if JAX gives up before all processes are connected.
        lost: the message if JAX gives up afterwards.
    """
    with tempfile.TemporaryFile() as written:
        code, ended_by = _run_child(arguments, written)
        if code >= 0:
            return code  # the child has printed what there is to say
        if -code in ended_by:
            return 128 - code
        written.seek(0)
        text = written.read()
        if JAX_LOST in text:
            print(f"jaxbias: {lost if CONNECTED in text else late}", file=sys.stderr)
            return FAILED
        sys.stderr.write(text.replace(CONNECTED, b"").decode(errors="replace"))
        return 128 - code  # as shells do for a process that a signal ended


def _run_child(arguments: Sequence[str], written: IO[bytes]) -> tuple[int, set[int]]:
    """Its exit code, negative if a signal ended it, and the signals that were passed on to it."""
    sys.stdout.flush()
    reading, writing = os.pipe()
    channels = (os.dup(1), os.dup(2), reading)
    environment = {**os.environ, CHILD: ",".join(map(str, channels))}
    command = [*PROGRAM, *arguments]
    # A session of its own, or Ctrl-C would reach the child twice: from the terminal and from here.
    options: dict[str, Any] = dict(stdout=written, stderr=written, pass_fds=channels, start_new_session=True)
    passed_on: set[int] = set()
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        child = subprocess.Popen(command, env=environment, **options)

        def pass_on(number: int, _: Any) -> None:
            passed_on.add(number)
            child.send_signal(number)

        for number in SIGNALS:
            signal.signal(number, pass_on)
        return child.wait(), passed_on
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for channel in (*channels, writing):
            os.close(channel)
