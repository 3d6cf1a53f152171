"""One corpus at a path, opened, and one document of it for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
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
from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.errors import CorpusError
from sdem_dist.storage.encoding import crc32c, decode_strings
from sdem_dist.storage.publish import set_aside
from sdem_dist.storage.urls import identity_of, is_url

if TYPE_CHECKING:
    from sdem_dist.storage.arrays import Group

# A manifest may have megabytes, and many tasks open the same corpus: a process parses it once and keeps it here.
_opened: dict[str, tuple[tuple[int, ...], StoredCorpus]] = {}
MAX_OPENED = 32
# To see whether a corpus at a URL has changed costs requests: tasks share what was opened while any of them uses it.
_urls: WeakValueDictionary[str, StoredCorpus] = WeakValueDictionary()
SHOWN_WORDS = 12


@dataclass(frozen=True)
class StoredCorpus:
    """What was opened at a path: the root, and the manifest."""

    path: str
    group: Group
    header: Header

    def vocabulary(self) -> list[str] | None:
        """Read the words in the order of their indices, or return None if the corpus has none (hashed words)."""
        from sdem_dist.storage.arrays import read_array

        group, header = self.group, self.header
        if not header.has_vocabulary:
            return None
        try:
            offsets = read_array(group, f"{VOCABULARY}/offsets", shape=(header.n_features + 1,))
            encoded = read_array(group, f"{VOCABULARY}/bytes", shape=(int(offsets[-1]),)), offsets
            if vocabulary_hash(header.n_features, encoded) != header.vocabulary_hash:
                raise CorpusError("it does not match the manifest's vocabulary_hash: a file is damaged or missing")
            return decode_strings(*encoded)
        except ValueError as error:
            raise CorpusError(f"{self.path}: the vocabulary cannot be read: {error}") from error

    def document_frequency(self) -> np.ndarray:
        """Read in how many documents each column occurs; CorpusError where that is damaged, or the corpus dense."""
        from sdem_dist.storage.arrays import read_array

        path = self.path
        if self.header.document_frequency_checksum is None:
            raise CorpusError(f"{path} is dense: its columns have no document frequencies")
        try:
            frequency = read_array(self.group, DOCUMENT_FREQUENCY, shape=(self.header.n_features,))
        except CorpusError as error:
            raise CorpusError(f"{path}: {error}") from error
        if frequency.dtype != np.int64 or crc32c(frequency) != self.header.document_frequency_checksum:
            raise CorpusError(
                f"{path}: array {DOCUMENT_FREQUENCY!r} does not match its checksum: a file is damaged or missing, or the "
                "corpus was replaced since it was opened: open it again"
            )
        return frequency


def stored_corpus(path: str, share: bool) -> StoredCorpus:
    """Open a corpus, or return what this process has opened already; at a URL only with `share`."""
    identity = identity_of(path)
    if identity is None:
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
    group, attributes = open_contents(path)
    if MANIFEST not in attributes:
        raise CorpusError(f"{path}: not a corpus, or one whose writing was cut short: it has no manifest")
    return StoredCorpus(path, group, Header.from_json(attributes[MANIFEST], path))


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
        """Return one document with names."""
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
        parts = [f"id {_printable(self.id)}"]
        if self.label is not None:
            parts.append(f"label {_printable(self.label)}")
        if self.targets:
            parts.append(f"targets {', '.join(f'{t:g}' for t in self.targets)}")
        first = [f"{_printable(word)} {count:g}" for word, count in list(self.counts.items())[:SHOWN_WORDS]]
        n_more = len(self.counts) - len(first)
        words = ", ".join(first) + (f", and {n_more:,} more" if n_more else "")
        return f"<document: {'; '.join(parts)}; {words or 'no words'}>"


def _printable(value: object) -> str:
    """Return a value as text without characters that control a terminal."""
    text = str(value)
    return text if text.isprintable() else repr(text)[1:-1]
