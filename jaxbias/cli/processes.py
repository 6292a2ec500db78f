"""All cores of this machine, and several processes as one run: `--coordinator HOST:PORT --num-processes N --process-id I`.

Every process is started with the same words but for its number, and simulates its share; process 0 answers. What a process that
dies leaves behind is told in one line: JAX ends the others with its own account of it, some twenty lines, which is kept aside.
"""

import ctypes
import inspect
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Annotated, Any, NamedTuple, NoReturn

import typer

import jaxbias as jb

HEARTBEAT = 30  # seconds without a sign of life after which a process counts as dead
START = 60  # seconds that the processes wait for each other to start: they are slower on some hosts than on others
FAILED = 1  # exit code
LOST = "another process of this run has stopped, or cannot be reached; start all of them again"
LATE = "after {wait} seconds not all {count} processes had started; start them all within this time, or give --wait SECONDS"
JAX_SAYS = b"JAX distributed service detected fatal errors"


class Processes(NamedTuple):
    """The processes of a run, and which of them this is."""

    coordinator: str
    count: int
    number: int
    wait: int


def _of_processes(text: str, **options: Any) -> Any:
    return typer.Option(help=text, rich_help_panel="Several processes or hosts", show_default=False, **options)


def _process_options(
    coordinator: Annotated[str | None, _of_processes("Where process 0 listens for the others.", metavar="HOST:PORT")] = None,
    num_processes: Annotated[int | None, _of_processes("How many processes there are.")] = None,
    process_id: Annotated[int | None, _of_processes("Which of them this is, from 0; 0 answers.")] = None,
    wait: Annotated[int, _of_processes(f"Seconds for all of them to start, {START} by default.", metavar="SECONDS")] = START,
) -> Processes | None:
    if wait < 1:
        raise ValueError(f"--wait is {wait}; allowed: 1 or more seconds")
    if coordinator is None and num_processes is None and process_id is None:
        return None
    if coordinator is None or num_processes is None or process_id is None:
        raise ValueError("--coordinator, --num-processes and --process-id are not all given; allowed: all of them, or none")
    host, _, port = coordinator.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 2**16):
        raise ValueError(f"--coordinator is {coordinator!r}; allowed: HOST:PORT, with a port from 1 to {2**16 - 1}")
    if num_processes < 1:
        raise ValueError(f"--num-processes is {num_processes}; allowed: 1 or more")
    if not 0 <= process_id < num_processes:
        raise ValueError(f"--process-id is {process_id}; allowed: 0 to {num_processes - 1}")
    return Processes(coordinator=coordinator, count=num_processes, number=process_id, wait=wait)


def with_process_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of `_process_options`; it receives them, or None, as `processes`."""
    shared = inspect.signature(_process_options).parameters
    own = [parameter for parameter in inspect.signature(command).parameters.values() if parameter.name != "processes"]

    @wraps(command)
    def run(**options: Any) -> None:
        processes = _process_options(**{name: options.pop(name) for name in shared})
        command(processes=processes, **options)

    run.__signature__ = inspect.Signature([*own, *shared.values()])  # pyright: ignore  (what typer reads)
    return run


@contextmanager
def spread_over(processes: Processes | None) -> Iterator[bool]:
    """Within it JAX has all cores and all processes; gives whether this process is the one that answers."""
    jb.use_all_cores()
    if processes is None:
        yield True
        return
    from jaxbias.devices import LostProcess, wait_for_all

    errors = KeptErrors(LATE.format(wait=processes.wait, count=processes.count))
    try:
        _connect(processes, errors.kept.fileno())
        errors.lost = LOST
        yield processes.number == 0
        wait_for_all()
    except ValueError:
        errors.release()
        raise  # bad input, which every process has been given
    except LostProcess:
        errors.tell(LOST)
    except BaseException as error:  # of this process alone, for which JAX would have it wait until the others end
        errors.tell(_reason(error))
    errors.release()


def _reason(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return str(error) if isinstance(error, OSError | RuntimeError) else "".join(traceback.format_exception(error))


def _connect(processes: Processes, aside: int) -> None:
    import jax

    from jaxbias.devices import wait_for_all

    timeouts: Any = dict(initialization_timeout=processes.wait, heartbeat_timeout_seconds=HEARTBEAT)
    jax.distributed.initialize(*processes[:3], cluster_detection_method="deactivate", **timeouts)
    standard_output = os.dup(1)
    try:
        os.dup2(aside, 1)  # where the first exchange between the processes on CPU announces itself
        wait_for_all()
    finally:
        os.dup2(standard_output, 1)
        os.close(standard_output)


class KeptErrors:
    """What JAX's own libraries write to standard error, kept in a file, and told shorter where they end the process.

    They do so from a thread of their own by `abort`, after which no Python runs: only a handler of the C library still does.
    `lost` is what is told of other processes that are not there.
    """

    def __init__(self, lost: str) -> None:
        self.lost = lost
        self.real, self.kept = os.dup(2), tempfile.TemporaryFile()  # noqa: SIM115  (open until the end)
        sys.stderr = os.fdopen(os.dup(self.real), "w", buffering=1)
        os.dup2(self.kept.fileno(), 2)
        self.handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(self._explain)
        self.before = _on_abort(self.handler)

    def tell(self, message: str) -> NoReturn:
        """One line, and the end: not the usual way, on which JAX would wait for the process that is gone."""
        os.write(self.real, f"jaxbias: {message}\n".encode())
        os._exit(FAILED)

    def release(self) -> None:
        """The end of a run that went well, or that all processes end alike."""
        import jax

        sys.stdout.flush()
        jax.distributed.shutdown()
        _on_abort(self.before)
        os.dup2(self.real, 2)

    def _explain(self, _: int) -> None:
        self.kept.seek(0)
        said = self.kept.read()
        if JAX_SAYS in said:
            self.tell(self.lost)
        os.write(self.real, said)
        os._exit(128 + signal.SIGABRT)


def _on_abort(handler: Any) -> Any:
    """Sets the C library's handler, and gives the one before."""
    function = ctypes.CDLL(None).signal
    function.restype = ctypes.c_void_p
    return ctypes.c_void_p(function(int(signal.SIGABRT), handler))
