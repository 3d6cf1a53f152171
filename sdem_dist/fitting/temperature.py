"""The temperature of models that no documents were held out of once: by folds, or by a whole training without some.

Counts of few documents: folds, where too few documents could be held out. Mixtures: their components treat a document's
words or columns as independent, which they are not; so classes seem far surer than they are. A training without some
documents shows how sure the model may be of new ones. Then all documents train the final model, which is the same as
without a temperature.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeAlias, cast

import numpy as np

from sdem_dist.calibration import best_temperature, tempered_losses
from sdem_dist.corpus.base import BaseCorpus
from sdem_dist.corpus.folds import Folds, Selection
from sdem_dist.documents import Documents
from sdem_dist.engine.plan import VALIDATION, AnyStage, History, Monitoring, Stage
from sdem_dist.engine.trainer import Trainer
from sdem_dist.evaluation import class_sums, macro_f1
from sdem_dist.fitting import defaults
from sdem_dist.fitting.holdout import (
    MONITOR,
    Candidate,
    Draws,
    has_rare_classes,
    held_out_figures,
    is_better,
    joined_draws,
    may_overlap,
)
from sdem_dist.inputs.spec import Source, Trained, final_stage
from sdem_dist.inputs.weighted import held_out_documents
from sdem_dist.models.naive_bayes import joint_scores

CURVE_POINTS = 10
"""Evaluations of held-out documents in a training, about."""
_log = logging.getLogger(__name__)


FoldScores: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]
"""ln p(y, d) of the documents of a fold by the model without it, shape (n_documents, n_classes); their labels and
weights."""


def train_by_folds(trainer: Trainer, source: Source, candidates: Sequence[Callable[[], Candidate]]) -> Trained:
    """Run the trainings without a fold, each in turn until enough is known, then that of all documents.

    `candidates`: the second, NCLL, is tried if classes seem to overlap in the first fold.
    """
    candidate = candidates[0]()
    names = source.corpus.all_groups()
    torn = None if names is None or len(np.unique(names)) >= defaults.N_FOLDS else np.arange(len(names))
    folds = Folds(
        source.corpus, defaults.N_FOLDS, candidate.learner.seed, groups=torn
    )  # too few groups are not kept together

    def score(candidate: Candidate, parts: list[FoldScores]) -> None:
        parts.append(_scores_without(trainer, source, folds, len(parts), candidate))

    parts, rival_parts = list[FoldScores](), list[FoldScores]()
    score(candidate, parts)
    if len(candidates) > 1 and may_overlap(source, _summary(parts).accuracy.item()):
        rival = candidates[1]()
        score(rival, rival_parts)
        while len(parts) < defaults.N_FOLDS and _summary(rival_parts).log_loss < _summary(parts).log_loss:
            score(candidate, parts)
            score(rival, rival_parts)
        first, second = (joined_draws([_summary([part]) for part in scored]) for scored in (parts, rival_parts))
        if is_better(first, second):
            candidate, parts = rival, rival_parts
        _log.info("classes overlap: held-out documents chose the loss %s", candidate.learner.loss)
    sizes = np.cumsum([len(labels) for _, labels, _ in parts])
    parts = parts[: int(np.searchsorted(sizes, defaults.FOLDS_HELD_OUT)) + 1]
    while len(parts) < defaults.N_FOLDS and sum(len(labels) for _, labels, _ in parts) < defaults.FOLDS_HELD_OUT:
        score(candidate, parts)
    log_loss, accuracy, temperature = (figure.item() for figure in _summary(parts))
    learner = replace(candidate.learner, temperature=temperature)
    end = final_stage(trainer, learner, candidate.plan, candidate.initial)
    held_out = {"held_out_accuracy": accuracy, "held_out_log_loss": log_loss}
    if has_rare_classes(source) and np.isfinite(accuracy):
        held_out["held_out_macro_f1"] = macro_f1(class_sums(*_all_documents(parts)))
    # One figure for the whole training: of the last epoch, so that nobody takes it for a curve.
    return end._replace(history=[*end.history[:-1], {**end.history[-1], **held_out}])


def _scores_without(
    trainer: Trainer, source: Source, folds: Folds[Any], number: int, candidate: Candidate
) -> FoldScores:
    rest = folds.train(number)
    if source.weighting is not None:  # words that the fold alone has are unknown
        documents = cast(Documents, source.corpus.read(0, source.n_documents))
        entries = np.repeat(cast(np.ndarray, rest.mask), np.diff(documents.indptr)) & (documents.data != 0)
        frequency = np.bincount(documents.indices[entries], minlength=source.n_features)
        source = source.weighed_by(frequency, int(rest.mask.sum()))
    learner = replace(candidate.learner, n_documents=rest.weight)
    name = f"fold {number + 1} of {defaults.N_FOLDS}{candidate.stage.removeprefix('choose')}"
    state = trainer.run(Stage(name, learner, candidate.plan, candidate.initial, source.seen(rest))).state
    documents = cast(Documents, source.seen(folds.test(number)).read(0, rest.n_documents))
    local = learner.prepare(documents.taken(np.flatnonzero(cast(np.ndarray, documents.weights) > 0)))
    scores = joint_scores(learner.model.parameters(state, local.words), local.documents)
    return scores, local.labels, local.weights


def _all_documents(parts: list[FoldScores]) -> FoldScores:
    scores, labels, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
    return scores, labels, weights


def _summary(parts: list[FoldScores]) -> Draws:
    """Return the temperature that the folds' documents give, and their accuracy and log-loss at it, as one draw.

    One more document counts as wrong, by the median margin, since none wrong does not show how rare errors are.
    Without documents, as of a fold whose documents all have weight 0: temperature 1, and NaN.
    """
    scores, labels, weights = _all_documents(parts)
    if not len(labels):
        return Draws(np.array([np.nan]), np.array([np.nan]), np.ones(1))
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
    return Draws(np.array([log_loss]), np.array([accuracy]), np.array([temperature]))


def with_temperature(
    trainer: Trainer,
    fit: Callable[[Trainer, Source], Trained],
    source: Source,
    share: float,
    seed: int,
    class_weight: tuple[float, ...] | None = None,
    count_epochs: Callable[[History], int] | None = None,
) -> Trained:
    """Run the stages of a training without some documents, which give the temperature, and those of one with all.

    Where under 20 documents would be held out, there is no temperature. Where patience may end the training with all,
    it is the first: the other one is as long. Its history is then that of scores that no temperature divides.

    `fit`: runs a training with a source's documents; the last stage is watched.
    `share`: of the documents to hold out, 20,000 at most; `seed` decides which.
    `class_weight`: of each class: one of weight 0 has probability 0, whatever the temperature.
    `count_epochs`: takes the history of a training that patience ended, and returns how many epochs are kept.
    """
    held_out = held_out_of(source.corpus, share, seed, class_weight)
    if held_out is None:
        return fit(trainer, source)
    rest, apart = source.corpus.within(held_out.others), source.corpus.within(held_out)
    scored: Any = apart
    if source.corpus.header.layout == "sparse":  # words that these documents alone have are unknown
        scored = held_out_documents(apart, frequency=source.corpus.document_frequency)
    trained = None if count_epochs is None else fit(trainer, source)
    n_epochs = None if count_epochs is None or trained is None else count_epochs(trained.history)

    def without(stage: AnyStage) -> AnyStage:
        plan = replace(stage.plan, n_epochs=n_epochs) if n_epochs and stage.monitored else stage.plan
        every = max(1, plan.n_epochs // CURVE_POINTS)
        watch = Monitoring(every, source.seen(scored), training=False, main_metrics=("accuracy", MONITOR))
        corpus, name = stage.corpus or source.seen(rest), f"held out: {stage.name}"
        return replace(stage, name=name, plan=plan, corpus=corpus, monitoring=watch if stage.monitored else None)

    others = replace(source, corpus=cast(Any, rest), weight=rest.weight, class_counts=rest.class_weights)
    history = fit(trainer.changed(without), others).history
    temperature = history[-1][f"{VALIDATION}temperature"]
    if not np.isfinite(temperature):
        return trained or fit(trainer, source)
    _log.info("held-out documents chose temperature %.3g", temperature)

    def tempered(stage: AnyStage) -> AnyStage:
        learner: Any = stage.learner
        return replace(stage, learner=replace(learner, temperature=temperature)) if stage.monitored else stage

    trained = trained or fit(trainer.changed(tempered), source)
    learner = replace(cast(Any, trained.learner), temperature=temperature)
    figures = [held_out_figures(entry, MONITOR, source) for entry in history]
    figures += [{}] * (len(trained.history) - len(history))
    return Trained(learner, trained.state, [{**h, **f} for h, f in zip(figures, trained.history, strict=False)])


def held_out_of(
    corpus: BaseCorpus, share: float, seed: int, class_weight: tuple[float, ...] | None = None
) -> Selection | None:
    """Return which documents to hold out, evenly of each class but never all of one; None if they would be too few."""
    labels, weights = corpus.labels(), corpus.weights
    counted = np.ones(corpus.n_documents, bool) if weights is None else weights > 0
    if labels is not None:
        counted &= (labels >= 0) & (True if class_weight is None else np.asarray(class_weight)[labels] > 0)
    n = int(counted.sum())
    if share <= 0 or min(share * n, defaults.MAX_HELD_OUT) < defaults.FEW_HELD_OUT:
        return None
    fewest, names = max(round(1 / share), -(-n // defaults.MAX_HELD_OUT)), corpus.all_groups()
    n_groups = n if names is None else len(np.unique(names))
    torn = None if names is None or n_groups >= fewest else np.arange(len(names))  # too few to be kept together
    parts = min(defaults.HOLDOUT_PARTS, n_groups) if torn is None else defaults.HOLDOUT_PARTS
    part = Fraction(share).limit_denominator(parts) if fewest < parts else Fraction(1, fewest)
    if part * n > defaults.MAX_HELD_OUT:
        part = Fraction(1, fewest)
    mask = counted & (Folds(corpus, part.denominator, seed, groups=torn).numbers < part.numerator)
    if labels is not None:
        remains = np.bincount(labels[counted & ~mask], minlength=int(labels.max()) + 1) > 0
        mask &= remains[labels]
    return Selection.of(mask) if mask.sum() >= defaults.FEW_HELD_OUT // 2 else None
