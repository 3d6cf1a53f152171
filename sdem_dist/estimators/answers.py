"""What estimators answer beside what classifiers do: densities, clusters, a few numbers for each document, topics."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sdem_dist.errors import ModelError
from sdem_dist.fitting.scoring import drawn_from, over_blocks, over_corpus, sample_counts
from sdem_dist.inputs.spec import Estimator
from sdem_dist.losses import marginal_log_likelihood

if TYPE_CHECKING:
    import scipy.sparse as sp
    from distributed import Client

    from sdem_dist.reports.top_words import Topics


class WithDensity(Estimator):
    """How probable documents or rows are, classes or components summed out."""

    @abstractmethod
    def _joint_log_proba(self, X: object) -> np.ndarray:
        """Return ln p(class or cluster, document) of documents in memory."""

    def score_samples(self, X: object) -> np.ndarray:
        """Return ln p(x) of each document or row, shape (n_samples,).

        Missing values are summed out. Counts are without the multinomial coefficient.

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


class Clustering(ClusterMixin, Estimator):
    """Which cluster documents are in. Labels play no part: `fit` ignores `y`."""

    labels_: np.ndarray
    _learned: ClassVar[Mapping[str, str]] = {
        "labels_": "ndarray of shape (n_samples,)\n"
        "Clusters of the training documents in memory; a corpus is passed to `predict`. Not kept in files."
    }

    @abstractmethod
    def _clusters(self, X: object) -> np.ndarray:
        """Return the cluster of each document in memory."""

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


class Transforming(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):
    """Documents as a few numbers: distances from centres, or topics."""

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


class SampledRows(Estimator):
    """Rows drawn from a joint distribution of classes, or clusters, and columns."""

    def sample(self, n_samples: int = 1, random_state: object = None) -> tuple[np.ndarray, np.ndarray]:
        """Draw rows and their classes, or clusters.

        Parameters
        ----------
        n_samples : int, default=1
            0 or more.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        X : ndarray of shape (n_samples, n_features), float64
        y : ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        drawn, rng = drawn_from(self._parameters.log_prior, n_samples, random_state)
        X = self.learner_.model.variables.sample(self._parameters, drawn, rng)
        return X, self.classes_[drawn] if self.spec.target == "labels" else drawn


class SampledDocuments(Estimator):
    """Documents drawn from a joint distribution of classes, or clusters, and words."""

    def sample(
        self, n_samples: int = 1, random_state: object = None, *, length: int = 100
    ) -> tuple[sp.csr_matrix, np.ndarray]:
        """Draw documents and their classes, or clusters; of classifiers with ``loss="nll"`` of counts.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState instance or None, default=None
        length : int, default=100
            Words of each document.

        Returns
        -------
        X : CSR matrix of shape (n_samples, n_features)
        y : ndarray of shape (n_samples,)

        Raises
        ------
        ModelError
            The model is not of counts.
        """
        check_is_fitted(self)
        if getattr(self, "loss", "nll") != "nll" or self.weighting_ is not None:
            raise ModelError("sample needs a model of counts with loss='nll', and this is another one")
        drawn, rng = drawn_from(self._parameters.log_prior, n_samples, random_state)
        X = sample_counts(getattr(self, self.spec.words or ""), drawn, length, rng)
        return X, self.classes_[drawn] if self.spec.target == "labels" else drawn


class Tempered(Estimator):
    """Scores that one temperature divides."""

    @property
    def temperature_(self) -> float:
        """What scores are divided by for probabilities."""
        check_is_fitted(self)
        return float(self.learner_.temperature)


class WithTopics(Estimator):
    """Topics that can be looked at."""

    @abstractmethod
    def _topics(self, n_words: int) -> Topics:
        """Return the topics, with this many words of each."""

    def topics(self, n_words: int = 10) -> Topics:
        """Return all topics with their words, ordered as `components_`, see `sdem_dist.reports.top_words.Topic`.

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
