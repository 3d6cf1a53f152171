"""Naive Bayes of tables: what all have, and Gaussian columns."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import logsumexp

from sdem_dist.corpus import Corpus
from sdem_dist.corpus.labels import numbering
from sdem_dist.engine.plan import Plan, Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.errors import CorpusError
from sdem_dist.estimators import parameters as p
from sdem_dist.estimators.predictions import JointClassifier, WithDensity
from sdem_dist.fitting import defaults, plans
from sdem_dist.fitting.plans import fixed_log_prior, weights_of_classes
from sdem_dist.inputs.source import Source
from sdem_dist.inputs.spec import Extra, Spec, Trained, final_stage
from sdem_dist.inputs.validation import seed_of
from sdem_dist.learners.rules import ClosedForm
from sdem_dist.learners.safe_step import PaperStep, SafeStep
from sdem_dist.learners.sdem import SdEM
from sdem_dist.learners.starts import gaussian_block, moments
from sdem_dist.learners.surveys import Columns, ColumnSummary
from sdem_dist.losses import Loss, Nll, named
from sdem_dist.models.feature_classes import FeatureClasses
from sdem_dist.models.features import Block, FeatureModel
from sdem_dist.models.heads import Classes
from sdem_dist.reports.explanation import DocumentParts
from sdem_dist.reports.parts import of_naive_bayes

_HELD_BACK = (
    "{}: training ended at the loss of the generative fit: the prior outweighs the loss. That happens where rows are few, a "
    "class has next to no spread, or a value lies far from all others. Give the prior less weight (prior=0 or alpha=0), "
    "leave out classes of one row and outliers, or take loss='nll', which is faster"
)


@p.estimator
class FeatureNB(WithDensity, JointClassifier):
    """Naive Bayes over dense features, trained by sdEM.

    Missing values (NaN) are summed out in training and prediction (Masegosa 2014, Table 2).
    """

    loss: str | Loss = p.param(
        "ncll",
        'Or any object with the methods of `sdem_dist.losses.Loss`. "nll" is the generative fit, in one pass.',
        p.a_loss("ncll", "hinge", "nll"),
    )
    n_epochs: int = p.param(60, "Passes over the documents after the generative fit.")
    merge: str = p.param(
        "sum",
        '"sum": one step per round, with the statistics of all lanes. "mean": lanes run sdEM, and their mu are averaged.',
        p.one_of("sum", "mean"),
    )
    n_lanes: int | None = None
    batch_size: int | None = p.param(
        None, 'Documents of a step: of a round for "sum" (None: all), inside a lane for "mean" (None: 32).'
    )
    step: str = p.param(
        "safe",
        '"safe": from the generative fit, steps are halved until they stay inside S and within a KL divergence of 1, and\n'
        'only rounds that lower the objective are kept. "paper": from the prior, ``1 / (1 + step_decay * t)`` per document.',
        p.one_of("safe", "paper"),
    )
    step_decay: float = p.param(1e-5, "lambda of the paper's steps, and of safe ones with batches.")
    class_prior: object = None
    fit_prior: bool = True
    class_weight: object = None
    unlabelled: object = None
    unlabelled_weight: float = 1.0
    patience: int | None = None
    random_state: object = 0

    spec = Spec("dense", "labels", "class", unlabelled=True)
    _learned: ClassVar[Mapping[str, str]] = {
        "class_count_": "ndarray of shape (n_classes,)\nLabelled training documents, by weight.",
        "history_": "list of dict\nOne entry per epoch, see `MultinomialNB`; ``perplexity`` is a value, not a word.",
    }

    _takes_categories = False

    @abstractmethod
    def _blocks(self, summary: ColumnSummary, generative: bool) -> tuple[Block, ...]:
        """Return the model's blocks, for the generative fit or for a discriminative run from there."""

    def _check(self) -> None:
        if self.step == "paper" and self.merge == "sum":
            raise ValueError(
                "step='paper' is a step per document: it needs merge='mean', n_lanes=1 for the paper's algorithm"
            )
        if self.loss == "nll" and self.unlabelled is None and (self.step == "paper" or self.batch_size is not None):
            raise ValueError(
                "loss='nll' is the generative fit in closed form, without steps: leave step at 'safe' and batch_size at None, "
                "or take Nll() of sdem_dist.losses for the loss"
            )

    def _describe(self, source: Source) -> None:
        super()._describe(source)
        self.class_count_ = np.asarray(source.class_counts)
        if isinstance(source.corpus, Corpus):
            self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
            categories = numbering(source.corpus.header.vectorizer)
            if categories is not None and source.vocabulary is not None:
                self.feature_names_in_ = np.array(source.vocabulary, object)
            if categories and not self._takes_categories:
                raise CorpusError(
                    f"{source.name} was written from a table with columns of text, categories or booleans: MixedNB takes such "
                    f"corpora, {type(self).__name__} does not"
                )
            self.categories_ = categories or {}

    def train(self, trainer: Trainer, source: Source) -> Trained:
        """Run the pass over the columns, the generative fit, and the discriminative run from there."""
        n, n_classes, seed = source.n_documents, len(source.classes), seed_of(self.random_state)
        once = Plan(n, 1, 1, plans.lanes_of(n, defaults.SUM_LANE_ROWS), seed)
        # The prior counts a document by its weight; scikit-learn's smoothing, which "nll" alone has, does not.
        weighted = self.loss != "nll" or self.unlabelled is not None
        summary = trainer.run(Stage("columns", Columns(source.n_features, weighted), once)).state
        weights, share = weights_of_classes(self, source), float(self.unlabelled_weight)
        log_prior = fixed_log_prior(self.class_prior, self.fit_prior, n_classes)

        def model_of(*, generative: bool) -> FeatureClasses:
            variables = FeatureModel(self._blocks(summary, generative))
            return FeatureClasses(variables, Classes(n_classes), log_prior)

        rule: Any = ClosedForm(complete=True)
        generative = SdEM(model_of(generative=True), source.weight, rule, class_weight=weights, unlabelled_weight=share)
        if self.loss == "nll" and not summary.n_unlabelled:
            end = final_stage(trainer, generative, once)
            return end if self.unlabelled is not None else end._replace(warnings=p.unused_steps(self))
        initial = None
        if self.step == "safe":
            initial = generative.model.inside(trainer.run(Stage("generative fit", generative, once)).state)
        # Rounds are whole epochs unless ``merge="sum"`` has a `batch_size`.
        plan = Plan(n, self.n_epochs, 1, self.n_lanes or plans.lanes_of(n, defaults.MEAN_LANE_ROWS), seed)
        if self.merge == "sum":
            plan = plans.batches(n, self.n_epochs, seed, self.batch_size or n, self.n_lanes, defaults.SUM_LANE_ROWS)
        batch = self.batch_size or (1 if self.step == "paper" else defaults.MEAN_BATCH)
        common = self.merge == "mean", batch, float(self.step_decay)
        rule = PaperStep(*common) if self.step == "paper" else SafeStep(*common, judged=plan.n_rounds == 1)
        loss, model = named(self.loss), model_of(generative=False)
        learner = SdEM(model, source.weight, rule, loss, weights, share, seed=seed)
        end = final_stage(trainer, learner, plan, initial)
        if isinstance(rule, SafeStep) and rule.held_back(learner, end.state):
            end = end._replace(warnings=(_HELD_BACK.format(type(self).__name__),))
        return end

    def _document_parts(self, documents: object, pairs: np.ndarray) -> list[DocumentParts]:
        return of_naive_bayes(self._rows(documents), pairs, self._parameters.log_prior)

    def _log_densities(self, row: object) -> np.ndarray:
        """Return ln p(value | class) of a value of each column, shape (n_features, n_classes)."""
        values = np.broadcast_to(np.asarray(row, np.float64), self.n_features_in_)
        return np.asarray(self.learner_.model.variables.log_densities(self._parameters, values))

    def with_class_prior(self, class_prior: object) -> Self:
        """Return a copy of the fitted model for a population with other shares of the classes.

        For the generative fit this replaces p(y). For the other losses scores gain ``ln new - ln old``, where old is a
        class's share of the training documents, class weights included. What training changed beyond these shares
        stays. Thresholds of `calibrate_sets` belong to the old probabilities, so the copy has none: calibrate it again.

        Raises
        ------
        ValueError
            A class that has no training documents is given a share.
        """
        shares = np.asarray(fixed_log_prior(np.asarray(class_prior, np.float64), True, len(self.classes_)))
        factors = self.learner_.class_weight
        old = self.class_count_ * (1.0 if factors is None else np.asarray(factors))
        if ((old == 0) & np.isfinite(shares)).any():
            raise ValueError(f"no training document has the class {self.classes_[old == 0][0]}: its share must be 0")
        log_prior = shares
        if self.loss not in ("nll", Nll()):
            positive = np.flatnonzero(old)
            log_prior = np.full(len(old), -np.inf)
            trained_prior = self._lazy_parameters.trained.value.log_prior
            log_prior[positive] = trained_prior[positive] + shares[positive] - np.log(old[positive])
        new = copy.copy(self)
        new.__dict__.pop("set_scores_", None)
        new._lazy_parameters = self._lazy_parameters.with_prior(log_prior - logsumexp(log_prior))
        return new

    def extra(self) -> dict[str, object]:
        """Return the counts of the classes, the categories of columns, and a class prior of `with_class_prior`."""
        categories = {str(i): c.tolist() for i, c in getattr(self, "categories_", {}).items()}
        moved = self._lazy_parameters.trained is not self._lazy_parameters
        prior = {"log_prior": self._parameters.log_prior.tolist()} if moved else {}
        return {"class_count": self.class_count_.tolist(), "categories": categories, **prior}

    def take_extra(self, extra: Extra) -> None:
        self.class_count_ = np.array(extra["class_count"], np.float64)
        if len(self.class_count_) != len(self.classes_):
            raise ValueError("the counts of the classes do not match the classes")
        self.categories_ = {int(i): np.array(c) for i, c in extra["categories"].items()}
        if "log_prior" in extra:
            log_prior = np.array(extra["log_prior"], np.float64)
            if log_prior.shape != self.class_count_.shape or np.isnan(log_prior).any():
                raise ValueError("the class prior does not match the classes")
            self._lazy_parameters = self._lazy_parameters.with_prior(log_prior)


