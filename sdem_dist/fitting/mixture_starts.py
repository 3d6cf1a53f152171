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
from sdem_dist.learners.em import WordEm
from sdem_dist.learners.feature_em import FeatureEm
from sdem_dist.learners.features import FeatureState
from sdem_dist.learners.starts import counts_at_examples, features_at_examples, rows_at
from sdem_dist.learners.survey import Survey, SurveyResult, examples_of
from sdem_dist.models.feature_classes import FeatureClasses
from sdem_dist.models.features import FeatureModel, Features
from sdem_dist.models.naive_bayes import NaiveBayes
from sdem_dist.models.word_counts import SdemState

EM = TypeVar("EM", FeatureEm[Features], WordEm)


_State = TypeVar("_State", FeatureState, SdemState)


@dataclass(frozen=True)
class Start(Generic[EM, _State]):
    """EM's learner, where it starts, and the plan of one pass."""

    learner: EM
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
) -> Start[FeatureEm[Features], FeatureState]:
    """Run the stages that find where EM starts: half way between each class and random rows of it."""
    once = plans.full_passes(source.n_documents, 1, seed)
    columns = Columns(source.n_features, weighted=True)
    summary = trainer.run(Stage("columns", columns, once, corpus=corpus)).state
    model, n_classes = FeatureModel((kind.block(summary),)), len(source.classes)
    generative = FeatureEm(FeatureClasses(model, n_classes), source.weight, weights, complete=True)
    classes = trainer.run(Stage("classes", generative, once, corpus=corpus)).state
    survey = surveyed(trainer, source, once, max(numbers), corpus=corpus)
    learner = FeatureEm(FeatureClasses(model, n_classes, owners_of(numbers)), source.weight, weights, monitored=True)
    examples = rows_at(corpus or source.corpus, positions_of(survey, numbers))
    return Start(learner, features_at_examples(examples, numbers, model, classes), once)


def start_of_counts(
    trainer: Trainer,
    source: Source,
    numbers: tuple[int, ...],
    alpha: float,
    weights: tuple[float, ...] | None,
    seed: int,
) -> Start[WordEm, SdemState]:
    """Run the stages that find where EM of counts starts."""
    once = plans.full_passes(source.n_documents, 1, seed)
    model = NaiveBayes(source.n_features, len(source.classes), alpha)
    words = trainer.run(Stage("classes", WordEm(model, source.weight, weights), once)).state.words
    survey = surveyed(trainer, source, once, max(numbers))
    learner = WordEm(replace(model, owners=owners_of(numbers)), source.weight, weights, seed, rule="maximise")
    examples = (rows_at(source.corpus, [p])[0] for p in positions_of(survey, numbers))
    start = learner.start_at(*counts_at_examples(examples, numbers, words, source.class_counts))
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
