"""Sources cut into splits, each for one task to read: line ranges, row groups, groups of files, or whole files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sdem_dist.errors import IngestError
from sdem_dist.storage.urls import Url, for_a_reader, place
from sdem_dist.text.files import (
    COMPRESSIONS,
    HEAD,
    decoded,
    foreign,
    is_utf8_name,
    line_blocks,
    open_binary,
    plain_suffix,
)
from sdem_dist.text.readers import has_text_lines, read_json_lines, read_lines, read_svmlight
from sdem_dist.text.sources import BLOCK_DOCUMENTS, LINES, LINES_OR_TSV, Reading, source_format
from sdem_dist.text.texts import BLOCK_CHARACTERS, RecordBatch, Records
from sdem_dist.text.validation import NoLabelError, RowValidator, not_unicode

_OF_MANY = (".tsv", ".csv", ".jsonl", ".ndjson", ".parquet", ".pq")
LabelledFile = tuple[str | None, Path]
INGEST_BYTES = 1 << 23  # about what one task of an ingest reads at most, where a source can be cut
N_SPLITS, MIN_BYTES = 16, 1 << 22
"""Few sources are cut into this many splits, unless these get smaller than that: few large ones are uneven work."""
PREDICT_BYTES = 1 << 21  # about what one task of a prediction reads: little, so that workers end together


def read_folder(
    path: Path, reading: Reading, gate: RowValidator, block_documents: int, files: Iterable[LabelledFile], *, keep: bool
) -> Iterator[RecordBatch]:
    """Yield a record of each of the files, which are as `files_of` lists them."""
    for role in ("id", "group", "weight"):
        if role in reading.roles:
            raise IngestError(f"{path} is a folder, which has no column of {role}s")
    rows, size = list[tuple[object, object, object]](), 0

    def batch() -> RecordBatch:
        texts, labels, names = map(list, zip(*rows, strict=True))
        records = RecordBatch([texts], {}, np.ones(len(texts), int), "file", are_valid=True)
        if reading.labelled:
            records.roles["label"] = labels
        if keep:
            records.beside["file"] = names
        return records

    for label, file in files:
        with open_binary(file) as raw:
            content = raw.read()
        if is_utf8_name(reading.encoding) and (problem := foreign(content[:HEAD])) is not None:
            gate.reject(file, 1, problem, "file")
            continue
        text = "".join(decoded(file, [content], reading.encoding))
        if not_unicode(text) is None:
            rows.append((text, label, str(file.relative_to(path))))
            size += len(text)
        else:
            lines = enumerate(text.split("\n"), 1)
            number, problem = next((n, p) for n, line in lines if (p := not_unicode(line)) is not None)
            gate.reject(file, number, f"the line has {problem}")
        if len(rows) == block_documents or size >= BLOCK_CHARACTERS:
            yield batch()
            rows, size = [], 0
    if rows:
        yield batch()


def files_of(path: Path, gate: RowValidator, *, labelled: bool) -> Iterator[LabelledFile]:
    """Yield (label, file) of each file below the sub-folders of `path`, in the order of their sorted names.

    Hidden files and folders are left out. Files directly in `path` belong to no class and are rejected; without labels
    they are documents, too.
    """
    if not labelled:
        yield from ((None, file) for file in _files_below(path))
        return
    for entry in sorted(child.name for child in path.iterdir() if not child.name.startswith(".")):
        if not (path / entry).is_dir():
            problem = "the file lies in no class folder; a class folder's name is the label"
            if (suffix := plain_suffix(Path(entry))) in _OF_MANY:
                problem += f". Files of many documents are sources themselves: {path / ('*' + suffix)}"
            gate.reject(path / entry, 1, problem, "file", NoLabelError)
        elif gate.is_label(path / entry, 1, entry, "folder"):
            yield from ((entry, file) for file in _files_below(path / entry))


def _files_below(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder and of its sub-folders, but for hidden ones, in the order of their names."""
    for parent, folders, names in folder.walk() if isinstance(folder, Url) else os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (place(parent) / name for name in sorted(names) if not name.startswith("."))


