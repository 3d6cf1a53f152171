"""Sources cut into splits, each for one task to read: line ranges, row groups, groups of files, or whole files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from sdem_dist.errors import IngestError
from sdem_dist.storage.buckets import Url, for_a_reader, place
from sdem_dist.text import readers
from sdem_dist.text.sources import (
    BLOCK_DOCUMENTS,
    COMPRESSIONS,
    HEAD,
    LINES,
    LINES_OR_TSV,
    Reading,
    decoded,
    foreign,
    is_utf8_name,
    line_blocks,
    open_binary,
    plain_suffix,
    source_format,
)
from sdem_dist.text.texts import BLOCK_CHARACTERS, RecordBatch, Records
from sdem_dist.text.validation import NoLabelError, RowValidator, not_unicode

_OF_MANY = (".tsv", ".csv", ".jsonl", ".ndjson", ".parquet", ".pq")
LabelledFile = tuple[str | None, Path]
INGEST_BYTES = 1 << 23  # about what one task of an ingest reads at most, where a source can be cut
N_SPLITS, MIN_BYTES = 16, 1 << 22
"""Few sources are cut into this many splits, unless these get smaller than that: few large ones are uneven work."""
PREDICT_BYTES = 1 << 21  # about what one task of a prediction reads: little, so that workers end together


def _read_folder(
    path: Path, reading: Reading, gate: RowValidator, block_documents: int, files: Iterable[LabelledFile], *, keep: bool
) -> Iterator[RecordBatch]:
    """Yield a record of each of the files, which are as `files_of` lists them."""
    if others := [role for role in reading.roles if role != "label"]:
        raise IngestError(f"{path} is a folder, which has no column of {others[0]}s")
    rows, size, end = list[tuple[object, object, object]](), 0, [(None, None)]
    for label, file in chain[tuple[str | None, Path | None]](files, end):
        if rows and (file is None or len(rows) == block_documents or size >= BLOCK_CHARACTERS):
            texts, labels, names = map(list, zip(*rows, strict=True))
            roles: Any = {"label": labels} if reading.labelled else {}
            beside: Any = {"file": names} if keep else {}
            yield RecordBatch([texts], roles, np.ones(len(texts), int), "file", beside, are_valid=True)
            rows, size = [], 0
        if file is None:
            return
        with open_binary(file) as raw:
            content = raw.read()
        if is_utf8_name(reading.encoding) and (problem := foreign(content[:HEAD])):
            gate.reject(file, 1, problem, "file")
            continue
        text = "".join(decoded(file, [content], reading.encoding))
        if not_unicode(text) is None:
            rows.append((text, label, str(file.relative_to(path))))
            size += len(text)
        else:
            lines = enumerate(text.split("\n"), 1)
            number, problem = next((n, p) for n, line in lines if (p := not_unicode(line)))
            gate.reject(file, number, f"the line has {problem}")


def files_of(path: Path, gate: RowValidator, *, labelled: bool) -> Iterator[LabelledFile]:
    """Yield (label, file) of each file below the class folders of `path`, or without labels of all, but hidden ones."""
    entries = sorted(child.name for child in path.iterdir() if not child.name.startswith(".")) if labelled else [None]
    for label in entries:
        folder = path if label is None else path / label
        if label is not None:
            if not folder.is_dir():
                problem = "the file lies in no class folder; a class folder's name is the label"
                if (suffix := plain_suffix(Path(label))) in _OF_MANY:
                    problem += f". Files of many documents are sources themselves: {path / ('*' + suffix)}"
                gate.reject(folder, 1, problem, "file", NoLabelError)
                continue
            try:
                gate.class_of(label)
            except IngestError as error:
                gate.reject(folder, 1, error.problem, "folder", type(error))
                continue
            gate.labelled = True
        for parent, folders, names in folder.walk() if isinstance(folder, Url) else os.walk(folder):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            yield from ((label, place(parent) / name) for name in sorted(names) if not name.startswith("."))


@dataclass(frozen=True)
class InputSplit:
    source: Path
    form: str
    reading: Reading
    keep: readers.Keep = False
    """Whether all columns stand beside the texts; or their names, those of the source's first documents."""
    block_documents: int = BLOCK_DOCUMENTS  # of a block at most
    part: tuple[int, int] | None = None  # first and last + 1 of its bytes (lines) or row groups (Parquet); None: all
    files: tuple[LabelledFile, ...] | None = None  # those of a folder
    size: int | None = None  # bytes; None: it can be read only once
    changed: int | None = None  # when it was last changed, in nanoseconds; of files of a folder a number
    named: Path | None = None  # what the user calls the source, where `source` is absolute

    @property
    def name(self) -> str:
        content = repr((str(self.source.absolute()), self.size, self.changed, self.part))
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def read(self, gate: RowValidator) -> Iterator[Records]:
        """Yield its documents; IngestError: it cannot be read, or was changed since it was cut."""
        source, reading, form, size, keep = self.source, self.reading, self.form, self.block_documents, bool(self.keep)
        gate.named = None if self.named is None else (source, self.named)
        gate.start = 0 if self.part is None or form == "parquet" else self.part[0]
        if form == "csv" or (form == "tsv" and reading.header):
            delimiter = "\t" if form == "tsv" and reading.delimiter is None else reading.delimiter
            batches = readers.read_csv(source, replace(reading, delimiter=delimiter), size, keep)
        elif form == "jsonl":
            batches = readers.read_json_lines(source, reading, size, self.part, self.keep)
        elif form == "parquet":
            batches = readers.read_parquet(source, reading, size, self.part, keep)
        elif form == "svmlight":
            batches = readers.read_svmlight(source, size)
        elif form == "folder":
            files = files_of(source, gate, labelled=reading.labelled) if self.files is None else self.files
            batches = _read_folder(source, reading, gate, size, files, keep=keep)
        else:
            text_lines = None if form == LINES_OR_TSV else form == LINES
            batches = readers.read_lines(source, reading, size, self.part, text_lines, self.keep)
        for batch in chain([None], batches, [None]):
            if batch is not None:
                records = gate.check(source, batch)
                if len(records.texts):
                    yield records
            elif self.part is not None and self.size is not None:
                status = self.source.stat() if self.source.is_file() else None
                if status is None or (status.st_size, status.st_mtime_ns) != (self.size, self.changed):
                    advice = "begin again, with a file that nobody writes to"
                    raise IngestError(f"{source} was changed while it was read: {advice}")

    def elsewhere(self) -> InputSplit:
        """Return the same for a process in another working folder, whose warnings nobody sees."""
        files = None if self.files is None else tuple((label, file.absolute()) for label, file in self.files)
        return replace(self.with_form(), source=self.source.absolute(), files=files, named=self.source)

    def belongs_to_driver(self, *, alone: bool) -> bool:
        """Whether one worker should not answer it: it is a whole file, the only one or large or of unknown size."""
        return self.part is None and self.files is None and (alone or self.size is None or self.size > PREDICT_BYTES)

    def with_form(self) -> InputSplit:
        """Return the same with a format that is known, whether lines are texts or have labels."""
        if self.form != LINES_OR_TSV:
            return self
        text_lines = readers.has_text_lines(self.source, next(line_blocks(self.source, self.reading.encoding), None))
        return replace(self, form=LINES if text_lines else "tsv")

    @property
    def is_of_lines(self) -> bool:
        with_lines = self.form in (LINES, LINES_OR_TSV, "jsonl") or (self.form == "tsv" and not self.reading.header)
        return with_lines and self.source.suffix.lower() not in COMPRESSIONS and is_utf8_name(self.reading.encoding)

    def cut(self, size: int, gate: RowValidator) -> Iterator[InputSplit]:
        """Yield parts of about `size` bytes, or groups of a folder's files; or the whole where it cannot be cut."""
        n_bytes, start, held = self.size or 0, 0, 0
        if self.form == "folder":
            files, identity, found = (
                list[LabelledFile](),
                "",
                files_of(self.source, gate, labelled=self.reading.labelled),
            )
            for label, path in chain[tuple[str | None, Path | None]](found, [(None, None)]):
                # one without files is one group, whose reader says what is wrong
                if held >= size or (path is None and (files or not start)):
                    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).digest()
                    yield replace(self, files=tuple(files), size=held, changed=int.from_bytes(digest[:8]))
                    files, held, start, identity = [], 0, start + 1, ""
                if path is not None:
                    status = path.stat()
                    files.append((label, path))
                    identity += repr((str(path), status.st_size, status.st_mtime_ns))
                    held += status.st_size
            return
        if n_bytes > size and self.is_of_lines:
            with self.source.open("rb") as file:
                while start < n_bytes:
                    file.seek(min(start + size, n_bytes))
                    file.readline()
                    yield replace(self, part=(start, file.tell()))
                    start = file.tell()
            return
        if n_bytes > size and self.form == "parquet":
            import pyarrow
            import pyarrow.parquet

            with suppress(pyarrow.ArrowException, OSError):  # the reader says what is wrong
                groups = pyarrow.parquet.read_metadata(for_a_reader(self.source))
                for group in range(groups.num_row_groups):
                    held += groups.row_group(group).total_byte_size
                    if held >= size or group + 1 == groups.num_row_groups:
                        yield replace(self, part=(start, group + 1))
                        start, held = group + 1, 0
                return
        yield self


