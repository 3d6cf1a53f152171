"""What a corpus is: names, versions, the manifest, and which numbers it may hold. No input or output here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from reprlib import repr as brief
from typing import TYPE_CHECKING, Annotated, Literal, cast

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from sdem_dist.documents import offsets_of
from sdem_dist.errors import CorpusError
from sdem_dist.storage.encoding import JsonObject

if TYPE_CHECKING:
    import scipy.sparse as sp

FORMAT = "sdem-corpus"
FORMAT_VERSION = 7
SPARSE: Literal["sparse"] = "sparse"
DENSE: Literal["dense"] = "dense"
MANIFEST = "sdem_corpus"
SHARDS = "shards"
VOCABULARY = "vocabulary"
DOCUMENT_FREQUENCY = "document_frequency"
UINT16_FEATURES = 65536
LARGEST = float(np.finfo(np.float32).max)
VALUE_RULE = f"counts and weights are finite, not negative, and at most {LARGEST:.3g}"  # the rule, for messages
DATA_DTYPES = {SPARSE: ("uint8", "uint16", "uint32", "float32"), DENSE: ("float32", "float64")}  # narrow to wide

Count = Annotated[int, msgspec.Meta(ge=0)]
ClassLabel = str | int | float | bool
LabelSet = tuple[ClassLabel, ...]
"""The labels of a document that may have several, sorted."""
Classes = tuple[ClassLabel | LabelSet, ...]


def index_dtype(n_features: int) -> np.dtype:
    return np.dtype(np.uint16 if n_features <= UINT16_FEATURES else np.uint32)


def vocabulary_hash(n_features: int, encoded: tuple[np.ndarray, np.ndarray] | None) -> str:
    """Return the SHA-256 of a vocabulary's joined UTF-8 bytes and offsets, or of the hashing that stands for one."""
    if encoded is None:
        return hashlib.sha256(f"hashed:{n_features}".encode()).hexdigest()
    joined, offsets = encoded
    hashed = hashlib.sha256(np.ascontiguousarray(offsets, "<i8").data)
    hashed.update(np.ascontiguousarray(joined).data)
    return hashed.hexdigest()


@dataclass(frozen=True)
class ShardInfo:
    """The entry of one shard in the manifest."""

    n_documents: Count
    n_nonzeros: Count
    data_dtype: str  # of array ``data``, or ``values``: see `DATA_DTYPES`
    checksums: Mapping[str, Count]  # CRC-32C of each of its arrays, by name: the bytes of the values, little-endian


@dataclass(frozen=True)
class Header:
    """The manifest of a corpus."""

    n_documents: Count
    n_features: Count
    n_nonzeros: Count  # a dense corpus counts all its values
    classes: Classes
    """The class names; a label is a position in it. Empty: the documents have no labels. Tuples: a document may have
    several labels, and these are the sets that occur."""
    class_counts: tuple[Count, ...]  # documents of each class
    shards: tuple[ShardInfo, ...]  # in stored order
    vocabulary_hash: str  # see `vocabulary_hash`: two corpora of equal hashes number their words alike
    weighted: bool = False  # the entries are real weights, such as a user's tf-idf, rather than counts
    vectorizer: JsonObject | None = None  # how text became these numbers; None: unknown
    made_by: JsonObject = field(default_factory=dict)
    """Version, sources, seed and the like, for readers only: no part of the corpus's identity."""
    document_frequency_checksum: Count | None = None  # CRC-32C of the array; None for dense corpora
    layout: Literal["sparse", "dense"] = SPARSE  # counts or weights as CSR matrices, or tables of real numbers
    n_targets: Count = 0  # real numbers to be predicted of each document of a sparse corpus

    @cached_property
    def shard_starts(self) -> np.ndarray:
        """Position of each shard's first document, then n_documents: int64 of shape (n_shards + 1,)."""
        return offsets_of([s.n_documents for s in self.shards])

    @property
    def label_sets(self) -> tuple[LabelSet, ...] | None:
        """The sets of labels that occur, where a document may have several labels; None where it has one."""
        return cast("tuple[LabelSet, ...]", self.classes) if any(isinstance(c, tuple) for c in self.classes) else None

    @property
    def label_separator(self) -> str | None:
        """What stood between the labels of a document in the sources, where the corpus knows it."""
        separator = self.made_by.get("label_separator")
        return separator if isinstance(separator, str) and separator else None

    @property
    def has_weights(self) -> bool:
        return self.has("weights")

    def has(self, array: str) -> bool:
        return any(array in shard.checksums for shard in self.shards)

    @property
    def documents_by_label(self) -> dict[ClassLabel, int]:
        totals: dict[ClassLabel, int] = {}
        for classes, n in zip(self.classes, self.class_counts, strict=True):
            for label in classes if isinstance(classes, tuple) else (classes,):
                totals[label] = totals.get(label, 0) + n
        return totals

    @property
    def data_dtypes(self) -> tuple[str, ...]:
        return tuple(d for d in DATA_DTYPES[self.layout] if d in {s.data_dtype for s in self.shards})

    @property
    def has_vocabulary(self) -> bool:
        return self.vocabulary_hash != vocabulary_hash(self.n_features, None)

    @cached_property
    def uid(self) -> str:
        """SHA-256 (hex) of the corpus's content: equal for equal documents, order, classes and vocabulary."""
        content = {name: value for name, value in msgspec.to_builtins(self).items() if name != "made_by"}
        return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def to_json(self) -> JsonObject:
        return {"format": FORMAT, "format_version": FORMAT_VERSION, "uid": self.uid, **msgspec.to_builtins(self)}

    @classmethod
    def from_json(cls, document: object, where: str) -> Header:
        """Read the manifest of the corpus at the path `where`; CorpusError unless of this format and unaltered."""
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise CorpusError(f"not a corpus: there is no {FORMAT} manifest", path=where)
        if document.get("format_version") != FORMAT_VERSION:
            raise CorpusError(
                f"made by another version of the format ({document.get('format_version')!r}; this package reads "
                f"{FORMAT_VERSION}): make it again from its sources, or install the version of sdem_dist that made it",
                path=where,
            )
        try:
            header = msgspec.convert(document, cls)
        except msgspec.ValidationError as error:
            raise CorpusError(f"the manifest is malformed: {error}", path=where) from error
        if document.get("uid") != header.uid:
            raise CorpusError("the manifest was altered: its content does not have the uid it states", path=where)
        return header


