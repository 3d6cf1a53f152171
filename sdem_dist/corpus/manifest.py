"""Contents of a corpus: its manifest, rules for its numbers, and reading and verifying its files."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from reprlib import repr as brief
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast
from weakref import WeakValueDictionary

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from sdem_dist.documents import offsets_of
from sdem_dist.errors import CorpusError
from sdem_dist.storage import arrays
from sdem_dist.storage.buckets import is_url
from sdem_dist.storage.encoding import JsonObject, crc32c, decode_strings
from sdem_dist.storage.publish import open_contents, set_aside

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
COUNTS, WEIGHTS, REAL = {"uint8", "uint16", "uint32"}, {"float32"}, {"float32", "float64"}
VALUE_RULE = f"counts and weights must be finite, nonnegative, and at most {LARGEST:.3g}"  # the rule, for messages
DAMAGED = (
    "does not match its checksum: a file is damaged or missing, or the corpus was replaced since it was opened; open it "
    "again, or write it again (to train without damaged shards, use skip_damaged)"
)

Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
ClassLabel = str | int | float | bool
LabelSet = tuple[ClassLabel, ...]  # sorted labels of a document that may have several
Classes = tuple[ClassLabel | LabelSet, ...]
Encoded = tuple[np.ndarray, np.ndarray]  # strings as their UTF-8 bytes, joined, and their offsets


def index_dtype(n_features: int) -> np.dtype:
    return np.dtype(np.uint16 if n_features <= UINT16_FEATURES else np.uint32)


def vocabulary_hash(n_features: int, encoded: Encoded | None) -> str:
    """Return the SHA-256 of a vocabulary's joined UTF-8 bytes and offsets, or of a description of the hashing."""
    if encoded is None:
        return hashlib.sha256(f"hashed:{n_features}".encode()).hexdigest()
    joined, offsets = encoded
    hashed = hashlib.sha256(np.ascontiguousarray(offsets, "<i8").data)
    hashed.update(np.ascontiguousarray(joined).data)
    return hashed.hexdigest()


@dataclass(frozen=True)
class ShardInfo:
    n_documents: Count
    n_nonzeros: Count
    data_dtype: str  # of array ``data``: one of `COUNTS` or `WEIGHTS`; of array ``values``: one of `REAL`
    checksums: Mapping[str, Count]  # CRC-32C of each array, by name, over the little-endian bytes of its values


