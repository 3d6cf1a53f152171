"""Where training starts: mixtures at random documents or clusters of k-means, words at frequencies in the corpus."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.engine.plan import AnyStage, Plan, Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.fitting import defaults, plans
from sdem_dist.inputs.source import documents_of, table_of
from sdem_dist.inputs.spec import Estimator, Source
from sdem_dist.learners import starts
from sdem_dist.learners.column_blocks import Kind
from sdem_dist.learners.rules import ClosedForm
from sdem_dist.learners.sdem import SdEM
from sdem_dist.learners.surveys import Columns, Survey, SurveyResult, examples_of
from sdem_dist.models.feature_classes import FeatureClasses, FeatureState
from sdem_dist.models.features import FeatureModel
from sdem_dist.models.heads import Classes
from sdem_dist.models.mixture import EmForm
from sdem_dist.models.naive_bayes import NaiveBayes, joint_scores, pseudo_count
from sdem_dist.models.word_counts import SdemState, bounds, state_at

if TYPE_CHECKING:
    from sdem_dist.corpus import Corpus, MemoryCorpus
    from sdem_dist.models.weighting import Weighting


@dataclass(frozen=True)
class Start:
    """EM's learner, where it starts, and the plan of one pass."""

    learner: SdEM[Any]
    state: Any
    once: Plan


def start_of_features(
    trainer: Trainer,
    source: Source,
    numbers: tuple[int, ...],
    kind: Kind,
    weights: tuple[float, ...] | None,
    seed: int,
    corpus: Any = None,
) -> Start:
    """Run the stages that find where EM starts: half way between each class and random rows of it."""
    once = plans.full_passes(source.n_documents, 1, seed)
    columns = Columns(source.n_features, weighted=True)
    summary = trainer.run(Stage("columns", columns, once, corpus=corpus)).state
    model, n_classes = FeatureModel((kind.block(summary),)), len(source.classes)
    generative = SdEM(
        FeatureClasses(model, Classes(n_classes)), source.weight, ClosedForm(complete=True), class_weight=weights
    )
    classes = trainer.run(Stage("classes", generative, once, corpus=corpus)).state
    survey = surveyed(trainer, source, once, max(numbers), corpus=corpus)
    head = Classes(n_classes, component_classes(numbers))
    learner = SdEM(FeatureClasses(model, head), source.weight, ClosedForm(monitored=True), class_weight=weights)
    examples = starts.rows_at(corpus or source.corpus, positions_of(survey, numbers))
    return Start(learner, starts.features_at_examples(examples, numbers, model, classes), once)


def start_of_counts(
    trainer: Trainer,
    source: Source,
    numbers: tuple[int, ...],
    alpha: float,
    weights: tuple[float, ...] | None,
    seed: int,
) -> Start:
    """Run the stages that find where EM of counts starts."""
    once = plans.full_passes(source.n_documents, 1, seed)
    n_classes = len(source.classes)
    model = NaiveBayes(source.n_features, Classes(n_classes), alpha)
    counting = SdEM(replace(model, class_alpha=0.0), source.weight, ClosedForm(complete=True), class_weight=weights)
    words = trainer.run(Stage("classes", counting, once)).state.words
    survey = surveyed(trainer, source, once, max(numbers))
    mixed = replace(model, head=Classes(n_classes, component_classes(numbers)))
    learner = SdEM(mixed, source.weight, ClosedForm(), class_weight=weights, seed=seed)
    examples = (starts.rows_at(source.corpus, [p])[0] for p in positions_of(survey, numbers))
    start = state_at(*starts.counts_at_examples(examples, numbers, words, source.class_counts))
    return Start(learner, start, once)


def surveyed(
    trainer: Trainer,
    source: Source,
    plan: Plan,
    n_examples: int,
    *,
    name: str = "survey",
    corpus: Any = None,
    **settings: Any,
) -> SurveyResult:
    """Run the stage that finds random examples and sums of rows, and return what it found."""
    survey = Survey(source.n_features, max(1, len(source.classes)), n_examples, seed=plan.seed, **settings)
    return trainer.run(Stage(name, survey, plan, corpus=corpus)).state


