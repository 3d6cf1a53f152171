"""Where EM of mixtures starts: half way between classes and random documents, or at clusters of k-means.

Mixtures of words and mixtures over columns of a table differ in their model, their statistics, and the prior's share of
the objective; stages and draws are the same. A mixture without labels is one class of `numbers[0]` components.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.engine.plan import Plan, Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.inputs.spec import Source
from sdem_dist.learners import starts
from sdem_dist.learners.rules import ClosedForm
from sdem_dist.learners.sdem import SdEM
from sdem_dist.learners.starts import Kind
from sdem_dist.learners.surveys import Columns, Survey, SurveyResult, examples_of
from sdem_dist.models.em import EXACT, EmForm
from sdem_dist.models.feature_classes import FeatureClasses, FeatureState
from sdem_dist.models.features import FeatureModel
from sdem_dist.models.heads import Classes
from sdem_dist.models.naive_bayes import NaiveBayes
from sdem_dist.models.word_counts import SdemState, state_at


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
class MixtureStart(ABC):
    """EM's learner of a mixture, and the stages that find where it starts.

    `numbers`: components of each class; of a mixture without labels of the one class.
    `class_weight`, `unlabelled_weight`: as of `SdEM`.
    `corpus`: the documents, if they are not the source's.
    """

    numbers: tuple[int, ...]
    class_weight: tuple[float, ...] | None = None
    unlabelled_weight: float = 1.0
    corpus: Any = None

    @abstractmethod
    def learner(self, trainer: Trainer, source: Source, plan: Plan, form: EmForm = EXACT) -> SdEM[Any]:
        """Return EM's learner, after the stages that its model needs."""

    @abstractmethod
    def _classes(self, trainer: Trainer, learner: SdEM[Any], source: Source, once: Plan, which: str) -> Any:
        """Run the generative fit of the classes; return its state."""

    @abstractmethod
    def _half_way(self, learner: SdEM[Any], source: Source, positions: np.ndarray, classes: Any) -> Any:
        """Return the start half way between classes and the examples at some positions."""

    @abstractmethod
    def _by_k_means(self, learner: SdEM[Any], source: Source, positions: list[int], seed: int) -> Any:
        """Return the start at clusters of the documents at some positions."""

    @abstractmethod
    def prior_share(self, learner: SdEM[Any], state: Any) -> float:
        """Return the prior's share of the objective of a mixture without labels."""

    def at_examples(
        self, trainer: Trainer, learner: SdEM[Any], source: Source, once: Plan, which: str = ""
    ) -> Callable[[], Any]:
        """Run the generative fit and the survey; return what makes the start half way to random examples."""
        classes = self._classes(trainer, learner, source, once, which)
        survey = surveyed(
            trainer,
            source,
            once,
            max(self.numbers),
            name=f"survey{which}",
            corpus=self.corpus,
            labelled=len(source.classes) > 0,
        )
        return partial(self._half_way, learner, source, positions_of(survey, self.numbers), classes)

    def by_k_means(
        self, trainer: Trainer, learner: SdEM[Any], source: Source, once: Plan, n_documents: int, which: str = ""
    ) -> Callable[[], Any]:
        """Run the survey that draws documents; return what makes the start at their clusters."""
        survey = surveyed(trainer, source, once, n_documents, name=f"survey{which}", labelled=False)
        return partial(self._by_k_means, learner, source, sampled_positions(survey), once.seed)