@dataclass(frozen=True)
class InputSplit:
    """Consecutive documents of one source, which one task reads."""

    source: Path
    form: str
    reading: Reading
    keep: bool | tuple[str, ...] = False
    """Whether all columns stand beside the texts; or their names, those of the source's first documents."""
    block_documents: int = BLOCK_DOCUMENTS  # of a block at most
    part: tuple[int, int] | None = None  # first and last + 1 of its bytes (lines) or row groups (Parquet); None: all
    files: tuple[LabelledFile, ...] | None = None  # those of a folder
    size: int | None = None
    changed: int | None = None
    """`size` and `changed`: bytes of the file, and when it was last changed, in nanoseconds; of files of a folder a
    number of both. None: it can be read only once."""
    named: Path | None = None  # what the user calls the source, where `source` is absolute

    @property
    def name(self) -> str:
        """A name of its content, for files."""
        content = repr((str(self.source.absolute()), self.size, self.changed, self.part))
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def read(self, gate: RowValidator) -> Iterator[Records]:
        """Yield its documents; IngestError: it cannot be read, or was changed since it was cut."""
        gate.named = None if self.named is None else (self.source, self.named)
        gate.start = 0 if self.part is None or self.form == "parquet" else self.part[0]
        self._check()
        for batch in self._batches(gate):
            records = gate.check(self.source, batch)
            if len(records.texts):
                yield records
        self._check()

    def _batches(self, gate: RowValidator) -> Iterator[RecordBatch]:
        source, reading, size, keep = self.source, self.reading, self.block_documents, bool(self.keep)
        if self.form == "csv" or (self.form == "tsv" and reading.header):
            from sdem_dist.text.tables import read_csv

            if self.form == "tsv" and reading.delimiter is None:
                reading = replace(reading, delimiter="\t")
            return read_csv(source, reading, size, keep=keep)
        if self.form == "jsonl":
            return read_json_lines(source, reading, size, self.part, keep=self.keep)
        if self.form == "parquet":
            from sdem_dist.text.tables import read_parquet

            return read_parquet(source, reading, size, self.part, keep=keep)
        if self.form == "svmlight":
            return read_svmlight(source, size)
        if self.form == "folder":
            files = files_of(source, gate, labelled=reading.labelled) if self.files is None else self.files
            return read_folder(source, reading, gate, size, files, keep=keep)
        text_lines = None if self.form == LINES_OR_TSV else self.form == LINES
        return read_lines(source, reading, size, self.part, text_lines=text_lines, keep=self.keep)

    def _check(self) -> None:
        if self.part is not None and self.size is not None:
            status = self.source.stat() if self.source.is_file() else None
            if status is None or (status.st_size, status.st_mtime_ns) != (self.size, self.changed):
                raise IngestError(
                    f"{self.source} was changed while it was read: begin again, with a file that nobody writes to"
                )

    def elsewhere(self) -> InputSplit:
        """Return the same for a process in another working folder, whose warnings nobody sees."""
        files = None if self.files is None else tuple((label, file.absolute()) for label, file in self.files)
        return replace(self._with_resolved_form(), source=self.source.absolute(), files=files, named=self.source)

    def belongs_to_driver(self, *, alone: bool) -> bool:
        """Whether one worker should not answer it: it is a whole file, the only one or large or of unknown size."""
        return self.part is None and self.files is None and (alone or self.size is None or self.size > PREDICT_BYTES)

    def _with_resolved_form(self) -> InputSplit:
        if self.form != LINES_OR_TSV:
            return self
        text_lines = has_text_lines(self.source, next(line_blocks(self.source, self.reading.encoding), None))
        return replace(self, form=LINES if text_lines else "tsv")

    def _is_of_lines(self) -> bool:
        """Whether the source has a document a line, and can be read from the middle."""
        with_lines = self.form in (LINES, LINES_OR_TSV, "jsonl") or (self.form == "tsv" and not self.reading.header)
        return with_lines and self.source.suffix.lower() not in COMPRESSIONS and is_utf8_name(self.reading.encoding)

    def cut(self, size: int) -> Iterator[InputSplit]:
        """Yield parts of about `size` bytes, or the whole where it cannot be cut."""
        if (self.size or 0) <= size or not (self._is_of_lines() or self.form == "parquet"):
            yield self
        elif self.form == "parquet":
            yield from (replace(self, part=part) for part in _row_groups(self.source, size))
        else:
            with self.source.open("rb") as file:
                start = 0
                while start < (self.size or 0):
                    file.seek(min(start + size, self.size or 0))
                    file.readline()
                    yield replace(self, part=(start, file.tell()))
                    start = file.tell()


