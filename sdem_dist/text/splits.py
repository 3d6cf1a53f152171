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

INGEST_BYTES = 1 << 23  # about what one task of an ingest reads at most, where a source can be cut
N_SPLITS, MIN_BYTES = 16, 1 << 22
"""Few sources are cut into this many splits, unless these get smaller than that: few large ones are uneven work."""
PREDICT_BYTES = 1 << 21  # about what one task of a prediction reads: little, so that workers end together


def _read_folder(split: InputSplit, gate: RowValidator) -> Iterator[RecordBatch]:
    """Yield a record of each file."""
    path, reading = split.source, split.reading
    files = files_of(path, gate, labelled=reading.labelled) if split.files is None else split.files
    if others := [role for role in reading.roles if role != "label"]:
        raise IngestError(f"{path} is a folder and has no {others[0]} column")
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
    """Yield (label, file) of each file below the class folders of `path`, or without labels of all, but hidden ones."""
    entries = sorted(child.name for child in path.iterdir() if not child.name.startswith(".")) if labelled else [None]
    for label in entries:
        folder = path if label is None else path / label
        if label is not None:
            if not folder.is_dir():
                problem = "the file is not in a class folder, whose name is the label"
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
    """A part of a source that can be read, or be cut into smaller ones."""

    number: int = 0  # among those of an ingest
    size: int | None = None  # bytes; None: it can be read only once
    changed: int | None = None  # when it was last changed, in nanoseconds; of files of a folder a number

    @property
    def name(self) -> str:
        content = repr((str(self.source.absolute()), self.size, self.changed, self.part))
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def read(self, gate: RowValidator) -> Iterator[Records]:
        """Yield its documents; IngestError: it cannot be read, or was changed since it was cut."""
        source, form = self.source, "csv" if self.form == "tsv" and self.reading.header else self.form
        gate.start = 0 if self.part is None or form == "parquet" else self.part[0]
        read = readers.READERS.get(form, readers.read_lines)
        batches = _read_folder(self, gate) if form == "folder" else read(self)
        for batch in chain([None], batches, [None]):  # before and after it is read
            if batch is not None:
                if len((records := gate.check(source, batch)).texts):
                    yield records
            elif self.part is not None and self.size is not None:
                status = source.stat() if source.is_file() else None
                if status is None or (status.st_size, status.st_mtime_ns) != (self.size, self.changed):
                    advice = "start again, and do not change the file"
                    raise IngestError(f"{source} was changed while it was read: {advice}")

    def elsewhere(self) -> InputSplit:
        """Return the same for a process in another working folder."""
        files = None if self.files is None else tuple((label, file.absolute()) for label, file in self.files)
        return replace(self, source=self.source.absolute(), files=files)

    @property
    def is_of_lines(self) -> bool:
        with_lines = self.form in (LINES, LINES_OR_TSV, "jsonl") or (self.form == "tsv" and not self.reading.header)
        return with_lines and self.source.suffix.lower() not in COMPRESSIONS and is_utf8_name(self.reading.encoding)

    def cut(self, size: int, gate: RowValidator) -> Iterator[InputSplit]:
        """Yield parts of about `size` bytes, or groups of a folder's files; or the whole where it cannot be cut."""
        n_bytes, start, held = self.size or 0, 0, 0
        if self.form == "folder":
            files, identity = list[LabelledFile](), ""
            every = files_of(self.source, gate, labelled=self.reading.labelled)
            for label, path in chain[tuple[str | None, Path | None]](every, [(None, None)]):
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
    unread: Any = dict.fromkeys(("label", "label_separator", "unlabelled", "group", "weight"))
    reading = replace(reading, labelled=False, **unread)
    split = InputSplit(source, form, reading, keep, block_documents)
    if source.is_file() and not str(source.absolute()).startswith(("/dev/fd/", "/dev/stdin", "/proc/")):
        status = source.stat()
        split = replace(split, size=status.st_size, changed=status.st_mtime_ns)
        if form == LINES_OR_TSV:  # said here: nobody sees the warnings of workers
            has_texts = readers.has_text_lines(source, next(line_blocks(source, reading.encoding), b""))
            split = replace(split, form=LINES if has_texts else "tsv")
        if keep and status.st_size > PREDICT_BYTES and split.is_of_lines:
            first = next(split.read(gate), None)
            split = replace(split, keep=tuple(first.columns if first is not None else ()) or True)
    yield from split.cut(PREDICT_BYTES, gate)
