"""Opens a file that may be compressed; damage in it becomes an error that names the file."""

from __future__ import annotations

import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO, TYPE_CHECKING

from sdem_dist.errors import IngestError
from sdem_dist.storage.places import for_a_reader

if TYPE_CHECKING:
    import zstandard

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
            return io.BufferedReader(_ZstdFile(path), INPUT_CHUNK)
        case _:
            return path.open("rb")


class _ZstdFile(io.RawIOBase):
    """Bytes of a .zst file, frame after frame; unlike zstandard's own reader it notices a file cut short."""

    def __init__(self, path: Path) -> None:
        try:
            import zstandard
        except ImportError as error:
            raise IngestError(
                f"{path}: reading .zst files needs the package zstandard; install it with pip install 'sdem_dist[zstd]'"
            ) from error
        self._zstandard = zstandard
        self._file = path.open("rb")
        self._frame: zstandard.ZstdDecompressionObj | None = None
        self._pending = b""
        self._compressed = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._pending:
            if not self._compressed:
                self._compressed = self._file.read(INPUT_CHUNK)
            if not self._compressed:
                if self._frame is not None:
                    raise EOFError("the compressed file ends in the middle of its data")
                return 0
            if self._frame is None:
                self._frame = self._zstandard.ZstdDecompressor().decompressobj()
            try:
                self._pending = self._frame.decompress(self._compressed)
            except self._zstandard.ZstdError as error:
                raise OSError(f"damaged Zstandard data: {error}") from error
            self._compressed = b""
            if self._frame.eof:
                self._compressed, self._frame = self._frame.unused_data, None
        size = min(len(buffer), len(self._pending))
        buffer[:size] = self._pending[:size]
        self._pending = self._pending[size:]
        return size

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
