"""Predictions of estimators: classes and their probabilities, densities and samples, clusters, topics."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import log_expit, log_softmax, softmax
from sklearn import base as sklearn_base
from sklearn.utils import Tags

from sdem_dist.corpus import Corpus
from sdem_dist.counted import nearest
from sdem_dist.errors import ModelError
from sdem_dist.estimators import parameters as p
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.evaluation import decision_scores, probabilities
from sdem_dist.fitting.running import Client, evaluate_source, over_blocks, over_corpus
from sdem_dist.inputs.source import source_of
from sdem_dist.inputs.validation import checked_labels, has_label, seed_of
from sdem_dist.learners.rules import ClosedForm
from sdem_dist.losses import marginal_log_likelihood
from sdem_dist.models.naive_bayes import sample_documents
from sdem_dist.reports.explaining import explanations
from sdem_dist.reports.explanation import Explanations
from sdem_dist.reports.reporting import was_trained_on

FEW_OF_CLASS = 50  # classes with fewer held-out documents share a threshold: one of their own would be too noisy


class EngineClassifier(sklearn_base.ClassifierMixin, EngineEstimator):
    """Predictions of classifiers; subclasses define the scores.

    classes_ : ndarray of shape (n_classes,) --
    """

    temperatures_: ClassVar[Any]  # of each of several labels

    def _class_scores(self, X: object) -> np.ndarray:
        """Return ln p(y | d) of documents in memory, up to a constant of each; of several labels their log-odds."""
        return np.asarray(self._joint_log_proba(X) / (self.temperatures_ if self.several_labels else self.temperature_))

    @property
    def thresholds_(self) -> np.ndarray:
        """With several labels: lowest probability at which each is predicted. You can assign an array or a dict."""
        if not self.several_labels:
            raise AttributeError("thresholds_ needs several labels per document; for one label, use predict_proba")
        return np.broadcast_to(self.learner_.head.thresholds or 0.5, len(self.classes_))

    @thresholds_.setter
    def thresholds_(self, thresholds: np.ndarray | Sequence[float] | Mapping[Any, float]) -> None:
        values = dict(zip(self.classes_.tolist(), self.thresholds_.tolist(), strict=True))
        if hasattr(thresholds, "items"):  # also a Series of pandas
            changed = dict(thresholds.items())
            for unknown in changed.keys() - values.keys():
                raise ValueError(f"thresholds_: unknown label {unknown!r}. {nearest(str(unknown), map(str, values))}")
            values |= changed
        elif np.shape(thresholds) == (len(values),):
            values = dict(zip(values, thresholds, strict=True))
        else:
            raise ValueError(f"thresholds_ must be {len(values)} probabilities, in the order of classes_, or a dict")
        for label, value in values.items():
            if not (isinstance(value, Real) and 0.0 <= float(value) <= 1.0):
                raise ValueError(f"the threshold of {label!r} must be between 0 and 1, got {value!r}")
        self.learner_ = self.learner_.decided(thresholds=tuple(map(float, values.values())))

    def _predicted(self, X: object) -> np.ndarray:
        scores = self._class_scores(X)
        if self.several_labels:
            return np.asarray(probabilities(scores) >= self.thresholds_, np.int64)
        return np.asarray(self.classes_[scores.argmax(axis=1)])

    temperature_ = p.fitted(lambda m: getattr(m.learner_, "temperature", 1.0), "Divisor of the scores.", "float")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = self.spec.poor_score or getattr(self, "components", "gaussian") != "gaussian"
        tags.classifier_tags.multi_label = tags.target_tags.multi_output = self.spec.label_sets
        return tags

    @property
    def _monitor(self) -> str:
        loss = getattr(self, "loss", None)
        return "label_log_loss" if self.several_labels else loss if loss in ("nll", "ncll", "hinge") else "ncll"

    def predict_log_proba(self, X: object, client: Client | None = None) -> Any:
        """Return ln p(y | d), shape (n_samples, n_classes)."""
        of_scores: Any = log_expit if self.several_labels else partial(log_softmax, axis=1)
        return over_blocks(self, X, lambda b: of_scores(self._class_scores(b)), len(self.classes_), client)

    def predict_proba(self, X: object, client: Client | None = None) -> Any:
        """Return p(y | d), shape (n_samples, n_classes); rows sum to 1, except with several labels per document."""
        of_scores: Any = probabilities if self.several_labels else partial(softmax, axis=1)
        return over_blocks(self, X, lambda b: of_scores(self._class_scores(b)), len(self.classes_), client)

    def predict(self, X: object, client: Client | None = None) -> Any:
        """Return the most probable class of each document, shape (n_samples,), with the dtype of `classes_`.

        With several labels, return an indicator matrix of shape (n_samples, n_classes), int64: a label is predicted if
        its probability is at least its threshold.
        """
        n_columns = len(self.classes_) if self.several_labels else None
        return over_blocks(self, X, self._predicted, n_columns, client)

    def calibrate_sets(self, X: object, y: object = None) -> Self:
        """Choose the thresholds of `predict_sets` on held-out documents, and store them in the model.

        These documents must not have been used for training, or to choose the number of epochs or the temperature.
        `fit` removes the thresholds.

        Raises ValueError, CorpusError, ModelError -- Labels are missing, unknown, or several per document.
        """
        if self.several_labels:
            raise ModelError("prediction sets need documents with one label each")
        corpus: Any = source_of(self, X, y, use="score").corpus
        if was_trained_on(self, corpus):
            problem = "the model was trained on these documents: sets for new documents would cover less than requested"
            warnings.warn(f"{problem}; use other documents, such as those from sdem ingest --held-out", stacklevel=2)
        labels = corpus.labels() if corpus.mask is None else corpus.labels()[corpus.mask]
        self.set_scores_ = conformal_scores(self.predict_proba(corpus), labels)
        return self

    def predict_sets(self, X: object, coverage: float = 0.9) -> np.ndarray:
        """Return a possibly empty set of classes for each document, bool of shape (n_samples, n_classes).

        If new documents are exchangeable with those of `calibrate_sets`, the sets contain the true class of at
        least a fraction `coverage` of the documents of each class. Classes with few documents share thresholds.

        coverage : float, default=0.9 -- Between 0 and 1.
        Raises ModelError -- `calibrate_sets` was not called.
        """
        return np.asarray(1.0 - self.predict_proba(X) <= self.thresholds_of_sets(coverage))

    def thresholds_of_sets(self, coverage: float) -> np.ndarray:
        """Return 1 minus the lowest probability with which each class is in a prediction set, shape (n_classes,)."""
        if not hasattr(self, "set_scores_"):
            problem = "prediction sets need labelled documents that were not used for training"
            raise ModelError(f"{problem}: pass them to calibrate_sets(X, y), or to sdem calibrate MODEL CORPUS")
        return conformal_thresholds(self.set_scores_, coverage)

    def decision_function(self, X: object, client: Client | None = None) -> Any:
        """Return ln p(y | d), shape (n_samples, n_classes); with two classes the log-odds of the second, (n_samples,).

        Values beyond 36 (a probability under 2**-52) grow logarithmically, so that a few documents do not dominate in
        tools that calibrate or combine columns. With several labels, return the log-odds of each label, divided by its
        temperature.
        """
        n_columns, of_scores = len(self.classes_), np.asarray if self.several_labels else decision_scores
        two = n_columns == 2 and not self.several_labels
        scores = over_blocks(self, X, lambda b: of_scores(self._class_scores(b)), 1 if two else n_columns, client)
        return scores[:, 0] if two else scores

    def explain(self, X: object, against: object = None) -> Explanations:
        """Explain predictions: log-odds of the predicted class against another class, as a sum over words.

        X : texts, or {array-like, sparse matrix} of shape (n_samples, n_features) -- Words of texts are highlighted.
        against : class label, or one per document, default=None -- The other class. None: the second most probable.
        Returns : Explanations -- A list of `Explanation`, see `sdem_dist.reports.explanation`.
        Raises ValueError, ModelError -- `against` is not a class, or the scores are not a sum over words.
        """
        return explanations(self, X, against)

    def labels_of(self, X: object) -> list[tuple[object, ...]]:
        """Return the labels of each document, most probable first: none, one or several."""
        rows, names = np.asarray(self.predict_proba(X)), self.classes_.tolist()
        orders = np.argsort(-rows, axis=1, kind="stable").tolist()
        best = np.arange(len(names)) == rows.argmax(axis=1)[:, None]
        likely = rows >= self.thresholds_ if self.several_labels else best
        return [tuple(names[k] for k in order if has[k]) for order, has in zip(orders, likely, strict=True)]

    def score(self, X: object, y: object = None, sample_weight: object = None) -> float:
        """Return the accuracy on labelled documents; with several labels, all labels of a document must be correct."""
        if isinstance(X, Corpus) or y is None or self.several_labels:
            return evaluate_source(self, source_of(self, X, y, sample_weight, use="score"), None)["accuracy"]
        labels = np.asarray(checked_labels(self, y)).ravel()
        labelled = has_label(self, labels)
        if not labelled.any():
            raise ValueError("no document has a label: accuracy needs labels")
        from sklearn.metrics import accuracy_score

        weights = None if sample_weight is None else np.asarray(sample_weight)[labelled]
        return float(accuracy_score(labels[labelled], np.asarray(self.predict(X))[labelled], sample_weight=weights))

    @property
    def _counted(self) -> Any:
        if not isinstance(self.learner_.rule, ClosedForm):
            raise AttributeError("counts exist only with loss='nll'; with other losses, see state_ for expected counts")
        return self.state_


class JointClassifier(EngineClassifier):
    """More predictions of classifiers that model the joint distribution of classes and documents."""

    class_log_prior_ = p.fitted("_parameters.log_prior", "Logarithm of p(class), shape (n_classes,).")

    def predict_joint_log_proba(self, X: object, client: Client | None = None) -> Any:
        """Return ln p(y, d), shape (n_samples, n_classes), in nats; for counts, without the multinomial coefficient."""
        return over_blocks(self, X, self._joint_log_proba, len(self.classes_), client)


class WithDensity(EngineEstimator):
    """Density of documents or rows, summed over classes or components, and sampling."""

    def score_samples(self, X: object) -> np.ndarray:
        """Return ln p(x), in nats, of each row (missing values are marginalized) or of the words of each document."""
        return over_corpus(self, X, lambda b: marginal_log_likelihood(self._joint_log_proba(b)))

    def sample(self, n_samples: int = 1, random_state: object = None, *, length: int = 100) -> tuple[Any, np.ndarray]:
        """Sample rows or documents, and their classes or clusters; `MultinomialNB` requires ``loss="nll"``.

        n_samples : int, default=1 --
        random_state : int, RandomState instance or None, default=None --
        length : int, default=100 -- Number of words per document.
        Returns X : ndarray of shape (n_samples, n_features), float64, or CSR matrix of counts --
        Returns y : ndarray of shape (n_samples,) --
        Raises ModelError -- A model of words was not trained on unweighted counts.
        """
        counts, component_class = self._layout == "sparse", np.asarray(self.learner_.head.component_class, np.intp)
        without_components = not len(component_class) and getattr(self, "loss", "") != "nll"
        if counts and (self.weighting_ is not None or without_components):
            raise ModelError("sample needs a model that was trained on unweighted counts with loss='nll'")
        if not isinstance(n_samples, int | np.integer) or n_samples < 0:
            raise ValueError(f"n_samples must be an integer of at least 0, got {n_samples!r}")
        rng, prior = np.random.default_rng(seed_of(random_state)), np.exp(self._parameters.log_prior)
        drawn = rng.choice(len(prior), n_samples, p=prior / prior.sum())
        if counts:
            X: Any = sample_documents(self._parameters, drawn, length, rng)
        else:
            X = self.learner_.model.variables.sample(self._parameters, drawn, rng)
            if getattr(self, "components", "") == "exponential":  # rounding can make values negative
                X = np.maximum(X, 0.0)
        if self.spec.target != "labels":
            return X, drawn
        return X, self.classes_[component_class[drawn] if len(component_class) else drawn]


class Transforming(sklearn_base.ClassNamePrefixFeaturesOutMixin, sklearn_base.TransformerMixin, EngineEstimator):
    """Transformation of documents: distances from centres, or topics."""

    _n_features_out: ClassVar[Any]
    _transformed: ClassVar[Any]  # takes documents in memory; returns their numbers, shape (n_samples, n_features_out)

    def transform(self, X: object, client: Client | None = None) -> Any:
        """Return topic proportions, in the order of `components_`, or distances from centres, shape (n_samples, k)."""
        return over_blocks(self, X, self._transformed, self._n_features_out, client)


def conformal_scores(probabilities: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
    """Return the scores of documents under their own class, sorted: for each class an array. Labels may be -1."""
    return [np.sort(1.0 - probabilities[labels == k, k]) for k in range(probabilities.shape[1])]


def conformal_thresholds(scores: Sequence[np.ndarray], coverage: float) -> np.ndarray:
    """Return the largest score for which a class is in a prediction set, shape (n_classes,), float64.

    The score of a document under a class is one minus the probability of the class; the threshold is a quantile of the
    scores of held-out documents in that class (split conformal prediction: Vovk 2012, Mondrian predictors; Sadinle et
    al. 2019). If new documents of a class are exchangeable with these, their sets contain the class with probability at
    least `coverage` (c), for any model. This requires c / (1 - c) documents per class, nine for 0.9. Classes with fewer
    documents, or fewer than `FEW_OF_CLASS`, share a threshold. If these are too few, all sets contain the classes.

    Raises ValueError: `coverage` is not between 0 and 1.
    """
    if not (isinstance(coverage, Real) and 0.0 < coverage < 1.0):
        raise ValueError(f"coverage must be between 0 and 1, got {coverage!r}")

    def threshold(of_class: np.ndarray) -> float:
        return float(np.append(of_class, np.inf)[int(np.ceil((len(of_class) + 1) * coverage - 1e-9)) - 1])

    own = np.array(list(map(threshold, scores)))
    few = np.isinf(own) | (np.array(list(map(len, scores))) < FEW_OF_CLASS)
    if few.any():
        own[few] = threshold(np.sort(np.concatenate([scores[k] for k in np.flatnonzero(few)])))
    return own
