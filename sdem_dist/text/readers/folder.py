"""A folder of text files by class: the name of the sub-folder is the label."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from sdem_dist.errors import IngestError
from sdem_dist.storage.urls import Url, place
from sdem_dist.text.files import HEAD, decoded, foreign, is_utf8_name, open_binary, plain_suffix
from sdem_dist.text.sources import Reading
from sdem_dist.text.texts import BLOCK_CHARACTERS, RecordBatch
from sdem_dist.text.validation import NoLabelError, RowValidator, not_unicode

_OF_MANY = (".tsv", ".csv", ".jsonl", ".ndjson", ".parquet", ".pq")
LabelledFile = tuple[str | None, Path]


def read_folder(
    path: Path, reading: Reading, gate: RowValidator, block_documents: int, files: Iterable[LabelledFile], *, keep: bool
) -> Iterator[RecordBatch]:
    """Yield a record of each of the files, which are as `files_of` lists them."""
    for role in ("id", "group", "weight"):
        if role in reading.roles:
            raise IngestError(f"{path} is a folder, which has no column of {role}s")
    texts, labels, names, size = list[object](), list[object](), list[object](), 0

    def batch() -> RecordBatch:
        roles = {"label": labels} if reading.labelled else {}
        beside = {"file": names} if keep else {}
        return RecordBatch([texts], {**roles}, np.ones(len(texts), int), "file", {**beside}, are_valid=True)

    for label, file in files:
        text = _text_of(file, reading.encoding, gate)
        if text is not None:
            texts.append(text)
            labels.append(label)
            names.append(str(file.relative_to(path)))
            size += len(text)
        if len(texts) == block_documents or size >= BLOCK_CHARACTERS:
            yield batch()
            texts, labels, names, size = [], [], [], 0
    if texts:
        yield batch()


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


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder and of its sub-folders, but for hidden ones, in the order of their names."""
    for parent, folders, names in folder.walk() if isinstance(folder, Url) else os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (place(parent) / name for name in sorted(names) if not name.startswith("."))


def _text_of(file: Path, encoding: str, gate: RowValidator) -> str | None:
    with open_binary(file) as raw:
        content = raw.read()
    if is_utf8_name(encoding) and (problem := foreign(content[:HEAD])) is not None:
        gate.reject(file, 1, problem, "file")
        return None
    text = "".join(decoded(file, [content], encoding))
    if not_unicode(text) is None:
        return text
    number, problem = next((n, p) for n, line in enumerate(text.split("\n"), 1) if (p := not_unicode(line)) is not None)
    gate.reject(file, number, f"the line has {problem}")
    return None