def ingest_splits(
    sources: Iterable[Path], reading: Reading, gate: RowValidator, block_documents: int = BLOCK_DOCUMENTS
) -> Iterator[InputSplit]:
    """Yield the splits of sources, in order; where they are cut depends on the sources alone."""
    forms = [(source, source_format(source, reading)) for source in sources]
    n_bytes = sum(source.stat().st_size for source, form in forms if form != "folder")
    size = min(INGEST_BYTES, max(MIN_BYTES, n_bytes // N_SPLITS)) if n_bytes else INGEST_BYTES
    for source, form in forms:
        split = InputSplit(source, form, reading, block_documents=block_documents)
        if form != "folder":
            status = source.stat()
            split = replace(split, size=status.st_size, changed=status.st_mtime_ns)
        can_be_cut = form == "folder" or (reading.id is None and form in ("tsv", "jsonl", "parquet"))
        yield from split.cut(size, gate) if can_be_cut else [split]


def predict_splits(source: Path, reading: Reading, block_documents: int, *, keep: bool) -> Iterator[InputSplit]:
    """Yield the splits of a source without labels, ``-`` for standard input; `keep`: all columns, not the ids alone."""
    form, gate = source_format(source, reading, predicted=True), RowValidator("skip")
    reading = replace(
        reading, labelled=False, label=None, label_separator=None, unlabelled=None, group=None, weight=None
    )
    split = InputSplit(source, form, reading, keep, block_documents)
    if source.is_file() and not str(source.absolute()).startswith(("/dev/fd/", "/dev/stdin", "/proc/")):
        status = source.stat()
        split = replace(split, size=status.st_size, changed=status.st_mtime_ns)
    if (split.size or 0) > PREDICT_BYTES:
        split = split.with_form()
        if keep and split.is_of_lines:
            first = next(split.read(gate), None)
            split = replace(split, keep=tuple(first.columns if first is not None else ()) or True)
    yield from split.cut(PREDICT_BYTES, gate)
