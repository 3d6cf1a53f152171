"""What estimators that describe documents by a few numbers share: distances from centres, or topics."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.fitting.scoring import over_blocks

if TYPE_CHECKING:
    from distributed import Client

    from sdem_dist.inspection.topics import Topics


class Transforming(ClassNamePrefixFeaturesOutMixin, TransformerMixin, EngineEstimator):
    """Base of the estimators with `transform`."""

    @property
    @abstractmethod
    def _n_features_out(self) -> int: ...

    @abstractmethod
    def _transformed(self, X: object) -> np.ndarray:
        """Return the numbers of documents in memory, shape (n_samples, n_features_out)."""

    def transform(self, X: object, client: Client | None = None) -> Any:
        """Return documents as a few numbers: topic proportions, whose rows sum to 1, or distances from centres.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array} of shape (n_samples, n_features), texts, or Corpus
            For a dask array the result is one too, computed block by block. A corpus is read piece by piece; rows
            come in its order, see `sdem_dist.corpus.Corpus.ids`.
        client : distributed.Client, optional
            Its workers read a corpus; the result is gathered here.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out), float64
            One column for each topic, in the order of `components_`, or for each centre.
        """
        check_is_fitted(self)
        return over_blocks(self, X, self._transformed, self._n_features_out, client)


class WithTopics(Transforming):
    """Base of the models whose topics can be looked at."""

    @abstractmethod
    def _topics(self, n_words: int) -> Topics:
        """Return the topics, with so many words of each."""

    def topics(self, n_words: int = 10) -> Topics:
        """Return all topics with their words, in the order of `components_`, see `sdem_dist.inspection.topics.Topic`.

        Parameters
        ----------
        n_words : int, default=10
            Words of each topic.

        Returns
        -------
        Topics
            A list that shows itself as a table.
        """
        check_is_fitted(self)
        return self._topics(n_words)
