"""One corpus at a path, opened: what its files hold, read and verified."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np

from sdem_dist.corpus import manifest
from sdem_dist.corpus.manifest import DENSE, DOCUMENT_FREQUENCY, MANIFEST, Header
from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.errors import CorpusError
from sdem_dist.storage import arrays
from sdem_dist.storage.buckets import is_url
from sdem_dist.storage.encoding import crc32c, decode_strings
from sdem_dist.storage.publish import open_contents, set_aside

DAMAGED = (
    "does not match its checksum: a file is damaged or missing, or the corpus was replaced since it was opened; open it or "
    "make it again (training can leave damaged shards out: skip_damaged)"
)


@dataclass(frozen=True)
class StoredCorpus:
    """What was opened at a path. Methods raise CorpusError where it is damaged, with the shard and array."""

    path: str
    root: Path  # the folder of the contents
    header: Header

    def documents(self, shard: int) -> Documents | DenseDocuments:
        header, dense = self.header, self.header.layout == DENSE
        names = ["values"] if dense else ["data", "indices", "indptr"]
        optional = {"labels": header.classes, "targets": header.n_targets, "weights": header.has_weights}
        columns = self.columns(shard, [*names, *(name for name, present in optional.items() if present)])
        # Kernels index tables without checks, and checksums hold for whatever another program wrote.
        bounds = {"indices": (0, header.n_features - 1), "labels": (-1, len(header.classes) - 1)}
        bounds["indptr"] = 0, header.shards[shard].n_nonzeros
        for name, column in columns.items():
            low, high = bounds.get(name, (-np.inf, np.inf))
            ascends = name != "indptr" or (column[1:] >= column[:-1]).all()
            if name in bounds and column.size and not (column.min() >= low and column.max() <= high and ascends):
                raise CorpusError(f"{self.path}: shard {shard}: array {name!r} holds what no corpus may hold")
        return DenseDocuments(**columns) if dense else Documents(n_features=header.n_features, **columns)

    def columns(self, shard: int, names: Iterable[str], n_bytes: int = 0) -> dict[str, np.ndarray]:
        """Read arrays of a shard; `n_bytes` is the length of joined strings."""
        header, info = self.header, self.header.shards[shard]
        n, entries = info.n_documents, (info.n_nonzeros,)
        kinds: dict[str, arrays.Kind] = {
            "values": ((n, header.n_features), info.data_dtype),
            "data": (entries, info.data_dtype),
            "indices": (entries, manifest.index_dtype(header.n_features)),
            "labels": ((n,), np.int32),
            "targets": ((n, header.n_targets), np.float64),
            "weights": ((n,), np.float64),
            "groups": ((n,), np.uint64),
            "ids": ((n,), np.int64),
        }
        kinds |= dict.fromkeys(("indptr", "ids_offsets", "texts_offsets"), ((n + 1,), np.int64))
        kinds |= dict.fromkeys(("ids_bytes", "texts_bytes"), ((n_bytes,), np.uint8))
        folder = self.root / manifest.SHARDS / f"{shard:05d}"
        try:
            columns = arrays.read_arrays(folder, {name: kinds[name] for name in names})
        except CorpusError as error:
            name = Path(error.path or "").name
            raise type(error)(f"{self.path}: shard {shard}: array {name!r}: {error.problem}") from error
        for name, array in columns.items():
            if crc32c(array) != info.checksums.get(name):
                raise CorpusError(f"{self.path}: shard {shard}: array {name!r} {DAMAGED}")
        return columns

    def strings(self, shard: int, name: str) -> np.ndarray | list[str]:
        """Read the "ids", "texts" or "groups" of a shard's documents: numbers, or strings."""
        checksums = self.header.shards[shard].checksums
        if f"{name}_bytes" in checksums:
            (offsets,) = self.columns(shard, [f"{name}_offsets"]).values()
            (joined,) = self.columns(shard, [f"{name}_bytes"], int(offsets[-1])).values()
            try:
                return decode_strings(joined, offsets)
            except ValueError as error:
                raise CorpusError(f"{self.path}: shard {shard}: array '{name}_offsets': {error}") from error
        if name == "texts":
            raise CorpusError(f"{self.path} holds no texts: they are kept by sdem ingest --keep-text")
        return self.columns(shard, [name])[name]

    def vocabulary(self) -> list[str] | None:
        """Read the words in the order of their indices, or return None if the corpus has none (hashed words)."""
        folder, n_features = self.root / manifest.VOCABULARY, self.header.n_features
        if not self.header.has_vocabulary:
            return None
        try:
            offsets = arrays.read_array(folder / "offsets", (n_features + 1,), np.int64)
            encoded = arrays.read_array(folder / "bytes", (int(offsets[-1]),), np.uint8), offsets
            if manifest.vocabulary_hash(n_features, encoded) != self.header.vocabulary_hash:
                raise CorpusError(f"it {DAMAGED}")
            return decode_strings(*encoded)
        except ValueError as error:
            raise CorpusError(f"{self.path}: the vocabulary cannot be read: {error}") from error

    def document_frequency(self) -> np.ndarray:
        frequency = arrays.read_array(self.root / DOCUMENT_FREQUENCY, (self.header.n_features,), np.int64)
        if crc32c(frequency) != self.header.document_frequency_checksum:
            raise CorpusError(f"{self.path}: array {DOCUMENT_FREQUENCY!r} {DAMAGED}")
        return frequency


# To see whether a corpus at a URL has changed costs requests: tasks share what was opened while any of them uses it.
_urls: WeakValueDictionary[str, StoredCorpus] = WeakValueDictionary()


def stored_corpus(path: str, share: bool) -> StoredCorpus:
    """Open a corpus, or return what this process has opened already; at a URL only with `share`."""
    if not is_url(path):
        try:
            status = os.stat(os.path.join(path, "zarr.json"))
        except (OSError, ValueError):
            return _open.__wrapped__(path, ())  # which says what is wrong
        return _open(path, (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns))
    corpus = _urls.get(path) if share else None
    if corpus is None:
        corpus = _open.__wrapped__(path, ())
        if share:
            _urls[path] = corpus
    return corpus


@lru_cache(maxsize=32)  # a manifest may have megabytes, and many tasks open the same corpus
def _open(path: str, identity: tuple[int, ...]) -> StoredCorpus:
    """Open a corpus; `identity` changes when another replaces it."""
    advice, folder = "a corpus is a folder that sdem ingest or write_corpus made", Path(path)
    if is_url(path):
        pass
    elif not folder.exists():
        for backup in set_aside(folder)[-1:]:
            advice = f"a process died while it replaced it, and what was there is now {backup}: rename that"
        raise CorpusError(f"{path}: there is no such corpus; {advice}")
    elif not folder.is_dir():
        raise CorpusError(
            f"{path} is a file, perhaps a model or a source; {advice}: ingest a source first (sdem ingest; test documents with "
            "--vocabulary-from and the corpus of the training)"
        )
    elif not (folder / "zarr.json").exists():
        raise CorpusError(f"{path} is a folder, but no corpus; {advice}")
    root, attributes = open_contents(path)
    if MANIFEST not in attributes:
        raise CorpusError(f"{path}: not a corpus, or one whose writing was cut short: it has no manifest")
    return StoredCorpus(path, root, Header.from_json(attributes[MANIFEST], path))
