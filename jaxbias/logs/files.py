"""The bytes of a log, and the text in them."""

import codecs
import contextlib
import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from jaxbias.logs.errors import LogError, printable, quote

GZIP = b"\x1f\x8b"
PARQUET = b"PAR1"
UNSUPPORTED = {  # by the first bytes of the file
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"BZh91AY&SY": "a bzip2 file",
    b"\xfd7zXZ": "an xz file",
    b"\x28\xb5\x2f\xfd": "a Zstandard file",
    b"ARROW1": "an Arrow (Feather) file",
}
FORMATS = "a CSV, TSV or Parquet file, plain or gzipped"
ENCODINGS = "UTF-8, or UTF-16 with a byte order mark"
DAMAGED_GZIP = "is a damaged gzip file, cut off or altered"
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
LONGEST_LINE = 2**24  # characters: of a gzip file of 2 MB that unpacks to 2 GB, pandas would make one field
BLOCK = 2**18  # bytes read at once, as pandas does


class RawFile(NamedTuple):
    """The bytes of a log, which can be read more than once."""

    name: str  # in messages: the path as it was given
    short_name: str  # without folders
    content: IO[bytes]

    @property
    def start(self) -> bytes:
        """The first bytes, which identify the format."""
        self.content.seek(0)
        return self.content.read(16)

    @property
    def is_parquet(self) -> bool:
        """Whether its name ends in .parquet or its first bytes say so."""
        return self.short_name.endswith(".parquet") or self.start.startswith(PARQUET)


@contextlib.contextmanager
def open_file(source: Any) -> Iterator[RawFile]:
    """Opens a path, "-" for standard input, or an open file; a failure to read it becomes a `LogError`."""
    name, short_name = _names(source)
    try:
        with _open(source) as file, _unchanged(name, file):
            yield RawFile(name=name, short_name=short_name, content=file)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise LogError(subject=name, problem=DAMAGED_GZIP, remedy="compress or copy it again") from error
    except OSError as error:
        if ADDRESS.match(name):
            remedy = "download it and give the path of the file, or - for standard input"
            raise LogError(subject=name, problem="is an address on the network", remedy=remedy) from error
        problem = f"cannot be read ({error.strerror or error})"
        raise LogError(subject=name, problem=problem, allowed=FORMATS) from error


@contextlib.contextmanager
def _unchanged(name: str, file: Any) -> Iterator[None]:
    """Refuses a file that was written to while it was read, whatever was read of it: half of a row may look like a whole one."""
    before = _version(file)
    try:
        yield
    finally:
        if _version(file) != before:
            remedy = "copy it and read the copy, or try again when nothing writes to it"
            raise LogError(subject=name, problem="was changed while it was read", remedy=remedy)


def _version(file: Any) -> tuple[int, int] | None:
    """Size and time of the last change; None of bytes in memory. A file that is replaced as a whole stays what it was."""
    if isinstance(file, io.BytesIO):
        return None
    found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns


def _is_standard_input(source: Any) -> bool:
    return isinstance(source, str) and source == "-"


def _names(source: Any) -> tuple[str, str]:
    if _is_standard_input(source):
        return "standard input", "standard input"
    if hasattr(source, "read"):
        path = getattr(source, "name", None)
        path = path if isinstance(path, str) else "the open file"
    else:
        path = os.fspath(source) if isinstance(source, str | os.PathLike) else None
    if not isinstance(path, str) or not path or "\0" in path:
        raise LogError("source", source, "a path, '-', an open file or a data frame", problem=f"is {quote(source)}")
    return printable(path), Path(path).name


def _open(source: Any) -> Any:
    if _is_standard_input(source):
        return io.BytesIO(sys.stdin.buffer.read() if sys.stdin else b"")
    if hasattr(source, "read"):
        content: Any = source.read()
        return io.BytesIO(content.encode() if isinstance(content, str) else content)
    file = Path(source).open("rb")  # noqa: SIM115  (the caller closes it)
    if file.seekable():
        return file
    with file:  # a pipe
        return io.BytesIO(file.read())


class Text(io.TextIOBase):
    """The text of a log, block by block; bytes that are not text are refused with the number of their line.

    pandas takes a NUL for the end of a field, and does not report the line of an undecodable byte.
    """

    def __init__(self, file: RawFile) -> None:
        self._name, self._line, self._open_line = file.name, 1, 0
        for start, kind in UNSUPPORTED.items():
            if file.start.startswith(start):
                raise LogError(subject=file.name, problem=f"is {kind}", allowed=FORMATS)
        zipped = file.start.startswith(GZIP)
        file.content.seek(0)
        self._bytes: Any = gzip.GzipFile(fileobj=file.content) if zipped else file.content
        start = self._bytes.read(2)
        self._bytes.seek(0)
        self._encoding = "utf-16" if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
        self._decoder = codecs.getincrementaldecoder(self._encoding)()

    def readable(self) -> bool:
        """Always: pandas asks."""
        return True

    def read(self, size: int | None = -1, /) -> str:
        """The next block, whatever the size asked for; an empty text at the end."""
        del size
        text = ""
        while not text:
            block = self._bytes.read(BLOCK)
            text = self._decode(block)
            if not block:
                break
        if "\0" in text:
            line = self._line + text[: text.index("\0")].count("\n")
            raise self._not_text(f"has a NUL byte in line {line}")
        self._line += text.count("\n")
        ends = max(text.rfind("\n"), text.rfind("\r"))
        self._open_line = len(text) - ends - 1 if ends >= 0 else self._open_line + len(text)
        if self._open_line > LONGEST_LINE:
            problem = f"has more than {LONGEST_LINE // 2**20} million characters in line {self._line}"
            raise LogError(subject=self._name, problem=problem, allowed=FORMATS)
        return text

    def _decode(self, block: bytes) -> str:
        try:
            return self._decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            line = self._line + error.object[: error.start].count(b"\n")
            encoding = self._encoding.upper().removesuffix("-SIG")
            raise self._not_text(f"has byte 0x{error.object[error.start]:02x} in line {line}, which is not {encoding}") from error

    def _not_text(self, problem: str) -> LogError:
        return LogError(subject=self._name, problem=problem, allowed=FORMATS, remedy=f"text must be {ENCODINGS}")
