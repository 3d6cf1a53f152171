"""What a corpus is: names, versions and the manifest. No input or output here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Literal, cast

import msgspec
import numpy as np

from sdem_dist.documents import offsets_of
from sdem_dist.errors import CorpusError
from sdem_dist.storage.encoding import JsonObject, in_parts

FORMAT = "sdem-corpus"
FORMAT_VERSION = 7
SPARSE: Literal["sparse"] = "sparse"
DENSE: Literal["dense"] = "dense"
MANIFEST = "sdem_corpus"
SHARDS = "shards"
VOCABULARY = "vocabulary"
DOCUMENT_FREQUENCY = "document_frequency"
UINT16_FEATURES = 65536
HASHED_BYTES = 1 << 24
DATA_DTYPES = {SPARSE: ("uint8", "uint16", "uint32", "float32"), DENSE: ("float32", "float64")}  # narrow to wide

Count = Annotated[int, msgspec.Meta(ge=0)]
ClassLabel = str | int | float | bool
LabelSet = tuple[ClassLabel, ...]
"""The labels of a document that may have several, sorted."""
Classes = tuple[ClassLabel | LabelSet, ...]


def index_dtype(n_features: int) -> np.dtype:
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
        """The dtypes of entries that occur, narrow to wide."""
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
        """Read the manifest of the corpus at the path `where`.

        Raises CorpusError: it is not a manifest, was made by another format, is inconsistent or altered.
        """
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
        shards, classes, sparse = header.shards, set(header.classes), header.layout == SPARSE
        if not (
            header.n_documents == sum(s.n_documents for s in shards)
            and header.n_nonzeros == sum(s.n_nonzeros for s in shards)
            and len(header.class_counts) == len(header.classes) == len(classes)
            and len({type(label) is tuple for label in classes}) < 2
            and sum(header.class_counts) <= header.n_documents  # the class of some documents may be hidden
            and min(header.n_documents, header.n_features) > 0
            and {s.data_dtype for s in shards} <= {*DATA_DTYPES[header.layout]}
            and len({"weights" in s.checksums for s in shards}) < 2
            and sparse == (header.document_frequency_checksum is not None)
            and (sparse or not header.n_targets)
        ):
            raise CorpusError("the manifest is inconsistent: it contradicts itself", path=where)
        if document.get("uid") != header.uid:
            raise CorpusError("the manifest was altered: its content does not have the uid it states", path=where)
        return header
