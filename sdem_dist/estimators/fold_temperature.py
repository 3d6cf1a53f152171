"""The temperature of a model of few documents: by cross-validation, where too few could be held out to say anything."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
from scipy.special import log_softmax

from sdem_dist.calibration import best_temperature, tempered_losses
from sdem_dist.corpus.folds import Folds
from sdem_dist.documents import Documents
from sdem_dist.engine.plan import Plan
from sdem_dist.engine.stages import MadeByWorkers, Stage, Stages, state_of
from sdem_dist.estimators.base import Trained, final_stage
from sdem_dist.estimators.spec import Source
from sdem_dist.learners.sdem import Sdem
from sdem_dist.models.naive_bayes import NaiveBayes, joint_scores
from sdem_dist.models.word_counts import SdemState

N_FOLDS = 3
FEWEST = 2 * N_FOLDS
"""Documents under which folds say nothing."""


class OutOfFold(NamedTuple):
    """What the folds say."""

    temperature: float
    accuracy: float
    log_loss: float
    """At that temperature."""


def calibrated_by_folds(
    source: Source, learner: Sdem[NaiveBayes], plan: Plan, initial: MadeByWorkers[SdemState] | None
) -> Stages[Trained]:
    """Yield the trainings without each fold, then that of all documents, whose temperature they give."""
    folds = yield from out_of_fold(source, learner, plan, initial)
    found = yield from final_stage(replace(learner, temperature=folds.temperature), plan, initial)
    said = {"held_out_accuracy": folds.accuracy, "held_out_log_loss": folds.log_loss}
    return found._replace(history=[*found.history[:-1], {**found.history[-1], **said}])


def out_of_fold(
    source: Source, learner: Sdem[NaiveBayes], plan: Plan, initial: MadeByWorkers[SdemState] | None
) -> Stages[OutOfFold]:
    """Yield a training for each fold, without it, and return what its documents say together.

    One more document counts as wrong, by the median margin: where all are right nobody knows how rare errors are.
    """
    folds, parts = Folds(source.corpus, N_FOLDS, learner.seed), []
    for number in range(N_FOLDS):
        rest, without = folds.train(number), _known_to(source, folds.train(number).mask)
        fold = without.seen(folds.test(number))
        stage = Stage(
            f"fold {number + 1} of {N_FOLDS}",
            replace(learner, n_documents=rest.weight),
            plan,
            initial,
            without.seen(rest),
        )
        state = yield from state_of(stage)
        documents = cast(Documents, fold.read(0, fold.n_documents))
        assert documents.weights is not None
        local = learner.prepare(documents.taken(np.flatnonzero(documents.weights > 0)))
        scores = joint_scores(learner.model.parameters(state, local.words), local.documents)
        parts.append((scores, local.labels, local.weights))
    scores, labels, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
    best, second = np.sort(np.maximum(scores, -1e300), axis=1)[:, :-3:-1].T
    wrong = np.array([[0.0, np.median(second - best)]])
    losses = tempered_losses(scores, labels, weights) + tempered_losses(wrong, np.ones(1, np.intp), np.ones(1))
    temperature, _ = best_temperature(losses)
    log_p = log_softmax(scores / temperature, axis=1)[np.arange(len(labels)), labels]
    hits = scores.argmax(axis=1) == labels
    accuracy, log_loss = np.average(np.column_stack([hits, -log_p]), axis=0, weights=weights)
    return OutOfFold(temperature, float(accuracy), float(log_loss))


def _known_to(source: Source, mask: np.ndarray) -> Source:
    """Return how documents look to a model of some of them: to it, words of the others alone are unknown."""
    if source.weighting is None:
        return source
    documents = cast(Documents, source.corpus.read(0, source.n_documents))
    entries = np.repeat(mask, np.diff(documents.indptr)) & (documents.data != 0)
    frequency = np.bincount(documents.indices[entries], minlength=source.n_features)
    weighting = replace(source.weighting, n_documents=int(mask.sum()))
    return replace(source, weighting=weighting, trained_on=frequency)