def first_invalid(data: np.ndarray, indptr: np.ndarray) -> tuple[int, float] | None:
    """Return the first row of CSR arrays with an entry that no corpus may hold, and that entry; None if all are fit."""
    if len(data) == 0 or data.dtype.kind in "bu":
        return None
    # max() returns NaN if there is one, so two reductions see every unfit entry; no integer is too large
    if data.min() >= 0 and (data.dtype.kind == "i" or data.max() <= LARGEST):
        return None
    entry = int(np.argmax(~((data >= 0) & (data <= LARGEST))))
    return int(np.searchsorted(indptr, entry, side="right")) - 1, data[entry]


def checked_entries(csr: sp.csr_array, what: str, first: int = 0) -> sp.csr_array:
    """Return a matrix; raise CorpusError unless it holds what a corpus may hold, documents counted from `first`."""
    check_numbers(csr, what)
    if (invalid := first_invalid(csr.data, csr.indptr)) is not None:
        raise CorpusError(f"{what}: document {first + invalid[0]} (from 0) holds the entry {invalid[1]}: {VALUE_RULE}")
    return csr


def checked_table(X: object, what: str, first: int = 0) -> np.ndarray:
    """Return a table; raise CorpusError unless it is of finite numbers and NaN, documents counted from `first`."""
    table = np.asarray(X)
    check_numbers(table, what)
    if (infinite := np.isinf(table).any(axis=1)).any():
        raise CorpusError(f"{what}: document {first + int(infinite.argmax())} (from 0) holds an infinity")
    return table


def check_numbers(X: sp.csr_array | np.ndarray, what: str) -> None:
    if X.ndim != 2 or X.dtype.kind not in "buif":
        raise CorpusError(f"{what} is {X.dtype} of {X.ndim} dimensions, not numbers of two dimensions")


def check_structure(X: sp.sparray | sp.spmatrix, what: str) -> None:
    """Raise CorpusError unless the arrays of a sparse matrix fit together: SciPy, which trusts them, may crash."""
    try:
        if X.format == "coo":
            type(X)((X.data, X.coords), X.shape)  # which checks them
        elif X.format in ("csr", "csc", "bsr", "lil"):
            compressed = copy(X.tocsr() if X.format == "lil" else X)  # the caller's is not changed
            if (np.diff(compressed.indptr) < 0).any():
                raise ValueError("indptr falls")
            compressed.check_format()
    except ValueError as error:
        raise CorpusError(f"{what}: {error}: the matrix is broken; make it again from its documents") from error


def as_numbers(values: ArrayLike, where: str, name: str = "targets") -> np.ndarray:
    """Return targets or weights as float64; raise CorpusError, which begins with `where`, if one is not a number."""
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        for place, value in np.ndenumerate(np.asarray(values, object)):
            try:
                float(np.nan if value is None else value)  # NumPy makes NaN of None
            except (TypeError, ValueError):
                of = f"document {place[0] if place else 0} (from 0)" + (f", column {place[1]}" if place[1:] else "")
                raise CorpusError(f"{where} has {name} that are not numbers, first {brief(value)} of {of}") from None
        raise CorpusError(f"{where} has {name} that are not numbers") from None


def checked_weights(weights: ArrayLike, n_documents: int, where: str) -> np.ndarray:
    """Return weights as float64; raise CorpusError unless they are one finite number a document, none negative."""
    column = as_numbers(weights, where, "weights")
    if column.shape != (n_documents,):
        raise CorpusError(f"{where} has {n_documents} documents and weights of shape {column.shape}")
    if (invalid := ~((column >= 0) & (column <= LARGEST))).any():
        row = int(invalid.argmax())
        raise CorpusError(
            f"{where} has the weight {column[row]} for its document {row}: weights are numbers from 0 to {LARGEST:.3g}"
        )
    return column


def checked_targets(targets: ArrayLike, n_documents: int, where: str) -> np.ndarray:
    """Return targets as a float64 table of shape (n_documents, n_targets); raise CorpusError unless they are finite."""
    table = as_numbers(targets, where)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or len(table) != n_documents or table.shape[1] == 0:
        raise CorpusError(f"{where} has {n_documents} documents and targets of shape {np.shape(targets)}")
    if not np.isfinite(table).all():
        row = int((~np.isfinite(table)).any(axis=1).argmax())
        raise CorpusError(f"{where} has a target that is not finite, first for its document {row}")
    return np.ascontiguousarray(table)
