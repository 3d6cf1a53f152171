"""Opening a corpus and reading its documents."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, cast
from weakref import WeakValueDictionary

import numpy as np

from sdem_dist.byte_cache import shard_cache
from sdem_dist.corpus.document import StoredDocument
from sdem_dist.corpus.layout import DOCUMENT_FREQUENCY, MANIFEST, VOCABULARY, Header, vocabulary_hash
from sdem_dist.corpus.shards import read_ids, read_shard, read_texts
from sdem_dist.documents import DenseDocuments
from sdem_dist.errors import CorpusError
from sdem_dist.storage.places import is_url, place
from sdem_dist.storage.publish import set_aside

if TYPE_CHECKING:
    from sdem_dist.corpus.folds import Folds
    from sdem_dist.documents import Documents
    from sdem_dist.storage.arrays import Group

# Manifests of large corpora are megabytes, and tasks that open a corpus many: each is parsed and kept once in a process.
# zarr's group has it too, among its attributes.
_opened: dict[str, tuple[tuple[int, ...], Group, Header]] = {}
_MAX_OPENED = 32
CLASSES_SHOWN = 20
"""In a notebook, the largest first."""
# Of what lies behind a URL it cannot be told cheaply whether it is still the same: tasks share it while any is alive.
_received_urls: WeakValueDictionary[str, Corpus] = WeakValueDictionary()


def open_corpus(path: str | Path) -> Corpus:
    """Open a corpus.

    Parameters
    ----------
    path : str or Path
        A directory, or a URL such as ``s3://bucket/corpus``.

    Returns
    -------
    Corpus

    Raises
    ------
    CorpusError
        There is no complete corpus, its manifest is damaged, or it was made by a newer format.
    BucketError
        The bucket is not there, or refuses.
    """
    corpus = Corpus(path)
    corpus.header  # noqa: B018  a wrong path is noticed here, not in the middle of training
    return corpus


class Corpus:
    """A corpus on disk. Holds its path only until something is read; pickles as its path.

    Parameters
    ----------
    path : str or Path
        A directory, or a URL.

    Attributes
    ----------
    path : str
        The absolute path, or the URL.
    """

    def __init__(self, path: str | Path) -> None:
        self.path: str = str(place(path)) if is_url(path) else os.path.abspath(path)

    def __reduce__(self) -> tuple[Callable[..., Corpus], tuple[object, ...]]:
        return _received, (self.path,)

    def __repr__(self) -> str:
        return f"Corpus({self.path!r})"

    @property
    def header(self) -> Header:
        """The manifest: counts, classes, shards, identity."""
        return self._parts[1]

    @property
    def _group(self) -> Group:
        return self._parts[0]

    @cached_property
    def _parts(self) -> tuple[Group, Header]:
        identity = _identity(self.path)
        if identity is None:
            return self._open()
        known = _opened.get(self.path)
        if known is None or known[0] != identity:
            known = identity, *self._open()
            while len(_opened) >= _MAX_OPENED:
                _opened.pop(next(iter(_opened)), None)
            _opened[self.path] = known
        return known[1:]

    def _open(self) -> tuple[Group, Header]:
        from sdem_dist.storage.arrays import get_attributes, open_group
        from sdem_dist.storage.contents import contents_of

        if not is_url(self.path):
            self._check_folder()
        group = open_group(self.path)
        attributes = get_attributes(group)
        while (contents := contents_of(attributes)) is not None and MANIFEST not in attributes:
            try:
                group = open_group(f"{self.path}/{contents}")
                attributes = get_attributes(group)
            except CorpusError:
                attributes = get_attributes(open_group(self.path))
                if contents_of(attributes) == contents:  # they were not replaced in this moment
                    raise
        if MANIFEST not in attributes:
            raise CorpusError(f"{self.path}: not a corpus, or one whose writing was cut short: it has no manifest")
        return group, Header.from_json(attributes[MANIFEST], self.path)

    def _check_folder(self) -> None:
        """Say what is at the path where that cannot be a corpus."""
        made = "a corpus is a folder that sdem ingest or write_corpus made"
        path = Path(self.path)
        if not path.exists():
            for kept in set_aside(path)[-1:]:
                made = f"a process died while it replaced it, and what was there is now {kept}: rename that"
            raise CorpusError(f"{path}: there is no such corpus; {made}")
        if not path.is_dir():
            raise CorpusError(
                f"{path} is a file, perhaps a model or a source; {made}: ingest a source first (sdem ingest; test documents with "
                "--vocabulary-from and the corpus of the training)"
            )
        if not (path / "zarr.json").exists():
            raise CorpusError(f"{path} is a folder, but no corpus; {made}")

    @property
    def cache_key(self) -> str:
        """A name for the content: equal names, equal documents."""
        return self.header.uid

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return self.header.n_documents

    def read(self, start: int, stop: int, *, verify: bool = True) -> Documents | DenseDocuments:
        """Read the documents `start` up to `stop`, in stored order.

        Parameters
        ----------
        start, stop : int
            Positions in the corpus, ``0 <= start <= stop <= n_documents``. Every shard that holds one of them is read
            whole, so ranges that follow the shards' borders waste nothing.
        verify : bool, default True
            Check checksums and values too, not only shapes and dtypes. Leave out only what this process has verified.

        Returns
        -------
        Documents, or DenseDocuments
            By the corpus's layout. Not to be changed: arrays may be views of a shard kept in `shard_cache`. ``labels``
            is None if the corpus has no classes.

        Raises
        ------
        CorpusError
            A shard is damaged; the message names it and the array.
        IndexError
            The range is not within the corpus.
        """
        header = self.header
        if not 0 <= start <= stop <= header.n_documents:
            raise IndexError(f"documents {start} to {stop} are not within the {header.n_documents} of {self.path}")
        starts = header.shard_starts
        first = int(np.searchsorted(starts, start, side="right")) - 1
        first = min(first, len(header.shards) - 1)
        last = max(int(np.searchsorted(starts, stop, side="left")), first + 1)
        parts = []
        for shard in range(first, last):
            base, size = int(starts[shard]), header.shards[shard].n_documents
            rows = slice(max(start - base, 0), min(stop - base, size))
            if rows == slice(0, size):
                parts.append(self.read_shard(shard, verify=verify))
            else:  # its other documents are probably wanted next
                read = partial(self.read_shard, shard, verify=verify)
                whole = shard_cache.get((header.uid, shard, verify), read)
                parts.append(whole[rows])
        return type(parts[0]).concatenate(parts)  # type: ignore[arg-type]  # all are of one layout

    def read_shard(self, shard: int, *, verify: bool = True) -> Documents | DenseDocuments:
        """Read the documents of one shard; see `read`."""
        return read_shard(*self._parts, self._stored(shard), self.path, verify)

    def place(self, document: int) -> str:
        """Return where the document at a stored position is, for people."""
        shard = int(np.searchsorted(self.header.shard_starts, document, side="right")) - 1
        return (
            f"{self.path}: shard {self._stored(shard)}, its document {document - int(self.header.shard_starts[shard])}"
        )

    def ids(self, shard: int) -> np.ndarray | list[str]:
        """Read the ids of a shard's documents: int64 (by default their positions in the source), or strings."""
        return read_ids(*self._parts, self._stored(shard), self.path)

    def ids_of(self, start: int, stop: int) -> list[object]:
        """Return the ids of the documents `start` up to `stop`, see `ids`."""
        starts = self.header.shard_starts
        first, last = np.searchsorted(starts, [start, stop - 1], side="right") - 1
        found = [id_ for shard in range(int(first), int(last) + 1) for id_ in list(self.ids(shard))]
        base = int(starts[first])
        return [id_ if isinstance(id_, str) else int(id_) for id_ in found[start - base : stop - base]]

    @property
    def has_texts(self) -> bool:
        """Whether the texts of the documents were kept."""
        return "texts_bytes" in self.header.shards[0].checksums

    def texts(self, shard: int) -> list[str]:
        """Read the texts of a shard's documents.

        Raises
        ------
        CorpusError
            None were kept, or they are damaged.
        """
        return read_texts(*self._parts, self._stored(shard), self.path)

    def text(self, document: int) -> str:
        """Return the text of the document at a stored position, see `texts`; its shard's are read whole."""
        document = self._position(document)
        shard = int(np.searchsorted(self.header.shard_starts, document, side="right")) - 1
        return self.texts(shard)[document - int(self.header.shard_starts[shard])]

    def __len__(self) -> int:
        return self.n_documents

    def _repr_html_(self) -> str:
        from sdem_dist.reports.html import cell, html_table

        header = self.header
        sizes = sorted(zip(header.class_counts, map(str, header.classes), strict=True), key=lambda pair: -pair[0])
        more = f" and {len(sizes) - CLASSES_SHOWN} more" if len(sizes) > CLASSES_SHOWN else ""
        classes = ", ".join(f"{name} {n:,}" for n, name in sizes[:CLASSES_SHOWN]) + more
        rows = [
            ("documents", f"{header.n_documents:,}"),
            ("features", f"{header.n_features:,}"),
            *([("classes", classes)] if sizes else []),
            *([("targets", f"{header.n_targets}")] if header.n_targets else []),
            (
                "layout",
                f"{header.layout}, {header.n_nonzeros:,} {'values' if header.layout == 'dense' else 'nonzeros'}",
            ),
            ("texts", "kept" if self.has_texts else "not kept"),
        ]
        return f"<p>Corpus {cell(self.path)}</p>{html_table(('', ''), rows, left=2)}"

    def __getitem__(self, document: int) -> StoredDocument:
        document = self._position(document)
        return self._described(self.read(document, document + 1), self.ids_of(document, document + 1)[0])

    def __iter__(self) -> Iterator[StoredDocument]:
        """Yield the documents in their stored order; each shard is read once."""
        for shard in range(len(self.header.shards)):
            documents, ids = self.read_shard(shard), self.ids(shard)
            for i, id_ in enumerate(ids if isinstance(ids, list) else ids.tolist()):
                yield self._described(documents[i : i + 1], id_)

    def _described(self, found: Documents | DenseDocuments, id_: object) -> StoredDocument:
        """Return one document with names."""
        words = self._words
        if isinstance(found, DenseDocuments):
            entries = list(enumerate(found.values[0].tolist()))
        else:
            entries = sorted(zip(found.indices.tolist(), found.data.tolist(), strict=True), key=lambda e: (-e[1], e[0]))
        label = None if found.labels is None or found.labels[0] < 0 else self.header.classes[int(found.labels[0])]
        targets = getattr(found, "targets", None)
        return StoredDocument(
            {i if words is None else words[i]: count for i, count in entries},
            cast("int | str", id_),
            label,
            () if targets is None else tuple(targets[0].tolist()),
        )

    @cached_property
    def _words(self) -> list[str] | None:
        return self.vocabulary()

    def _position(self, document: int) -> int:
        """Return a document's position, counted from the end if it is negative."""
        try:
            return range(self.n_documents)[operator.index(document)]
        except TypeError:
            raise TypeError(
                f"a document has an integer for its position, not {document!r}: read(start, stop) reads several"
            ) from None
        except IndexError:
            raise IndexError(f"document {document} is not among the {self.n_documents} of {self.path}") from None

    def _stored(self, shard: int) -> int:
        """Return the number of a shard on disk."""
        if not 0 <= shard < len(self.header.shards):
            raise IndexError(f"shard {shard} is not among the {len(self.header.shards)} of {self.path}")
        return shard

    def vocabulary(self) -> list[str] | None:
        """Read the words in the order of their indices, or return None if the corpus has none (hashed words)."""
        from sdem_dist.storage import arrays
        from sdem_dist.storage.strings import decode_strings

        header = self.header
        if not header.has_vocabulary:
            return None
        try:
            offsets = arrays.read_array(self._group, f"{VOCABULARY}/offsets", shape=(header.n_features + 1,))
            encoded = arrays.read_array(self._group, f"{VOCABULARY}/bytes", shape=(int(offsets[-1]),)), offsets
            if vocabulary_hash(header.n_features, encoded) != header.vocabulary_hash:
                raise CorpusError("it does not match the manifest's vocabulary_hash: a file is damaged or missing")
            return decode_strings(*encoded)
        except ValueError as error:
            raise CorpusError(f"{self.path}: the vocabulary cannot be read: {error}") from error

    @property
    def weight(self) -> float:
        """Documents, by weight: their number."""
        return float(self.n_documents)

    def folds(self, k: int = 5, *, seed: int = 0) -> Folds:
        """Return `k` folds for cross-validation, see `Folds`: even in each class, by a hash of each document's place.

        ``folds.train(i)`` trains any estimator without a fold, ``estimator.evaluate(folds.test(i))`` scores the fold.
        """
        from sdem_dist.corpus.folds import Folds

        return Folds(self, k, seed)

    def bytes_on_disk(self) -> int:
        """Return the bytes of all files or objects."""
        from sdem_dist.storage.arrays import stored_bytes

        return stored_bytes(self.path)

    @cached_property
    def document_frequency(self) -> np.ndarray:
        """In how many documents each column of a sparse corpus occurs, int64 of shape (n_features,).

        Raises
        ------
        CorpusError
            The array is damaged, or the corpus is dense.
        """
        from sdem_dist.storage.arrays import read_array
        from sdem_dist.storage.checksum import crc32c

        header = self.header
        if header.document_frequency_checksum is None:
            raise CorpusError(f"{self.path} is dense: its columns have no document frequencies")
        try:
            found = read_array(self._group, DOCUMENT_FREQUENCY, shape=(header.n_features,))
        except CorpusError as error:
            raise CorpusError(f"{self.path}: {error}") from error
        if found.dtype != np.int64 or crc32c(found) != header.document_frequency_checksum:
            raise CorpusError(
                f"{self.path}: array {DOCUMENT_FREQUENCY!r} does not match its checksum: a file is damaged or missing"
            )
        return found


def _received(path: str) -> Corpus:
    """Return the corpus that another process pickled."""
    corpus = _received_urls.get(path)
    if corpus is None:
        corpus = Corpus(path)
        if _identity(path) is None:
            _received_urls[path] = corpus
    return corpus


def _identity(path: str) -> tuple[int, ...] | None:
    """What changes when another corpus takes the place of this one; None if that cannot be told cheaply."""
    try:
        status = os.stat(os.path.join(path, "zarr.json"))
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