@dataclass(frozen=True)
class Header:
    """The manifest of a corpus."""

    n_documents: Count
    n_features: Annotated[int, msgspec.Meta(ge=0, le=1 << 32)]
    n_nonzeros: Count  # for dense corpora: the number of all values
    classes: Classes
    """The class names; labels are stored as positions in this tuple. Empty: the documents have no labels. Tuples: a
    document may have several labels, and these are the distinct sets."""
    class_counts: tuple[Count, ...]  # number of documents of each class
    shards: tuple[ShardInfo, ...]  # in stored order
    vocabulary_hash: str  # see `vocabulary_hash`: corpora with equal hashes have the same words in the same order
    weighted: bool = False  # entries are real weights, such as a user's tf-idf, rather than counts
    vectorizer: JsonObject | None = None  # settings that converted text to these numbers; None: unknown
    made_by: JsonObject = field(default_factory=dict)
    """Version, sources, seed and the like, for information only: not a part of the uid."""
    document_frequency_checksum: Count | None = None  # CRC-32C of the array; None for dense corpora
    layout: Literal["sparse", "dense"] = SPARSE  # counts or weights as CSR matrices, or tables of real numbers
    n_targets: Count = 0  # number of real targets of each document, for sparse corpora

    @cached_property
    def shard_starts(self) -> np.ndarray:
        """Position of each shard's first document, then n_documents: int64 of shape (n_shards + 1,)."""
        return offsets_of([s.n_documents for s in self.shards])

    @property
    def label_sets(self) -> tuple[LabelSet, ...] | None:
        """The distinct sets of labels if documents may have several labels, else None."""
        return cast("tuple[LabelSet, ...]", self.classes) if any(isinstance(c, tuple) for c in self.classes) else None

    @property
    def label_separator(self) -> str | None:
        """Separator between the labels of a document in the sources, if recorded."""
        separator = self.made_by.get("label_separator")
        return separator if isinstance(separator, str) and separator else None

    @property
    def has_weights(self) -> bool:
        return any("weights" in shard.checksums for shard in self.shards)

    @property
    def documents_by_label(self) -> dict[ClassLabel, int]:
        totals: dict[ClassLabel, int] = {}
        for classes, n in zip(self.classes, self.class_counts, strict=True):
            for label in classes if isinstance(classes, tuple) else (classes,):
                totals[label] = totals.get(label, 0) + n
        return totals

    @property
    def has_vocabulary(self) -> bool:
        return self.vocabulary_hash != vocabulary_hash(self.n_features, None)

    @cached_property
    def uid(self) -> str:
        """SHA-256 (hex) of the content: equal for equal documents in the same order, classes and vocabulary."""
        content = {name: value for name, value in msgspec.to_builtins(self).items() if name != "made_by"}
        plain = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(plain.encode()).hexdigest()

    def to_json(self) -> JsonObject:
        return {"format": FORMAT, "format_version": FORMAT_VERSION, "uid": self.uid, **msgspec.to_builtins(self)}

    @classmethod
    def from_json(cls, document: object, where: str) -> Header:
        """Return the manifest of the corpus at path `where`; CorpusError if it is invalid or has another format."""
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise CorpusError(f"not a corpus: no {FORMAT} manifest found", path=where)
        if document.get("format_version") != FORMAT_VERSION:
            raise CorpusError(
                f"its format version is {document.get('format_version')!r}, but this package reads version "
                f"{FORMAT_VERSION}: ingest its sources again, or install the version of sdem_dist that wrote it",
                path=where,
            )
        try:
            header = msgspec.convert(document, cls)
            uid = header.uid
        except (msgspec.ValidationError, ValueError) as error:
            raise CorpusError(f"the manifest is malformed: {error}", path=where) from error
        shards, classes, sparse = header.shards, set(header.classes), header.layout == SPARSE
        needed = {"data", "indices", "indptr"} if sparse else {"values"}
        needed |= {name for name, there in (("labels", classes), ("targets", header.n_targets)) if there}
        if not (
            len(shards)
            and header.n_documents == sum(s.n_documents for s in shards)
            and header.n_nonzeros == sum(s.n_nonzeros for s in shards)
            and len(header.class_counts) == len(header.classes) == len(classes)
            and len({type(label) is tuple for label in classes}) < 2
            and sum(header.class_counts) <= header.n_documents  # documents may lack a label
            and min(header.n_features, *(s.n_documents for s in shards)) > 0
            and {s.data_dtype for s in shards} <= (REAL if not sparse else WEIGHTS if header.weighted else COUNTS)
            and len({frozenset(s.checksums) for s in shards}) == 1
            and needed <= {*shards[0].checksums}
            and ("targets" in shards[0].checksums) == (header.n_targets > 0)
            and sparse == (header.document_frequency_checksum is not None)
            and (sparse or all(s.n_nonzeros == s.n_documents * header.n_features for s in shards))
        ):
            raise CorpusError("the manifest is inconsistent: its fields contradict each other", path=where)
        if document.get("uid") != uid:
            raise CorpusError("the manifest was altered: its uid does not match its content", path=where)
        return header


