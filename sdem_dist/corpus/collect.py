"""All that a corpus is made of, gathered from a stream of batches and held in its stored order."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np

from sdem_dist.corpus.batches import Ids, Taken, canonical_csr, dense_rows
from sdem_dist.corpus.checks import checked_targets, checked_weights
from sdem_dist.corpus.labels import LabelEncoder
from sdem_dist.corpus.manifest import CorpusStats, index_dtype
from sdem_dist.corpus.rows import Canonical, KeyedRows
from sdem_dist.corpus.shuffle import shuffle_keys
from sdem_dist.corpus.spill import Spill
from sdem_dist.errors import CorpusError
from sdem_dist.storage.strings import encode_strings

PIECES = 64


@dataclass(frozen=True)
class Collected(CorpusStats):
    """All documents of a corpus to be, and what is known only once the last has been seen."""

    positions: np.ndarray
    spill: Spill

    def parts(self, sizes: Sequence[int]) -> Iterator[Callable[[], KeyedRows]]:
        """Yield functions that make the next documents in stored order, `sizes` of them each; threads may call them."""
        return (partial(self._final, part) for part in self.spill.parts(sizes))

    def rows(self) -> Iterator[KeyedRows]:
        """Yield the documents in stored order, once, in about `PIECES` pieces."""
        borders = np.unique(np.linspace(0, self.n_documents, PIECES + 1).astype(np.int64))
        return (part() for part in self.parts(np.diff(borders).tolist()))

    def _final(self, part: Callable[[], KeyedRows]) -> KeyedRows:
        """Return documents with their final labels and dtypes."""
        rows = part()
        data = rows.data.astype(np.float32, copy=False) if self.weighted and not self.dense else rows.data
        labels = np.where(rows.labels < 0, np.int32(-1), self.positions[rows.labels])
        return replace(rows, data=data, labels=labels)


def collect(
    source: Iterable[Taken],
    folder: Path,
    memory_limit: int,
    classes: Sequence[object] | None,
    weighted: bool | None,
    *,
    seed: int | None,
    dense: bool = False,
    unlabelled: object = None,
    first: int = 0,
) -> Collected:
    """Check and take in all batches.

    `folder`: for intermediate files.
    `memory_limit`: bytes of documents to hold in memory.
    `classes`: see `write_corpus`.
    `weighted`: see `write_corpus`.
    `seed`: seed of the order in which to store the documents; None keeps that of the input.
    `dense`, `unlabelled`: see `write_corpus`.
    `first`: position of the first of these documents in the corpus before it is shuffled.
    """
    spill = Spill(folder, memory_limit, ordered=seed is None)
    encoder = LabelEncoder(classes, unlabelled)
    id_reader = _IdReader()
    counts = np.zeros(0, np.int64)
    n_documents, n_nonzeros = first, 0
    n_features: int | None = None
    n_targets: int | None = None
    has_weights: bool | None = None
    whole = True
    for X, y, ids, targets, weights in source:
        how = dense_rows if dense else canonical_csr
        data, indices, indptr, width = X if isinstance(X, Canonical) else how(X, n_documents)
        if n_features is None:
            n_features = width
        if width != n_features:
            raise CorpusError(f"the batch from document {n_documents} on has {width} features, not {n_features}")
        if data.dtype.kind == "f":
            if weighted is False:
                raise CorpusError(f"weighted=False, but the batch from document {n_documents} on is not all counts")
            whole = False
        stop = n_documents + len(indptr) - 1
        keys = np.arange(n_documents, stop, dtype=np.uint64) if seed is None else shuffle_keys(seed, n_documents, stop)
        codes = encoder.encode(y, len(keys), n_documents)
        counts = _added(counts, np.bincount(codes[codes >= 0]))
        id_array, id_bytes = id_reader.read(ids, n_documents, stop)
        table = np.empty((len(keys), 0))
        if targets is not None and len(keys):
            table = checked_targets(targets, len(keys), f"the batch from document {n_documents} on")
        if len(keys):
            n_targets = table.shape[1] if n_targets is None else n_targets
            has_weights = weights is not None if has_weights is None else has_weights
            if has_weights != (weights is not None):
                raise CorpusError(f"only some documents have weights: the batch from document {n_documents} on differs")
            if table.shape[1] != n_targets:
                raise CorpusError(
                    f"the batch from document {n_documents} on has {table.shape[1]} targets, not {n_targets}"
                )
            if weights is not None:
                beside = checked_weights(weights, len(keys), f"the batch from document {n_documents} on")[:, None]
                table = np.concatenate([table, beside], axis=1)
            indices = indices.astype(index_dtype(width), copy=False)
            spill.add(KeyedRows(keys, data, indices, indptr, codes, table, id_array, id_bytes))
        n_documents, n_nonzeros = stop, n_nonzeros + len(data)
    if n_features is None or n_documents == first:
        raise CorpusError("there are no documents; a corpus has one or more")
    if n_features == 0:
        raise CorpusError("the documents have no features; a corpus has one or more")
    names, positions = encoder.finish()
    final = np.zeros(len(names), np.int64)
    if names:
        final[positions[: len(counts)]] = counts[: len(names)]
    return Collected(
        n_documents - first,
        n_features,
        n_nonzeros,
        names if encoder.labelled else (),
        tuple(final.tolist()),
        (not whole) if weighted is None else weighted,
        dense,
        n_targets or 0,
        bool(has_weights),
        positions,
        spill,
    )


def _added(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    total = np.zeros(max(len(a), len(b)), np.int64)
    total[: len(a)] += a
    total[: len(b)] += b
    return total


def _plain_list(values: Ids) -> list[int | str]:
    if hasattr(values, "tolist"):
        plain: list[int | str] = values.tolist()
        return plain
    return [v.item() if isinstance(v, np.generic) else v for v in values]


class _IdReader:
    """Reads the ids of batches, which are integers throughout or strings throughout."""

    def __init__(self) -> None:
        self._kind: str | None = None

    def read(self, ids: Ids | None, start: int, stop: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Return int64 ids and None, or the offsets and the joined bytes of string ids."""
        place = f"the batch from document {start} on"
        whole = isinstance(ids, np.ndarray) and ids.dtype.kind == "i" and ids.ndim == 1
        plain = None if ids is None else ids if whole else _plain_list(ids)
        if plain is not None and len(plain) != stop - start:
            raise CorpusError(f"{place} has {stop - start} documents and {len(plain)} ids")
        if not (plain is None or stop > start):
            return np.zeros(0, np.int64), None
        strings = plain is not None and isinstance(plain[0], str)
        kind = "positions" if plain is None else "strings" if strings else "integers"
        if self._kind not in (None, kind):
            raise CorpusError(f"{place} has {kind} as ids, where {self._kind} came before")
        self._kind = kind
        if plain is None:
            return np.arange(start, stop, dtype=np.int64), None
        try:
            if strings:
                joined, offsets = encode_strings(cast(list[str], plain))
                return offsets, joined
            if not whole and not all(type(i) is int for i in plain):
                raise TypeError("they are not all integers")
            return np.array(plain, np.int64), None
        except (TypeError, OverflowError, UnicodeEncodeError) as error:
            raise CorpusError(f"the ids of {place} cannot be stored: {error}") from error
