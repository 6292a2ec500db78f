"""All cores of this machine, and several processes as one run: `--coordinator HOST:PORT --num-processes N --process-id I`.

Every process is started with the same options except for its number, and simulates its share; process 0 prints the answer.
"""

import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Annotated, Any, NamedTuple, NoReturn

import typer

import jaxbias as jb
from jaxbias._core.errors import ArgumentError
from jaxbias.cli.app import TYPED
from jaxbias.cli.supervising import CONNECTED, FAILED, Supervised, is_child, supervise

OWN = ("out", "as_json", "quiet")  # options that each process may have for itself
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
HEARTBEAT = 30  # seconds without a sign of life after which a process counts as dead
START = 60  # seconds that the processes wait for each other to start: some hosts are slower than others
LOST = "another process of this run has stopped, or cannot be reached; start all of them again"
LATE = "after {wait} seconds not all {count} processes had started; start them all within this time, or give --wait SECONDS"


class Processes(NamedTuple):
    """The processes of a run, which of them this is, and the options that all of them must share, one string for each."""

    coordinator: str
    count: int
    number: int
    wait: int
    settings: tuple[str, ...] = ()


def _of_processes(text: str, **options: Any) -> Any:
    return typer.Option(help=text, rich_help_panel="Several processes or hosts", show_default=False, **options)


def _process_options(
    coordinator: Annotated[str | None, _of_processes("Where process 0 listens for the others.", metavar="HOST:PORT")] = None,
    num_processes: Annotated[int | None, _of_processes("How many processes there are.")] = None,
    process_id: Annotated[int | None, _of_processes("Which of them this is, from 0; 0 prints the answer.")] = None,
    wait: Annotated[int, _of_processes(f"How long to wait for all of them to start ({START}).", metavar="SECONDS")] = START,
) -> Processes | None:
    if wait < 1:
        raise ArgumentError("wait", wait, "1 second or more")
    if coordinator is None and num_processes is None and process_id is None:
        return None
    if coordinator is None or num_processes is None or process_id is None:
        raise ArgumentError(
            "coordinator",
            subject=lambda name_of: f"{name_of('coordinator')}, {name_of('num_processes')} and {name_of('process_id')}",
            problem="are not all given",
            remedy="give all of them or none",
        )
    host, _, port = coordinator.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 2**16):
        raise ArgumentError("coordinator", coordinator, f"HOST:PORT, with a port from 1 to {2**16 - 1}")
    if num_processes < 1:
        raise ArgumentError("num_processes", num_processes, "1 or more")
    if not 0 <= process_id < num_processes:
        raise ArgumentError("process_id", process_id, f"from 0 to {num_processes - 1}")
    return Processes(coordinator=coordinator, count=num_processes, number=process_id, wait=wait)


def with_process_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of `_process_options`; it receives them, or None, as `processes`.

    One of several processes runs in a child under supervision.
    """
    shared = inspect.signature(_process_options).parameters
    own = [parameter for parameter in inspect.signature(command).parameters.values() if parameter.name != "processes"]

    @wraps(command)
    def run(**options: Any) -> None:
        processes = _process_options(**{name: options.pop(name) for name in shared})
        if processes is not None and not is_child():
            late = LATE.format(wait=processes.wait, count=processes.count)
            raise Supervised(supervise(TYPED.get(), late=late, lost=LOST))
        shared_options = processes and processes._replace(settings=_settings(command.__name__, options))
        command(processes=shared_options, **options)

    run.__signature__ = inspect.Signature([*own, *shared.values()])  # pyright: ignore  (what typer reads)
    return run


def _settings(command: str, options: dict[str, Any]) -> tuple[str, ...]:
    """What decides which programs a process runs, and on what: not where its files are, nor how it prints."""
    used = {name: value for name, value in options.items() if name not in OWN}
    used |= {"out": options.get("out") is not None, "JAX_ENABLE_X64": os.environ.get("JAX_ENABLE_X64", "")}
    used |= {"command": command, "version": jb.__version__}
    return tuple(f"{name} = {value!r}" for name, value in sorted(used.items()))


@contextmanager
def spread_over(processes: Processes | None) -> Iterator[bool]:
    """Within it JAX uses all cores and all processes; yields whether this process prints the answer."""
    jb.use_all_cores()
    if processes is None:
        yield True
        return
    from jaxbias._core.devices import LostProcess, wait_for_all

    try:
        _connect(processes)
        yield processes.number == 0
        wait_for_all()
    except ValueError:  # bad input, the same in every process
        _disconnect()
        raise
    except LostProcess:
        _end(LOST)
    except BaseException as error:  # in this process alone: an ordinary end would wait for the others
        _end(_reason(error))
    _disconnect()


def _connect(processes: Processes) -> None:
    import jax

    from jaxbias._core.devices import wait_for_all

    options: Any = dict(initialization_timeout=processes.wait, heartbeat_timeout_seconds=HEARTBEAT)
    if processes.coordinator.rpartition(":")[0] in LOOPBACK:  # otherwise JAX listens on every interface
        options |= dict(coordinator_bind_address=processes.coordinator)
    jax.distributed.initialize(*processes[:3], cluster_detection_method="deactivate", **options)
    wait_for_all()
    os.write(2, CONNECTED)  # for the parent, which reads what is written to file 2
    _compare_settings(processes)


def _compare_settings(processes: Processes) -> None:
    """Refuses to go on where another process has other options: their trials would be combined as if they had the same."""
    from jaxbias._core.devices import from_all

    found = from_all("\n".join(processes.settings))
    if len(set(found)) > 1:
        lines = [set(text.splitlines()[1:]) for text in found]  # the first is the digest
        different = sorted({line.partition(" = ")[0] for line in set.union(*lines) - set.intersection(*lines)})
        raise ArgumentError(
            "process_id",
            subject="the processes of this run",
            problem=f"have different options: {', '.join(different)}",
            remedy=lambda name_of: f"start all of them with the same options, except {name_of('process_id')}",
        )


def _disconnect() -> None:
    import jax

    sys.stdout.flush()
    jax.distributed.shutdown()


def _end(message: str) -> NoReturn:
    sys.stdout.flush()
    print(f"jaxbias: {message}", file=sys.stderr, flush=True)
    os._exit(FAILED)  # an ordinary exit would wait for the process that is gone


def _reason(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return str(error) if isinstance(error, OSError | RuntimeError) else "".join(traceback.format_exception(error))
