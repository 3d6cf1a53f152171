"""Files, compressed or not, as text or as blocks of whole lines; damage becomes an error that names the file."""

from __future__ import annotations

import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO, TextIO

import numpy as np

from sdem_dist.errors import IngestError
from sdem_dist.kernels.code_points import PADDING
from sdem_dist.storage.urls import for_a_reader

igzip: ModuleType | None = None
_DAMAGE: tuple[type[Exception], ...] = (OSError, EOFError, lzma.LZMAError, zlib.error)
with suppress(ImportError):  # several times faster, if installed
    igzip = import_module("isal.igzip")
    _DAMAGE = (*_DAMAGE, import_module("isal.isal_zlib").error)

COMPRESSIONS = (".gz", ".xz", ".zst")
INPUT_CHUNK = 1 << 18


def plain_suffix(path: Path) -> str:
    """Return the lower-case suffix under that of a compression: ".csv" for ``a.CSV.gz``."""
    suffixes = [s.lower() for s in path.suffixes[-2:]]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    else:
        suffixes = suffixes[-1:]
    return suffixes[-1] if suffixes else ""


@contextmanager
def open_binary(path: Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """Open `path` for reading bytes, decompressed according to its suffix; ``-`` is standard input.

    Raises IngestError if the file is missing, cannot be read, is damaged or cut short, or needs a package that is not
    installed.
    """
    if str(path) == "-":
        yield sys.stdin.buffer
        return
    try:
        with _opened(path) as stream:
            yield stream
    except _DAMAGE as error:
        if isinstance(error, FileNotFoundError):
            raise IngestError(f"{path}: there is no such file") from error
        if isinstance(error, IsADirectoryError):
            raise IngestError(f"{path} is a folder, where a file is expected") from error
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise IngestError(f"{path} cannot be read to its end: {reason}") from error


def _opened(path: Path) -> IO[bytes] | gzip.GzipFile:
    match path.suffix.lower():
        case ".gz":
            source = for_a_reader(path)
            return gzip.open(source, "rb") if igzip is None else igzip.open(source, "rb")
        case ".xz":
            return lzma.open(for_a_reader(path), "rb")
        case ".zst":
            import pyarrow

            stream = pyarrow.CompressedInputStream(path.open("rb"), "zstd")
            return io.BufferedReader(stream, INPUT_CHUNK)  # type: ignore[return-value]
        case _:
            return path.open("rb")


@contextmanager
def open_text(path: Path, encoding: str, newline: str) -> Iterator[TextIO]:
    """Open `path`, compressed or not, as text; bytes that `encoding` forbids arrive as U+DC80..U+DCFF.

    So the caller can say on which line they are. A byte order mark at the beginning of UTF-8 is dropped.
    """
    if encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
        encoding = "utf-8-sig"
    with open_binary(path) as raw:
        try:
            stream = io.TextIOWrapper(raw, encoding, errors="surrogateescape", newline=newline)
        except LookupError as error:
            raise IngestError(
                f"{path}: {encoding!r} is not an encoding that Python knows, such as 'latin-1'"
            ) from error
        try:
            yield stream
            stream.detach()  # the caller that opened the bytes closes them
        except UnicodeDecodeError as error:
            raise IngestError(f"{path}: it is not {encoding} text ({error.reason}); name its own encoding") from error


HEAD = 4096
_MARKS = {b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_PACKED = {b"\x1f\x8b": ".gz", b"\xfd7zXZ\0": ".xz", b"\x28\xb5\x2f\xfd": ".zst", b"PAR1\x15": ".parquet"}
"""PAR1 alone may be a label; a number, of which Thrift says so by 0x15, comes next in Parquet's pages and footers."""


def foreign(start: bytes) -> str | None:
    """Return what the first bytes of a file are instead of text in UTF-8, and what to do; None if nothing tells."""
    for mark, encoding in _MARKS.items():
        if start.startswith(mark):
            return f"it begins with the mark of {encoding.upper()}: --encoding {encoding} reads it"
    for first, suffix in _PACKED.items():
        if start.startswith(first):
            return f"it has the first bytes of a {suffix} file: give it the suffix {suffix}"
    if start.startswith(b"PK\x03\x04"):
        return "it has the first bytes of a ZIP archive, as .xlsx and .docx files have: save it as CSV, or unpack it"
    # of a Latin letter in UTF-16 every second byte is NUL, of one in UTF-32 three of four are
    if (n_nul := start[:HEAD].count(0)) > len(start[:HEAD]) // 3:
        width, first_is_nul = (32 if n_nul > len(start[:HEAD]) * 5 // 8 else 16), start[0] == 0
        encoding = f"utf-{width}-{'be' if first_is_nul else 'le'}"
        return f"it is text of {encoding.upper()}, as its NULs show: --encoding {encoding} reads it"
    return None


def text_alone(path: object, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the pieces of a file that is read as UTF-8; raise IngestError if by its first bytes it is not."""
    for piece in pieces:
        if (problem := foreign(piece)) is not None:
            raise IngestError(f"{'standard input' if str(path) == '-' else path}: {problem}")
        yield piece
        break
    yield from pieces


BLOCK_BYTES = 1 << 22
MARK = b"\xef\xbb\xbf"  # the byte order mark of UTF-8


@dataclass(frozen=True)
class LineBlock:
    """Consecutive bytes of a file."""

    raw: bytes  # in UTF-8, and `PADDING` more bytes; what the file's encoding does not allow is not UTF-8
    size: int  # without these
    escaped: bool  # bytes that the encoding does not allow are spelled as surrogates; otherwise they stay as they are

    @property
    def data(self) -> np.ndarray:
        """The bytes, without those more."""
        return np.frombuffer(self.raw, np.uint8)[: self.size]

    def text(self, start: int, stop: int) -> str:
        """Return some of the bytes as text, with bytes that are not allowed as U+DC80..U+DCFF."""
        return self.raw[start:stop].decode("utf-8", "surrogatepass" if self.escaped else "surrogateescape")


def is_utf8_name(encoding: str) -> bool:
    return encoding.lower().replace("_", "-") in ("utf-8", "utf8", "utf-8-sig", "utf8-sig")


Part = tuple[int, int]  # first byte of some lines of a file, and the one after their last


def line_blocks(path: Path, encoding: str, part: Part | None = None) -> Iterator[LineBlock]:
    """Yield a file, compressed or not, in blocks of whole lines, about `BLOCK_BYTES`; a longer line is a longer block.

    With `part` some lines only, of a file that is not compressed and in UTF-8.
    """
    held: list[bytes] = []
    pieces = _pieces(path, encoding) if part is None else _pieces_of_part(path, *part)
    if is_utf8_name(encoding) and (part is None or part[0] == 0):
        pieces = text_alone(path, pieces)
    for piece in pieces:
        cut = piece.rfind(b"\n") + 1
        if cut == 0:
            held.append(piece)
            continue
        yield _block([*held, piece[:cut]], encoding)
        held = [piece[cut:]]
    if any(held):
        yield _block(held, encoding)


def _pieces_of_part(path: Path, start: int, stop: int) -> Iterator[bytes]:
    with open_binary(path) as raw:
        raw.seek(start)
        while start < stop and (piece := raw.read(min(BLOCK_BYTES, stop - start))):
            yield piece.removeprefix(MARK) if start == 0 else piece
            start += len(piece)


def _block(pieces: list[bytes], encoding: str) -> LineBlock:
    raw = b"".join([*pieces, bytes(PADDING)])
    return LineBlock(raw, len(raw) - PADDING, not is_utf8_name(encoding))


def _pieces(path: Path, encoding: str) -> Iterator[bytes]:
    """Yield the bytes of a file in UTF-8, without a byte order mark."""
    if not is_utf8_name(encoding):
        with open_text(path, encoding, newline="\n") as stream:
            while text := stream.read(BLOCK_BYTES):
                yield text.encode("utf-8", "surrogatepass")
        return
    with open_binary(path) as raw:
        # from standard input take what has arrived: somebody may be typing
        read = raw.read1 if str(path) == "-" and isinstance(raw, io.BufferedReader) else raw.read
        first = b""
        while len(first) < len(MARK) and (piece := read(BLOCK_BYTES)):
            first += piece
        yield first.removeprefix(MARK)
        while piece := read(BLOCK_BYTES):
            yield piece
