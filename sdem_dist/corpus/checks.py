"""Which numbers documents may hold: entries, weights, targets; and which arrays are a sound sparse matrix."""

from __future__ import annotations

from reprlib import repr as brief
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from sdem_dist.errors import CorpusError

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sdem_dist.documents import DenseDocuments, Documents

LARGEST = float(np.finfo(np.float32).max)
VALUE_RULE = f"counts and weights are finite, not negative, and at most {LARGEST:.3g}"  # the rule, for messages


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


def document_frequency(indices: np.ndarray, data: np.ndarray, n_features: int) -> np.ndarray:
    """Return in how many rows of CSR arrays each column has an entry above 0, int64 of shape (n_features,)."""
    from sdem_dist.kernels.csr import add_each  # numba comes with it

    counts = np.zeros(n_features, np.int64)
    add_each(counts, indices if data.all() else indices[data != 0])
    return counts


def check_structure(X: sp.sparray | sp.spmatrix, what: str) -> None:
    """Raise CorpusError, a ValueError, unless the arrays of a sparse matrix fit together.

    SciPy trusts them: with others it may end the process, or read entries of other columns. To be called before
    anything is sorted, cut, cast or converted. Takes no copies. Formats without index arrays pass.
    """

    def refuse(problem: str) -> None:
        raise CorpusError(f"{what}: {problem}: the matrix is broken; make it again from its documents")

    def check_places(places: np.ndarray, n_entries: int, bound: int, name: str) -> None:
        if places.shape != (n_entries,) or places.dtype.kind not in "iu":
            refuse(f"{n_entries} entries have {name} numbers that are {places.dtype} of shape {places.shape}")
        # As an unsigned number, one below 0 is large.
        if len(places) and int(places.view(places.dtype.str.replace("i", "u")).max()) >= bound:
            entry = int(np.argmax((places < 0) | (places >= bound)))
            refuse(f"entry {entry} lies in {name} {places[entry]} of {bound} (from 0)")

    if X.format in ("csr", "csc", "bsr") and X.ndim == 2:
        block = X.data.shape[1:] if X.format == "bsr" else (1, 1)
        n, bound = (X.shape[0] // block[0], X.shape[1] // block[1]) if X.format != "csc" else X.shape[::-1]
        indptr, n_entries = X.indptr, min(len(X.indices), len(X.data))
        if indptr.shape != (n + 1,) or indptr.dtype.kind not in "iu" or indptr[0] != 0:
            refuse(f"indptr is not {n + 1} integers from 0 on")
        if (falls := indptr[1:] < indptr[:-1]).any():
            refuse(f"indptr falls at {int(falls.argmax())} (from 0)")
        if indptr[-1] > n_entries:
            refuse(f"indptr ends with {indptr[-1]}, and there are {n_entries} entries, too few")
        check_places(X.indices[: indptr[-1]], int(indptr[-1]), bound, "row" if X.format == "csc" else "column")
    elif X.format == "coo":
        for name, places, bound in zip(("row", "column"), X.coords, X.shape, strict=True):
            check_places(places, len(X.data), bound, name)
    elif X.format == "lil":
        for places, values in zip(X.rows, X.data, strict=True):
            check_places(np.asarray(places, np.int64), len(values), X.shape[1], "column")


def find_problem(documents: Documents | DenseDocuments, n_classes: int) -> str | None:
    """Return what makes stored `documents` unfit for kernels, which index tables without checks, or None."""
    indptr, indices = getattr(documents, "indptr", None), getattr(documents, "indices", None)
    if indptr is not None and indices is not None:
        if indptr[0] != 0 or indptr[-1] != len(indices) or np.any(indptr[1:] < indptr[:-1]):
            return "array 'indptr' does not climb from 0 to the number of entries"
        falls = indices[1:] <= indices[:-1]
        if len(falls):
            falls[indptr[(indptr > 0) & (indptr < len(indices))] - 1] = False  # it may fall from one row to the next
        if falls.any():
            return "array 'indices' does not ascend within each document"
    elif np.isinf(getattr(documents, "values", 0)).any():
        return "array 'values' holds an infinity"
    largest = float(np.finfo(np.float64).max)
    bounds = {
        "indices": (0, documents.n_features - 1),
        "data": (0, LARGEST),
        "labels": (-1, n_classes - 1),
        "weights": (0, largest),
        "targets": (-largest, largest),
    }
    for name, (low, high) in bounds.items():
        values = getattr(documents, name, None)
        # Both bounds are NaN where a value is.
        if values is not None and values.size and not (values.min() >= low and values.max() <= high):
            return f"array {name!r} holds values that are not from {low:g} to {high:g}"
    return None


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
