"""What estimators answer beside what classifiers do: densities, samples, clusters, topics."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sdem_dist.errors import ModelError
from sdem_dist.estimators import parameters as p
from sdem_dist.fitting.scoring import over_blocks, over_corpus
from sdem_dist.inputs.source import documents_of, table_of
from sdem_dist.inputs.spec import Estimator
from sdem_dist.inputs.validation import seed_of
from sdem_dist.losses import marginal_log_likelihood
from sdem_dist.models.naive_bayes import joint_scores

if TYPE_CHECKING:
    from distributed import Client

    from sdem_dist.reports.parts import Row
    from sdem_dist.reports.top_words import Topics


class JointModel(Estimator):
    """A joint distribution of classes, clusters or components, and words or columns that are independent given them."""

    def _joint_log_proba(self, X: object) -> np.ndarray:
        """Return ln p(class, cluster or component, document) of documents in memory, shape (n_samples, n_columns)."""
        if self._layout == "sparse":
            return np.asarray(joint_scores(self._parameters, documents_of(self, X)))
        variables = self.learner_.model.variables
        return np.asarray(variables.scores(self._parameters, variables.features(table_of(self, X))))

    def _rows(self, X: object) -> Iterator[Row]:
        """Return the words or columns of documents in memory, with ln p of each given the classes or components."""
        from sdem_dist.reports.parts import table_rows, word_rows

        if self._layout == "sparse":
            return word_rows(self._parameters, documents_of(self, X))
        return table_rows(partial(self.learner_.model.variables.log_densities, self._parameters), table_of(self, X))

    def sample(self, n_samples: int = 1, random_state: object = None, *, length: int = 100) -> tuple[Any, np.ndarray]:
        """Draw rows or documents, and their classes or clusters; of naive Bayes of counts with ``loss="nll"`` alone.

        Parameters
        ----------
        n_samples : int, default=1
            0 or more.
        random_state : int, RandomState instance or None, default=None
        length : int, default=100
            Words of each document.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features), float64, or CSR matrix of counts
        y : ndarray of shape (n_samples,)

        Raises
        ------
        ModelError
            The model is of words, but not of counts.
        """
        check_is_fitted(self)
        counts, component_class = self._layout == "sparse", np.asarray(self.learner_.head.component_class, np.intp)
        if counts and (
            self.weighting_ is not None or (not len(component_class) and getattr(self, "loss", "") != "nll")
        ):
            raise ModelError("sample needs a model of counts with loss='nll', and this is another one")
        if not isinstance(n_samples, int | np.integer) or n_samples < 0:
            raise ValueError(f"n_samples must be an integer that is not negative, got {n_samples!r}")
        rng, prior = np.random.default_rng(seed_of(random_state)), np.exp(self._parameters.log_prior)
        drawn = rng.choice(len(prior), n_samples, p=prior / prior.sum())
        X: Any = sp.csr_matrix((0, self.n_features_in_), dtype=np.int64)
        if not counts:
            X = self.learner_.model.variables.sample(self._parameters, drawn, rng)
            if getattr(self, "components", "") == "exponential":  # an offset moves values below 0
                X = np.maximum(X, 0.0)
        elif n_samples:
            words = np.exp((self._parameters.log_words - self._parameters.log_totals).T)
            words /= words.sum(axis=1, keepdims=True)
            X = sp.vstack([sp.csr_matrix(rng.multinomial(length, words[j])) for j in drawn], format="csr")
        if self.spec.target != "labels":
            return X, drawn
        return X, self.classes_[component_class[drawn] if len(component_class) else drawn]


class WithDensity(JointModel):
    """How probable documents or rows are, classes or components summed out."""

    @p.takes("X")
    def score_samples(self, X: object) -> np.ndarray:
        """Return ln p(x) of each document or row, shape (n_samples,).

        Missing values are summed out. Counts are without the multinomial coefficient.

        Returns
        -------
        ndarray of shape (n_samples,), float64
            In nats.
        """
        check_is_fitted(self)
        return over_corpus(self, X, lambda b: marginal_log_likelihood(self._joint_log_proba(b)))


class Clustering(ClusterMixin, Estimator):
    """Which cluster documents are in. Labels play no part: `fit` ignores `y`."""

    _learned: ClassVar[Mapping[str, str]] = {
        "labels_": "ndarray of shape (n_samples,)\n"
        "Clusters of the training documents in memory; a corpus is passed to `predict`. Not kept in files."
    }

    @abstractmethod
    def _clusters(self, X: object) -> np.ndarray:
        """Return the cluster of each document in memory."""

    @p.takes("collection", "client")
    def predict(self, X: object, client: Client | None = None) -> Any:
        """Return the nearest or most probable cluster of each document.

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

    @p.takes("collection", "client")
    def transform(self, X: object, client: Client | None = None) -> Any:
        """Return documents as a few numbers: topic proportions, whose rows sum to 1, or distances from centres.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out), float64
            One column for each topic, in the order of `components_`, or for each centre.
        """
        check_is_fitted(self)
        return over_blocks(self, X, self._transformed, self._n_features_out, client)


class WithTopics(Transforming):
    """Topics that can be looked at."""

    def _topic_labels(self) -> list[object]:
        """Return the class that each topic speaks for most, or its coefficients of the targets; None without labels."""
        return [None] * self._n_features_out

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
        from sdem_dist.reports.top_words import topics_of_classes, topics_of_documents

        check_is_fitted(self)
        if self.spec.topics == "classes":
            return topics_of_classes(self, n_words)
        return topics_of_documents(self, self._topic_labels(), n_words)
