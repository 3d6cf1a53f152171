"""Which numbers documents may hold: entries, weights, targets; and which arrays are a sound sparse matrix."""

from __future__ import annotations

from reprlib import repr as brief
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from sdem_dist.errors import CorpusError

if TYPE_CHECKING:
    import scipy.sparse as sp

LARGEST = float(np.finfo(np.float32).max)
VALUE_RULE = f"counts and weights are finite, not negative, and at most {LARGEST:.3g}"  # the rule, for messages
_BROKEN = ": the matrix is broken; make it again from its documents"


def first_invalid(data: np.ndarray, indptr: np.ndarray) -> tuple[int, float] | None:
    """Return the first row of CSR arrays with an entry that no corpus may hold, and that entry; None if all are fit."""
    if len(data) == 0 or data.dtype.kind in "bu":
        return None
    # max() returns NaN if there is one, so two reductions see every unfit entry; no integer is too large
    if data.min() >= 0 and (data.dtype.kind == "i" or data.max() <= LARGEST):
        return None
    entry = int(np.argmax(~((data >= 0) & (data <= LARGEST))))
    return int(np.searchsorted(indptr, entry, side="right")) - 1, data[entry]


def document_frequency(indices: np.ndarray, data: np.ndarray, n_features: int) -> np.ndarray:
    """Return in how many documents each column occurs, int64 of shape (n_features,).

    `indices`, `data`: shape (n_nonzeros,): of CSR arrays without repeated columns. Entries of 0 do not count.
    """
    from sdem_dist.kernels.csr import add_each  # numba comes with it

    counts = np.zeros(n_features, np.int64)
    add_each(counts, indices if data.all() else indices[data != 0])
    return counts


def check_structure(X: sp.sparray | sp.spmatrix, what: str) -> None:
    """Raise CorpusError, a ValueError, unless the arrays of a sparse matrix fit together.

    SciPy trusts them: with others it may end the process, or read entries of other columns. To be called before
    anything is sorted, cut, cast or converted. Takes no copies.

    `X`: of any format; formats without index arrays pass.
    `what`: what the message calls it.
    """
    if X.format in ("csr", "csc", "bsr") and X.ndim == 2:
        block = X.data.shape[1:] if X.format == "bsr" else (1, 1)
        n, bound = (X.shape[0] // block[0], X.shape[1] // block[1]) if X.format != "csc" else X.shape[::-1]
        _check_compressed(X, n, bound, what, ("column", "row") if X.format == "csc" else ("row", "column"))
    elif X.format == "coo":
        for name, places, bound in zip(("row", "column"), X.coords, X.shape, strict=True):
            _check_bounds(places, bound, len(X.data), what, name)
    elif X.format == "lil":
        for row, places in enumerate(X.rows):
            _check_bounds(np.asarray(places, np.int64), X.shape[1], len(X.data[row]), f"{what}, row {row}", "column")


def _check_compressed(X: Any, n: int, bound: int, what: str, names: tuple[str, str]) -> None:
    indptr, indices, (major, minor) = X.indptr, X.indices, names
    n_entries = min(len(indices), len(X.data))
    problem = ""
    if indptr.shape != (n + 1,) or not {indptr.dtype.kind, indices.dtype.kind} <= {"i", "u"}:
        problem = (
            f"indptr is {indptr.dtype} of shape {indptr.shape} and indices are {indices.dtype}, where {n + 1} and as many "
            "integers as entries belong"
        )
    elif indptr[0] != 0:
        problem = f"indptr begins with {indptr[0]}, not with 0"
    elif (falls := indptr[1:] < indptr[:-1]).any():
        problem = f"indptr falls at {major} {int(falls.argmax())} (from 0)"
    elif indptr[-1] > n_entries:
        first = int(np.searchsorted(indptr, n_entries, side="right")) - 1
        problem = f"indptr ends with {indptr[-1]}, and there are {n_entries} entries, too few from {major} {first} on"
    elif (entry := _out_of_bounds(indices[: indptr[-1]], bound)) is not None:
        row = int(np.searchsorted(indptr, entry, side="right")) - 1
        problem = f"{major} {row} (from 0) has an entry in {minor} {indices[entry]} of {bound} (from 0)"
    if problem:
        raise CorpusError(f"{what}: {problem}{_BROKEN}")


def _check_bounds(places: np.ndarray, bound: int, length: int, what: str, name: str) -> None:
    if places.shape != (length,):
        raise CorpusError(f"{what}: {length} entries have {name} numbers of shape {places.shape}{_BROKEN}")
    if (entry := _out_of_bounds(places, bound)) is not None:
        raise CorpusError(f"{what}: entry {entry} lies in {name} {places[entry]} of {bound} (from 0){_BROKEN}")


def _out_of_bounds(places: np.ndarray, bound: int) -> int | None:
    # As an unsigned number, one below 0 is large.
    if len(places) == 0 or int(places.view(places.dtype.str.replace("i", "u")).max()) < bound:
        return None
    return int(np.argmax((places < 0) | (places >= bound)))


def as_numbers(targets: ArrayLike, where: str) -> np.ndarray:
    """Return targets as float64.

    Raises CorpusError: one is not a number; the message begins with `where`, and names it and its document.
    """
    try:
        return np.asarray(targets, np.float64)
    except (TypeError, ValueError):
        for place, value in np.ndenumerate(np.asarray(targets, object)):
            try:
                float(np.nan if value is None else value)  # NumPy makes NaN of None
            except (TypeError, ValueError):
                of = f"document {place[0] if place else 0} (from 0)" + (f", column {place[1]}" if place[1:] else "")
                raise CorpusError(f"{where} has targets that are not numbers, first {brief(value)} of {of}") from None
        raise CorpusError(f"{where} has targets that are not numbers") from None


def checked_weights(weights: ArrayLike, n_documents: int, where: str) -> np.ndarray:
    """Return the weights of documents, float64.

    Raises CorpusError: they are not one finite number a document, or one is negative; the message begins with `where`.
    """
    try:
        column = np.asarray(weights, np.float64)
    except (TypeError, ValueError):
        raise CorpusError(f"{where} has weights that are not numbers") from None
    if column.shape != (n_documents,):
        raise CorpusError(f"{where} has {n_documents} documents and weights of shape {column.shape}")
    invalid = ~((column >= 0) & (column <= LARGEST))
    if invalid.any():
        row = int(invalid.argmax())
        raise CorpusError(
            f"{where} has the weight {column[row]} for its document {row}: weights are numbers from 0 to {LARGEST:.3g}"
        )
    return column


def checked_targets(targets: ArrayLike, n_documents: int, where: str) -> np.ndarray:
    """Return targets as a float64 table of shape (n_documents, n_targets).

    Raises CorpusError: they are not numbers, not finite, or not as many as documents; the message begins with `where`.
    """
    table = as_numbers(targets, where)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or len(table) != n_documents or table.shape[1] == 0:
        raise CorpusError(f"{where} has {n_documents} documents and targets of shape {np.shape(targets)}")
    if not np.isfinite(table).all():
        row = int((~np.isfinite(table)).any(axis=1).argmax())
        raise CorpusError(f"{where} has a target that is not finite, first for its document {row}")
    return np.ascontiguousarray(table)
