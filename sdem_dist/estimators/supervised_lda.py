"""Supervised LDA by mirror-descent back-propagation (BP-sLDA): a classifier and a regressor."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from sdem_dist.estimators import inputs
from sdem_dist.estimators.classifier import EngineClassifier
from sdem_dist.estimators.scoring import over_blocks
from sdem_dist.estimators.settings import class_weights
from sdem_dist.estimators.topic_model import TopicModel
from sdem_dist.estimators.word_sources import word_source
from sdem_dist.learners.words import WordSummary
from sdem_dist.models.supervised_lda import outputs


class SupervisedLDAClassifier(TopicModel, EngineClassifier):
    """Topics that are learned to tell classes: BP-sLDA with softmax outputs.

    A document's topics are found from its words alone, by `n_layers` steps of mirror descent, and its class from them:
    ``p(c | d)`` is proportional to ``exp(gamma U theta)``. Topics Phi and U are learned together by back-propagation
    through all steps.

    Parameters
    ----------
    gamma : float, default=1.0
        Factor inside the softmax.
    output_rate : float, default=3.0
        mu_u of Algorithm 2, for U; it falls linearly to 0.
    log_counts : bool, default=False
        Take ln(1 + x) of all counts first, in training and prediction, also those of a corpus on disk.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in scikit-learn.
    **shared
        See `sdem_dist.estimators.topic_model.TopicModel`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (n_classes, n_components)
        U.

    References
    ----------
    Chen et al. (2015). End-to-end Learning of LDA by Mirror-Descent Back Propagation over a Deep Architecture. NIPS.
    """

    def __init__(
        self,
        *,
        gamma: float = 1.0,
        output_rate: float = 3.0,
        log_counts: bool = False,
        class_weight: Any = None,
        **shared: Any,
    ) -> None:
        super().__init__(**shared)
        self.gamma = gamma
        self.output_rate = output_rate
        self.log_counts = log_counts
        self.class_weight = class_weight

    def _kind(self, source: inputs.Source, summary: WordSummary) -> dict[str, Any]:
        return {
            "response": "classes",
            "n_outputs": len(source.classes),
            "gamma": float(self.gamma),
            "output_rate": float(self.output_rate),
            "log_counts": bool(self.log_counts),
            "class_weight": class_weights(self.class_weight, source),
        }

    @property
    def coef_(self) -> np.ndarray:
        """U, shape (n_classes, n_components)."""
        check_is_fitted(self)
        return np.asarray(self._parameters.output)

    def _topic_labels(self) -> list[Any]:
        return self.classes_[self._parameters.output.argmax(axis=0)].tolist()

    def _class_scores(self, X: Any) -> np.ndarray:
        return self._learner.gamma * outputs(self._parameters.output, self._proportions(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


class SupervisedLDARegressor(RegressorMixin, TopicModel):
    """Topics that are learned to predict real numbers, one or several: BP-sLDA with Gaussian outputs.

    As `SupervisedLDAClassifier`, with the prediction ``U theta``. Targets are standardised for training.

    Parameters
    ----------
    gamma : float, default=1.0
        Precision of the noise of standardised targets: the loss is ``gamma / 2`` times the squared error.
    output_rate : float, default=0.3
        mu_u of Algorithm 2, for U; it falls linearly to 0.
    log_counts : bool, default=False
        Take ln(1 + x) of all counts first, in training and prediction, also those of a corpus on disk.
    **shared
        See `sdem_dist.estimators.topic_model.TopicModel`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_targets, n_components)
        What each topic predicts.

    References
    ----------
    Chen et al. (2015). End-to-end Learning of LDA by Mirror-Descent Back Propagation over a Deep Architecture. NIPS.
    """

    _monitor = "mse"
    _topic_rate = 0.3

    def __init__(
        self,
        *,
        gamma: float = 1.0,
        output_rate: float = 0.3,
        log_counts: bool = False,
        **shared: Any,
    ) -> None:
        super().__init__(**shared)
        self.gamma = gamma
        self.output_rate = output_rate
        self.log_counts = log_counts

    def _training_source(self, X: Any, y: Any, sample_weight: Any, client: Any) -> inputs.Source:
        return word_source(self, X, y, sample_weight, client, reset=True, targets=True)

    def _evaluation_source(self, X: Any, y: Any, client: Any) -> inputs.Source:
        return word_source(self, X, y, None, client, reset=False, targets=True)

    def _kind(self, source: inputs.Source, summary: WordSummary) -> dict[str, Any]:
        if not np.isfinite(summary.squares).all():
            raise ValueError("y has numbers too large for their variance to be a float64: divide them by a constant")
        return {
            "response": "targets",
            "n_outputs": len(summary.mean),
            "gamma": float(self.gamma),
            "output_rate": float(self.output_rate),
            "log_counts": bool(self.log_counts),
            "location": tuple(summary.mean.tolist()),
            "scale": tuple(summary.scale.tolist()),
        }

    @property
    def coef_(self) -> np.ndarray:
        """What each topic predicts, shape (n_targets, n_components)."""
        check_is_fitted(self)
        location, scale = (np.asarray(v)[:, None] for v in (self._learner.location, self._learner.scale))
        return np.asarray(location + scale * self._parameters.output)

    def _topic_labels(self) -> list[Any]:
        return self.coef_[0].tolist() if self._single else [tuple(column) for column in self.coef_.T.tolist()]

    def predict(self, X: Any) -> Any:
        """Return the targets, shape (n_samples,), or (n_samples, n_targets) where they were columns.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array} of shape (n_samples, n_features)
            For a dask array the result is one too, computed block by block.
        """
        check_is_fitted(self)

        def predicted(rows: Any) -> np.ndarray:
            # A document's topics sum to 1, so that the targets' location can be each topic's.
            found = outputs(self.coef_, self._proportions(rows))
            return found[:, 0] if self._single else found

        return over_blocks(self, X, predicted, None if self._single else self._learner.n_outputs)

    def _extra(self) -> dict[str, Any]:
        """Return what a model file holds beside arrays and settings."""
        return {"single": self._single}

    def _take_extra(self, extra: Any) -> None:
        """Take back what `_extra` returned."""
        self._single = bool(dict(extra)["single"])
        if self._single and self._learner.n_outputs != 1:
            raise ValueError("a single target does not match the outputs")

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the predictive R2 on documents, or on a corpus with its own targets; of several targets the mean."""
        from sdem_dist.corpus import Corpus

        if isinstance(X, Corpus):
            if sample_weight is not None:
                raise ValueError("a corpus has no sample weights: leave sample_weight at None")
            return self.evaluate(X, y)["r2"]
        return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = False
        tags.target_tags.multi_output = True
        tags.regressor_tags.poor_score = True
        return tags
