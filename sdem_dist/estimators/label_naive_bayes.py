"""Naive Bayes of words for very many classes, or for several labels a document, trained by sdEM."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Literal

import numpy as np

from sdem_dist.engine.plan import Plan
from sdem_dist.engine.trainer import Trainer
from sdem_dist.estimators import parameters as p
from sdem_dist.estimators.naive_bayes import LaneNB, WordNB, is_unnormalised
from sdem_dist.estimators.predictions import JointClassifier, LabelSets
from sdem_dist.fitting import defaults, plans
from sdem_dist.fitting.holdout import Candidate, HoldoutPolicy
from sdem_dist.inputs.source import Source, documents_of
from sdem_dist.inputs.spec import Spec, Trained, final_stage
from sdem_dist.inputs.validation import seed_of
from sdem_dist.learners.rules import AddSteps, ClosedForm
from sdem_dist.learners.sdem import SdEM
from sdem_dist.losses import Loss
from sdem_dist.models import many_classes
from sdem_dist.models.heads import Classes
from sdem_dist.models.naive_bayes import NaiveBayes, pseudo_count
from sdem_dist.reports.explaining import Parts, of_many_classes

_log = logging.getLogger(__name__)


class ManyClassNB(WordNB, JointClassifier):
    """Multinomial naive Bayes of very many classes, 100,000 say, trained by stochastic discriminative EM (sdEM).

    The model is that of `MultinomialNB`, without its table of all words and classes: kept are the counts that training
    has moved, which are no more than words of a document for its class and for its rival. Time and memory follow these.

    Predictions, probabilities and metrics are exact. So is training with "nll". With "hinge" each document takes a step
    against its strongest rival; where its words are known to many classes, that is sought among the classes that share
    its rarer words.

    loss -- The hinge loss (Masegosa 2014, equation 17), or "nll": ``-ln p(y, d)``, one pass over the counts.
    n_epochs -- Passes over the documents; "nll" needs one.
    step -- How far a first step moves a mean document's label and its rival apart, half of it. None: 0.2; 3 where
        documents are counts that keep their length.
    calibrate -- With the hinge loss hold out a tenth of the documents, 500 at most, for the temperature that scores are
        divided by for probabilities; one more pass takes them in, the only one that is evaluated. Only those whose
        class has other documents count; with fewer than 20 of them the temperature is a guess, and a warning says so.
        Not under 200 documents.
    References -- Masegosa, A. (2014). Stochastic Discriminative EM. UAI. Table 1, Algorithms 1 to 4.

    >>> from sdem_dist import ManyClassNB
    >>> texts = [f"item{i} of shelf{i % 7} with part{i % 11}" for i in range(77)] * 3
    >>> labels = [f"number {i}" for i in range(77)] * 3
    >>> clf = ManyClassNB().fit(texts, labels)
    >>> clf.predict(["shelf3 part5 item38", "part10 of item76"]).tolist()
    ['number 38', 'number 76']
    """

    loss: Literal["hinge", "nll"] = "hinge"
    n_epochs: int = 3
    step: float | None = None
    calibrate: bool = True

    spec = Spec("sparse", "labels", "class", poor_score=True)

    def _check(self) -> None:
        super()._check()
        if self.patience is not None and self.loss != "nll" and self.calibrate:
            raise ValueError(
                "patience needs calibrate=False: otherwise a last pass over all documents follows those without the held-out "
                "ones, and it alone is evaluated"
            )

    def train(self, trainer: Trainer, source: Source) -> Trained:
        """Run the stage that finds the temperature, and the one that takes all documents in."""
        n, seed, n_classes = source.n_documents, seed_of(self.random_state), len(source.classes)
        alpha = pseudo_count(self.alpha, source.n_features)
        model = many_classes.SparseCounts(
            source.n_features, many_classes.VeryManyClasses(n_classes), alpha, float(self.loss != "nll")
        )
        if self.loss == "nll":
            learner = SdEM(model, source.weight, ClosedForm(complete=True), seed=seed)
            end = final_stage(trainer, learner, Plan(n, 1, 1, plans.lanes_of(n, defaults.SPARSE_LANE_DOCUMENTS), seed))
            return end._replace(warnings=p.unused_steps(self))
        sizes, start = self._margin_steps(source, NaiveBayes(source.n_features, Classes(2), alpha), self.loss)
        learner, initial = SdEM(model, source.weight, AddSteps(sizes), "hinge", seed=seed), model.start(start.prior)
        rounds = min(n, -(-source.corpus.header.n_nonzeros // defaults.SPARSE_ROUND_ENTRIES))
        plan = Plan(n, self.n_epochs, max(1, rounds), 1, seed)
        share = min(defaults.SPARSE_SHARE, defaults.SPARSE_MAX_HELD_OUT / n)
        if not self.calibrate or share * n < many_classes.FEWEST:
            return final_stage(trainer, learner, plan, initial)
        of_step = defaults.GUESSED_TEMPERATURE_OF_COUNTS if is_unnormalised(source) else defaults.GUESSED_TEMPERATURE
        guess = of_step * self._step(source, self.loss)
        policy = HoldoutPolicy(trainer, source, share, every=self.n_epochs)
        result = policy.choose(iter([Candidate(replace(learner, temperature=guess), plan, initial)]))
        if not result.known:
            _log.warning(
                "the temperature of probabilities is a guess, %.3g: fewer than %d held-out documents are of classes that "
                "have other documents",
                guess,
                many_classes.FEWEST,
            )
        learner = replace(learner, temperature=result.temperature if result.known else guess)
        end = final_stage(trainer, learner, replace(plan, n_epochs=1, first=self.n_epochs), result.state)
        last = {**result.history[-1], **end.history[-1], "epoch": self.n_epochs + 1}
        return end._replace(history=[*result.history, last])

    def _predicted(self, X: object) -> np.ndarray:
        """Return the classes of documents in memory, scored a few at a time: scores take room."""
        documents = documents_of(self, X)
        parts = many_classes.few_at_a_time(documents, len(self.classes_))
        best = [many_classes.joint_scores(self._parameters, part).argmax(axis=1) for part in parts]
        return np.asarray(self.classes_[np.concatenate(best)])

    def _joint_log_proba(self, X: object) -> np.ndarray:
        return many_classes.joint_scores(self._parameters, documents_of(self, X))

    def _document_parts(self, documents: object, pairs: np.ndarray) -> Parts:
        return of_many_classes(self._parameters, documents_of(self, documents), pairs, self.temperature_)


class MultiLabelNB(LaneNB, LabelSets):
    """Multinomial naive Bayes of documents with several labels, or none: each label against the rest.

    For each label there are two classes, the documents with it and the rest, which are trained discriminatively by
    stochastic discriminative EM (sdEM). All labels share one pass over the documents and one table of words. With the
    same passes the result is that of `MultinomialNB` for each label by itself.

    With one label for each document the strongest label is predicted ("one-vs-rest").

    loss -- Of each label: the hinge loss (Masegosa 2014, equation 17), or ``-ln p(label or not | d)``. Or `Hinge` with
        a margin, `CostSensitiveHinge` with costs ``((0, too much), (missed, 0))``, or `Blend` of `sdem_dist.losses`;
        with ``merge="sum"`` any object with the methods of `sdem_dist.losses.Loss`.
    step -- How far a first step moves a mean document's label against the rest; with the hinge loss twice as far. None:
        0.2 with the hinge loss, 1 with "ncll"; 3 where documents are counts that keep their length.
    References -- Masegosa, A. (2014). Stochastic Discriminative EM. UAI. Table 1, Algorithms 1 to 4.
        Yang, Y. (2001). A study of thresholding strategies for text categorization. SIGIR.

    >>> from sdem_dist import MultiLabelNB
    >>> texts = ["a late goal", "rates fall", "the club buys shares", "the weather is fine"] * 5
    >>> labels = [["sport"], ["money"], ["money", "sport"], []] * 5
    >>> clf = MultiLabelNB(n_epochs=10).fit(texts, labels)
    >>> clf.labels_of(["a goal", "shares of the club"])
    [('sport',), ('sport', 'money')]
    >>> clf.classes_.tolist(), clf.predict(["rates of shares"]).tolist()
    (['money', 'sport'], [[1, 0]])
    """

    loss: Literal["hinge", "ncll"] | Loss = "hinge"
    step: float | None = None

    spec = Spec(
        "sparse",
        "labels",
        "class",
        ("micro_f1", "label_log_loss"),
        "feature_log_prob_",
        label_sets=True,
        poor_score=True,
    )
    _several = True

    temperatures_ = p.fitted(
        "learner_.head.decisions.temperatures",
        "What each label's log-odds are divided by for its probability, shape (n_labels,).",
    )
    thresholds_ = p.fitted(
        "learner_.head.decisions.thresholds",
        "Lowest probability with which a document gets each label, shape (n_labels,).",
    )

    @property
    def feature_log_prob_(self) -> np.ndarray:
        """Logarithm of p(word | label), shape (n_labels, n_features)."""
        words, totals = self.state_.words[:, 1::2], self.state_.totals[1::2]
        return np.asarray((np.log(words) - np.log(totals)).T)
