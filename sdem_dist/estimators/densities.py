"""Models that say how probable documents or rows are, classes or components summed out."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.fitting.scoring import over_corpus
from sdem_dist.losses import marginal_log_likelihood


class WithDensity(EngineEstimator):
    """Base of the estimators with `score_samples`."""

    @abstractmethod
    def _joint_log_proba(self, X: object) -> np.ndarray:
        """Return ln p(class or cluster, document) of documents in memory."""

    def score_samples(self, X: object) -> np.ndarray:
        """Return ln p(x) of each document or row, shape (n_samples,).

        Of the values that are not missing; of counts without the multinomial coefficient.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), texts, or Corpus

        Returns
        -------
        ndarray of shape (n_samples,), float64
            In nats.
        """
        check_is_fitted(self)
        return over_corpus(self, X, lambda b: marginal_log_likelihood(self._joint_log_proba(b)))