@dataclass(frozen=True)
class CountsStart(MixtureStart):
    """Multinomials over counts of words."""

    alpha: float = 1.0  # pseudo-count of each word in each component
    weight_alpha: float = 1.0  # pseudo-count of each component

    def learner(self, trainer: Trainer, source: Source, plan: Plan, form: EmForm = EXACT) -> SdEM[NaiveBayes]:
        head = Classes(len(self.numbers), component_classes(self.numbers))
        model = NaiveBayes(source.n_features, head, self.alpha, self.weight_alpha)
        weights, seed = self.class_weight, plan.seed
        return SdEM(model, source.weight, ClosedForm(form), "nll", weights, self.unlabelled_weight, seed=seed)

    def _classes(
        self, trainer: Trainer, learner: SdEM[NaiveBayes], source: Source, once: Plan, which: str
    ) -> SdemState:
        head = Classes(len(self.numbers), () if len(source.classes) else (0,))
        model = NaiveBayes(source.n_features, head, self.alpha, class_alpha=0.0)
        counting = SdEM(model, source.weight, ClosedForm(complete=True), class_weight=self.class_weight)
        return cast(SdemState, trainer.run(Stage(f"classes{which}", counting, once)).state)

    def _half_way(
        self, learner: SdEM[NaiveBayes], source: Source, positions: np.ndarray, classes: SdemState
    ) -> SdemState:
        examples = (starts.rows_at(source.corpus, [position])[0] for position in positions)
        counts = source.class_counts if len(source.classes) else (source.weight,)
        return state_at(*starts.counts_at_examples(examples, self.numbers, classes.words, counts))

    def _by_k_means(self, learner: SdEM[NaiveBayes], source: Source, positions: list[int], seed: int) -> SdemState:
        drawn = [cast(Documents, source.corpus.read(i, i + 1)) for i in positions]
        alpha = learner.model.alpha
        return state_at(*starts.counts_by_k_means(Documents.concatenate(drawn), self.numbers[0], alpha, seed))

    def prior_share(self, learner: SdEM[NaiveBayes], state: SdemState) -> float:
        """Return ``alpha ln p(word | cluster)`` and ``weight_alpha ln p(cluster)``, summed."""
        parameters, of_weights = learner.model.parameters(state), learner.model.class_alpha
        share = learner.model.alpha * float((parameters.log_words - parameters.log_totals).sum())
        return share + (of_weights * float(parameters.log_prior.sum()) if of_weights else 0.0)


@dataclass(frozen=True)
class ColumnsStart(MixtureStart):
    """Families over the columns of a table, of one kind."""

    kind: Kind = field(kw_only=True)

    def learner(self, trainer: Trainer, source: Source, plan: Plan, form: EmForm = EXACT) -> SdEM[FeatureClasses]:
        """Run the pass over the columns; return EM's learner."""
        once, columns = replace(plan, n_epochs=1), Columns(source.n_features, weighted=True)
        summary = trainer.run(Stage("columns", columns, once, corpus=self.corpus)).state
        head = Classes(len(self.numbers), component_classes(self.numbers))
        model, rule = FeatureClasses(FeatureModel((self.kind.block(summary),)), head), ClosedForm(form, monitored=True)
        weights, seed = self.class_weight, plan.seed
        return SdEM(model, source.weight, rule, "nll", weights, self.unlabelled_weight, seed=seed)

    def _classes(
        self, trainer: Trainer, learner: SdEM[FeatureClasses], source: Source, once: Plan, which: str
    ) -> FeatureState:
        labelled = len(source.classes) > 0
        model = FeatureClasses(learner.model.variables, Classes(len(self.numbers), () if labelled else (0,)))
        rule = ClosedForm(complete=labelled)
        generative = SdEM(model, source.weight, rule, class_weight=self.class_weight)
        return cast(FeatureState, trainer.run(Stage(f"classes{which}", generative, once, corpus=self.corpus)).state)

    def _half_way(
        self, learner: SdEM[FeatureClasses], source: Source, positions: np.ndarray, classes: FeatureState
    ) -> FeatureState:
        examples = starts.rows_at(self.corpus or source.corpus, positions)
        return starts.features_at_examples(examples, self.numbers, learner.model.variables, classes)

    def _by_k_means(
        self, learner: SdEM[FeatureClasses], source: Source, positions: list[int], seed: int
    ) -> FeatureState:
        rows, variables = starts.rows_at(source.corpus, positions), learner.model.variables
        return starts.features_by_k_means(rows, self.numbers[0], variables, source.weight, seed)

    def prior_share(self, learner: SdEM[FeatureClasses], state: FeatureState) -> float:
        """Return minus the divergence of the components from the centre of the prior, by its weight."""
        variables, (_, mu) = learner.model.variables, state.best
        divergence = variables.divergence(np.broadcast_to(variables.centre, mu.shape), mu)
        return -float((variables.prior_weight * divergence).sum())
