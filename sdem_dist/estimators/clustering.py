"""What estimators that put documents into clusters share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from sdem_dist.corpus import Corpus
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.fitting.scoring import over_blocks

if TYPE_CHECKING:
    from distributed import Client


class Clustering(ClusterMixin, EngineEstimator):
    """Base of the estimators of clusters. Labels play no part: `fit` ignores `y`."""

    labels_: np.ndarray
    _learned: ClassVar[Mapping[str, str]] = {
        "labels_": "ndarray of shape (n_samples,)\n"
        "Clusters of the training documents in memory; a corpus is passed to `predict`. Not kept in files."
    }

    @abstractmethod
    def _clusters(self, X: object) -> np.ndarray:
        """Return the cluster of each document in memory."""

    def _fitted_to(self, X: object) -> None:
        if not isinstance(X, Corpus):
            self.labels_ = np.asarray(self.predict(X))

    def predict(self, X: object, client: Client | None = None) -> Any:
        """Return the nearest or most probable cluster of each document.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array} of shape (n_samples, n_features), texts, or Corpus
            A corpus is read piece by piece. For a dask array the result is one too.
        client : distributed.Client, optional
            Its workers read a corpus; the result is gathered here.

        Returns
        -------
        ndarray of shape (n_samples,), int64
        """
        check_is_fitted(self)
        return over_blocks(self, X, self._clusters, None, client)
