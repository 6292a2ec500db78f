"""What a command says on standard error while it works: the part that runs and the time left, and what is known early."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

EVERY = 10.0  # seconds between two lines where standard error is not a terminal
SHORT = 90  # seconds up to which a time is given in seconds


@contextmanager
def show_progress(quiet: bool) -> Iterator[Callable[[Any], None]]:
    """A function to report progress to: a line that changes on a terminal, and elsewhere a line every ten seconds."""
    if quiet:
        yield lambda _: None
    elif sys.stderr.isatty():
        from rich.console import Console

        console = Console(stderr=True, highlight=False)
        with console.status("reading the log") as status:
            yield lambda part: _tell(part, lambda words: status.update(words), lambda words: console.print(words, markup=False))
    else:
        with _lines(sys.stderr) as tell:
            yield tell


def _tell(part: Any, update: Callable[[str], None], announce: Callable[[str], None]) -> None:
    verdict = _verdict(part)
    if verdict:
        announce(verdict)
    else:
        update(describe_progress(str(part), getattr(part, "left", float("nan"))))


def _verdict(part: Any) -> str:
    """Whether the policy fits, where that has just become known."""
    if getattr(part, "checked", None) is None:
        return ""
    from jaxbias.reporting.sentences import fit_sentence  # here, because it imports JAX

    return fit_sentence(part.checked)


def describe_progress(part: str, left: float, elapsed: float | None = None) -> str:
    """The part, how long it has been running, and the time left.

    >>> describe_progress("mean_matching", 12.3, 30.0)
    'mean_matching, 30 s so far, about 12 s left'
    """
    so_far = "" if elapsed is None else f", {_seconds(elapsed)} so far"
    known = left == left and left >= 1
    return f"{part}{so_far}" + (f", about {_seconds(left)} left" if known else "")


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value < SHORT else f"{value / 60:.0f} min"


@contextmanager
def _lines(stream: Any) -> Iterator[Callable[[Any], None]]:
    """A line every ten seconds from a thread of its own, because a compiled program reports nothing while it runs."""
    began, done = time.monotonic(), threading.Event()
    now: dict[str, Any] = {"part": "", "since": began, "left": float("nan")}

    def say(words: str) -> None:
        print(f"jaxbias: {words}", file=stream, flush=True)

    def tell(part: Any) -> None:
        if verdict := _verdict(part):
            say(verdict)
        else:
            now.update(part=str(part), since=time.monotonic(), left=getattr(part, "left", float("nan")))

    def repeat() -> None:
        while not done.wait(EVERY):
            moment = time.monotonic()
            say(describe_progress(now["part"], now["left"] - (moment - now["since"]), moment - began))

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield tell
    finally:
        done.set()
        thread.join()
