"""EM of mixtures, and where it starts: half way between classes and random documents, or at clusters of k-means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.engine.plan import Plan, Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.fitting import defaults
from sdem_dist.inputs.spec import Source
from sdem_dist.learners import starts
from sdem_dist.learners.rules import ClosedForm
from sdem_dist.learners.sdem import SdEM
from sdem_dist.learners.starts import Kind
from sdem_dist.learners.surveys import Columns, Survey, SurveyResult, examples_of
from sdem_dist.models.em import EXACT, EmForm
from sdem_dist.models.feature_classes import FeatureClasses
from sdem_dist.models.features import FeatureModel
from sdem_dist.models.heads import Classes
from sdem_dist.models.naive_bayes import NaiveBayes
from sdem_dist.models.word_counts import state_at


def check_em(estimator: Any) -> None:
    """Raise ValueError where a setting of EM belongs to another form."""
    for name, form in (("em_step", "generalised"), ("batch_size", "online")):
        if getattr(estimator, name) is not None and estimator.em != form:
            raise ValueError(f"{name} means nothing with em={estimator.em!r}: leave it at None, or set em={form!r}")
    if estimator.annealing > 1 and estimator.em == "hard":
        raise ValueError("annealing means nothing with em='hard', which has no posteriors: leave it at 1")


def em_form(estimator: Any) -> EmForm:
    step = float(estimator.em_step or defaults.GENERALISED_EM_STEP) if estimator.em == "generalised" else 1.0
    return EmForm(estimator.em, step, float(estimator.annealing))


def em_plan(estimator: Any, plan: Plan) -> Plan:
    """Return the plan of EM: a round is a pass over all documents, or a batch."""
    if estimator.em != "online":
        return plan
    n_rounds = max(1, -(-plan.n_documents // (estimator.batch_size or defaults.ONLINE_EM_BATCH)))
    return replace(plan, n_rounds=n_rounds, n_lanes=1)


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


def sampled_positions(survey: SurveyResult) -> list[int]:
    """Return where in the corpus the examples of a survey without classes are, ascending."""
    return np.sort(survey.positions[np.isfinite(survey.keys)].astype(np.int64)).tolist()


def component_classes(numbers: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(np.repeat(np.arange(len(numbers)), numbers).tolist())


@dataclass(frozen=True)
class MixtureStart:
    """EM's learner of a mixture, and the stages that find where it starts.

    `numbers`: components of each class; a mixture without labels is one class.
    `kind`: of the columns of a table; None: multinomials over counts of words.
    `class_weight`, `unlabelled_weight`: as of `SdEM`.
    `alpha`, `weight_alpha`: pseudo-counts of multinomials: of each word in each component, and of each component.
    `corpus`: the documents, if they are not the source's.
    """

    numbers: tuple[int, ...]
    kind: Kind | None
    class_weight: tuple[float, ...] | None = None
    unlabelled_weight: float = 1.0
    alpha: float = 1.0
    weight_alpha: float = 1.0
    corpus: Any = None

    def learner(self, trainer: Trainer, source: Source, plan: Plan, form: EmForm = EXACT) -> SdEM[Any]:
        """Return EM's learner, for columns of a table after a pass over these."""
        head: Any = Classes(len(self.numbers), component_classes(self.numbers))
        if self.kind is None:
            model: Any = NaiveBayes(source.n_features, head, self.alpha, self.weight_alpha)
        else:
            columns = Stage("columns", Columns(source.n_features, weighted=True), plan, corpus=self.corpus)
            summary = trainer.run(replace(columns, plan=replace(plan, n_epochs=1))).state
            model = FeatureClasses(FeatureModel((self.kind.block(summary),)), head)
        rule = ClosedForm(form, monitored=self.kind is not None)
        return SdEM(model, source.weight, rule, "nll", self.class_weight, self.unlabelled_weight, seed=plan.seed)

    def at_examples(
        self, trainer: Trainer, learner: SdEM[Any], source: Source, once: Plan, which: str = ""
    ) -> Callable[[], Any]:
        """Run the generative fit and the survey; return what makes the start half way to random examples."""
        labelled = len(source.classes) > 0
        head = Classes(len(self.numbers), () if labelled else (0,))
        if self.kind is None:
            model: Any = NaiveBayes(source.n_features, head, self.alpha, class_alpha=0.0)
        else:
            model = FeatureClasses(learner.model.variables, head)
        rule = ClosedForm(complete=labelled or self.kind is None)
        generative = SdEM(model, source.weight, rule, class_weight=self.class_weight)
        classes: Any = trainer.run(Stage(f"classes{which}", generative, once, corpus=self.corpus)).state
        n, corpus = max(self.numbers), self.corpus
        survey = surveyed(trainer, source, once, n, name=f"survey{which}", corpus=corpus, labelled=labelled)
        positions = np.concatenate(examples_of(survey, self.numbers))

        def half_way() -> Any:
            if self.kind is not None:
                examples = starts.rows_at(self.corpus or source.corpus, positions)
                return starts.features_at_examples(examples, self.numbers, learner.model.variables, classes)
            documents = (starts.rows_at(source.corpus, [position])[0] for position in positions)
            counts = source.class_counts if labelled else (source.weight,)
            return state_at(*starts.counts_at_examples(documents, self.numbers, classes.words, counts))

        return half_way

    def by_k_means(
        self, trainer: Trainer, learner: SdEM[Any], source: Source, once: Plan, n_documents: int, which: str = ""
    ) -> Callable[[], Any]:
        """Run the survey that draws documents; return what makes the start at their clusters."""
        survey = surveyed(trainer, source, once, n_documents, name=f"survey{which}", labelled=False)
        positions, corpus, n_clusters = sampled_positions(survey), source.corpus, self.numbers[0]

        def at_clusters() -> Any:
            if self.kind is not None:
                rows, variables = starts.rows_at(corpus, positions), learner.model.variables
                return starts.features_by_k_means(rows, n_clusters, variables, source.weight, once.seed)
            drawn = Documents.concatenate([cast(Documents, corpus.read(i, i + 1)) for i in positions])
            return state_at(*starts.counts_by_k_means(drawn, n_clusters, learner.model.alpha, once.seed))

        return at_clusters

    def prior_share(self, learner: SdEM[Any], state: Any) -> float:
        """Return the prior's share of the objective of a mixture without labels.

        Of counts ``alpha ln p(word | cluster)`` and ``weight_alpha ln p(cluster)``, summed. Of a table minus the
        divergence of the components from the centre of the prior, by its weight.
        """
        if self.kind is not None:
            variables, (_, mu) = learner.model.variables, state.best
            divergence = variables.divergence(np.broadcast_to(variables.centre, mu.shape), mu)
            return -float((variables.prior_weight * divergence).sum())
        parameters, of_weights = learner.model.parameters(state), learner.model.class_alpha
        share = learner.model.alpha * float((parameters.log_words - parameters.log_totals).sum())
        return share + (of_weights * float(parameters.log_prior.sum()) if of_weights else 0.0)
