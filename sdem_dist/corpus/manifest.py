"""What a corpus is: names, versions and the manifest. No input or output here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, cast

import numpy as np

from sdem_dist.errors import CorpusError
from sdem_dist.offsets import offsets_of
from sdem_dist.storage.numbers import JsonObject
from sdem_dist.storage.strings import in_parts
from sdem_dist.storage.versions import version_problem

FORMAT = "sdem-corpus"
PLAIN_VERSION, LABEL_SETS_VERSION, FORMAT_VERSION = 4, 5, 6
"""Versions of corpora: plain ones, those with sets of labels, those with weights. So older readers refuse what they
would read wrong, and read the rest."""
SPARSE, DENSE = "sparse", "dense"
MANIFEST = "sdem_corpus"
SHARDS = "shards"
VOCABULARY = "vocabulary"
DOCUMENT_FREQUENCY = "document_frequency"
UINT16_FEATURES = 65536
HASHED_BYTES = 1 << 24

_DATA_DTYPES = {SPARSE: ("uint8", "uint16", "uint32", "float32"), DENSE: ("float32", "float64")}

ClassLabel = str | int | float | bool
LabelSet = tuple[ClassLabel, ...]
"""The labels of a document that may have several, sorted."""
Classes = tuple[ClassLabel | LabelSet, ...]


def shard_name(shard: int) -> str:
    """Return the name of a shard's group within the group of shards."""
    return f"{shard:05d}"


def shard_path(shard: int, array: str) -> str:
    """Return the path of one of a shard's arrays from the corpus's root."""
    return f"{SHARDS}/{shard_name(shard)}/{array}"


def index_dtype(n_features: int) -> np.dtype:
    """Return the dtype of the stored indices."""
    return np.dtype(np.uint16 if n_features <= UINT16_FEATURES else np.uint32)


def vocabulary_hash(n_features: int, encoded: tuple[np.ndarray, np.ndarray] | None) -> str:
    """Return the SHA-256 that identifies a vocabulary, or the hashing into `n_features` that stands for one.

    `encoded`: the vocabulary's joined UTF-8 bytes and its int64 offsets.
    """
    if encoded is None:
        return hashlib.sha256(f"hashed:{n_features}".encode()).hexdigest()
    joined, offsets = encoded
    hashed = hashlib.sha256(np.ascontiguousarray(offsets, "<i8").data)
    for _, part in in_parts(joined, HASHED_BYTES):
        hashed.update(np.ascontiguousarray(part).data)
    return hashed.hexdigest()


@dataclass(frozen=True)
class ShardInfo:
    """The entry of one shard in the manifest.

    Attributes
    ----------
    n_documents, n_nonzeros : int
    data_dtype : str
        dtype of array ``data``: uint8, uint16, uint32 or float32; in a dense corpus of ``values``: float32 or float64.
    checksums : dict of str to int
        CRC-32C of each of its arrays, by name: the bytes of the values, little-endian.
    """

    n_documents: int
    n_nonzeros: int
    data_dtype: str
    checksums: Mapping[str, int]


@dataclass(frozen=True)
class Facts:
    """What is known of documents before they are in shards; see `Header`."""

    n_documents: int
    n_features: int
    n_nonzeros: int
    classes: Classes
    class_counts: tuple[int, ...]
    weighted: bool
    dense: bool
    n_targets: int
    has_weights: bool


