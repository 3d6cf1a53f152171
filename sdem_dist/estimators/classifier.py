"""What classifiers share: predictions from joint scores, class priors and class weights."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
from scipy.special import log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from sdem_dist.calibration import conformal_scores, conformal_sets, conformal_thresholds, possible
from sdem_dist.corpus import Corpus
from sdem_dist.errors import ModelError
from sdem_dist.estimators import parameters as p
from sdem_dist.fitting.scoring import over_blocks, ranges_of
from sdem_dist.inputs.source import Source, source_of
from sdem_dist.inputs.spec import Estimator
from sdem_dist.inputs.validation import checked_labels, has_label
from sdem_dist.label_scores import probabilities

if TYPE_CHECKING:
    from distributed import Client

    from sdem_dist.reports.explanation import DocumentParts, Explanations

FAR = -float(np.log(np.finfo(float).eps))
"""Log-odds beyond which a probability is 1 in float64: from there on decision functions grow logarithmically."""


class EngineClassifier(ClassifierMixin, Estimator):
    """What classifiers answer; they define how documents are scored."""

    _learned: ClassVar[Mapping[str, str]] = {"classes_": "ndarray of shape (n_classes,)"}

    @abstractmethod
    def _class_scores(self, X: object) -> np.ndarray:
        """Return ln p(y | d) of documents in memory, up to a constant of each; of several labels their log-odds."""

    def _log_probabilities(self, scores: np.ndarray) -> np.ndarray:
        if self.several_labels:
            return np.asarray(log_expit(scores))
        return np.asarray(log_softmax(scores, axis=1))

    def _predicted(self, X: object) -> np.ndarray:
        """Return the classes of documents in memory; of several labels which of them a document gets."""
        scores = self._class_scores(X)
        if self.several_labels:
            return np.asarray(probabilities(scores) >= self.thresholds_, np.int64)  # type: ignore[attr-defined]
        return np.asarray(self.classes_[scores.argmax(axis=1)])

    @property
    def temperature_(self) -> float:
        """What scores are divided by for probabilities."""
        check_is_fitted(self)
        return float(getattr(self.learner_, "temperature", 1.0))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = self.spec.poor_score
        tags.classifier_tags.multi_label = tags.target_tags.multi_output = self.spec.label_sets
        return tags

    @property
    def _monitor(self) -> str:
        loss = getattr(self, "loss", None)
        return loss if loss in ("nll", "ncll", "hinge") else "ncll"

    @p.takes("collection", "client")
    def predict_log_proba(self, X: object, client: Client | None = None) -> Any:
        """Return ln p(y | d), shape (n_samples, n_classes).

        Returns
        -------
        ndarray of shape (n_samples, n_classes), float64
        """
        check_is_fitted(self)
        return over_blocks(
            self, X, lambda b: self._log_probabilities(self._class_scores(b)), len(self.classes_), client
        )

    @p.takes("collection", "client")
    def predict_proba(self, X: object, client: Client | None = None) -> Any:
        """Return p(y | d), shape (n_samples, n_classes).

        Returns
        -------
        ndarray of shape (n_samples, n_classes), float64
            Rows sum to 1, except where documents have several labels.
        """
        check_is_fitted(self)

        def predicted(rows: object) -> np.ndarray:
            scores = self._class_scores(rows)
            return probabilities(scores) if self.several_labels else np.asarray(softmax(scores, axis=1))

        return over_blocks(self, X, predicted, len(self.classes_), client)

    @p.takes("collection", "client")
    def predict(self, X: object, client: Client | None = None) -> Any:
        """Return each document's most probable class, shape (n_samples,).

        Returns
        -------
        ndarray of shape (n_samples,)
            With the dtype of `classes_`. Where documents have several labels an indicator matrix of shape (n_samples,
            n_classes), int64: a document gets the labels whose probability is at least their threshold.
        """
        check_is_fitted(self)
        n_columns = len(self.classes_) if self.several_labels else None
        return over_blocks(self, X, self._predicted, n_columns, client)

    @p.takes("X", "y")
    def calibrate_sets(self, X: object, y: object = None) -> Self:
        """Find the thresholds of `predict_sets` from held-out documents.

        The documents must not have taken part in training, nor, as `validation`, in choosing training time or a
        temperature. What is found is saved with the model; another fit forgets it. A warning says so where they are all
        documents of the training, as far as a model that weighs words can tell.

        Returns
        -------
        self

        Raises
        ------
        ValueError, CorpusError
            A label is not among the classes, or the documents have none.
        ModelError
            The model gives documents several labels.
        """
        from sdem_dist.reports.reporting import was_trained_on

        check_is_fitted(self)
        if self.several_labels:
            raise ModelError(
                "sets of classes are for documents of one label; these have several, and predict gives them"
            )
        source = source_of(self, X, y, use="score")
        if was_trained_on(self, source.corpus):
            warnings.warn(
                "the model was trained on these documents: sets of new ones will hold the right class less often than their "
                "coverage says; take documents that had no part in it, such as what sdem ingest --held-out puts aside",
                stacklevel=2,
            )
        labels = np.concatenate(cast(Any, [source.corpus.read(*part).labels for part in ranges_of(source.corpus)]))
        labels = labels if source.corpus.mask is None else labels[source.corpus.mask]
        self.set_scores_ = conformal_scores(self.predict_proba(source.corpus), labels)
        return self

    @p.takes("X")
    def predict_sets(self, X: object, coverage: float = 0.9) -> np.ndarray:
        """Return a set of possible classes for each document, bool of shape (n_samples, n_classes).

        The sets of at least a share `coverage` of a class's new documents hold that class, if these are exchangeable
        with the documents of `calibrate_sets`. A set may be empty. Classes of few such documents are taken together;
        see `sdem_dist.calibration`.

        Parameters
        ----------
        coverage : float, default=0.9
            Between 0 and 1.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), bool

        Raises
        ------
        ModelError
            `calibrate_sets` was not called.
        """
        return conformal_sets(self.predict_proba(X), self.set_thresholds(coverage))

    def set_thresholds(self, coverage: float) -> np.ndarray:
        """Return one minus the least probability with which each class is in a set, shape (n_classes,)."""
        check_is_fitted(self)
        if not hasattr(self, "set_scores_"):
            raise ModelError(
                "sets of classes need labelled documents that had no part in the training: show them to calibrate_sets(X, y), "
                "or to sdem calibrate MODEL CORPUS"
            )
        return conformal_thresholds(self.set_scores_, coverage)

    @p.takes("collection", "client")
    def decision_function(self, X: object, client: Client | None = None) -> Any:
        """Return what decides between classes.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or (n_samples,) with two classes
            ln p(y | d); with two classes the log-odds of the second one. What lies beyond 36 (a probability under
            2**-52) grows as the logarithm of its distance from there: tools that calibrate or combine columns compare
            documents, and a few values of -1e9 would outweigh all others. Where documents have several labels the
            log-odds of each, over its temperature.
        """
        check_is_fitted(self)

        def decisions(rows: object) -> np.ndarray:
            scores = self._class_scores(rows)
            if self.several_labels:
                return scores
            scores = possible(scores)
            if len(self.classes_) == 2:
                half = compressed(scores[:, 1] - scores[:, 0]) / 2.0
                return np.column_stack([-half, half])
            return compressed(self._log_probabilities(scores))

        scores = over_blocks(self, X, decisions, len(self.classes_), client)
        return scores if len(self.classes_) != 2 or self.several_labels else scores[:, 1] - scores[:, 0]

    def explain(self, X: object, against: object = None) -> Explanations:
        """Return why each document was taken for its class: log-odds against another class, as a sum over its words.

        Parameters
        ----------
        X : texts, or {array-like, sparse matrix} of shape (n_samples, n_features)
            Texts get their words marked.
        against : class label, or list of one for each document, default=None
            The other class. None, or the class that is predicted itself: the runner-up.

        Returns
        -------
        Explanations
            A list of `Explanation`, see `sdem_dist.reports.explanation`.

        Raises
        ------
        ValueError
            `against` is not a class of the model, or the documents do not fit it.
        ModelError
            The model's scores are not a sum over words.
        """
        from sdem_dist.reports.explaining import explanations

        return explanations(self, X, against)

    def _document_parts(self, documents: object, pairs: np.ndarray) -> list[DocumentParts]:
        """Return the log-odds of the classes of `pairs` as a sum over words, for each of some documents."""
        from sdem_dist.reports.explaining import refused

        raise refused(self)

    @p.takes("X", "y", "sample_weight")
    def score(self, X: object, y: object = None, sample_weight: object = None) -> float:
        """Return the accuracy on documents, or on a corpus with its own labels.

        Documents without a label (see `unlabelled`) do not count. Where documents have several labels, it is the share
        of documents all of whose labels are right.

        Returns
        -------
        float
        """
        from sdem_dist.fitting.running import evaluate_source

        if isinstance(X, Corpus) or self.several_labels:
            return evaluate_source(self, source_of(self, X, y, sample_weight, use="score"), None)["accuracy"]
        labels: Any = None if y is None else checked_labels(self, y)
        if y is None or self.unlabelled is None:
            return float(super().score(X, labels, sample_weight))
        labels = np.asarray(labels).ravel()
        labelled = has_label(self, labels)
        if not labelled.any():
            raise ValueError("none of the documents to be scored has a label: accuracy needs some that have")
        right = np.asarray(self.predict(X)) == labels
        weights = None if sample_weight is None else np.asarray(sample_weight)[labelled]
        return float(np.average(right[labelled], weights=weights))


def compressed(scores: np.ndarray) -> np.ndarray:
    """Return scores whose distance from 0 grows logarithmically beyond `FAR`; their order stays."""
    beyond = np.maximum(np.minimum(np.abs(scores), np.finfo(float).max) - FAR, 0.0)
    return np.where(beyond > 0, np.copysign(FAR + np.log1p(beyond), scores), scores)


class LabelSets(EngineClassifier):
    """What classifiers answer whose documents may have several labels."""

    @property
    @abstractmethod
    def thresholds_(self) -> np.ndarray:
        """Lowest probability with which a document gets each label, shape (n_labels,)."""

    @p.takes("X")
    def labels_of(self, X: object) -> list[tuple[Any, ...]]:
        """Return the labels of each document by name, the most probable first, where it may have several.

        Returns
        -------
        list of tuple
        """
        check_is_fitted(self)
        names, least = self.classes_.tolist(), self.thresholds_
        return [
            tuple(names[k] for k in np.argsort(-row, kind="stable").tolist() if row[k] >= least[k])
            for row in np.asarray(self.predict_proba(X))
        ]


class JointClassifier(EngineClassifier):
    """What classifiers that are joint distributions of classes and documents answer beside that."""

    @abstractmethod
    def _joint_log_proba(self, X: object) -> np.ndarray:
        """Return ln p(y, d) of documents in memory."""

    def _class_scores(self, X: object) -> np.ndarray:
        return self._joint_log_proba(X) / self.temperature_

    @property
    def class_log_prior_(self) -> np.ndarray:
        """Logarithm of p(class), shape (n_classes,)."""
        check_is_fitted(self)
        return np.asarray(self._parameters.log_prior)

    @p.takes("collection", "client")
    def predict_joint_log_proba(self, X: object, client: Client | None = None) -> Any:
        """Return ln p(y, d), shape (n_samples, n_classes); of counts without the multinomial coefficient.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), float64
            In nats.
        """
        check_is_fitted(self)
        return over_blocks(self, X, self._joint_log_proba, len(self.classes_), client)


def fixed_log_prior(class_prior: object, fit_prior: bool, n_classes: int) -> tuple[float, ...] | None:
    """Return ln p(y) from the parameters of that name; None if it is to be learnt."""
    if class_prior is not None:
        return log_shares(class_prior, n_classes)
    return None if fit_prior else (-float(np.log(n_classes)),) * n_classes


def log_shares(class_prior: object, n_classes: int) -> tuple[float, ...]:
    """Return the logarithms of a class prior.

    Raises ValueError: it does not have a number for each class, a number is negative or not finite, or they do not
    sum to 1.
    """
    prior = np.asarray(class_prior, np.float64)
    if prior.shape != (n_classes,):
        raise ValueError(f"Number of priors must match number of classes: {prior.size} for {n_classes}")
    if not (np.isfinite(prior).all() and (prior >= 0).all()):
        raise ValueError(f"class_prior must be made of finite numbers, none negative, got {prior.tolist()}")
    if not np.isclose(prior.sum(), 1.0):
        raise ValueError(f"The sum of the priors should be 1, and is {prior.sum():.6g}: {prior.tolist()}")
    with np.errstate(divide="ignore"):
        return tuple(np.log(prior).tolist())


def step_weights(estimator: Any, source: Source) -> tuple[float, ...] | None:
    """Return the weights of the classes' documents where a step goes no further than that of weight 1: 1 at most."""
    weights = weights_of_classes(estimator, source)
    largest = max(weights or (0.0,))
    return weights if weights is None or largest == 0.0 else tuple(w / largest for w in weights)


def weights_of_classes(estimator: Any, source: Source) -> tuple[float, ...] | None:
    """Return the weights of the classes' documents, as scikit-learn understands `class_weight`.

    Where a loss has no scale of counts, they get the mean 1 over the documents, as weights of documents do.
    """
    class_weight, counts = estimator.class_weight, np.asarray(source.class_counts, np.float64)
    if class_weight is None:
        return None
    if isinstance(class_weight, str) and class_weight == "balanced":
        return tuple((counts.sum() / (len(counts) * np.maximum(counts, 1.0))).tolist())
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be a dict, 'balanced' or None, got {class_weight!r}")
    if not all(np.isfinite(w) and w >= 0 for w in class_weight.values()):
        raise ValueError(f"class_weight must be made of finite numbers, none negative, got {class_weight!r}")
    classes = source.classes.tolist()
    if unknown := set(class_weight) - set(classes):
        raise ValueError(f"class_weight names classes that do not exist: {sorted(unknown, key=str)}")
    weights = np.array([class_weight.get(c, 1.0) for c in classes], np.float64)
    weighed = float(weights @ counts)
    if estimator._weights_are_relative and weighed > 0:
        weights *= counts.sum() / weighed
    return tuple(weights.tolist())
