"""A folder of text files by class: the name of the sub-folder is the label."""

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from sdem_dist.errors import IngestError
from sdem_dist.storage.places import place
from sdem_dist.storage.urls import Url
from sdem_dist.text.files import HEAD, foreign, is_utf8_name, open_text, plain_suffix
from sdem_dist.text.texts import Columns, Row
from sdem_dist.text.validation import NoLabelError, RowValidator, not_unicode

_OF_MANY = (".tsv", ".csv", ".jsonl", ".ndjson", ".parquet", ".pq")


def read_folder(
    path: Path,
    encoding: str,
    gate: RowValidator,
    columns: Columns,
    part: tuple[int, int] | None = None,
    some: Sequence[Path] | None = None,
) -> Iterator[Row]:
    """Yield a row of each file below the sub-folders of `path`, in the order of their sorted names.

    Hidden files and folders are left out. Files directly in `path` belong to no class and are an error; without labels
    they are documents, too. With `part` only the files from one number up to another; whoever cut the folder has
    checked that all are in classes. Without labels these may be named as `some`.
    """
    if columns.id is not None:
        raise IngestError(f"{path} is a folder, which has no column of ids")
    first, stop = part or (0, None)
    listing = gate if part is None else gate.copy("skip")
    unlabelled = ((None, file) for file in (files_below(path) if some is None else some))
    files = labelled_files(path, listing) if columns.labelled else unlabelled
    for label, file in islice(files, first, stop):
        text = decoded_file(file, encoding, gate)
        if text is not None:
            yield text, label, None, {"file": str(file.relative_to(path))} if columns.keep else None


def labelled_files(path: Path, gate: RowValidator) -> Iterator[tuple[str, Path]]:
    """Yield (label, file) as `read_folder` reads them."""
    for entry in sorted(child.name for child in path.iterdir()):
        if entry.startswith("."):
            continue
        if not (path / entry).is_dir():
            problem = "the file lies in no class folder; a class folder's name is the label"
            if (suffix := plain_suffix(Path(entry))) in _OF_MANY:
                problem += f". Files of many documents are sources themselves: {path / ('*' + suffix)}"
            gate.reject(path / entry, 1, problem, "file", NoLabelError)
            continue
        label = gate.label(path / entry, 1, entry, "folder")
        if label is None:
            continue
        for file in files_below(path / entry):
            yield label, file


def files_below(folder: Path, *, hidden: bool = False) -> Iterator[Path]:
    """Yield the files of a folder and of its sub-folders, in the order of their names, hidden ones if asked for."""
    for parent, folders, names in folder.walk() if isinstance(folder, Url) else os.walk(folder):
        folders[:] = sorted(f for f in folders if hidden or not f.startswith("."))
        for name in sorted(names):
            if hidden or not name.startswith("."):
                yield place(parent) / name


def decoded_file(file: Path, encoding: str, gate: RowValidator) -> str | None:
    """Return the text of a file, or None if it is refused."""
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
