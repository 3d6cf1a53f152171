"""What classifiers share: predictions from joint scores."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sdem_dist.estimators import inputs
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.estimators.labels import checked_labels
from sdem_dist.estimators.scoring import over_blocks


class EngineClassifier(ClassifierMixin, EngineEstimator):
    """Base of the classifiers; they say how documents are scored."""

    @abstractmethod
    def _class_scores(self, X: Any) -> np.ndarray:
        """Return ln p(y | d) of documents in memory, up to a constant of each document."""

    def _training_source(self, X: Any, y: Any, sample_weight: Any, client: Any) -> inputs.Source:
        return inputs.training_source(self, X, y, sample_weight, client)

    def _evaluation_source(self, X: Any, y: Any, client: Any) -> inputs.Source:
        return inputs.evaluation_source(self, X, y, client)

    @property
    def _monitor(self) -> str:
        loss = getattr(self, "loss", None)
        return loss if isinstance(loss, str) else "ncll"

    def _describe(self, source: inputs.Source) -> None:
        super()._describe(source)
        self.classes_ = source.classes

    def predict_log_proba(self, X: Any) -> Any:
        """Return ln p(y | d), shape (n_samples, n_classes).

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array} of shape (n_samples, n_features)
            For a dask array the result is one too, computed block by block.
        """
        from scipy.special import log_softmax

        check_is_fitted(self)
        return over_blocks(self, X, lambda b: log_softmax(self._class_scores(b), axis=1), len(self.classes_))

    def predict_proba(self, X: Any) -> Any:
        """Return p(y | d), shape (n_samples, n_classes)."""
        from scipy.special import softmax

        check_is_fitted(self)
        return over_blocks(self, X, lambda b: softmax(self._class_scores(b), axis=1), len(self.classes_))

    def predict(self, X: Any) -> Any:
        """Return the most probable class of each document, shape (n_samples,)."""
        check_is_fitted(self)
        return over_blocks(self, X, lambda b: self.classes_[self._class_scores(b).argmax(axis=1)], None)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy on documents, or on a corpus with its own labels."""
        from sdem_dist.corpus import Corpus

        if isinstance(X, Corpus):
            if sample_weight is not None:
                raise ValueError("a corpus has no sample weights: leave sample_weight at None")
            return self.evaluate(X, y)["accuracy"]
        if y is not None:
            checked_labels(self, y)
        return float(super().score(X, y, sample_weight))


class SdemClassifier(EngineClassifier):
    """Base of the classifiers that are joint distributions of classes and documents."""

    @abstractmethod
    def _joint_log_proba(self, X: Any) -> np.ndarray:
        """Return ln p(y, d) of documents in memory."""

    def _class_scores(self, X: Any) -> np.ndarray:
        return self._joint_log_proba(X)

    def predict_joint_log_proba(self, X: Any) -> Any:
        """Return ln p(y, d), shape (n_samples, n_classes); of counts without the multinomial coefficient.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array} of shape (n_samples, n_features)
            For a dask array the result is one too, computed block by block.
        """
        check_is_fitted(self)
        return over_blocks(self, X, self._joint_log_proba, n_columns=len(self.classes_))
