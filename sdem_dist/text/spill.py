"""Blocks of counted documents on disk, between the two passes of an ingest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.storage.strings import decode_strings, encode_strings

if TYPE_CHECKING:
    import scipy.sparse as sp


@dataclass(frozen=True)
class CountedBlock:
    """Consecutive documents, counted.

    Attributes
    ----------
    counts : csr_matrix of shape (n_documents, n_columns)
        Columns are the block's own terms, or those of the corpus if the block has no terms.
    labels : ndarray of shape (n_documents,), int32
        Codes of classes in the order in which the ingest met them.
    held_out : ndarray of shape (n_documents,), bool
    """

    counts: sp.csr_matrix
    labels: np.ndarray
    held_out: np.ndarray


@dataclass(frozen=True)
class BlockTerms:
    """The terms of a block, sorted, with what they add to the vocabulary: held-out documents are not counted.

    Attributes
    ----------
    terms : list of str
    document_frequency, total : ndarray of shape (n_terms,), int64
        Number of documents with the term, and its occurrences in them.
    """

    terms: list[str]
    document_frequency: np.ndarray
    total: np.ndarray


def block_path(folder: Path, block: int) -> Path:
    """Return where the block number `block` lies."""
    return folder / f"block-{block:06d}.npz"


def save_block(path: Path, block: CountedBlock, terms: BlockTerms | None) -> None:
    """Write a block, and its terms if it has any of its own, without pickle."""
    counts = block.counts
    arrays = {
        "data": _narrowed(counts.data),
        "indices": counts.indices,
        "indptr": counts.indptr,
        "n_columns": np.array(counts.shape[1]),
        "labels": block.labels,
        "held_out": block.held_out,
    }
    if terms is not None:
        arrays["term_bytes"], arrays["term_offsets"] = encode_strings(terms.terms)
        arrays |= {"document_frequency": terms.document_frequency, "total": terms.total}
    np.savez(path, **arrays)


def load_block(path: Path) -> CountedBlock:
    """Read the documents that `save_block` wrote."""
    import scipy.sparse as sp

    with np.load(path, allow_pickle=False) as stored:
        shape = (len(stored["labels"]), int(stored["n_columns"]))
        counts = sp.csr_matrix((stored["data"], stored["indices"], stored["indptr"]), shape=shape)
        return CountedBlock(counts, stored["labels"], stored["held_out"])


def load_terms(path: Path) -> BlockTerms:
    """Read the terms that `save_block` wrote."""
    with np.load(path, allow_pickle=False) as stored:
        terms = decode_strings(stored["term_bytes"], stored["term_offsets"])
        return BlockTerms(terms, stored["document_frequency"], stored["total"])


def _narrowed(values: np.ndarray) -> np.ndarray:
    """Return whole numbers in the smallest unsigned dtype that holds them, which halves the spill or better."""
    if values.dtype.kind == "f" or len(values) == 0:
        return values
    return values.astype(np.min_scalar_type(int(values.max())))
