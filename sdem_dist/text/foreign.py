"""What the first bytes of a file give away: text in another encoding, or no text at all."""

from collections.abc import Iterator

from sdem_dist.errors import IngestError

HEAD = 4096
_FEW = 8  # bytes that say nothing about the others
_MARKS = {b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_PACKED = {b"\x1f\x8b": ".gz", b"\xfd7zXZ\0": ".xz", b"\x28\xb5\x2f\xfd": ".zst", b"PAR1\x15": ".parquet"}
"""PAR1 alone may be a label; a number, of which Thrift says so by 0x15, comes next in Parquet's pages and footers."""
_NUL_AT = {  # of an ASCII character in four bytes, or in two
    "utf-32-le": (False, True, True, True),
    "utf-32-be": (True, True, True, False),
    "utf-16-le": (False, True, False, True),
    "utf-16-be": (True, False, True, False),
}


def foreign(start: bytes) -> str | None:
    """Return what the first bytes of a file are instead of text in UTF-8, and what to do; None if nothing tells.

    UTF-16 without a mark is known by NULs in every second byte: most of its characters have to be Latin ones.
    """
    for mark, encoding in _MARKS.items():
        if start.startswith(mark):
            return f"it begins with the mark of {encoding.upper()}: --encoding {encoding} reads it"
    for first, suffix in _PACKED.items():
        if start.startswith(first):
            return f"it has the first bytes of a {suffix} file: give it the suffix {suffix}"
    if start.startswith(b"PK\x03\x04"):
        return "it has the first bytes of a ZIP archive, as .xlsx and .docx files have: save it as CSV, or unpack it"
    head = start[: HEAD // 4 * 4]
    if len(head) < _FEW or b"\0" not in head:
        return None
    shares = [head[i::4].count(0) / len(head[i::4]) for i in range(4)]
    for encoding, nul in _NUL_AT.items():
        if all(share > 0.5 if is_nul else share < 0.1 for share, is_nul in zip(shares, nul, strict=True)):
            return f"it is text of {encoding.upper()}, as its NULs show: --encoding {encoding} reads it"
    return None


def text_alone(path: object, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the pieces of a file that is read as UTF-8.

    Raises IngestError: by its first bytes it is something else.
    """
    for piece in pieces:
        if (problem := foreign(piece)) is not None:
            raise IngestError(f"{'standard input' if str(path) == '-' else path}: {problem}")
        yield piece
        break
    yield from pieces