def positions_of(survey: SurveyResult, numbers: tuple[int, ...]) -> np.ndarray:
    """Return positions in the corpus of `numbers` examples of each class."""
    return np.concatenate(examples_of(survey, numbers))


def sampled_positions(survey: SurveyResult) -> list[int]:
    """Return where in the corpus the examples of a survey without classes are, ascending."""
    return np.sort(survey.positions[np.isfinite(survey.keys)].astype(np.int64)).tolist()


def component_classes(numbers: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(np.repeat(np.arange(len(numbers)), numbers).tolist())


@dataclass(frozen=True)
class WordClusters:
    """Multinomials over counts of words."""

    number: int
    alpha: float  # pseudo-count of each word in each cluster
    weight_alpha: float  # pseudo-count of each cluster
    init: str
    init_documents: int

    def learner(self, trainer: Trainer, source: Source, plan: Plan, form: EmForm) -> SdEM[NaiveBayes]:
        """Return EM's learner, which needs no stages."""
        model = NaiveBayes(source.n_features, Classes(1, (0,) * self.number), self.alpha, self.weight_alpha)
        return SdEM(model, source.weight, ClosedForm(form), seed=plan.seed)

    def started(self, trainer: Trainer, learner: SdEM[NaiveBayes], once: Plan, source: Source, which: str) -> AnyStage:
        """Run the survey that draws documents and, for examples, the count of words; return EM's stage from there."""
        at_examples, alpha = self.init == "examples", learner.model.alpha
        n_examples = self.number if at_examples else self.init_documents
        survey = surveyed(trainer, source, once, n_examples, name=f"survey{which}", labelled=False)
        words: Any = None
        if at_examples:
            one_class = NaiveBayes(source.n_features, Classes(1, (0,)), self.alpha)
            counting = SdEM(one_class, source.weight, ClosedForm(complete=True))
            words = trainer.run(Stage(f"words{which}", counting, once)).state.words

        def start() -> SdemState:
            if at_examples:
                examples = (starts.rows_at(source.corpus, [p])[0] for p in positions_of(survey, (self.number,)))
                return state_at(*starts.counts_at_examples(examples, (self.number,), words, (source.weight,)))
            drawn = [cast(Documents, source.corpus.read(p, p + 1)) for p in sampled_positions(survey)]
            return state_at(*starts.counts_by_k_means(Documents.concatenate(drawn), self.number, alpha, once.seed))

        return Stage(f"start{which}", learner, once, start)

    def prior_share(self, learner: SdEM[NaiveBayes], state: SdemState) -> float:
        """Return ``alpha ln p(word | cluster)`` and ``weight_alpha ln p(cluster)``, summed."""
        parameters, of_weights = learner.model.parameters(state), learner.model.class_alpha
        share = learner.model.alpha * float((parameters.log_words - parameters.log_totals).sum())
        return share + (of_weights * float(parameters.log_prior.sum()) if of_weights else 0.0)

    def log_joint(self, model: Estimator, X: object) -> np.ndarray:
        """Return ln p(cluster, document) of documents in memory, shape (n_samples, n_components)."""
        return joint_scores(model._parameters, documents_of(model, X))

    def n_parameters(self, model: Estimator) -> int:
        """Numbers of a fitted model that are free, for information criteria."""
        return self.number * model.n_features_in_ - 1


@dataclass(frozen=True)
class RowClusters:
    """Families over columns of a table, of one kind."""

    number: int
    kind: Kind
    init: str
    init_documents: int

    def learner(self, trainer: Trainer, source: Source, plan: Plan, form: EmForm) -> SdEM[FeatureClasses]:
        """Run the pass over the columns; return EM's learner."""
        once = Plan(source.n_documents, 1, 1, plan.n_lanes, plan.seed)
        summary = trainer.run(Stage("columns", Columns(source.n_features, weighted=True), once)).state
        model = FeatureClasses(FeatureModel((self.kind.block(summary),)), Classes(1, (0,) * self.number))
        return SdEM(model, source.weight, ClosedForm(form, monitored=True), seed=plan.seed)

    def started(
        self, trainer: Trainer, learner: SdEM[FeatureClasses], once: Plan, source: Source, which: str
    ) -> AnyStage:
        """Run the survey that draws rows and, for examples, the fit of all rows; return EM's stage from there."""
        variables, number = learner.model.variables, self.number
        at_examples = self.init == "examples"
        n_examples = number if at_examples else self.init_documents
        survey = surveyed(trainer, source, once, n_examples, name=f"survey{which}", labelled=False)
        all_rows: Any = None
        if at_examples:
            one_class = SdEM(FeatureClasses(variables, Classes(1, (0,))), source.weight, ClosedForm())
            all_rows = trainer.run(Stage(f"all rows{which}", one_class, once)).state

        def start() -> FeatureState:
            if at_examples:
                examples = starts.rows_at(source.corpus, positions_of(survey, (number,)))
                return starts.features_at_examples(examples, (number,), variables, all_rows)
            rows = starts.rows_at(source.corpus, sampled_positions(survey))
            return starts.features_by_k_means(rows, number, variables, source.weight, once.seed)

        return Stage(f"start{which}", learner, once, start)

    def prior_share(self, learner: SdEM[FeatureClasses], state: FeatureState) -> float:
        """Return minus the divergence of the components from the centre of the prior, by its weight."""
        variables, (_, mu) = learner.model.variables, state.best
        divergence = variables.divergence(np.broadcast_to(variables.centre, mu.shape), mu)
        return -float((variables.weight_of_variables * divergence).sum())

    def log_joint(self, model: Estimator, X: object) -> np.ndarray:
        """Return ln p(cluster, row) of rows in memory, shape (n_samples, n_components)."""
        variables: FeatureModel = model.learner_.model.variables
        return variables.scores(model._parameters, variables.features(table_of(model, X)))

    def n_parameters(self, model: Estimator) -> int:
        """Numbers of a fitted model that are free, for information criteria."""
        parameters: Any = model._parameters
        return int(len(parameters.log_prior) - 1 + parameters.theta.size)


ClusterKind = TypeVar("ClusterKind", WordClusters, RowClusters)
"""What a mixture without labels declares: what its clusters are, and where EM may start."""


@dataclass(frozen=True)
class PriorStart:
    """mu_0 of words, which every process makes for itself from the corpus's document frequencies.

    `words`: the words, where the weighting chooses among n-grams and no corpus on disk has them.
    """

    model: NaiveBayes
    corpus: Corpus | MemoryCorpus
    weighting: Weighting | None = None
    words: list[str] | None = None

    def __getstate__(self) -> dict[str, object]:
        # What is cached stays behind.
        return {"model": self.model, "corpus": self.corpus, "weighting": self.weighting, "words": self.words}

    @cached_property
    def prior(self) -> np.ndarray:
        """Pseudo-counts, shape (n_features,)."""
        frequency = self.corpus.document_frequency
        power = (
            defaults.PRIOR_POWER
            if self.weighting is None
            else defaults.PRIOR_POWERS.get(self.weighting.form, defaults.PRIOR_POWER)
        )
        prior = self.model.alpha * np.maximum(frequency, 1.0) ** power
        if self.weighting is not None and self.weighting.chooses:
            words = self.words
            if words is None and self.weighting.orders is not None:
                words = self.corpus.vocabulary()
            # A column that is left out adds nothing to the classes' totals.
            left_out = self.weighting.factors(frequency, words) == 0.0
            prior[left_out] = pseudo_count(0.0, self.model.n_features)
        return np.asarray(prior)

    def block(self, block: int, n_blocks: int) -> SdemState:
        first, last = bounds(self.model.n_features, block, n_blocks)
        return self.model.start_at(self.prior[first:last])
