"""What corpora on disk and in memory share: rows, subsets, weights, transforms of documents, and one `read`."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from sdem_dist.byte_cache import ByteCache
from sdem_dist.corpus.checks import document_frequency
from sdem_dist.corpus.folds import FoldMask, Folds, Selection
from sdem_dist.corpus.manifest import DENSE, ClassLabel, Header
from sdem_dist.documents import DenseDocuments, Documents

AnyDocuments: TypeAlias = Documents | DenseDocuments
Transform: TypeAlias = Callable[[AnyDocuments, int, int], AnyDocuments]
"""From the documents at positions ``start`` up to ``stop``, and these, to others; its ``repr`` names it."""
BLOCK = 1 << 15  # documents that are read at a time
_frequencies = ByteCache(512 << 20, oldest_leave=True)  # of subsets by their names: many tasks of a process use them


@dataclass(frozen=True)
class OfValues:
    """A transform of the values of tables: `function` makes as many rows of rows; its ``repr`` names it."""

    function: Callable[[np.ndarray], np.ndarray]

    def __call__(self, documents: AnyDocuments, start: int, stop: int) -> AnyDocuments:
        table = cast(DenseDocuments, documents)
        return replace(table, values=self.function(np.asarray(table.values, np.float64)))


class BaseCorpus(ABC):
    """Documents that are read by position, and what is stored of all of them.

    Subclasses say what is stored. Of that, a corpus has all documents or the `rows`; documents outside of one of the
    `subsets` have weight 0, so that ranges, lanes and random numbers are those of all; `transforms` change documents as
    they are read, in turn.
    """

    rows: np.ndarray | None = None  # shape (n_documents,), int64: stored positions of the documents, ascending
    subsets: tuple[Selection | FoldMask, ...] = ()
    transforms: tuple[Transform, ...] = ()
    weight_divisor: float = 1.0  # of stored weights
    _state: ClassVar[tuple[str, ...]] = ("rows", "subsets", "transforms", "weight_divisor")
    """What is sent to workers; all else is made again."""

    # What is stored.
    @property
    @abstractmethod
    def stored_header(self) -> Header: ...
    @abstractmethod
    def _key(self) -> str: ...
    @abstractmethod
    def _read(self, start: int, stop: int) -> AnyDocuments: ...
    @abstractmethod
    def _place(self, document: int) -> str: ...
    @abstractmethod
    def _array(self, name: str) -> np.ndarray | None:
        """Return the stored "labels", "weights" or "groups" of all documents; None where there are none."""

    @abstractmethod
    def _document_frequency(self) -> np.ndarray: ...
    @abstractmethod
    def vocabulary(self) -> list[str] | None:
        """Return the words in the order of their indices; None where columns have no names."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name in self._state}

    def _with(self, **changes: object) -> Self:
        copy = object.__new__(type(self))
        copy.__dict__.update({**self.__getstate__(), **changes})
        return copy

    def within(self, mask: Selection | FoldMask) -> Self:
        """Return the documents in a subset: all are read, and those outside have weight 0."""
        return self._with(subsets=(*self.subsets, mask))

    def transformed(self, transform: Transform) -> Self:
        """Return the documents as a function makes them, read by read."""
        return self._with(transforms=(*self.transforms, transform))

    def relative(self) -> Self:
        """Return the documents with weights whose mean is 1, among those above 0: as they are where none have any."""
        weights = None if self.weights is None else self.weights[self.weights > 0]
        if weights is None or not len(weights):
            return self
        mean = float(weights[0] if np.ptp(weights) == 0 else weights.mean())  # exact where all are alike
        return self if np.ptp(weights) == 0 == mean - 1 else self._with(weight_divisor=self.weight_divisor * mean)

    def labelled(self) -> Self:
        """Return the documents that have a label, of a subset those inside, numbered from 0."""
        labels, mask = self.labels(), self.mask
        inside = np.zeros(0, bool) if labels is None else (labels >= 0) & (True if mask is None else mask)
        rows = np.flatnonzero(inside)
        return self._with(rows=rows if self.rows is None else self.rows[rows], subsets=())

    @property
    def name(self) -> str:
        """What tells these documents from all that are stored: empty where they are all."""
        parts = [] if self.rows is None else [f"rows {hashlib.sha256(self.rows.tobytes()).hexdigest()}"]
        parts += [] if self.weight_divisor == 1.0 else [f"weights / {self.weight_divisor!r}"]
        return " ".join([*parts, *(f"part {mask.name}" for mask in self.subsets), *map(repr, self.transforms)])

    @property
    def _titles(self) -> str:
        return "".join(f"{mask.title} of " for mask in reversed(self.subsets))

    @cached_property
    def cache_key(self) -> str:
        """A name for the content: equal names, equal documents."""
        return f"{self._key()} {self.name}".rstrip()

    @cached_property
    def header(self) -> Header:
        """The manifest: counts, classes, shards, identity; of some documents with their counts and an own identity."""
        header = self.stored_header
        if self.rows is None and not self.subsets:
            return header
        labels, counts = self.labels(), list[int]()
        if labels is not None:
            inside = labels[(labels >= 0) & (True if self.mask is None else self.mask)]
            counts = np.bincount(inside, minlength=len(header.classes)).tolist()
        changed = replace(header, n_documents=self.n_documents, class_counts=tuple(counts))
        changed.__dict__["uid"] = hashlib.sha256(f"{header.uid} {self.name}".encode()).hexdigest()
        return changed

    @property
    def n_documents(self) -> int:
        return self.stored_header.n_documents if self.rows is None else len(self.rows)

    def read(self, start: int, stop: int) -> AnyDocuments:
        """Return documents, in stored order.

        On disk every shard that holds one of them is read as a piece, so ranges that follow the shards' borders waste
        nothing. What is returned is not to be changed: arrays may be views. Without classes ``labels`` is None.

        Raises CorpusError: a shard is damaged; the message names it and the array.
        Raises IndexError: not ``0 <= start <= stop <= n_documents``.
        """
        if not 0 <= start <= stop <= self.n_documents:
            raise IndexError(f"documents {start} to {stop} are not within the {self.n_documents} of {self!r}")
        if self.rows is None:
            documents = self._read(start, stop)
        else:
            rows = self.rows[start:stop]
            parts = [] if len(rows) else [self._read(0, 0)]
            for first in range(int(rows[0]), int(rows[-1]) + 1, BLOCK) if len(rows) else ():
                last = min(first + BLOCK, self.stored_header.n_documents)
                inside = rows[np.searchsorted(rows, first) : np.searchsorted(rows, last)] - first
                if len(inside):
                    parts.append(self._read(first, last).taken(inside))
            documents = type(parts[0]).concatenate(parts)  # type: ignore[arg-type]  # all are of one layout
        if self.weight_divisor != 1.0 and documents.weights is not None:
            documents = replace(documents, weights=documents.weights / self.weight_divisor)
        if self.subsets:
            weights = np.ones(stop - start) if documents.weights is None else documents.weights
            documents = replace(documents, weights=np.where(self._mask(start, stop), weights, 0.0))
        for transform in self.transforms:
            documents = transform(documents, start, stop)
        return documents

    def _mask(self, start: int, stop: int) -> np.ndarray:
        return np.logical_and.reduce([mask.mask(start, stop) for mask in self.subsets])

    @property
    def mask(self) -> np.ndarray | None:
        """Which documents are in the subset, bool of shape (n_documents,); None: all are."""
        return self._mask(0, self.n_documents) if self.subsets else None

    def place(self, document: int) -> str:
        """Return where the document at a position is, for people."""
        return self._place(document if self.rows is None else int(self.rows[document]))

    def _column(self, name: str) -> np.ndarray | None:
        stored = self._array(name)
        return stored if stored is None or self.rows is None else stored[self.rows]

    def labels(self) -> np.ndarray | None:
        """Read the labels of all documents and nothing else: int32 of shape (n_documents,), None without classes."""
        return self._column("labels")

    def all_groups(self) -> np.ndarray | None:
        """Read a hash of the group of each document, uint64 of shape (n_documents,); None where none are stored."""
        return self._column("groups")

    @cached_property
    def weights(self) -> np.ndarray | None:
        """The weights of all documents, float64 of shape (n_documents,); None: all are 1."""
        weights, mask = self._column("weights"), self.mask
        weights = weights if weights is None or self.weight_divisor == 1.0 else weights / self.weight_divisor
        return weights if mask is None else np.where(mask, 1.0 if weights is None else weights, 0.0)

    @property
    def weight(self) -> float:
        return float(self.n_documents if self.weights is None else self.weights.sum())

    @property
    def class_weights(self) -> tuple[float, ...]:
        """Documents of each class, by weight."""
        labels = None if self.weights is None else self.labels()
        if labels is None:
            return tuple(map(float, self.header.class_counts))
        labelled, weights = labels >= 0, cast(np.ndarray, self.weights)
        return tuple(np.bincount(labels[labelled], weights[labelled], len(self.header.classes)).tolist())

    @cached_property
    def document_frequency(self) -> np.ndarray:
        """In how many documents each column of a sparse corpus occurs, int64 of shape (n_features,).

        Those of a subset count its documents of a weight above 0 alone. CorpusError where the array is damaged, or the
        corpus is dense.
        """
        if (self.rows is None and not self.subsets) or self.stored_header.layout == DENSE:
            return self._document_frequency()

        def count() -> np.ndarray:
            counts = np.zeros(self.stored_header.n_features, np.int64)
            for start in range(0, self.n_documents, BLOCK):
                block = cast(Documents, self.read(start, min(start + BLOCK, self.n_documents)))
                if self.subsets:
                    block = block.taken(np.flatnonzero(cast(np.ndarray, block.weights)))
                counts += document_frequency(block.indices, block.data, block.n_features)
            return counts

        return _frequencies.get((self.cache_key,), count)

    def folds(self, k: int = 5, *, seed: int = 0, groups: ArrayLike | None = None) -> Folds[Self]:
        """Return `k` folds for cross-validation, see `Folds`: even in each class, by a hash of each document's place.

        Documents of one group, of `groups` in stored order or those that the corpus stores, are in one fold.
        ``folds.train(i)`` trains any estimator without a fold, ``estimator.evaluate(folds.test(i))`` scores the fold.
        """
        return Folds(self, k, seed, groups=groups)

    def ids_of(self, start: int = 0, stop: int | None = None) -> list[Any]:
        """Return the ids of documents `start` up to `stop`, by default of all, in the order of ``predict(corpus)``."""
        return self.ids_at(range(start, self.n_documents if stop is None else stop))

    def ids_at(self, documents: Iterable[int]) -> list[Any]:
        return list(documents)

    def subset(self, which: ArrayLike | Callable[[ClassLabel | None, int | str], bool]) -> Self:
        """Return some documents, which train estimators and are evaluated and predicted like a corpus.

        All documents are read, and those outside have weight 0. Document frequencies are of the chosen documents alone.

        `which`: a mask of shape (n_documents,), positions, or a function of a document's label, None where there is
        none, and id that says whether it is inside.
        Raises ValueError: it names no document, one that is not there, or something else.

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
        n, classes, labels = self.n_documents, self.header.classes, self.labels()
        mask = np.zeros(n, bool)
        if callable(which):
            positions = [-1] * n if labels is None else labels.tolist()
            pairs = zip(positions, self.ids_of(), strict=True)
            mask[:] = [bool(which(None if k < 0 else cast(ClassLabel, classes[k]), name)) for k, name in pairs]
        else:
            places = np.asarray(which)
            if places.dtype == bool and places.shape == (n,):
                mask[:] = places
            elif places.ndim == 1 and places.dtype.kind in "iu" and (places < n).all() and (places >= 0).all():
                mask[places] = True
            else:
                raise ValueError(
                    f"which must be a mask of {n:,} booleans, positions from 0 to {n - 1:,}, or a function of label and id; "
                    f"got {places.dtype} of shape {places.shape}"
                )
        mask &= True if self.mask is None else self.mask
        if not mask.any():
            raise ValueError("the subset has no document")
        return self.within(Selection.of(mask))
