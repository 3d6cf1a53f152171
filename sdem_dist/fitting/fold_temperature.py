"""The temperature of a model of few documents: by cross-validation, where too few documents could be held out."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
from scipy.special import log_softmax

from sdem_dist.calibration import best_temperature, tempered_losses
from sdem_dist.corpus.folds import Folds
from sdem_dist.documents import Documents
from sdem_dist.engine.plan import Plan
from sdem_dist.engine.stages import MadeByWorkers, Stage, Stages, state_of
from sdem_dist.fitting.training_time import FEW, Other, may_overlap
from sdem_dist.inputs.spec import Source, Trained, final_stage
from sdem_dist.learners.sdem import Sdem
from sdem_dist.models.naive_bayes import NaiveBayes, joint_scores
from sdem_dist.models.word_counts import SdemState

N_FOLDS = 3
FEWEST = 2 * N_FOLDS
"""With fewer documents folds are not used."""
ENOUGH = FEW
"""Documents that give a temperature: once folds have so many, the others are not trained without."""
_log = logging.getLogger(__name__)


class Scores(NamedTuple):
    """Of the documents of a fold by the model without it."""

    scores: np.ndarray
    """ln p(y, d), shape (n_documents, n_classes)."""
    labels: np.ndarray
    weights: np.ndarray


class OutOfFold(NamedTuple):
    """What the predictions of folds give."""

    temperature: float
    accuracy: float
    log_loss: float
    """At that temperature."""


def calibrated_by_folds(
    source: Source,
    learner: Sdem[NaiveBayes],
    plan: Plan,
    initial: MadeByWorkers[SdemState] | None,
    other: Other | None = None,
) -> Stages[Trained]:
    """Yield the trainings without a fold, each in turn until enough is known, then that of all documents.

    Parameters
    ----------
    other : callable or None
        Makes the learner of NCLL and its start, which are tried on the first fold if classes seem to overlap there.
    """
    folds = Folds(source.corpus, N_FOLDS, learner.seed)
    parts = [(yield from _scores_without(source, folds, 0, learner, plan, initial))]
    said = summary_of(parts)
    if other is not None and may_overlap(source.n_documents, learner.model.n_classes, said.accuracy):
        rival, start = other()
        tried = [(yield from _scores_without(source, folds, 0, rival, plan, start, " with ncll"))]
        if summary_of(tried).log_loss < said.log_loss:
            learner, initial, parts = rival, start, tried
        _log.info("classes overlap: held-out documents chose the loss %s", learner.loss)
    for number in range(1, N_FOLDS):
        if sum(len(part.labels) for part in parts) >= ENOUGH:
            break
        parts.append((yield from _scores_without(source, folds, number, learner, plan, initial)))
    said = summary_of(parts)
    found = yield from final_stage(replace(learner, temperature=said.temperature), plan, initial)
    held_out = {"held_out_accuracy": said.accuracy, "held_out_log_loss": said.log_loss}
    return found._replace(history=[{**entry, **held_out} for entry in found.history])


def _scores_without(
    source: Source,
    folds: Folds,
    number: int,
    learner: Sdem[NaiveBayes],
    plan: Plan,
    initial: MadeByWorkers[SdemState] | None,
    how: str = "",
) -> Stages[Scores]:
    """Yield a training without a fold, and return the scores of the fold."""
    rest = folds.train(number)
    without = _known_to(source, rest.mask)
    fold = without.seen(folds.test(number))
    learner = replace(learner, n_documents=rest.weight)
    state = yield from state_of(
        Stage(f"fold {number + 1} of {N_FOLDS}{how}", learner, plan, initial, without.seen(rest))
    )
    documents = cast(Documents, fold.read(0, fold.n_documents))
    assert documents.weights is not None
    local = learner.prepare(documents.taken(np.flatnonzero(documents.weights > 0)))
    scores = joint_scores(learner.model.parameters(state, local.words), local.documents)
    return Scores(scores, local.labels, local.weights)


def summary_of(parts: list[Scores]) -> OutOfFold:
    """Return the temperature that the folds' documents give, and their accuracy and log-loss.

    One more document counts as wrong, by the median margin: where all are right nobody knows how rare errors are.
    """
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
