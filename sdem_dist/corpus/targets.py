"""Real numbers to be predicted, one or several a document."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdem_dist.errors import CorpusError


def checked_targets(targets: Any, n_documents: int, where: str) -> np.ndarray:
    """Return targets as a float64 table of shape (n_documents, n_targets).

    Raises
    ------
    CorpusError
        They are not numbers, not finite, or not as many as documents; the message begins with `where`.
    """
    try:
        table = np.asarray(targets, np.float64)
    except (TypeError, ValueError) as error:
        raise CorpusError(f"{where} has targets that are not numbers: {error}") from error
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or len(table) != n_documents or table.shape[1] == 0:
        raise CorpusError(f"{where} has {n_documents} documents and targets of shape {np.shape(targets)}")
    if not np.isfinite(table).all():
        row = int((~np.isfinite(table)).any(axis=1).argmax())
        raise CorpusError(f"{where} has a target that is not finite, first for its document {row}")
    return np.ascontiguousarray(table)