@dataclass(frozen=True)
class Header:
    """The manifest of a corpus.

    Attributes
    ----------
    n_documents, n_features, n_nonzeros : int
        A dense corpus counts all its values as nonzeros.
    classes : tuple of str, int, float or bool, or tuple of tuples of these
        The class names; a label is a position in it. Empty: the documents have no labels. Tuples: a document may have
        several labels, and these are the sets that occur.
    class_counts : tuple of int
        Number of documents of each class.
    shards : tuple of ShardInfo
        In stored order.
    vocabulary_hash : str
        SHA-256, see `vocabulary_hash`: two corpora of equal hashes number their words alike.
    weighted : bool
        The entries are real weights, such as a user's tf-idf, rather than counts.
    vectorizer : dict or None
        How text became these numbers, as JSON; None if unknown.
    made_by : dict
        Version, sources, seed and the like, as JSON. For readers only: no part of the corpus's identity.
    document_frequency_checksum : int or None
        CRC-32C of the array ``document_frequency``; None for dense corpora.
    layout : {"sparse", "dense"}
        Counts or weights as CSR matrices, or tables of real numbers.
    n_targets : int
        How many real numbers are to be predicted of each document of a sparse corpus; 0: none.
    """

    n_documents: int
    n_features: int
    n_nonzeros: int
    classes: Classes
    class_counts: tuple[int, ...]
    shards: tuple[ShardInfo, ...]
    vocabulary_hash: str
    weighted: bool = False
    vectorizer: JsonObject | None = None
    made_by: JsonObject = field(default_factory=dict)
    document_frequency_checksum: int | None = None
    layout: str = SPARSE
    n_targets: int = 0

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
        found = self.made_by.get("label_separator")
        return found if isinstance(found, str) and found else None

    @property
    def has_weights(self) -> bool:
        """Whether documents have weights."""
        return any("weights" in shard.checksums for shard in self.shards)

    @property
    def documents_by_label(self) -> dict[ClassLabel, int]:
        """How many documents have each label."""
        found: dict[ClassLabel, int] = {}
        for classes, n in zip(self.classes, self.class_counts, strict=True):
            for label in classes if isinstance(classes, tuple) else (classes,):
                found[label] = found.get(label, 0) + n
        return found

    @property
    def data_dtypes(self) -> tuple[str, ...]:
        """The dtypes of entries that occur, narrow to wide."""
        return tuple(d for d in _DATA_DTYPES[self.layout] if d in {s.data_dtype for s in self.shards})

    @property
    def has_vocabulary(self) -> bool:
        """Whether there are words, or names of columns."""
        return self.vocabulary_hash != vocabulary_hash(self.n_features, None)

    @cached_property
    def uid(self) -> str:
        """SHA-256 (hex) of the corpus's content: equal for equal documents, order, classes and vocabulary."""
        content = json.dumps(self._content(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(content.encode()).hexdigest()

    def _content(self) -> JsonObject:
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "made_by"}
        return {**values, "shards": [vars(shard) for shard in self.shards]}

    def to_json(self) -> JsonObject:
        """Return the manifest as JSON values."""
        version = PLAIN_VERSION if self.label_sets is None else LABEL_SETS_VERSION
        version = FORMAT_VERSION if self.has_weights else version
        identity = {"format": FORMAT, "format_version": version, "uid": self.uid}
        return {**identity, **self._content(), "made_by": self.made_by}

    @classmethod
    def from_json(cls, document: object, where: str) -> Header:
        """Read a manifest.

        Parameters
        ----------
        document : JSON value
        where : str
            The corpus's path, for messages.

        Raises
        ------
        CorpusError
            It is not a manifest, was made by another format, is inconsistent or altered.
        """
        document = _checked(document, where)
        try:
            header = cls(**{name: read(document[name]) for name, read in _HEADER.items()})
        except KeyError as error:
            raise CorpusError(f"{where}: the manifest has no entry {error}: the corpus is damaged") from error
        except (TypeError, ValueError, AttributeError) as error:
            raise CorpusError(f"{where}: the manifest is malformed: {error}") from error
        header._check(where)
        if document.get("uid") != header.uid:
            raise CorpusError(f"{where}: the manifest was altered: its content does not have the uid it states")
        return header

    def _check(self, where: str) -> None:
        n_documents, n_nonzeros = (sum(getattr(s, name) for s in self.shards) for name in ("n_documents", "n_nonzeros"))
        sums = (
            (n_documents == self.n_documents, f"its shards hold {n_documents} documents, not {self.n_documents}"),
            (n_nonzeros == self.n_nonzeros, f"its shards hold {n_nonzeros} nonzeros, not {self.n_nonzeros}"),
            (len(self.class_counts) == len(self.classes), "class_counts and classes have different lengths"),
            # the class of some documents may be hidden
            (sum(self.class_counts) <= self.n_documents, "class_counts sum to more than n_documents"),
            (len(set(self.classes)) == len(self.classes), "a class is named twice"),
            (
                len({isinstance(c, tuple) for c in self.classes}) < 2,
                "some classes are sets of labels, and some are not",
            ),
            (self.layout == SPARSE or not self.n_targets, "a dense corpus has no targets beside its columns"),
            (
                (self.layout == SPARSE) == (self.document_frequency_checksum is not None),
                "document frequencies are of sparse corpora, and these have them",
            ),
            ({s.data_dtype for s in self.shards} <= {*_DATA_DTYPES[self.layout]}, "a shard's data_dtype is unknown"),
            (
                all(("weights" in s.checksums) == self.has_weights for s in self.shards),
                "some shards have weights of documents, and some not",
            ),
            (self.n_documents > 0 and self.n_features > 0, "there are no documents or no features"),
        )
        for holds, message in sums:
            if not holds:
                raise CorpusError(f"{where}: the manifest is inconsistent: {message}")


def _checked(document: object, where: str) -> JsonObject:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise CorpusError(f"{where}: not a corpus: there is no {FORMAT} manifest")
    version = document.get("format_version")
    problem = version_problem(version, FORMAT_VERSION, "make it again from its sources")
    if problem and version not in (PLAIN_VERSION, LABEL_SETS_VERSION):
        raise CorpusError(f"{where}: {problem}")
    return document


def _of(*kinds: type) -> Callable[[Any], Any]:
    """Return a function that returns a value of one of these very types, and raises ValueError for others."""

    def read(value: object) -> object:
        if type(value) not in kinds:
            raise ValueError(f"{value!r} is a {type(value).__name__}")
        return value

    return read


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a number of things")
    return value


def _layout(value: object) -> object:
    if value not in (SPARSE, DENSE):
        raise ValueError(f"layout is {value!r}")
    return value


def _all(read: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    return lambda values: tuple(read(value) for value in values)


_label = _of(str, int, float, bool)
_SHARD: dict[str, Callable[[Any], Any]] = {
    "n_documents": _count,
    "n_nonzeros": _count,
    "data_dtype": _of(str),
    "checksums": lambda found: {str(name): _count(crc) for name, crc in found.items()},
}
_HEADER: dict[str, Callable[[Any], Any]] = {
    "n_documents": _count,
    "n_features": _count,
    "n_nonzeros": _count,
    "classes": _all(lambda found: _all(_label)(found) if isinstance(found, list) else _label(found)),
    "class_counts": _all(_count),
    "shards": _all(lambda found: ShardInfo(**{name: read(found[name]) for name, read in _SHARD.items()})),
    "vocabulary_hash": _of(str),
    "weighted": _of(bool),
    "vectorizer": _of(dict, type(None)),
    "made_by": _of(dict),
    "document_frequency_checksum": _of(int, type(None)),
    "layout": _layout,
    "n_targets": _count,
}
"""How each entry of a manifest is read, and checked."""
