"""What estimators answer: classes and their probabilities, densities and samples, clusters, topics."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
import scipy.sparse as sp
from scipy.special import log_expit, log_softmax, softmax
from sklearn.base import (
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils import Tags

from sdem_dist.calibration import conformal_scores, conformal_thresholds, possible
from sdem_dist.corpus import Corpus
from sdem_dist.errors import ModelError
from sdem_dist.estimators import parameters as p
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.evaluation import probabilities
from sdem_dist.fitting.running import evaluate_source, over_blocks, over_corpus, ranges_of
from sdem_dist.inputs.source import source_of
from sdem_dist.inputs.validation import checked_labels, has_label, seed_of
from sdem_dist.losses import marginal_log_likelihood
from sdem_dist.reports.explaining import Parts, explanations, number_explanations, of_classes, of_labels, refused
from sdem_dist.reports.explanation import Explanations
from sdem_dist.reports.reporting import was_trained_on
from sdem_dist.reports.top_words import Topics, topics_of

if TYPE_CHECKING:
    from distributed import Client


FAR = -float(np.log(np.finfo(float).eps))
"""Log-odds beyond which a probability is 1 in float64: from there on decision functions grow logarithmically."""


class EngineClassifier(ClassifierMixin, EngineEstimator):
    """What classifiers answer; they define how documents are scored.

    classes_ : ndarray of shape (n_classes,) --
    """

    def _class_scores(self, X: object) -> np.ndarray:
        """Return ln p(y | d) of documents in memory, up to a constant of each; of several labels their log-odds."""
        temperature: Any = self.temperature_
        if self.several_labels:  # each with one of its own
            temperature = self.temperatures_  # type: ignore[attr-defined]
        return np.asarray(self._joint_log_proba(X) / temperature)

    def _predicted(self, X: object) -> np.ndarray:
        """Return the classes of documents in memory; of several labels which of them a document gets."""
        scores = self._class_scores(X)
        if self.several_labels:
            return np.asarray(probabilities(scores) >= self.thresholds_, np.int64)  # type: ignore[attr-defined]
        return np.asarray(self.classes_[scores.argmax(axis=1)])

    @property
    def temperature_(self) -> float:
        """What scores are divided by for probabilities."""
        return float(getattr(self.learner_, "temperature", 1.0))

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

        def predicted(rows: object) -> np.ndarray:
            scores = self._class_scores(rows)
            return np.asarray(log_expit(scores) if self.several_labels else log_softmax(scores, axis=1))

        return over_blocks(self, X, predicted, len(self.classes_), client)

    def predict_proba(self, X: object, client: Client | None = None) -> Any:
        """Return p(y | d), shape (n_samples, n_classes); rows sum to 1, except where documents have several labels."""

        def predicted(rows: object) -> np.ndarray:
            scores = self._class_scores(rows)
            return probabilities(scores) if self.several_labels else np.asarray(softmax(scores, axis=1))

        return over_blocks(self, X, predicted, len(self.classes_), client)

    def predict(self, X: object, client: Client | None = None) -> Any:
        """Return each document's most probable class, shape (n_samples,), with the dtype of `classes_`.

        Where documents have several labels an indicator matrix of shape (n_samples, n_classes), int64: a document gets
        the labels whose probability is at least their threshold.
        """
        n_columns = len(self.classes_) if self.several_labels else None
        return over_blocks(self, X, self._predicted, n_columns, client)

    def calibrate_sets(self, X: object, y: object = None) -> Self:
        """Find the thresholds of `predict_sets` from held-out documents; they are saved with the model.

        These must not have taken part in training, nor, as `validation`, in choosing training time or a temperature; a
        warning says so where a model that weighs words can tell. Another fit forgets the thresholds.

        Raises ValueError, CorpusError -- A label is not among the classes, or the documents have none.
        Raises ModelError -- The model gives documents several labels.
        """
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
        labels = np.concatenate([cast(Any, source.corpus.read(*ends)).labels for ends in ranges_of(source.corpus)])
        labels = labels if source.corpus.mask is None else labels[source.corpus.mask]
        self.set_scores_ = conformal_scores(self.predict_proba(source.corpus), labels)
        return self

    def predict_sets(self, X: object, coverage: float = 0.9) -> np.ndarray:
        """Return a set of possible classes, maybe none, for each document, bool of shape (n_samples, n_classes).

        The sets of at least a share `coverage` of a class's new documents hold that class, if these are exchangeable
        with the documents of `calibrate_sets`. Classes of few such documents are taken together, see
        `sdem_dist.calibration`.

        coverage : float, default=0.9 -- Between 0 and 1.
        Raises ModelError -- `calibrate_sets` was not called.
        """
        return np.asarray(1.0 - self.predict_proba(X) <= self.set_thresholds(coverage))

    def set_thresholds(self, coverage: float) -> np.ndarray:
        """Return one minus the least probability with which each class is in a set, shape (n_classes,)."""
        if not hasattr(self, "set_scores_"):
            raise ModelError(
                "sets of classes need labelled documents that had no part in the training: show them to calibrate_sets(X, y), "
                "or to sdem calibrate MODEL CORPUS"
            )
        return conformal_thresholds(self.set_scores_, coverage)

    def decision_function(self, X: object, client: Client | None = None) -> Any:
        """Return ln p(y | d), shape (n_samples, n_classes); with two classes the log-odds of the second, (n_samples,).

        What lies beyond 36 (a probability under 2**-52) grows as the logarithm of its distance from there: tools that
        calibrate or combine columns compare documents, and a few values of -1e9 would outweigh all others. Where
        documents have several labels the log-odds of each, over its temperature.
        """
        two = len(self.classes_) == 2

        def decisions(rows: object) -> np.ndarray:
            scores = self._class_scores(rows)
            if self.several_labels:
                return scores
            scores = possible(scores)
            odds = scores[:, 1] - scores[:, 0] if two else np.asarray(log_softmax(scores, axis=1))
            beyond = np.maximum(np.minimum(np.abs(odds), np.finfo(float).max) - FAR, 0.0)
            odds = np.where(beyond > 0, np.copysign(FAR + np.log1p(beyond), odds), odds)
            return np.column_stack([-odds / 2.0, odds / 2.0]) if two else odds

        scores = over_blocks(self, X, decisions, len(self.classes_), client)
        return scores[:, 1] - scores[:, 0] if two and not self.several_labels else scores

    def explain(self, X: object, against: object = None) -> Explanations:
        """Return why each document was taken for its class: log-odds against another class, as a sum over its words.

        X : texts, or {array-like, sparse matrix} of shape (n_samples, n_features) -- Texts get their words marked.
        against : class label, or list of one for each document, default=None -- The other class. None, or the class
            that is predicted itself: the runner-up.
        Returns : Explanations -- A list of `Explanation`, see `sdem_dist.reports.explanation`.
        Raises ValueError, ModelError -- `against` is not a class, the documents do not fit the model, or its scores are
            not a sum over words.
        """
        return explanations(self, X, against)

    def _document_parts(self, documents: object, pairs: np.ndarray) -> Parts:
        """Return the log-odds of the classes of `pairs` as a sum over words, for each of some documents."""
        log_prior = getattr(self._parameters, "log_prior", None)
        if log_prior is None:
            raise refused(self)
        rows = self._rows(documents)
        if self.several_labels:
            return of_labels(rows, pairs[:, 0], log_prior, self.temperatures_)  # type: ignore[attr-defined]
        return of_classes(rows, pairs, log_prior, self.learner_.head.component_class, self.temperature_)

    def score(self, X: object, y: object = None, sample_weight: object = None) -> float:
        """Return the accuracy on documents, or on a corpus with its own labels.

        Documents without a label (see `unlabelled`) do not count. Where documents have several labels, it is the share
        of documents all of whose labels are right.
        """
        if isinstance(X, Corpus) or self.several_labels:
            return evaluate_source(self, source_of(self, X, y, sample_weight, use="score"), None)["accuracy"]
        labels: Any = None if y is None else checked_labels(self, y)
        if y is None or self.unlabelled is None:
            return float(super().score(X, labels, sample_weight))
        labels = np.asarray(labels).ravel()
        labelled = has_label(self, labels)
        if not labelled.any():
            raise ValueError("none of the documents to be scored has a label: accuracy needs some that have")
        weights = None if sample_weight is None else np.asarray(sample_weight)[labelled]
        return float(np.average((np.asarray(self.predict(X)) == labels)[labelled], weights=weights))


class LabelSets(EngineClassifier):
    """What classifiers answer whose documents may have several labels."""

    thresholds_: ClassVar[Any]  # lowest probability with which a document gets each label, shape (n_labels,)

    def labels_of(self, X: object) -> list[tuple[Any, ...]]:
        """Return the labels of each document by name, the most probable first, where it may have several."""
        rows, names = np.asarray(self.predict_proba(X)), self.classes_.tolist()
        orders = np.argsort(-rows, axis=1, kind="stable").tolist()
        likely = rows >= self.thresholds_
        return [tuple(names[k] for k in order if has[k]) for order, has in zip(orders, likely, strict=True)]


class JointClassifier(EngineClassifier):
    """What classifiers that are joint distributions of classes and documents answer beside that."""

    class_log_prior_ = p.fitted("_parameters.log_prior", "Logarithm of p(class), shape (n_classes,).")

    def predict_joint_log_proba(self, X: object, client: Client | None = None) -> Any:
        """Return ln p(y, d), shape (n_samples, n_classes), in nats; of counts without the multinomial coefficient."""
        return over_blocks(self, X, self._joint_log_proba, len(self.classes_), client)


class EngineRegressor(RegressorMixin, EngineEstimator):
    """What regressors answer."""

    @abstractmethod
    def _number_parts(self, documents: object, target: int) -> tuple[np.ndarray, float, Parts]:
        """Return predictions of a target, its mean in training, and what words or features add to that."""

    def explain(self, X: object, target: int = 0) -> Explanations:
        """Return why each document or row got its number: what its words or known features add to the mean of training.

        The parts sum to the prediction less the mean, also where features are missing: a feature's part is its distance
        from its mean, times its coefficient in the regression on the features that the row has. Words count through
        topics.

        X : texts, or {array-like, sparse matrix} of shape (n_samples, n_features) -- Texts get their words marked.
        target : int, default=0 -- Which of several targets, from 0.
        Returns : Explanations -- A list of `NumberExplanation`, see `sdem_dist.reports.explanation`.
        """
        return number_explanations(self, X, target)


class WithDensity(EngineEstimator):
    """How probable documents or rows are, classes or components summed out, and how they are drawn."""

    def score_samples(self, X: object) -> np.ndarray:
        """Return ln p(x) of each document or row, shape (n_samples,), in nats.

        Missing values are summed out. Counts are without the multinomial coefficient.
        """
        return over_corpus(self, X, lambda b: marginal_log_likelihood(self._joint_log_proba(b)))

    def sample(self, n_samples: int = 1, random_state: object = None, *, length: int = 100) -> tuple[Any, np.ndarray]:
        """Draw rows or documents, and their classes or clusters; of naive Bayes of counts with ``loss="nll"`` alone.

        n_samples : int, default=1 -- 0 or more.
        random_state : int, RandomState instance or None, default=None --
        length : int, default=100 -- Words of each document.
        Returns X : ndarray of shape (n_samples, n_features), float64, or CSR matrix of counts --
        Returns y : ndarray of shape (n_samples,) --
        Raises ModelError -- The model is of words, but not of counts.
        """
        counts, component_class = self._layout == "sparse", np.asarray(self.learner_.head.component_class, np.intp)
        without_components = not len(component_class) and getattr(self, "loss", "") != "nll"
        if counts and (self.weighting_ is not None or without_components):
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
            words = np.exp(self._log_words)
            words /= words.sum(axis=1, keepdims=True)
            X = sp.vstack([sp.csr_matrix(rng.multinomial(length, words[j])) for j in drawn], format="csr")
        if self.spec.target != "labels":
            return X, drawn
        return X, self.classes_[component_class[drawn] if len(component_class) else drawn]


class Clustering(ClusterMixin, EngineEstimator):
    """Which cluster documents are in. Labels play no part: `fit` ignores `y`.

    labels_ : ndarray of shape (n_samples,) -- Clusters of the training documents in memory; a corpus is passed to
        `predict`. Not kept in files.
    """

    def predict(self, X: object, client: Client | None = None) -> Any:
        """Return the nearest or most probable cluster of each document, int64 of shape (n_samples,)."""
        return over_blocks(self, X, lambda b: self._joint_log_proba(b).argmax(axis=1), None, client)


class Transforming(ClassNamePrefixFeaturesOutMixin, TransformerMixin, EngineEstimator):
    """Documents as a few numbers: distances from centres, or topics."""

    @property
    @abstractmethod
    def _n_features_out(self) -> int: ...

    @abstractmethod
    def _transformed(self, X: object) -> np.ndarray:
        """Return the numbers of documents in memory, shape (n_samples, n_features_out)."""

    def transform(self, X: object, client: Client | None = None) -> Any:
        """Return documents as topic proportions, whose rows sum to 1, or as distances from centres, (n_samples, k).

        There is a column for each topic, in the order of `components_`, or for each centre.
        """
        return over_blocks(self, X, self._transformed, self._n_features_out, client)


class WithTopics(Transforming):
    """Topics that can be looked at."""

    def _topic_labels(self) -> list[object]:
        """Return the class that each topic speaks for most, or its coefficients of the targets; None without labels."""
        return [None] * self._n_features_out

    def topics(self, n_words: int = 10) -> Topics:
        """Return all topics with their words, ordered as `components_`, see `sdem_dist.reports.top_words.Topic`.

        n_words : int, default=10 -- Words of each topic.
        Returns : Topics -- A list that shows itself as a table.
        """
        return topics_of(self, self._topic_labels(), n_words)
