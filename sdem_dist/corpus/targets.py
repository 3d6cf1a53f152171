"""Real numbers to be predicted, one or several a document."""

from reprlib import repr as brief
from typing import SupportsFloat

import numpy as np
from numpy.typing import ArrayLike

from sdem_dist.errors import CorpusError


def as_numbers(targets: ArrayLike, where: str) -> np.ndarray:
    """Return targets as float64.

    Raises CorpusError: one is not a number; the message begins with `where`, and names it and its document.
    """
    try:
        return np.asarray(targets, np.float64)
    except (TypeError, ValueError):
        found = np.ndenumerate(np.asarray(targets, object))
        (row, *column), odd = next(((place or (0,), v) for place, v in found if not _is_number(v)), ((0,), targets))
        of = f"document {row} (from 0)" + (f", column {column[0]}" if column else "")
        raise CorpusError(f"{where} has targets that are not numbers, first {brief(odd)} of {of}") from None


def _is_number(value: SupportsFloat | str) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return value is None  # NumPy makes NaN of it
    return True


def checked_weights(weights: ArrayLike, n_documents: int, where: str) -> np.ndarray:
    """Return the weights of documents as a float64 table of one column.

    Raises CorpusError: they are not one finite number a document, or one is negative; the message begins with `where`.
    """
    try:
        column = np.asarray(weights, np.float64)
    except (TypeError, ValueError):
        raise CorpusError(f"{where} has weights that are not numbers") from None
    if column.shape != (n_documents,):
        raise CorpusError(f"{where} has {n_documents} documents and weights of shape {column.shape}")
    unfit = ~(np.isfinite(column) & (column >= 0))
    if unfit.any():
        row = int(unfit.argmax())
        raise CorpusError(f"{where} has the weight {column[row]} for its document {row}: weights are numbers from 0 on")
    return column[:, None]


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
