"""What a corpus is: names, versions and the manifest. No input or output here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from sdem_dist.errors import CorpusError
from sdem_dist.storage.numbers import JsonObject

FORMAT = "sdem-corpus"
FORMAT_VERSION = 3
"""The highest that is read; sparse corpora are written as version 1, dense ones as 2, sparse ones with targets as 3."""
SPARSE, DENSE = "sparse", "dense"
MANIFEST = "sdem_corpus"
SHARDS = "shards"
VOCABULARY = "vocabulary"
IDF = "idf"
UINT16_FEATURES = 65536

_DATA_DTYPES = {SPARSE: ("uint8", "uint16", "uint32", "float32"), DENSE: ("float32", "float64")}

ClassLabel = str | int | float | bool


def shard_name(shard: int) -> str:
    """Return the name of a shard's group within the group of shards."""
    return f"{shard:05d}"


def shard_path(shard: int, array: str) -> str:
    """Return the path of one of a shard's arrays from the corpus's root."""
    return f"{SHARDS}/{shard_name(shard)}/{array}"


def shard_attributes(n_documents: int, n_features: int) -> JsonObject:
    """Return the attributes that make a shard's group a sparse matrix for anndata."""
    return {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": [n_documents, n_features]}


def index_dtype(n_features: int) -> np.dtype:
    """Return the dtype of the stored indices."""
    return np.dtype(np.uint16 if n_features <= UINT16_FEATURES else np.uint32)


def vocabulary_hash(n_features: int, encoded: tuple[np.ndarray, np.ndarray] | None) -> str:
    """Return the SHA-256 that identifies a vocabulary, or the hashing into `n_features` that stands for one.

    Parameters
    ----------
    n_features : int
    encoded : pair of ndarray, or None
        The vocabulary's joined UTF-8 bytes and its int64 offsets.
    """
    if encoded is None:
        return hashlib.sha256(f"hashed:{n_features}".encode()).hexdigest()
    joined, offsets = encoded
    return hashlib.sha256(offsets.astype("<i8").tobytes() + joined.tobytes()).hexdigest()


@dataclass(frozen=True)
class ShardInfo:
    """What the manifest says of one shard.

    Attributes
    ----------
    n_documents, n_nonzeros : int
    data_dtype : str
        dtype of its array ``data``: uint8, uint16, uint32 or float32; of a dense one's ``values``: float32 or float64.
    checksums : dict of str to int
        CRC-32C of each of its arrays, by name: the bytes of the values, little-endian.
    """

    n_documents: int
    n_nonzeros: int
    data_dtype: str
    checksums: Mapping[str, int]

    def to_json(self) -> JsonObject:
        """Return the shard's entry in the manifest."""
        return {
            "n_documents": self.n_documents,
            "n_nonzeros": self.n_nonzeros,
            "data_dtype": self.data_dtype,
            "checksums": dict(self.checksums),
        }


@dataclass(frozen=True)
class Header:
    """The manifest of a corpus.

    Attributes
    ----------
    n_documents, n_features, n_nonzeros : int
        A dense corpus counts all its values as nonzeros.
    classes : tuple of str, int, float or bool
        The class names; a label is a position in it. Empty: the documents have no labels.
    class_counts : tuple of int
        Number of documents of each class.
    shards : tuple of ShardInfo
        In stored order.
    vocabulary_hash : str
        SHA-256, see `vocabulary_hash`: two corpora of equal hashes number their words alike.
    weighted : bool
        The entries are real weights (tf-idf, say) rather than counts.
    vectorizer : dict or None
        How text became these numbers, as JSON; None if unknown.
    made_by : dict
        Version, sources, seed and the like, as JSON. For readers only: no part of the corpus's identity.
    idf_checksum : int or None
        CRC-32C of the array ``idf``, None if there is none.
    layout : {"sparse", "dense"}
        Counts or weights as CSR matrices, or tables of real numbers.
    n_targets : int
        Real numbers that each document of a sparse corpus has to be predicted; 0: none.
    """

    n_documents: int
    n_features: int
    n_nonzeros: int
    classes: tuple[ClassLabel, ...]
    class_counts: tuple[int, ...]
    shards: tuple[ShardInfo, ...]
    vocabulary_hash: str
    weighted: bool = False
    vectorizer: JsonObject | None = None
    made_by: JsonObject = field(default_factory=dict)
    idf_checksum: int | None = None
    layout: str = SPARSE
    n_targets: int = 0

    @cached_property
    def shard_starts(self) -> np.ndarray:
        """Position of each shard's first document, then n_documents: int64 of shape (n_shards + 1,)."""
        return np.cumsum([0] + [s.n_documents for s in self.shards], dtype=np.int64)

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
        layout = {"layout": DENSE} if self.layout == DENSE else {}
        targets = {"n_targets": self.n_targets} if self.n_targets else {}
        return {
            **layout,
            **targets,
            "n_documents": self.n_documents,
            "n_features": self.n_features,
            "n_nonzeros": self.n_nonzeros,
            "classes": list(self.classes),
            "class_counts": list(self.class_counts),
            "vocabulary_hash": self.vocabulary_hash,
            "weighted": self.weighted,
            "vectorizer": self.vectorizer,
            "idf_checksum": self.idf_checksum,
            "shards": [s.to_json() for s in self.shards],
        }

    def to_json(self) -> JsonObject:
        """Return the manifest as JSON values."""
        version = 3 if self.n_targets else 2 if self.layout == DENSE else 1
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
            It is not a manifest, was made by a newer format, is inconsistent or altered.
        """
        document = _checked(document, where)
        try:
            layout = _layout(document)
            header = cls(
                n_documents=_count(document["n_documents"]),
                n_features=_count(document["n_features"]),
                n_nonzeros=_count(document["n_nonzeros"]),
                classes=tuple(_instance(c, str, int, float, bool) for c in document["classes"]),
                class_counts=tuple(_count(n) for n in document["class_counts"]),
                shards=tuple(_shard(s, layout) for s in document["shards"]),
                vocabulary_hash=_instance(document["vocabulary_hash"], str),
                weighted=_instance(document["weighted"], bool),
                vectorizer=_instance(document["vectorizer"], dict, type(None)),
                made_by=_instance(document["made_by"], dict),
                idf_checksum=_instance(document["idf_checksum"], int, type(None)),
                layout=layout,
                n_targets=_positive(document["n_targets"]) if document["format_version"] == 3 else 0,
            )
        except KeyError as error:
            raise CorpusError(f"{where}: the manifest has no entry {error}: the corpus is damaged") from error
        except (TypeError, ValueError, AttributeError) as error:
            raise CorpusError(f"{where}: the manifest is malformed: {error}") from error
        header._check(where)
        if document.get("uid") != header.uid:
            raise CorpusError(f"{where}: the manifest was altered: its content does not have the uid it states")
        return header

    def _labels_add_up(self) -> bool:
        """Whether every document has a class, or none is expected; documents of dense corpora may have none."""
        labelled = sum(self.class_counts)
        whole = labelled <= self.n_documents if self.layout == DENSE else labelled == self.n_documents
        return not self.classes or whole

    def _check(self, where: str) -> None:
        n_documents, n_nonzeros = (sum(getattr(s, name) for s in self.shards) for name in ("n_documents", "n_nonzeros"))
        sums = (
            (n_documents == self.n_documents, f"its shards hold {n_documents} documents, not {self.n_documents}"),
            (n_nonzeros == self.n_nonzeros, f"its shards hold {n_nonzeros} nonzeros, not {self.n_nonzeros}"),
            (len(self.class_counts) == len(self.classes), "class_counts and classes have different lengths"),
            (self._labels_add_up(), "class_counts do not sum to n_documents"),
            (len(set(self.classes)) == len(self.classes), "a class is named twice"),
            (self.layout == SPARSE or not self.n_targets, "a dense corpus has no targets beside its columns"),
            (self.n_documents > 0 and self.n_features > 0, "there are no documents or no features"),
        )
        for holds, message in sums:
            if not holds:
                raise CorpusError(f"{where}: the manifest is inconsistent: {message}")


def _layout(document: JsonObject) -> str:
    if document["format_version"] != 2:
        return SPARSE
    if document["layout"] != DENSE:
        raise ValueError(f"layout is {document['layout']!r}")
    return DENSE


def _checked(document: object, where: str) -> JsonObject:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise CorpusError(f"{where}: not a corpus: there is no {FORMAT} manifest")
    version = document.get("format_version")
    if type(version) is not int or version < 1:
        raise CorpusError(f"{where}: format_version is {version!r}, not a positive integer")
    if version > FORMAT_VERSION:
        raise CorpusError(
            f"{where}: made by a newer format (version {version}; this package reads up to {FORMAT_VERSION}): "
            "install a newer sdem_dist"
        )
    return document


def _shard(document: JsonObject, layout: str) -> ShardInfo:
    checksums = {str(name): _count(crc) for name, crc in document["checksums"].items()}
    if document["data_dtype"] not in _DATA_DTYPES[layout]:
        raise ValueError(f"data_dtype is {document['data_dtype']!r}")
    n_documents, n_nonzeros = _count(document["n_documents"]), _count(document["n_nonzeros"])
    return ShardInfo(n_documents, n_nonzeros, document["data_dtype"], checksums)


def _instance(value: Any, *kinds: type) -> Any:
    if type(value) not in kinds:
        raise ValueError(f"{value!r} is a {type(value).__name__}")
    return value


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a number of things")
    return value


def _positive(value: object) -> int:
    value = _count(value)
    if value == 0:
        raise ValueError("0 is not positive")
    return value
