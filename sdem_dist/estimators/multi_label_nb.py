"""Naive Bayes for documents with several labels, trained by sdEM, as a scikit-learn classifier."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sdem_dist.engine.plan import VALIDATION
from sdem_dist.engine.trainer import Trainer
from sdem_dist.estimators import parameters as p
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.estimators.classifier import LabelSets
from sdem_dist.estimators.text_training import TextTrainingParams
from sdem_dist.fitting import defaults, plans
from sdem_dist.fitting.holdout import Candidate, HoldoutPolicy, share_held_out
from sdem_dist.inputs.source import Source, documents_of
from sdem_dist.inputs.spec import Spec, Trained, final_stage
from sdem_dist.inputs.validation import check_classes, seed_of
from sdem_dist.losses import Loss
from sdem_dist.models.heads import TEMPERATURE, THRESHOLD, Labels
from sdem_dist.models.naive_bayes import NaiveBayes, joint_scores, pseudo_count

if TYPE_CHECKING:
    from sdem_dist.reports.explanation import DocumentParts


@p.estimator
class MultiLabelNB(TextTrainingParams, LabelSets, EngineEstimator):
    """Multinomial naive Bayes of documents with several labels, or none: each label against the rest.

    For each label there are two classes, the documents with it and the rest, which are trained discriminatively by
    stochastic discriminative EM (sdEM). All labels share one pass over the documents and one table of words. With the
    same passes the result is that of `MultinomialNB` for each label by itself.

    With one label for each document the strongest label is predicted ("one-vs-rest").

    References
    ----------
    Masegosa, A. (2014). Stochastic Discriminative EM. UAI. Table 1, Algorithms 1 to 4.
    Yang, Y. (2001). A study of thresholding strategies for text categorization. SIGIR.

    Examples
    --------
    >>> from sdem_dist import MultiLabelNB
    >>> texts = ["a late goal", "rates fall", "the club buys shares", "the weather is fine"] * 5
    >>> labels = [["sport"], ["money"], ["money", "sport"], []] * 5
    >>> clf = MultiLabelNB(n_epochs=10).fit(texts, labels)
    >>> clf.labels_of(["a goal", "shares of the club"])
    [('sport',), ('sport', 'money')]
    >>> clf.classes_.tolist(), clf.predict(["rates of shares"]).tolist()
    (['money', 'sport'], [[1, 0]])
    """

    loss: str | Loss = p.param(
        "hinge",
        p.a_loss("hinge", "ncll"),
        "Of each label: the hinge loss (Masegosa 2014, equation 17), or ``-ln p(label or not | d)``. Or `Hinge` with a\n"
        "margin, `CostSensitiveHinge` with costs ``((0, too much), (missed, 0))``, or `Blend` of `sdem_dist.losses`; with\n"
        '``merge="sum"`` any object with the methods of `sdem_dist.losses.Loss`.',
    )
    step: float | None = p.param(
        None,
        p.or_none(p.real(above=True)),
        "How far a first step moves a mean document's label against the rest; with the hinge loss twice as far. None: 0.2\n"
        'with the hinge loss, 1 with "ncll"; 3 where documents are counts that keep their length.',
    )

    spec = Spec(
        "sparse",
        "labels",
        "class",
        ("micro_f1", "label_log_loss"),
        words="feature_log_prob_",
        label_sets=True,
        poor_score=True,
    )
    steps = "margin"
    _several = True

    def _check(self) -> None:
        self._check_steps()
        if self.alpha == 0:
            raise ValueError("alpha must be positive: the prior keeps mu off the boundary of S")

    @property
    def holds_out(self) -> bool:
        """Whether training holds out documents of its own, by which it may stop."""
        return self.validation_fraction > 0

    @property
    def _monitor(self) -> str:
        return "label_log_loss" if self.several_labels else super()._monitor

    def _check_compatible(self, source: Source) -> None:
        self._check_columns(source)
        if source.members is None:
            check_classes(self.classes_, source)

    def train(self, trainer: Trainer, source: Source) -> Trained:
        """Run the stage in which held-out documents choose how long to train, and the one with all documents."""
        n, n_labels = source.n_documents, len(source.classes)
        share = share_held_out(self.validation_fraction, n) if self.n_epochs == "auto" or self.calibrate else 0.0
        most = defaults.MAX_EPOCHS if share else defaults.FEW_EPOCHS
        epochs = most if self.n_epochs == "auto" else int(self.n_epochs)
        plan = self._plan_of_steps(n, epochs, seed_of(self.random_state))
        plan = replace(plan, n_blocks=plans.blocks_of(source.n_features, 2 * n_labels, self.n_blocks))
        head = Labels(n_labels, exclusive=source.members is None)
        model = NaiveBayes(source.n_features, head, pseudo_count(self.alpha, source.n_features))
        learner, initial = self._sdem_of_words(source, model, self.loss)
        if not share:
            return final_stage(trainer, learner, plan, initial)
        policy = HoldoutPolicy(trainer, source, share, self._patience_of_choice)
        result = policy.choose([lambda: Candidate(learner, plan, initial)])
        if self.calibrate and result.known and not learner.head.exclusive:
            temperatures, thresholds = (
                tuple(result.figures[f"{VALIDATION}{name}{i}"] for i in range(n_labels))
                for name in (TEMPERATURE, THRESHOLD)
            )
            learner = learner.decided(temperatures=temperatures, thresholds=thresholds)
        elif self.calibrate:
            learner = replace(learner, temperature=result.temperature)
        return policy.train(result, learner)

    def _class_scores(self, X: object) -> np.ndarray:
        odds = joint_scores(self._parameters, documents_of(self, X))
        return odds / (self.temperatures_ if self.several_labels else self.temperature_)

    @property
    def temperatures_(self) -> np.ndarray:
        """What each label's log-odds are divided by for its probability, shape (n_labels,)."""
        check_is_fitted(self)
        return cast(np.ndarray, self.learner_.head.decisions.temperatures)

    @property
    def thresholds_(self) -> np.ndarray:
        """Lowest probability with which a document gets each label, shape (n_labels,)."""
        check_is_fitted(self)
        return cast(np.ndarray, self.learner_.head.decisions.thresholds)

    @property
    def feature_log_prob_(self) -> np.ndarray:
        """Logarithm of p(word | label), shape (n_labels, n_features)."""
        check_is_fitted(self)
        words, totals = self.state_.words[:, 1::2], self.state_.totals[1::2]
        return np.asarray((np.log(words) - np.log(totals)).T)

    def _document_parts(self, documents: object, pairs: np.ndarray) -> list[DocumentParts]:
        from sdem_dist.reports.parts import of_labels, of_naive_bayes, word_rows

        rows, log_prior = word_rows(self._parameters, documents_of(self, documents)), self._parameters.log_prior
        if self.several_labels:
            return of_labels(rows, pairs[:, 0], log_prior, self.temperatures_)
        return of_naive_bayes(rows, pairs, log_prior, self.temperature_)
