"""Base of all corpora: reading by position, selected rows, subsets, weights and transforms; the corpus in memory."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import count
from typing import Any, ClassVar, Self, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from sdem_dist.corpus import manifest
from sdem_dist.corpus.folds import Folds
from sdem_dist.corpus.manifest import DENSE, SPARSE, ClassLabel, Header, LabelSet, ShardInfo, vocabulary_hash
from sdem_dist.documents import ByteCache, DenseDocuments, Documents, concatenate
from sdem_dist.errors import CorpusError
from sdem_dist.storage.encoding import crc32c

AnyDocuments: TypeAlias = Documents | DenseDocuments
Transform: TypeAlias = Callable[[AnyDocuments, int, int], AnyDocuments]
"""Maps documents and their positions ``start`` and ``stop`` to new documents; its ``repr`` is its cache key."""
BLOCK = 1 << 15  # documents per read, for counting and for selecting rows
BATCH_DOCUMENTS = 16_384  # largest number of documents per read, for scoring
BATCH_ENTRIES = 1 << 22  # approximate largest number of entries per read, for scoring long documents
_numbers: Iterator[int] = count()
ARRAYS = ("data", "indices", "indptr", "values", "labels", "weights", "targets")
_frequencies = ByteCache(512 << 20, oldest_leave=True)  # of subsets, by cache key: the tasks of a process share them


class BaseCorpus(ABC):
    """Documents that are read by position. Subclasses implement the storage."""

    rows: np.ndarray | None = None  # stored positions of the documents, int64, ascending; None: all
    packed_mask: np.ndarray | None = None  # mask of the subset, 8 documents per byte; None: all documents
    """Documents outside the subset have weight 0, so that ranges, lanes and random numbers do not change."""
    title: str = ""  # description of the subset, for messages
    transforms: tuple[Transform, ...] = ()  # applied in this order
    weight_divisor: float = 1.0  # stored weights are divided by this
    _state: ClassVar[tuple[str, ...]] = ("rows", "packed_mask", "title", "transforms", "weight_divisor")
    """Attributes that are sent to workers; others are computed again."""

    _key: Callable[[], str]
    _read: Callable[[int, int], AnyDocuments]
    _place: Callable[[int], str]
    _array: Callable[[str], np.ndarray | None]
    """Return the stored "labels", "weights" or "groups" of all documents; None if they are not stored."""

    @property
    @abstractmethod
    def stored_header(self) -> Header: ...

    def vocabulary(self) -> list[str] | None:
        """Return the words in the order of their indices; None if columns have no names."""
        return None

    def _document_frequency(self) -> np.ndarray | None:
        return None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name in self._state}

    def _with(self, **changes: object) -> Self:
        copy = object.__new__(type(self))
        opened = {"_sources": vars(self)["_sources"]} if "_sources" in vars(self) else {}  # saves requests
        vars(copy).update({**self.__getstate__(), **opened, **changes})
        return copy

    def within(self, mask: np.ndarray, title: str = "") -> Self:
        """Return a subset: all documents are read, and those outside `mask` have weight 0."""
        title = title or f"a subset of {np.count_nonzero(mask)} documents"
        inside = mask if self.mask is None else mask & self.mask
        return self._with(packed_mask=np.packbits(inside), title=f"{title} of {self.title}")

    def transformed(self, transform: Transform) -> Self:
        """Return a corpus whose documents are transformed by a function after each read."""
        return self._with(transforms=(*self.transforms, transform))

    def relative(self) -> Self:
        """Return the corpus with weights divided by the mean of the positive weights."""
        weights = None if self.weights is None else self.weights[self.weights > 0]
        if weights is None or not len(weights):
            return self
        mean = float(weights[0] if np.ptp(weights) == 0 else weights.mean())  # exact if all are equal
        return self if (weights == 1).all() else self._with(weight_divisor=self.weight_divisor * mean)

    def labelled(self) -> Self:
        """Return the labelled documents (of a subset, only those inside); their positions start at 0."""
        labels, mask = self.labels(), self.mask
        inside = np.zeros(0, bool) if labels is None else (labels >= 0) & (True if mask is None else mask)
        rows = np.flatnonzero(inside)
        return self._with(rows=rows if self.rows is None else self.rows[rows], packed_mask=None, title="")

    @property
    def name(self) -> str:
        """Key of the selection of documents and their changes; empty for the stored documents."""
        views = {"rows": self.rows, "subset": self.packed_mask}
        parts = [f"{n} {hashlib.sha256(v.tobytes()).hexdigest()}" for n, v in views.items() if v is not None]
        parts += [] if self.weight_divisor == 1.0 else [f"weights / {self.weight_divisor!r}"]
        return " ".join([*parts, *map(repr, self.transforms)])

    @cached_property
    def cache_key(self) -> str:
        """Key of the content: corpora with equal keys have equal documents."""
        return f"{self._key()} {self.name}".rstrip()

    @cached_property
    def header(self) -> Header:
        """The manifest: counts, classes, shards, uid; a selection of documents has its own counts and uid."""
        header = self.stored_header
        if self.rows is None and self.packed_mask is None:
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
        """Return documents in stored order, without labels if there are no classes. Do not modify the arrays.

        On disk, every shard that overlaps the range is read completely, so ranges should follow shard boundaries.

        Raises CorpusError: a shard is damaged; the message names the shard and the array.
        Raises IndexError: not ``0 <= start <= stop <= n_documents``.
        """
        if not 0 <= start <= stop <= self.n_documents:
            raise IndexError(f"documents {start} to {stop} are out of range: {self!r} has {self.n_documents} documents")
        if self.rows is None:
            documents = self._read(start, stop)
        else:
            rows = self.rows[start:stop]
            parts = [] if len(rows) else [self._read(0, 0)]
            for first in np.unique(rows // BLOCK * BLOCK).tolist():
                last = min(first + BLOCK, self.stored_header.n_documents)
                inside = rows[np.searchsorted(rows, first) : np.searchsorted(rows, last)] - first
                parts.append(self._read(first, last)[inside])
            documents = concatenate(parts)
        if self.weight_divisor != 1.0 and documents.weights is not None:
            documents = replace(documents, weights=documents.weights / self.weight_divisor)
        if self.packed_mask is not None:
            weights = np.ones(stop - start) if documents.weights is None else documents.weights
            inside = np.unpackbits(self.packed_mask[start // 8 : -(-stop // 8)])[start % 8 :][: stop - start]
            documents = replace(documents, weights=np.where(inside, weights, 0.0))
        for transform in self.transforms:
            documents = transform(documents, start, stop)
        return documents

    @property
    def mask(self) -> np.ndarray | None:
        """Mask of the subset, bool of shape (n_documents,); None: all documents."""
        packed = self.packed_mask
        return None if packed is None else np.unpackbits(packed, count=self.n_documents).view(bool)

    def place(self, document: int) -> str:
        """Return a description of where a document is stored, for messages."""
        return self._place(document if self.rows is None else int(self.rows[document]))

    def _column(self, name: str) -> np.ndarray | None:
        stored = self._array(name)
        return stored if stored is None or self.rows is None else stored[self.rows]

    def labels(self) -> np.ndarray | None:
        """Read only the labels of all documents: int32 of shape (n_documents,), None without classes."""
        return self._column("labels")

    def all_groups(self) -> np.ndarray | None:
        """Read a hash of each document's group, uint64 of shape (n_documents,); None if there are no groups."""
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
        """Total weight of the documents in each class."""
        labels = None if (weights := self.weights) is None else self.labels()  # not needed without weights
        if weights is None or labels is None:
            return tuple(map(float, self.header.class_counts))
        return tuple(np.bincount(labels[labels >= 0], weights[labels >= 0], len(self.header.classes)).tolist())

    @cached_property
    def document_frequency(self) -> np.ndarray:
        """Number of documents (of weight > 0 in a subset) in which each column of a sparse corpus occurs, int64."""
        if self.stored_header.layout == DENSE:
            raise CorpusError(f"{self!r} is dense: its columns have no document frequencies")
        all_are_in = self.rows is None and self.packed_mask is None
        stored = self._document_frequency() if all_are_in else None

        def count_documents() -> np.ndarray:
            counts = np.zeros(self.stored_header.n_features, np.int64)
            for start in range(0, self.n_documents, BLOCK):
                stop = min(start + BLOCK, self.n_documents)
                block = cast(Documents, self._read(start, stop) if all_are_in else self.read(start, stop))
                if self.packed_mask is not None:
                    block = block[np.flatnonzero(cast(np.ndarray, block.weights))]
                indices = block.indices if block.data.all() else block.indices[block.data != 0]
                counts += np.bincount(indices, minlength=len(counts))
            return counts

        return _frequencies.get((self.cache_key,), count_documents) if stored is None else stored

    def folds(self, k: int = 5, *, seed: int = 0, groups: ArrayLike | None = None) -> Folds[Self]:
        """Return `k` folds for cross-validation, stratified by class, by a hash of document positions; see `Folds`.

        Train an estimator on ``folds.train(i)``, and score it with ``estimator.evaluate(folds.test(i))``.
        """
        return Folds(self, k, seed, groups=groups)

    def ranges(self, most: int = BATCH_DOCUMENTS) -> list[tuple[int, int]]:
        """Return the ranges (start, stop) of documents for consecutive reads.

        `most`: largest number of documents per range; ranges of long documents are shorter.
        """
        n, entries = self.n_documents, self.header.n_nonzeros
        step = max(1, min(BATCH_DOCUMENTS, most, BATCH_ENTRIES * n // max(1, entries)))
        return [(start, min(start + step, n)) for start in range(0, n, step)]

    def rows_at(self, positions: np.ndarray) -> Documents | DenseDocuments | None:
        """Return documents in the order of `positions`, reading every shard once; None without positions."""
        order, parts = np.argsort(positions, kind="stable"), list[Any]()
        ascending = positions[order]
        for start, stop in self.ranges() if len(positions) else ():
            documents = self.read(start, stop)
            first, end = np.searchsorted(ascending, (start, start + documents.n_documents))
            parts += [documents[ascending[first:end] - start]] if first < end else []
        return concatenate(parts)[np.argsort(order, kind="stable")] if parts else None

    @property
    def least_documents(self) -> int:
        """Least number of documents of a word in a subset, by the settings of text (`min_df`); 1 without a subset."""
        least: Any = (self.header.vectorizer or {}).get("min_df", 1)
        return least if self.mask is not None and isinstance(least, int) else 1

    def ids_of(self, start: int = 0, stop: int | None = None) -> list[Any]:
        """Return the IDs of the documents `start` to `stop` (default: all), in the order of ``predict(corpus)``."""
        return self.ids_at(range(start, self.n_documents if stop is None else stop))

    def ids_at(self, documents: Iterable[int]) -> list[Any]:
        return list(documents)

    def subset(self, which: ArrayLike | Callable[[ClassLabel | None, int | str], bool]) -> Self:
        """Return a subset as a corpus: all documents are read, and those outside have weight 0.

        `which`: a mask of shape (n_documents,), positions, or a function that returns whether a document is inside,
        from its label (None if there is none) and ID.
        Raises ValueError: it selects no documents, or is invalid.

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
        if callable(which):
            positions = [-1] * n if labels is None else labels.tolist()
            pairs = zip(positions, self.ids_of(), strict=True)
            which = np.array([bool(which(None if k < 0 else cast(ClassLabel, classes[k]), name)) for k, name in pairs])
        places = np.asarray(which)
        is_mask = places.dtype == bool and places.shape == (n,)
        if not is_mask and not (
            places.ndim == 1 and places.dtype.kind in "iu" and ((places >= 0) & (places < n)).all()
        ):
            raise ValueError(
                f"which must be a mask of {n:,} booleans, positions from 0 to {n - 1:,}, or a function of label and id; "
                f"got an array of {places.dtype} of shape {places.shape}"
            )
        mask = np.zeros(n, bool)
        mask[places] = True
        mask &= True if self.mask is None else self.mask
        if not mask.any():
            raise ValueError("the subset has no documents")
        return self.within(mask)


class MemoryCorpus(BaseCorpus):
    """Documents in a matrix or table, with the reading interface of `Corpus`.

    `X`: shape (n_documents, n_features): nonnegative counts or weights; with `dense`, a table, with NaN for missing
    values. `y_positions`: shape (n_documents,): positions in `classes`, which may be empty; -1 if unknown. `targets`:
    shape (n_documents, n_targets): real numbers to predict, with a sparse matrix. `rows`: ascending rows of `X` to use
    as documents; default: all. `shuffle`: permute the documents once. Raises CorpusError: there are no documents,
    lengths differ, or a corpus does not allow an entry.
    """

    _state = ("_documents", "_classes", "order", "n_rows", "_number", *BaseCorpus._state)

    def __init__(
        self,
        X: object,
        y_positions: ArrayLike | None,
        classes: Sequence[ClassLabel | LabelSet],
        *,
        weights: ArrayLike | None = None,
        targets: ArrayLike | None = None,
        rows: np.ndarray | None = None,
        random_state: int = 0,
        shuffle: bool = True,
        dense: bool = False,
    ) -> None:
        import scipy.sparse as sp

        what = "the table" if dense else "the matrix"
        if sp.issparse(X):
            manifest.check_structure(X, what)
        matrix: Any = manifest.checked_table(X, what) if dense else manifest.checked_entries(sp.csr_array(X), what)
        if 0 in matrix.shape:
            raise CorpusError(f"{what} is empty: its shape is {matrix.shape}")
        n, labels = matrix.shape[0], None if y_positions is None else np.asarray(y_positions, np.int32)
        if labels is not None and labels.shape != (n,):
            raise CorpusError(f"{what} has {n} documents, but the labels have shape {labels.shape}")
        if labels is not None and not ((labels >= -1) & (labels < max(1, len(classes)))).all():
            raise CorpusError(f"y_positions of {what} must be between -1 and {len(classes) - 1}")
        columns = [
            labels,
            None if weights is None else manifest.checked_weights(weights, n, what),
            None if targets is None else manifest.checked_targets(targets, n, what),
        ]
        order = rows
        if shuffle:
            order = np.random.Generator(np.random.PCG64(random_state)).permutation(n if rows is None else len(rows))
            order = order if rows is None else rows[order]
        self._classes, self.n_rows, self._number = tuple(classes), n, next(_numbers)
        self.order = order
        """Row of `X` of each document, int64; None without `shuffle` and `rows`."""
        if order is not None:
            columns = [None if column is None else column[order] for column in columns]
        self._documents: AnyDocuments
        if dense:
            self._documents = DenseDocuments(
                np.ascontiguousarray(matrix if order is None else matrix[order]), *columns[:2]
            )
            return
        canonical = matrix.has_canonical_format
        if canonical:  # small dtypes are faster to permute
            matrix = sp.csr_array((_compact(matrix.data), matrix.indices, matrix.indptr), shape=matrix.shape)
        if order is not None:
            matrix = matrix[order]
        if not canonical:
            matrix = matrix if order is not None else matrix.copy()  # do not change the caller's matrix
            matrix.sum_duplicates()
            manifest.checked_entries(matrix, "the matrix after summing duplicate entries")
        data = matrix.data if canonical else _compact(matrix.data)
        self._documents = Documents(data, matrix.indices, matrix.indptr.astype(np.int64), matrix.shape[1], *columns)

    def __repr__(self) -> str:
        n_features = self._documents.n_features
        return f"{self.title}{type(self).__name__}({self.n_documents} documents, {n_features} features)"

    @property
    def n_documents(self) -> int:  # without the checksums of `stored_header`
        return self._documents.n_documents if self.rows is None else len(self.rows)

    def _key(self) -> str:
        return f"memory {self._number}"

    def _place(self, document: int) -> str:
        return f"row {document if self.order is None else int(self.order[document])} (counting from 0)"

    def _array(self, name: str) -> np.ndarray | None:
        return getattr(self._documents, name, None)

    def _read(self, start: int, stop: int) -> AnyDocuments:
        return self._documents[start:stop]

    @cached_property
    def stored_header(self) -> Header:
        """The manifest of these documents as a corpus with one shard."""
        documents, labels = self._documents, self._documents.labels
        arrays = {name: array for name in ARRAYS if (array := getattr(documents, name, None)) is not None}
        dense = isinstance(documents, DenseDocuments)
        entries = arrays["values" if dense else "data"]
        counts = [] if labels is None else np.bincount(labels[labels >= 0], minlength=len(self._classes)).tolist()
        checksums = {name: crc32c(array) for name, array in arrays.items()}
        return Header(
            n_documents=documents.n_documents,
            n_features=documents.n_features,
            n_nonzeros=entries.size,
            classes=self._classes,
            class_counts=tuple(counts),
            shards=(ShardInfo(documents.n_documents, entries.size, str(entries.dtype), checksums),),
            vocabulary_hash=vocabulary_hash(documents.n_features, None),
            weighted=dense or (entries.dtype.kind == "f" and bool((entries != np.floor(entries)).any())),
            layout=DENSE if dense else SPARSE,
            n_targets=arrays["targets"].shape[1] if "targets" in arrays else 0,
        )


def _compact(data: np.ndarray) -> np.ndarray:
    """Return entries as unsigned integers or floats, as float32 if every value is exact in it."""
    if data.dtype.kind == "f":
        single = data.astype(np.float32, copy=False)
        return single if np.array_equal(single, data) else data.astype(np.float64, copy=False)
    top = int(data.max(initial=0))
    return data.astype(np.float64 if top >= 2**32 else np.min_scalar_type(top), copy=False)