def ingest_splits(
    sources: Iterable[Path], reading: Reading, gate: RowValidator, block_documents: int = BLOCK_DOCUMENTS
) -> Iterator[InputSplit]:
    """Yield the splits of sources, in order; where they are cut depends on the sources alone."""
    forms = [(source, source_format(source, reading)) for source in sources]
    n_bytes = sum(source.stat().st_size for source, form in forms if form != "folder")
    size = min(INGEST_BYTES, max(MIN_BYTES, n_bytes // N_SPLITS)) if n_bytes else INGEST_BYTES
    for source, form in forms:
        split = InputSplit(source, form, reading, block_documents=block_documents)
        if form == "folder":
            yield from _of_folder(split, gate, size)
            continue
        status = source.stat()
        split = replace(split, size=status.st_size, changed=status.st_mtime_ns)
        can_be_cut = reading.id is None and form in ("tsv", "jsonl", "parquet")
        yield from split.cut(size) if can_be_cut else [split]


def predict_splits(source: Path, reading: Reading, block_documents: int, *, keep: bool) -> Iterator[InputSplit]:
    """Yield the splits of a source of text without labels, ``-`` for standard input; their cuts depend on it alone.

    `keep`: keep all columns, and not the ids alone.
    """
    form = source_format(source, reading, predicted=True)
    reading = replace(reading, labelled=False, label=None, label_separator=None, unlabelled=None)
    split = InputSplit(source, form, replace(reading, group=None, weight=None), keep, block_documents)
    if form == "folder":
        yield from _of_folder(split, RowValidator("skip"), PREDICT_BYTES)
        return
    if source.is_file() and not str(source.absolute()).startswith(("/dev/fd/", "/dev/stdin", "/proc/")):
        status = source.stat()
        split = replace(split, size=status.st_size, changed=status.st_mtime_ns)
    if (split.size or 0) <= PREDICT_BYTES:
        yield split
        return
    split = split._with_resolved_form()
    if keep and split._is_of_lines():
        first = next(split.read(RowValidator("skip")), None)
        split = replace(split, keep=tuple(first.columns if first is not None else ()) or True)
    yield from split.cut(PREDICT_BYTES)


def _row_groups(source: Path, size: int) -> Iterator[tuple[int, int] | None]:
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


def _of_folder(split: InputSplit, gate: RowValidator, size: int) -> Iterator[InputSplit]:
    """Yield groups of the files of a folder; one without files is one group, whose reader says what is wrong."""
    files, n_bytes, n_groups, identity = list[LabelledFile](), 0, 0, hashlib.sha256()

    def group() -> InputSplit:
        return replace(split, files=tuple(files), size=n_bytes, changed=int.from_bytes(identity.digest()[:8]))

    for label, file in files_of(split.source, gate, labelled=split.reading.labelled):
        status = file.stat()
        files.append((label, file))
        n_bytes += status.st_size
        identity.update(repr((str(file), status.st_size, status.st_mtime_ns)).encode("utf-8", "surrogatepass"))
        if n_bytes >= size:
            yield group()
            files, n_bytes, n_groups, identity = [], 0, n_groups + 1, hashlib.sha256()
    if files or not n_groups:
        yield group()
