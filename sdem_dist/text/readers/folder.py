"""A folder of text files by class: the name of the sub-folder is the label."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from sdem_dist.errors import IngestError
from sdem_dist.storage.urls import Url, place
from sdem_dist.text.files import HEAD, foreign, is_utf8_name, open_text, plain_suffix
from sdem_dist.text.texts import BLOCK_CHARACTERS, Columns, RecordBatch
from sdem_dist.text.validation import NoLabelError, RowValidator, not_unicode

_OF_MANY = (".tsv", ".csv", ".jsonl", ".ndjson", ".parquet", ".pq")
LabelledFile = tuple[str | None, Path]


def read_folder(
    path: Path, encoding: str, gate: RowValidator, columns: Columns, block_documents: int, files: Iterable[LabelledFile]
) -> Iterator[RecordBatch]:
    """Yield a record of each of the files, which are as `files_of` lists them."""
    for role in ("id", "group", "weight"):
        if columns.of(role) is not None:
            raise IngestError(f"{path} is a folder, which has no column of {role}s")
    batch: list[tuple[str, str | None, Path]] = []
    size = 0
    for label, file in files:
        text = decoded_file(file, encoding, gate)
        if text is not None:
            batch.append((text, label, file))
            size += len(text)
        if len(batch) == block_documents or size >= BLOCK_CHARACTERS:
            yield _batch(path, batch, columns)
            batch, size = [], 0
    if batch:
        yield _batch(path, batch, columns)


def _batch(path: Path, records: list[tuple[str, str | None, Path]], columns: Columns) -> RecordBatch:
    texts, labels, files = (list(column) for column in zip(*records, strict=True))
    beside: dict[str, list[object]] = {"file": [str(f.relative_to(path)) for f in files]} if columns.keep else {}
    roles = {"label": labels} if columns.labelled else {}
    return RecordBatch([texts], roles, np.ones(len(texts), int), "file", beside, are_valid=True)  # type: ignore[arg-type]


def files_of(path: Path, gate: RowValidator, *, labelled: bool) -> Iterator[LabelledFile]:
    """Yield (label, file) of each file below the sub-folders of `path`, in the order of their sorted names.

    Hidden files and folders are left out. Files directly in `path` belong to no class and are rejected; without labels
    they are documents, too.
    """
    if not labelled:
        yield from ((None, file) for file in files_below(path))
        return
    for entry in sorted(child.name for child in path.iterdir()):
        if entry.startswith("."):
            continue
        if not (path / entry).is_dir():
            problem = "the file lies in no class folder; a class folder's name is the label"
            if (suffix := plain_suffix(Path(entry))) in _OF_MANY:
                problem += f". Files of many documents are sources themselves: {path / ('*' + suffix)}"
            gate.reject(path / entry, 1, problem, "file", NoLabelError)
        elif gate.label(path / entry, 1, entry, "folder") is not None:
            yield from ((entry, file) for file in files_below(path / entry))


def files_below(folder: Path, *, hidden: bool = False) -> Iterator[Path]:
    """Yield the files of a folder and of its sub-folders, in the order of their names, hidden ones if asked for."""
    for parent, folders, names in folder.walk() if isinstance(folder, Url) else os.walk(folder):
        folders[:] = sorted(f for f in folders if hidden or not f.startswith("."))
        for name in sorted(names):
            if hidden or not name.startswith("."):
                yield place(parent) / name


def decoded_file(file: Path, encoding: str, gate: RowValidator) -> str | None:
    """Return the text of a file, or None if it is rejected."""
    with open_text(file, encoding, newline="") as stream:
        text = stream.read()
    if is_utf8_name(encoding) and (problem := foreign(text[:HEAD].encode("utf-8", "surrogateescape"))) is not None:
        gate.reject(file, 1, problem, "file")
        return None
    if not_unicode(text) is None:
        return text
    number, problem = next((n, p) for n, line in enumerate(text.split("\n"), 1) if (p := not_unicode(line)) is not None)
    gate.reject(file, number, f"the line has {problem}")
    return None
