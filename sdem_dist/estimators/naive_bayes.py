"""Multinomial naive Bayes trained by sdEM, as a scikit-learn classifier."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sdem_dist.corpus.entries import LARGEST
from sdem_dist.engine.plan import Plan
from sdem_dist.engine.stages import Stage, Stages, state_of
from sdem_dist.estimators import parameters, plans
from sdem_dist.estimators.base import Trained, final_stage
from sdem_dist.estimators.classifier import JointClassifier, fixed_log_prior, weights_of_classes
from sdem_dist.estimators.common_parameters import Classes, PaperSteps, Seeded, Unlabelled
from sdem_dist.estimators.parameters import either, estimator, integer, one_of, param, real
from sdem_dist.estimators.source import documents_of, source_of
from sdem_dist.estimators.spec import Spec
from sdem_dist.estimators.validation import some
from sdem_dist.learners.em import WordEm
from sdem_dist.learners.schedule import PaperSchedule
from sdem_dist.learners.sdem import Sdem
from sdem_dist.models.naive_bayes import NaiveBayes, joint_scores

if TYPE_CHECKING:
    from typing import Self

    from sdem_dist.estimators.source import Source

SUM_BATCH = 128
"""Default documents of a round for ``merge="sum"``."""
ABSENCE_CLASSES = {"counts": 3.0, "weights": 10.0}
"""Classes up to which ``absence="auto"`` is the plain mean; chosen by tests/benchmarks/choose_defaults.py."""


@estimator
class MultinomialNB(Classes, Unlabelled, PaperSteps, Seeded, JointClassifier):
    """Multinomial naive Bayes, trained discriminatively by stochastic discriminative EM (sdEM).

    The model stays a joint distribution p(y, d) of classes and documents; what changes with `loss` is how its
    expectation parameters are found.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    feature_log_prob_ : ndarray of shape (n_classes, n_features)
        ln p(word | class).
    class_log_prior_ : ndarray of shape (n_classes,)
        ln p(class).
    n_features_in_ : int
    history_ : list of dict
        One entry an epoch: ``epoch``, ``seconds``, and where evaluated ``accuracy``, ``nll``, ``ncll``, ``hinge``
        (means a document) and ``perplexity`` (a word), with the prefix ``validation_`` for validation documents.
    kept_ : dict
        The entry of the epoch whose model this is.
    n_iter_ : int
        Epochs run.
    vocabulary_ : list of str or None
        The words, where the training corpus names them.
    vectorizer_ : dict or None
        How the training corpus turned text into counts, so that the model predicts on raw text.
    idf_ : ndarray of shape (n_features,) or None
    damaged_shards_ : list of str
        What was wrong with each shard that `fit` left out, see its `skip_damaged`.
    learner_, state_ : Sdem or WordEm, SdemState
        What was trained: settings, and expectation parameters mu.

    References
    ----------
    Masegosa, A. (2014). Stochastic Discriminative EM. UAI. Table 1, Algorithms 1 to 4.
    """

    loss: str = param(
        "ncll",
        one_of("ncll", "hinge", "nll"),
        "``-ln p(y | d)``, the hinge loss (Masegosa 2014, equation 17), or ``-ln p(y, d)``: scikit-learn's\n"
        "``MultinomialNB``, exactly, in one pass.",
    )
    alpha: str | float = param(
        "laplace",
        either(one_of("laplace", "log"), real(0, LARGEST)),
        "Pseudo-count of each word: 1 (the paper's P1), ln of the vocabulary's size (P2), or a number.",
    )
    n_epochs: int = param(15, integer(), "Passes over the documents; with hidden classes, iterations of EM.")

    n_blocks: int | None = param(
        None, integer(optional=True), "Parts of the vocabulary that are merged apart. None: one for each 256 MiB."
    )

    spec = Spec("sparse", "labels", "class", words="feature_log_prob_", unlabelled=True)

    def _check(self) -> None:
        check_priors_positive(self, "prior_scale", "alpha")
        if self.unlabelled is not None and (self.loss != "nll" or self.class_weight is not None):
            raise ValueError("unlabelled documents need loss='nll', and no class_weight")

    def stages(self, source: Source) -> Stages[Trained]:
        """Yield the one stage of a fit."""
        learner = self._learner(source)
        plan = replace(
            self._plan(source), n_blocks=plans.blocks_of(source.n_features, len(source.classes), self.n_blocks)
        )
        return (yield from final_stage(learner, plan))

    def _plan(self, source: Source) -> Plan:
        n, seed = source.n_documents, plans.seed_of(self.random_state)
        if self.loss == "nll":  # sums once over the corpus: one round is enough, and lanes only share the work
            epochs = 1 if self.unlabelled is None else self.n_epochs
            return plans.sequential(n, epochs, seed, self.n_lanes, 1)
        return plan_of(self, n, seed)

    def _learner(self, source: Source, n_documents: float | None = None) -> Sdem[NaiveBayes] | WordEm:
        """Return the learner for a training source; `n_documents` is n of the paper, else the source's by weight."""
        n_classes, plan = len(source.classes), self._plan(source)
        model = NaiveBayes(
            source.n_features,
            n_classes,
            pseudo_count(self.alpha, source.n_features),
            log_prior=fixed_log_prior(self.class_prior, self.fit_prior, n_classes),
        )
        n = source.weight if n_documents is None else n_documents
        weights = weights_of_classes(self.class_weight, source)
        if self.loss == "nll" and self.unlabelled is None:
            return WordEm(model, n, weights, plan.seed)
        if self.loss == "nll":
            share = float(self.unlabelled_weight)
            return WordEm(model, n, weights, plan.seed, rule="maximise", unlabelled_weight=share)
        schedule = schedule_of(self, n_classes, source.weighted, exact=plan.n_lanes == plan.n_rounds == 1)
        return Sdem(model, n, weights, plan.seed, loss=self.loss, merge=self.merge, schedule=schedule)

    def partial_fit(self, X: object, y: object, classes: object = None, sample_weight: object = None) -> Self:
        """Go on with one more batch of documents: one pass of sdEM over it, from where the model stands.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            All classes; needed at the first call.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self
        """
        from sdem_dist.engine.run import run_stages
        from sdem_dist.estimators.running import executor_for

        parameters.check(self)
        self._check()
        first = not hasattr(self, "state_")  # a first call that failed leaves classes_ behind
        known = self._all_classes(classes, first)
        source = source_of(self, X, y, sample_weight, use="train" if first else "continue", classes=known)
        if first:
            self.history_, self.n_iter_ = [], 0
            self._describe(source)
        state = self._learner(source).init() if first else self.state_
        learner = self._learner(source, n_documents=state.t + source.weight)
        stage = Stage("train", learner, replace(self._plan(source), n_epochs=1), initial=state)
        with executor_for(None, self.n_jobs, source) as executor:
            self._take(learner, run_stages(state_of(stage), source.corpus, executor))
        self.n_iter_ += 1
        return self

    def _all_classes(self, classes: object, first: bool) -> np.ndarray:
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        known = np.unique(np.asarray(classes)) if first else self.classes_
        if not first and classes is not None and not np.array_equal(known, np.unique(np.asarray(classes))):
            raise ValueError(f"`classes={classes!r}` is not the same as on last call to partial_fit, was: {known!r}")
        if len(known) < 2:
            raise ValueError(f"classes has one class only ({some(known)}): a classifier needs at least two classes")
        return known

    @property
    def feature_log_prob_(self) -> np.ndarray:
        """Ln p(word | class), shape (n_classes, n_features)."""
        check_is_fitted(self)
        return np.asarray((self._parameters.log_words - self._parameters.log_totals).T)

    def _joint_log_proba(self, X: object) -> np.ndarray:
        return joint_scores(self._parameters, documents_of(self, X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


def check_priors_positive(e: Any, *names: str) -> None:
    """Raise ValueError where a discriminative loss would have no prior, or settings belong to another merge."""
    for name in names:
        if getattr(e, name) == 0 and e.loss != "nll":
            raise ValueError(
                f"{name} must be positive for a discriminative loss: the prior keeps mu off the boundary of S"
            )
    if e.merge == "mean" and e.batch_size is not None:
        raise ValueError("batch_size is of merge='sum': leave it at None, or set rounds_per_epoch")
    if e.merge == "sum" and e.rounds_per_epoch is not None:
        raise ValueError("with merge='sum' batch_size sets the rounds of an epoch: leave rounds_per_epoch at None")


def plan_of(e: Any, n_documents: int, seed: int) -> Plan:
    """Return the plan of a run of a discriminative loss."""
    if e.merge == "sum":
        return plans.batches(n_documents, e.n_epochs, seed, e.batch_size or SUM_BATCH, e.n_lanes)
    return plans.sequential(n_documents, e.n_epochs, seed, e.n_lanes, e.rounds_per_epoch)


def pseudo_count(alpha: str | float, n_features: int) -> float:
    """Return alpha as a number: "laplace" is 1 (P1), "log" ln |W| (P2).

    0 becomes 1e-10, as with scikit-learn's ``force_alpha=False``.
    """
    if alpha == "laplace":
        return 1.0
    if alpha == "log":
        return float(np.log(max(n_features, 2)))
    return max(float(alpha), 1e-10)


def schedule_of(e: Any, n_classes: int, weighted: bool, *, exact: bool = False) -> PaperSchedule:
    """Return the steps that parameters ask for."""
    absence = absence_of(e.absence, n_classes, weighted)
    return PaperSchedule(float(e.step_decay), float(e.prior_scale), float(e.tolerance), absence, exact)


def absence_of(absence: str | float, n_classes: int, weighted: bool) -> float:
    """Return `absence` as a number, chosen by the number of classes for "auto"."""
    if absence == "auto":
        return min(1.0, ABSENCE_CLASSES["weights" if weighted else "counts"] / n_classes)
    return float(absence)
