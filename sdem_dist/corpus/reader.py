"""Opening a corpus and reading its documents."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, overload
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import ArrayLike

from sdem_dist.byte_cache import shard_cache
from sdem_dist.corpus.dealing import groups_of_shards
from sdem_dist.corpus.document import StoredDocument, gathered, stored_document
from sdem_dist.corpus.folds import Folds, Masks, Part
from sdem_dist.corpus.layout import MANIFEST, Header
from sdem_dist.corpus.missing import check_folder
from sdem_dist.corpus.of_columns import read_column, read_document_frequency, read_vocabulary
from sdem_dist.corpus.shards import read_groups, read_ids, read_shard, read_texts
from sdem_dist.corpus.subsets import Which, chosen
from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.errors import CorpusError
from sdem_dist.storage.places import identity_of, is_url, place

if TYPE_CHECKING:
    from sdem_dist.storage.arrays import Group

# A manifest may have megabytes, and many tasks open the same corpus: a process parses it once and keeps it here.
_opened: dict[str, tuple[tuple[int, ...], Group, Header]] = {}
_MAX_OPENED = 32
SHARDS_AT_ONCE = 4  # of a corpus in a bucket, which answers late
# To see whether a corpus at a URL has changed costs requests: tasks share it while any of them uses it.
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
        identity = identity_of(self.path)
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
        from sdem_dist.storage.contents import open_contents

        if not is_url(self.path):
            check_folder(Path(self.path))
        group, attributes = open_contents(self.path)
        if MANIFEST not in attributes:
            raise CorpusError(f"{self.path}: not a corpus, or one whose writing was cut short: it has no manifest")
        return group, Header.from_json(attributes[MANIFEST], self.path)

    @property
    def cache_key(self) -> str:
        """A name for the content: equal names, equal documents."""
        return self.header.uid

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return self.header.n_documents

    def read(self, start: int, stop: int) -> Documents | DenseDocuments:
        """Read the documents `start` up to `stop`, in stored order.

        Parameters
        ----------
        start, stop : int
            Positions in the corpus, ``0 <= start <= stop <= n_documents``. Every shard that holds one of them is read
            whole, so ranges that follow the shards' borders waste nothing.

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

        def found(shard: int) -> Documents | DenseDocuments:
            base, size = int(starts[shard]), header.shards[shard].n_documents
            rows = slice(max(start - base, 0), min(stop - base, size))
            if rows == slice(0, size) and not far:
                return self.read_shard(shard)
            # its other documents are probably wanted next, and those of a bucket by the next stage
            whole = shard_cache.get((header.uid, shard), partial(self.read_shard, shard))
            return whole[rows]

        far = is_url(self.path)
        if far and last - first > 1:
            with ThreadPoolExecutor(SHARDS_AT_ONCE) as pool:
                parts = list(pool.map(found, range(first, last)))
        else:
            parts = [found(shard) for shard in range(first, last)]
        return type(parts[0]).concatenate(parts)  # type: ignore[arg-type]  # all are of one layout

    def read_shard(self, shard: int) -> Documents | DenseDocuments:
        """Read the documents of one shard; see `read`."""
        return read_shard(*self._place_of(shard))

    def place(self, document: int) -> str:
        """Return where the document at a stored position is, for people."""
        shard, row = self._at(document)
        return f"{self.path}: shard {self._stored(shard)}, its document {row}"

    def _at(self, document: int) -> tuple[int, int]:
        """Return the shard of the document at a stored position, and its place in it."""
        starts = self.header.shard_starts
        shard = int(np.searchsorted(starts, document, side="right")) - 1
        return shard, document - int(starts[shard])

    def labels(self) -> np.ndarray | None:
        """Read the labels of all documents and nothing else: int32 of shape (n_documents,), None without classes."""
        return self._column("labels", "int32") if self.header.classes else None

    @cached_property
    def weights(self) -> np.ndarray | None:
        """The weights of all documents, float64 of shape (n_documents,); None where there are none."""
        return self._column("weights", "float64") if self.header.has_weights else None

    def _column(self, name: str, kind: str) -> np.ndarray:
        return read_column(self._group, self.header, self._stored, self.path, name, kind)

    def ids(self, shard: int) -> np.ndarray | list[str]:
        """Read the ids of a shard's documents: int64 (by default their positions in the source), or strings."""
        return read_ids(*self._place_of(shard))

    def ids_of(self, start: int = 0, stop: int | None = None) -> list[object]:
        """Return the ids of documents `start` up to `stop`, by default of all, in the order of ``predict(corpus)``."""
        return self.ids_at(range(start, self.n_documents if stop is None else stop))

    def ids_at(self, documents: Iterable[int]) -> list[object]:
        """Return the ids of the documents at some stored positions, in the order asked for, see `ids`."""
        return [int(id_) if isinstance(id_, np.integer) else id_ for id_ in gathered(self.ids, self._at, documents)]

    def texts_at(self, documents: Iterable[int]) -> list[str]:
        """Return the texts of the documents at some stored positions, in the order asked for, see `texts`."""
        return gathered(self.texts, self._at, documents)

    @property
    def has_texts(self) -> bool:
        """Whether the texts of the documents were kept."""
        return all("texts_bytes" in shard.checksums for shard in self.header.shards)

    def texts(self, shard: int) -> list[str]:
        """Read the texts of a shard's documents; CorpusError where none were kept, or they are damaged."""
        return read_texts(*self._place_of(shard))

    @property
    def has_groups(self) -> bool:
        """Whether groups of documents were kept; folds keep each group together."""
        return all("groups" in shard.checksums for shard in self.header.shards)

    def groups(self, shard: int) -> np.ndarray:
        """Read what names the group of each of a shard's documents, a hash: uint64; raises as `texts`."""
        return read_groups(*self._place_of(shard))

    def all_groups(self) -> np.ndarray | None:
        """Read the groups of all documents, see `groups`; None where none were kept."""
        return groups_of_shards(self.header, self.groups)

    def text(self, document: int) -> str:
        """Return the text of the document at a stored position, see `texts`; its shard's are read whole."""
        return self.texts_at([self._position(document)])[0]

    def __len__(self) -> int:
        return self.n_documents

    def _repr_html_(self) -> str:
        from sdem_dist.reports.corpus import corpus_as_html

        return corpus_as_html(self.path, self.header, self.has_texts)

    @overload
    def __getitem__(self, document: int) -> StoredDocument: ...

    @overload
    def __getitem__(self, document: slice) -> list[StoredDocument]: ...

    def __getitem__(self, document: int | slice) -> StoredDocument | list[StoredDocument]:
        if isinstance(document, slice):
            return [self[place] for place in range(self.n_documents)[document]]
        document = self._position(document)
        return self._described(self.read(document, document + 1), self.ids_at([document])[0])

    def __iter__(self) -> Iterator[StoredDocument]:
        """Yield the documents in their stored order; each shard is read once."""
        for shard in range(len(self.header.shards)):
            documents, ids = self.read_shard(shard), self.ids(shard)
            for i, id_ in enumerate(ids if isinstance(ids, list) else ids.tolist()):
                yield self._described(documents[i : i + 1], id_)

    def _described(self, found: Documents | DenseDocuments, id_: object) -> StoredDocument:
        return stored_document(found, id_, self._words, self.header.classes)

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

    def _place_of(self, shard: int) -> tuple[Group, Header, int, str]:
        """Return where a shard is: root and manifest of its corpus, its number there, and the corpus's path."""
        return *self._parts, self._stored(shard), self.path

    def _stored(self, shard: int) -> int:
        """Return the number of a shard on disk."""
        if not 0 <= shard < len(self.header.shards):
            raise IndexError(f"shard {shard} is not among the {len(self.header.shards)} of {self.path}")
        return shard

    def vocabulary(self) -> list[str] | None:
        """Read the words in the order of their indices, or return None if the corpus has none (hashed words)."""
        return read_vocabulary(self._group, self.header, self.path)

    @property
    def weight(self) -> float:
        """Documents, by weight: without weights their number."""
        return float(self.n_documents if self.weights is None else self.weights.sum())

    @property
    def class_weights(self) -> tuple[float, ...]:
        """Documents of each class, by weight."""
        labels = None if self.weights is None else self.labels()
        if labels is None:
            return tuple(map(float, self.header.class_counts))
        assert self.weights is not None
        known = labels >= 0
        return tuple(np.bincount(labels[known], self.weights[known], len(self.header.classes)).tolist())

    def folds(self, k: int = 5, *, seed: int = 0, groups: ArrayLike | None = None) -> Folds:
        """Return `k` folds for cross-validation, see `Folds`: even in each class, by a hash of each document's place.

        Documents of one group, of `groups` in stored order or those that the corpus keeps, are in one fold.
        ``folds.train(i)`` trains any estimator without a fold, ``estimator.evaluate(folds.test(i))`` scores the fold.
        """
        return Folds(self, k, seed, groups=groups)

    def part(self, folds: Masks, number: int, inside: bool) -> Part:
        """Return a fold of this corpus, or the corpus without it, see `Folds`; or a subset."""
        return CorpusPart(folds, number, inside)

    def subset(self, which: Which) -> Part:
        """Return some documents, which train estimators and are evaluated and predicted like a corpus.

        All documents are read, and those outside have weight 0. Document frequencies are those of the whole corpus.

        Parameters
        ----------
        which : array-like of bool or int, or callable
            A mask of shape (n_documents,), positions, or a function of a document's label and id that says whether to
            take it. Labels are None where there are none.

        Returns
        -------
        Part

        Raises
        ------
        ValueError
            It names no document, one that is not there, or something else.

        Examples
        --------
        >>> import numpy as np
        >>> from tempfile import mkdtemp
        >>> from sdem_dist import MultinomialNB, write_corpus
        >>> corpus = write_corpus(mkdtemp() + "/c", np.eye(6, dtype=int), list("ababac"))
        >>> two = corpus.subset(lambda label, name: label != "c")
        >>> two.weight
        5.0
        """
        return self.part(chosen(self, which), 0, True)

    def bytes_on_disk(self) -> int:
        """Return the bytes of all files or objects."""
        from sdem_dist.storage.arrays import stored_bytes

        return stored_bytes(self.path)

    @cached_property
    def document_frequency(self) -> np.ndarray:
        """In how many documents each column of a sparse corpus occurs, int64 of shape (n_features,).

        CorpusError where the array is damaged, or the corpus is dense.
        """
        return read_document_frequency(self._group, self.header, self.path)


class CorpusPart(Part, Corpus):  # type: ignore[misc]  # what a part reads, it reads of the corpus it is of
    """Some documents of a corpus on disk, which estimators take like a corpus."""

    def __init__(self, folds: Masks, number: int, inside: bool) -> None:
        Part.__init__(self, folds, number, inside)
        assert isinstance(folds.corpus, Corpus)
        self.corpus, self.path = folds.corpus, folds.corpus.path

    part = Corpus.part

    def _place_of(self, shard: int) -> tuple[Group, Header, int, str]:
        return self.corpus._place_of(shard)


def _received(path: str) -> Corpus:
    """Return the corpus that another process pickled."""
    corpus = _received_urls.get(path)
    if corpus is None:
        corpus = Corpus(path)
        if identity_of(path) is None:
            _received_urls[path] = corpus
    return corpus
