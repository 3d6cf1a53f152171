"""Sources cut into stretches, each for one task to read: line ranges, row groups, groups of files, or whole files."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sdem_dist.storage.places import for_a_reader
from sdem_dist.text.files import COMPRESSIONS, is_utf8_name
from sdem_dist.text.sources import Reading, source_format
from sdem_dist.text.validation import RowValidator

STRETCH_BYTES = 1 << 23  # about what one task reads at most, where a source can be cut
SHARES, LEAST_BYTES = 16, 1 << 20
"""Few sources are cut into this many stretches, unless these get smaller than that: few large ones are uneven work."""


@dataclass(frozen=True)
class Stretch:
    """Consecutive documents of one source."""

    source: Path
    size: int
    changed: int
    """`size` and `changed`: bytes of the file, and when it was last changed, in nanoseconds; of files of a folder a
    number of both."""
    part: tuple[int, int] | None = None
    """First and last + 1 of its bytes (lines), row groups (Parquet) or files (a folder); None: all."""
    copy: int = 0  # how often the same source was named before

    @property
    def name(self) -> str:
        """A name of its content, for files."""
        content = repr((str(self.source.absolute()), self.size, self.changed, self.part, self.copy))
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def stretches(
    sources: Iterable[Path], reading: Reading, gate: RowValidator, size: int | None = None
) -> Iterator[Stretch]:
    """Yield the stretches of sources, in order; where they are cut depends on the sources alone.

    `gate`: learns of files of a folder that are in no class.
    `size`: bytes of a stretch, about; by default `STRETCH_BYTES`, or less of few files.
    """
    forms = [(source, source_format(source, reading)) for source in sources]
    if size is None:
        n_bytes = sum(source.stat().st_size for source, form in forms if form != "folder")
        size = min(STRETCH_BYTES, max(LEAST_BYTES, n_bytes // SHARES)) if n_bytes else STRETCH_BYTES
    named = Counter[Path]()
    for source, form in forms:
        copy = named[source.absolute()]
        named[source.absolute()] += 1
        if form == "folder":
            yield from _of_folder(source, gate, size, copy)
            continue
        there = source.stat()
        lines = form == "tsv" and in_plain_lines(source, reading.encoding)
        parts: Iterable[tuple[int, int] | None] = (None,)
        if reading.id is None and (lines or form == "parquet"):
            parts = parts_of(source, there.st_size, size, lines=lines)
        yield from (Stretch(source, there.st_size, there.st_mtime_ns, part, copy) for part in parts)


def in_plain_lines(source: Path, encoding: str) -> bool:
    """Whether a file of lines can be read from the middle."""
    return source.suffix.lower() not in COMPRESSIONS and is_utf8_name(encoding)


def parts_of(source: Path, n_bytes: int, size: int, *, lines: bool) -> Iterable[tuple[int, int] | None]:
    """Return the parts of a file of lines, or of a Parquet file, of about `size` bytes; None is the whole file."""
    if n_bytes <= size:
        return (None,)
    return _of_lines(source, n_bytes, size) if lines else _of_row_groups(source, size)


def _of_lines(source: Path, n_bytes: int, size: int) -> Iterator[tuple[int, int]]:
    with source.open("rb") as file:
        start = 0
        while start < n_bytes:
            file.seek(min(start + size, n_bytes))
            file.readline()
            yield start, file.tell()
            start = file.tell()


def _of_row_groups(source: Path, size: int) -> Iterator[tuple[int, int] | None]:
    import pyarrow
    import pyarrow.parquet

    try:
        groups = pyarrow.parquet.read_metadata(for_a_reader(source))
    except (pyarrow.ArrowException, OSError):
        yield None  # its reader says what is wrong
        return
    first = held = 0
    for group in range(groups.num_row_groups):
        held += groups.row_group(group).total_byte_size
        if held >= size or group + 1 == groups.num_row_groups:
            yield first, group + 1
            first, held = group + 1, 0


def _of_folder(folder: Path, gate: RowValidator, size: int, copy: int) -> Iterator[Stretch]:
    from sdem_dist.text.formats.folder import labelled_files

    first = number = held = 0
    files = hashlib.sha256()
    for number, (_, file) in enumerate(labelled_files(folder, gate), 1):
        there = file.stat()
        held += there.st_size
        files.update(repr((str(file), there.st_size, there.st_mtime_ns)).encode("utf-8", "surrogatepass"))
        if held >= size:
            yield Stretch(folder, held, _number(files), (first, number), copy)
            first, held, files = number, 0, hashlib.sha256()
    if first == 0 or first < number:
        yield Stretch(folder, held, _number(files), (first, number), copy)


def _number(files: hashlib._Hash) -> int:
    """Return a number of the names, sizes and times of files."""
    return int.from_bytes(files.digest()[:8])
