"""Supervised LDA by mirror-descent back-propagation (BP-sLDA): a classifier and a regressor."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.utils import Tags

from sdem_dist.corpus import Corpus
from sdem_dist.estimators import parameters as p
from sdem_dist.estimators.predictions import EngineRegressor, LabelSets
from sdem_dist.estimators.topic_model import TopicModel
from sdem_dist.fitting.running import over_blocks
from sdem_dist.inputs.source import Source
from sdem_dist.inputs.spec import Extra, Spec
from sdem_dist.learners.surveys import WordSummary
from sdem_dist.models import topic_heads as heads
from sdem_dist.models.topics import outputs
from sdem_dist.reports.explaining import Parts, of_supervised_topics, refused
from sdem_dist.reports.top_words import named

if TYPE_CHECKING:
    from distributed import Client

SHOWN = ("accuracy", "ncll", "micro_f1", "label_log_loss")


class SupervisedTopics(TopicModel):
    """What topics that learn to predict have beside others.

    log_counts -- Take ln(1 + x) of all counts, in training and prediction.
    words_weight -- Weight of ``-ln p(words | theta)`` of all documents beside the loss of the labelled ones: topics
        that also explain the words. 0: the loss alone. "auto": a fifth of the documents is held out and chooses, in
        five more trainings.
    """

    output_rate: float = 3.0
    log_counts: bool = False
    words_weight: Literal["auto"] | float = 0.0


class SupervisedLDAClassifier(LabelSets, SupervisedTopics):
    """Topics that are learned to tell classes: BP-sLDA with softmax outputs.

    A document's topics are found from its words alone, by `n_layers` steps of mirror descent, and its class from them:
    ``p(c | d)`` is proportional to ``exp(gamma U theta)``. Topics Phi and U are learned together by back-propagation
    through all steps.

    ordered -- Classes are levels of a scale, in the order of `classes_`: one score, and a threshold between neighbours
        (cumulative logit), rather than the softmax. Texts are in the order of the alphabet: give numbers.
    gamma -- Factor inside the softmax, or of the scores of levels and labels.
    unlabelled : label -- The label, such as -1, of hidden classes: see `words_weight`.
    References -- Chen et al. (2015). End-to-end Learning of LDA by Mirror-Descent Back Propagation over a Deep
        Architecture. NIPS.

    >>> from sdem_dist import SupervisedLDAClassifier
    >>> X, y = [[5, 1, 0, 0], [4, 2, 0, 1], [0, 0, 3, 4], [1, 0, 4, 5]] * 50, [0, 0, 1, 1] * 50
    >>> clf = SupervisedLDAClassifier(n_components=2).fit(X, y)
    >>> clf.predict([[3, 1, 0, 0]]).tolist()
    [0]
    >>> clf.transform(X).shape
    (200, 2)
    """

    ordered: bool = False
    gamma: p.Positive = 1.0
    class_weight: object = None
    unlabelled: object = None

    spec = Spec(
        "sparse", "labels", "class", SHOWN, topics="documents", unlabelled=True, label_sets=True, poor_score=True
    )
    _takes_hidden = True

    def _head(self, source: Source, summary: WordSummary) -> heads.TopicHead:
        several = source.members is not None
        if several and (self.ordered or self.class_weight is not None or self.unlabelled is not None):
            raise ValueError(
                "documents with several labels have neither levels nor class weights, and all of them are labelled: leave "
                "ordered, class_weight and unlabelled"
            )
        levels = source.classes.tolist() if self.ordered else []
        try:
            values = [float(str(level)) for level in levels]
        except ValueError:
            listed = ", ".join(map(repr, levels[:10])) + (", ..." if len(levels) > 10 else "")
            warnings.warn(
                f"ordered levels are in the order of the alphabet: {listed}; if the scale has another order, give numbers, "
                "such as 0, 1, 2",
                stacklevel=2,
            )
            values = []
        if values != sorted(values):
            raise ValueError(
                f"ordered levels are in the order of the alphabet: {', '.join(map(str, levels))}; write texts of one "
                "length, such as 02 and 10, or numbers"
            )
        kind = heads.SigmoidLabels if several else heads.Levels if self.ordered else heads.SoftmaxClasses
        return kind(len(source.classes), float(self.gamma))

    @property
    def coef_(self) -> np.ndarray:
        """U, shape (n_classes, n_components); with `ordered` of the score, shape (1, n_components)."""
        return np.asarray(self._parameters.output[: 1 if isinstance(self.learner_.head, heads.Levels) else None])

    @property
    def level_thresholds_(self) -> np.ndarray:
        """With `ordered`: what gamma times a document's score must pass for the next level, shape (n_classes - 1,)."""
        if not isinstance(self.learner_.head, heads.Levels):
            raise AttributeError("level_thresholds_ are those of ordered=True")
        return heads.level_thresholds(self._parameters.output)

    @property
    def thresholds_(self) -> np.ndarray:
        """Lowest probability with which a document gets a label, of the largest F1 in training, shape (n_labels,)."""
        return np.array(self.learner_.head.thresholds or (0.5,) * len(self.classes_))

    def _topic_labels(self) -> list[object]:
        return self.classes_[self._scores_of_topics(np.eye(self._n_features_out)).argmax(axis=1)].tolist()

    def _class_scores(self, X: object) -> np.ndarray:
        return self._scores_of_topics(self._transformed(X))

    def _scores_of_topics(self, theta: np.ndarray) -> np.ndarray:
        output = self._parameters.output
        return np.asarray(self.learner_.head.scores(output, outputs(output, theta)))

    def _document_parts(self, documents: object, pairs: np.ndarray) -> Parts:
        output, (a, b) = self.learner_.head.gamma * self._parameters.output, pairs.T
        says = output[a] if self.several_labels else output[a] - output[b]
        if isinstance(self.learner_.head, heads.Levels):
            says = np.sign(a - b)[:, None] * output[:1]
        rows, theta = self._documents(documents), self._transformed(documents)
        return of_supervised_topics(self._parameters, rows, says, theta, named(self.topics(3)))