@dataclass(frozen=True)
class StoredCorpus:
    """An open corpus on disk. Methods raise CorpusError for damage and name the shard and array."""

    path: str
    root: Path  # folder of the contents
    header: Header

    def columns(self, shard: int, names: Sequence[str], n_bytes: int = 0) -> dict[str, np.ndarray]:
        """Read arrays of a shard; `n_bytes`: total length of joined strings."""
        header, info = self.header, self.header.shards[shard]
        n, entries = info.n_documents, (info.n_nonzeros,)
        kinds: dict[str, tuple[tuple[int, ...], Any]] = {  # shapes and dtypes
            "values": ((n, header.n_features), info.data_dtype),
            "data": (entries, info.data_dtype),
            "indices": (entries, index_dtype(header.n_features)),
            "labels": ((n,), np.int32),
            "targets": ((n, header.n_targets), np.float64),
            "weights": ((n,), np.float64),
            "groups": ((n,), np.uint64),
            "ids": ((n,), np.int64),
        }
        kinds |= dict.fromkeys(("indptr", "ids_offsets", "texts_offsets"), ((n + 1,), np.int64))
        kinds |= dict.fromkeys(("ids_bytes", "texts_bytes"), ((n_bytes,), np.uint8))
        folder = self.root / SHARDS / f"{shard:05d}"
        try:
            read = arrays.map_requests(lambda name: arrays.read_array(folder / name, *kinds[name]), names, folder)
        except CorpusError as error:
            name = Path(error.path or "").name
            raise type(error)(f"{self.path}: shard {shard}: array {name!r}: {error.problem}") from error
        columns = dict(zip(names, read, strict=True))
        for name, array in columns.items():
            if crc32c(array) != info.checksums.get(name):
                raise CorpusError(f"{self.path}: shard {shard}: array {name!r} {DAMAGED}")
        if problem := find_problem(columns, header):  # another program may have written invalid arrays
            raise CorpusError(f"{self.path}: shard {shard}: {problem}")
        return columns

    def strings(self, shard: int, name: str) -> np.ndarray | list[str]:
        """Read the "ids", "texts" or "groups" of a shard's documents, as numbers or strings."""
        checksums = self.header.shards[shard].checksums
        if f"{name}_bytes" in checksums:
            (offsets,) = self.columns(shard, [f"{name}_offsets"]).values()
            (joined,) = self.columns(shard, [f"{name}_bytes"], int(offsets[-1])).values()
            try:
                return decode_strings(joined, offsets)
            except ValueError as error:
                raise CorpusError(f"{self.path}: shard {shard}: array '{name}_offsets': {error}") from error
        if name == "texts":
            raise CorpusError(f"{self.path} contains no texts: ingest with --keep-text")
        return self.columns(shard, [name])[name]

    def vocabulary(self) -> list[str] | None:
        """Read the words in the order of their indices, or return None if the corpus has none (hashed words)."""
        folder, n_features = self.root / VOCABULARY, self.header.n_features
        if not self.header.has_vocabulary:
            if not is_url(self.path) and folder.exists():
                raise CorpusError(f"{self.path}: its vocabulary does not match the vocabulary_hash of the manifest")
            return None
        try:
            offsets = arrays.read_array(folder / "offsets", (n_features + 1,), np.int64)
            encoded = arrays.read_array(folder / "bytes", (int(offsets[-1]),), np.uint8), offsets
            if vocabulary_hash(n_features, encoded) != self.header.vocabulary_hash:
                raise CorpusError(f"it {DAMAGED}")
            return decode_strings(*encoded)
        except ValueError as error:
            raise CorpusError(f"{self.path}: the vocabulary cannot be read: {error}") from error

    def document_frequency(self) -> np.ndarray:
        frequency = arrays.read_array(self.root / DOCUMENT_FREQUENCY, (self.header.n_features,), np.int64)
        if crc32c(frequency) != self.header.document_frequency_checksum:
            raise CorpusError(f"{self.path}: array {DOCUMENT_FREQUENCY!r} {DAMAGED}")
        header, within = self.header, frequency.min() >= 0 and frequency.max() <= self.header.n_documents
        n, all_count = int(frequency.sum()) if within else -1, not (header.weighted or header.has_weights)
        if not (n == header.n_nonzeros if all_count else 0 <= n <= header.n_nonzeros):  # weights may be 0
            raise CorpusError(f"{self.path}: array {DOCUMENT_FREQUENCY!r} does not match the number of entries")
        return frequency


# A check for changes at a URL costs requests, so tasks share an open corpus as long as one of them uses it.
_urls: WeakValueDictionary[str, StoredCorpus] = WeakValueDictionary()


def stored_corpus(path: str, share: bool) -> StoredCorpus:
    """Open a corpus, or return the one that this process has opened before; at a URL only with `share`."""
    if not is_url(path):
        try:
            status = os.stat(os.path.join(path, "zarr.json"))
        except (OSError, ValueError):
            return _open.__wrapped__(path, ())  # raises the error
        return _open(path, (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns))
    corpus = _urls.get(path) if share else None
    if corpus is None:
        corpus = _open.__wrapped__(path, ())
        if share:
            _urls[path] = corpus
    return corpus


@lru_cache(maxsize=32)  # a manifest may be large, and many tasks open the same corpus
def _open(path: str, identity: tuple[int, ...]) -> StoredCorpus:
    """Open a corpus; `identity`: part of the cache key, changes when the corpus is replaced."""
    advice, folder = "a corpus is a folder written by sdem ingest or write_corpus", Path(path)
    if is_url(path):
        pass
    elif not folder.exists():
        for backup in set_aside(folder)[-1:]:
            advice = f"a process died while replacing it: to restore it, rename {backup}"
        raise CorpusError(f"{path}: no such corpus; {advice}")
    elif not folder.is_dir():
        raise CorpusError(
            f"{path} is a file, perhaps a model or a source; {advice}: ingest a source first (sdem ingest; for test documents, "
            "add --vocabulary-from TRAINING)"
        )
    elif not (folder / "zarr.json").exists():
        raise CorpusError(f"{path} is a folder, but not a corpus; {advice}")
    root, attributes = open_contents(path)
    if MANIFEST not in attributes:
        raise CorpusError(f"{path}: not a corpus, or incomplete (no manifest found)")
    return StoredCorpus(path, root, Header.from_json(attributes[MANIFEST], path))


