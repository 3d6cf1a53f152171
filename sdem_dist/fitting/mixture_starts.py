"""Where mixtures start: at random documents of each class, found by a survey."""

from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np

from sdem_dist.engine.plan import Plan
from sdem_dist.engine.stages import Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.fitting import plans
from sdem_dist.inputs.spec import Source
from sdem_dist.learners.column_blocks import Kind
from sdem_dist.learners.columns import Columns
from sdem_dist.learners.rules import ClosedForm
from sdem_dist.learners.sdem import SdEM
from sdem_dist.learners.starts import counts_at_examples, features_at_examples, rows_at
from sdem_dist.learners.survey import Survey, SurveyResult, examples_of
from sdem_dist.models.feature_classes import FeatureClasses, FeatureState
from sdem_dist.models.features import FeatureModel
from sdem_dist.models.heads import Classes
from sdem_dist.models.naive_bayes import NaiveBayes
from sdem_dist.models.word_counts import SdemState, state_at

_Model = TypeVar("_Model", FeatureClasses, NaiveBayes)
_State = TypeVar("_State", FeatureState, SdemState)


@dataclass(frozen=True)
class Start(Generic[_Model, _State]):
    """EM's learner, where it starts, and the plan of one pass."""

    learner: SdEM[_Model]
    state: _State
    once: Plan


def start_of_features(
    trainer: Trainer,
    source: Source,
    numbers: tuple[int, ...],
    kind: Kind,
    weights: tuple[float, ...] | None,
    seed: int,
    corpus: Any = None,
) -> Start[FeatureClasses, FeatureState]:
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
    head = Classes(n_classes, owners_of(numbers))
    learner = SdEM(FeatureClasses(model, head), source.weight, ClosedForm(monitored=True), class_weight=weights)
    examples = rows_at(corpus or source.corpus, positions_of(survey, numbers))
    return Start(learner, features_at_examples(examples, numbers, model, classes), once)


def start_of_counts(
    trainer: Trainer,
    source: Source,
    numbers: tuple[int, ...],
    alpha: float,
    weights: tuple[float, ...] | None,
    seed: int,
) -> Start[NaiveBayes, SdemState]:
    """Run the stages that find where EM of counts starts."""
    once = plans.full_passes(source.n_documents, 1, seed)
    n_classes = len(source.classes)
    model = NaiveBayes(source.n_features, Classes(n_classes), alpha)
    counting = SdEM(replace(model, class_alpha=0.0), source.weight, ClosedForm(complete=True), class_weight=weights)
    words = trainer.run(Stage("classes", counting, once)).state.words
    survey = surveyed(trainer, source, once, max(numbers))
    mixed = replace(model, head=Classes(n_classes, owners_of(numbers)))
    learner = SdEM(mixed, source.weight, ClosedForm(), class_weight=weights, seed=seed)
    examples = (rows_at(source.corpus, [p])[0] for p in positions_of(survey, numbers))
    start = state_at(*counts_at_examples(examples, numbers, words, source.class_counts))
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


def owners_of(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Return the class of each component."""
    return tuple(np.repeat(np.arange(len(numbers)), numbers).tolist())