class SupervisedLDARegressor(EngineRegressor, SupervisedTopics):
    """Topics learned to predict real numbers or counts, one or several: BP-sLDA with Gaussian or Poisson outputs.

    As `SupervisedLDAClassifier`, with the prediction ``U theta``. Targets are standardised for training. Counts have
    ``family="poisson"``: the prediction is the exponential of U theta, times the mean of training.

    family -- Of real numbers; or of counts (log link), fractions too.
    gamma -- Precision of the noise of standardised targets: the loss is ``gamma / 2`` times the squared error. Of
        counts it multiplies minus the log-likelihood.

    >>> from sdem_dist import SupervisedLDARegressor
    >>> X, stars = [[5, 1, 0, 0], [4, 2, 0, 1], [0, 0, 3, 4], [1, 0, 4, 5]] * 50, [1.0, 2.0, 8.0, 9.0] * 50
    >>> model = SupervisedLDARegressor(n_components=2).fit(X, stars)
    >>> low, high = model.predict([[3, 1, 0, 0], [0, 0, 1, 3]])
    >>> bool(low < high)
    True
    """

    family: Literal["gaussian", "poisson"] = "gaussian"
    gamma: p.Positive = 1.0
    output_rate: float = 0.3

    spec = Spec("sparse", "numbers", "number", shown=("r2", "mse", "poisson_deviance"), topics="documents")
    _single = True  # targets are one per document, not a column of a table

    @property
    def _monitor(self) -> str:
        return "poisson_deviance" if self.family == "poisson" else "mse"

    def _describe(self, source: Source) -> None:
        super()._describe(source)
        self._single = source.single

    def _head(self, source: Source, summary: WordSummary) -> heads.TopicHead:
        if not np.isfinite(summary.squares).all():
            raise ValueError("y has numbers too large for their variance to be a float64: divide them by a constant")
        mean = summary.mean
        if self.family == "gaussian":
            return heads.Numbers(len(mean), float(self.gamma), tuple(mean.tolist()), tuple(summary.scale.tolist()))
        if not (mean > 0.0).all():
            raise ValueError("family='poisson' learns counts, and the mean of y is not positive")
        return heads.Rates(len(mean), float(self.gamma), (0.0,) * len(mean), tuple(mean.tolist()))

    @property
    def coef_(self) -> np.ndarray:
        """What each topic predicts, of counts its logarithm, shape (n_targets, n_components)."""
        head, output = self.learner_.head, self._parameters.output
        scale = np.asarray(head.scale)[:, None]
        if isinstance(head, heads.Rates):
            return np.asarray(output + np.log(scale))
        return np.asarray(np.asarray(head.location)[:, None] + scale * output)

    def _topic_labels(self) -> list[object]:
        return self.coef_[0].tolist() if self._single else [tuple(column) for column in self.coef_.T.tolist()]

    def predict(self, X: object, client: Client | None = None) -> Any:
        """Return the targets, shape (n_samples,), or (n_samples, n_targets) where they were columns."""

        def predicted(rows: Any) -> np.ndarray:
            # A document's topics sum to 1, so that the targets' location can be each topic's.
            linear = outputs(self.coef_, self._transformed(rows))
            means = np.exp(linear) if isinstance(self.learner_.head, heads.Rates) else linear
            return means[:, 0] if self._single else means

        return over_blocks(self, X, predicted, None if self._single else self.learner_.n_labels, client)

    def _number_parts(self, documents: object, target: int) -> tuple[np.ndarray, float, Parts]:
        if isinstance(self.learner_.head, heads.Rates):  # a product over topics
            raise refused(self)
        theta, mean = self._transformed(documents), float(self.learner_.head.location[target])
        says = np.broadcast_to(self.coef_[target] - mean, theta.shape)
        parts = of_supervised_topics(self._parameters, self._documents(documents), says, theta, named(self.topics(3)))
        return outputs(self.coef_, theta)[:, target], mean, parts

    def extra(self) -> dict[str, object]:
        return {**super().extra(), "single": self._single}

    def take_extra(self, extra: Extra) -> None:
        super().take_extra(extra)
        self._single = bool(extra["single"])
        if self._single and self.learner_.n_labels != 1:
            raise ValueError("a single target does not match the outputs")

    def score(self, X: object, y: object = None, sample_weight: object = None) -> float:
        """Return the predictive R2 on documents, or on a corpus with its own targets; of several targets the mean."""
        if not isinstance(X, Corpus):
            return float(super().score(X, y, sample_weight))
        if sample_weight is not None:
            raise ValueError("a corpus brings its sample weights: leave sample_weight at None")
        return self.evaluate(X, y)["r2"]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output, tags.target_tags.multi_output = False, True
        tags.regressor_tags.poor_score = True
        return tags