def first_invalid(data: np.ndarray, indptr: np.ndarray) -> tuple[int, float] | None:
    """Return the row and value of the first invalid entry of CSR arrays; None if all entries are valid."""
    if len(data) == 0 or data.dtype.kind in "bu":
        return None
    # min() and max() return NaN if there is one, so they find every invalid entry; no integer is too large
    if data.min() >= 0 and (data.dtype.kind == "i" or data.max() <= LARGEST):
        return None
    entry = int(np.argmax(~((data >= 0) & (data <= LARGEST))))
    return int(np.searchsorted(indptr, entry, side="right")) - 1, data[entry]


def checked_entries(csr: sp.csr_array, what: str, first: int = 0) -> sp.csr_array:
    """Return the matrix; CorpusError if an entry is invalid. `first`: position of the first document, for messages."""
    check_numbers(csr, what)
    if (invalid := first_invalid(csr.data, csr.indptr)) is not None:
        raise CorpusError(
            f"{what}: document {first + invalid[0]} (counting from 0) contains the value {invalid[1]}: {VALUE_RULE}"
        )
    return csr


def checked_table(X: object, what: str, first: int = 0) -> np.ndarray:
    """Return X as an array; CorpusError unless all values are finite or NaN. `first`: as in `checked_entries`."""
    table = np.asarray(X)
    check_numbers(table, what)
    if (infinite := np.isinf(table).any(axis=1)).any():
        raise CorpusError(
            f"{what}: document {first + int(infinite.argmax())} (counting from 0) contains an infinite value"
        )
    return table


def check_numbers(X: sp.csr_array | np.ndarray, what: str) -> None:
    if X.ndim != 2 or X.dtype.kind not in "buif":
        raise CorpusError(f"{what} must be a numeric matrix, got dtype {X.dtype} and {X.ndim} axes")


