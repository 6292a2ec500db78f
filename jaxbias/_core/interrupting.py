"""Ctrl-C ends the program at once, with one line and exit code 130.

A KeyboardInterrupt may be raised anywhere, inside JAX's callbacks too, and an ordinary end waits for XLA's threads: both have
ended in segmentation faults. Here the signal wakes a thread, which does not wait for a compiled program to return. It removes
temporary files and ends the process without the interpreter's own end.
"""

import os
import shutil
import signal
import sys
import threading
from typing import Any

CODE = 130  # the exit code that shells give after Ctrl-C: 128 plus the number of the signal
SHOW_CURSOR = "\x1b[?25h"  # a progress bar hides it


def end_on_interrupt() -> None:
    """From now on SIGINT ends this process; for the start of the program, in its main thread. Ignored where it was ignored."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.signal(signal.SIGINT, _leave_to_thread)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_wait, args=(reading,), daemon=True).start()


def _leave_to_thread(*_: Any) -> None:
    pass


def _wait(reading: int) -> None:
    while number := os.read(reading, 1):
        if number[0] == signal.SIGINT and signal.getsignal(signal.SIGINT) is _leave_to_thread:
            end()


def end() -> None:
    """Ends the process, with one line."""
    files = sys.modules.get("jaxbias._core.files")
    for folder in list(files.OPEN) if files else ():
        shutil.rmtree(folder, ignore_errors=True)
    try:
        cursor = SHOW_CURSOR + "\r" if sys.stderr.isatty() else ""
        sys.stderr.write(f"{cursor}jaxbias: interrupted\n")
        sys.stderr.flush()
    finally:
        os._exit(CODE)
