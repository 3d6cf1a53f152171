"""Applying a fitted model to documents in memory or, block by block, to a dask array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sdem_dist.estimators.inputs import is_dask_array


def over_blocks(estimator: Any, X: Any, function: Callable[[Any], np.ndarray], n_columns: int | None) -> Any:
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
    if not is_dask_array(X):
        return function(X)
    rows = X.rechunk({1: -1})
    if n_columns is None:
        none = getattr(estimator, "classes_", np.empty(0))[:0]
        return rows.map_blocks(function, dtype=none.dtype, drop_axis=1, meta=none)
    meta = np.empty((0, n_columns))
    return rows.map_blocks(function, dtype=np.float64, chunks=(rows.chunks[0], (n_columns,)), meta=meta)