def check_structure(X: sp.sparray | sp.spmatrix, what: str) -> None:
    """Raise CorpusError if the arrays of a sparse matrix are inconsistent, since SciPy might crash on them."""

    def refuse(problem: str) -> None:
        raise CorpusError(f"{what}: {problem}: the matrix is corrupt; build it again")

    places: list[tuple[np.ndarray, int, int, str]] = []  # (indices, number of entries, bound, name)
    if X.format in ("csr", "csc", "bsr") and X.ndim == 2:
        block = X.data.shape[1:] if X.format == "bsr" else (1, 1)
        n, bound = (X.shape[0] // block[0], X.shape[1] // block[1]) if X.format != "csc" else X.shape[::-1]
        indptr, n_entries = X.indptr, min(len(X.indices), len(X.data))
        if indptr.shape != (n + 1,) or indptr.dtype.kind not in "iu" or indptr[0] != 0:
            refuse(f"indptr must have {n + 1} integers and start with 0")
        if (falls := indptr[1:] < indptr[:-1]).any():
            refuse(f"indptr decreases at position {int(falls.argmax())} (counting from 0)")
        if indptr[-1] > n_entries:
            refuse(f"indptr ends with {indptr[-1]}, but there are only {n_entries} entries")
        places = [(X.indices[: indptr[-1]], int(indptr[-1]), bound, "row" if X.format == "csc" else "column")]
    elif X.format == "coo":
        places = [(X.coords[i], len(X.data), X.shape[i], name) for i, name in enumerate(("row", "column")[: X.ndim])]
    elif X.format == "lil":
        rows = zip(X.rows, X.data, strict=True)
        places = [(np.asarray(row, np.int64), len(values), X.shape[1], "column") for row, values in rows]
    for numbers, n_entries, bound, name in places:
        if numbers.shape != (n_entries,) or numbers.dtype.kind not in "iu":
            refuse(
                f"expected {n_entries} integer {name} indices, one per entry, got {numbers.dtype} of shape {numbers.shape}"
            )
        # A negative number is large as an unsigned one.
        if len(numbers) and int(numbers.view(numbers.dtype.str.replace("i", "u")).max()) >= bound:
            entry = int(np.argmax((numbers < 0) | (numbers >= bound)))
            refuse(f"entry {entry} has {name} index {numbers[entry]}, but {name}s are numbered from 0 to {bound - 1}")


def find_problem(columns: Mapping[str, np.ndarray], header: Header) -> str | None:
    """Return a problem of a shard's arrays, or None if they are safe for kernels, which index without checks."""
    indices, indptr = columns.get("indices"), columns.get("indptr")

    def first(name: str, unfit: np.ndarray, rule: str) -> str:
        place = int(unfit.reshape(len(unfit), -1).any(axis=1).argmax())
        if name in ("data", "indices"):
            place = int(np.searchsorted(cast(np.ndarray, indptr), place, side="right")) - 1
        return f"array {name!r} {rule} (first violated at document {place} of the shard)"

    if indices is not None and indptr is not None:
        if indptr[0] != 0 or indptr[-1] != len(indices) or (indptr[1:] < indptr[:-1]).any():
            unfit = (indptr[1:] < indptr[:-1]) | (indptr[1:] > len(indices))
            unfit[[0, -1]] |= indptr[[0, -1]] != (0, len(indices))
            return first("indptr", unfit, "must increase from 0 to the number of entries")
        unfit, ends = np.zeros(len(indices), bool), indptr[indptr > 0] - 1
        np.less_equal(indices[1:], indices[:-1], out=unfit[:-1])
        unfit[ends] = indices[ends] >= header.n_features
        if unfit.any():
            return first("indices", unfit, f"must increase within each document and be at most {header.n_features - 1}")
    largest = float(np.finfo(np.float64).max)
    bounds = {"data": (0, LARGEST), "labels": (-1, len(header.classes) - 1), "weights": (0, LARGEST)}
    for name, (low, high) in (bounds | {"targets": (-largest, largest)}).items():
        array = columns.get(name)
        # min() and max() are NaN if a value is.
        if array is None or array.dtype.kind == "u" or (array.min(initial=0) >= low and array.max(initial=low) <= high):
            continue
        unfit = ~((array >= low) & (array <= high))
        return first(name, unfit, f"must be between {low:g} and {high:g}")
    values = columns.get("values")
    if values is not None and (unfit := np.isinf(values)).any():
        return first("values", unfit, "must be finite or NaN")
    return None


def as_numbers(values: ArrayLike, where: str, name: str = "targets") -> np.ndarray:
    """Return targets or weights as float64; CorpusError if one is not a number. `where`: begins the message."""
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        for place, value in np.ndenumerate(np.asarray(values, object)):
            try:
                float(np.nan if value is None else value)  # NumPy converts None to NaN
            except (TypeError, ValueError):
                of = f"document {place[0] if place else 0} (counting from 0)" + (
                    f", column {place[1]}" if place[1:] else ""
                )
                raise CorpusError(f"{where} has {name} that are not numbers, such as {brief(value)} at {of}") from None
        raise CorpusError(f"{where} has {name} that are not numbers") from None


def checked_weights(weights: ArrayLike, n_documents: int, where: str) -> np.ndarray:
    """Return weights as float64; CorpusError unless there is one finite nonnegative number per document."""
    column = as_numbers(weights, where, "weights")
    if column.shape != (n_documents,):
        raise CorpusError(f"{where} has {n_documents} documents, but sample_weight has shape {column.shape}")
    if (invalid := ~((column >= 0) & (column <= LARGEST))).any():
        row = int(invalid.argmax())
        raise CorpusError(
            f"{where} has sample_weight {column[row]} for document {row} (counting from 0), not between 0 and {LARGEST:.3g}"
        )
    return column


def checked_targets(targets: ArrayLike, n_documents: int, where: str) -> np.ndarray:
    """Return targets as a float64 table of shape (n_documents, n_targets); CorpusError unless all are finite."""
    table = as_numbers(targets, where)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or len(table) != n_documents or table.shape[1] == 0:
        raise CorpusError(f"{where} has {n_documents} documents, but the targets have shape {np.shape(targets)}")
    if not np.isfinite(table).all():
        row = int((~np.isfinite(table)).any(axis=1).argmax())
        raise CorpusError(f"{where} has targets that are not finite; the first is at document {row} (counting from 0)")
    return np.ascontiguousarray(table)
