"""One corpus at a path, opened, and one document of it for people."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np

from sdem_dist.corpus.base import AnyDocuments
from sdem_dist.corpus.manifest import (
    DOCUMENT_FREQUENCY,
    MANIFEST,
    VOCABULARY,
    Classes,
    ClassLabel,
    Header,
    LabelSet,
    vocabulary_hash,
)
from sdem_dist.counted import one_line
from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.errors import CorpusError
from sdem_dist.storage.encoding import crc32c, decode_strings
from sdem_dist.storage.publish import set_aside
from sdem_dist.storage.urls import is_url

# A manifest may have megabytes, and many tasks open the same corpus: a process parses it once and holds it here.
_opened: dict[str, tuple[tuple[int, ...], StoredCorpus]] = {}
MAX_OPENED = 32
# To see whether a corpus at a URL has changed costs requests: tasks share what was opened while any of them uses it.
_urls: WeakValueDictionary[str, StoredCorpus] = WeakValueDictionary()
PRINTED_WORDS = 12


@dataclass(frozen=True)
class StoredCorpus:
    """What was opened at a path: the folder of the contents, and the manifest."""

    path: str
    root: Path
    header: Header

    def vocabulary(self) -> list[str] | None:
        """Read the words in the order of their indices, or return None if the corpus has none (hashed words)."""
        from sdem_dist.storage.arrays import read_array

        folder, n_features = self.root / VOCABULARY, self.header.n_features
        if not self.header.has_vocabulary:
            return None
        try:
            offsets = read_array(folder / "offsets", (n_features + 1,), np.int64)
            encoded = read_array(folder / "bytes", (int(offsets[-1]),), np.uint8), offsets
            if vocabulary_hash(n_features, encoded) != self.header.vocabulary_hash:
                raise CorpusError("it does not match the manifest's vocabulary_hash: a file is damaged or missing")
            return decode_strings(*encoded)
        except ValueError as error:
            raise CorpusError(f"{self.path}: the vocabulary cannot be read: {error}") from error

    def document_frequency(self) -> np.ndarray:
        """Read in how many documents each column occurs; CorpusError where that is damaged, or the corpus dense."""
        from sdem_dist.storage.arrays import read_array

        if self.header.document_frequency_checksum is None:
            raise CorpusError(f"{self.path} is dense: its columns have no document frequencies")
        frequency = read_array(self.root / DOCUMENT_FREQUENCY, (self.header.n_features,), np.int64)
        if crc32c(frequency) != self.header.document_frequency_checksum:
            raise CorpusError(
                f"{self.path}: array {DOCUMENT_FREQUENCY!r} does not match its checksum: a file is damaged or missing, or "
                "the corpus was replaced since it was opened: open it again"
            )
        return frequency


def stored_corpus(path: str, share: bool) -> StoredCorpus:
    """Open a corpus, or return what this process has opened already; at a URL only with `share`."""
    identity: tuple[int, ...] = ()  # changes when another corpus replaces this one
    with suppress(OSError, ValueError):
        status = os.stat(os.path.join(path, "zarr.json"))
        identity = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
    if not identity:
        contents = _urls.get(path) if share else None
        if contents is None:
            contents = _open(path)
            if share:
                _urls[path] = contents
        return contents
    cached = _opened.get(path)
    if cached is None or cached[0] != identity:
        cached = identity, _open(path)
        while len(_opened) >= MAX_OPENED:
            _opened.pop(next(iter(_opened)), None)
        _opened[path] = cached
    return cached[1]


def _open(path: str) -> StoredCorpus:
    from sdem_dist.storage.contents import open_contents

    if not is_url(path):
        _check_folder(Path(path))
    root, attributes = open_contents(path)
    if MANIFEST not in attributes:
        raise CorpusError(f"{path}: not a corpus, or one whose writing was cut short: it has no manifest")
    return StoredCorpus(path, root, Header.from_json(attributes[MANIFEST], path))


def _check_folder(path: Path) -> None:
    """Raise CorpusError where there cannot be a corpus; the message says what is at the path and what to do."""
    advice = "a corpus is a folder that sdem ingest or write_corpus made"
    if not path.exists():
        for backup in set_aside(path)[-1:]:
            advice = f"a process died while it replaced it, and what was there is now {backup}: rename that"
        raise CorpusError(f"{path}: there is no such corpus; {advice}")
    if not path.is_dir():
        raise CorpusError(
            f"{path} is a file, perhaps a model or a source; {advice}: ingest a source first (sdem ingest; test documents with "
            "--vocabulary-from and the corpus of the training)"
        )
    if not (path / "zarr.json").exists():
        raise CorpusError(f"{path} is a folder, but no corpus; {advice}")


@dataclass(frozen=True, repr=False)
class StoredDocument:
    """What a corpus holds of a document.

    `counts`: count or weight of each word, the largest first; of columns by number where they have no names. Of a table
    all values.
    `targets`: numbers to be predicted.
    """

    counts: Mapping[str | int, float]
    id: int | str
    label: ClassLabel | LabelSet | None = None
    targets: tuple[float, ...] = ()

    @classmethod
    def of(cls, documents: AnyDocuments, id_: int | str, words: list[str] | None, classes: Classes) -> StoredDocument:
        if isinstance(documents, DenseDocuments):
            entries = list(enumerate(documents.values[0].tolist()))
        else:
            pairs = zip(documents.indices.tolist(), documents.data.tolist(), strict=True)
            entries = sorted(pairs, key=lambda entry: (-entry[1], entry[0]))
        labels, targets = documents.labels, documents.targets if isinstance(documents, Documents) else None
        return cls(
            {i if words is None else words[i]: count for i, count in entries},
            id_,
            None if labels is None or labels[0] < 0 else classes[int(labels[0])],
            () if targets is None else tuple(targets[0].tolist()),
        )

    def __repr__(self) -> str:
        parts = [f"id {one_line(self.id)}"]
        parts += [] if self.label is None else [f"label {one_line(self.label)}"]
        parts += [f"targets {', '.join(f'{t:g}' for t in self.targets)}"] if self.targets else []
        words = ", ".join(f"{one_line(word)} {n:g}" for word, n in list(self.counts.items())[:PRINTED_WORDS])
        n_more = len(self.counts) - PRINTED_WORDS
        words += f", and {n_more:,} more" if n_more > 0 else ""
        return f"<document: {'; '.join(parts)}; {words or 'no words'}>"