@p.estimator
class GaussianNB(FeatureNB):
    """Gaussian naive Bayes: every column is normally distributed in every class, with its own mean and variance.

    With ``loss="nll"`` it is scikit-learn's.

    Examples
    --------
    >>> import numpy as np
    >>> from sdem_dist import GaussianNB
    >>> X = np.array([[1.0, 2.0], [1.5, np.nan], [4.0, 4.5], [5.0, 5.0]])
    >>> clf = GaussianNB(loss="nll").fit(X, ["low", "low", "high", "high"])
    >>> clf.predict([[1.2, np.nan], [np.nan, 5.0]]).tolist()  # what is missing is summed out
    ['low', 'high']
    """

    var_smoothing: float = p.param(1e-9, "Share of the largest variance that the generative fit adds to all variances.")
    prior: float = p.param(
        1.0, 'Observations of the column\'s mean and variance that the prior adds to each class, but for "nll".'
    )

    def _blocks(self, summary: ColumnSummary, generative: bool) -> tuple[Block, ...]:
        columns = np.arange(len(summary.n))
        added = self.var_smoothing * summary.variance.max()
        literal = self.step == "paper"  # the paper's prior is of the columns as they are
        prior = 0.0 if generative else self.prior
        return (gaussian_block(summary, columns, prior, added, standardised=not literal),)

    @property
    def theta_(self) -> np.ndarray:
        """Mean of each class and column, shape (n_classes, n_features)."""
        return self._moments()[0]

    @property
    def var_(self) -> np.ndarray:
        """Variance of each class and column, shape (n_classes, n_features)."""
        return self._moments()[1]

    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        return moments(self.learner_.model.variables.blocks[0], self._parameters.theta)
