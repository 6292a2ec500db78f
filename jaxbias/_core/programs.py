"""Compiled programs kept on disk, so that a later process neither traces nor lowers nor compiles them.

JAX's own persistent cache finds a program by its lowered text, so that a process with a full cache still traces and lowers, which
is two thirds of its start. Here a program is found by what it is made of: the function, its static arguments, the shapes and
types of the others, the source of this package, and the versions and settings of JAX. JAX's `serialize_executable` does the rest.
`use_cache` turns it on, as the command line does. What cannot be described by such words, such as a policy of the user's own,
goes through `jit`.
"""

import dataclasses
import enum
import hashlib
import os
import pickle
import platform
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.core import Tracer
from jax.experimental import serialize_executable
from jax.experimental.compilation_cache import compilation_cache
from jax.sharding import Mesh

from jaxbias._core import ahead
from jaxbias._core.devices import WIDEST
from jaxbias._core.errors import ArgumentError
from jaxbias._core.files import written_whole
from jaxbias._core.maps import CROWDING

PACKAGE = Path(__file__).parents[1]
PLAIN = (bool, int, float, str, bytes, type(None))
# Settings of JAX that change what is traced; the command line changes the first of them only.
TRACED_SETTINGS = ("jax_enable_x64", "jax_default_matmul_precision", "jax_numpy_dtype_promotion", "jax_debug_nans")
FILE = f"{{}}{ahead.ENDING}"
NOT_KEPT = b"not kept"  # in the place of a program; an empty file is a damaged one, as after a loss of power
MOST_FILES = 1000  # in the folder: of some thirty kinds of logs; 200 kB each on average
WIDE: dict[str, Any] = {"xla_cpu_prefer_vector_width": WIDEST}  # two thirds of the time of a simulation, with the same bits
# XLA's older code generator for CPUs, and one level of LLVM's optimisations in place of two: it compiles in 0.45 of the time, and
# what it makes runs as fast. The last bits of a result may differ from those that `jit` gives.
QUICK: dict[str, Any] = {**WIDE, "xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 1}


class Indescribable(Exception):
    """Something has no description that is the same in every process."""


class Programs:
    """The programs of this process, each loaded from a folder or compiled and kept there."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.loaded: dict[Any, Callable[..., Any]] = {}
        self.ahead: ahead.Ahead | None = None

    def load_ahead(self, words: Sequence[str]) -> None:
        """Starts to load what a run with these words used last time, until `end`. For the start of a program of one process."""
        if self.folder is None or not _is_alone_on_cpu():
            return
        self.end()
        self.ahead = ahead.Ahead(self.folder, [*words, _source()], lambda path: _load(path.read_bytes()))

    def end(self) -> None:
        """No program is loaded ahead any more; what this run used is known to the next one."""
        if self.ahead is not None:
            self.ahead.end()
            self.ahead = None

    def keep_in(self, folder: Path | None) -> None:
        """From now on programs are kept in this folder; with None they are not kept."""
        if folder == self.folder:
            return
        self.folder = folder
        self.loaded.clear()
        if folder is not None:
            _remove_oldest(folder)

    def run(
        self, function: Callable[..., Any], jitted: Any, static: tuple[Any, ...], numbers: list[Any], quick: bool = True
    ) -> Any:
        """`jitted(*static, numbers)`, by a program from the folder where there is one; with `quick`, one compiled faster."""
        traced = any(isinstance(one, Tracer) for one in numbers)
        if not traced and CROWDING.is_near():
            self.loaded.clear()
            jax.clear_caches()
        if self.folder is None or traced or not _is_alone_on_cpu():
            return jitted(*static, numbers)
        key = (function, *static, tuple(map(_kind, numbers)), _settings())
        program = self.loaded.get(key)  # which another thread may make this object forget meanwhile
        if program is None:
            program = self.loaded[key] = self._find(function, jitted, static, numbers, key[-2:], quick)
            CROWDING.program_made()
        return program(numbers)

    def _find(
        self, function: Any, jitted: Any, static: tuple[Any, ...], numbers: list[Any], kinds: Any, quick: bool
    ) -> Callable[..., Any]:
        ordinary = partial(jitted, *static)
        assert self.folder is not None
        try:
            words = repr((function.__module__, function.__qualname__, describe(static), kinds, _source(), _machine()))
        except Indescribable:
            return ordinary
        path = self.folder / FILE.format(hashlib.sha256(words.encode()).hexdigest())
        if self.ahead is not None and (program := self.ahead.take(path.name)) is not None:
            return program
        if path.is_file():
            try:
                content = path.read_bytes()
                return ordinary if content == NOT_KEPT else _load(content)
            except Exception:  # a file of another release, or half of one: it is made again
                path.unlink(missing_ok=True)
        program = _compile(jitted, static, numbers, quick)
        try:
            content = _dump(program)
        except Exception:  # not every program can be kept: the file says so, and JAX's own cache has it next time
            content = NOT_KEPT
        with suppress(OSError, ArgumentError), written_whole(path) as temporary:
            temporary.write_bytes(content)
        return program


PROGRAMS = Programs()


def _remove_oldest(folder: Path) -> None:
    """Leaves the newest files: each release, each kind of log and each change of the source makes its own."""
    with suppress(OSError):  # another process may remove the same ones
        for kind in (FILE, ahead.FILE):
            files = sorted(folder.glob(kind.format("*")), key=lambda path: path.stat().st_mtime, reverse=True)
            for path in files[MOST_FILES:]:
                path.unlink(missing_ok=True)


@cache
def _is_alone_on_cpu() -> bool:
    """Where programs are kept: other devices, and runs of several processes, need more than a file."""
    return jax.process_count() == 1 and jax.default_backend() == "cpu"


def describe(value: Any) -> Any:
    """The value in words and numbers that are the same in every process, nested in tuples.

    >>> import jax
    >>> describe(jax.tree.structure({"a": 1.0}))
    ('tree', 'builtins', 'dict', ('list', 'a'), (('leaf',),))
    """
    if isinstance(value, enum.Enum) or type(value) in PLAIN:
        return str(value) if isinstance(value, enum.Enum) else value
    if isinstance(value, jax.tree_util.PyTreeDef):
        return _describe_tree(value)
    if isinstance(value, Mesh):
        return ("mesh", value.axis_names, tuple(device.id for device in value.devices.flat))
    if isinstance(value, dict):
        return ("dict", *((describe(key), describe(part)) for key, part in value.items()))
    if isinstance(value, tuple | list):
        return (type(value).__qualname__, *map(describe, value))
    if hasattr(value, "described"):  # what `jit` holds by identity
        return describe(value.described)
    if _is_ours(type(value)) and dataclasses.is_dataclass(value):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return (type(value).__module__, type(value).__qualname__, describe(fields))
    if _is_ours(value) and "<" not in getattr(value, "__qualname__", "<"):
        return ("name", value.__module__, value.__qualname__)
    raise Indescribable(value)


def _describe_tree(structure: Any) -> Any:
    node = structure.node_data()
    if node is None:
        return ("leaf",) if structure.num_leaves else ("none",)
    kind, more = node
    if kind.__module__ != "builtins" and not _is_ours(kind):
        raise Indescribable(kind)
    words = describe(more) if kind.__module__ == "builtins" or more is not kind else ()
    return ("tree", kind.__module__, kind.__qualname__, words, tuple(map(_describe_tree, structure.children())))


def _is_ours(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).partition(".")[0] == PACKAGE.name


def _kind(number: Any) -> tuple[Any, ...]:
    """Type and shape of an argument, as far as a program depends on them."""
    if isinstance(number, jax.Array):
        return (str(number.dtype), number.shape, getattr(number, "weak_type", False), len(number.sharding.device_set))
    return (str(number.dtype), number.shape) if isinstance(number, np.ndarray | np.generic) else (type(number).__name__,)


def _settings() -> tuple[Any, ...]:
    return tuple(getattr(jax.config, name) for name in TRACED_SETTINGS)


@cache
def _source() -> str:
    """A digest of the source of this package."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def _machine() -> tuple[Any, ...]:
    """The versions, devices and instructions that a program was compiled for."""
    information = Path("/proc/cpuinfo")
    flags = [line for line in information.read_text().splitlines() if line.startswith("flags")] if information.exists() else []
    versions = (jax.__version__, version("jaxlib"), platform.python_version(), platform.machine(), tuple(flags[:1]))
    devices = jax.devices()
    return (*versions, os.environ.get("XLA_FLAGS", ""), devices[0].device_kind, len(devices))


@cache
def _options(quick: bool) -> dict[str, Any] | None:
    """How a program is compiled, if this release of XLA knows these options."""
    options = QUICK if quick else WIDE
    try:
        jax.jit(lambda: 0).lower().compile(compiler_options=options)
    except RuntimeError:
        return None
    return options


def _compile(jitted: Any, static: tuple[Any, ...], numbers: list[Any], quick: bool) -> Any:
    """Compiled here: what JAX's own cache gives on a CPU cannot be written to a file again."""
    lowered, is_used = jitted.lower(*static, numbers), jax.config.jax_enable_compilation_cache  # pyright: ignore
    try:
        jax.config.update("jax_enable_compilation_cache", False)
        compilation_cache.reset_cache()  # so that it reads the setting
        return lowered.compile(compiler_options=_options(quick))
    finally:
        jax.config.update("jax_enable_compilation_cache", is_used)
        compilation_cache.reset_cache()


def _dump(program: Any) -> bytes:
    payload, arguments, result = serialize_executable.serialize(program)
    skeleton = jax.tree.unflatten(result, range(result.num_leaves))  # a structure cannot be pickled, an object of it can
    return pickle.dumps((payload, arguments, skeleton, _number_of_devices(program)))


def _load(content: bytes) -> Callable[..., Any]:
    with LINEAR_ALGEBRA:
        _prepare_linear_algebra()
    payload, arguments, skeleton, number = pickle.loads(content)
    result = jax.tree.structure(skeleton)
    return serialize_executable.deserialize_and_load(payload, arguments, result, execution_devices=jax.devices()[:number])


LINEAR_ALGEBRA = threading.Lock()  # programs are loaded in several threads


@cache
def _prepare_linear_algebra() -> None:
    """Has JAX load LAPACK, which it does when it lowers the first program that needs it; a loaded program is not lowered."""
    jax.jit(jax.lax.linalg.cholesky).lower(jax.ShapeDtypeStruct((1, 1), np.float32))


def _number_of_devices(program: Any) -> int:
    return max((len(one.device_set) for one in jax.tree.leaves(program.output_shardings)), default=1)
