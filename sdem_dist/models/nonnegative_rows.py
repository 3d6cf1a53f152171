"""Nonnegative rows as the multiplicative updates take them: scaled, perhaps expanded, dense or sparse."""

from dataclasses import dataclass, replace

import numpy as np

from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.models.word_counts import lengths
from sdem_dist.records import record

INNER_PRODUCT = 2.0
"""Mean product of two scaled rows: about the size of the logits at a start from examples."""


@record
@dataclass(frozen=True)
class RowTransform:
    """How rows are transformed before a model sees them."""

    scale: float = 0.0  # rows are divided by their sums and multiplied by this; 0 leaves them as they are
    expand: bool = False  # expand dense rows quadratically (Saul and Lee 2001, equation 9), after scaling

    def n_features(self, n_columns: int) -> int:
        """Return the number of features of rows with `n_columns` columns."""
        return 1 + n_columns + n_columns * (n_columns + 1) // 2 if self.expand else n_columns

    def n_columns(self, n_features: int) -> int:
        """Undo `n_features`; -1 for a number that no rows have."""
        n = int(np.sqrt(2 * n_features)) - 1 if self.expand else n_features
        return n if self.n_features(n) == n_features else -1

    def dense(self, X: np.ndarray) -> np.ndarray:
        """Return rows of a table, shape (n, n_features), of X's dtype.

        Expanded: ``[1, x_1, ..., x_d, x_1 x_1, x_1 x_2, ..., x_d x_d]`` (equation 9).
        """
        if self.scale:
            X = X * (self.scale / _not_zero(X.sum(axis=1, dtype=np.float64))).astype(X.dtype)[:, None]
        if not self.expand:
            return X
        first, second = np.triu_indices(X.shape[1])
        return np.concatenate([np.ones((len(X), 1), X.dtype), X, X[:, first] * X[:, second]], axis=1)

    def sparse(self, documents: Documents) -> Documents:
        """Return documents with float64 entries."""
        data = documents.data.astype(np.float64)
        if self.scale:
            factor = self.scale / _not_zero(lengths(documents))
            data *= np.repeat(factor, np.diff(documents.indptr))
        return replace(documents, data=data)


AS_IS = RowTransform()


def row_sums(documents: DenseDocuments | Documents) -> np.ndarray:
    """Return the sum of every row, shape (n_documents,), float64."""
    if isinstance(documents, Documents):
        return lengths(documents)
    return np.asarray(documents.values.sum(axis=1, dtype=np.float64))


def normalised_sum(documents: DenseDocuments | Documents) -> np.ndarray:
    """Return the sum over rows of each row divided by its sum, shape (n_columns,), float64."""
    factor = 1.0 / _not_zero(row_sums(documents))
    if isinstance(documents, Documents):
        entries = documents.data * np.repeat(factor, np.diff(documents.indptr))
        return np.bincount(documents.indices, entries, documents.n_features)
    return np.asarray((documents.values * factor[:, None]).sum(axis=0))


def scale_of(mean_row: np.ndarray) -> float:
    """Return the scale with which two rows have a product of `INNER_PRODUCT` on average.

    `mean_row`: shape (n_columns,): mean of the rows divided by their sums.
    """
    length = float(np.sqrt((mean_row**2).sum()))
    return float(np.sqrt(INNER_PRODUCT)) / length if length > 0 else 1.0


def _not_zero(sums: np.ndarray) -> np.ndarray:
    return np.where(sums > 0, sums, 1.0)
