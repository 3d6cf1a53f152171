"""Files as blocks of whole lines: bytes in UTF-8, whatever the encoding of the file."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sdem_dist.kernels.code_points import PADDING
from sdem_dist.text.compressed import open_binary
from sdem_dist.text.decoded import open_text
from sdem_dist.text.foreign import text_alone

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
    """Say whether this is a name of UTF-8."""
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
