"""Applying a fitted model to documents in memory or, piece by piece, to a dask array or a corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import scipy.sparse as sp

from sdem_dist.corpus import Corpus
from sdem_dist.documents import Documents
from sdem_dist.estimators.matching import check_words
from sdem_dist.estimators.source import check_layout, described
from sdem_dist.estimators.validation import is_dask
from sdem_dist.interrupts import heard

if TYPE_CHECKING:
    from sdem_dist.estimators.spec import Estimator

PIECE = 16_384
"""Documents of a corpus that are read at a time."""


def over_blocks(estimator: Estimator, X: Any, function: Callable[[Any], np.ndarray], n_columns: int | None) -> Any:
    """Return ``function(X)``, lazily for a dask array.

    Parameters
    ----------
    estimator : fitted estimator
    X : {array-like, sparse matrix, dask array} of shape (n_samples, n_features)
    function : callable
        From rows in memory to an array with as many rows.
    n_columns : int or None
        Columns of the result; None for one value a row.
    """
    if not is_dask(X):
        with heard():
            return function(X)
    rows = X.rechunk({1: -1})
    if n_columns is None:
        one = getattr(estimator, "classes_", np.empty(0, np.int64))[:0]  # clusters have numbers
        return rows.map_blocks(function, dtype=one.dtype, drop_axis=1, meta=one)
    meta = np.empty((0, n_columns))
    return rows.map_blocks(function, dtype=np.float64, chunks=(rows.chunks[0], (n_columns,)), meta=meta)


def over_documents(
    estimator: Estimator, X: object, function: Callable[[Any], np.ndarray], n_columns: int | None
) -> Any:
    """Return ``function(X)`` as `over_blocks` does, or of all documents of a corpus, in its order.

    Raises
    ------
    CorpusError
        The words of the corpus are not the model's; its labels and targets play no part.
    """
    if not isinstance(X, Corpus):
        return over_blocks(estimator, X, function, n_columns)
    check_layout(estimator, X)
    check_words(estimator, described(X))  # pieces do not say which words their columns are
    return np.concatenate([function(rows) for rows in pieces(X)])


def pieces(X: object) -> Iterator[sp.csr_matrix]:
    """Yield the documents of a sparse corpus as CSR matrices, or `X` if it is no corpus."""
    if not isinstance(X, Corpus):
        yield X
        return
    for start in range(0, X.n_documents, PIECE):
        yield cast(Documents, X.read(start, min(start + PIECE, X.n_documents))).to_csr()
