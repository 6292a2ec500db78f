"""Where a log comes from: its bytes, and the text in them."""

import codecs
import contextlib
import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from jaxbias.io.words import Problem, plain, shown

GZIP = b"\x1f\x8b"
PARQUET = b"PAR1"
OTHERS = {  # what people also have, by its first bytes
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"BZh91AY&SY": "a bzip2 file",
    b"\xfd7zXZ": "an xz file",
    b"\x28\xb5\x2f\xfd": "a Zstandard file",
    b"ARROW1": "an Arrow (Feather) file",
}
FORMATS = "CSV, TSV or Parquet, plain or gzip"
ENCODINGS = "UTF-8, or UTF-16 with a byte order mark"
BLOCK = 2**18  # bytes read at once, as many as pandas asks for


class Source(NamedTuple):
    """The bytes of a log, which can be read more than once."""

    name: str  # the file as it was given: what messages call it
    short_name: str  # the file's name alone
    file: IO[bytes]

    @property
    def start(self) -> bytes:
        """The first bytes, which tell what it is."""
        self.file.seek(0)
        return self.file.read(16)

    @property
    def is_parquet(self) -> bool:
        """By the end of its name or by its first bytes."""
        return self.short_name.endswith(".parquet") or self.start.startswith(PARQUET)


@contextlib.contextmanager
def open_source(source: Any) -> Iterator[Source]:
    """A path, "-" for standard input, or an open file; what goes wrong while it is open is put into words."""
    name, short_name = _names(source)
    try:
        with _open(source) as file:
            yield Source(name=name, short_name=short_name, file=file)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise Problem(f"{name} is a damaged gzip file, cut off or altered; allowed: a whole one") from error
    except OSError as error:
        raise Problem(f"{name} cannot be read: {error.strerror or error}; allowed: a file with {FORMATS}") from error


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
        raise Problem(f"source is {shown(source)}; allowed: a path, '-', an open file or a data frame")
    return plain(path), Path(path).name


def _open(source: Any) -> Any:
    if _is_standard_input(source):
        return io.BytesIO(sys.stdin.buffer.read())
    if hasattr(source, "read"):
        content: Any = source.read()
        return io.BytesIO(content.encode() if isinstance(content, str) else content)
    file = Path(source).open("rb")  # noqa: SIM115  (the caller closes it)
    if file.seekable():
        return file
    with file:  # a pipe
        return io.BytesIO(file.read())


class Text(io.TextIOBase):
    """The text of a log from its start, block by block; what is not text is refused with the number of its line.

    pandas would take a NUL for the end of a field, and would not say in which line a byte is wrong.
    """

    def __init__(self, source: Source) -> None:
        self._name, self._line = source.name, 1
        for start, kind in OTHERS.items():
            if source.start.startswith(start):
                raise Problem(f"{source.name} is {kind}; allowed: {FORMATS}")
        zipped = source.start.startswith(GZIP)
        source.file.seek(0)
        self._bytes: Any = gzip.GzipFile(fileobj=source.file) if zipped else source.file
        start = self._bytes.read(2)
        self._bytes.seek(0)
        self._encoding = "utf-16" if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
        self._decoder = codecs.getincrementaldecoder(self._encoding)()

    def readable(self) -> bool:
        """Yes, which is what pandas asks."""
        return True

    def read(self, size: int | None = -1, /) -> str:
        """The next block, however many characters are asked for; nothing at the end."""
        del size
        text = ""
        while not text:
            block = self._bytes.read(BLOCK)
            text = self._decode(block)
            if not block:
                break
        if "\0" in text:
            line = self._line + text[: text.index("\0")].count("\n")
            raise Problem(f"{self._name} is not text: a NUL byte in line {line}; allowed: {FORMATS}; text in {ENCODINGS}")
        self._line += text.count("\n")
        return text

    def _decode(self, block: bytes) -> str:
        try:
            return self._decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            line = self._line + error.object[: error.start].count(b"\n")
            wrong = f"byte 0x{error.object[error.start]:02x} in line {line} is not {self._encoding.upper().removesuffix('-SIG')}"
            raise Problem(f"{self._name}: {wrong}; allowed: {FORMATS}; text in {ENCODINGS}") from error
