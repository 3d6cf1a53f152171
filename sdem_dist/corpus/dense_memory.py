"""A dense table in memory, read like a corpus."""

from collections.abc import Sequence

import numpy as np

from sdem_dist.corpus.layout import ClassLabel
from sdem_dist.corpus.memory import InMemory, checked_weights, order_of
from sdem_dist.documents import DenseDocuments
from sdem_dist.errors import CorpusError


class DenseMemoryCorpus(InMemory[DenseDocuments]):
    """Rows of a table behind the reading interface of `Corpus`.

    Parameters
    ----------
    X : ndarray of shape (n_documents, n_features), float32 or float64
        Finite, or NaN for a missing value.
    y_positions : ndarray of shape (n_documents,), integers
        Position of each document's class in `classes`, or -1 for a document without a label.
    classes : sequence of labels
    weights : ndarray of shape (n_documents,), optional
    rows : ndarray of shape (n_chosen,), integers, optional
        The rows of `X`, ascending, that are documents. By default all.
    random_state : int, default 0
        Seed of the order of the documents.
    shuffle : bool, default True
        Permute the documents, once.

    Raises
    ------
    CorpusError
        There is no document or no column, a value is infinite, or weights are negative or not finite.
    """

    def __init__(
        self,
        X: np.ndarray,
        y_positions: np.ndarray,
        classes: Sequence[ClassLabel],
        *,
        weights: np.ndarray | None = None,
        rows: np.ndarray | None = None,
        random_state: int = 0,
        shuffle: bool = True,
    ) -> None:
        if X.ndim != 2 or 0 in X.shape:
            raise CorpusError(f"a table of shape {X.shape} holds no documents")
        if np.isinf(X).any():
            raise CorpusError(f"row {int(np.isinf(X).any(axis=1).argmax())} of the table (from 0) holds an infinity")
        documents = DenseDocuments(np.ascontiguousarray(X), y_positions.astype(np.int32), checked_weights(weights))
        order = order_of(len(X), rows, random_state, shuffle)
        if order is not None:
            documents = documents[order]
        super().__init__(documents, tuple(classes), order, len(X))
