"""Splits of sources, one per task: ranges of lines, row groups, groups of files, or entire files."""

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
    SUFFIXES,
    LabelledFile,
    Reading,
    SourcePart,
    decoded,
    foreign,
    is_utf8_name,
    line_blocks,
    open_binary,
    plain_suffix,
    source_format,
)
from sdem_dist.text.texts import BLOCK_CHARACTERS, NoLabelError, RecordBatch, Records, RowValidator, not_unicode

INGEST_BYTES = 1 << 23  # approximate upper limit of a split for an ingest, if the source can be cut
N_SPLITS, MIN_BYTES = 16, 1 << 22
"""Small sources are cut into about N_SPLITS splits of at least MIN_BYTES: fewer splits would be an uneven load."""
PREDICT_BYTES = 1 << 21  # approximate size of a split for a prediction: small, so that workers finish together


def _read_folder(split: InputSplit, gate: RowValidator) -> Iterator[RecordBatch]:
    """Yield batches with one record per file."""
    path, reading = split.source, split.reading
    files = files_of(path, gate, labelled=reading.labelled) if split.files is None else split.files
    if columns := [role for role in reading.roles if role != "label"]:
        raise IngestError(f"{path} is a folder and has no {columns[0]} column")
    rows, size = list[tuple[object, object, object]](), 0
    for label, file in chain[tuple[str | None, Path | None]](files, [(None, None)]):
        if rows and (file is None or len(rows) == split.block_documents or size >= BLOCK_CHARACTERS):
            texts, labels, names = map(list, zip(*rows, strict=True))
            roles: Any = {"label": labels} if reading.labelled else {}
            beside: Any = {"file": names} if split.keep else {}
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
        lines = text.split("\n") if not_unicode(text) is not None else []
        if bad := next(((n, p) for n, line in enumerate(lines, 1) if (p := not_unicode(line))), None):
            gate.reject(file, bad[0], f"the line has {bad[1]}")
            continue
        rows.append((text, label, str(file.relative_to(path))))
        size += len(text)


def files_of(path: Path, gate: RowValidator, *, labelled: bool) -> Iterator[LabelledFile]:
    """Yield (label, file) for the files in the class folders of `path`, or for all files; no hidden ones."""
    entries = sorted(child.name for child in path.iterdir() if not child.name.startswith(".")) if labelled else [None]
    for label in entries:
        folder = path if label is None else path / label
        if label is not None:
            if not folder.is_dir():
                problem = "the file is not in a subfolder that is named after a class"
                if (suffix := plain_suffix(Path(label))) in SUFFIXES and suffix != ".txt":
                    problem += f". To read files that contain many documents, pass the files: {path / ('*' + suffix)}"
                gate.reject(folder, 1, NoLabelError(problem), "file")
                continue
            try:
                gate.class_of(label)
            except IngestError as error:
                gate.reject(folder, 1, error, "folder")
                continue
            gate.labelled = True
        for parent, folders, names in folder.walk() if isinstance(folder, Url) else os.walk(folder):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            yield from ((label, place(parent) / name) for name in sorted(names) if not name.startswith("."))


@dataclass(frozen=True)
class InputSplit(SourcePart):
    """A part of a source that can be read, or cut into smaller parts."""

    number: int = 0  # index among the splits of an ingest
    size: int | None = None  # bytes; None if unknown, as for a pipe
    changed: int | None = None  # time of the last change, in nanoseconds; for files of a folder a hash

    @property
    def name(self) -> str:
        content = repr((str(self.source.absolute()), self.size, self.changed, self.part))
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def read(self, gate: RowValidator) -> Iterator[Records]:
        """Yield the documents; IngestError if the source cannot be read, or was changed since the cut."""
        source, form = self.source, "csv" if self.form == "tsv" and self.reading.header else self.form
        gate.start = 0 if self.part is None or form == "parquet" else self.part[0]
        read = readers.READERS.get(form, readers.read_lines)
        batches = _read_folder(self, gate) if form == "folder" else read(self)
        for batch in chain([None], batches, [None]):  # None: check for changes, before and after reading
            if batch is not None:
                if len((records := gate.check(source, batch)).texts):
                    yield records
            elif self.part is not None and self.size is not None:
                status = source.stat() if source.is_file() else None
                if status is None or (status.st_size, status.st_mtime_ns) != (self.size, self.changed):
                    advice = "start again, and do not change the file"
                    raise IngestError(f"{source} was changed while it was read: {advice}")

    def elsewhere(self) -> InputSplit:
        """Return the split with absolute paths, for a process with another working folder."""
        files = None if self.files is None else tuple((label, file.absolute()) for label, file in self.files)
        return replace(self, source=self.source.absolute(), files=files)

    @property
    def is_of_lines(self) -> bool:
        with_lines = self.form in (LINES, LINES_OR_TSV, "jsonl") or (self.form == "tsv" and not self.reading.header)
        return with_lines and self.source.suffix.lower() not in COMPRESSIONS and is_utf8_name(self.reading.encoding)

    def cut(self, size: int, gate: RowValidator) -> Iterator[InputSplit]:
        """Yield parts of about `size` bytes, or groups of a folder's files; or this split if it cannot be cut."""
        n_bytes, start, held = self.size or 0, 0, 0
        if self.form == "folder":
            files, identity = list[LabelledFile](), ""
            every = files_of(self.source, gate, labelled=self.reading.labelled)
            for label, path in chain[tuple[str | None, Path | None]](every, [(None, None)]):
                # a folder without files is one empty group; its reader raises the error
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

            with suppress(pyarrow.ArrowException, OSError):  # the reader raises the error
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
    """Yield the splits of sources, in order; the cuts depend only on the sources."""
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
    """Yield the splits of a source without labels, ``-`` for standard input; `keep`: keep all columns, not only ids."""
    form, gate = source_format(source, reading, predicted=True), RowValidator("skip")
    unread: Any = dict.fromkeys(("label", "label_separator", "unlabelled", "group", "weight"))
    reading = replace(reading, labelled=False, **unread)
    split = InputSplit(source, form, reading, keep, block_documents)
    if source.is_file() and not str(source.absolute()).startswith(("/dev/fd/", "/dev/stdin", "/proc/")):
        status = source.stat()
        split = replace(split, size=status.st_size, changed=status.st_mtime_ns)
        if form == LINES_OR_TSV:  # decided here: the user does not see warnings of workers
            has_texts = readers.has_text_lines(source, next(line_blocks(source, reading.encoding), b""))
            split = replace(split, form=LINES if has_texts else "tsv")
        if keep and status.st_size > PREDICT_BYTES and split.is_of_lines:
            first = next(split.read(gate), None)
            split = replace(split, keep=tuple(first.columns if first is not None else ()) or True)
    yield from split.cut(PREDICT_BYTES, gate)
