"""The clusters of mixtures without labels: multinomials over words, or families over columns of a table."""

from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.engine.plan import Plan
from sdem_dist.engine.stages import AnyStage, Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.fitting.mixture_starts import positions_of, sampled_positions, surveyed
from sdem_dist.inputs.source import documents_of, table_of
from sdem_dist.inputs.spec import Estimator, Source
from sdem_dist.learners.column_blocks import Kind
from sdem_dist.learners.columns import Columns
from sdem_dist.learners.rules import ClosedForm
from sdem_dist.learners.sdem import SdEM
from sdem_dist.learners.starts import (
    counts_at_examples,
    counts_by_k_means,
    features_at_examples,
    features_by_k_means,
    rows_at,
)
from sdem_dist.models.em_forms import EmForm
from sdem_dist.models.feature_classes import FeatureClasses, FeatureState
from sdem_dist.models.features import FeatureModel
from sdem_dist.models.heads import Classes
from sdem_dist.models.naive_bayes import NaiveBayes, joint_scores
from sdem_dist.models.word_counts import SdemState, state_at


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
        n_examples = self.number if self.init == "examples" else self.init_documents
        survey = surveyed(trainer, source, once, n_examples, name=f"survey{which}", labelled=False)
        if self.init == "examples":
            naive = SdEM(
                NaiveBayes(source.n_features, Classes(1, (0,)), self.alpha), source.weight, ClosedForm(complete=True)
            )
            words = trainer.run(Stage(f"words{which}", naive, once)).state.words
            numbers = (self.number,)

        def start() -> SdemState:
            corpus = source.corpus
            if self.init == "examples":
                examples = (rows_at(corpus, [p])[0] for p in positions_of(survey, numbers))
                return state_at(*counts_at_examples(examples, numbers, words, (source.weight,)))
            drawn = [cast(Documents, corpus.read(p, p + 1)) for p in sampled_positions(survey)]
            found = counts_by_k_means(Documents.concatenate(drawn), self.number, learner.model.alpha, once.seed)
            return state_at(*found)

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
        n_components = self.number
        return n_components - 1 + n_components * (model.n_features_in_ - 1)


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
        variables = learner.model.variables
        n_examples = self.number if self.init == "examples" else self.init_documents
        survey = surveyed(trainer, source, once, n_examples, name=f"survey{which}", labelled=False)
        if self.init == "k-means":

            def start() -> FeatureState:
                rows = rows_at(source.corpus, sampled_positions(survey))
                return features_by_k_means(rows, self.number, variables, source.weight, once.seed)

            return Stage(f"start{which}", learner, once, start)
        generative = SdEM(FeatureClasses(variables, Classes(1, (0,))), source.weight, ClosedForm())
        whole = trainer.run(Stage(f"all rows{which}", generative, once)).state
        examples = rows_at(source.corpus, positions_of(survey, (self.number,)))
        return Stage(f"start{which}", learner, once, features_at_examples(examples, (self.number,), variables, whole))

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
