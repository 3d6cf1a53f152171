"""The temperature of a model of few documents: by cross-validation, where too few documents could be held out."""

import logging
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
from scipy.special import log_softmax

from sdem_dist.calibration import best_temperature, tempered_losses
from sdem_dist.corpus.folds import Folds
from sdem_dist.documents import Documents
from sdem_dist.engine.plan import Plan
from sdem_dist.engine.stages import MadeByWorkers, Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.evaluation import class_sums, macro_f1
from sdem_dist.fitting.training_time import FEW, Other, has_rare_classes, may_overlap
from sdem_dist.inputs.spec import Source, Trained, final_stage
from sdem_dist.learners.sdem import SdEM
from sdem_dist.models.naive_bayes import NaiveBayes, joint_scores
from sdem_dist.models.word_counts import SdemState

N_FOLDS = 3
FEWEST = 2 * N_FOLDS
"""With fewer documents folds are not used."""
ENOUGH = FEW
"""Documents that give a temperature: once the folds so far have this many, no more folds are trained."""
_log = logging.getLogger(__name__)


class Scores(NamedTuple):
    """Scores of the documents of a fold by the model without it."""

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
    trainer: Trainer,
    source: Source,
    learner: SdEM[NaiveBayes],
    plan: Plan,
    initial: MadeByWorkers[SdemState] | None,
    other: Other | None = None,
) -> Trained:
    """Run the trainings without a fold, each in turn until enough is known, then that of all documents.

    `other`: makes the learner of NCLL and its start, which are tried on the first fold if classes seem to overlap
    there.
    """
    names = source.corpus.all_groups()
    torn = None if names is None or len(np.unique(names)) >= N_FOLDS else np.arange(len(names))
    folds = Folds(source.corpus, N_FOLDS, learner.seed, groups=torn)  # groups that are too few are not kept together
    parts = [_scores_without(trainer, source, folds, 0, learner, plan, initial)]
    if other is not None and may_overlap(source, summary_of(parts).accuracy):
        rival, start = other()
        tried = [_scores_without(trainer, source, folds, 0, rival, plan, start, " with ncll")]
        for number in range(1, N_FOLDS):
            if summary_of(tried).log_loss >= summary_of(parts).log_loss:  # no second look
                break
            parts.append(_scores_without(trainer, source, folds, number, learner, plan, initial))
            tried.append(_scores_without(trainer, source, folds, number, rival, plan, start, " with ncll"))
        if is_better(parts, tried):
            learner, initial, parts = rival, start, tried
        _log.info("classes overlap: held-out documents chose the loss %s", learner.loss)
    sizes = np.cumsum([len(part.labels) for part in parts])
    parts = parts[: int(np.searchsorted(sizes, ENOUGH)) + 1]
    for number in range(len(parts), N_FOLDS):
        if sum(len(part.labels) for part in parts) >= ENOUGH:
            break
        parts.append(_scores_without(trainer, source, folds, number, learner, plan, initial))
    said = summary_of(parts)
    found = final_stage(trainer, replace(learner, temperature=said.temperature), plan, initial)
    held_out = {"held_out_accuracy": said.accuracy, "held_out_log_loss": said.log_loss}
    if has_rare_classes(source) and np.isfinite(said.accuracy):
        scores, labels, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
        held_out["held_out_macro_f1"] = macro_f1(class_sums(scores, labels, weights))
    # One figure for the whole training: of the last epoch, so that nobody takes it for a curve.
    return found._replace(history=[*found.history[:-1], {**found.history[-1], **held_out}])


def is_better(first: list[Scores], second: list[Scores]) -> bool:
    """Whether the second loss is as accurate, and lower in log-loss by more than documents differ by chance."""
    (hits, losses), (its_hits, its_losses) = (_outcomes(parts) for parts in (first, second))
    weights, gains = np.concatenate([part.weights for part in first]), losses - its_losses
    if not len(weights):
        return False
    gain = np.average(gains, weights=weights)
    error = np.sqrt(weights**2 @ (gains - gain) ** 2) / weights.sum()
    return bool(weights @ its_hits >= weights @ hits and gain > error)


def _outcomes(parts: list[Scores]) -> tuple[np.ndarray, np.ndarray]:
    """Return which documents are right, and their log-losses at the best temperature."""
    scores, labels = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    log_p = log_softmax(np.maximum(scores, -1e300) / summary_of(parts).temperature, axis=1)
    return scores.argmax(axis=1) == labels, -log_p[np.arange(len(labels)), labels]


def _scores_without(
    trainer: Trainer,
    source: Source,
    folds: Folds,
    number: int,
    learner: SdEM[NaiveBayes],
    plan: Plan,
    initial: MadeByWorkers[SdemState] | None,
    how: str = "",
) -> Scores:
    """Run a training without a fold, and return the scores of the fold."""
    rest = folds.train(number)
    without = _known_to(source, cast(np.ndarray, rest.mask))
    fold = without.seen(folds.test(number))
    learner = replace(learner, n_documents=rest.weight)
    state = trainer.run(Stage(f"fold {number + 1} of {N_FOLDS}{how}", learner, plan, initial, without.seen(rest))).state
    documents = cast(Documents, fold.read(0, fold.n_documents))
    assert documents.weights is not None
    local = learner.prepare(documents.taken(np.flatnonzero(documents.weights > 0)))
    scores = joint_scores(learner.model.parameters(state, local.words), local.documents)
    return Scores(scores, local.labels, local.weights)


def summary_of(parts: list[Scores]) -> OutOfFold:
    """Return the temperature that the folds' documents give, and their accuracy and log-loss.

    One more document counts as wrong, by the median margin, since none wrong does not show how rare errors are.
    Without documents: temperature 1, and NaN.
    """
    scores, labels, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
    if not len(labels):  # a fold whose documents all have weight 0
        return OutOfFold(1.0, float("nan"), float("nan"))
    least = np.maximum(scores, -1e300)
    gaps = least - least.max(axis=1, keepdims=True)
    second, best = np.partition(least, -2, axis=1)[:, -2:].T
    wrong = np.full((1, scores.shape[1]), -1e300)
    wrong[0, :2] = 0.0, np.median(best - second)
    losses = tempered_losses(
        np.concatenate([gaps, wrong]), np.append(labels, 0).astype(np.intp), np.append(weights, 1.0)
    )
    temperature, _ = best_temperature(losses)
    gaps /= temperature
    log_p = gaps[np.arange(len(labels)), labels] - np.log(np.exp(gaps).sum(axis=1))
    hits = scores.argmax(axis=1) == labels
    accuracy, log_loss = np.average(np.column_stack([hits, -log_p]), axis=0, weights=weights)
    return OutOfFold(temperature, float(accuracy), float(log_loss))


def _known_to(source: Source, mask: np.ndarray) -> Source:
    """Return documents as a model of some of them sees them: words that only the others have are unknown."""
    if source.weighting is None:
        return source
    documents = cast(Documents, source.corpus.read(0, source.n_documents))
    entries = np.repeat(mask, np.diff(documents.indptr)) & (documents.data != 0)
    frequency = np.bincount(documents.indices[entries], minlength=source.n_features)
    weighting = replace(source.weighting, n_documents=int(mask.sum()))
    return replace(source, weighting=weighting, trained_on=frequency)
