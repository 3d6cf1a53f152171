"""Files, compressed or not, as blocks of whole lines in UTF-8; damage becomes an error that names the file."""

from __future__ import annotations

import codecs
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import numpy as np

from sdem_dist.errors import IngestError
from sdem_dist.kernels.code_points import PADDING
from sdem_dist.storage.urls import for_a_reader

open_gzip: Any = gzip.open
_DAMAGE: tuple[type[Exception], ...] = (OSError, EOFError, lzma.LZMAError, zlib.error)
with suppress(ImportError):  # several times faster, if installed
    open_gzip = import_module("isal.igzip").open
    _DAMAGE = (*_DAMAGE, import_module("isal.isal_zlib").error)

COMPRESSIONS = (".gz", ".xz", ".zst")
BLOCK_BYTES = 1 << 22
HEAD = 4096
_UTF8_MARK = b"\xef\xbb\xbf"
_MARKS = {b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_PACKED = {b"\x1f\x8b": ".gz", b"\xfd7zXZ\0": ".xz", b"\x28\xb5\x2f\xfd": ".zst", b"PAR1\x15": ".parquet"}
"""PAR1 alone may be a label; a number, of which Thrift says so by 0x15, comes next in Parquet's pages and footers."""
Part = tuple[int, int]  # first byte of some lines of a file, and the one after their last


def plain_suffix(path: Path) -> str:
    """Return the lower-case suffix under that of a compression: ".csv" for ``a.CSV.gz``."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


@contextmanager
def open_binary(path: Path) -> Iterator[IO[bytes]]:
    """Open `path` for reading bytes, decompressed according to its suffix; ``-`` is standard input."""
    if str(path) == "-":
        yield sys.stdin.buffer
        return
    try:
        if path.suffix.lower() == ".zst":
            import pyarrow

            stream = io.BufferedReader(pyarrow.CompressedInputStream(path.open("rb"), "zstd"), 1 << 18)
        else:
            unpack = {".gz": open_gzip, ".xz": lzma.open}.get(path.suffix.lower())
            stream = path.open("rb") if unpack is None else unpack(for_a_reader(path), "rb")
        with stream:
            yield stream
    except FileNotFoundError as error:
        raise IngestError(f"{path}: there is no such file") from error
    except IsADirectoryError as error:
        raise IngestError(f"{path} is a folder, where a file is expected") from error
    except _DAMAGE as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise IngestError(f"{path} cannot be read to its end: {reason}") from error


def is_utf8_name(encoding: str) -> bool:
    return encoding.lower().replace("_", "-") in ("utf-8", "utf8", "utf-8-sig", "utf8-sig")


def decoded(path: Path, chunks: Iterable[bytes], encoding: str) -> Iterator[str]:
    """Yield the text of bytes; those that `encoding` forbids become U+DC80..U+DCFF, so that readers name the line."""
    try:
        decoder = codecs.getincrementaldecoder("utf-8-sig" if is_utf8_name(encoding) else encoding)("surrogateescape")
    except LookupError as error:
        raise IngestError(f"{path}: {encoding!r} is not an encoding that Python knows, such as 'latin-1'") from error
    try:
        for chunk in chunks:
            yield decoder.decode(chunk)
        yield decoder.decode(b"", True)
    except UnicodeDecodeError as error:
        raise IngestError(f"{path}: it is not {encoding} text ({error.reason}); name its own encoding") from error


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
    head = start[:HEAD]
    if (n_nul := head.count(0)) > len(head) // 3:
        encoding = f"utf-{32 if n_nul > len(head) * 5 // 8 else 16}-{'be' if head[0] == 0 else 'le'}"
        return f"it is text of {encoding.upper()}, as its NULs show: --encoding {encoding} reads it"
    return None


@dataclass(frozen=True)
class LineBlock:
    raw: bytes  # in UTF-8, and `PADDING` more bytes; what the file's encoding does not allow is not UTF-8
    escaped: bool  # bytes that the encoding does not allow are spelled as surrogates; otherwise they stay as they are

    @property
    def data(self) -> np.ndarray:
        return np.frombuffer(self.raw, np.uint8)[:-PADDING]

    def text(self, start: int, stop: int) -> str:
        """Return some of the bytes as text, with bytes that are not allowed as U+DC80..U+DCFF."""
        return self.raw[start:stop].decode("utf-8", "surrogatepass" if self.escaped else "surrogateescape")


def line_blocks(path: Path, encoding: str, part: Part | None = None) -> Iterator[LineBlock]:
    """Yield a file, compressed or not, in blocks of whole lines, about `BLOCK_BYTES`; a longer line is a longer block.

    With `part` some lines only, of a file that is not compressed and in UTF-8.
    """
    escaped, held = not is_utf8_name(encoding), list[bytes]()

    def read_chunks() -> Iterator[bytes]:
        start, stop = part or (0, 1 << 62)
        at_start, first, chunk = start == 0 and not escaped, b"", b"more"
        with open_binary(path) as raw:
            if start:
                raw.seek(start)
            # from standard input take what has arrived: somebody may be typing
            read = raw.read1 if str(path) == "-" and isinstance(raw, io.BufferedReader) else raw.read
            while chunk:
                chunk = read(min(BLOCK_BYTES, stop - start)) if start < stop else b""
                start += len(chunk)
                first += chunk if at_start else b""
                if at_start and chunk and len(first) < len(_UTF8_MARK):
                    continue
                if at_start and (problem := foreign(first)) is not None:
                    raise IngestError(f"{'standard input' if str(path) == '-' else path}: {problem}")
                yield first.removeprefix(_UTF8_MARK) if at_start else chunk
                at_start = False

    chunks = read_chunks()
    if escaped:
        chunks = (text.encode("utf-8", "surrogatepass") for text in decoded(path, chunks, encoding))
    for chunk in chunks:
        cut = chunk.rfind(b"\n") + 1
        held.append(chunk[:cut] if cut else chunk)
        if cut:
            yield LineBlock(b"".join([*held, bytes(PADDING)]), escaped)
            held = [chunk[cut:]]
    if any(held):
        yield LineBlock(b"".join([*held, bytes(PADDING)]), escaped)
